"""Define what every reader of transcripts returns: entries in file order, and the offset after each.

A reader knows one program's files and only our value classes. It streams: at any time it holds one message. Lines without a
message are counted in a `Tally` and skipped; a last line that is still being written is left alone.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Protocol

from msgspec import Struct, field

from lossless.formats.wire import Record
from lossless.model import Message


class Header(Struct, frozen=True):
    """The facts about a transcript at its beginning."""

    format: str
    """`openclaw`, `claude_code`, `codex` or `messages`."""
    session: str
    """The program's id of the session, or one made from the first line."""
    key: str
    """The default key of the conversation, e.g. `claude-code:<session>`."""
    parent_session: str | None = None
    """The session this one was forked from."""
    parent_key: str | None = None
    """The key of the parent conversation of a sub-agent."""
    started_at: datetime | None = None
    directory: str | None = None
    """The directory in which the program worked."""
    named: bool = True
    """The file gives its entries ids; otherwise they are named after their position."""


class TranscriptEntry(Struct, frozen=True, gc=False):
    """A message of a transcript, or a link between messages (`message` is None)."""

    id: str
    parent: str | None
    """The parent entry in the tree; in a linear file, the entry before."""
    end: int
    """The offset after its last line."""
    number: int
    """Number of messages in the file up to and including this one."""
    message: Message | None = None
    """Its event id is the entry's id; its time is its own, else that of the line."""
    own_time: bool = False
    """The message has a time of its own, so that a copy under another id can be recognized."""
    thread: str | None = None
    """The sub-agent of the entry, where several share a file."""
    is_open: bool = False
    """More of the message may follow: it is the last in the file, and nothing marks it as complete."""
    is_idle: bool = False
    """It belongs to a heartbeat turn without any work."""


class Tally(Struct):
    """The counts of lines that are not entries."""

    lines: int = 0
    links: int = 0
    """Lines about the session (a change of model, a cost, the outcome of a hook)."""
    boundaries: int = 0
    """Lines of the program's own compaction, with its summaries: they are not messages."""
    malformed: int = 0
    too_long: int = 0
    end: int = 0
    """The offset to continue from: after the last line, or at the start of an open message."""
    unknown: dict[str, int] = field(default_factory=dict)
    """Lines of unknown types, by type."""


class Branch(Protocol):
    """The entries of a file that a model would be shown."""

    def __contains__(self, entry_id: object) -> bool: ...


class Reader(Protocol):
    """The reader of one program's transcripts."""

    name: str

    def header(self, first: list[Record], path: Path) -> Header | None:
        """Return the header of a file from its first lines; None if another program wrote it."""

    def entries(
        self, path: Path, header: Header, tally: Tally, *, offset: int = 0, number: int = 0
    ) -> Iterator[TranscriptEntry]:
        """Yield the entries after an offset, with `number` messages before it."""

    def branch(self, path: Path, header: Header) -> Branch | None:
        """Return the active branch, from the links of the whole file; None if every entry is on it."""
