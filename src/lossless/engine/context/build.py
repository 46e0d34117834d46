"""The verb `assemble`: read what could fit, choose, pair, and remember what was shown.

Without a stored view (nothing stored yet, switched off, a database that does not answer) a host that gave its live
messages gets those, bounded.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import tzinfo
from itertools import takewhile
from typing import Literal

from msgspec import Struct, structs

from lossless.engine.compaction.plan import Limits
from lossless.engine.context import live_messages as lives
from lossless.engine.context import load
from lossless.engine.context.assemble import Assembly, Entry, assemble, is_from_user, shown_as
from lossless.engine.context.guidance import guidance
from lossless.engine.context.rejections import Rejections, applied
from lossless.engine.context.summary_xml import stands_for
from lossless.engine.ingest import large_content
from lossless.engine.ingest.identity import Canonicalize, digest
from lossless.engine.ingest.resent_list import list_start
from lossless.engine.shared.transplanted_ranges import own_after
from lossless.formats.fit import Caps
from lossless.model import INSTRUCTIONS, Context, LeftOut, Message, StoredMessage, Summary
from lossless.store.base import ConversationRow, NewManifest
from lossless.store.rows import event_key
from lossless.store.store import Store
from lossless.tokens import IMAGE_TOKENS, message_tokens

_HIDDEN = ("budget", "tail over budget")
"""Why something is left out of which nothing at all is shown."""
_EIGHT = 8
Guidance = Literal["none", "short", "full"]


class Showing(Struct, frozen=True):
    """How a conversation is shown: for which limits, with what before it and behind it."""

    limits: Limits
    window: int
    """The tokens of the host's model that may be shown; the limits and `room` are in tokens as we estimate them."""
    room: int
    zone: tzinfo
    canonicalize: Canonicalize
    exact: Callable[[Message, Sequence[int]], Message]
    """A message with some of the pieces that had left its row put back, by their places."""
    size: Callable[[Sequence[str]], int]
    """The bytes of some files, by their ids."""
    caps: Caps
    guidance: Guidance = "none"
    live: Sequence[Message] | None = None
    prompt_follows: bool = False
    session: str | None = None
    rejections: Rejections = Rejections()
    """What a provider refused: it is left out."""


def show(store: Store, row: ConversationRow, how: Showing, now: Callable[[], int]) -> tuple[Context, NewManifest]:
    """Return what a model is shown, and the note of it."""
    found = load.read(store, row, how.limits, how.zone)
    head = [*_guidance(how.guidance), *load.pin_entries(store, row.key)]
    unsaved = [] if how.live is None else _unsaved(store, row, how.live, how.canonicalize, how.session)
    if how.live is not None and (why := _must_be_live(row, found.entries, unsaved, how.live)):
        context = lives.bounded(
            acceptable(how.live, how.rejections, how.canonicalize),
            how.room,
            why,
            prompt_follows=how.prompt_follows,
            caps=how.caps,
        )
        made = Assembly(context, [], 0)
    else:
        body = [*_dressed(_running(found.entries, how), how), *lives.as_entries(unsaved)]
        refused = _withhold(body, how)
        prompt = load.system_entry(store, row.id)
        made = _with_prompt(prompt, head, body, found, how)
        hidden = found.older - _unread(prompt, found)
        if hidden or made.context.left_out or refused:
            older = (LeftOut("older", "budget", hidden),) if hidden else ()
            left = (*older, *made.context.left_out, *refused)
            hidden = sum(each.tokens for each in left if each.reason in _HIDDEN)
            made = structs.replace(made, context=structs.replace(made.context, left_out=left, uncovered=hidden))
    note = load.manifest(
        made.kept,
        made.fresh,
        at=now(),
        window=how.window,
        tokens=made.context.tokens,
        reason=made.context.reason,
        extra="".join(entry.message.text for entry in head),
        uncovered=made.context.uncovered,
    )
    return made.context, note


def _with_prompt(
    prompt: Entry | None, head: Sequence[Entry], body: Sequence[Entry], found: load.Read, how: Showing
) -> Assembly:
    """Return what is shown, the newest system message always with it.

    In the fresh tail it stays in its place, so that what comes before it stays the same; and behind older instructions, since
    the last one counts. Otherwise, and where it would leave for lack of room, it comes first.
    """
    older = found.older - _unread(prompt, found)
    if prompt is None:
        return assemble(head, body, fresh=found.fresh, budget=how.room, older=older, caps=how.caps)
    at = next((at for at, entry in enumerate(body) if _same(entry, prompt)), None)
    if at is not None and (at >= max(1, found.fresh) or any(_instructs(entry) for entry in body[:at])):
        made = assemble(head, body, fresh=found.fresh, budget=how.room, older=older, caps=how.caps)
        if any(_same(entry, prompt) for entry in made.kept):
            return made
    rest = [entry for entry in body if not _same(entry, prompt)]
    fresh = found.fresh - (at is not None and at < found.fresh)
    first = prompt if at is None else body[at]
    return assemble([first, *head], rest, fresh=fresh, budget=how.room, older=older, caps=how.caps)


def _instructs(entry: Entry) -> bool:
    return isinstance(entry.item, StoredMessage) and entry.message.role in INSTRUCTIONS


def _same(entry: Entry, other: Entry) -> bool:
    return isinstance(entry.item, StoredMessage) and entry.item.id == getattr(other.item, "id", None)


def _unread(prompt: Entry | None, found: load.Read) -> int:
    """Return the tokens of the system message, if it is older than what was read."""
    if prompt is None or any(_same(entry, prompt) for entry in found.entries):
        return 0
    return min(prompt.tokens, found.older)


def _running(entries: list[Entry], how: Showing) -> list[Entry]:
    """Return the entries, those of the running turn with what left them: a model that is asked about a picture has to see it.

    The newest come first when there is not room for all: see `restorable`.
    """
    newest = next((at for at in range(len(entries) - 1, -1, -1) if is_from_user(entries[at])), len(entries))
    held = [(at, each) for at in range(newest, len(entries)) for each in large_content.pieces(entries[at].message)]
    if not held:
        return entries
    total = sum(entry.tokens for entry in entries)
    chosen = restorable(
        [(at, piece.is_picture, how.size(piece.files)) for at, piece in held],
        last=len(entries) - 1,
        user=newest,
        free=how.room - total,
        room=how.room - entries[newest].tokens - entries[-1].tokens,
        caps=how.caps,
    )
    for at in {at for at, _ in held}:
        places = [place for place, (where, _) in enumerate(held) if where == at]
        wanted = [place - places[0] for place in places if place in chosen]
        exact = how.exact(entries[at].message, wanted)
        if exact is not entries[at].message:
            entries[at] = shown_as(entries[at], exact, entries[at].message)
    return entries


def restorable(
    pieces: Sequence[tuple[int, bool, int]], *, last: int, user: int, free: int, room: int, caps: Caps
) -> frozenset[int]:
    """Choose which pieces of a turn are put back: (entry, whether it is a picture, bytes) each, oldest first.

    Those of the `last` entry and of the newest words of the `user` come first and may take all of the `room`. Of the others as
    many of the newest as fit into the `free` tokens and the caps: they leave by eights, so that the beginning of a request
    stays the same for some rounds.
    """
    size = tokens = pictures = 0

    def fits(at: int, most: int) -> bool:
        nonlocal size, tokens, pictures
        _, is_picture, length = pieces[at]
        size += length * 4 // 3
        tokens += IMAGE_TOKENS if is_picture else length // 3
        pictures += is_picture
        return size <= caps.bytes and pictures <= caps.pictures and tokens <= most

    newest_first = range(len(pieces) - 1, -1, -1)
    first = [at for entry in (last, user) for at in newest_first if pieces[at][0] == entry]
    kept = list(takewhile(lambda at: fits(at, room), dict.fromkeys(first)))
    rest = [at for at in range(len(pieces)) if at not in first]
    fitting = sum(1 for _ in takewhile(lambda at: fits(at, free), reversed(rest)))
    gone = -(-(len(rest) - fitting) // _EIGHT) * _EIGHT
    return frozenset([*kept, *rest[gone:]])


def _dressed(entries: list[Entry], how: Showing) -> list[Entry]:
    """Return the entries, those of the running turn as the host holds them: it may have added something for this request."""
    held = lives.current_turn(how.live or ())
    newest = next((at for at in range(len(entries) - 1, -1, -1) if _opens_turn(entries[at])), len(entries))
    room = how.room - sum(entry.tokens for entry in entries[newest:])
    for message in held:
        mark = digest(message, how.canonicalize)
        for at in range(len(entries) - 1, newest - 1, -1):
            item = entries[at].item
            named = (
                message.event_id is not None and isinstance(item, StoredMessage) and item.event_id == message.event_id
            )
            if not isinstance(item, StoredMessage) or not (named or item.digest == mark) or item.role != message.role:
                continue
            tokens = message_tokens(message)
            if message.parts != entries[at].message.parts and tokens - entries[at].tokens <= room:
                room -= tokens - entries[at].tokens
                entries[at] = shown_as(entries[at], message, entries[at].plain or entries[at].message)
            break
    return entries


def _withhold(entries: list[Entry], how: Showing) -> list[LeftOut]:
    """Take what a provider refused out of the entries; what was left out."""
    if how.rejections == Rejections():
        return []
    left: list[LeftOut] = []
    for at, entry in enumerate(entries):
        if entry.summary is not None:
            continue
        item = entry.item
        mark = item.digest if isinstance(item, StoredMessage) else digest(entry.message, how.canonicalize)
        shown = applied(how.rejections, mark.hex(), entry.message)
        if shown is not entry.message:
            # Without parts a message says nothing, and is not sent: those behind it keep their places.
            message = shown or structs.replace(entry.message, parts=(), extra={})
            tokens = message_tokens(message) if shown else 0
            plain = entry.plain and applied(how.rejections, mark.hex(), entry.plain)
            entries[at] = structs.replace(entry, message=message, tokens=tokens, plain=plain)
            left.append(LeftOut(entry.name, "rejected", max(0, entry.tokens - tokens)))
    return left


def acceptable(live: Sequence[Message], rejections: Rejections, canonicalize: Canonicalize) -> list[Message]:
    """Return the messages a host holds without what a provider refused of them."""
    if rejections == Rejections():
        return list(live)
    shown = (applied(rejections, digest(message, canonicalize).hex(), message) for message in live)
    return [message for message in shown if message is not None]


def _opens_turn(entry: Entry) -> bool:
    return entry.message.role == "user" and entry.summary is None


def _guidance(kind: Guidance) -> list[Entry]:
    if kind == "none":
        return []
    message = Message.system(guidance(kind))
    return [Entry(None, message, message_tokens(message))]


def _nameless(live: Sequence[Message]) -> list[Message]:
    return [each for each in live if each.event_id is None and stands_for(each) is None]


def _unsaved(
    store: Store, row: ConversationRow, live: Sequence[Message], canonicalize: Canonicalize, session: str | None
) -> list[Message]:
    keys = [key for message in live if (key := event_key(message.event_id)) is not None]
    known = store.messages.known_events(row.id, keys, aliases=row.transcribed) if keys else {}
    # A host cannot hold more of what is stored than it holds in all; and nothing from before a /new that cleared its list.
    start = list_start(store, row, session, lambda: [digest(each, canonicalize) for each in _nameless(live)])
    newest = own_after(store.imported.transplants(row.id), row, 2 * len(live))
    stored = store.messages.digests(row.id, after=max(start, newest))
    return lives.unsaved(
        live, known, stored, lambda message: digest(message, canonicalize), lambda message: event_key(message.event_id)
    )


def _must_be_live(
    row: ConversationRow, entries: Sequence[Entry], unsaved: Sequence[Message], live: Sequence[Message]
) -> str:
    """Return why the stored view cannot serve, if so."""
    brings_prompt = any(message.role in INSTRUCTIONS for message in live)
    if not entries or (brings_prompt and all(_instructs(entry) for entry in entries)):
        return "nothing is stored"
    if any(isinstance(entry.item, Summary) for entry in entries):
        return ""
    if row.messages + len(unsaved) < sum(message.role not in INSTRUCTIONS for message in live):
        return "less is stored than the host holds"
    said = [*(entry.message for entry in entries), *unsaved]
    return "" if any(message.role == "user" for message in said) else "no user's turn is stored"
