"""Choose the path of a backup, write and prove it, and restore one."""

from __future__ import annotations

import re
from collections.abc import Callable
from contextlib import closing, suppress
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec.structs import replace

from lossless.config import Settings, is_file, make_directory
from lossless.engine.backup import backup as engine
from lossless.engine.backup import restore as restoring
from lossless.engine.backup.backup_file import Bundle
from lossless.engine.shared.file_store import Files
from lossless.engine.shared.files_dir import files_dir, is_exclusive
from lossless.engine.sync.lag import unread_transcripts
from lossless.errors import InvalidInput, StoreError
from lossless.model import Backup, Proof, Restored
from lossless.store import migrate
from lossless.store.sql import backups
from lossless.store.store import Site, Store

if TYPE_CHECKING:
    from lossless.client.lossless import Lossless

OpenStore = Callable[[str, bool], Store]
"""Opens a database by its name, for reading only or not."""


def backup(
    lcm: Lossless, path: str | Path | None, rolling: str | None, prove: bool, now: datetime, open_store: OpenStore
) -> Backup:
    """See `Lossless.backup`."""
    target = _target(lcm._store, None if path is None else Path(path), rolling, now)
    mark = _mark(lcm, rolling is not None, open_store)
    request = engine.BackupRequest(
        path=target,
        open=lambda each, read_only: open_store(str(each), read_only),
        at=now,
        mark=mark,
        replace=rolling is not None,
        prove=(lambda copy: _flaws(lcm, copy)) if prove else None,
    )
    return engine.backup(lcm._runtime, request)


def _target(store: Store, path: Path | None, rolling: str | None, now: datetime) -> Path:
    place, is_directory = store.place(), path is not None and path.is_dir()
    if path is not None and not is_directory:
        if rolling is not None:
            raise InvalidInput(
                f"{path} is no directory.", hint="A rolling backup has a name of its own: name a directory."
            )
        return path
    if place is None:
        if path is None:
            raise InvalidInput("A database in memory has nothing beside it.", hint="Name a path for the backup.")
        place = Path("lcm.db")
    if path is not None:
        place = path / place.name
    elif not is_file(store.location):
        make_directory(place.parent)
    return backups.backup(place, now) if rolling is None else backups.rolling(place, _label(rolling))


def _mark(lcm: Lossless, needed: bool, open_store: OpenStore) -> str:
    """Return the mark that identifies the database, if it has one; if needed, it gets one although it is open for reading."""
    store, now = lcm._store, lcm._now()
    mark = store.backups.mark(now)
    # To open an older one for writing would bring it up to date, which is not what a backup is for.
    if needed and not mark and store.version() == max(migrate.steps("sqlite")):
        with suppress(StoreError), closing(open_store(lcm.settings.database, False)) as writer:
            return writer.backups.mark(now)
    return mark


def _label(text: str) -> str:
    label = re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-")
    if not label or len(label) > 60:
        raise InvalidInput(f"{text!r} is no label.", hint="Give some letters and digits, such as nightly.")
    return label


def _flaws(lcm: Lossless, copy: Path | None) -> tuple[str, ...]:
    """Return a sentence for each conversation, of any owner, in which a message is missing."""
    database = lcm.settings.database if copy is None else str(copy)
    found = []
    for owner in _owners(lcm._store):
        with type(lcm).open(database, owner=owner, read_only=True, settings=lcm.settings, on_event=lcm._on_event) as it:
            found += [_sentence(proof) for proof in it.doctor.prove() if not proof.holds]
    return tuple(found)


def _owners(store: Store) -> list[str]:
    shape = store.tables.shape("conversation")
    with closing(store.tables.rows(shape)) as rows:
        return sorted({row[shape.columns.index("owner")] for row in rows})


def _sentence(proof: Proof) -> str:
    problems = ", ".join((*proof.broken, *(f"{len(proof.changed)} changed" for _ in proof.changed[:1])))
    return f"{proof.key}: {problems or f'{proof.missing} missing'}"


def restore(
    path: str | Path, settings: Settings, replaces: bool, apply: bool, now: datetime, open_store: OpenStore
) -> Restored:
    """See `Lossless.restore`."""
    database = settings.database
    if database == ":memory:":
        raise InvalidInput("A database in memory would be gone at once.", hint="Name a file or a postgresql:// URL.")
    from lossless.store.sqlite.untrusted_backup import refuse_programs

    site, location = _site(database)
    files, own_files = _files(site, settings, open_store)
    target = restoring.RestoreTarget(
        site=site,
        location=location,
        files=files,
        own_files=own_files,
        open=lambda each, read_only: open_store(str(each), read_only),
        inspect=refuse_programs,
        open_there=lambda _, read_only: open_store(database, read_only),
        at=now,
    )
    with Bundle(Path(path)) as bundle:
        return restoring.restore(target, bundle, replaces=replaces, apply=apply)


def leave_out(
    lossless: type[Lossless], done: Restored, settings: Settings, now: float, open_store: OpenStore
) -> Restored:
    """Read what transcripts say since a backup and keep nothing of it but its places: it does not come back."""
    with closing(open_store(settings.database, True)) as store:
        waiting = unread_transcripts(store, now)
    count = 0
    for owner in dict.fromkeys(owner for owner, _ in waiting):
        with lossless.open(settings.database, owner=owner, settings=settings, clock=lambda: now) as lcm:
            before = {row.id: (row.next_seq, _file_ids(lcm, row.id)) for row in lcm._store.conversations.of_owner()}
            for _, each in (each for each in waiting if each[0] == owner):
                lcm.conversation(each.key).bootstrap(each.path)
            for row in lcm._store.conversations.of_owner():
                first, files = before.get(row.id, (1, set[str]()))
                with lcm._store.transaction():
                    count += len(
                        lcm._store.context.bury(row.id, range(first, row.next_seq), "forgotten", int(now * 1_000_000))
                    )
                    lcm._store.erase.remove_files(row.id, sorted(_file_ids(lcm, row.id) - files))
    return replace(done, transcripts=(), left_out=count)


def _file_ids(lcm: Lossless, conversation_id: int) -> set[str]:
    return {file.id for file in lcm._store.files.of_conversation(conversation_id)}


def _files(site: Site, settings: Settings, open_store: OpenStore) -> tuple[Files, bool]:
    """Return the directory of the files, and whether no other database uses it."""
    named = settings.large_files_dir is not None
    with suppress(StoreError), closing(open_store(settings.database, True)) as store:
        files = Files(files_dir(store, settings))
        return files, is_exclusive(store, files)
    # There is none, or none that can be opened.
    usual = named or is_file(settings.database)
    return Files(settings.files_dir if usual else site.beside.with_name(f"{site.beside.name}-files")), not named


def _site(database: str) -> tuple[Site, str]:
    if is_file(database):
        from lossless.store.sqlite.replace_database import FileSite

        return FileSite(Path(database)), str(Path(database).absolute())
    from lossless.config import redact_url
    from lossless.store.postgres.replace_database import SchemaSite

    return SchemaSite(database), redact_url(database)
