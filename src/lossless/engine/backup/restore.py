"""Restore a backup in place of a database: checked first, in one step; the previous database is kept."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from datetime import datetime
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from lossless.config import make_directory
from lossless.engine.backup import copy_database
from lossless.engine.backup.backup import Open, check, refuse_difference
from lossless.engine.backup.backup_file import DATABASE, Bundle, drafting, refuse_if_full, translated_errors
from lossless.engine.shared.file_store import Files
from lossless.engine.sync.lag import unread_transcripts
from lossless.errors import InvalidInput
from lossless.model import LaggingTranscript, Restored
from lossless.store.store import Site, Store


class RestoreTarget(Struct, frozen=True):
    """The place that a backup is restored to."""

    site: Site
    location: str
    """The name of the site, without its password."""
    files: Files
    own_files: bool
    """True if that directory belongs to this database only."""
    open: Open
    inspect: Callable[[Path, int, str], None]
    """Refuses a file with anything else than rows of one of our schemas."""
    open_there: Open
    """As `open`; it opens the database at the site, whatever path it is given."""
    at: datetime
    """The time of the restore."""


def restore(target: RestoreTarget, bundle: Bundle, *, replaces: bool, apply: bool) -> Restored:
    """Restore to a free place, or with `replaces` to any; what is there is replaced only with `apply`."""
    site, form = target.site, bundle.manifest.form
    if form not in ("sqlite", site.form):
        raise InvalidInput(
            f"{bundle.path} holds a database of PostgreSQL, and {target.location} is a file.",
            hint="Name a postgresql:// URL; `lcm migrate` makes a file of it.",
        )
    report = Restored(target.location, bundle.describe(), site.is_taken())
    if report.replaces and not replaces:
        raise InvalidInput(
            f"There is a database at {target.location}.", hint="Name another place, or --replace it: it is kept aside."
        )
    with translated_errors(site.beside):
        make_directory(site.beside.parent)
    with drafting(site.beside) as draft:
        refuse_if_full(draft, bundle.unpacked)
        database = draft / DATABASE
        bundle.unpack_database(database)
        if form == "sqlite":
            target.inspect(database, bundle.manifest.schema, str(bundle.path))
            check(target.open, database, bundle.manifest)
        if report.replaces and not apply:
            return replace(report, transcripts=_unread(target, database)) if form == "sqlite" else report
        if form == site.form == "sqlite":
            # Copy rows into our own schema: anything else in the file is dropped.
            database = _copy_to_file(target, database, draft / "restored")
        with site.cleared(target.at, replaces=report.replaces) as aside, _keep_files(target, aside) as files:
            _put(target, bundle, database)
    with closing(target.open_there(bundle.path, True)) as there:
        transcripts = tuple(each for _, each in unread_transcripts(there, target.at.timestamp()))
    return replace(report, aside=(*aside, *files), applied=True, transcripts=transcripts)


def _unread(target: RestoreTarget, database: Path) -> tuple[LaggingTranscript, ...]:
    """Return the transcripts with messages since the backup; the copy is migrated for this."""
    with closing(target.open(database, False)) as store:
        return tuple(each for _, each in unread_transcripts(store, target.at.timestamp()))


@contextmanager
def _keep_files(target: RestoreTarget, aside: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
    """Keep the payloads of the previous database beside it, because garbage collection removes them here."""
    path = Path(next(iter(aside), ""))
    if path.suffix != ".db" or not (target.own_files and target.files.root.is_dir()):
        yield ()
        return
    kept = path.with_name(f"{path.stem}-files")
    try:
        with translated_errors(kept):
            _link_tree(target.files.root, kept)
        yield (str(kept),)
    except BaseException:
        shutil.rmtree(kept, ignore_errors=True)
        raise


def _link_tree(root: Path, kept: Path) -> None:
    for directory, _, names in os.walk(root):
        there = kept / Path(directory).relative_to(root)
        make_directory(there)
        for name in names:
            try:
                # A payload never changes once it is written, so a second link is as good as a copy.
                os.link(f"{directory}/{name}", there / name)
            except OSError:
                shutil.copy2(f"{directory}/{name}", there / name, follow_symlinks=False)


def _put(target: RestoreTarget, bundle: Bundle, database: Path) -> None:
    put: list[str] = []
    try:
        put = bundle.unpack_payloads(target.files)
        if bundle.manifest.form == target.site.form:
            target.site.load(database, bundle.manifest.schema)
        else:
            _copy_to_server(target, database)
        _check_there(target, bundle)
    except BaseException:
        for name in put:
            target.files.remove(name)
        raise


def _copy_to_server(target: RestoreTarget, database: Path) -> None:
    """Copy the rows of a file to a server."""
    with target.site.filling() as there:
        _copy_rows(target, database, there)


def _copy_to_file(target: RestoreTarget, database: Path, path: Path) -> Path:
    """Copy the rows of a file to a new file."""
    with closing(target.open(path.with_name("moved"), False)) as there:
        _copy_rows(target, database, there)
        with there.snapshot():
            there.dump(path)  # which leaves no write-ahead log beside it
    return path


def _copy_rows(target: RestoreTarget, database: Path, there: Store) -> None:
    """Copy every row of a file, after migrating it by opening it for writing."""
    with closing(target.open(database, False)) as source:
        micros = int(target.at.timestamp() * 1_000_000)
        copy_database.move(
            source, target.files, there, target.files, now=micros, progress=lambda table, done, total: None
        )


def _check_there(target: RestoreTarget, bundle: Bundle) -> None:
    there = target.open_there(bundle.path, True)
    try:
        refuse_difference(there, replace(bundle.manifest, schema=there.version()))
    finally:
        there.close()
