"""The verb `assemble`: read what could fit, choose, pair, and remember what was shown.

Without a stored view (nothing stored yet, switched off, a database that does not answer) a host that gave its live
messages gets those, bounded.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import tzinfo
from typing import Literal

from msgspec import Struct, structs

from lossless.engine import live as lives
from lossless.engine import view
from lossless.engine.align import Canonicalize, digest
from lossless.engine.assemble import Assembly, Entry, assemble
from lossless.engine.copied import own_after
from lossless.engine.guidance import guidance
from lossless.engine.ingest import list_start
from lossless.engine.plan import Limits
from lossless.engine.rejections import Rejections, applied
from lossless.engine.render import stands_for
from lossless.model import Context, LeftOut, Message, StoredMessage, Summary
from lossless.store.base import ConversationRow, NewManifest, Store
from lossless.store.rows import event_key
from lossless.tokens import message_tokens

Guidance = Literal["none", "short", "full"]


class Showing(Struct, frozen=True):
    """How a conversation is shown: for which limits, with what before it and behind it."""

    limits: Limits
    room: int
    zone: tzinfo
    canonicalize: Canonicalize
    exact: Callable[[Message], Message]
    """A message with what had left its row put back."""
    guidance: Guidance = "none"
    live: Sequence[Message] | None = None
    prompt_follows: bool = False
    session: str | None = None
    rejections: Rejections = Rejections()
    """What a provider refused: it is left out."""


def show(store: Store, row: ConversationRow, how: Showing, now: Callable[[], int]) -> tuple[Context, NewManifest]:
    """What a model is shown, and the note of it."""
    found = view.read(store, row, how.limits, how.zone)
    head = [*_guidance(how.guidance), *view.pin_entries(store, row.key)]
    unsaved = [] if how.live is None else _unsaved(store, row, how.live, how.canonicalize, how.session)
    if how.live is not None and (why := _must_be_live(row, found.entries, unsaved, how.live)):
        context = lives.bounded(
            acceptable(how.live, how.rejections, how.canonicalize), how.room, why, prompt_follows=how.prompt_follows
        )
        made = Assembly(context, [], 0)
    else:
        body = [*_dressed(_running(found.entries, how), how), *lives.as_entries(unsaved)]
        refused = _withhold(body, how)
        made = assemble(head, body, fresh=found.fresh, budget=how.room)
        if found.older:
            older = LeftOut("older", "budget", found.older)
            made = structs.replace(
                made, context=structs.replace(made.context, left_out=(older, *made.context.left_out))
            )
        if refused:
            left = (*made.context.left_out, *refused)
            made = structs.replace(made, context=structs.replace(made.context, left_out=left))
    note = view.manifest(
        made.kept,
        made.fresh,
        at=now(),
        window=how.limits.budget,
        tokens=made.context.tokens,
        reason=made.context.reason,
        extra="".join(entry.message.text for entry in head),
    )
    return made.context, note


def _running(entries: list[Entry], how: Showing) -> list[Entry]:
    """The entries, those of the newest user turn as they came: a model that is asked about a picture has to see it."""
    newest = next((at for at in range(len(entries) - 1, -1, -1) if _opens_turn(entries[at])), len(entries))
    room = how.room - sum(entry.tokens for entry in entries[newest:])
    for at in range(newest, len(entries)):
        exact = how.exact(entries[at].message)
        if exact is not entries[at].message:
            tokens = message_tokens(exact)
            if tokens - entries[at].tokens <= room:
                room -= tokens - entries[at].tokens
                entries[at] = structs.replace(entries[at], message=exact, tokens=tokens)
    return entries


def _dressed(entries: list[Entry], how: Showing) -> list[Entry]:
    """The entries, those of the running turn as the host holds them: it may have added something for this request."""
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
                entries[at] = structs.replace(entries[at], message=message, tokens=tokens)
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
            entries[at] = structs.replace(entry, message=message, tokens=tokens)
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
    known = store.known_events(row.id, keys, aliases=row.transcribed) if keys else {}
    # A host cannot hold more of what is stored than it holds in all; and nothing from before a /new that cleared its list.
    start = list_start(store, row, session, lambda: [digest(each, canonicalize) for each in _nameless(live)])
    newest = own_after(store.transplants(row.id), row, 2 * len(live))
    stored = store.digests(row.id, after=max(start, newest))
    return lives.unsaved(
        live, known, stored, lambda message: digest(message, canonicalize), lambda message: event_key(message.event_id)
    )


def _must_be_live(
    row: ConversationRow, entries: Sequence[Entry], unsaved: Sequence[Message], live: Sequence[Message]
) -> str:
    """Why the stored view cannot serve, if so."""
    if not entries:
        return "nothing is stored"
    if any(isinstance(entry.item, Summary) for entry in entries):
        return ""
    if row.messages + len(unsaved) < sum(message.role not in lives.INSTRUCTIONS for message in live):
        return "less is stored than the host holds"
    said = [*(entry.message for entry in entries), *unsaved]
    return "" if any(message.role == "user" for message in said) else "no user's turn is stored"
