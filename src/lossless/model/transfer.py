"""Results of moving data: migrations, exports, backups, restores, imports, backfills."""

from __future__ import annotations

from datetime import datetime
from typing import Literal

from msgspec import Struct, field

from lossless.model.status import Lagging
from lossless.model.surgery import Transplant


class MovedTable(Struct, frozen=True):
    """A table that was moved and found equal in both databases; the hash is over all its rows."""

    name: str
    rows: int
    sha256: str


class Migration(Struct, frozen=True):
    """What was moved from one database to another, and proved to be there."""

    tables: tuple[MovedTable, ...]
    rows: int
    digest: str
    """Over all tables: two databases with the same digest hold the same."""
    files: int
    missing_files: tuple[str, ...]
    """Payloads whose bytes the source had lost before."""
    resumed: bool
    """Whether it was begun before, and taken up again."""
    seconds: float


class Exported(Struct, frozen=True):
    """What an archive holds."""

    path: str
    conversations: int
    messages: int
    summaries: int
    files: int
    bytes: int
    missing_files: tuple[str, ...]
    """Payloads whose bytes could not be read: their rows are in the archive, they are not."""


class Backup(Struct, frozen=True):
    """A backup: one file that holds a database, of all owners, and its payloads."""

    path: str
    bytes: int
    created_at: datetime
    form: str
    """In which the database is in it: `sqlite`, or `pg_dump`."""
    made_by: str
    """The program that copied the database, and why another did not."""
    schema: int
    conversations: int
    messages: int
    summaries: int
    files: int
    missing_files: tuple[str, ...]
    """Payloads whose bytes could not be read: their rows are in the backup, they are not."""
    proved: bool = False
    """Whether the proof was asked for that nothing is lost; that it holds if there are no `flaws`."""
    flaws: tuple[str, ...] = ()


class Restored(Struct, frozen=True):
    """What a restore put in place, or would put there."""

    database: str
    backup: Backup
    replaces: bool
    """Whether there is a database in that place."""
    aside: tuple[str, ...] = ()
    """Where it was put."""
    applied: bool = False
    transcripts: tuple[Lagging, ...] = ()
    """Transcripts that were written to since: hosts read on in them, which brings back what they hold."""
    left_out: int = 0
    """How many of their messages were left out, if that was wanted."""


class Estimate(Struct, frozen=True):
    """About what it takes to compact a history: calls to a model, tokens it reads and writes, tokens that are left."""

    calls: int = 0
    tokens_read: int = 0
    tokens_written: int = 0
    tokens_left: int = 0


class Backfill(Struct, frozen=True):
    """What a backfill made of a conversation, or would make."""

    key: str
    paths: tuple[str, ...] = ()
    conversation: int | None = None
    """Its id, once it is there."""
    imported: int = 0
    """How many messages are new."""
    known: int = 0
    model: str = ""
    expected: Estimate = Estimate()
    """What its compaction was expected to take."""
    tokens_before: int = 0
    tokens_after: int = 0
    made: tuple[str, ...] = ()
    """The ids of the summaries, in the order they were made."""
    summaries_left: int = 0
    """In its context."""
    messages_left: int = 0
    applied: bool = False
    failure: str = ""
    """Why it ended before its end, if it did; what was made stays, and the next time goes on from there."""
    transplant: Transplant | None = None


class PlannedHistory(Struct, frozen=True):
    """A conversation of another system, and what an import would do with it."""

    ref: str
    """The other system's id of it."""
    key: str
    messages: int
    summaries: int
    files: int
    state: Literal["new", "begun", "here"]
    """Nothing of it is here, an import of it was cut off, or all of it is here."""
    active: bool
    """Whether it would be the conversation in use under its key; if not, it is archived beside that one."""


class ImportPlan(Struct, frozen=True):
    """What an import would do."""

    system: str
    version: str
    identity: str
    histories: tuple[PlannedHistory, ...]
    unmapped: tuple[str, ...]
    """What has no place here, as sentences."""


class ImportedHistory(Struct, frozen=True):
    """A conversation that came from another system."""

    ref: str
    key: str
    conversation: int
    messages: int
    summaries: int
    files: int
    active: bool
    changed: tuple[str, ...] = ()
    """What could not stay as it was, as sentences."""
    problems: tuple[str, ...] = ()
    """What of the promise does not hold for it; empty when it was proven whole."""


class Imported(Struct, frozen=True):
    """What an import did."""

    system: str
    histories: tuple[ImportedHistory, ...]
    unmapped: tuple[str, ...]
    verified: bool
    """Whether every message is here, exactly once below its context or listed beside it."""


class ImportedSource(Struct, frozen=True):
    """A transcript, a database or an archive, and what an import did with it, or would do."""

    path: str
    status: Literal["would-import", "imported", "up-to-date", "skipped", "error"]
    kind: str = ""
    """`openclaw`, `claude_code`, `codex` or `messages`; `lossless-claw`, `hermes-lcm` or `lossless` (an archive)."""
    key: str = ""
    """The conversation's, where there is one."""
    messages: int = 0
    """How many are new."""
    known: int = 0
    outside: int = 0
    """How many of the new ones are stored out of the context."""
    conversations: int = 0
    summaries: int = 0
    """That came along."""
    skipped: dict[str, int] = field(default_factory=dict)
    """What is no message, by reason: malformed, too long, and unknown types by their names."""
    reason: str = ""
    """Why it was skipped, or what is wrong with it."""
    notes: tuple[str, ...] = ()
    """What has no place here, or could not stay as it was, as sentences."""
    histories: tuple[PlannedHistory, ...] | tuple[ImportedHistory, ...] = ()
    """The conversations of a database or an archive, as they would come, or came."""
    first_at: datetime | None = None
    """The earliest time of the new messages, as far as the source records it."""
    last_at: datetime | None = None


class ImportReport(Struct, frozen=True):
    """What an import did, or would do, source by source."""

    sources: tuple[ImportedSource, ...]
    applied: bool
    left: int = 0
    """How many sources were not looked into: older than `since`, or more than `limit`."""

    @property
    def messages(self) -> int:
        return sum(each.messages for each in self.sources)

    @property
    def errors(self) -> tuple[ImportedSource, ...]:
        return tuple(each for each in self.sources if each.status == "error")
