"""The stored conversations as a LangGraph store that can be read and searched, but not written.

    agent = create_agent(model, tools, store=LosslessStore(lcm))
    store.search(("conversations",), query="deploy key")

A LangGraph store holds values under keys that a program chooses. Ours holds messages, under the ids they have. A program that
searches a store for what was said finds it here; one that also keeps facts of its own in a store needs another one for them.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from langgraph.store.base import (
    BaseStore,
    GetOp,
    Item,
    ListNamespacesOp,
    MatchCondition,
    Op,
    PutOp,
    Result,
    SearchItem,
    SearchOp,
)

from lossless.aio import AsyncLossless
from lossless.client import Lossless
from lossless.errors import InvalidInput, NotFound
from lossless.hosts.frameworks import in_thread
from lossless.model import Hit

__all__ = ["LosslessStore"]

ROOT = "conversations"
"""The first part of every namespace; the second is the key of a conversation."""


class LosslessStore(BaseStore):
    """The messages and summaries of a database, for `create_agent(store=...)` and `compile(store=...)`."""

    supports_ttl = False

    def __init__(self, lcm: Lossless | AsyncLossless) -> None:
        self._lcm = lcm._sync if isinstance(lcm, AsyncLossless) else lcm

    def batch(self, ops: Iterable[Op]) -> list[Result]:
        """Answer some operations, in order."""
        return [self._answer(each) for each in ops]

    async def abatch(self, ops: Iterable[Op]) -> list[Result]:
        """Do the same without holding the event loop."""
        return await in_thread(self.batch, list(ops))

    def _answer(self, op: Op) -> Result:
        match op:
            case GetOp():
                return self._get(op)
            case SearchOp():
                return self._search(op)
            case ListNamespacesOp():
                return self._namespaces(op)
            case PutOp():
                raise InvalidInput(
                    "This store holds what was said, and cannot be written to.",
                    hint="Keep values of your own in another store, such as langgraph's InMemoryStore or PostgresStore.",
                )

    def _get(self, op: GetOp) -> Item | None:
        if not _is_ours(op.namespace, exact=True):
            return None
        try:
            found = self._lcm.conversation(op.namespace[1]).describe(op.key)
        except (NotFound, InvalidInput):
            return None
        value: dict[str, Any] = {"kind": found.kind, "text": found.content}
        if found.message is not None:
            value["role"] = found.message.role
        return Item(
            value=value, key=op.key, namespace=op.namespace, created_at=found.created_at, updated_at=found.created_at
        )

    def _search(self, op: SearchOp) -> list[SearchItem]:
        if op.filter:
            raise InvalidInput("Messages cannot be filtered by values.", hint="Search with a query.")
        if not op.query or not _is_ours(op.namespace_prefix, exact=False):
            return []
        within = self._lcm.conversation(op.namespace_prefix[1]) if len(op.namespace_prefix) == 2 else self._lcm
        hits = within.grep(op.query, mode="full_text", limit=op.offset + op.limit)
        return [_item(hit) for hit in hits[op.offset :]]

    def _namespaces(self, op: ListNamespacesOp) -> list[tuple[str, ...]]:
        found = list(dict.fromkeys((ROOT, each.key) for each in self._lcm.conversations()))
        cut = [each[: op.max_depth] if op.max_depth else each for each in found if _matches(each, op.match_conditions)]
        return list(dict.fromkeys(cut))[op.offset : op.offset + op.limit]


def _is_ours(namespace: tuple[str, ...], *, exact: bool) -> bool:
    return namespace[:1] in ((ROOT,), ()) and (len(namespace) == 2 if exact else len(namespace) <= 2)


def _item(hit: Hit) -> SearchItem:
    value = {"kind": hit.kind, "text": hit.snippet, "role": hit.role}
    return SearchItem((ROOT, hit.key), hit.id, value, hit.at, hit.at, score=hit.score)


def _matches(namespace: tuple[str, ...], conditions: tuple[MatchCondition, ...] | None) -> bool:
    for each in conditions or ():
        path = tuple(each.path)
        part = namespace[: len(path)] if each.match_type == "prefix" else namespace[-len(path) :]
        if len(part) != len(path) or any(want not in ("*", have) for want, have in zip(path, part, strict=True)):
            return False
    return True
