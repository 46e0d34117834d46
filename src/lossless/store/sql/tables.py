"""Whole tables of all owners, for backups, archives and copies.

What a database derives by itself (search index, event hashes, numbering) is no part of it: the rows bring it about.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import groupby
from os.path import abspath

from lossless.store import jsontext
from lossless.store.rows.types import (
    SPAN,
    Rows,
    Shape,
)
from lossless.store.sql.columns import (
    LAST,
    OWNED,
    Row,
)
from lossless.store.sql.section import Section

TABLES = (
    "conversation",
    "session",
    "message",
    "alias",
    "copy",
    "summary",
    "summary_message",
    "summary_source",
    "revision",
    "item",
    "detached",
    "transplant",
    "file",
    "cursor",
    "debt",
    "manifest",
    "pin",
    "brief",
    "vector",
    "recall_grant",
    "grant_conversation",
    "grant_read",
    "guard",
    "operation",
    "change",
)
"""Every table that is not derived, those that others refer to first."""

GROWING = ("conversation", "message", "summary")
"""Those whose rows are not taken back when a migration is taken up again: they are many, or others refer to them."""

_MARK = "migration"

_SUMMARIES = "(SELECT y.id FROM summary y WHERE y.conversation_id = :conversation)"

_BELONGS = {
    "message": "t.id > :first AND t.id < :last",
    "copy": "t.message_id > :first AND t.message_id < :last",
    "summary_message": f"t.summary_id IN {_SUMMARIES}",
    "summary_source": f"t.summary_id IN {_SUMMARIES}",
    "revision": f"t.summary_id IN {_SUMMARIES}",
}


class Tables(Section):
    """Whole tables of all owners, for backups, archives and copies."""

    def names(self) -> tuple[str, ...]:
        """Return every table that is not derived, referenced ones first."""
        return TABLES

    def shape(self, table: str) -> Shape:
        found = self.store.columns(table)
        names = tuple(name for name, _, _ in found)
        key = tuple(name for name, _, place in sorted(found, key=lambda column: column[2]) if place)
        texts = frozenset(name for name, kind, _ in found if kind.lower() == "text")
        return Shape(table, names, key or names, texts)

    def identity(self) -> str:
        """Return the identity of this database."""
        where = self.store.location if "://" in self.store.location else abspath(self.store.location)
        oldest = self.all("SELECT owner, key, created_at FROM conversation ORDER BY id LIMIT 1")
        return jsontext.dumps([where, *oldest])

    def count(self, table: str) -> int:
        return int(self.all(f"SELECT count(*) FROM {table} t WHERE {_without_mark(table)}", mark=_MARK)[0][0])

    def rows(self, shape: Shape) -> Rows:
        """Yield all rows of a table by their key."""
        columns = ", ".join(f"t.{name}" for name in shape.columns)
        return self.stream(
            f"SELECT {columns} FROM {shape.table} t WHERE {_without_mark(shape.table)} ORDER BY {self._order(shape, shape.key)}",
            mark=_MARK,
        )

    def _order(self, shape: Shape, names: Sequence[str]) -> str:
        """Return an order by bytes, empty first, that is the same in both databases and in Python."""
        empty = " NULLS FIRST" if shape.key == shape.columns else ""  # a key has nothing empty, and an index to go by
        return ", ".join(
            f"t.{name}{f' COLLATE {self.store.binary}' if name in shape.texts else ''}{empty}" for name in names
        )

    def part(
        self, table: str, conversation_id: int, columns: Sequence[str], order: Sequence[str] | None = None
    ) -> Rows:
        """Yield the rows of a table that belong to a conversation of this owner, by their key or in another order."""
        shape = self.shape(table)
        chosen = ", ".join(f"t.{name}" for name in columns)
        belongs = _BELONGS.get(table, "t.conversation_id = :conversation")
        return self.stream(
            f"SELECT {chosen} FROM {table} t WHERE {belongs} AND {OWNED} ORDER BY {self._order(shape, order or shape.key)}",
            conversation=conversation_id,
            first=conversation_id * SPAN,
            last=(conversation_id + 1) * SPAN,
            owner=self.owner,
        )

    def take(self, table: str, columns: Sequence[str], rows: Sequence[Row]) -> None:
        """Insert rows as they are, with their ids; search index and event ids follow (in a transaction)."""
        self.store.defer_links()
        self.insert(table, columns, rows)
        if table == "summary":
            place, text = columns.index("id"), columns.index("text")
            self._index_summaries((row[place], row[text]) for row in rows)
        elif table == "message":
            place, text, parts, event = (columns.index(name) for name in ("id", "text", "parts", "event_id"))
            self.store.recall_calls.index(sorted((row[place], row[text], row[parts]) for row in rows))
            named = ((row[place] // SPAN, (row[event], row[place] % SPAN)) for row in rows if row[event] is not None)
            for conversation_id, events in groupby(named, key=lambda each: each[0]):
                self.store.remember_events(conversation_id, [each for _, each in events])

    def change(self, shape: Shape, rows: Sequence[Row]) -> None:
        """Update rows whose keys exist (in a transaction)."""
        others = [name for name in shape.columns if name not in shape.key]
        for row in rows:
            self.run(
                f"UPDATE {shape.table} SET {', '.join(f'{name} = :{name}' for name in others)}"
                f" WHERE {' AND '.join(f'{name} = :{name}' for name in shape.key)}",
                **dict(zip(shape.columns, row, strict=True)),
            )
        if shape.table in ("message", "summary"):
            place, text = shape.columns.index("id"), shape.columns.index("text")
            # A message's words never change; they can only go.
            self.store.unindex([row[place] for row in rows if shape.table == "message" and not row[text]])
            self._index_summaries((row[place], row[text]) for row in rows if shape.table == "summary")

    def _index_summaries(self, texts: Iterable[tuple[int, str]]) -> None:
        for summary_id, text in texts:
            self.store.index_summary(summary_id, text)

    def take_back(self) -> None:
        """Remove everything that was copied in except conversations, messages and summaries (in a transaction)."""
        for table in reversed(TABLES):
            if table not in GROWING:
                self.run(f"DELETE FROM {table} AS t WHERE {_without_mark(table)}", mark=_MARK)
        # One key has one active conversation, and which one may have changed.
        self.run("UPDATE conversation SET active = 0")

    def taken(self, public_ids: Sequence[str]) -> set[str]:
        """Return those of these ids that a summary of any owner has: an id is used once."""
        rows = self.all(
            f"SELECT s.public_id FROM summary s WHERE s.public_id IN ({self.each_of('ids', 'text')})",
            ids=self.listing(public_ids),
        )
        return {row[0] for row in rows}

    def relate(self, conversation_id: int, *, continues: int | None, parent: int | None) -> None:
        """Set the conversations that one belongs to, unless they are set (in a transaction)."""
        self.run(
            "UPDATE conversation SET continues = :continues, parent_id = :parent WHERE id = :id AND owner = :owner"
            " AND continues IS NULL AND parent_id IS NULL",
            continues=continues,
            parent=parent,
            id=conversation_id,
            owner=self.owner,
        )

    def moving_in(self) -> str | None:
        """Return the identity of the database that is being copied in, if one is."""
        rows = self.all("SELECT state FROM guard WHERE name = :mark", mark=_MARK)
        return str(jsontext.stored(rows[0][0])) if rows else None

    def set_moving_in(self, identity: str | None, now: int) -> None:
        """Set the identity of the database that is being copied in (in a transaction)."""
        self.run("DELETE FROM guard WHERE name = :mark", mark=_MARK)
        if identity is not None:
            self.insert("guard", ("name", "state", "updated_at"), [(_MARK, jsontext.dumps(identity), now)])

    def keep_ids(self, table: str) -> None:
        """Keep the ids of rows that are about to be removed from being used again (in a transaction).

        They are in what people, models and operations have noted, and a summary of them may be in progress.
        """
        self.run(
            f"INSERT INTO guard (name, state, updated_at) SELECT :mark, CAST(max(t.id) AS TEXT), 0 FROM {table} t"
            " HAVING max(t.id) IS NOT NULL ON CONFLICT (name) DO UPDATE SET state = excluded.state"
            " WHERE CAST(excluded.state AS BIGINT) > CAST(guard.state AS BIGINT)",
            mark=LAST.format(table),
        )


def _without_mark(table: str) -> str:
    """The mark of a migration is no part of what is moved."""
    return "t.name <> :mark" if table == "guard" else "TRUE"
