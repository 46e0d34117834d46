"""Columns, conditions and decoders that several sections share."""

from __future__ import annotations

from typing import Any

from lossless.store.rows.types import (
    ConversationRow,
    MessageRow,
    NewMessage,
    SummaryRow,
)

CONVERSATION_COLUMNS = (
    "id, key, active, session, next_seq, context_tokens, created_at, updated_at,"
    " parent_id, continues, archived_at, archive_cause, title, renewed_at, transcribed"
)

MESSAGE_COLUMNS = ", ".join(f"m.{column}" for column in (*NewMessage.__struct_fields__, "id"))

SUMMARY_COLUMNS = ", ".join(f"s.{column}" for column in SummaryRow.__struct_fields__)

ACTIVE = f"SELECT {CONVERSATION_COLUMNS} FROM conversation WHERE owner = :owner AND key = :key AND active = 1"

FILE_COLUMNS = "id, sha256, name, mime, bytes, lines, summary, created_at"

UNSETTLED = "(s.stale = 1 OR s.level = 'extractive' OR s.level = 'cut')"

# Ownership is asked of the database in every statement, not remembered by its callers.
# Not EXISTS: SQLite would make a join of it, and go through all conversations of the owner for every query.
OWNED = "(SELECT c.owner FROM conversation c WHERE c.id = :conversation) = :owner"

NO_LIMIT = 9_223_372_036_854_775_807

LAST = "last {}"
"""The guard of a table of which rows were removed: the highest id that any has had."""

Row = tuple[Any, ...]


def conversation_row(row: Row) -> ConversationRow:
    return ConversationRow(*(*row[:2], bool(row[2]), *row[3:-1], bool(row[-1])))


def message_row(row: Row, base: int) -> MessageRow:
    return MessageRow(*(*row[:-1], row[-1] - base))
