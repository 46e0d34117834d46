"""What a model is shown: items and a budget in, an ordered, bounded, valid view out. Pure.

What fits is shown as it is. What does not gives way, the least needed first: messages outside the tail, then what of the
fresh tail exceeds half of the room (its oldest tool results become references, then the pictures of the newest round, then its
oldest rounds leave), then the oldest summaries. The newest words of the user and the newest tool round stay whole: only they can make a view exceed its budget.
A call and its results stay or leave together. Nothing before the tail depends on the time or the question, so that a
provider's cache keeps hitting.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence

from msgspec import Struct, field, structs

from lossless.engine.compaction.plan import tail_share
from lossless.engine.context.summary_xml import as_quoted, as_reference, without_picture
from lossless.engine.context.tool_pairing import paired
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


class Entry(Struct, frozen=True, gc=False):
    """An item of the view, as a message, with its cost."""

    item: Item | None
    """None for what is not stored: a pin, guidance, a live message."""
    message: Message
    tokens: int
    summary: tuple[int, int] | None = None
    """A summary's id in the store, and its revision."""
    at: int = 0
    """When it was stored, in microseconds."""
    bulk: int = 0
    """The most bytes it can take in a request."""
    pictures: int = 0
    """How many files of it a provider would look at."""
    plain: Message | None = None
    """What to show if there is no room for the message: it with references to what had left its row."""

    @property
    def name(self) -> str:
        if self.item is None:
            return "live message"
        return f"msg#{self.item.id}" if isinstance(self.item, StoredMessage) else self.item.id


class _View(Struct):
    """The entries of a body, which of them are still shown, and what was left out."""

    entries: list[Entry]
    fresh: int
    user: int | None
    """Where the newest words of the user are."""
    older: int
    """The tokens of what was not even read."""
    left: list[LeftOut]
    tokens: int = 0
    gone: set[int] = field(default_factory=set)
    rounds: list[list[int]] = field(default_factory=list)
    """Indices that stay or leave together, in the order of the newest of each."""
    whole: frozenset[int] = frozenset()
    """What may neither leave nor be shortened."""
    quoted: dict[int, Message] = field(default_factory=dict)
    """Messages whose results are shown as text, as they were."""
    in_order: bool = False
    """Whether what is kept can be sent as it is."""

    @property
    def kept(self) -> list[Entry]:
        if not self.gone:
            return self.entries
        return [entry for at, entry in enumerate(self.entries) if at not in self.gone]

    @property
    def first_fresh(self) -> int:
        """Return where the fresh tail starts among what is kept."""
        return self.fresh - sum(at < self.fresh for at in self.gone)

    def is_raw(self, at: int) -> bool:
        return self.entries[at].summary is None

    def tail_tokens(self) -> int:
        """Return the tokens of the fresh tail, the newest words of the user included."""
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
        """Show another message in the place of one; how many tokens that saves."""
        entry = self.entries[at]
        self.entries[at] = shown_as(entry, message)
        tokens = self.entries[at].tokens
        self.tokens += tokens - entry.tokens
        return entry.tokens - tokens


class Assembly(Struct, frozen=True):
    """A context, and the entries it was made of."""

    context: Context
    kept: list[Entry]
    fresh: int


def assemble(
    head: Sequence[Entry], body: Sequence[Entry], *, fresh: int, budget: int, older: int = 0, caps: Caps = NO_CAPS
) -> Assembly:
    """Choose what is shown of `body` (oldest first, its fresh tail from the index `fresh` on) behind a `head` that always stays.

    `older` are the tokens of what lies before the body and was not read.
    """
    users = (at for at in range(len(body) - 1, -1, -1) if is_from_user(body[at]))
    user = next(users, None)
    turn = max(0, len(body) - 1) if user is None else user
    view = _View(_without_old_thinking(body, turn), min(fresh, len(body)), user, older, [])
    view.tokens = sum([entry.tokens for entry in view.entries])
    taken = sum(entry.tokens for entry in head)
    room = budget - taken
    messages, tokens = _fitted(view, room)
    if not view.in_order and (orphans := _orphans(view, messages)):
        view.quoted = {at: view.entries[at].plain or view.entries[at].message for at in orphans}
        for at, message in orphans.items():
            view.swap(at, message)
        messages, tokens = _fitted(view, room)
    heavy = _is_heavy(view, caps)
    if heavy:
        _unload(view, caps)
        messages, tokens = _fitted(view, room)
        heavy = _is_heavy(view, caps)
    kept = view.kept
    stays = [entry for entry in head if entry.item is not None]
    context = Context(
        tuple(entry.item for entry in (*stays, *kept) if entry.item is not None),
        tokens + taken,
        (*(entry.message for entry in head), *messages),
        (*view.left, *(() if view.in_order else _unsaid(kept, messages))),
        tokens > room or heavy,
    )
    return Assembly(context, [*stays, *kept], view.first_fresh + len(stays))


def shown_as(entry: Entry, message: Message, plain: Message | None = None) -> Entry:
    """Return the entry with another message to be shown for its item, and what to show where that does not fit."""
    return structs.replace(
        entry,
        message=message,
        plain=plain,
        tokens=message_tokens(message),
        bulk=wire_bytes(message),
        pictures=pictures_in(message),
    )


def is_from_user(entry: Entry) -> bool:
    """Return whether an entry holds words of the user's own."""
    message = entry.message
    return (
        message.role == "user"
        and entry.summary is None
        and not (message.parts and all(isinstance(part, ToolResult) for part in message.parts))
    )


def _fitted(view: _View, room: int) -> tuple[tuple[Message, ...], int]:
    """Return the messages to be sent, within the room if anything can be shortened, and what they cost."""
    goal = room
    while True:
        if view.tokens > goal:
            _shrink(view, goal)
        kept = view.kept
        said = tuple([entry.message for entry in kept])
        messages = paired(said, fresh=view.first_fresh)
        view.in_order = messages == said  # as most are: then what they cost is known
        tokens = view.tokens if view.in_order else _cost(kept, messages)
        # A stand-in for a missing result costs a few tokens more than was planned for.
        goal, before = min(goal, view.tokens) - (tokens - room), (view.tokens, len(view.gone))
        if tokens <= room:
            return messages, tokens
        _shrink(view, goal)
        if (view.tokens, len(view.gone)) == before:
            return messages, tokens


def _shrink(view: _View, room: int) -> None:
    """Shorten the view until it fits, the least needed first; what must stay whole is left alone.

    The oldest messages outside the tail leave first: compaction is to cover them. Then the tail is brought down to its share:
    its oldest tool results become references, its oldest rounds leave. Then the oldest summaries leave.
    """
    if not view.rounds:
        view.rounds = _rounds([entry.message for entry in view.entries])
        view.whole = _whole(view)
    share = max(0, tail_share(room))
    # They leave by the sixteenth of the room, so that the beginning of the view stays the same for some turns.
    step = max(1, room // _STEPS)
    goal = room - (-(view.older + view.tokens - room)) % step
    raw = [each for each in view.rounds if view.whole.isdisjoint(each) and all(map(view.is_raw, each))]
    for each in raw:
        if view.tokens > goal and each[-1] < view.fresh:
            view.drop(each, "budget")
    tail = view.tail_tokens() if view.tokens > room else 0
    for at in [at for each in raw if each[-1] >= view.fresh for at in each]:
        if view.tokens > room and tail > share:
            tail -= _lighten(view, at)
    # A picture that becomes a reference is named and can be looked at; what leaves is hidden with all it covers.
    for at in sorted(view.whole, key=lambda at: (at == view.user, at)):
        if view.tokens > room:
            _put_away(view, at)
    for each in raw:
        if view.tokens > room and tail > share and each[-1] >= view.fresh:
            tail -= sum(view.entries[at].tokens for at in each if at not in view.gone)
            view.drop(each, "tail over budget")
    for at in range(len(view.entries)):
        if view.tokens > room and not view.is_raw(at):
            view.drop([at], "budget")
    for each in raw:
        if view.tokens > room:
            view.drop(each, "tail over budget")


def _is_heavy(view: _View, caps: Caps) -> bool:
    """Return whether a request would have more bytes or more pictures than its provider takes."""
    kept = view.kept
    if sum([entry.pictures for entry in kept]) > caps.pictures:
        return True
    # What it can take at most is known at once, and nearly always enough.
    return sum([entry.bulk for entry in kept]) > caps.bytes < sum(wire_bytes(entry.message) for entry in kept)


def _unload(view: _View, caps: Caps) -> None:
    """Bring a view below the caps: the oldest pictures become references, then the oldest rounds leave, then summaries."""
    if not view.rounds:
        view.rounds, view.whole = _rounds([entry.message for entry in view.entries]), frozenset()
        view.whole = _whole(view)
    sizes = {at: wire_bytes(each.message) for at, each in enumerate(view.entries) if at not in view.gone}
    total, pictures = sum(sizes.values()), sum(view.entries[at].pictures for at in sizes)
    for at, entry in enumerate(view.entries):
        while (
            at in sizes and pictures_in(view.entries[at].message) and (total > caps.bytes or pictures > caps.pictures)
        ):
            view.swap(at, _less_one_picture(view.entries[at].message))
            view.left.append(LeftOut(entry.name, "picture", 0))
            pictures -= 1
            total += wire_bytes(view.entries[at].message) - sizes[at]
            sizes[at] = wire_bytes(view.entries[at].message)
    leaving = [each for each in view.rounds if view.whole.isdisjoint(each)]
    for each in sorted(leaving, key=lambda each: not all(map(view.is_raw, each))):
        if total > caps.bytes:
            total -= sum(sizes.get(at, 0) for at in each)
            view.drop(each, "budget")


def _less_one_picture(message: Message) -> Message:
    """Return the message with a reference in the place of its first picture."""
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


def _put_away(view: _View, at: int) -> None:
    """Show a message as its row keeps it, with references to what left it."""
    entry = view.entries[at]
    if at not in view.gone and entry.plain is not None and message_tokens(entry.plain) < entry.tokens:
        view.left.append(LeftOut(entry.name, "picture", view.swap(at, entry.plain)))


def _lighten(view: _View, at: int) -> int:
    """Show a reference in the place of the tool results of a stored message; how many tokens that saves."""
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
    """Return the indices of each call with all of its results, and of every other message, in the order of the newest of each."""
    calls: dict[str, list[int]] = {}
    for at, message in enumerate(messages):
        for call_id in _asked(message):
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


def _whole(view: _View) -> frozenset[int]:
    """Return what must stay as it is: the newest words of the user and the newest tool round after them."""
    user, messages = view.user, [entry.message for entry in view.entries]
    if user is None:
        return frozenset(view.rounds[-1] if view.rounds else ())
    newest = next((each for each in reversed(view.rounds) if _is_tool_round(each, messages) and each[-1] > user), [])
    own = next(each for each in view.rounds if user in each)
    return frozenset({*own, *newest})


def _is_tool_round(indices: Sequence[int], messages: Sequence[Message]) -> bool:
    return any(_asked(messages[at]) for at in indices)


def _asked(message: Message) -> list[str]:
    """Return the ids of the calls that a message makes."""
    ids = map(asked_by, message.parts) if message.role == "assistant" else ()
    return [each for each in ids if each is not None and worded(each)]


def _orphans(view: _View, messages: Sequence[Message]) -> dict[int, Message]:
    """Return the entries whose results pairing left out because their call is not shown, with these results as text."""
    said = set(map(id, messages))
    changed = [at for at, each in enumerate(view.entries) if at not in view.gone and id(each.message) not in said]
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


def _unsaid(kept: Sequence[Entry], messages: Sequence[Message]) -> Iterator[LeftOut]:
    """Yield what pairing left out as a whole: results whose call is not there, and messages that say nothing."""
    said = set(map(id, messages))
    changed = [entry for entry in kept if id(entry.message) not in said]
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


def _without_old_thinking(body: Sequence[Entry], turn: int) -> list[Entry]:
    """Without what a model thought before the newest summary was made: providers bind thinking to the words before it.

    The running turn stays as it is, and between two compactions nothing changes.
    """
    bound = max((entry.at for entry in body if entry.summary is not None), default=0)
    return [
        entry if at >= turn or entry.at > bound or entry.summary is not None else _without_thinking(entry)
        for at, entry in enumerate(body)
    ]


def _without_thinking(entry: Entry) -> Entry:
    message = without_thinking(entry.message)
    if message is entry.message:
        return entry
    return structs.replace(entry, message=message, tokens=message_tokens(message))


def _cost(kept: Sequence[Entry], messages: Sequence[Message]) -> int:
    """Return what the messages cost: known for those that are as they were stored, counted for those that pairing changed."""
    known = {id(entry.message): entry.tokens for entry in kept}
    return sum(_costs(messages, known))


def _costs(messages: Sequence[Message], known: dict[int, int]) -> Iterator[int]:
    for message in messages:
        tokens = known.get(id(message))
        yield message_tokens(message) if tokens is None else tokens
