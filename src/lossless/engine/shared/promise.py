"""Whether a conversation keeps the promise: every message exactly once below its context, in order, or listed beside it."""

from __future__ import annotations

from lossless.errors import NotFound
from lossless.store.base import Flaw
from lossless.store.store import Store

_TOLD = {
    "gap": "The numbers of the messages have gaps.",
    "missing": "{count} messages are neither in the context, nor below it, nor listed beside it ({first} to {last}).",
    "twice": "{count} messages are reached more than once ({first} to {last}).",
    "strange": "{count} messages are reached that are not of this conversation ({first} to {last}).",
    "outside": "{count} messages stand in the context that no model is to see ({first} to {last}).",
    "order": "{count} items of the context are out of order ({first} to {last}).",
    "empty": "{count} summaries stand in the context with no message below them ({first} to {last}).",
    "tokens": "{count} items of the context cost something else than they say ({first} to {last}).",
    "sum": "The tokens of the context are not the sum over its items ({first}).",
    "source": "{count} links lead to no summary, or not downwards ({first} ...).",
    "again": "{count} summaries are reached more than once below one item.",
}


def broken(store: Store, conversation_id: int) -> list[str]:
    """What of the promise does not hold, as sentences; empty when all of it does."""
    if store.conversations.get(conversation_id) is None:
        raise NotFound("conversation", conversation_id)
    return [_sentence(flaw) for flaw in store.promise.flaws(conversation_id)]


def _sentence(flaw: Flaw) -> str:
    return _TOLD[flaw.name].format(count=f"{flaw.count:,}", first=flaw.first, last=flaw.last)
