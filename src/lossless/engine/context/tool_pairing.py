"""Pair tool calls with their results, in an order that every provider accepts. Pure.

A provider refuses a whole request for one call without a result, one result without a call, one id used twice or
one message without content. Stored messages do not change: only the request is corrected.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from operator import attrgetter
from typing import NamedTuple, TypeAlias

from msgspec import Struct
from msgspec.structs import replace

from lossless.formats.fit import asked_by, unlinked, worded
from lossless.model import File, Message, Opaque, Part, Reasoning, Text, ToolCall, ToolResult

MISSING = "[lossless] No result of this call is known: it may still be running, or was interrupted."
"""The text in place of a result that is missing."""

_STAND_IN = re.compile(re.escape(MISSING) + r"|\[[\w-]+\] missing tool result in session history")
_FAILED = frozenset({"aborted", "error", "failed", "cancelled"})


def pair_tool_calls(messages: Sequence[Message], *, fresh: int = 0) -> tuple[Message, ...]:
    """Return the messages as they can be sent; those already in order are the same objects.

    `fresh` is where the fresh tail starts. A call whose result is not among the messages is removed before it,
    and gets an error in place of its result (`MISSING`) within it. A result is moved to its call from wherever
    it is; one that nobody asked for is left out, and one that names no call becomes an assistant's text. A turn
    that failed keeps its words and loses its calls. A message that says nothing is left out.

    An id belongs to the first call that has it. The same call once more in the same turn is a copy, and left
    out with its result. Any other call under that id is a host that restarts its count: it stays, and is shown, like its
    result, under an id of its own (`call_1_2`). A result belongs to the nearest turn before it that asked.
    """
    plain = _already_paired(messages)
    return _put_in_order(messages, fresh) if plain is None else plain


def _put_in_order(messages: Sequence[Message], fresh: int) -> tuple[Message, ...]:
    known = [_quote_unnamed(message) for message in messages]
    calls = _find_calls(known)
    _answer(calls, known)
    kept = _complete([call for call in calls if call.found or (call.at >= fresh and _is_ours(call))], known)
    _distinguish(kept, {call_id for message in known for part in message.parts if (call_id := _id_in(part))})
    return tuple(_drop_empty(list(_arrange(known, kept))))


def _already_paired(messages: Sequence[Message]) -> tuple[Message, ...] | None:
    """Return the messages if they are plain and in order; None if anything needs a closer look.

    Most views are, and this is checked in every turn. Results without their call are left out with it.
    """
    kept: list[Message] = []
    seen: set[str] = set()
    waiting: list[str] = []
    orphans: list[str] = []
    for message in messages:
        parts = message.parts
        if waiting and message.role != "tool":
            return None
        if len(parts) == 1 and isinstance(parts[0], Text) and message.role != "tool":
            if not worded(parts[0].text):
                return None
        elif message.role == "assistant":
            if message.stop in _FAILED or not _is_plain_call(parts, waiting) or not seen.isdisjoint(waiting):
                return None
            seen.update(waiting)
        elif (
            message.role == "tool" and len(parts) == 1 and isinstance(parts[0], ToolResult) and worded(parts[0].call_id)
        ):
            if waiting and waiting[0] == parts[0].call_id:
                del waiting[0]
            elif waiting or parts[0].call_id in seen:
                return None
            else:
                orphans.append(parts[0].call_id)
                continue
        else:
            return None
        kept.append(message)
    return None if waiting or not seen.isdisjoint(orphans) else tuple(kept)


def _is_plain_call(parts: Sequence[Part], waiting: list[str]) -> bool:
    """Return True if the parts are texts and calls, with reasoning only before them; collect the calls."""
    spoke = False
    for part in parts:
        if isinstance(part, ToolCall) and worded(part.call_id) and part.call_id not in waiting:
            waiting.append(part.call_id)
        elif isinstance(part, Text):
            if not worded(part.text):
                return False
        elif spoke or not isinstance(part, Reasoning):
            return False
        spoke = spoke or not isinstance(part, Reasoning)
    return spoke


class _Result(NamedTuple):
    """A result, and its place."""

    at: int
    place: int
    result: ToolResult


class _Call(Struct):
    """A call, its place, and its result."""

    at: int
    place: int
    turn: int
    part: ToolCall | Opaque
    call_id: str
    shown_as: str
    found: _Result | None = None

    @property
    def renamed(self) -> bool:
        return self.call_id != self.shown_as


_Calls: TypeAlias = dict[int, _Call]
"""The calls of one message, by their place in it."""


def _quote_unnamed(message: Message) -> Message:
    """Return the message with results that name no call as plain text."""
    results = [part for part in message.parts if isinstance(part, ToolResult)]
    if all(worded(result.call_id) for result in results) and (results or message.role != "tool"):
        return message
    parts = tuple(inner for part in message.parts for inner in _readable(part))
    orphaned = message.role == "tool" and not any(isinstance(part, ToolResult) for part in parts)
    return replace(message, role="assistant" if orphaned else message.role, parts=parts, extra={})


def _readable(part: Part) -> Sequence[Part]:
    if isinstance(part, ToolResult) and not worded(part.call_id):
        return [inner for inner in part.parts if isinstance(inner, (Text, File))]
    return [] if isinstance(part, Opaque) else [part]


def _find_calls(messages: Sequence[Message]) -> list[_Call]:
    """Return the calls that count, in order."""
    calls: list[_Call] = []
    earlier: dict[str, list[_Call]] = {}
    turn = 0
    for at, message in enumerate(messages):
        if message.role == "user" and not all(isinstance(part, ToolResult) for part in message.parts):
            turn += 1
        for place, part in enumerate(message.parts if _may_call(message) else ()):
            call_id = asked_by(part)
            if not isinstance(part, (ToolCall, Opaque)) or call_id is None or not worded(call_id):
                continue
            before = earlier.setdefault(call_id, [])
            if before and (isinstance(part, Opaque) or any(_copies(part, turn, call) for call in _last_turn(before))):
                continue
            before.append(_Call(at, place, turn, part, call_id, call_id))
            calls.append(before[-1])
    return calls


def _may_call(message: Message) -> bool:
    return message.role == "assistant" and message.stop not in _FAILED


def _copies(part: ToolCall, turn: int, call: _Call) -> bool:
    other = call.part
    same = isinstance(other, ToolCall) and (other.name, other.arguments) == (part.name, part.arguments)
    return same and call.turn == turn


def _answer(calls: Sequence[_Call], messages: Sequence[Message]) -> None:
    """Assign each result to its call."""
    asking: dict[str, list[_Call]] = {}
    for call in calls:
        asking.setdefault(call.call_id, []).append(call)
    early: list[_Result] = []
    for found in _results(messages):
        same = asking.get(found.result.call_id, [])
        if before := bisect_right(same, found.at, key=attrgetter("at")):
            _give(found, _last_turn(same, before))
        else:
            early.append(found)
    for found in early:
        _give(found, asking.get(found.result.call_id, ()))


def _last_turn(calls: Sequence[_Call], end: int | None = None) -> list[_Call]:
    """Return the calls of the newest turn before `end`."""
    start = end = len(calls) if end is None else end
    while start and calls[start - 1].turn == calls[end - 1].turn:
        start -= 1
    return list(calls[start:end])


def _results(messages: Sequence[Message]) -> Iterator[_Result]:
    for at, message in enumerate(messages):
        for place, part in enumerate(message.parts):
            if isinstance(part, ToolResult):
                yield _Result(at, place, part)


def _give(found: _Result, calls: Iterable[_Call]) -> None:
    """Assign a result to the first call without one, or with only a replacement."""
    waiting = [call for call in calls if call.found is None]
    if not waiting and not _stands_in(found.result):
        waiting = [call for call in calls if call.found and _stands_in(call.found.result)]
    if waiting:
        waiting[0].found = found


def _stands_in(result: ToolResult) -> bool:
    match result.parts:
        case (Text(text),):
            return _STAND_IN.match(text) is not None
        case _:
            return False


def _is_ours(call: _Call) -> bool:
    return isinstance(call.part, ToolCall)


def _complete(calls: Sequence[_Call], messages: Sequence[Message]) -> list[_Call]:
    """Remove opaque calls if another call of the same message is missing: they stay together."""
    left = Counter(call.at for call in calls)
    whole = {at for at in left if left[at] == _asks(messages[at])}
    return [call for call in calls if _is_ours(call) or call.at in whole]


def _asks(message: Message) -> int:
    return sum(asked_by(part) is not None for part in message.parts)


def _distinguish(calls: Sequence[_Call], taken: set[str]) -> None:
    """Give calls distinct ids; the first keeps its own."""
    times: Counter[str] = Counter()
    for call in calls:
        times[call.call_id] += 1
        while times[call.call_id] > 1 and call.shown_as in taken:
            call.shown_as = f"{call.call_id}_{times[call.call_id]}"
            times[call.call_id] += call.shown_as in taken
        taken.add(call.shown_as)


def _id_in(part: Part) -> str | None:
    return part.call_id if isinstance(part, ToolResult) else asked_by(part)


def _arrange(messages: Sequence[Message], calls: Sequence[_Call]) -> Iterator[Message]:
    """Yield each message, followed by the results of its calls."""
    made: dict[int, _Calls] = {}
    for call in calls:
        made.setdefault(call.at, {})[call.place] = call
    done = 0
    for at, message in enumerate(messages):
        if at < done:
            continue
        asked = made.get(at, {})
        yield _body(message, asked)
        done = _results_end(messages, at, list(asked.values()))
        if done:
            yield from messages[at + 1 : done]
        else:
            for call in asked.values():
                yield _result_of(call, messages)


def _results_end(messages: Sequence[Message], at: int, calls: Sequence[_Call]) -> int:
    """Return the end of the messages after `at` that are its results in order; 0 if they are not."""
    wanted = [(call.found.at, call.found.place) for call in calls if call.found and not call.renamed]
    if not wanted or len(wanted) < len(calls):
        return 0
    end = wanted[-1][0] + 1
    answers = messages[at + 1 : end]
    if end - at - 1 > len(wanted) or [found[:2] for found in _results(answers)] != [
        (where - at - 1, place) for where, place in wanted
    ]:
        return 0
    return end if all(_leads(message, message is answers[-1]) for message in answers) else 0


def _leads(message: Message, last: bool) -> bool:
    """Return True if the results of a message come first; only the last message may have more after them."""
    count = sum(isinstance(part, ToolResult) for part in message.parts)
    others = message.parts[count:]
    if message.role not in ("user", "tool") or any(isinstance(part, (ToolResult, ToolCall)) for part in others):
        return False
    return not others or (last and message.role == "user")


def _body(message: Message, calls: _Calls) -> Message:
    """Return the message without its results and without the calls that do not count."""
    parts = [
        (place, part)
        for place, part in enumerate(message.parts)
        if place in calls or not (isinstance(part, (ToolResult, ToolCall)) or asked_by(part))
    ]
    kept = _thought_first(tuple(_shown(part, calls.get(place)) for place, part in parts))
    if len(kept) == len(message.parts) and all(new is old for new, old in zip(kept, message.parts, strict=True)):
        return message
    if _asks(message) > len(calls):
        kept = unlinked(part for part in kept if not isinstance(part, Reasoning))
    return replace(message, role="user" if message.role == "tool" else message.role, parts=kept)


def _shown(part: Part, call: _Call | None) -> Part:
    if call is not None and call.renamed and isinstance(part, ToolCall):
        return replace(part, call_id=call.shown_as)
    return part


def _thought_first(parts: tuple[Part, ...]) -> tuple[Part, ...]:
    """Move reasoning after the only call before it."""
    places = [place for place, part in enumerate(parts) if isinstance(part, ToolCall)]
    if len(places) != 1:
        return parts
    before, call, after = parts[: places[0]], parts[places[0]], parts[places[0] + 1 :]
    if not after or not all(isinstance(part, Reasoning) for part in after):
        return parts
    return (*before, *after, call)


def _result_of(call: _Call, messages: Sequence[Message]) -> Message:
    """Return a message that contains only the result of that call."""
    if call.found is None:
        name = call.part.name if isinstance(call.part, ToolCall) else None
        return Message("tool", (ToolResult(call.shown_as, (Text(MISSING),), name, True),), messages[call.at].at)
    source, result = messages[call.found.at], call.found.result
    if source.role == "tool" and len(source.parts) == 1 and not call.renamed:
        return source
    shown = replace(result, call_id=call.shown_as) if call.renamed else result
    return replace(source, role="tool", parts=(shown,), extra=source.extra if len(source.parts) == 1 else {})


def _drop_empty(messages: Sequence[Message]) -> list[Message]:
    """Remove empty messages; keep reasoning only if the same model's words follow."""
    kept: list[Message] = []
    for message in reversed(messages):
        followed = bool(kept) and kept[-1].role == "assistant"
        if any(map(_says, message.parts)) or (_thinks(message) and followed):
            kept.append(message)
    return kept[::-1]


def _says(part: Part) -> bool:
    return worded(part.text) if isinstance(part, Text) else not isinstance(part, Reasoning)


def _thinks(message: Message) -> bool:
    return _may_call(message) and any(isinstance(part, Reasoning) for part in message.parts)
