"""Put a context in place of the old part of a request, and keep the new part as Hermes wrote it. Pure functions.

What is shown word for word is taken from the request itself: it has the marks, signatures and notes that the provider expects.
Only summaries, pins and what the request does not contain are written by us.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from msgspec import Struct

from lossless.engine.context.summary_xml import stands_for
from lossless.engine.ingest.message_digest import tool_ids
from lossless.hosts.hermes.wires import Item, Trace, Wire, item_trace, trace, with_result, with_text
from lossless.model import Context, Message, StoredMessage

Whole = Callable[[StoredMessage], Message]
"""Returns a stored message as it was delivered: large content is stored, and shown, as a reference."""

_LOOK_BACK = 64


class Spliced(Struct, frozen=True):
    """The items of a request with a context in it."""

    items: list[Item]
    matched: int
    """How many messages of the context the request contains."""
    unsaved: int
    """The index in the request of the first item that the context does not know."""


class _Traces:
    """The traces of a request's items, read when they are needed: most of a long list is not."""

    def __init__(self, items: Sequence[Item]) -> None:
        self._items, self._known = items, dict[int, Trace]()

    def __len__(self) -> int:
        return len(self._items)

    def __getitem__(self, at: int) -> Trace:
        if at not in self._known:
            self._known[at] = item_trace(self._items[at])
        return self._known[at]


class _Shown(Struct):
    """One message of a context, and where the request has it."""

    message: Message
    trace: Trace
    seq: int | None
    is_exact: bool
    at: int | None = None


def splice(wire: Wire, items: Sequence[Item], start: int, context: Context, whole: Whole) -> Spliced:
    """Return the items up to `start`, the context, and the items that are newer than the context."""
    traces = _Traces(items)
    shown = _shown(context, whole)
    _find(shown, traces, start)
    places = [each.at for each in shown if each.at is not None]
    if not places:
        return Spliced(list(items), 0, start)
    return Spliced(_merged(wire, items, traces, start, shown), len(places), max(places) + 1)


def _shown(context: Context, whole: Whole) -> list[_Shown]:
    shown = list[_Shown]()
    exact = {id(item.message): item for item in context.items if isinstance(item, StoredMessage)}
    messages = set(map(id, context.messages))
    changed = [item for item in exact.values() if id(item.message) not in messages]
    for message in context.messages:
        item = exact.get(id(message)) or _origin(message, changed)
        if item is None:
            shown.append(_Shown(message, trace(message), None, True))
        else:
            said = whole(item)
            shown.append(_Shown(message, trace(said), item.seq, message is said or message.parts == said.parts))
    return shown


def _origin(message: Message, changed: list[StoredMessage]) -> StoredMessage | None:
    """Return, and remove from the list, the stored message that is shown in another form; None for one that we wrote."""
    if stands_for(message) is not None and message.role == "user":
        return None
    for at, item in enumerate(changed):
        if item.message.role == message.role and tool_ids(item.message) == tool_ids(message):
            del changed[: at + 1]
            return item
    return None


def _find(shown: list[_Shown], traces: _Traces, start: int) -> None:
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


def _merged(wire: Wire, items: Sequence[Item], traces: _Traces, start: int, shown: Sequence[_Shown]) -> list[Item]:
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
        if not each.is_exact:
            item = swapped.get(each.at, items[each.at])
            text, results = each.message.text, each.trace.results
            swapped[each.at] = with_result(item, results, text) if results else with_text(item, text)
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


def _beginning(traces: _Traces, each: _Shown) -> int:
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
