"""Why something is, or is not, in a conversation's context: answered from the rows, in words."""

from __future__ import annotations

from msgspec.structs import replace

from lossless.engine.compaction.summarize import as_summary
from lossless.model import Context, Explanation, StoredMessage, Summary
from lossless.store.base import SPAN, ConversationRow
from lossless.store.store import Store

_WHY = {
    "role": "its role is none that a model is shown",
    "errored": "it is an empty reply that failed",
    "forgotten": "it was forgotten, and only its place is left",
    "heartbeat": "it was a heartbeat that brought nothing, and only its place is left",
    "poll": "it belongs to a heartbeat turn in which nothing was done",
    "late": "its transcript told it after what followed it was stored",
    "fork": "it was said before the fork, and the newest of that filled bootstrap_max_tokens",
    "branch": "its branch was left for another",
}
_DETACHED = {
    "new": "/new began the context anew",
    "branch": "its branch was left for another",
    "import": "it came in with older history",
}
_LEFT = {
    "rejected": "a provider refused it or a part of it, which is left out",
    "budget": "it did not fit into the budget, and the oldest leave first",
    "tool result": "a reference stands in its place, since the fresh tail takes at most half of the budget",
    "no call": "it is a tool's result whose call is not there, which no provider takes",
    "empty": "it says nothing, and no provider takes an empty message",
    "tail over budget": "its tool round left, since the fresh tail takes at most half of the budget",
    "picture": "references stand in the place of its files, since they exceed what a request may hold",
}


def explain(store: Store, conversation: ConversationRow, seq: int, context: Context) -> Explanation | None:
    """Return what has become of a message, given the context that a model would be shown now."""
    rows = store.messages.at(conversation.id, [seq])
    if not rows:
        return None
    name = f"msg#{conversation.id * SPAN + seq}"
    if rows[0].outside:
        reason = _WHY.get(rows[0].outside, rows[0].outside)
        return Explanation(name, "outside", (), f"{name} is stored and not shown: {reason}.")
    left = {each.id: each.reason for each in context.left_out}
    shown = {item.id for item in context.items if isinstance(item, StoredMessage)}
    chain = _chain(store, conversation, seq)
    if cause := _cause(store, conversation, seq, chain):
        path = " -> ".join(each.id for each in chain)
        what = f"{name} is told by {path}, which left the context" if path else f"{name} left the context"
        told = f"{what}: {_DETACHED.get(cause, cause)}. grep and expand still find it."
        return Explanation(name, "detached", tuple(each.id for each in chain), told)
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
        told = f"{name} is told by {path}, which stands in the context. Expanding {ids[0]} shows it word for word."
        return Explanation(name, "summarised", tuple(ids), told)
    told = f"{name} is told by {path}, which is not in the context: {_LEFT[left.get(top, 'budget')]}."
    return Explanation(name, "left out", tuple(ids), f"{told} Expanding {ids[0]} shows it word for word.")


def among(found: Explanation, count: int, more: bool = False) -> Explanation:
    """Return the same, if others say so too told to be the newest of them."""
    if count < 2:
        return found
    of = f"more than {count:,}" if more else f"{count:,}"
    return replace(found, text=f"{found.text} It is the newest of {of} messages that say so.")


def _raw(name: str, shown: bool, reason: str) -> Explanation:
    if shown and not reason:
        return Explanation(name, "shown", (), f"{name} is in the context as it is.")
    return Explanation(name, "left out", (), f"{name} is not in the context: {_LEFT.get(reason, reason)}.")


def _cause(store: Store, conversation: ConversationRow, seq: int, chain: list[Summary]) -> str:
    """Return why a message, or the topmost summary that tells it, was detached; empty if it was not."""
    found = store.summaries.named(chain[-1].id) if chain else None
    top = found[1].id if found else None
    for item, cause, _ in store.context.detached(conversation.id):
        if item.summary_id == top and (top is not None or item.ordinal == seq):
            return cause
    return ""


def _chain(store: Store, conversation: ConversationRow, seq: int) -> list[Summary]:
    """Return the leaf that tells a message, and what was made from it, up to the summary that nothing was made from."""
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
    """Return the summaries that gave way to their sources: nothing is told by them any more."""
    left = store.context.detached(conversation_id)
    ids = [item.summary_id for item, cause, _ in left if cause == "dissolved" and item.summary_id is not None]
    return {row.public_id for row in store.summaries.read(conversation_id, ids)} if ids else set()
