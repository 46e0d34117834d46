"""What makes two messages the same, and where the new part of a resent conversation starts.

Pure. Used only where a host gives no event ids: an id decides, a digest is a witness. Whatever cannot
be told apart for sure is kept, because a duplicate can be repaired and a drop cannot.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from hashlib import sha256
from itertools import takewhile
from typing import TypeAlias

from lossless.model import File, Message, Opaque, Part, Text, ToolCall, ToolResult
from lossless.store import jsontext

Canonicalize: TypeAlias = Callable[[str, str], str]
"""(role, text) -> the text as it counts for identity, without what a host puts around it."""


def digest(message: Message, canonicalize: Canonicalize) -> bytes:
    """The witness of a message: equal for equal roles and contents, whatever id, time or wire format says."""
    role, parts = message.role, message.parts
    if len(parts) == 1 and type(parts[0]) is Text:
        return sha256(_bytes(f"{role}\0{canonicalize(role, parts[0].text)}")).digest()[:16]
    # Each field with its length, so that no two contents run together into the same bytes.
    fields = [f"{len(field)}:{field}" for part in parts for field in _fields(part, role, canonicalize)]
    return sha256(_bytes(f"{role}\1{''.join(fields)}")).digest()[:16]


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")


def _fields(part: Part, role: str, canonicalize: Canonicalize) -> Sequence[str]:
    if isinstance(part, Text):  # the two common kinds first, by hand: a match statement is several times slower
        return ("text", canonicalize(role, part.text))
    if isinstance(part, ToolResult):
        inner = [field for each in part.parts for field in _fields(each, role, canonicalize)]
        return ("result", part.call_id, str(part.is_error), *inner)
    match part:
        case ToolCall(call_id, name, arguments):
            return ("call", call_id, name, canonicalize(role, arguments))
        case File(mime, name, data, url):
            return ("file", mime or "", name or "", data or "", url or "")
        case Opaque(kind, data):
            return ("opaque", kind, jsontext.dumps(data))
        case _:
            return ()  # hosts resend a reply with or without its thinking


def tool_ids(message: Message) -> tuple[str, ...]:
    """The calls a message makes or answers: two messages that differ in these are different messages."""
    return tuple(part.call_id for part in message.parts if isinstance(part, (ToolCall, ToolResult)))


def without_tags(tags: Sequence[str]) -> Canonicalize:
    """A canonicalizer that looks through blocks which plugins inject into what a user says."""
    names = tuple(tag.lower() for tag in tags)

    def canonicalize(role: str, text: str) -> str:
        if role != "user" or "</" not in text:
            return text
        for name in names:
            text = _without(text, name)
        return text

    return canonicalize


def _without(text: str, tag: str) -> str:
    """The text less each `<tag ...>...</tag>`, in one pass however hostile the text."""
    low, opening, closing = text.lower(), f"<{tag}", f"</{tag}>"
    last = low.rfind(closing)
    if last < 0 or len(low) != len(text):
        return text
    kept, at, start = [], 0, low.find(opening)
    while 0 <= start < last:
        if low[start + len(opening)] in "> \t\n":
            kept.append(text[at:start])
            at = start = low.index(closing, start) + len(closing)
        start = low.find(opening, start + 1)
    return ("".join(kept) + text[at:]).strip() if at else text


def new_part(stored: Sequence[bytes], incoming: Sequence[bytes]) -> list[int]:
    """Which of the incoming messages (by index) are new, when a host sends its whole conversation.

    Known are: the beginning that both share; behind it, the longest run that ends what is stored; and before
    that run, what still stands in its order around a few edits (a cleared tool result, a system prompt with
    another date). If less than half of it can be recognised so, nothing is taken for known but the beginning.
    """
    shared = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(stored, incoming, strict=False)))
    tail, rest = stored[shared:], incoming[shared:]
    start, length = _run(tail, rest)
    before = rest[:start] if length else rest
    known = _unmoved(tail[: len(tail) - length], before) | set(range(start, start + length))
    if 2 * len(known) < min(len(tail), len(rest)):
        known = set()
    return [shared + n for n in range(len(rest)) if n not in known]


def _run(tail: Sequence[bytes], rest: Sequence[bytes]) -> tuple[int, int]:
    """Where the longest run of `rest` that equals the end of `tail` starts, and its length.

    A run of a single message counts only at the beginning or in its old place: it may be a mere repetition.
    """
    if not tail or not rest:
        return 0, 0
    matches = _z([*reversed(tail), b"", *reversed(rest)])[len(tail) + 1 :]
    runs = [(len(rest) - back - length, length) for back, length in enumerate(matches) if length]
    sure = [(start, length) for start, length in runs if length > 1 or start in (0, len(tail) - 1)]
    return max(sure, key=lambda run: (run[1], -run[0]), default=(0, 0))


def _z(sequence: Sequence[bytes]) -> list[int]:
    """For each position, how long a run there equals the beginning (the Z function, linear)."""
    lengths, left, right = [0] * len(sequence), 0, 0
    for at in range(1, len(sequence)):
        length = min(right - at, lengths[at - left]) if at < right else 0
        while at + length < len(sequence) and sequence[length] == sequence[at + length]:
            length += 1
        if at + length > right:
            left, right = at, at + length
        lengths[at] = length
    return lengths


def _unmoved(old: Sequence[bytes], new: Sequence[bytes]) -> set[int]:
    """The positions of `new` whose messages stand in the same order in `old`, in runs or in their old place."""
    if not old or not new:
        return set()
    from difflib import SequenceMatcher  # only hosts that edit what they resend need it

    # Only the near part is compared: the search is quadratic where everything repeats.
    blocks = SequenceMatcher(None, old[-_NEAR:], new[:_NEAR], autojunk=False).get_matching_blocks()
    skipped = max(0, len(old) - _NEAR)
    sure = [block for block in blocks if block.size > 1 or skipped + block.a == block.b]
    return {block.b + n for block in sure for n in range(block.size)}


_NEAR = 500
