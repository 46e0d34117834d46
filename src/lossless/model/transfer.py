"""Results of moving data: migrations, exports, backups, restores, imports, backfills."""

from __future__ import annotations

from datetime import datetime
from typing import Literal

from msgspec import Struct, field

from lossless.model.status import LaggingTranscript
from lossless.model.surgery import Transplant


class MovedTable(Struct, frozen=True):
    """A copied table that is equal in both databases; the hash covers all its rows."""

    name: str
    rows: int
    sha256: str


class Migration(Struct, frozen=True):
    """The report of a copy to another database, with proof that both are equal."""

    tables: tuple[MovedTable, ...]
    rows: int
    digest: str
    """A hash over all tables: databases with the same digest have the same contents."""
    files: int
    missing_files: tuple[str, ...]
    """Files that were already missing in the source."""
    resumed: bool
    """True if it continued an interrupted copy."""
    seconds: float


class Exported(Struct, frozen=True):
    """The contents of an archive."""

    path: str
    conversations: int
    messages: int
    summaries: int
    files: int
    bytes: int
    missing_files: tuple[str, ...]
    """Files that could not be read: the archive contains their rows only."""


class Backup(Struct, frozen=True):
    """A backup: one file with a database of all owners and its files."""

    path: str
    bytes: int
    created_at: datetime
    form: str
    """The format of the database in it: `sqlite` or `pg_dump`."""
    made_by: str
    """The program that copied the database, and the reason for which another did not."""
    schema: int
    conversations: int
    messages: int
    summaries: int
    files: int
    missing_files: tuple[str, ...]
    """Files that could not be read: the backup contains their rows only."""
    proved: bool = False
    """True if the proof that nothing is lost was requested; it holds if there are no `flaws`."""
    flaws: tuple[str, ...] = ()


class Restored(Struct, frozen=True):
    """The report of a restore, planned or applied."""

    database: str
    backup: Backup
    replaces: bool
    """True if it replaces a database."""
    aside: tuple[str, ...] = ()
    """The files to which the replaced database was moved."""
    applied: bool = False
    transcripts: tuple[LaggingTranscript, ...] = ()
    """Transcripts that were written since the backup: hosts will read them again, which restores their messages."""
    left_out: int = 0
    """The number of their messages that were left out, if requested."""


class Estimate(Struct, frozen=True):
    """The estimated cost of compacting a history: calls, tokens read and written, tokens left."""

    calls: int = 0
    tokens_read: int = 0
    tokens_written: int = 0
    tokens_left: int = 0


class Backfill(Struct, frozen=True):
    """The report of a backfill of one conversation, planned or applied."""

    key: str
    paths: tuple[str, ...] = ()
    conversation: int | None = None
    """Its id, once it exists."""
    imported: int = 0
    """The number of new messages."""
    known: int = 0
    model: str = ""
    expected: Estimate = Estimate()
    """The estimated cost of its compaction."""
    tokens_before: int = 0
    tokens_after: int = 0
    made: tuple[str, ...] = ()
    """The ids of the new summaries, in order."""
    summaries_left: int = 0
    """Summaries left in its context."""
    messages_left: int = 0
    applied: bool = False
    failure: str = ""
    """The reason for which it ended early, if it did; the next run continues from there."""
    transplant: Transplant | None = None


class PlannedHistory(Struct, frozen=True):
    """A conversation of another system, and the plan of its import."""

    ref: str
    """Its id in the other system."""
    key: str
    messages: int
    summaries: int
    files: int
    state: Literal["new", "begun", "here"]
    """`new`: not imported yet. `begun`: an import was interrupted. `here`: imported completely."""
    active: bool
    """True if it would be the active conversation of its key; otherwise it is archived."""


class ImportPlan(Struct, frozen=True):
    """The plan of an import."""

    system: str
    version: str
    identity: str
    histories: tuple[PlannedHistory, ...]
    unmapped: tuple[str, ...]
    """Data that cannot be imported, as sentences."""


class ImportedHistory(Struct, frozen=True):
    """An imported conversation of another system."""

    ref: str
    key: str
    conversation: int
    messages: int
    summaries: int
    files: int
    active: bool
    changed: tuple[str, ...] = ()
    """Data that was changed by the import, as sentences."""
    problems: tuple[str, ...] = ()
    """The conditions that do not hold for it; empty if the proof succeeded."""


class Imported(Struct, frozen=True):
    """The report of an import from another system."""

    system: str
    histories: tuple[ImportedHistory, ...]
    unmapped: tuple[str, ...]
    verified: bool
    """True if every message was imported, exactly once below its context or listed beside it."""


class ImportedSource(Struct, frozen=True):
    """A transcript, database or archive, and the result of its import, planned or applied."""

    path: str
    status: Literal["would-import", "imported", "up-to-date", "skipped", "error"]
    kind: str = ""
    """`openclaw`, `claude_code`, `codex` or `messages`; `lossless-claw`, `hermes-lcm` or `lossless` (an archive)."""
    key: str = ""
    """The key of its conversation, if there is one."""
    messages: int = 0
    """The number of new messages."""
    known: int = 0
    outside: int = 0
    """The number of new messages stored outside the context."""
    conversations: int = 0
    summaries: int = 0
    """The number of imported summaries."""
    skipped: dict[str, int] = field(default_factory=dict)
    """Lines that are not messages, by reason: malformed, too long, and unknown types by name."""
    reason: str = ""
    """The reason for which it was skipped, or the error."""
    notes: tuple[str, ...] = ()
    """Data that cannot be imported or was changed, as sentences."""
    histories: tuple[PlannedHistory, ...] | tuple[ImportedHistory, ...] = ()
    """The conversations of a database or an archive."""
    first_at: datetime | None = None
    """The earliest time of the new messages, as far as the source records it."""
    last_at: datetime | None = None


class ImportReport(Struct, frozen=True):
    """The report of an import, planned or applied, by source."""

    sources: tuple[ImportedSource, ...]
    applied: bool
    left: int = 0
    """The number of sources that were not read: older than `since`, or beyond `limit`."""

    @property
    def messages(self) -> int:
        return sum(each.messages for each in self.sources)

    @property
    def errors(self) -> tuple[ImportedSource, ...]:
        return tuple(each for each in self.sources if each.status == "error")
