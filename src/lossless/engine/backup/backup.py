"""Back a database up while others write to it: one snapshot, its payloads, one file, checked before it gets its name."""

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
    Bundle,
    Manifest,
    drafting,
    pack,
    refuse_if_full,
    sync,
)
from lossless.engine.shared.drafts import remove_drafts
from lossless.engine.shared.file_store import Files
from lossless.engine.shared.output_paths import refuse_ours
from lossless.engine.shared.runtime import Runtime
from lossless.errors import InvalidInput, StoreCorrupt
from lossless.model import Backup
from lossless.store.base import Dump
from lossless.store.store import Store
from lossless.version import __version__

TABLES = ("conversation", "message", "summary", "file")
"""Those whose rows are counted: they have been there since the first schema."""
Open: TypeAlias = Callable[[Path, bool], Store]
"""Opens a file as a database, for reading only or not."""
Prove: TypeAlias = Callable[[Path | None], tuple[str, ...]]
"""What of the promise does not hold, for any owner: in a copy that can be opened, otherwise where it was copied from."""


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
    """Copy everything, of all owners, into one new file; an earlier one is replaced once the new one is complete."""
    path, prove = request.path, request.prove
    _refuse_to_replace(runtime, request)
    lost = {name for name in _payloads(runtime.store) if not runtime.files.exists(name)}
    remove_drafts(path.parent, request.at.timestamp())
    with drafting(path) as draft:
        manifest, names, held = _copied(runtime, request, draft)
        readable = manifest.form == "sqlite"
        if readable:
            check(request.open, draft / DATABASE, manifest)
        flaws = prove(draft / DATABASE if readable else None) if prove else ()
        pack(draft / "backup", manifest, draft / DATABASE, names, held, runtime.files)
        with Bundle(draft / "backup") as bundle:
            done = replace(bundle.told(), path=str(path), proved=prove is not None)
        if prove:
            flaws += tuple(f"files: {name[:16]} is damaged or gone" for name in done.missing_files if name not in lost)
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


def _copied(runtime: Runtime, request: BackupRequest, draft: Path) -> tuple[Manifest, list[str], Files]:
    """The database as it is at one moment, the payloads that belong to it, and where they are held."""
    store, target = runtime.store, draft / DATABASE
    with store.snapshot():
        counts = {table: store.tables.count(table) for table in TABLES}
        sizes = _payloads(store)
        held = _held(runtime.files, sizes, draft / "files")
        refuse_if_full(draft, sum(sizes.values()) + (store.size() if is_file(store.location) else 0))
        made = store.dump(target)
        if not made.form:
            made = _moved(runtime, request, target, made.by)
        manifest = Manifest(
            *(FORMAT, VERSION, request.at, __version__, made.form, made.by, store.version(), counts),
            place=_place(store),
            mark=request.mark,
        )
    return manifest, sorted(sizes), held


def _held(files: Files, names: Iterable[str], root: Path) -> Files:
    """The payloads under second names, so that nobody takes them away before they are packed, if this disk has them."""
    for name in names:
        path = root / name[:2] / name
        make_directory(path.parent)
        try:
            os.link(files.root / name[:2] / name, path)
        except FileNotFoundError:
            continue
        except OSError:
            break  # another disk, or one without second names: they are read where they are
    return Files(root)


def _payloads(store: Store) -> dict[str, int]:
    shape = store.tables.shape("file")
    name, size = shape.columns.index("sha256"), shape.columns.index("bytes")
    with closing(store.tables.rows(shape)) as rows:
        return {row[name]: row[size] for row in rows}


def _moved(runtime: Runtime, request: BackupRequest, target: Path, why: str) -> Dump:
    """Where no program makes a dump of a server's database, its rows go into a file, and are compared there."""
    copy = request.open(target, False)
    try:
        micros = int(request.at.timestamp() * 1_000_000)
        copy_database.move(
            runtime.store, runtime.files, copy, runtime.files, now=micros, progress=lambda table, done, total: None
        )
    finally:
        copy.close()
    return Dump("sqlite", f"lossless {__version__} ({why})")


def check(open_: Open, path: Path, manifest: Manifest) -> None:
    """Open a database for reading; what its manifest says must be true of it."""
    store = open_(path, True)
    try:
        refuse_difference(store, manifest)
        if problems := store.damage():
            raise StoreCorrupt(
                f"The copy is damaged: {problems[0]}.", hint="`lcm doctor` looks at the database itself."
            )
    finally:
        store.close()


def refuse_difference(store: Store, manifest: Manifest) -> None:
    """The schema and the number of rows are those of the manifest."""
    found = {table: store.tables.count(table) for table in TABLES}
    if (store.version(), found) != (manifest.schema, manifest.counts):
        raise StoreCorrupt(
            f"The copy has schema {store.version()} and rows {found}; {manifest.schema} and {manifest.counts} were told.",
            hint="A disk may be failing. Try again, in another place.",
        )
