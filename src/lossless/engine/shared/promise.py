"""Check the promise: every message exactly once below the context, in order, or listed beside it."""

from __future__ import annotations

from lossless.errors import NotFound
from lossless.store.rows.types import Flaw
from lossless.store.store import Store

_SENTENCES = {
    "gap": "The numbers of the messages have gaps.",
    "missing": "{count} messages are neither in the context, nor below it, nor listed beside it ({first} to {last}).",
    "twice": "{count} messages are reached more than once ({first} to {last}).",
    "strange": "{count} reached messages belong to another conversation ({first} to {last}).",
    "outside": "{count} messages in the context must not be shown to a model ({first} to {last}).",
    "order": "{count} items of the context are out of order ({first} to {last}).",
    "empty": "{count} summaries in the context cover no message ({first} to {last}).",
    "tokens": "{count} items of the context have wrong token counts ({first} to {last}).",
    "sum": "The tokens of the context are not the sum over its items ({first}).",
    "source": "{count} links lead to a missing summary, or not downwards ({first} ...).",
    "again": "{count} summaries are reached more than once below one item.",
}


def promise_violations(store: Store, conversation_id: int) -> list[str]:
    """Return what violates the promise, as sentences; empty if it holds."""
    if store.conversations.get(conversation_id) is None:
        raise NotFound("conversation", conversation_id)
    return [_sentence(flaw) for flaw in store.promise.flaws(conversation_id)]


def _sentence(flaw: Flaw) -> str:
    return _SENTENCES[flaw.name].format(count=f"{flaw.count:,}", first=flaw.first, last=flaw.last)
