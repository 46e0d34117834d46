"""What was done to old data, and the way back."""

from __future__ import annotations

from lossless.engine.promise import broken
from lossless.errors import NotFound, StoreCorrupt
from lossless.model import Operation
from lossless.store.base import OperationRow, Store
from lossless.store.rows import moment


def history(store: Store, conversation_id: int | None, limit: int) -> list[Operation]:
    """The newest first."""
    keys = {row.id: row.key for row in store.conversations()}
    return [_told(row, keys) for row in store.operations(conversation_id, limit)]


def found(store: Store, operation_id: str) -> OperationRow:
    row = store.operation(operation_id)
    if row is None:
        raise NotFound("operation", operation_id, hint="The history lists them: lcm history.")
    return row


def undo(store: Store, operation_id: str) -> Operation:
    """Take an operation back, in one transaction, and prove it."""
    row = found(store, operation_id)
    with store.transaction():
        store.hold(row.conversation_id)
        before = broken(store, row.conversation_id)
        store.undo(operation_id)
        if flaws := [each for each in broken(store, row.conversation_id) if each not in before]:
            raise StoreCorrupt(f"{operation_id} cannot be undone: {flaws[0]}", hint="Nothing was changed.")
    keys = {each.id: each.key for each in store.conversations()}
    return _told(found(store, operation_id), keys)


def _told(row: OperationRow, keys: dict[int, str]) -> Operation:
    key = keys.get(row.conversation_id, "")
    return Operation(row.id, row.kind, key, moment(row.at), row.status, row.summary)  # type: ignore[arg-type]  # the store knows no other
