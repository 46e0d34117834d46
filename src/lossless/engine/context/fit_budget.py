"""Assemble a context: choose the entries that fit a budget, in a valid order. Pure.

Entries that fit are shown unchanged. Otherwise the least needed leave first: messages outside the tail; then what of the
fresh tail exceeds half of the budget (its oldest tool results become references, then the pictures of the newest round,
then its oldest rounds leave); then the oldest summaries. The newest words of the user and the newest tool round stay
whole: only they can make a view exceed its budget. A call and its results stay or leave together. Nothing before the tail
depends on the time or the question, so that a provider's cache keeps hitting.

The brief of a task follows the summaries. It takes free space, then that of what is oldest before the tail, and never that of
the tail: without enough space it is left out.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence

from msgspec import Struct, field, structs

from lossless.engine.compaction.plan import tail_share
from lossless.engine.context.summary_xml import as_quoted, as_reference, without_picture
from lossless.engine.context.tool_pairing import pair_tool_calls
from lossless.formats.fit import Caps, asked_by, pictures_in, wire_bytes, without_thinking, worded
from lossless.model import (
    Context,
    File,
    Item,
    LeftOut,
    Message,
    Reasoning,
    StoredMessage,
    Text,
    ToolResult,
)
from lossless.tokens import message_tokens

_STEPS = 16
NO_CAPS = Caps(2**63 - 1, 2**31 - 1)


class ViewEntry(Struct, frozen=True, gc=False):
    """An item of the view as a message, with its tokens."""

    item: Item | None
    """None for an entry that is not stored: a pin, guidance, a live message."""
    message: Message
    tokens: int
    summary: tuple[int, int] | None = None
    """A summary's id in the store, and its revision."""
    at: int = 0
    """The time at which it was stored, in microseconds."""
    bulk: int = 0
    """The most bytes it can take in a request."""
    pictures: int = 0
    """The number of its files that a provider would read."""
    plain: Message | None = None
    """The message with references to its large contents, shown if the whole does not fit."""

    @property
    def name(self) -> str:
        if self.item is None:
            return "live message"
        return f"msg#{self.item.id}" if isinstance(self.item, StoredMessage) else self.item.id


class _View(Struct):
    """The entries of a body, the indices that left, and the list of what was left out."""

    entries: list[ViewEntry]
    fresh: int
    user: int | None
    """The index of the newest words of the user."""
    older: int
    """The tokens of older entries that were not read."""
    left: list[LeftOut]
    tokens: int = 0
    gone: set[int] = field(default_factory=set)
    rounds: list[list[int]] = field(default_factory=list)
    """Indices that stay or leave together, in the order of the newest of each."""
    whole: frozenset[int] = frozenset()
    """The indices that may neither leave nor be shortened."""
    quoted: dict[int, Message] = field(default_factory=dict)
    """The original messages of entries whose results are shown as text."""
    in_order: bool = False
    """True if the kept messages can be sent unchanged."""

    @property
    def kept(self) -> list[ViewEntry]:
        if not self.gone:
            return self.entries
        return [entry for at, entry in enumerate(self.entries) if at not in self.gone]

    @property
    def first_fresh(self) -> int:
        """Return the index of the fresh tail among the kept entries."""
        return self.fresh - sum(at < self.fresh for at in self.gone)

    def is_raw(self, at: int) -> bool:
        return self.entries[at].summary is None

    def tail_tokens(self) -> int:
        """Return the tokens of the fresh tail, with the newest words of the user."""
        tail = {at for each in self.rounds if each[-1] >= self.fresh for at in each} | self.whole
        return sum(self.entries[at].tokens for at in tail if at not in self.gone and self.is_raw(at))

    def drop(self, indices: Sequence[int], reason: str) -> None:
        for at in indices:
            if at not in self.gone:
                entry = self.entries[at]
                self.gone.add(at)
                self.tokens -= entry.tokens
                self.left.append(LeftOut(entry.name, reason, entry.tokens))

    def swap(self, at: int, message: Message) -> int:
        """Show another message for an entry; return the tokens saved."""
        entry = self.entries[at]
        self.entries[at] = shown_as(entry, message)
        tokens = self.entries[at].tokens
        self.tokens += tokens - entry.tokens
        return entry.tokens - tokens


class Assembly(Struct, frozen=True):
    """A context, and the entries in it."""

    context: Context
    kept: list[ViewEntry]
    fresh: int


def assemble(
    head: Sequence[ViewEntry],
    body: Sequence[ViewEntry],
    *,
    fresh: int,
    budget: int,
    older: int = 0,
    caps: Caps = NO_CAPS,
    brief: ViewEntry | None = None,
) -> Assembly:
    """Choose the entries of `body` (oldest first, fresh tail from index `fresh`) that fit after `head`.

    `older` is the number of tokens before the body that were not read. `brief` is shown after the summaries if there is space.
    """
    users = (at for at in range(len(body) - 1, -1, -1) if is_from_user(body[at]))
    user = next(users, None)
    turn = max(0, len(body) - 1) if user is None else user
    view = _View(_without_old_thinking(body, turn), min(fresh, len(body)), user, older, [])
    view.tokens = sum([entry.tokens for entry in view.entries])
    head_tokens = sum(entry.tokens for entry in head)
    limit = budget - head_tokens
    messages, tokens = _fit(view, limit)
    if not view.in_order and (orphans := _orphans(view, messages)):
        view.quoted = {at: view.entries[at].plain or view.entries[at].message for at in orphans}
        for at, message in orphans.items():
            view.swap(at, message)
        messages, tokens = _fit(view, limit)
    heavy = _is_heavy(view, caps)
    if heavy:
        _unload(view, caps)
        messages, tokens = _fit(view, limit)
        heavy = _is_heavy(view, caps)
    over = tokens > limit or heavy
    found = None if brief is None or over else _with_space(view, limit - brief.tokens, caps, brief)
    if found is not None:
        view, messages, tokens = found
    kept = view.kept
    left_out = (*view.left, *(() if view.in_order else _left_by_pairing(kept, messages)))
    if brief is not None and found is not None:
        place = _place_of_brief(view, messages)
        messages, tokens = (*messages[:place], brief.message, *messages[place:]), tokens + brief.tokens
    head_items = [entry for entry in head if entry.item is not None]
    context = Context(
        tuple(entry.item for entry in (*head_items, *kept) if entry.item is not None),
        tokens + head_tokens,
        (*(entry.message for entry in head), *messages),
        left_out,
        over,
    )
    return Assembly(context, [*head_items, *kept], view.first_fresh + len(head_items))


def _with_space(view: _View, limit: int, caps: Caps, brief: ViewEntry) -> tuple[_View, tuple[Message, ...], int] | None:
    """Return the view with space for a brief beside it, its messages and their tokens; None if the tail would have to give way.

    The oldest summaries leave first, then the oldest messages before the tail.
    """
    view = structs.replace(view, gone=set(view.gone), left=list(view.left))
    if view.tokens > limit and not view.rounds:
        view.rounds = _rounds([entry.message for entry in view.entries])
        view.whole = _untouchable(view)
    outside = [each for each in view.rounds if each[-1] < view.fresh and view.whole.isdisjoint(each)]
    for each in sorted(outside, key=lambda each: any(map(view.is_raw, each))):
        if view.tokens > limit:
            view.drop(each, "budget")
    kept = view.kept
    messages = pair_tool_calls([entry.message for entry in kept], fresh=view.first_fresh)
    tokens = _cost(kept, messages)
    if tokens > limit or _is_heavy(view, caps._replace(bytes=caps.bytes - wire_bytes(brief.message))):
        return None
    view.in_order = messages == tuple(entry.message for entry in kept)
    return view, messages, tokens


def _place_of_brief(view: _View, messages: Sequence[Message]) -> int:
    """Return the place after the last summary before the tail: it stays the same until the next compaction."""
    summaries = {id(entry.message) for entry in view.kept[: view.first_fresh] if entry.summary is not None}
    return max((at + 1 for at, message in enumerate(messages) if id(message) in summaries), default=0)


def shown_as(entry: ViewEntry, message: Message, plain: Message | None = None) -> ViewEntry:
    """Return the entry with another message, and a plain one to fall back to."""
    return structs.replace(
        entry,
        message=message,
        plain=plain,
        tokens=message_tokens(message),
        bulk=wire_bytes(message),
        pictures=pictures_in(message),
    )


def is_from_user(entry: ViewEntry) -> bool:
    """Return True if an entry contains words of the user."""
    message = entry.message
    return (
        message.role == "user"
        and entry.summary is None
        and not (message.parts and all(isinstance(part, ToolResult) for part in message.parts))
    )


def _fit(view: _View, limit: int) -> tuple[tuple[Message, ...], int]:
    """Return the messages to send, shortened to the limit if possible, and their tokens."""
    goal = limit
    while True:
        if view.tokens > goal:
            _shrink(view, goal)
        kept = view.kept
        shown = tuple([entry.message for entry in kept])
        messages = pair_tool_calls(shown, fresh=view.first_fresh)
        view.in_order = messages == shown  # usually so, and then the tokens are known
        tokens = view.tokens if view.in_order else _cost(kept, messages)
        # The replacement of a missing result costs a few tokens more than planned.
        goal, before = min(goal, view.tokens) - (tokens - limit), (view.tokens, len(view.gone))
        if tokens <= limit:
            return messages, tokens
        _shrink(view, goal)
        if (view.tokens, len(view.gone)) == before:
            return messages, tokens


def _shrink(view: _View, limit: int) -> None:
    """Shorten the view to the limit, the least needed entries first.

    The oldest messages outside the tail leave first: compaction will cover them. Then the tail is reduced to its share:
    its oldest tool results become references, its oldest rounds leave. Then the oldest summaries leave.
    """
    if not view.rounds:
        view.rounds = _rounds([entry.message for entry in view.entries])
        view.whole = _untouchable(view)
    share = max(0, tail_share(limit))
    # They leave in steps of a sixteenth of the budget, so that the beginning stays the same for some turns.
    step = max(1, limit // _STEPS)
    goal = limit - (-(view.older + view.tokens - limit)) % step
    raw = [each for each in view.rounds if view.whole.isdisjoint(each) and all(map(view.is_raw, each))]
    for each in raw:
        if view.tokens > goal and each[-1] < view.fresh:
            view.drop(each, "budget")
    tail = view.tail_tokens() if view.tokens > limit else 0
    for at in [at for each in raw if each[-1] >= view.fresh for at in each]:
        if view.tokens > limit and tail > share:
            tail -= _lighten(view, at)
    # A reference to a picture can still be opened, but an entry that leaves is hidden.
    for at in sorted(view.whole, key=lambda at: (at == view.user, at)):
        if view.tokens > limit:
            _show_plain(view, at)
    for each in raw:
        if view.tokens > limit and tail > share and each[-1] >= view.fresh:
            tail -= sum(view.entries[at].tokens for at in each if at not in view.gone)
            view.drop(each, "tail over budget")
    for at in range(len(view.entries)):
        if view.tokens > limit and not view.is_raw(at):
            view.drop([at], "budget")
    for each in raw:
        if view.tokens > limit:
            view.drop(each, "tail over budget")


def _is_heavy(view: _View, caps: Caps) -> bool:
    """Return True if a request would exceed the provider's limits of bytes or pictures."""
    kept = view.kept
    if sum([entry.pictures for entry in kept]) > caps.pictures:
        return True
    # The upper limit is known at once, and nearly always decides.
    return sum([entry.bulk for entry in kept]) > caps.bytes < sum(wire_bytes(entry.message) for entry in kept)


def _unload(view: _View, caps: Caps) -> None:
    """Bring a view below the caps: oldest pictures become references, then oldest rounds and summaries leave."""
    if not view.rounds:
        view.rounds, view.whole = _rounds([entry.message for entry in view.entries]), frozenset()
        view.whole = _untouchable(view)
    sizes = {at: wire_bytes(each.message) for at, each in enumerate(view.entries) if at not in view.gone}
    total, pictures = sum(sizes.values()), sum(view.entries[at].pictures for at in sizes)
    for at, entry in enumerate(view.entries):
        while (
            at in sizes and pictures_in(view.entries[at].message) and (total > caps.bytes or pictures > caps.pictures)
        ):
            view.swap(at, _without_first_picture(view.entries[at].message))
            view.left.append(LeftOut(entry.name, "picture", 0))
            pictures -= 1
            total += wire_bytes(view.entries[at].message) - sizes[at]
            sizes[at] = wire_bytes(view.entries[at].message)
    leaving = [each for each in view.rounds if view.whole.isdisjoint(each)]
    for each in sorted(leaving, key=lambda each: not all(map(view.is_raw, each))):
        if total > caps.bytes:
            total -= sum(sizes.get(at, 0) for at in each)
            view.drop(each, "budget")


def _without_first_picture(message: Message) -> Message:
    """Return the message with a reference in place of its first picture."""
    parts = list(message.parts)
    for at, part in enumerate(parts):
        if isinstance(part, File):
            parts[at] = without_picture(part)
            break
        if isinstance(part, ToolResult) and (
            held := [n for n, each in enumerate(part.parts) if isinstance(each, File)]
        ):
            inner = list(part.parts)
            if isinstance(first := inner[held[0]], File):
                inner[held[0]] = without_picture(first)
            parts[at] = structs.replace(part, parts=tuple(inner))
            break
    return structs.replace(message, parts=tuple(parts))


def _show_plain(view: _View, at: int) -> None:
    """Show a message with references in place of its large contents."""
    entry = view.entries[at]
    if at not in view.gone and entry.plain is not None and message_tokens(entry.plain) < entry.tokens:
        view.left.append(LeftOut(entry.name, "picture", view.swap(at, entry.plain)))


def _lighten(view: _View, at: int) -> int:
    """Show references in place of the tool results of a stored message; return the tokens saved."""
    entry = view.entries[at]
    source = view.quoted.get(at, entry.message)
    if at in view.gone or not isinstance(entry.item, StoredMessage) or not _has_result(source):
        return 0
    message = as_reference(source, entry.item.id, entry.tokens)
    message = as_quoted(message, (), entry.item.id) if at in view.quoted else message
    if message_tokens(message) >= entry.tokens:
        return 0
    saved = view.swap(at, message)
    view.left.append(LeftOut(entry.name, "tool result", saved))
    return saved


def _has_result(message: Message) -> bool:
    return any(isinstance(part, ToolResult) for part in message.parts)


def _rounds(messages: Sequence[Message]) -> list[list[int]]:
    """Return the indices of each call with its results, and of every other message, by the newest of each."""
    calls: dict[str, list[int]] = {}
    for at, message in enumerate(messages):
        for call_id in _call_ids(message):
            calls.setdefault(call_id, []).append(at)
    home = list(range(len(messages)))
    for at, message in enumerate(messages):
        for part in message.parts:
            if isinstance(part, ToolResult) and (found := calls.get(part.call_id)):
                before = bisect_right(found, at)
                _join(home, at, found[before - 1] if before else found[0])
    members: dict[int, list[int]] = {}
    for at in range(len(messages)):
        members.setdefault(_root(home, at), []).append(at)
    return sorted(members.values(), key=lambda each: each[-1])


def _root(home: list[int], at: int) -> int:
    while home[at] != at:
        at = home[at]
    return at


def _join(home: list[int], one: int, other: int) -> None:
    first, second = sorted((_root(home, one), _root(home, other)))
    home[second] = first


def _untouchable(view: _View) -> frozenset[int]:
    """Return the indices that must not change: the newest words of the user and the newest tool round."""
    user, messages = view.user, [entry.message for entry in view.entries]
    if user is None:
        return frozenset(view.rounds[-1] if view.rounds else ())
    newest = next((each for each in reversed(view.rounds) if _is_tool_round(each, messages) and each[-1] > user), [])
    own = next(each for each in view.rounds if user in each)
    return frozenset({*own, *newest})


def _is_tool_round(indices: Sequence[int], messages: Sequence[Message]) -> bool:
    return any(_call_ids(messages[at]) for at in indices)


def _call_ids(message: Message) -> list[str]:
    """Return the ids of the calls in a message."""
    ids = map(asked_by, message.parts) if message.role == "assistant" else ()
    return [each for each in ids if each is not None and worded(each)]


def _orphans(view: _View, messages: Sequence[Message]) -> dict[int, Message]:
    """Return messages with results as text, for entries whose calls are not shown."""
    shown = set(map(id, messages))
    changed = [at for at, each in enumerate(view.entries) if at not in view.gone and id(each.message) not in shown]
    if not any(_has_result(view.entries[at].message) for at in changed):
        return {}
    answered = {part.call_id for message in messages for part in message.parts if isinstance(part, ToolResult)}
    asked = {asked_by(part) for entry in view.kept for part in entry.message.parts}
    found: dict[int, Message] = {}
    for at in changed:
        entry = view.entries[at]
        results = [part.call_id for part in entry.message.parts if isinstance(part, ToolResult)]
        if any(worded(each) and each not in answered and each not in asked for each in results):
            calls = {each for each in results if not worded(each) or each in answered or each in asked}
            known = entry.item.id if isinstance(entry.item, StoredMessage) else None
            found[at] = as_quoted(entry.plain or entry.message, calls, known)
    return found


def _left_by_pairing(kept: Sequence[ViewEntry], messages: Sequence[Message]) -> Iterator[LeftOut]:
    """Yield the entries that pairing removed: results without a call, and empty messages."""
    shown = set(map(id, messages))
    changed = [entry for entry in kept if id(entry.message) not in shown]
    if not changed:
        return
    answered = {part.call_id for message in messages for part in message.parts if isinstance(part, ToolResult)}
    for entry in changed:
        parts = entry.message.parts
        results = [part.call_id for part in parts if isinstance(part, ToolResult)]
        if results and len(results) == len(parts) and answered.isdisjoint(results):
            yield LeftOut(entry.name, "no call", entry.tokens)
        elif all(isinstance(part, Reasoning) or (isinstance(part, Text) and not part.text.strip()) for part in parts):
            yield LeftOut(entry.name, "empty", entry.tokens)


def _without_old_thinking(body: Sequence[ViewEntry], turn: int) -> list[ViewEntry]:
    """Remove reasoning from before the newest summary: providers bind it to the text before it.

    The current turn is unchanged, and so is everything between two compactions.
    """
    bound = max((entry.at for entry in body if entry.summary is not None), default=0)
    return [
        entry if at >= turn or entry.at > bound or entry.summary is not None else _without_thinking(entry)
        for at, entry in enumerate(body)
    ]


def _without_thinking(entry: ViewEntry) -> ViewEntry:
    message = without_thinking(entry.message)
    if message is entry.message:
        return entry
    return structs.replace(entry, message=message, tokens=message_tokens(message))


def _cost(kept: Sequence[ViewEntry], messages: Sequence[Message]) -> int:
    """Return the tokens of the messages: stored if unchanged, counted if pairing changed them."""
    known = {id(entry.message): entry.tokens for entry in kept}
    return sum(_costs(messages, known))


def _costs(messages: Sequence[Message], known: dict[int, int]) -> Iterator[int]:
    for message in messages:
        tokens = known.get(id(message))
        yield message_tokens(message) if tokens is None else tokens
