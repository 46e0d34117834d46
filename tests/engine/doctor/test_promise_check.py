"""The check finds whatever breaks the promise, and nothing where it holds."""

from __future__ import annotations

import pytest

from lossless import Conversation, Lossless, Message, Text
from lossless.engine.shared.promise import promise_violations
from lossless.errors import NotFound
from lossless.store.rows.types import NewSummary


def summary(name: str, depth: int) -> NewSummary:
    return NewSummary(name, depth, "In short.", 3, None, None, 0, 0, "[]", "m", "normal", None, None, 1)


@pytest.fixture
def number(lcm: Lossless, chat: Conversation) -> int:
    """A conversation with two depths of summaries, a message outside the context, and raw ones at the end."""
    chat.ingest([Message.user(f"And {n} more.") for n in range(10)])
    chat.ingest([Message("whisper", (Text("hush"),)), Message.assistant("What?")])
    store = lcm._store
    row = store.conversations.active(chat.key)
    assert row is not None
    for first in (0, 1, 2):
        store.context.replace(row, store.context.items(row.id)[first : first + 2], summary(f"sum_{first}", 0))
    store.context.replace(row, store.context.items(row.id)[:2], summary("sum_upper", 1))
    return row.id


def test_a_compacted_conversation_keeps_the_promise(lcm: Lossless, number: int) -> None:
    assert promise_violations(lcm._store, number) == []


def test_what_was_taken_out_by_name_counts(lcm: Lossless, number: int) -> None:
    store = lcm._store
    items = store.context.items(number)
    with store.transaction():
        store.context.detach(number, [items[0], items[-1]], "new", 1)
    assert promise_violations(store, number) == []


FAULTS = {
    "neither in the context": "DELETE FROM item WHERE conversation_id = :id AND ordinal ="
    " (SELECT max(ordinal) FROM item WHERE conversation_id = :id)",
    "more than once (": "INSERT INTO detached (conversation_id, ordinal, summary_id, tokens, depth, cause, at) SELECT"
    " conversation_id, ordinal, summary_id, tokens, depth, 'new', 1 FROM item WHERE conversation_id = :id AND summary_id IS NULL",
    "wrong token counts": "UPDATE item SET tokens = tokens + 1 WHERE conversation_id = :id",
    "not the sum": "UPDATE conversation SET context_tokens = context_tokens + 1 WHERE id = :id",
    "must not be shown to a model": "UPDATE message SET outside = 'role' WHERE id = (SELECT max(m.id) FROM message m)",
    "have gaps": "UPDATE conversation SET next_seq = next_seq + 1 WHERE id = :id",
    "out of order": "UPDATE item SET ordinal = 100000 WHERE conversation_id = :id AND summary_id ="
    " (SELECT max(summary_id) FROM item WHERE conversation_id = :id)",
    "cover no message": "DELETE FROM summary_message WHERE summary_id IN (SELECT id FROM summary WHERE conversation_id = :id)",
    "not downwards": "INSERT INTO summary_source (summary_id, source_id, ordinal) SELECT min(id), max(id), 99 FROM summary"
    " WHERE conversation_id = :id",
    "belong to another conversation": "UPDATE item SET ordinal = 900000 WHERE conversation_id = :id AND ordinal ="
    " (SELECT max(ordinal) FROM item WHERE conversation_id = :id)",
}


@pytest.mark.parametrize("told", FAULTS)
def test_every_way_to_break_it_is_found(lcm: Lossless, number: int, told: str) -> None:
    store = lcm._store
    with store.transaction():
        store.run(FAULTS[told], id=number)
    assert any(told in sentence for sentence in promise_violations(store, number))


def test_a_source_that_is_reached_twice_is_found(lcm: Lossless, number: int) -> None:
    store = lcm._store
    rows = store.summaries.read(number)
    low, high = rows[0].id, rows[-1].id
    with store.transaction():
        for ordinal in (98, 99):
            store.run(
                "INSERT INTO summary_source (summary_id, source_id, ordinal) VALUES (:high, :low, :at)",
                high=high,
                low=low,
                at=ordinal,
            )
    assert any("more than once below one item" in sentence for sentence in promise_violations(store, number))


def test_of_another_owner_nothing_is_told(database: str, lcm: Lossless, number: int) -> None:
    with Lossless.open(database, owner="other") as other:
        with pytest.raises(NotFound):
            promise_violations(other._store, number)
        assert other._store.promise.flaws(number) == []
