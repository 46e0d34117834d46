"""Check that rows are consistent: the doctor's questions, and its only writes.

Each question is one statement over whole tables. Those that can be answered by a change give it along: a row's key, and what it
should say. `_MENDABLE` is all that may ever be changed so: derived from the messages, never a message's words.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from lossless.store import migrate, seals
from lossless.store.rows.types import SPAN, FaultRow, LeafRow, LedgerRow, NodeRow, Rows, Step
from lossless.store.sql.columns import (
    Row,
)
from lossless.store.sql.section import Section

_MINE = "mine AS MATERIALIZED (SELECT c.id FROM conversation c WHERE c.owner = :owner AND c.id IN ({each}))"


class _Question(NamedTuple):
    """Rows of conversation, sample, and of what `step` names: the columns of the key, then those to change."""

    sql: str
    action: str = ""
    table: str = ""
    key: tuple[str, ...] = ()
    values: tuple[str, ...] = ()


_ITEM = ("conversation_id", "ordinal")

_DETACHED = ("conversation_id", "ordinal", "summary_id")

_QUESTIONS = {
    "numbers": _Question(
        "SELECT c.id, 'next ' || c.next_seq || ', ' || coalesce(f.many, 0) || ' there', CASE WHEN f.last >= c.next_seq THEN c.id END,"
        " f.last + 1 FROM conversation c JOIN mine ON mine.id = c.id LEFT JOIN (SELECT m.conversation_id AS c, count(*) AS many,"
        " max(m.seq) AS last FROM message m WHERE m.id > :first AND m.id < :last GROUP BY 1) AS f ON f.c = c.id"
        " WHERE coalesce(f.many, 0) <> c.next_seq - 1 OR coalesce(f.last, 0) <> c.next_seq - 1",
        "change",
        "conversation",
        ("id",),
        ("next_seq",),
    ),
    "costless": _Question(
        "SELECT m.conversation_id, 'msg#' || m.id FROM message m WHERE m.conversation_id IN (SELECT id FROM mine)"
        " AND m.id > :first AND m.id < :last AND (m.tokens < 0 OR (m.tokens = 0 AND m.text <> ''))"
    ),
    "events": _Question(
        "SELECT f.c, f.e FROM (SELECT m.conversation_id AS c, m.event_id AS e FROM message m WHERE m.event_id IS NOT NULL"
        " AND m.id > :first AND m.id < :last GROUP BY 1, 2 HAVING count(*) > 1) AS f WHERE f.c IN (SELECT id FROM mine)"
    ),
    "dangling items": _Question(
        "SELECT i.conversation_id, 'item ' || i.ordinal, i.conversation_id, i.ordinal FROM item i"
        " JOIN mine ON mine.id = i.conversation_id"
        " LEFT JOIN message m ON i.summary_id IS NULL AND m.id = i.conversation_id * 1000000000 + i.ordinal LEFT JOIN summary s"
        " ON s.id = i.summary_id AND s.conversation_id = i.conversation_id WHERE coalesce(m.id, s.id) IS NULL",
        "remove",
        "item",
        _ITEM,
    ),
    "dangling detached": _Question(
        "SELECT i.conversation_id, 'detached ' || i.ordinal, i.conversation_id, i.ordinal, i.summary_id FROM detached i"
        " JOIN mine ON mine.id = i.conversation_id"
        " LEFT JOIN message m ON i.summary_id IS NULL AND m.id = i.conversation_id * 1000000000 + i.ordinal LEFT JOIN summary s"
        " ON s.id = i.summary_id AND s.conversation_id = i.conversation_id WHERE coalesce(m.id, s.id) IS NULL",
        "remove",
        "detached",
        _DETACHED,
    ),
    "outside": _Question(
        "SELECT i.conversation_id, 'msg#' || m.id, i.conversation_id, i.ordinal FROM item i JOIN mine ON mine.id = i.conversation_id"
        " JOIN message m ON m.id = i.conversation_id * 1000000000 + i.ordinal WHERE i.summary_id IS NULL AND m.outside IS NOT NULL",
        "remove",
        "item",
        _ITEM,
    ),
    "costs": _Question(
        "SELECT i.conversation_id, 'item ' || i.ordinal, i.conversation_id, i.ordinal, coalesce(m.tokens, s.tokens),"
        " coalesce(s.depth, CASE m.role WHEN 'user' THEN -2 ELSE -1 END) FROM item i JOIN mine ON mine.id = i.conversation_id"
        " LEFT JOIN message m ON i.summary_id IS NULL AND m.id = i.conversation_id * 1000000000 + i.ordinal LEFT JOIN summary s ON s.id = i.summary_id"
        " WHERE coalesce(m.id, s.id) IS NOT NULL AND (i.tokens <> coalesce(m.tokens, s.tokens)"
        " OR i.depth <> coalesce(s.depth, CASE m.role WHEN 'user' THEN -2 ELSE -1 END))",
        "change",
        "item",
        _ITEM,
        ("tokens", "depth"),
    ),
    "sums": _Question(
        "SELECT c.id, 'says ' || c.context_tokens || ', is ' || coalesce(f.tokens, 0), c.id FROM conversation c JOIN mine ON mine.id = c.id"
        " LEFT JOIN (SELECT i.conversation_id AS c, sum(i.tokens) AS tokens FROM item i GROUP BY 1) AS f ON f.c = c.id"
        " WHERE c.context_tokens <> coalesce(f.tokens, 0)",
        "recount",
        "conversation",
        ("id",),
    ),
    "both": _Question(
        "SELECT d.conversation_id, 'detached ' || d.ordinal, d.conversation_id, d.ordinal, d.summary_id FROM detached d"
        " JOIN mine ON mine.id = d.conversation_id JOIN item i ON i.conversation_id = d.conversation_id AND i.ordinal = d.ordinal"
        " AND coalesce(i.summary_id, 0) = coalesce(d.summary_id, 0)",
        "remove",
        "detached",
        _DETACHED,
    ),
    "activity": _Question(
        "SELECT c.id, c.key FROM conversation c JOIN mine ON mine.id = c.id"
        " WHERE (c.active = 1 AND c.archived_at IS NOT NULL) OR (c.active = 0 AND c.archived_at IS NULL)"
    ),
    "leases": _Question(
        "SELECT d.conversation_id, d.worker, d.conversation_id, CAST(NULL AS TEXT), CAST(NULL AS BIGINT) FROM debt d"
        " JOIN mine ON mine.id = d.conversation_id WHERE d.worker IS NOT NULL AND d.lease_until < :now - 3600000000",
        "change",
        "debt",
        ("conversation_id",),
        ("worker", "lease_until"),
    ),
    "idle debts": _Question(
        "SELECT d.conversation_id, c.key, d.conversation_id, 0 FROM debt d JOIN mine ON mine.id = d.conversation_id"
        " JOIN conversation c ON c.id = d.conversation_id WHERE d.pending = 1 AND c.active = 0",
        "change",
        "debt",
        ("conversation_id",),
        ("pending",),
    ),
    "grants": _Question(
        "SELECT CAST(NULL AS BIGINT), g.id, g.id FROM recall_grant g WHERE g.owner = :owner"
        " AND coalesce(g.revoked_at, g.expires_at) < :now - 86400000000",
        "remove",
        "recall_grant",
        ("id",),
    ),
}

_MENDABLE = {
    "item": None,
    "detached": None,
    "summary_message": None,
    "summary_source": None,
    "cursor": None,
    "alias": None,
    "session": None,
    "debt": None,
    "manifest": None,
    "pin": None,
    "brief": None,
    "vector": None,
    "recall_grant": None,
    "grant_conversation": None,
    "grant_read": None,
    "transplant": None,
    "summary": {
        "depth",
        "earliest_at",
        "latest_at",
        "descendants",
        "source_tokens",
        "source_hash",
        "level",
        "stale",
        "tries",
    },
    "conversation": {"next_seq", "context_tokens", "continues", "parent_id"},
    "message": {"tokens"},
}
"""What may be mended: whole tables, or these columns of one."""

_SUMMARIES = "(SELECT y.id FROM summary y WHERE y.conversation_id = :conversation)"

_BELONGS = {
    "message": "t.id > :first AND t.id < :last",
    "copy": "t.message_id > :first AND t.message_id < :last",
    "vector": "t.message_id > :first AND t.message_id < :last",
    "summary_message": f"t.summary_id IN {_SUMMARIES}",
    "summary_source": f"t.summary_id IN {_SUMMARIES}",
    "revision": f"t.summary_id IN {_SUMMARIES}",
    "change": "t.operation_id IN (SELECT o.id FROM operation o WHERE o.conversation_id = :conversation)",
}
"""Which rows go with a conversation, where they do not name it themselves."""


class Integrity(Section):
    """The doctor's questions to the database, and its only writes."""

    def _within(self, ids: Sequence[int], now: int = 0) -> dict[str, Any]:
        first, last = min(ids, default=0) * SPAN, (max(ids, default=-1) + 1) * SPAN
        return {"owner": self.owner, "ids": self.listing(list(ids)), "first": first, "last": last, "now": now}

    def _with(self, ids: Sequence[int], sql: str, now: int = 0) -> list[Row]:
        return self.all(f"WITH {_MINE.format(each=self.each_of('ids', 'bigint'))} {sql}", **self._within(ids, now))

    def faults(self, name: str, ids: Sequence[int], now: int) -> list[FaultRow]:
        """Return the answers to one question, by conversation."""
        question = _QUESTIONS[name]
        # Not with ORDER BY: what was found is little, what is looked through much.
        rows = sorted(self._with(ids, question.sql, now), key=lambda row: (row[0] or 0, str(row[1])))
        return [FaultRow(row[0], str(row[1]), _step(question, row[2:])) for row in rows]

    def dangling(self) -> list[FaultRow]:
        """Return rows of any owner that refer to a missing one."""
        found = []
        for table, column, parent in (
            *self.store.references(),
            ("item", "conversation_id", "conversation"),
            ("message", "conversation_id", "conversation"),
        ):
            shape = self.store.tables.shape(table)
            rows = self.all(
                f"SELECT t.{column}, {', '.join(f't.{name}' for name in shape.key)} FROM {table} t"
                f" WHERE t.{column} IS NOT NULL AND NOT EXISTS (SELECT 1 FROM {parent} p WHERE p.id = t.{column})"
            )
            for row in rows:
                key = dict(zip(shape.key, row[1:], strict=True))
                step = _unlinked(table, column, key)
                found.append(FaultRow(None, f"{table}.{column} {row[0]}", step))
        return found

    def absent(self) -> list[FaultRow]:
        """Return missing tables, columns, views and indexes that migrations made."""
        newest, version = migrate.steps(self.store.dialect), self.store.version()
        problems = [] if version == max(newest) else [f"schema {version}, and {max(newest)} is the newest"]
        wanted = _declared("".join(newest[each].read_text(encoding="utf-8") for each in range(1, version + 1)))
        found = [FaultRow(None, each) for each in problems]
        for name in sorted(wanted.keys() - self.store.present()):
            statement = wanted[name]
            step = Step("make", name, {}, {"sql": statement}) if statement else None
            found.append(FaultRow(None, name, step))
        return found

    def unsearchable(self) -> list[FaultRow]:
        """Return messages and summaries that the search index lacks, or should not contain; by id, not by word."""
        found = []
        for source, indexed in self.store.indexed.items():
            rows = self.all(
                f"SELECT id, 'missing' FROM (SELECT id FROM {source} EXCEPT {indexed}) AS f"
                f" UNION ALL SELECT id, 'left over' FROM ({indexed} EXCEPT SELECT id FROM {source}) AS f"
            )
            found += [
                FaultRow(None, f"{source} {identity} {what}", Step("rebuild", "search")) for identity, what in rows
            ]
        return found

    def forgotten_events(self) -> list[FaultRow]:
        """Return messages whose event ids would not be recognised."""
        return [FaultRow(c, f"msg#{c * SPAN + seq}", Step("rebuild", "event")) for c, seq in self.store.lost_events()]

    def nodes(self, ids: Sequence[int]) -> list[NodeRow]:
        columns = ", ".join(f"s.{name}" for name in NodeRow.__struct_fields__ if name != "placed")
        rows = self._with(
            ids,
            f"SELECT {columns}, EXISTS (SELECT 1 FROM item i WHERE i.summary_id = s.id)"
            " OR EXISTS (SELECT 1 FROM detached d WHERE d.summary_id = s.id)"
            " FROM summary s WHERE s.conversation_id IN (SELECT id FROM mine)",
        )
        return [NodeRow(*(*row[:-1], bool(row[-1]))) for row in rows]

    def edges(self, ids: Sequence[int]) -> list[tuple[int, int, int]]:
        """Return summary, source and ordinal of each link between summaries, in order."""
        rows = self._with(
            ids,
            "SELECT l.summary_id, l.source_id, l.ordinal FROM summary_source l JOIN summary s ON s.id = l.summary_id"
            " WHERE s.conversation_id IN (SELECT id FROM mine) ORDER BY l.summary_id, l.ordinal",
        )
        return [(row[0], row[1], row[2]) for row in rows]

    def leaves(self, ids: Sequence[int]) -> list[LeafRow]:
        rows = self._with(
            ids,
            "SELECT l.summary_id, count(*), CAST(sum(m.tokens) AS BIGINT), min(coalesce(m.at, m.created_at)),"
            " max(coalesce(m.at, m.created_at)), CAST(sum(CASE m.conversation_id WHEN s.conversation_id THEN 0 ELSE 1 END) AS BIGINT)"
            " FROM summary_message l JOIN summary s ON s.id = l.summary_id JOIN message m ON m.id = l.message_id"
            " WHERE s.conversation_id IN (SELECT id FROM mine) GROUP BY l.summary_id",
        )
        return [LeafRow(*row) for row in rows]

    def leaves_below(self, conversation_id: int, seqs: Sequence[int]) -> list[tuple[int, int]]:
        """Return leaf and seq of those of these messages that a leaf was made from."""
        base = conversation_id * SPAN
        rows = self.all(
            f"SELECT l.summary_id, l.message_id FROM summary_message l WHERE l.message_id IN ({self.each_of('ids', 'bigint')})",
            ids=self.listing([base + seq for seq in seqs]),
        )
        return [(row[0], row[1] - base) for row in rows]

    def stream_messages(self, ids: Sequence[int]) -> Rows:
        """Yield each message: id, role, text, parts, meta, tokens, at, created_at, its leaf; one row for each leaf it has."""
        return self.stream(
            f"WITH {_MINE.format(each=self.each_of('ids', 'bigint'))}"
            " SELECT m.id, m.role, m.text, m.parts, m.meta, m.tokens, m.at, m.created_at, l.summary_id FROM message m"
            " LEFT JOIN summary_message l ON l.message_id = m.id WHERE m.id > :first AND m.id < :last"
            " AND m.conversation_id IN (SELECT id FROM mine) ORDER BY m.id",
            **self._within(ids),
        )

    def stream_summaries(self, ids: Sequence[int]) -> Rows:
        """Yield each summary: id, conversation, public id, text, tokens, source tokens, file ids, model, level, stale, faithful."""
        return self.stream(
            f"WITH {_MINE.format(each=self.each_of('ids', 'bigint'))}"
            " SELECT s.id, s.conversation_id, s.public_id, s.text, s.tokens, s.source_tokens, s.file_ids, s.model, s.level, s.stale,"
            " s.faithful"
            " FROM summary s WHERE s.conversation_id IN (SELECT id FROM mine) ORDER BY s.id",
            **self._within(ids),
        )

    def seal(self, conversation_id: int) -> None:
        """Add the missing seals of summaries (in a transaction)."""
        sealing = seals.Sealing()
        columns = ", ".join(f"m.{name}" for name in seals.WORDS)
        for leaf, *words in self.stream(
            f"SELECT l.summary_id, {columns} FROM summary_message l JOIN message m ON m.id = l.message_id"
            " WHERE m.id > :first AND m.id < :last ORDER BY m.id",
            first=conversation_id * SPAN,
            last=(conversation_id + 1) * SPAN,
        ):
            sealing.add(leaf, tuple(words))
        sources: dict[int, list[int]] = {}
        for summary, source, _ in self.edges([conversation_id]):
            sources.setdefault(summary, []).append(source)
        for summary, seal in sealing.all(sources).items():
            self.run(
                "UPDATE summary SET source_hash = :seal WHERE id = :id AND source_hash IS NULL", seal=seal, id=summary
            )

    def suspects(self, ids: Sequence[int]) -> set[int]:
        """Return those of these conversations that may break the promise: a superset of what `flaws` finds."""
        return {row[0] for row in self._ways(_SUSPECTS, ids)}

    def ledger(self, ids: Sequence[int]) -> list[LedgerRow]:
        """Count how the messages of these conversations are kept, in one statement."""
        return [LedgerRow(*row) for row in self._ways(_LEDGER, ids)]

    def missing(self, conversation_id: int) -> list[int]:
        """Return the seqs of messages that are neither in the context nor below it, detached or kept outside."""
        return [row[0] % SPAN for row in self._ways(_MISSING, [conversation_id])]

    def spans(self, conversation_id: int) -> list[tuple[int, int | None, int, int]]:
        """Return ordinal and summary of each item of the context, and the positions of the first and last message below it."""
        rows = self._ways("SELECT ordinal, root, first, last FROM span ORDER BY 1", [conversation_id])
        return [(row[0], row[1], row[2], row[3]) for row in rows]

    def _ways(self, sql: str, ids: Sequence[int]) -> list[Row]:
        return self.all(_WAYS.format(mine=_MINE.format(each=self.each_of("ids", "bigint"))) + sql, **self._within(ids))

    def fix(self, step: Step) -> None:
        """Make a change; words of messages and texts of summaries cannot be changed so (in a transaction)."""
        if step.action == "make":
            self.store.script(step.values["sql"])
        elif step.action == "rebuild":
            self.store.rebuild_search() if step.table == "search" else self.store.rebuild_events()
        elif step.action == "recount":
            self._recount(step.key["id"])
        else:
            allowed = _MENDABLE[step.table]
            if allowed is not None and (step.action != "change" or not allowed >= step.values.keys()):
                raise ValueError(f"{step.table} is not a doctor's to {step.action}")
            self._fix_rows(step)

    def _recount(self, conversation_id: int) -> None:
        self.run(
            "UPDATE conversation SET context_tokens = (SELECT coalesce(sum(i.tokens), 0) FROM item i"
            " WHERE i.conversation_id = :id) WHERE id = :id",
            id=conversation_id,
        )

    def _fix_rows(self, step: Step) -> None:
        if step.action == "add":
            row = step.key | step.values
            self.insert(step.table, tuple(row), [tuple(row.values())])
            return
        where = " AND ".join(
            f"{name} IS NULL" if value is None else f"{name} = :key_{name}" for name, value in step.key.items()
        )
        given = {f"key_{name}": value for name, value in step.key.items() if value is not None}
        if step.action == "remove":
            self.run(f"DELETE FROM {step.table} WHERE {where}", **given)
        else:
            changes = ", ".join(f"{name} = :{name}" for name in step.values)
            self.run(f"UPDATE {step.table} SET {changes} WHERE {where}", **given, **step.values)

    def remove_conversation(self, conversation_id: int) -> None:
        """Remove a conversation with all that belongs to it; its id is never used again (in a transaction)."""
        for table in ("conversation", "summary"):
            self.store.tables.keep_ids(table)
        self._keep_pins(conversation_id)
        self.store.unindex_conversation(conversation_id)
        for table in reversed(self.store.tables.names()):
            if table in _BELONGS or "conversation_id" in self.store.tables.shape(table).columns:
                self.run(
                    f"DELETE FROM {table} AS t WHERE {_BELONGS.get(table, 't.conversation_id = :conversation')}",
                    conversation=conversation_id,
                    first=conversation_id * SPAN,
                    last=(conversation_id + 1) * SPAN,
                )
        for column in ("continues", "parent_id"):
            self.run(f"UPDATE conversation SET {column} = NULL WHERE {column} = :id", id=conversation_id)
        self.run("DELETE FROM conversation WHERE id = :id AND owner = :owner", id=conversation_id, owner=self.owner)

    def _keep_pins(self, conversation_id: int) -> None:
        """Move the pins of a conversation to the newest other one of its key: they are the key's until unpinned."""
        self.run(
            "INSERT INTO pin (conversation_id, id, message_id, text, tokens, created_at)"
            " SELECT o.id, p.id, NULL, p.text, p.tokens, p.created_at FROM pin p"
            " JOIN conversation c ON c.id = p.conversation_id"
            " JOIN conversation o ON o.id = (SELECT max(n.id) FROM conversation n"
            " WHERE n.owner = c.owner AND n.key = c.key AND n.id <> c.id)"
            " WHERE p.conversation_id = :id AND c.owner = :owner ON CONFLICT DO NOTHING",
            id=conversation_id,
            owner=self.owner,
        )


def _step(question: _Question, row: Row) -> Step | None:
    size = len(question.key)
    key, values = row[:size], row[size:]
    if not size or key[0] is None:
        return None
    return Step(
        question.action,
        question.table,
        dict(zip(question.key, key, strict=True)),
        dict(zip(question.values, values, strict=True)),
    )


def _unlinked(table: str, column: str, key: dict[str, Any]) -> Step | None:
    """Return the fix of a row that refers to nothing: remove it, or clear the reference."""
    allowed = _MENDABLE.get(table, set())
    if allowed is None:
        return Step("remove", table, key)
    return Step("change", table, key, {column: None}) if column in allowed else None


def _declared(sql: str) -> dict[str, str]:
    """Return what migrations have made: tables, views, indexes with their definition, and columns as `table.column`."""
    found: dict[str, str] = {}
    for statement in re.split(r";\s*$", re.sub(r"--.*", "", sql), flags=re.M):
        if made := _CREATE.search(statement):
            kind, name = made[1], made[2]
            found[name] = statement.strip() if kind == "INDEX" else ""
            found.update({f"{name}.{column}": "" for column in _columns(statement, kind)})
        elif dropped := _DROP.search(statement):
            found = {key: value for key, value in found.items() if key.partition(".")[0] != dropped[1]}
        for table, column in _ADD.findall(statement):
            found[f"{table}.{column}"] = ""
    return found


def _columns(statement: str, kind: str) -> Iterator[str]:
    if kind == "TABLE":
        yield from re.findall(r"^\s+([a-z_]\w*)\s+[A-Z]", statement, re.M)


_CREATE = re.compile(r"CREATE\s+(?:UNIQUE\s+)?(VIRTUAL TABLE|TABLE|VIEW|INDEX)\s+(?:IF NOT EXISTS\s+)?(\w+)")


_DROP = re.compile(r"DROP\s+(?:TABLE|VIEW|INDEX)\s+(?:IF EXISTS\s+)?(\w+)")


_ADD = re.compile(r"ALTER TABLE\s+(\w+)\s+ADD COLUMN\s+(\w+)")


# As `proven` reaches the messages of one conversation, here for many at once, with the way in which each is reached. It is asked
# for all of them before any is looked at by itself: a server reads its tables once, and not once for each.
_WAYS = """
WITH RECURSIVE
{mine},
placed AS MATERIALIZED (
  SELECT i.conversation_id AS c, i.ordinal, i.summary_id, CAST(NULL AS TEXT) AS cause FROM item i JOIN mine ON mine.id = i.conversation_id
  UNION ALL
  SELECT d.conversation_id, d.ordinal, d.summary_id, d.cause FROM detached d JOIN mine ON mine.id = d.conversation_id
    WHERE d.cause <> 'dissolved'),
under (c, ordinal, root, cause, id) AS (
  SELECT c, ordinal, summary_id, cause, summary_id FROM placed WHERE summary_id IS NOT NULL
  UNION
  SELECT u.c, u.ordinal, u.root, u.cause, l.source_id FROM under u JOIN summary_source l ON l.summary_id = u.id),
reached AS MATERIALIZED (
  SELECT c, ordinal, CAST(NULL AS BIGINT) AS root, c * 1000000000 + ordinal AS id, cause FROM placed WHERE summary_id IS NULL
  UNION ALL
  SELECT u.c, u.ordinal, u.root, l.message_id, u.cause FROM under u JOIN summary_message l ON l.summary_id = u.id),
said AS (
  SELECT m.conversation_id AS c, m.id, m.outside FROM message m
   WHERE m.id > :first AND m.id < :last AND m.conversation_id IN (SELECT id FROM mine)),
span AS (
  SELECT t.c, t.ordinal, t.root, min(t.id - t.c * 1000000000 + coalesce(b.place - b.first_seq, 0)) AS first,
         max(t.id - t.c * 1000000000 + coalesce(b.place - b.first_seq, 0)) AS last
    FROM reached t LEFT JOIN transplant b
      ON b.conversation_id = t.c AND t.id - t.c * 1000000000 BETWEEN b.first_seq AND b.last_seq
   WHERE t.cause IS NULL GROUP BY t.c, t.ordinal, t.root),
ordered AS (
  SELECT c, ordinal, first,
         max(last) OVER (PARTITION BY c ORDER BY ordinal ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS before FROM span)
"""


_SUSPECTS = """
SELECT c FROM (SELECT c, id FROM said WHERE outside IS NULL EXCEPT SELECT c, id FROM reached) AS missing
UNION SELECT c FROM (SELECT c, id FROM reached EXCEPT SELECT c, id FROM said) AS strange
UNION SELECT c FROM (SELECT c, id FROM reached GROUP BY c, id HAVING count(*) > 1) AS twice
UNION SELECT c FROM ordered WHERE first < ordinal OR before >= ordinal
UNION SELECT c FROM (SELECT c, ordinal FROM placed WHERE summary_id IS NOT NULL AND cause IS NULL
                     EXCEPT SELECT c, ordinal FROM span) AS hollow
"""


_LEDGER = """
SELECT c, way, why, count(*), CAST(sum(times) AS BIGINT) FROM (
  SELECT c, id, coalesce(min(way), CASE WHEN min(why) IS NULL THEN 'missing' WHEN min(why) IN ('forgotten', 'heartbeat')
         THEN 'tombstone' ELSE 'outside' END) AS way, CASE coalesce(min(way), '') WHEN '' THEN min(why) ELSE min(cause) END AS why,
         count(way) AS times FROM (
    SELECT c, id, CASE WHEN cause IS NOT NULL THEN 'detached' WHEN root IS NULL THEN 'context' ELSE 'below' END AS way,
           cause, CAST(NULL AS TEXT) AS why FROM reached
    UNION ALL
    SELECT c, id, NULL, NULL, outside FROM said
  ) AS every GROUP BY c, id) AS one GROUP BY c, way, why
UNION ALL SELECT c, 'item', NULL, count(*), count(*) FROM placed WHERE cause IS NULL GROUP BY c
"""


_MISSING = "SELECT id FROM said WHERE outside IS NULL EXCEPT SELECT id FROM reached ORDER BY 1"
