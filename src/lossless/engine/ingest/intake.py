"""Describe how a conversation accepts messages, and a message on its way into a row."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, TypeAlias

from msgspec import Struct, structs

from lossless.engine.ingest.large_content import Payload
from lossless.engine.ingest.match_host_and_transcript import Stream
from lossless.engine.ingest.message_digest import Canonicalize
from lossless.events import Hook
from lossless.model import Message, instant
from lossless.store.rows import codec
from lossless.store.rows.types import NewMessage

if TYPE_CHECKING:
    from lossless.engine.ingest.explore import Explore
    from lossless.engine.ingest.secrets import Redactor
    from lossless.transcripts.base import Header

Skip: TypeAlias = Callable[[Message], bool]


class Intake(Struct, frozen=True):
    """The conversation that messages are stored in, and the rules for accepting them."""

    key: str
    session: str | None
    threshold: int
    canonicalize: Canonicalize
    skip: Skip | None
    on_event: Hook
    now: Callable[[], int]
    explore: Callable[[], Explore] | None = None
    """Returns the function that describes large texts instead of `explore`, once per delivery."""
    conversation_id: int | None = None
    """The conversation under the key, if not the active one."""
    stream: Stream = "live"
    outside: Callable[[Sequence[Message]], Mapping[int, str]] | None = None
    """Returns why some messages (by index) stay out of the context, beyond their roles."""
    timeless: frozenset[str | None] = frozenset()
    """The event ids of messages whose time is that of their line in the transcript."""
    placed: bool = False
    """Event ids name positions: another text under the same id is another message."""
    closed: Callable[[str], bool] | None = None
    """Returns whether nothing may be stored under a key."""
    followed: bool = False
    """A transcript contains the delivered messages as well."""
    redact: Redactor | None = None

    def without_secrets(self, header: Header) -> Header:
        """Return the header of a transcript with its secrets redacted."""
        if self.redact is None:
            return header
        named = {
            name: getattr(header, name) for name in ("session", "key", "parent_session", "parent_key", "directory")
        }
        return structs.replace(header, **{name: self.redact.identifier(it) for name, it in named.items() if it})

    def entry_id(self, name: str) -> str:
        """Return the stored id of a transcript's entry: the event id of its message."""
        return name if self.redact is None else self.redact.identifier(name)

    def cleaned(self, message: Message) -> Message:
        """Return the message as it is stored and compared, with its secrets redacted."""
        return self.redact(message)[0] if self.redact else message


class Arrival(Struct, gc=False):
    """A delivered message on its way into a row."""

    message: Message
    digest: bytes
    event_key: str | None
    row: NewMessage | None = None
    """None until large content was extracted."""
    payloads: Sequence[Payload] = ()
    redacted: int = 0
    outside: str | None = None
    invalid: str = ""
    """The problem of an invalid message, as it was delivered."""


def time_of(message: Message) -> int | None:
    """Return the time of a message in microseconds; one without a zone is in UTC."""
    at = message.at
    return None if at is None else codec.micros(at if at.tzinfo else instant(at) or at)
