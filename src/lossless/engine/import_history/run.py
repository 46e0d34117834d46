"""Import histories: transcripts of other programs, databases of other systems, archives of our own.

The content of a file decides what it is. Each file is imported on its own and completely, so that a problem in one does not
affect the others, and an interrupted run is simply repeated. An unchanged transcript is recognized by its size and time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing
from datetime import datetime
from pathlib import Path
from typing import Literal, TypeAlias

from msgspec import Struct, field

from lossless.engine.import_history.discovery import CandidateFile, discover
from lossless.engine.import_history.import_context import ImportContext
from lossless.engine.import_history.import_database import database
from lossless.engine.ingest.heartbeats import prune
from lossless.engine.sync.placement import Transcript
from lossless.engine.sync.preview import preview
from lossless.engine.sync.read import SEPARATE, UNREACHABLE, bootstrap
from lossless.engine.sync.read_marks import PREFIX, ReadMark, cursor_name, is_unchanged, load_mark
from lossless.engine.sync.store_entries import Progressed
from lossless.errors import InvalidInput, LosslessError, NotOurDatabase, StoreCorrupt, StoreError, StoreReadOnly
from lossless.imports.base import Source
from lossless.model import Bootstrapped, ImportedSource, ImportReport
from lossless.store.header import beginning
from lossless.store.store import Store
from lossless.transcripts.base import Header

Progress: TypeAlias = Callable[[str, int, int], None]
"""Called with the path, the bytes read so far, and the total bytes."""

_UNKNOWN = "It is not a known transcript, database or archive."
Status: TypeAlias = Literal["would-import", "imported", "up-to-date", "skipped", "error"]


class ReadMarks(Struct):
    """The positions up to which transcripts were read, by cursor name."""

    marks: dict[str, tuple[str, ReadMark]] = field(default_factory=dict)
    """With the key of the conversation."""
    orphans: dict[str, list[int]] = field(default_factory=dict)
    """Sub-agents' conversations that came before their parent, by its key."""

    def key(self, path: Path) -> str | None:
        """Return the key of the conversation that a file was read into."""
        found = self.marks.get(cursor_name(path))
        return found[0] if found else None

    def offset(self, path: Path) -> int:
        """Return the position up to which a file was read."""
        return self.marks.get(cursor_name(path), ("", ReadMark()))[1].offset

    def unchanged(self, found: CandidateFile, now: int) -> ImportedSource | None:
        """Return the report on a transcript that did not change since it was read, else None."""
        key, mark = self.marks.get(cursor_name(found.path), ("", ReadMark()))
        if not is_unchanged(mark, found.stat, now):
            return None
        return ImportedSource(path=str(found.path), status="up-to-date", kind=mark.format, key=key, known=mark.number)


def load_read_marks(store: Store, key: str | None = None) -> ReadMarks:
    """Return all read marks, or those under one key.

    Of a file that was read into two conversations, the newer one counts.
    """
    rows = {row.id: row for row in store.conversations.of_owner()}
    stored = [
        (rows[number], source, load_mark(state))
        for number, source, state in store.state.cursors(PREFIX)
        if number in rows
    ]
    found = ReadMarks()
    for row, source, mark in sorted(stored, key=lambda each: each[2].read_at):
        if key in (None, row.key):
            found.marks[source] = (row.key, mark)
        if mark.parent_key and row.parent is None:
            found.orphans.setdefault(mark.parent_key, []).append(row.id)
    return found


def marks_of(store: Store, path: Path) -> ReadMarks:
    """Return the read mark of one file: its newest, if it was read into two conversations."""
    source, found = cursor_name(path), ReadMarks()
    states = [(number, load_mark(state)) for number, name, state in store.state.cursors(source) if name == source]
    for number, mark in sorted(states, key=lambda each: each[1].read_at):
        if row := store.conversations.get(number):
            found.marks[source] = (row.key, mark)
    return found


def run(
    context: ImportContext,
    paths: Iterable[Path],
    *,
    apply: bool,
    key: str | None = None,
    since: datetime | None = None,
    limit: int | None = None,
    progress: Progress = lambda path, done, total: None,
) -> ImportReport:
    """Import the files that the paths lead to, or report what that would be. Files older than `since` are skipped.

    At most `limit` files are read; unchanged ones do not count.
    """
    if apply and context.runtime.store.read_only:
        raise StoreReadOnly("The database is open for reading only.", hint="Open it for writing to import.")
    rows: list[ImportedSource] = []
    found = list(discover(paths, rows))
    if key is not None and len(found) > 1:
        raise InvalidInput(
            f"{key} is one conversation, and {len(found)} files were found.", hint="Name one transcript."
        )
    oldest = float("-inf") if since is None else since.timestamp()
    young = [each for each in found if each.stat.st_mtime >= oldest]
    marks = load_read_marks(context.runtime.store, key)
    pending: list[CandidateFile] = []
    for each in young:
        if row := marks.unchanged(each, context.runtime.now()):
            rows.append(row)
        else:
            pending.append(each)
    # A file that a program rotated is older than the one it continues with, whatever their names.
    pending.sort(key=lambda each: (each.stat.st_mtime_ns, each.path))
    taken = pending[:limit]
    rows += _ImportRun(
        context=context,
        marks=marks,
        key=key,
        apply=apply,
        progress=progress,
        total=sum(each.stat.st_size for each in taken),
    ).all(taken)
    left = len(found) - len(young) + len(pending) - len(taken)
    return ImportReport(tuple(sorted(rows, key=lambda row: row.path)), apply, left)


class _ImportRun(Struct):
    """The import of some files, one after another."""

    context: ImportContext
    marks: ReadMarks
    key: str | None
    apply: bool
    progress: Progress
    total: int
    done: int = 0

    def all(self, found: Sequence[CandidateFile]) -> Iterator[ImportedSource]:
        for each in found:
            yield self._guarded(each)
            self.done += each.stat.st_size
            self.progress(str(each.path), self.done, self.total)

    def _guarded(self, found: CandidateFile) -> ImportedSource:
        try:
            return self._one(found)
        except StoreError as error:
            if found.header is not None:
                raise  # it is our own database that fails, and it would fail for the next file too
            return ImportedSource(str(found.path), "error", reason=str(error))
        except LosslessError as error:
            return ImportedSource(str(found.path), "error", reason=str(error))
        except Exception as error:  # noqa: BLE001 - whatever is wrong with a file, the others do not wait for it
            return ImportedSource(str(found.path), "error", reason=f"{type(error).__name__}: {error}")

    def _one(self, found: CandidateFile) -> ImportedSource:
        def progressed(read: int, size: int) -> None:
            self.progress(str(found.path), self.done + read, self.total)

        source = None if found.looks_like_transcript else self._source(found)
        if isinstance(source, ImportedSource):
            return source
        if source is None:
            wrong = found.header is None and found.recognise()
            return wrong or transcript(self.context, self.marks, found, self.key, self.apply, progressed)
        with closing(source):
            if self.key is not None:
                raise InvalidInput("It is a database of many conversations.", hint="Do not give a key for it.")
            return database(self.context, source, found, self.apply, progressed)

    def _source(self, found: CandidateFile) -> Source | ImportedSource | None:
        """Open a database or an archive; a report if it is unknown, None if it is a transcript."""
        try:
            return self.context.open(found.path)
        except (NotOurDatabase, StoreCorrupt, InvalidInput) as error:
            if isinstance(error, StoreCorrupt) and found.named and found.recognise() is None:
                return None
            reason = str(error) if isinstance(error, InvalidInput) or _may_be_database(found) else _UNKNOWN
            return ImportedSource(str(found.path), "error" if found.named else "skipped", reason=reason)


def _may_be_database(found: CandidateFile) -> bool:
    return b"\0" in beginning(found.path, 4096)


def transcript(
    context: ImportContext, marks: ReadMarks, found: CandidateFile, key: str | None, apply: bool, progressed: Progressed
) -> ImportedSource:
    """Read what is new in a transcript, or report what that would be.

    It goes under the given key, else where it went before, else under the key that it names itself.
    """
    path, header = found.path, found.header
    store, settings = context.runtime.store, context.runtime.settings
    assert header is not None
    key = key or marks.key(path) or header.key
    if refusal := context.refusal(key):
        return ImportedSource(path=str(path), status="skipped", kind=header.format, key=key, reason=refusal)
    intake = context.intake(key, None)
    key, header = intake.key, intake.without_secrets(header)
    if not apply:
        done = preview(store, intake, Transcript(path, header), found.stat, settings.bootstrap_budget)
        return _report(path, header, key, done, "would-import")
    done = bootstrap(
        *(store, context.runtime.files, intake, path),
        header=header,
        budget=settings.bootstrap_budget,
        progressed=progressed,
    )
    _adopt(store, marks, header, key, done.conversation)
    if settings.prune_heartbeat_ok and done.conversation is not None:
        prune(store, done.conversation, intake.now())
    return _report(path, header, key, done, "imported")


def _adopt(store: Store, marks: ReadMarks, header: Header, key: str, conversation_id: int | None) -> None:
    """Attach sub-agents' conversations to their parent, whichever came first."""
    above = header.parent_key
    if above and conversation_id is not None and store.conversations.active(above) is None:
        marks.orphans.setdefault(above, []).append(conversation_id)
    parent = store.conversations.active(key) if key in marks.orphans else None
    if parent is not None:
        with store.transaction():
            for orphan in marks.orphans.pop(key):
                store.conversations.set_parent(orphan, parent.id)


def _report(path: Path, header: Header, key: str, done: Bootstrapped, status: Status) -> ImportedSource:
    reason = ""
    if done.reason in UNREACHABLE:
        status, reason = "error", f"{done.reason.capitalize()}."
    elif not done.imported:
        is_empty = not done.known and done.offset == 0
        status, reason = ("skipped", "It contains no messages.") if is_empty else ("up-to-date", "")
    return ImportedSource(
        path=str(path),
        status=status,
        kind=header.format,
        key=key,
        messages=done.imported,
        known=done.known,
        outside=done.outside,
        conversations=int(done.imported > 0),
        skipped=_skipped(done),
        reason=reason,
        notes=tuple(_notes(done)),
        first_at=done.first_at if done.imported else None,
        last_at=done.last_at if done.imported else None,
    )


def _skipped(done: Bootstrapped) -> dict[str, int]:
    counts = {
        "malformed": done.malformed,
        "too long": done.too_long,
        "compactions": done.boundaries,
        **{f"type {name}": count for name, count in done.unknown.items()},
    }
    return {reason: count for reason, count in counts.items() if count}


def _notes(done: Bootstrapped) -> Iterator[str]:
    if done.reason.startswith(SEPARATE):
        yield f"It became a separate conversation under the key ({done.reason})."
    if done.copies:
        yield f"{done.copies:,} messages have the id of an earlier one and another text; both are kept."
    if done.collisions:
        yield f"{done.collisions:,} messages have the id of a different one; they got ids of their own."
