"""List the operations on old data, and undo them."""

from __future__ import annotations

from collections.abc import Sequence

from lossless.engine import sessions
from lossless.engine.shared.promise import promise_violations
from lossless.engine.surgery.dissolve import source_items
from lossless.errors import ContextMoved, InvalidInput, NotFound, StoreCorrupt
from lossless.model import Operation
from lossless.store import jsontext
from lossless.store.rows.codec import moment
from lossless.store.rows.types import OperationRow
from lossless.store.store import Store

_ARCHIVED = ("reset", "end")


def history(
    store: Store,
    conversation_ids: Sequence[int] | None,
    limit: int,
    *,
    since: int | None = None,
    before: int | None = None,
) -> list[Operation]:
    """Return the operations on some conversations or on all in these times, newest first."""
    if limit < 1:
        raise InvalidInput(f"limit={limit} is too small.", hint="Give 1 or more.")
    keys = {row.id: row.key for row in store.conversations.of_owner()}
    return [
        _operation(row, keys) for row in store.operations.recent(conversation_ids, limit, since=since, before=before)
    ]


def find_operation(store: Store, operation_id: str) -> OperationRow:
    """Return an operation by its id."""
    row = store.operations.get(operation_id)
    if row is None:
        raise NotFound("operation", operation_id, hint="`lcm history` lists them.")
    return row


def undo(store: Store, operation_id: str, now: int) -> Operation:
    """Undo an operation in one transaction, and prove the result."""
    row = find_operation(store, operation_id)
    with store.transaction():
        store.conversations.hold(row.conversation_id)
        before = promise_violations(store, row.conversation_id)
        _revert(store, find_operation(store, operation_id), now)
        if flaws := [each for each in promise_violations(store, row.conversation_id) if each not in before]:
            if later := store.operations.later_operation(row.conversation_id, row):
                raise ContextMoved(f"The context changed since {operation_id}.", hint=f"Undo {later} first.")
            raise StoreCorrupt(f"{operation_id} cannot be undone: {flaws[0]}", hint="Nothing was changed.")
    keys = {each.id: each.key for each in store.conversations.of_owner()}
    return _operation(find_operation(store, operation_id), keys)


def _revert(store: Store, row: OperationRow, now: int) -> None:
    if row.kind not in ("compact", "new", *_ARCHIVED):
        store.operations.undo(row.id)
        return
    if row.status == "undone":
        raise InvalidInput(f"{row.id} is already undone.")
    if row.kind == "compact":
        _undo_compaction(store, row, now)
    elif row.kind == "new":
        sessions.undo_renew(store, row.conversation_id, row.at, jsontext.stored(row.plan))
    else:
        store.conversations.reactivate(row.conversation_id, "undone", now)
    store.operations.set_operation(row.id, "undone", row.summary)


def _undo_compaction(store: Store, row: OperationRow, now: int) -> None:
    """Replace each summary by its sources, the newest summary first, and remove it."""
    conversation_id, made = row.conversation_id, store.operations.summaries_made(row.id)
    summaries = {each.id: each for each in store.summaries.read(conversation_id, made)}
    items = {item.summary_id: item for item in store.context.items(conversation_id)}
    for summary_id in made:
        summary, item = summaries.get(summary_id), items.get(summary_id)
        name = "A summary" if summary is None else summary.public_id
        if later := store.operations.changed_later(row, "summary", f"[{summary_id}]"):
            raise ContextMoved(f"{name} changed since {row.id}.", hint=f"Undo {later} first.")
        if summary is None or item is None:
            raise _moved(store, row, f"{name} that {row.id} made is no longer in the context.")
        if above := store.summaries.consumers(conversation_id, summary_id):  # a dissolved one that an undo may restore
            raise _moved(store, row, f"{above[0]} was made from {name}.")
        sources = source_items(store, conversation_id, summary, item)
        store.operations.unfold(conversation_id, item, sources, now)
        store.operations.purge(conversation_id, summary_id)
        items |= {source.summary_id: source for source in sources}


def _moved(store: Store, row: OperationRow, why: str) -> ContextMoved:
    later = store.operations.later_operation(row.conversation_id, row)
    return ContextMoved(why, hint=f"Undo {later} first." if later else "Nothing was undone.")


def _operation(row: OperationRow, keys: dict[int, str]) -> Operation:
    key = keys.get(row.conversation_id, "")
    return Operation(
        id=row.id,
        kind=row.kind,
        conversation=key,
        at=moment(row.at),
        status=row.status,  # type: ignore[arg-type]  # the store has no other values
        summary=row.summary,
    )
