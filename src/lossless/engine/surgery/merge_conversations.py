"""Merge conversations that a host's rollover split, where that is safe.

The summaries of an earlier conversation are copied before everything in the active one. Messages outside summaries cannot
be placed before others, because their numbers are assigned once. If a merge is not safe, the reasons are reported for
review and nothing changes.
"""

from __future__ import annotations

from lossless.engine.shared.promise import promise_violations
from lossless.engine.surgery import transplant
from lossless.errors import InvalidInput, NotFound
from lossless.model import Outcome, Plan
from lossless.session_patterns import is_scheduled
from lossless.store.rows.types import ConversationRow, Touched
from lossless.store.store import Store


def plan(store: Store, key: str) -> Plan:
    """Return the plan of a merge, with the reasons against it."""
    target, splits = _splits(store, key)
    review = _objections(store, target, splits)
    copies = [transplant.plan(store, split.id, target.id) for split in splits] if not review else []
    before = target.context_tokens
    return Plan(
        kind="merge",
        conversation=key,
        steps=(),
        model="",
        cost=None,
        tokens_before=before,
        tokens_after=before + sum(each.tokens for each in copies),
        review=tuple(review),
    )


def merge(store: Store, key: str, now: int) -> Outcome:
    """Merge in one transaction; each copied part is proved."""
    planned = plan(store, key)
    target, splits = _splits(store, key)
    if planned.review or not splits:
        return Outcome(planned, "planned")
    summary = f"{len(splits):,} earlier {'conversation' if len(splits) == 1 else 'conversations'} merged into {key}"
    details = {"target": target.id, "sources": [split.id for split in splits]}
    with store.transaction():
        for each in sorted([target.id, *(split.id for split in splits)]):
            store.conversations.hold(each)
        operation = store.operations.record(target.id, "merge", now, details, summary, "planned")
        with store.operations.recording(operation, Touched(target.id, fresh=True)):
            # Each is placed before everything else: the newest first, so that the oldest ends up first.
            for split in reversed(splits):
                transplant.copy(store, split.id, target.id, now=now)
        store.operations.set_operation(operation, "applied", summary)
    return Outcome(plan=planned, status="applied", steps=(), operation=operation)


def _splits(store: Store, key: str) -> tuple[ConversationRow, list[ConversationRow]]:
    """Return the active conversation of a key, and those split off by a rollover before it, oldest first."""
    target = store.conversations.active(key)
    if target is None:
        raise NotFound("conversation", key, hint="Only an active conversation can be merged with earlier ones.")
    if is_scheduled(key):
        raise InvalidInput(f"{key} is scheduled: each run has its own conversation.", hint="They are never merged.")
    earlier = [row for row in store.conversations.family(key) if row.key == key and not row.active and row.next_seq > 1]
    return target, sorted((row for row in earlier if _is_split(row)), key=lambda row: (row.created_at, row.id))


def _is_split(row: ConversationRow) -> bool:
    """Return whether a rollover ended it; a reset or a deletion is deliberate and never reverted."""
    return row.archive_cause is None or "rollover" in row.archive_cause


def _objections(store: Store, target: ConversationRow, splits: list[ConversationRow]) -> list[str]:
    found: list[str] = []
    for row in splits:
        name = f"Conversation {row.id}"
        bare = sum(item.is_message for item in store.context.items(row.id))
        if row.archived_at is None:
            found.append(f"{name} has no time of archival.")
        if row.created_at >= target.created_at:
            found.append(f"{name} is not older than the active conversation.")
        if promise_violations(store, row.id):
            found.append(f"{name} violates the promise: run `lcm doctor`.")
        if bare:
            found.append(f"{name} has messages outside summaries ({bare:,}): they cannot be placed before others.")
        elif transplant.plan(store, row.id, target.id).duplicates:
            found.append(f"The summaries of {name} are already in the active conversation.")
    return found
