"""Back up a database during use: one snapshot with its payloads in one file, checked before it is named."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from contextlib import closing
from datetime import datetime
from pathlib import Path
from typing import TypeAlias

from msgspec import Struct
from msgspec.structs import replace

from lossless.config import is_file, make_directory
from lossless.engine.backup import copy_database
from lossless.engine.backup.backup_file import (
    DATABASE,
    FORMAT,
    VERSION,
    BackupManifest,
    Bundle,
    drafting,
    pack,
    refuse_if_full,
    sync,
)
from lossless.engine.shared.abandoned_drafts import remove_drafts
from lossless.engine.shared.file_store import Files
from lossless.engine.shared.output_paths import refuse_ours
from lossless.engine.shared.runtime import Runtime
from lossless.errors import InvalidInput, StoreCorrupt
from lossless.model import Backup
from lossless.store.rows.types import Dump
from lossless.store.store import Store
from lossless.version import __version__

TABLES = ("conversation", "message", "summary", "file")
"""Tables whose rows are counted; every schema has them."""
Open: TypeAlias = Callable[[Path, bool], Store]
"""Opens a file as a database, read-only or not."""
Prove: TypeAlias = Callable[[Path | None], tuple[str, ...]]
"""Returns the violations of the promise for all owners: in the copy if it can be opened, otherwise in the source."""


class BackupRequest(Struct, frozen=True):
    """The file to write, and how to open and prove the copy in it."""

    path: Path
    open: Open
    at: datetime
    """The time of the backup."""
    mark: str = ""
    """The stored mark that identifies the database, or "" if it has none."""
    replace: bool = False
    """Replace an earlier backup of the same database."""
    prove: Prove | None = None


def backup(runtime: Runtime, request: BackupRequest) -> Backup:
    """Copy everything of all owners to a new file, which then replaces an earlier backup."""
    path, prove = request.path, request.prove
    _refuse_to_replace(runtime, request)
    lost = {name for name in _payloads(runtime.store) if not runtime.files.exists(name)}
    remove_drafts(path.parent, request.at.timestamp())
    with drafting(path) as draft:
        manifest, names, linked = _copy_snapshot(runtime, request, draft)
        readable = manifest.form == "sqlite"
        if readable:
            check(request.open, draft / DATABASE, manifest)
        flaws = prove(draft / DATABASE if readable else None) if prove else ()
        pack(draft / "backup", manifest, draft / DATABASE, names, linked, runtime.files)
        with Bundle(draft / "backup") as bundle:
            done = replace(bundle.describe(), path=str(path), proved=prove is not None)
        if prove:
            flaws += tuple(
                f"files: {name[:16]} is damaged or missing" for name in done.missing_files if name not in lost
            )
            done = replace(done, flaws=flaws)
        _refuse_to_replace(runtime, request)
        os.replace(draft / "backup", path)
        sync(path.parent)
    return done


def _refuse_to_replace(runtime: Runtime, request: BackupRequest) -> None:
    path = request.path
    if not path.exists():
        refuse_ours(path, database=runtime.store.location, files=runtime.files.root)
        return
    if not (request.replace and path.is_file()):
        raise InvalidInput(f"{path} is there already.", hint="Choose another name; only a rolling backup is replaced.")
    way_out = "Choose another label or directory, or move that file away."
    try:
        with Bundle(path, whole=False) as bundle:
            theirs = bundle.manifest
    except InvalidInput as error:
        raise InvalidInput(f"{path} is there, and is no backup that can be read.", hint=way_out) from error
    known = ((theirs.place, _place(runtime.store)), (theirs.mark, request.mark))
    if any(one and other and one != other for one, other in known):
        raise InvalidInput(f"{path} is a backup of another database ({theirs.place}).", hint=way_out)


def _place(store: Store) -> str:
    place = store.place()
    return "" if place is None else str(place) if is_file(store.location) else place.name


def _copy_snapshot(runtime: Runtime, request: BackupRequest, draft: Path) -> tuple[BackupManifest, list[str], Files]:
    """Copy one snapshot of the database; return its manifest, its payloads and the links to them."""
    store, target = runtime.store, draft / DATABASE
    with store.snapshot():
        counts = {table: store.tables.count(table) for table in TABLES}
        sizes = _payloads(store)
        linked = _link_payloads(runtime.files, sizes, draft / "files")
        refuse_if_full(draft, sum(sizes.values()) + (store.size() if is_file(store.location) else 0))
        made = store.dump(target)
        if not made.form:
            made = _copy_rows(runtime, request, target, made.by)
        manifest = BackupManifest(
            *(FORMAT, VERSION, request.at, __version__, made.form, made.by, store.version(), counts),
            place=_place(store),
            mark=request.mark,
        )
    return manifest, sorted(sizes), linked


def _link_payloads(files: Files, names: Iterable[str], root: Path) -> Files:
    """Hard-link the payloads where possible, so that none is removed before it is packed."""
    for name in names:
        path = root / name[:2] / name
        make_directory(path.parent)
        try:
            os.link(files.root / name[:2] / name, path)
        except FileNotFoundError:
            continue
        except OSError:
            break  # another disk, or no hard links: they are read in place
    return Files(root)


def _payloads(store: Store) -> dict[str, int]:
    shape = store.tables.shape("file")
    name, size = shape.columns.index("sha256"), shape.columns.index("bytes")
    with closing(store.tables.rows(shape)) as rows:
        return {row[name]: row[size] for row in rows}


def _copy_rows(runtime: Runtime, request: BackupRequest, target: Path, why: str) -> Dump:
    """Copy the rows of a server to a database file, if no dump program is available."""
    copy = request.open(target, False)
    try:
        micros = int(request.at.timestamp() * 1_000_000)
        copy_database.move(
            runtime.store, runtime.files, copy, runtime.files, now=micros, progress=lambda table, done, total: None
        )
    finally:
        copy.close()
    return Dump("sqlite", f"lossless {__version__} ({why})")


def check(open_: Open, path: Path, manifest: BackupManifest) -> None:
    """Open a database read-only and compare it with its manifest."""
    store = open_(path, True)
    try:
        refuse_difference(store, manifest)
        if problems := store.damage():
            raise StoreCorrupt(f"The copy is damaged: {problems[0]}.", hint="`lcm doctor` checks the database itself.")
    finally:
        store.close()


def refuse_difference(store: Store, manifest: BackupManifest) -> None:
    """Raise `StoreCorrupt` unless schema and numbers of rows match the manifest."""
    found = {table: store.tables.count(table) for table in TABLES}
    if (store.version(), found) != (manifest.schema, manifest.counts):
        raise StoreCorrupt(
            f"The copy has schema {store.version()} and rows {found}; the manifest says {manifest.schema} and {manifest.counts}.",
            hint="A disk may be failing. Try again, in another place.",
        )
