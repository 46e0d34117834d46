"""Record operations on old data so that they can be undone: the rows an operation changed, as they were before.

The images are kept by table, key and column, so that what others wrote beside them stays as it is. What follows from other
rows (tokens of items, the sum over a context, the search index) is not part of them: it is computed again.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from hashlib import sha256
from typing import Any, TypeAlias

from msgspec.structs import astuple

from lossless.errors import ContextMoved, InvalidInput, NotFound
from lossless.store import jsontext
from lossless.store.rows.types import SPAN, ItemRow, OperationRow, Shape, TextAt, Touched
from lossless.store.sql.columns import (
    OWNED,
)
from lossless.store.sql.section import Section
from lossless.store.sql.tables import TABLES

_OPERATION = OperationRow.__struct_fields__

_CHANGE = ("operation_id", "number", "table_name", "key", "before", "after")

_KEYS = {"detached": ("conversation_id", "ordinal", "summary_id")}

_WATCHED = {
    "conversation": ("id", "next_seq", "updated_at"),
    "message": ("id", "digest", "tokens", "outside"),  # a copy may go again; it never changes
}

_DERIVED = {"item": {"tokens"}, "detached": {"tokens"}}

_FLAGS = {"stale", "tries"}
"""Of a summary: a pending rewrite is no reason to keep its text."""

Image: TypeAlias = dict[str, Any]

Ref: TypeAlias = tuple[str, str]
"""A row: its table, and its key as JSON."""


class Operations(Section):
    """Operations on summaries, recorded so that they can be undone."""

    def get(self, operation_id: str) -> OperationRow | None:
        rows = self.all(
            f"SELECT {', '.join(_OPERATION)} FROM operation WHERE id = :id AND owner = :owner",
            id=operation_id,
            owner=self.owner,
        )
        return OperationRow(*rows[0]) if rows else None

    def record(self, conversation_id: int, kind: str, at: int, plan: Any, summary: str, status: str = "applied") -> str:
        """Add an operation to the history; return its id (in a transaction)."""
        operation_id = f"op_{os.urandom(6).hex()}"
        row = OperationRow(operation_id, conversation_id, kind, at, status, jsontext.dumps(plan), summary)
        self.insert("operation", (*_OPERATION, "owner"), [(*astuple(row), self.owner)])
        return operation_id

    def recent(
        self,
        conversation_ids: Sequence[int] | None,
        limit: int,
        *,
        since: int | None = None,
        before: int | None = None,
    ) -> list[OperationRow]:
        """List what was done to some conversations or to all, the newest first, in these times."""
        among = "" if conversation_ids is None else f" AND conversation_id IN ({self.each_of('ids', 'bigint')})"
        among += "" if since is None else " AND at >= :since"
        among += "" if before is None else " AND at < :before"
        rows = self.all(
            f"SELECT {', '.join(_OPERATION)} FROM operation WHERE owner = :owner{among}"
            " ORDER BY at DESC, id LIMIT :limit",
            owner=self.owner,
            ids=self.listing(conversation_ids or ()),
            since=since,
            before=before,
            limit=limit,
        )
        return [OperationRow(*row) for row in rows]

    def note_summary(self, operation_id: str, summary_id: int) -> bool:
        """Note that an operation made a summary; False if the operation is gone or undone (in a transaction)."""
        # The id is the number: it grows, and so it gives the order in which they were made.
        noted = self.run(
            f"INSERT INTO change ({', '.join(_CHANGE)}) SELECT o.id, :summary, 'summary', :row, NULL, NULL FROM operation o"
            " WHERE o.id = :id AND o.owner = :owner AND o.status <> 'undone'",
            id=operation_id,
            summary=summary_id,
            row=f"[{summary_id}]",
            owner=self.owner,
        )
        return noted == 1

    def summaries_made(self, operation_id: str) -> list[int]:
        """List the summaries that were noted as made by an operation, the newest first."""
        rows = self.all("SELECT number FROM change WHERE operation_id = :id ORDER BY number DESC", id=operation_id)
        return [row[0] for row in rows]

    def later_operation(self, conversation_id: int, operation: OperationRow) -> str | None:
        """Return the newest operation on a conversation that came after this one and is not undone."""
        rows = self.all(
            "SELECT id FROM operation WHERE owner = :owner AND conversation_id = :conversation AND id <> :id AND at >= :at"
            " AND status <> 'undone' ORDER BY at DESC LIMIT 1",
            owner=self.owner,
            conversation=conversation_id,
            id=operation.id,
            at=operation.at,
        )
        return rows[0][0] if rows else None

    def set_operation(self, operation_id: str, status: str, summary: str) -> None:
        """Set how far an operation is, unless it was undone (in a transaction)."""
        self.run(
            "UPDATE operation SET status = :status, summary = :summary WHERE id = :id AND owner = :owner"
            " AND status <> 'undone'",
            id=operation_id,
            status=status,
            summary=summary,
            owner=self.owner,
        )

    def revised_by(self, operation_id: str) -> set[int]:
        """Return the ids of the summaries that an operation gave another text."""
        rows = self.all(
            "SELECT key FROM change WHERE operation_id = :id AND table_name = 'revision'",
            id=operation_id,
        )
        return {jsontext.stored(row[0])[0] for row in rows}

    def source_revisions(self, conversation_id: int, summary_id: int) -> list[TextAt]:
        """Return the ids and current revisions of the summaries that a summary was made from, in order."""
        rows = self.all(
            "SELECT s.id, s.revision, s.created_at FROM summary_source l JOIN summary s ON s.id = l.source_id"
            f" WHERE l.summary_id = :id AND {OWNED} ORDER BY l.ordinal",
            id=summary_id,
            conversation=conversation_id,
            owner=self.owner,
        )
        return [(row[0], row[1], row[2]) for row in rows]

    def unfold(self, conversation_id: int, item: ItemRow, sources: Sequence[ItemRow], now: int) -> bool:
        """Take a summary out of the context as `dissolved`, its sources take its place; False if it is gone (in a transaction)."""
        columns = ("conversation_id", *ItemRow.__struct_fields__)
        if not self.store.context.detach(conversation_id, [item], "dissolved", now):
            return False
        self.insert("item", columns, [(conversation_id, *astuple(each)) for each in sources])
        self._count_context(conversation_id)
        return True

    def purge(self, conversation_id: int, summary_id: int) -> None:
        """Remove a summary that nothing refers to for good, with its earlier texts (in a transaction)."""
        self.store.tables.keep_ids("summary")
        # What is listed beside the context goes with it; everything else that refers to it forbids it.
        self.run("DELETE FROM detached WHERE summary_id = :id", id=summary_id)
        for table in ("revision", "summary_source", "summary_message"):
            self.run(f"DELETE FROM {table} WHERE summary_id = :id", id=summary_id)
        self.run(
            "DELETE FROM summary WHERE id = :id AND conversation_id = :conversation",
            id=summary_id,
            conversation=conversation_id,
        )
        self.unindex_row("summary", summary_id)

    @contextmanager
    def recording(self, operation_id: str, touched: Touched) -> Iterator[None]:
        """Record what changes of these rows in one transaction, so that `undo` can revert it.

        `ContextMoved` if the operation was undone meanwhile.
        """
        with self.store.transaction():
            self.store.conversations.hold(touched.conversation_id)
            found = self.get(operation_id)
            if found is None or found.status == "undone":
                raise ContextMoved(f"{operation_id} was undone meanwhile.", hint="Nothing more is done for it.")
            scope = self._scope(touched)
            before = self._images(scope)
            yield
            if self._note(operation_id, before, self._images(scope)):
                self.run("UPDATE operation SET status = 'partly' WHERE id = :id", id=operation_id)

    def _scope(self, touched: Touched) -> list[tuple[str, str, dict[str, Any]]]:
        """Return the rows that may change: table, condition, parameters."""
        conversation, scope = touched.conversation_id, list[tuple[str, str, dict[str, Any]]]()
        if touched.summaries:
            ids = {"ids": self.listing(touched.summaries)}
            chosen = f"IN ({self.each_of('ids', 'bigint')})"
            consumers = f"SELECT l.summary_id FROM summary_source l WHERE l.source_id {chosen}"
            scope += [
                ("summary", f"t.id {chosen} OR t.id IN ({consumers})", ids),
                ("revision", f"t.summary_id {chosen}", ids),
            ]
            if touched.links:
                scope += [(table, f"t.summary_id {chosen}", ids) for table in ("summary_message", "summary_source")]
        if touched.ordinals:
            where = f"t.conversation_id = :conversation AND t.ordinal IN ({self.each_of('ordinals', 'bigint')})"
            given = {"conversation": conversation, "ordinals": self.listing(touched.ordinals)}
            scope += [(table, where, given) for table in ("item", "detached")]
        return scope + (self._fresh(conversation) if touched.fresh else [])

    def _fresh(self, conversation_id: int) -> list[tuple[str, str, dict[str, Any]]]:
        """Return the conditions for rows that are added to a conversation from now on."""
        base, own = conversation_id * SPAN, {"conversation": conversation_id}
        next_seq = self.store.conversations.hold(conversation_id).next_seq
        newest = self.all("SELECT coalesce(max(id), 0) FROM summary")[0][0]
        lowest = self.all(
            "SELECT coalesce(min(ordinal), 1) FROM item WHERE conversation_id = :conversation",
            **own,
        )[0][0]
        later = "IN (SELECT s.id FROM summary s WHERE s.conversation_id = :conversation AND s.id > :newest)"
        news = own | {"newest": newest}
        return [
            ("conversation", "t.id = :conversation", own),
            ("message", "t.id >= :first AND t.id < :end", {"first": base + next_seq, "end": base + SPAN}),
            ("summary", f"t.id {later}", news),
            *((table, f"t.summary_id {later}", news) for table in ("summary_message", "summary_source", "revision")),
            ("item", "t.conversation_id = :conversation AND t.ordinal < :lowest", own | {"lowest": lowest}),
            ("transplant", "t.conversation_id = :conversation AND t.first_seq >= :next", own | {"next": next_seq}),
            ("file", "t.conversation_id = :conversation", own),
        ]

    def _images(self, scope: Sequence[tuple[str, str, dict[str, Any]]]) -> dict[Ref, Image]:
        return {ref: image for table, where, given in scope for ref, image in self._select(table, f"({where})", given)}

    def _select(self, table: str, where: str, given: dict[str, Any]) -> list[tuple[Ref, Image]]:
        columns = self._columns(table)
        chosen = ", ".join(f"t.{name}" for name in columns)
        rows = self.all(f"SELECT {chosen} FROM {table} t WHERE {where}", **given)
        images = [dict(zip(columns, (_plain(value) for value in row), strict=True)) for row in rows]
        key = self._key(table)
        return [((table, jsontext.dumps([image[name] for name in key])), image) for image in images]

    def _columns(self, table: str) -> tuple[str, ...]:
        return _WATCHED.get(table) or self._known(table).columns

    def _key(self, table: str) -> tuple[str, ...]:
        return _KEYS.get(table) or self._known(table).key

    def _known(self, table: str) -> Shape:
        """Return the shape of a table, read once: each row needs it."""
        shapes: dict[str, Shape] = self.__dict__.setdefault("_shapes", {})
        if table not in shapes:
            shapes[table] = self.store.tables.shape(table)
        return shapes[table]

    def _note(self, operation_id: str, before: dict[Ref, Image], after: dict[Ref, Image]) -> bool:
        """Record what changed, in an order that can be reverted; return whether anything did."""
        gone = [ref for ref in before if ref not in after]
        there = [ref for ref in after if _own_columns(ref[0], after[ref]) != _own_columns(ref[0], before.get(ref))]
        refs = sorted(gone, key=_place, reverse=True) + sorted(there, key=_place)
        last = self.all("SELECT coalesce(max(number), 0) FROM change WHERE operation_id = :id", id=operation_id)[0][0]
        news: list[tuple[Any, ...]] = []
        for ref in refs:
            old, new = before.get(ref), after.get(ref)
            # Most operations are one transaction, in which a row is seen once.
            first = self._noted(operation_id, ref) if last else None
            number, kept = (last + len(news) + 1, _changed(ref[0], old, new)) if first is None else first
            if first is not None:
                self._drop(operation_id, number)
                # What it was before all of it counts.
                kept = None if kept is None else (_changed(ref[0], old, new) or new or {}) | kept
            if kept is not None or new is not None:
                text = None if kept is None else jsontext.dumps(kept)
                news.append((operation_id, number, *ref, text, _digest(ref[0], new, kept or new)))
        self.insert("change", _CHANGE, news)
        return bool(refs)

    def _noted(self, operation_id: str, ref: Ref) -> tuple[int, Image | None] | None:
        """Return the record of a row that the operation touched before."""
        rows = self.all(
            "SELECT number, before FROM change WHERE operation_id = :id AND table_name = :table AND key = :key",
            id=operation_id,
            table=ref[0],
            key=ref[1],
        )
        return (rows[0][0], _read(rows[0][1])) if rows else None

    def _drop(self, operation_id: str, number: int) -> None:
        self.run("DELETE FROM change WHERE operation_id = :id AND number = :number", id=operation_id, number=number)

    def undo(self, operation_id: str) -> int:
        """Restore every row that an operation changed, in one transaction; return how many.

        `ContextMoved`, and nothing is changed, if one of them is not what the operation left.
        """
        with self.store.transaction():
            found = self.get(operation_id)
            if found is None:
                raise NotFound("operation", operation_id, hint="The history lists them: lcm history.")
            self.store.conversations.hold(found.conversation_id)
            found = self.get(operation_id)
            if found is None or found.status == "undone":
                raise InvalidInput(f"{operation_id} is already undone.")
            self._refuse_without_sources(found)
            rows = self.all(
                "SELECT table_name, key, before, after FROM change WHERE operation_id = :id ORDER BY number DESC",
                id=operation_id,
            )
            changes: dict[Ref, Image | None] = {}
            for table, key, kept, after in rows:
                changes[table, key] = _read(kept)
                self._refuse_changed(found, (table, key), changes[table, key], after)
            self.store.defer_links()
            for ref, image in changes.items():
                self._restore(ref, image)
            self._follow(found.conversation_id, changes)
            self.run("UPDATE operation SET status = 'undone' WHERE id = :id", id=operation_id)
        return len(changes)

    def _refuse_without_sources(self, operation: OperationRow) -> None:
        """Refuse to take copied messages out while the conversations they came from are gone."""
        sources = jsontext.stored(operation.plan)["sources"] if operation.kind == "merge" else []
        rows = self.all(
            f"SELECT c.id FROM conversation c WHERE c.owner = :owner AND c.id IN ({self.each_of('ids', 'bigint')})"
            f" ORDER BY c.id{self.store.for_update}",
            owner=self.owner,
            ids=self.listing(sources),
        )
        if gone := sorted({*sources} - {row[0] for row in rows}):
            raise ContextMoved(
                f"Conversation {gone[0]}, which {operation.id} joined, was removed since.",
                hint="Nothing was undone: this is all that is left of it.",
            )

    def _refuse_changed(self, operation: OperationRow, ref: Ref, kept: Image | None, after: str | None) -> None:
        """Refuse to overwrite a row that is not as the operation left it."""
        table, key = ref
        image = self._now(ref)
        if _digest(table, image, kept or image) == after:
            return
        later = self.changed_later(operation, table, key)
        hint = f"Undo {later} first." if later else "Nothing was undone."
        raise ContextMoved(f"{self._named(ref)} changed since {operation.id}.", hint=hint)

    def changed_later(self, operation: OperationRow, table: str, key: str) -> str | None:
        """Return the newest operation that changed a row after this one and is not undone."""
        rows = self.all(
            "SELECT o.id FROM operation o JOIN change c ON c.operation_id = o.id WHERE c.table_name = :table AND c.key = :key"
            " AND o.owner = :owner AND o.id <> :id AND o.at >= :at AND o.status <> 'undone' ORDER BY o.at DESC LIMIT 1",
            table=table,
            key=key,
            owner=self.owner,
            id=operation.id,
            at=operation.at,
        )
        return rows[0][0] if rows else None

    def _named(self, ref: Ref) -> str:
        table, key = ref
        if table not in ("summary", "revision"):
            return f"The row {key} of {table}"
        rows = self.all("SELECT public_id FROM summary WHERE id = :id", id=jsontext.stored(key)[0])
        return str(rows[0][0]) if rows else f"The summary {key}"

    def _now(self, ref: Ref) -> Image | None:
        table, key = ref
        given = {f"k{at}": value for at, value in enumerate(jsontext.stored(key))}
        found = self._select(table, self._is(table, "t."), given)
        return found[0][1] if found else None

    def _is(self, table: str, prefix: str = "") -> str:
        """Return the condition that a row has the key `:k0`, `:k1` ..."""
        terms = (f"{prefix}{name} = :k{at}" for at, name in enumerate(self._key(table)) if name != "summary_id")
        # The one column of any key that may be empty.
        nullable = (
            f"coalesce({prefix}summary_id, 0) = coalesce(:k{at}, 0)"
            for at, name in enumerate(self._key(table))
            if name == "summary_id"
        )
        return " AND ".join([*terms, *nullable])

    def _restore(self, ref: Ref, kept: Image | None) -> None:
        table, key = ref
        given = {f"k{at}": value for at, value in enumerate(jsontext.stored(key))}
        now = self._now(ref)
        if kept is None:
            if table == "summary":
                self.store.tables.keep_ids(table)
            self.run(f"DELETE FROM {table} WHERE {self._is(table)}", **given)
            if table in ("message", "summary"):
                self.unindex_row(table, given["k0"])
        elif now is None:
            self.insert(table, tuple(kept), [tuple(kept.values())])
        else:
            if table == "summary" and not (kept.keys() - _FLAGS - {"revision"}) and now["revision"] != kept["revision"]:
                kept = {"stale": 1, "tries": 0}  # rewritten since, from what is reverted now
            settings = ", ".join(f"{name} = :{name}" for name in kept)
            self.run(f"UPDATE {table} SET {settings} WHERE {self._is(table)}", **kept, **given)

    def _follow(self, conversation_id: int, changes: Mapping[Ref, Image | None]) -> None:
        """Update what depends on the restored rows."""
        touched = {jsontext.stored(key)[0]: kept for (table, key), kept in changes.items() if table == "summary"}
        reworded = [each for each, kept in touched.items() if kept is not None and "text" in kept]
        self.run(
            "UPDATE summary SET stale = 1, tries = 0 WHERE id IN (SELECT l.summary_id FROM summary_source l"
            f" WHERE l.source_id IN ({self.each_of('ids', 'bigint')})) AND id NOT IN ({self.each_of('touched', 'bigint')})",
            ids=self.listing(reworded),
            touched=self.listing(list(touched)),
        )
        for table in ("item", "detached"):
            costs = f"(SELECT s.tokens FROM summary s WHERE s.id = {table}.summary_id)"
            self.run(
                f"UPDATE {table} SET tokens = {costs}"
                f" WHERE conversation_id = :conversation AND summary_id IS NOT NULL AND tokens <> {costs}",
                conversation=conversation_id,
            )
        self._count_context(conversation_id)
        for summary_id, text in self.all(
            f"SELECT s.id, s.text FROM summary s WHERE s.id IN ({self.each_of('ids', 'bigint')})",
            ids=self.listing(reworded),
        ):
            self.store.index_summary(summary_id, text)

    def _count_context(self, conversation_id: int) -> None:
        self.run(
            "UPDATE conversation SET context_tokens = (SELECT coalesce(sum(i.tokens), 0) FROM item i"
            " WHERE i.conversation_id = :id) WHERE id = :id",
            id=conversation_id,
        )

    def unindex_row(self, table: str, identity: int) -> None:
        column = self.store.indexed_as.format(table=table)
        self.run(f"DELETE FROM search_{table} WHERE {column} = :id", id=identity)
        if table == "message":
            self.run(f"DELETE FROM search_{table} WHERE {column} = :id", id=-identity)
            self.store.recall_calls.remove([identity])


def _read(kept: str | None) -> Image | None:
    image: Image | None = None if kept is None else jsontext.stored(kept)
    return image


def _plain(value: Any) -> Any:
    return value.hex() if isinstance(value, bytes) else value


def _place(ref: Ref) -> int:
    return TABLES.index(ref[0])


def _own_columns(table: str, image: Image | None) -> Image | None:
    """Return the columns of a row that are not derived from others."""
    derived = _DERIVED.get(table, set())
    return None if image is None else {name: value for name, value in image.items() if name not in derived}


def _changed(table: str, old: Image | None, new: Image | None) -> Image | None:
    """Return what has to be recorded of a row: the columns that changed, all if it was removed, none if it was added."""
    if old is None or new is None:
        return old
    text = _own_columns(table, old) or {}
    # By its revision it is known later whether a summary was rewritten.
    return {name: value for name, value in text.items() if new[name] != value or name == "revision"}


def _digest(table: str, image: Image | None, columns: Mapping[str, Any] | None) -> str | None:
    """Return a digest of these columns of a row, without those that may change."""
    if image is None or columns is None:
        return None
    flags_only = table == "summary" and not (columns.keys() - _FLAGS - {"revision"})
    beside = _FLAGS | _DERIVED.get(table, set()) | ({"revision"} if flags_only else set())
    kept = [[name, image.get(name)] for name in sorted(columns) if name not in beside]
    return sha256(jsontext.dumps(kept).encode()).hexdigest()
