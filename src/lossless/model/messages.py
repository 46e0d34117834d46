"""The values of a conversation: messages, their parts and large files."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from typing import Any, Self, TypeAlias

from msgspec import Struct, field

from lossless.errors import InvalidInput, InvalidTimeFilter

Extra: TypeAlias = dict[str, Any]

INSTRUCTIONS = ("system", "developer")
"""The roles of messages that instruct the model."""


class Text(Struct, frozen=True, tag="text", omit_defaults=True, gc=False):
    """A text."""

    text: str
    extra: Extra = field(default_factory=dict)


class Reasoning(Struct, frozen=True, tag="reasoning", omit_defaults=True, gc=False):
    """The reasoning of a model. It is sent only to the model that wrote it, and never summarised."""

    text: str = ""
    signature: str | None = None
    extra: Extra = field(default_factory=dict)


class ToolCall(Struct, frozen=True, tag="tool_call", omit_defaults=True, gc=False):
    """A call of a tool. `arguments` is JSON text, stored exactly as written."""

    call_id: str
    name: str
    arguments: str = "{}"
    extra: Extra = field(default_factory=dict)


class File(Struct, frozen=True, tag="file", omit_defaults=True, gc=False):
    """An image, document or other file: its `data` (base64, as received) or its URL."""

    mime: str | None = None
    name: str | None = None
    data: str | None = None
    url: str | None = None
    extra: Extra = field(default_factory=dict)


class Opaque(Struct, frozen=True, tag="opaque", omit_defaults=True, gc=False):
    """A part of another kind (patch, step, snapshot, unknown), stored verbatim as JSON `data`."""

    kind: str
    data: Any = None
    extra: Extra = field(default_factory=dict)


class ToolResult(Struct, frozen=True, tag="tool_result", omit_defaults=True, gc=False):
    """The result of the tool call with the same `call_id`."""

    call_id: str
    parts: tuple[Text | File | Opaque, ...] = ()
    name: str | None = None
    is_error: bool = False
    extra: Extra = field(default_factory=dict)


Part: TypeAlias = Text | Reasoning | ToolCall | ToolResult | File | Opaque


class Message(Struct, frozen=True, omit_defaults=True, gc=False):
    """One entry of a conversation.

    `event_id` is the host's id of it: an event that is delivered twice is one message. `at` is its time, `name` its
    speaker (as in OpenAI's `name`), `stop` the reason for which the model ended it. `extra` contains everything else of
    a wire format, under the name of the format.
    """

    role: str
    parts: tuple[Part, ...] = ()
    at: datetime | None = None
    name: str | None = None
    event_id: str | None = None
    stop: str | None = None
    extra: Extra = field(default_factory=dict)

    @classmethod
    def user(cls, text: str, *, event_id: str | None = None, at: When = None, name: str | None = None) -> Self:
        """Return a message of the user."""
        return cls(role="user", parts=(Text(_check_text(text)),), at=_check_time(at), name=name, event_id=event_id)

    @classmethod
    def assistant(cls, text: str, *, event_id: str | None = None, at: When = None, name: str | None = None) -> Self:
        """Return a reply of the model."""
        return cls(role="assistant", parts=(Text(_check_text(text)),), at=_check_time(at), name=name, event_id=event_id)

    @classmethod
    def system(cls, text: str, *, event_id: str | None = None, at: When = None, name: str | None = None) -> Self:
        """Return a system message."""
        return cls(role="system", parts=(Text(_check_text(text)),), at=_check_time(at), name=name, event_id=event_id)

    @classmethod
    def tool(
        cls,
        text: str,
        *,
        call_id: str = "",
        event_id: str | None = None,
        at: When = None,
        name: str | None = None,
        is_error: bool = False,
    ) -> Self:
        """Return a tool result. `name` is the tool, `call_id` the call it answers."""
        result = ToolResult(call_id=call_id, parts=(Text(_check_text(text)),), name=name, is_error=is_error)
        return cls(role="tool", parts=(result,), at=_check_time(at), event_id=event_id)

    @property
    def text(self) -> str:
        """The text of the message and of its tool results, without calls and reasoning."""
        return "\n".join(_words(self.parts))


When: TypeAlias = datetime | str | float | None
"""A time: a datetime, an ISO 8601 text or seconds since 1970."""


def instant(when: When) -> datetime | None:
    """Convert a datetime, an ISO 8601 text or seconds since 1970 to a time in UTC.

    A time without a zone is in UTC, as in the databases of other systems.
    """
    if when is None:
        return None
    if isinstance(when, str):
        when = datetime.fromisoformat(when)
    elif isinstance(when, (int, float)):
        return datetime.fromtimestamp(when, UTC)
    return when.replace(tzinfo=UTC) if when.tzinfo is None else when.astimezone(UTC)


def _check_text(text: object) -> str:
    """Return the text of a message, or raise `InvalidInput`."""
    if not isinstance(text, str):
        nearest = f"Did you mean {str(text)!r}?" if isinstance(text, int | float) else "Give a text, or '' for none."
        raise InvalidInput(f"{repr(text)[:80]} is not the text of a message.", hint=nearest)
    return text


def _check_time(at: When) -> datetime | None:
    """Return a time in UTC, or raise `InvalidTimeFilter`."""
    try:
        if isinstance(at, bool):
            raise TypeError
        return instant(at)
    except (ValueError, TypeError, AttributeError, OverflowError, OSError) as error:
        raise InvalidTimeFilter(
            f"at={repr(at)[:80]} is not a time.", hint="Write it as 2026-03-01T09:00Z or 2026-03-01 09:00+01:00."
        ) from error


def _words(parts: Sequence[Part]) -> Iterator[str]:
    for part in parts:
        match part:
            case Text(text):
                yield text
            case ToolResult(_, parts=inner):
                yield from _words(inner)
            case _:
                pass


class StoredMessage(Struct, frozen=True, gc=False):
    """A stored message: the message with its id and position."""

    id: int
    seq: int
    tokens: int
    digest: bytes
    created_at: datetime
    message: Message
    outside: str | None = None
    """The reason for which it is outside the context (an unknown role, an errored empty reply ...), if it is."""

    @property
    def role(self) -> str:
        return self.message.role

    @property
    def text(self) -> str:
        return self.message.text

    @property
    def event_id(self) -> str | None:
        return self.message.event_id

    @property
    def at(self) -> datetime:
        """The time of the message, or of its storage if it has none."""
        return self.message.at or self.created_at


class StoredFile(Struct, frozen=True):
    """Large content stored outside the database, with its exploration summary."""

    id: str
    name: str | None
    mime: str | None
    bytes: int
    lines: int | None
    sha256: str
    summary: str
    created_at: datetime
