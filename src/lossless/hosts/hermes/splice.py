"""Put a context in place of the old part of a request, and keep the new part as Hermes wrote it. Pure functions.

What is shown word for word is taken from the request itself: it has the marks, signatures and notes that the provider expects.
Only summaries, pins and what the request does not contain are written by us.
"""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from lossless.hosts.hermes.wires import Item, Trace, Wire, item_trace, trace, with_result
from lossless.model import Context, Message, StoredMessage, ToolResult

_LOOK_BACK = 64


class Spliced(Struct, frozen=True):
    """The items of a request with a context in it."""

    items: list[Item]
    matched: int
    """How many messages of the context the request contains."""
    unsaved: int
    """The index in the request of the first item that the context does not know."""


class _Shown(Struct):
    """One message of a context, and where the request has it."""

    message: Message
    trace: Trace
    seq: int | None
    is_exact: bool
    at: int | None = None


def splice(wire: Wire, items: Sequence[Item], start: int, context: Context) -> Spliced:
    """Return the items up to `start`, the context, and the items that are newer than the context."""
    traces = [item_trace(each) for each in items]
    shown = _shown(context)
    _find(shown, traces, start)
    places = [each.at for each in shown if each.at is not None]
    if not places:
        return Spliced(list(items), 0, start)
    return Spliced(_merged(wire, items, traces, start, shown), len(places), max(places) + 1)


def _shown(context: Context) -> list[_Shown]:
    stored = [item for item in context.items if isinstance(item, StoredMessage)]
    exact = {id(item.message): item.seq for item in stored}
    calls = {part.call_id: item.seq for item in stored for part in item.message.parts if isinstance(part, ToolResult)}
    return [
        _Shown(message, trace(message), exact.get(id(message), _answering(message, calls)), id(message) in exact)
        for message in context.messages
    ]


def _answering(message: Message, calls: dict[str, int]) -> int | None:
    """Return the seq of a result that is shown in another form."""
    found = [calls[part.call_id] for part in message.parts if isinstance(part, ToolResult) and part.call_id in calls]
    return found[0] if found else None


def _find(shown: list[_Shown], traces: Sequence[Trace], start: int) -> None:
    """Find the messages in the request, the newest first."""
    last = len(traces)
    for each in reversed(shown):
        if each.seq is None and not each.trace.results:
            continue
        top = last if each.trace.results else last - 1
        places = range(min(top, len(traces) - 1), max(start, last - _LOOK_BACK) - 1, -1)
        if last == len(traces):  # the newest: any distance, as a turn may have grown since
            places = range(len(traces) - 1, start - 1, -1)
        each.at = next((at for at in places if each.trace.matches(traces[at])), None)
        last = last if each.at is None else each.at


def _merged(
    wire: Wire, items: Sequence[Item], traces: Sequence[Trace], start: int, shown: Sequence[_Shown]
) -> list[Item]:
    result, waiting = list(items[:start]), list[Message]()
    done, before = start - 1, None
    swapped: dict[int, Item] = {}
    calls = frozenset(call for each in shown if each.at is not None for call in each.trace.calls)
    for each in shown:
        if each.at is None:
            if done < start or _belongs(each, calls):
                waiting.append(each.message)
            continue
        result += wire.write(waiting) if waiting else []
        waiting = []
        if each.seq is not None and not each.is_exact:
            item = swapped.get(each.at, items[each.at])
            swapped[each.at] = with_result(item, each.trace.results, each.message.text)
        follows = before is not None and each.seq == before + 1
        first = done + 1 if follows else max(done + 1, _beginning(traces, each))
        result += items[first : each.at + 1]
        done, before = max(done, each.at), before if each.seq is None else each.seq
    result += wire.write(waiting) if waiting else []
    result += items[done + 1 :]
    replaced = {id(items[at]): item for at, item in swapped.items()}
    return wire.join([replaced.get(id(item), item) for item in result])


def _belongs(each: _Shown, calls: frozenset[str]) -> bool:
    """Return whether a message that the request lacks is shown after one that it has.

    Hermes decides what is recent: a turn that was taken back is not shown again. Every call needs its result.
    """
    return bool(each.trace.results & calls) if each.trace.results else each.seq is None


def _beginning(traces: Sequence[Trace], each: _Shown) -> int:
    """Return where a message begins: one API writes reasoning, text and calls of a reply as items of their own."""
    assert each.at is not None
    at = each.at
    if each.trace.role != "assistant":
        return at
    while at and (
        traces[at - 1].role == "reasoning"
        or (traces[at - 1].calls and traces[at - 1].calls <= each.trace.calls)
        or (traces[at - 1].role == "assistant" and traces[at - 1].text and traces[at - 1].text == each.trace.text)
    ):
        at -= 1
    return at
