"""Put a backup in the place of a database: checked first, in one step, with what was there kept aside."""

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
from lossless.engine.backup.backup_file import DATABASE, Bundle, drafting, refuse_if_full, telling
from lossless.engine.shared.file_store import Files
from lossless.engine.sync.lag import unread
from lossless.errors import InvalidInput
from lossless.model import Lagging, Restored
from lossless.store.base import Site, Store


class Means(Struct, frozen=True):
    """What a backup is restored with."""

    site: Site
    location: str
    """The site's name, as it may be told."""
    files: Files
    own_files: bool
    """Whether that directory belongs to the one database that is there."""
    open: Open
    inspect: Callable[[Path, int, str], None]
    """Refuses a file that holds anything but rows of one of our schemas."""
    open_there: Open
    """As `open`; it opens the database at the site, whatever path it is given."""
    now: datetime


def restore(means: Means, bundle: Bundle, *, replaces: bool, apply: bool) -> Restored:
    """Restore to a free place, or with `replaces` to any; what is there is replaced only with `apply`."""
    site, form = means.site, bundle.manifest.form
    if form not in ("sqlite", site.form):
        raise InvalidInput(
            f"{bundle.path} holds a database of PostgreSQL, and {means.location} is a file.",
            hint="Name a postgresql:// URL; `lcm migrate` makes a file of it.",
        )
    told = Restored(means.location, bundle.told(), site.is_taken())
    if told.replaces and not replaces:
        raise InvalidInput(
            f"There is a database at {means.location}.", hint="Name another place, or --replace it: it is kept aside."
        )
    with telling(site.beside):
        make_directory(site.beside.parent)
    with drafting(site.beside) as draft:
        refuse_if_full(draft, bundle.unpacked)
        database = draft / DATABASE
        bundle.unpack_database(database)
        if form == "sqlite":
            means.inspect(database, bundle.manifest.schema, str(bundle.path))
            check(means.open, database, bundle.manifest)
        if told.replaces and not apply:
            return replace(told, transcripts=_unread(means, database)) if form == "sqlite" else told
        if form == site.form == "sqlite":
            # Rows into a schema of ours: whatever else is in the file stays behind.
            database = _rows_of(means, database, draft / "restored")
        with site.cleared(means.now, replaces=told.replaces) as aside, _files_kept(means, aside) as files:
            _put(means, bundle, database)
    with closing(means.open_there(bundle.path, True)) as there:
        transcripts = tuple(each for _, each in unread(there, means.now.timestamp()))
    return replace(told, aside=(*aside, *files), applied=True, transcripts=transcripts)


def _unread(means: Means, database: Path) -> tuple[Lagging, ...]:
    """What transcripts say since a backup was made; the copy is brought up to date for it."""
    with closing(means.open(database, False)) as store:
        return tuple(each for _, each in unread(store, means.now.timestamp()))


@contextmanager
def _files_kept(means: Means, aside: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
    """The payloads of the database that goes aside, with it: what nothing refers to any more is removed here one day."""
    path = Path(next(iter(aside), ""))
    if path.suffix != ".db" or not (means.own_files and means.files.root.is_dir()):
        yield ()
        return
    kept = path.with_name(f"{path.stem}-files")
    try:
        with telling(kept):
            _name_too(means.files.root, kept)
        yield (str(kept),)
    except BaseException:
        shutil.rmtree(kept, ignore_errors=True)
        raise


def _name_too(root: Path, kept: Path) -> None:
    for directory, _, names in os.walk(root):
        there = kept / Path(directory).relative_to(root)
        make_directory(there)
        for name in names:
            try:
                # A payload is never written to once it is there, so that two names for it are as good as two of it.
                os.link(f"{directory}/{name}", there / name)
            except OSError:
                shutil.copy2(f"{directory}/{name}", there / name, follow_symlinks=False)


def _put(means: Means, bundle: Bundle, database: Path) -> None:
    put: list[str] = []
    try:
        put = bundle.unpack_payloads(means.files)
        if bundle.manifest.form == means.site.form:
            means.site.load(database, bundle.manifest.schema)
        else:
            _move_in(means, database)
        _check_there(means, bundle)
    except BaseException:
        for name in put:
            means.files.remove(name)
        raise


def _move_in(means: Means, database: Path) -> None:
    """A file's rows into a server's database."""
    with means.site.filling() as there:
        _move(means, database, there)


def _rows_of(means: Means, database: Path, target: Path) -> Path:
    """A file's rows in a new file."""
    with closing(means.open(target.with_name("moved"), False)) as there:
        _move(means, database, there)
        with there.snapshot():
            there.dump(target)  # which leaves no log of writes beside it
    return target


def _move(means: Means, database: Path, there: Store) -> None:
    """Every row of a file, which is opened for writing first: that brings an old one up to date."""
    with closing(means.open(database, False)) as source:
        micros = int(means.now.timestamp() * 1_000_000)
        copy_database.move(
            source, means.files, there, means.files, now=micros, progress=lambda table, done, total: None
        )


def _check_there(means: Means, bundle: Bundle) -> None:
    there = means.open_there(bundle.path, True)
    try:
        refuse_difference(there, replace(bundle.manifest, schema=there.version()))
    finally:
        there.close()
