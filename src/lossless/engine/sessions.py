"""Start and end conversations: /new, /reset, the end of a session, a run of a scheduled job.

None of them deletes anything. What leaves a context is listed beside it, an archived conversation stays in the family of its
key, and both can still be found and read.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING, Any

from lossless.ids import message_id
from lossless.session_patterns import is_scheduled
from lossless.store.rows.codec import event_key, moment
from lossless.store.rows.types import SPAN, ConversationRow, ItemRow
from lossless.store.store import Store

if TYPE_CHECKING:
    from lossless.model import Detached, Renewed

WITHDRAWN = "withdrawn"
"""The cause for which a message left the context: its host took it back."""
_RENEWED = "renewed"
_CONTINUED = ("", "new", "unknown", "restart", "shutdown")
"""Reasons for which a session ends and its conversation continues."""


def leaving(items: Sequence[ItemRow], retain_depth: int, system: ItemRow | None = None) -> list[ItemRow]:
    """Return what a /new removes from a context: messages, and summaries less deep than `retain_depth`.

    `system`, the newest system message, stays.
    """
    return [item for item in items if retain_depth >= 0 and item.depth < retain_depth and item != system]


def current(store: Store, key: str, session: str | None) -> ConversationRow | None:
    """Return the conversation of a key: the active one; for a scheduled job, the run of this session."""
    active = store.conversations.active(key)
    if session is None or not is_scheduled(key):
        return active
    waiting = active if active and active.session is None else None
    return store.conversations.with_session(key, session) or waiting


def renew(store: Store, key: str, session: str | None, retain_depth: int, now: int) -> Renewed:
    """Empty the context of a conversation."""
    from lossless.model import Renewed

    with store.transaction():
        row = _lock_current(store, key, session)
        if row is None:
            return Renewed((), 0, 0)
        items = leaving(store.context.items(row.id), retain_depth, store.context.newest_system(row.id))
        before = {"renewed_at": row.renewed_at, "seq": begun_after(store, row)}
        store.operations.record(row.id, "new", now, before, f"/new: {len(items):,} items left the context")
        store.context.detach(row.id, items, "new", now)
        store.conversations.set_renewed(row.id, now)
        store.state.set_cursor(row.id, _RENEWED, {"seq": row.messages}, now)
        left = row.context_tokens - sum(item.tokens for item in items)
        return Renewed(named_items(store, row.id, [(item, "new", now) for item in items]), row.context_tokens, left)


def undo_renew(store: Store, conversation_id: int, at: int, plan: dict[str, Any]) -> None:
    """Put back what the /new of that time removed from the context; what came since stays after it."""
    left = [
        item.ordinal for item, cause, since in store.context.detached(conversation_id) if (cause, since) == ("new", at)
    ]
    store.context.attach(conversation_id, left)
    store.conversations.set_renewed(conversation_id, plan["renewed_at"])
    store.state.set_cursor(conversation_id, _RENEWED, {"seq": plan["seq"]}, at)


def replace_system(store: Store, row: ConversationRow) -> None:
    """In a transaction: remove the system message that a /new kept, since a newer one arrives."""
    system = store.context.newest_system(row.id)
    if system is not None and row.renewed_at is not None and system.ordinal <= begun_after(store, row):
        store.context.detach(row.id, [system], "new", row.renewed_at)


def begun_after(store: Store, row: ConversationRow) -> int:
    """Return the seq of the last message before a /new, or 0: the host's own list starts after it."""
    found = store.state.cursor(row.id, _RENEWED) if row.renewed_at is not None else None
    return int(found["seq"]) if found else 0


def reset(store: Store, key: str, session: str | None, now: int) -> bool:
    """Archive a conversation and start a fresh one; return False if it is still empty."""
    with store.transaction():
        row = _lock_current(store, key, session)
        if row is None:
            store.conversations.start(key, _run_session(key, session), now)
            return True
        return _replace(store, row, session, "manual-reset", now)


def keeps_conversation(reason: str) -> bool:
    """Return whether a conversation continues after a session that ends for that reason."""
    return _normalize(reason) in _CONTINUED


def _normalize(reason: str) -> str:
    return reason.strip().casefold()


def end(store: Store, key: str, session: str | None, reason: str, now: int) -> bool:
    """Archive a conversation whose session ended for good; unless it was deleted, start a fresh one."""
    if keeps_conversation(reason):
        return False
    with store.transaction():
        row = _lock_current(store, key, session)
        if row is None:
            return False
        if _normalize(reason) == "deleted":
            store.operations.record(row.id, "end", now, {}, "the session was deleted, and its conversation archived")
            return store.conversations.archive(row.id, "session-deleted", now)
        return _replace(store, row, session, "session-end", now)


def _replace(store: Store, row: ConversationRow, session: str | None, cause: str, now: int) -> bool:
    if not row.active or not row.messages:
        return False
    kind, what = ("reset", "/reset") if cause == "manual-reset" else ("end", "the session ended")
    store.operations.record(row.id, kind, now, {}, f"{what}: the conversation was archived, and a fresh one started")
    store.conversations.start(
        row.key, _run_session(row.key, session), now, continues=row.id, parent=row.parent, cause=cause
    )
    return True


def _run_session(key: str, session: str | None) -> str | None:
    """Return the session of a fresh conversation: usually none until its first message."""
    return session if is_scheduled(key) else None


def _lock_current(store: Store, key: str, session: str | None) -> ConversationRow | None:
    """Lock and return the current conversation, or its successor if it was archived meanwhile."""
    row = current(store, key, session)
    while row is not None:
        held = store.conversations.hold(row.id)
        row = current(store, key, session)
        if row is not None and row.id == held.id:
            return held
    return None


def attach_to_parent(store: Store, row: ConversationRow, key: str, session: str | None) -> None:
    """In a transaction: attach a sub-agent's conversation to its parent's, once both exist."""
    parent = current(store, key, session) if row.parent is None else None
    if parent is not None:
        store.conversations.set_parent(row.id, parent.id)


def detached(store: Store, row: ConversationRow) -> tuple[Detached, ...]:
    """Return what left a context, by position."""
    return named_items(store, row.id, store.context.detached(row.id))


def withdraw(store: Store, key: str, session: str | None, seqs: Collection[int], now: int) -> int:
    """Take messages out of the context because their host took them back; return how many. They stay stored.

    A message that a summary covers stays covered by it.
    """
    with store.transaction():
        row = _lock_current(store, key, session)
        if row is None:
            return 0
        items = [item for item in store.context.items(row.id) if item.is_message and item.ordinal in seqs]
        return store.context.detach(row.id, items, WITHDRAWN, now) if items else 0


def follow_host(store: Store, key: str, session: str | None, held: Collection[str], now: int) -> tuple[int, int]:
    """Withdraw the messages that a host dropped, and bring back those it holds again; return how many of each.

    `held` are the event ids of its list. Only what follows the first message that both have is compared: a host may
    hold the newest messages only, or none after a restart.
    """
    row = current(store, key, session)
    if row is None or not held:
        return 0, 0
    keys = {name for each in held if (name := event_key(each)) is not None}
    shown = [item.ordinal for item in store.context.items(row.id) if item.is_message]
    named = {each.seq: each.event_id for each in store.messages.at(row.id, shown) if each.event_id}
    first = min((seq for seq, name in named.items() if name in keys), default=None)
    dropped = [] if first is None else [seq for seq, name in named.items() if seq > first and name not in keys]
    gone = [item.ordinal for item, cause, _ in store.context.detached(row.id) if cause == WITHDRAWN and item.is_message]
    back = [each.seq for each in store.messages.at(row.id, gone) if each.event_id in keys] if gone else []
    if back:
        with store.transaction():
            store.context.attach(row.id, back)
    return withdraw(store, key, session, dropped, now) if dropped else 0, len(back)


def named_items(store: Store, conversation_id: int, left: Sequence[tuple[ItemRow, str, int]]) -> tuple[Detached, ...]:
    """Return items with their public ids."""
    from lossless.model import Detached

    ids = [item.summary_id for item, *_ in left if item.summary_id is not None]
    names = {row.id: row.public_id for row in store.summaries.read(conversation_id, ids)} if ids else {}
    return tuple(
        Detached(
            id=message_id(conversation_id * SPAN + item.ordinal) if item.summary_id is None else names[item.summary_id],
            tokens=item.tokens,
            cause=cause,
            at=moment(at),
        )
        for item, cause, at in left
    )
