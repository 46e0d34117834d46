"""What every reader of transcripts gives: entries in the order of the file, and where each one ends.

A reader knows one program's files and nothing of ours but values. It streams: what it holds at any time is one message. What
it cannot use it counts in a `Tally` and passes over; a last line that is still being written is left alone.
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
    """What a file says about itself."""

    format: str
    """`openclaw`, `claude_code`, `codex` or `messages`."""
    session: str
    """The program's own id of the session; made from the first line where there is none."""
    key: str
    """The conversation's key where nobody names one, e.g. `claude-code:<session>`."""
    parent_session: str | None = None
    """The session this one was forked from."""
    parent_key: str | None = None
    """The conversation a sub-agent's hangs from."""
    started_at: datetime | None = None
    directory: str | None = None
    """Where the program was working."""
    named: bool = True
    """Whether the file gives its entries ids; otherwise they are named after their place."""


class Entry(Struct, frozen=True, gc=False):
    """A message of a transcript, or a mere link between messages (`message` is None)."""

    id: str
    parent: str | None
    """The entry before it in the tree; of a linear file, the one before it."""
    end: int
    """The offset behind its last line."""
    number: int
    """How many messages the file holds up to and including this one."""
    message: Message | None = None
    """Its event id is the entry's; its time the message's own, else the line's."""
    own_time: bool = False
    """Whether the message itself says when it was, so that a copy under another id can be told."""
    thread: str | None = None
    """Which sub-agent's it is, where several share a file."""
    is_open: bool = False
    """Whether more of the same message may follow: it stands at the end of the file and nothing says that it is whole."""
    is_idle: bool = False
    """Whether it belongs to a heartbeat turn in which nothing was done."""


class Tally(Struct):
    """What became of the lines that are no entries."""

    lines: int = 0
    links: int = 0
    """Lines that say something about the session, not in it (a change of model, a cost, a hook's outcome)."""
    boundaries: int = 0
    """Where the program compacted its own context, and the summaries it made: they are its view, not what was said."""
    malformed: int = 0
    too_long: int = 0
    end: int = 0
    """Where to go on next time, once everything was read: behind the last line, or where a message begins that is open."""
    unknown: dict[str, int] = field(default_factory=dict)
    """By type."""


class Branch(Protocol):
    """Which entries of a file a model would be shown."""

    def __contains__(self, entry_id: object) -> bool: ...


class Reader(Protocol):
    """One program's transcripts."""

    name: str

    def header(self, first: list[Record], path: Path) -> Header | None:
        """What a file says about itself, by its first lines; None if it is not one of this program's."""

    def entries(self, path: Path, header: Header, tally: Tally, *, offset: int = 0, number: int = 0) -> Iterator[Entry]:
        """The entries that begin at an offset, `number` messages having come before it."""

    def branch(self, path: Path, header: Header) -> Branch | None:
        """The active branch, from a quick look at the links of the whole file; None if every entry is on it."""
