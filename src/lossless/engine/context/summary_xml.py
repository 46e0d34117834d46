"""The XML of summaries, pins, briefs and references: marked as history, escaped, and recognisable.

Pure. Such a text is recognised when a host sends it back (`stands_for`).
"""

from __future__ import annotations

import re
from base64 import b64decode
from collections.abc import Collection, Sequence
from datetime import UTC, datetime, tzinfo
from functools import lru_cache
from hashlib import sha256
from itertools import chain, count
from xml.sax.saxutils import escape, quoteattr

from lossless.engine.context.tool_pairing import MISSING
from lossless.engine.ingest.large_content import file_id
from lossless.model import File, Message, Part, Summary, Text, ToolResult
from lossless.tokens import message_tokens

# Texts are escaped in it, so a quotation with other words after it does not match.
_OURS = re.compile(
    r'<summary id="(sum_[0-9a-f]{16})" kind="[a-z]+" depth="\d+" descendant_count="\d+" trust="untrusted"[^<>]*>\n'
    r'(?:  <parents>\n(?:    <summary_ref id="[^"<>]*" />\n)*  </parents>\n)?  <content>\n[^<]*\n  </content>\n</summary>'
    r'|(?:<tool_result id="(msg#[0-9]{1,19})"[^<>]*>\n[^<]*\n</tool_result>\n?)+'
)
_BRIEF = re.compile(
    r'<focus_brief id="(brief_[0-9a-f]{16})" [^<>]*trust="untrusted"[^<>]*>\n  <content>\n[^<]*\n  </content>\n</focus_brief>'
)
_SHORTENED = "[{count} more statements are left out here for lack of space; `lcm focus` shows them.]"
_STATEMENT = re.compile(r"\n(?=- )")
_LEAST_BRIEF = 120
"""The fewest tokens in which a brief is shown."""
_PIN = re.compile(r'<(pinned(?:-\d+)?) id="(pin_[0-9a-f]{8})" trust="(?:operator|untrusted)">\n(.*)\n</\1>', re.DOTALL)
_LEFT_OUT = "[lossless] Left out for lack of room: about {tokens:,} tokens. lcm_describe shows msg#{id} in full."
_REFERENCE = re.compile(
    r"\[lossless\] Left out for lack of room: about [\d,]+ tokens\. lcm_describe shows (msg#[0-9]{1,19}) in full\."
)


@lru_cache(512)
def as_message(summary: Summary, zone: tzinfo, sources: tuple[str, ...] = ()) -> tuple[Message, int]:
    """Return the message that shows a summary, and its tokens.

    Cached, because a view shows the same summaries in every turn.
    """
    times = "".join(
        f' {name}="{_stamp(at, zone)}"'
        for name, at in (("earliest_at", summary.earliest_at), ("latest_at", summary.latest_at))
        if at is not None
    )
    head = f'id={quoteattr(summary.id)} kind="{summary.kind}" depth="{summary.depth}" descendant_count="{summary.descendants}"'
    refs = "".join(f"    <summary_ref id={quoteattr(source)} />\n" for source in sources)
    parents = f"  <parents>\n{refs}  </parents>\n" if refs else ""
    body = f"  <content>\n{escape(summary.text)}\n  </content>\n"
    how = f" level={quoteattr(summary.level)}"
    if summary.suspected:
        how += f' suspected="{summary.suspected}"'
    message = Message.user(f'<summary {head} trust="untrusted"{how}{times}>\n{parents}{body}</summary>')
    return message, message_tokens(message)


def as_pin(pin_id: str, text: str) -> Message:
    """Return the message that shows a pin: the operator's words, verbatim, in a tag they cannot close."""
    tag = _tag_beside(text)
    return Message.user(f'<{tag} id={quoteattr(pin_id)} trust="operator">\n{text}\n</{tag}>')


@lru_cache(64)
def as_brief(brief_id: str, task: str, text: str, level: str, most: int) -> tuple[Message, int] | None:
    """Return the message that shows a brief in at most so many tokens, and its tokens; None if there is too little space.

    Statements leave from the end, so that the same brief has the same bytes in every request of a window.
    """
    if most < _LEAST_BRIEF:
        return None
    statements = _STATEMENT.split(text)
    kept = len(statements)
    while kept:
        message = _brief_message(brief_id, task, statements[:kept], len(statements) - kept, level)
        tokens = message_tokens(message)
        if tokens <= most:
            return message, tokens
        kept = min(kept - 1, kept * most // tokens)
    return None


def _brief_message(brief_id: str, task: str, statements: Sequence[str], left: int, level: str) -> Message:
    shown = "\n".join([*statements, _SHORTENED.format(count=left)] if left else statements)
    # Always within double quotes: a task cannot look like another attribute.
    named = escape(" ".join(task.split()), {'"': "&quot;"})
    head = f'id="{brief_id}" task="{named}" trust="untrusted" level="{level}"'
    return Message.user(f"<focus_brief {head}>\n  <content>\n{escape(shown)}\n  </content>\n</focus_brief>")


def _tag_beside(text: str) -> str:
    """Return the first of `pinned`, `pinned-2`, `pinned-3` ... that the text does not close."""
    tags = chain(["pinned"], (f"pinned-{number}" for number in count(2)))
    bare = "".join(text.split()).casefold()
    return next(tag for tag in tags if f"</{tag}" not in bare)


def as_reference(message: Message, message_id: int, tokens: int) -> Message:
    """Return a message with references in place of its tool results."""
    line = _LEFT_OUT.format(tokens=tokens, id=message_id)
    parts = tuple(
        ToolResult(part.call_id, (Text(line),), part.name, part.is_error) if isinstance(part, ToolResult) else part
        for part in message.parts
    )
    return Message(message.role, parts, message.at, message.name, message.event_id, message.stop)


def without_picture(part: File) -> Text:
    """Return the text in place of a picture that does not fit."""
    name, kind = part.name or "", part.mime or "file"
    if part.data is None:
        return Text(f"[lossless] Left out for lack of room: {kind} {name} {part.url or ''}".rstrip())
    try:
        data = b64decode(part.data, validate=True)
    except ValueError:
        data = part.data.encode("utf-8", "surrogatepass")
    shown = f"[lossless] Left out for lack of room: {kind} {name}".rstrip()
    return Text(f"{shown}, {len(data):,} bytes. lcm_describe shows {file_id(sha256(data).hexdigest())}.")


def as_quoted(message: Message, calls: Collection[str], message_id: int | None) -> Message:
    """Return a message with results as text if their calls are not among `calls`."""
    words, rest = list[str](), list[Part]()
    for part in message.parts:
        if not isinstance(part, ToolResult) or part.call_id in calls:
            rest.append(part)
            continue
        named = f" tool={quoteattr(part.name)}" if part.name else ""
        known = "" if message_id is None else f' id="msg#{message_id}"'
        text = escape(result_text(part)) or "(no text)"
        words.append(f'<tool_result{known}{named} trust="untrusted">\n{text}\n</tool_result>')
    parts = (Text("\n".join(words)), *rest) if words else message.parts
    return Message(
        "user" if message.role == "tool" else message.role, parts, message.at, message.name, message.event_id
    )


def result_text(part: ToolResult) -> str:
    """Return the text of a tool result."""
    return "\n".join(each.text for each in part.parts if isinstance(each, Text))


def stands_for(message: object) -> str | None:
    """Return the id that a generated message shows; empty for a missing result, None for other messages.

    A user may write the same text: check that the id exists before acting on it.
    """
    if not isinstance(message, Message) or (text := _own_text(message)) is None:
        return None
    if text == MISSING:
        return ""
    if message.role != "user":
        return (found := _REFERENCE.fullmatch(text)) and found[1]
    if pin := _PIN.fullmatch(text):
        return pin[2] if _tag_beside(pin[3]) == pin[1] else None
    if brief := _BRIEF.fullmatch(text):
        return brief[1]
    return (found := _OURS.fullmatch(text)) and (found[1] or found[2])


def may_stand(messages: Sequence[object]) -> bool:
    """Return True if any message could be a generated one. Fast: it is checked for every delivery."""
    for message in messages:
        if isinstance(message, Message):
            part = _only(message.parts)
            if isinstance(part, ToolResult):
                part = _only(part.parts)
            if isinstance(part, Text) and str(part.text)[:1] in ("<", "["):
                return True
    return False


def _only(parts: object) -> object:
    """Return the only part; None if there are more, or if the host's value is not a list of parts."""
    return parts[0] if isinstance(parts, tuple) and len(parts) == 1 else None


def _own_text(message: Message) -> str | None:
    """Return the only text of a message if it begins like a generated one."""
    part = _only(message.parts)
    if isinstance(part, ToolResult):
        part, opening = _only(part.parts), "[lossless] "
    elif message.role == "user":
        opening = "<"
    else:
        return None
    # A text of another type is repaired when it is stored.
    return part.text if isinstance(part, Text) and str(part.text).startswith(opening) else None


def _stamp(at: datetime, zone: tzinfo) -> str:
    """Format a time with its offset, as `since` and `before` accept it."""
    try:
        at = at.astimezone(zone)
    except (OverflowError, ValueError, OSError):  # near the limits of the calendar, not every zone has that day
        at = at.astimezone(UTC)
    return at.isoformat(timespec="seconds").replace("+00:00", "Z")
