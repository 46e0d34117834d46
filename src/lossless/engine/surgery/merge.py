"""One history again out of conversations that a host's rollover split, where that is safe.

What an earlier one holds is copied before everything the active one holds, through its summaries: seqs are given once, so bare
messages cannot come before others. What is not safe is told, for a person to look at, and nothing is done.
"""

from __future__ import annotations

from lossless.engine.shared.promise import promise_violations
from lossless.engine.surgery import transplant
from lossless.errors import InvalidInput, NotFound
from lossless.model import Applied, Plan
from lossless.patterns import is_scheduled
from lossless.store.base import ConversationRow, Touched
from lossless.store.store import Store


def plan(store: Store, key: str) -> Plan:
    """What would be joined, and what stands against it."""
    target, splits = _splits(store, key)
    review = _objections(store, target, splits)
    told = [transplant.plan(store, split.id, target.id) for split in splits] if not review else []
    before = target.context_tokens
    return Plan("merge", key, (), "", None, before, before + sum(each.tokens for each in told), tuple(review))


def merge(store: Store, key: str, now: int) -> Applied:
    """Do it, in one transaction; each part is proved as it comes in."""
    planned = plan(store, key)
    target, splits = _splits(store, key)
    if planned.review or not splits:
        return Applied(planned, "planned")
    told = f"{len(splits):,} earlier conversations joined with {key}"
    done = {"target": target.id, "sources": [split.id for split in splits]}
    with store.transaction():
        for each in sorted([target.id, *(split.id for split in splits)]):
            store.conversations.hold(each)
        operation = store.operations.record(target.id, "merge", now, done, told, "planned")
        with store.operations.recording(operation, Touched(target.id, fresh=True)):
            # Each is put before everything: the newest first, so that the oldest comes to stand first.
            for split in reversed(splits):
                transplant.copy(store, split.id, target.id, now=now)
        store.operations.set_operation(operation, "applied", told)
    return Applied(planned, "applied", (), operation)


def _splits(store: Store, key: str) -> tuple[ConversationRow, list[ConversationRow]]:
    """The active conversation under a key, and those that a rollover cut off before it, oldest first."""
    target = store.conversations.active(key)
    if target is None:
        raise NotFound("conversation", key, hint="Only an active one can take in what came before it.")
    if is_scheduled(key):
        raise InvalidInput(f"Each run of {key} is a conversation of its own.", hint="They are never merged.")
    earlier = [row for row in store.conversations.family(key) if row.key == key and not row.active and row.next_seq > 1]
    return target, sorted((row for row in earlier if _is_split(row)), key=lambda row: (row.created_at, row.id))


def _is_split(row: ConversationRow) -> bool:
    """A deliberate end (a reset, a deletion) is never undone by this."""
    return row.archive_cause is None or "rollover" in row.archive_cause


def _objections(store: Store, target: ConversationRow, splits: list[ConversationRow]) -> list[str]:
    found: list[str] = []
    for row in splits:
        name = f"Conversation {row.id}"
        bare = sum(item.is_message for item in store.context.items(row.id))
        if row.archived_at is None:
            found.append(f"{name} does not say when it was archived.")
        if row.created_at >= target.created_at:
            found.append(f"{name} is not older than the active one.")
        if promise_violations(store, row.id):
            found.append(f"{name} does not keep the promise itself.")
        if bare:
            found.append(f"{name} shows {bare:,} messages that no summary tells: they cannot be placed before others.")
        elif transplant.plan(store, row.id, target.id).duplicates:
            found.append(f"What {name} tells stands in the active one already.")
    return found
