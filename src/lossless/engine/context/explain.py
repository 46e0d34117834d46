"""Explain why a message is or is not in the context of a conversation."""

from __future__ import annotations

from msgspec.structs import replace

from lossless.engine.compaction.summarize import as_summary
from lossless.model import Context, Explanation, StoredMessage, Summary
from lossless.store.rows.types import SPAN, ConversationRow
from lossless.store.store import Store

_WHY = {
    "role": "its role is not shown to models",
    "errored": "it is an empty, failed reply",
    "forgotten": "it was forgotten; only its number and time are kept",
    "heartbeat": "it was a heartbeat without news and was pruned; only its number and time are kept",
    "poll": "it belongs to a heartbeat turn without any action",
    "late": "its transcript contained it after later messages were stored",
    "fork": "it is older than the fork, and newer messages filled bootstrap_max_tokens",
    "branch": "its branch was abandoned",
}
_DETACHED = {
    "new": "/new started a new context",
    "branch": "its branch was abandoned",
    "import": "it was imported with older history",
}
_LEFT = {
    "rejected": "a provider refused it, or a part of it",
    "budget": "it did not fit into the budget; the oldest leave first",
    "tool result": "a reference replaces it, because the fresh tail may use half of the budget at most",
    "no call": "it is a tool result without its call, which providers refuse",
    "empty": "it is empty, and providers refuse empty messages",
    "tail over budget": "its tool round did not fit; the fresh tail may use half of the budget at most",
    "picture": "references replace its files, which exceed the limits of a request",
}


def explain(store: Store, conversation: ConversationRow, seq: int, context: Context) -> Explanation | None:
    """Explain what happened to a message, given the context that a model would get now."""
    rows = store.messages.at(conversation.id, [seq])
    if not rows:
        return None
    name = f"msg#{conversation.id * SPAN + seq}"
    if rows[0].outside:
        reason = _WHY.get(rows[0].outside, rows[0].outside)
        return Explanation(name, "outside", (), f"{name} is stored but not shown: {reason}.")
    left = {each.id: each.reason for each in context.left_out}
    shown = {item.id for item in context.items if isinstance(item, StoredMessage)}
    chain = _chain(store, conversation, seq)
    if cause := _cause(store, conversation, seq, chain):
        path = " -> ".join(each.id for each in chain)
        what = f"{name} is covered by {path}, which left the context" if path else f"{name} left the context"
        text = f"{what}: {_DETACHED.get(cause, cause)}. grep and expand still find it."
        return Explanation(name, "detached", tuple(each.id for each in chain), text)
    if not chain:
        return _raw(
            name,
            conversation.id * SPAN + seq in shown,
            left.get(name, "" if conversation.id * SPAN + seq in shown else "budget"),
        )
    ids = [summary.id for summary in chain]
    top = ids[-1]
    path = " -> ".join(ids)
    if top in {item.id for item in context.items}:
        text = f"{name} is covered by {path}, which is in the context. Expanding {ids[0]} shows it word for word."
        return Explanation(name, "summarised", tuple(ids), text)
    text = f"{name} is covered by {path}, which is not in the context: {_LEFT[left.get(top, 'budget')]}."
    return Explanation(name, "left out", tuple(ids), f"{text} Expanding {ids[0]} shows it word for word.")


def note_duplicates(found: Explanation, count: int, more: bool = False) -> Explanation:
    """Return the explanation with a note if other messages have the same text."""
    if count < 2:
        return found
    of = f"more than {count:,}" if more else f"{count:,}"
    return replace(found, text=f"{found.text} It is the newest of {of} messages with this text.")


def _raw(name: str, shown: bool, reason: str) -> Explanation:
    if shown and not reason:
        return Explanation(name, "shown", (), f"{name} is in the context, unchanged.")
    return Explanation(name, "left out", (), f"{name} is not in the context: {_LEFT.get(reason, reason)}.")


def _cause(store: Store, conversation: ConversationRow, seq: int, chain: list[Summary]) -> str:
    """Return the cause for which a message, or the top summary over it, was detached; empty if it was not."""
    found = store.summaries.named(chain[-1].id) if chain else None
    top = found[1].id if found else None
    for item, cause, _ in store.context.detached(conversation.id):
        if item.summary_id == top and (top is not None or item.ordinal == seq):
            return cause
    return ""


def _chain(store: Store, conversation: ConversationRow, seq: int) -> list[Summary]:
    """Return the leaf that covers a message and the summaries above it, up to the top."""
    chain: list[Summary] = []
    gone = _dissolved(store, conversation.id)
    name = store.summaries.leaves_over(conversation.id, [seq]).get(seq)
    while name is not None and name not in {summary.id for summary in chain}:
        found = store.summaries.named(name)
        if found is None:
            break
        chain.append(as_summary(found[1]))
        name = next(
            (each for each in store.summaries.consumers(conversation.id, found[1].id) if each not in gone), None
        )
    return chain


def _dissolved(store: Store, conversation_id: int) -> set[str]:
    """Return the summaries that were replaced by their sources."""
    left = store.context.detached(conversation_id)
    ids = [item.summary_id for item, cause, _ in left if cause == "dissolved" and item.summary_id is not None]
    return {row.public_id for row in store.summaries.read(conversation_id, ids)} if ids else set()
