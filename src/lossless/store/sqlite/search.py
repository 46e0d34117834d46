"""Search full text in SQLite with FTS5."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import chain, islice
from typing import TYPE_CHECKING, Any
from weakref import WeakSet

import apsw
from msgspec.json import Decoder

from lossless.search.segment import segment
from lossless.store import jsontext
from lossless.store.recall_calls import without
from lossless.store.sql import search
from lossless.store.sql.recall_calls import NO_RECALL

if TYPE_CHECKING:
    from lossless.search.query.question import Question, Term
    from lossless.search.ranking.messages import Limits
    from lossless.search.ranking.scoring import Line, Places

_decode = Decoder(list[int]).decode
_able: WeakSet[apsw.Connection] = WeakSet()
"""Connections that know the function `places`."""


class FTS5Index:
    """The messages of a scope, within limits, as one connection sees them (see `lossless.search.ranking.messages.Index`)."""

    def __init__(
        self, connection: apsw.Connection, scope: search.Scope, limits: Limits, *, knows_recall: bool = True
    ) -> None:
        self.total = scope.total
        self._lines = "" if limits.include_recall or not knows_recall else f" AND {NO_RECALL.format('m.id')}"
        # Under an id below zero stand all words of a message with recall in it, under its id the others.
        self._id = "abs(s.rowid)" if limits.include_recall else "s.rowid"
        self._distinct = f"DISTINCT {self._id}" if limits.include_recall else self._id
        self._db = connection
        if connection not in _able:
            connection.register_fts5_function("places", _places)
            _able.add(connection)
        self._values: dict[str, Any] = {
            "first": scope.first,
            "last": scope.last,
            "conversations": jsontext.dumps_plain(scope.ids) if scope.has_gaps else None,
            "since": limits.since,
            "before": limits.before,
            "roles": jsontext.dumps_plain(limits.roles or ()),
        }
        self._searched = f"s.search_message MATCH :match AND {self._id} >= :first AND {self._id} < :last"
        if scope.has_gaps:
            self._searched += f" AND {self._id} / 1000000000 IN (SELECT value FROM json_each(:conversations))"
        self._scoped = "m.id >= :first AND m.id < :last"
        if scope.has_gaps:
            self._scoped += " AND m.id / 1000000000 IN (SELECT value FROM json_each(:conversations))"
        self._admitted = f"{self._scoped}{search.admitted(limits, 'SELECT value FROM json_each(:roles)')}{self._lines}"
        near = search.near(limits, self._id, "SELECT value FROM json_each(:roles)")
        self._within = f"{self._searched} AND {near}"

    def best(self, term: Term, most: int) -> list[tuple[int, float]]:
        # With a second key SQLite sorts by itself and keeps only the best, which is faster than FTS5's own sorting.
        rank, group = ("min(s.rank)", "GROUP BY 1 ") if self._id != "s.rowid" else ("s.rank", "")
        sql = f"SELECT {self._id}, {rank} FROM search_message s WHERE {self._within} {group}ORDER BY 2, 1 DESC LIMIT :most"
        return [(each, -rank) for each, rank in self._all(sql, match=either([term]), reach=0, most=most)]

    def holders(self, terms: Sequence[Term], reach: int) -> list[list[int]]:
        # One JSON array is read in half the time of as many rows.
        sql = f"SELECT json_group_array({self._distinct}) FROM search_message s WHERE {self._within}"
        found = [_decode(self._all(sql, match=either([term]), reach=reach)[0][0]) for term in terms]
        if self._id != "s.rowid":  # those below zero came first
            for ids in found:
                ids.sort()
        return found

    def count(self, question: Question) -> int:
        """Count the messages that hold any term of a question; any filler of it if none holds a term."""
        sql = f"SELECT count({self._distinct}) FROM search_message s WHERE {self._within}"
        for terms in filter(None, (question.terms, question.fillers)):
            if found := self._all(sql, match=either(terms), reach=0)[0][0]:
                return int(found)
        return 0

    def lines(self, ids: Sequence[int]) -> dict[int, Line]:
        rows = self._all(
            f"SELECT {search.LINE} FROM message m WHERE m.id IN (SELECT value FROM json_each(:ids)){self._lines}",
            ids=jsontext.dumps_plain(ids),
        )
        return search.lines(rows)

    def places(self, terms: Sequence[Term], ids: Sequence[int]) -> dict[int, Places]:
        found: dict[int, list[list[int]]] = {}
        # The + keeps SQLite from asking the index once for each id.
        self._all(
            f"SELECT places(s.search_message, :found) FROM search_message s WHERE {self._searched}"
            f" AND +{self._id} IN (SELECT value FROM json_each(:ids))",
            match=either(terms),
            ids=jsontext.dumps_plain(ids),
            found=apsw.pyobject(found),
        )
        return _by_term(terms, found)

    def texts(self, ids: Sequence[int]) -> dict[int, str]:
        sql = "SELECT m.id, m.text FROM message m WHERE m.id IN (SELECT value FROM json_each(:ids))"
        rows: list[Any] = self._all(sql, ids=jsontext.dumps_plain(ids))
        return dict(rows)

    def of_role(self, role: str, ids: Sequence[int]) -> list[int]:
        sql = "SELECT m.id FROM message m WHERE m.id IN (SELECT value FROM json_each(:ids)) AND m.role = :role"
        return [row[0] for row in self._all(sql, ids=jsontext.dumps_plain(ids), role=role)]

    def period(self) -> tuple[int, int]:
        ((first, last),) = self._all(f"SELECT min({search.AT}), max({search.AT}) FROM message m WHERE {self._scoped}")
        return first or 0, last or 0

    def within(self, start: int, end: int) -> list[int]:
        sql = f"SELECT json_group_array(m.id) FROM message m WHERE {self._admitted} AND {search.AT} >= :start AND {search.AT} < :end"
        return _decode(self._all(sql, start=start, end=end)[0][0])

    def _all(self, sql: str, **values: Any) -> list[tuple[Any, ...]]:
        return self._db.execute(sql, self._values | values).fetchall()


def either(terms: Sequence[Term]) -> str:
    """Return a query that matches any of the terms."""
    return " OR ".join(f'"{form}"' for term in terms for form in term.forms)


def _places(api: apsw.FTS5ExtensionApi, *sink: Any) -> None:
    """Note the positions of each phrase of the query in the current row."""
    if api.rowid < 0 or api.rowid not in sink[0]:
        sink[0][abs(api.rowid)] = [api.phrase_column_offsets(phrase, 0) for phrase in range(api.phrase_count)]


def _by_term(terms: Sequence[Term], found: dict[int, list[list[int]]]) -> dict[int, Places]:
    """Return the positions of the phrases, those of a term's forms together."""
    if all(len(term.forms) == 1 for term in terms):
        return {**found}
    return {
        each: [_together(term, rest) for term in terms]
        for each, rest in zip(found, map(iter, found.values()), strict=True)
    }


def _together(term: Term, places: Iterator[list[int]]) -> list[int]:
    return next(places) if len(term.forms) == 1 else sorted(chain.from_iterable(islice(places, len(term.forms))))


def indexed_texts(connection: apsw.Connection, table: str, *, knows_recall: bool = True) -> Iterator[tuple[int, str]]:
    """Yield what an index should hold of a table: ids and words."""
    if table != "message" or not knows_recall:
        for rowid, text in connection.execute(f"SELECT id, text FROM {table} ORDER BY id"):
            yield rowid, segment(text)
        return
    # Those below zero first: FTS5 is slow with ids that do not ascend.
    marked = "FROM message m JOIN recall_call r ON r.message_id = m.id"
    for rowid, text in connection.execute(f"SELECT m.id, m.text {marked} ORDER BY m.id DESC"):
        yield -rowid, segment(text)
    marks: list[Any] = connection.execute("SELECT message_id, spans FROM recall_call").fetchall()
    found: dict[int, str | None] = dict(marks)
    for rowid, text in connection.execute("SELECT id, text FROM message ORDER BY id"):
        yield rowid, segment(without(text, found[rowid]) if rowid in found else text)
