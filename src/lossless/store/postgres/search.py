"""Search full text in PostgreSQL with tsvectors."""

from __future__ import annotations

import re
import unicodedata
from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import Any

from lossless.search.query.question import Question, Term
from lossless.search.ranking.messages import Limits
from lossless.search.ranking.scoring import Line, Places
from lossless.search.segment import segment
from lossless.store.sql import search
from lossless.store.sql.recall_calls import NO_RECALL
from lossless.store.store import Store

_CHUNK = 100_000
_CHUNK_PLACES = 20_000
"""Further apart than any two words of a chunk: positions in a tsvector end at 16,383."""
_ACCENTED = re.compile("[\u00c0-\u024f\u1e00-\u1eff]")
_NOT_WORDS = re.compile(r"[\W_]+")

_Lexemes = dict[str, list[int]]
"""Where each lexeme stands."""


class TSVectorIndex:
    """The messages of a scope, within limits (see `lossless.search.ranking.messages.Index`)."""

    def __init__(self, store: Store, scope: search.Scope, limits: Limits) -> None:
        self.total = scope.total
        self._store = store
        self._values: dict[str, Any] = {
            "first": scope.first,
            "last": scope.last,
            "conversations": list(scope.ids) if scope.has_gaps else None,
            "since": limits.since,
            "before": limits.before,
            "roles": list(limits.roles or ()),
        }
        # Under an id below zero stand all words of a message with recall in it, under its id the others.
        self._id = "abs(s.message_id)" if limits.include_recall else "s.message_id"
        self._lines = (
            "" if limits.include_recall or not store.recall_calls.are_marked else f" AND {NO_RECALL.format('m.id')}"
        )
        self._searched = f"{self._id} >= :first AND {self._id} < :last"
        if scope.has_gaps:
            self._searched += f" AND {self._id} / 1000000000 = ANY(CAST(:conversations AS bigint[]))"
        self._scoped = "m.id >= :first AND m.id < :last"
        if scope.has_gaps:
            self._scoped += " AND m.id / 1000000000 = ANY(CAST(:conversations AS bigint[]))"
        roles = "SELECT unnest(CAST(:roles AS text[]))"
        self._admitted = f"{self._scoped}{search.admitted(limits, roles)}{self._lines}"
        self._searched += f" AND {search.near(limits, self._id, roles)}"

    def best(self, term: Term, most: int) -> list[tuple[int, float]]:
        (query,) = queries([term])
        rows = self._all(
            f"SELECT {self._id}, max(ts_rank(s.words, q.query, 1))::float8 FROM search_message s,"
            f" (SELECT {query} AS query) AS q WHERE s.words @@ q.query AND {self._searched}"
            " GROUP BY 1 ORDER BY 2 DESC, 1 DESC LIMIT :most",
            reach=0,
            most=most,
            **parameters([term]),
        )
        return [(each, score) for each, score in rows]

    def holders(self, terms: Sequence[Term], reach: int) -> list[list[int]]:
        found: list[list[int]] = [[] for _ in terms]
        each = ", ".join(f"({number}, {query})" for number, query in enumerate(queries(terms)))
        if each:
            rows = self._all(
                f"SELECT DISTINCT t.number, {self._id} FROM (VALUES {each}) AS t (number, query)"
                f" JOIN search_message s ON s.words @@ t.query WHERE {self._searched} ORDER BY 1, 2",
                reach=reach,
                **parameters(terms),
            )
            for number, identity in rows:
                found[number].append(identity)
        return found

    def count(self, question: Question) -> int:
        """Count the messages that hold any term of a question; any filler of it if none holds a term."""
        for terms in filter(None, (question.terms, question.fillers)):
            rows = self._all(
                f"SELECT count(DISTINCT {self._id}) FROM (SELECT {' || '.join(queries(terms))} AS query) AS q,"
                f" search_message s WHERE s.words @@ q.query AND {self._searched}",
                reach=0,
                **parameters(terms),
            )
            if rows[0][0]:
                return int(rows[0][0])
        return 0

    def lines(self, ids: Sequence[int]) -> dict[int, Line]:
        rows = self._all(
            f"SELECT {search.LINE} FROM message m WHERE m.id = ANY(CAST(:ids AS bigint[])){self._lines}",
            ids=list(ids),
        )
        return search.lines(rows)

    def places(self, terms: Sequence[Term], ids: Sequence[int]) -> dict[int, Places]:
        phrases = self._phrases(terms)
        rows = self._all(
            "SELECT s.message_id, s.chunk, u.lexeme, u.positions FROM search_message s, unnest(s.words) AS u"
            " WHERE s.message_id = ANY(CAST(:ids AS bigint[])) AND u.lexeme = ANY(CAST(:lexemes AS text[]))"
            " ORDER BY s.message_id, s.chunk",
            ids=[*ids, *(-each for each in ids)] if self._id != "s.message_id" else list(ids),
            lexemes=sorted({lexeme for phrase in phrases.values() for _, lexeme in phrase}),
        )
        messages: dict[int, _Lexemes] = defaultdict(lambda: defaultdict(list))
        for identity, chunk, lexeme, positions in rows:
            if identity > 0 and -identity in messages:
                continue
            messages[identity][lexeme] += [chunk * _CHUNK_PLACES + position for position in positions]
        found = {abs(identity): _by_term(terms, phrases, lexemes) for identity, lexemes in messages.items()}
        return {identity: places for identity, places in found.items() if any(places)}

    def texts(self, ids: Sequence[int]) -> dict[int, str]:
        sql = "SELECT m.id, m.text FROM message m WHERE m.id = ANY(CAST(:ids AS bigint[]))"
        rows: list[Any] = self._all(sql, ids=list(ids))
        return dict(rows)

    def of_role(self, role: str, ids: Sequence[int]) -> list[int]:
        sql = "SELECT m.id FROM message m WHERE m.id = ANY(CAST(:ids AS bigint[])) AND m.role = :role"
        return [row[0] for row in self._all(sql, ids=list(ids), role=role)]

    def period(self) -> tuple[int, int]:
        ((first, last),) = self._all(f"SELECT min({search.AT}), max({search.AT}) FROM message m WHERE {self._scoped}")
        return first or 0, last or 0

    def within(self, start: int, end: int) -> list[int]:
        sql = f"SELECT m.id FROM message m WHERE {self._admitted} AND {search.AT} >= :start AND {search.AT} < :end"
        return [row[0] for row in self._all(sql, start=start, end=end)]

    def _phrases(self, terms: Sequence[Term]) -> dict[str, list[tuple[int, str]]]:
        """Return the lexemes of each form, with their distance from its first."""
        rows = self._all(
            "SELECT f.form, u.positions[1], u.lexeme FROM unnest(CAST(:forms AS text[]), CAST(:words AS text[])) AS f (form, words),"
            " unnest(to_tsvector('words', f.words)) AS u ORDER BY 1, 2",
            forms=[form for term in terms for form in term.forms],
            words=[bare(form) for term in terms for form in term.forms],
        )
        phrases: dict[str, list[tuple[int, str]]] = defaultdict(list)
        for form, position, lexeme in rows:
            phrases[form].append((position - 1, lexeme))
        return phrases

    def _all(self, sql: str, **values: Any) -> list[tuple[Any, ...]]:
        return self._store.all(sql, **(self._values | values))


def queries(terms: Sequence[Term]) -> Iterator[str]:
    """Return for each term an expression that is its tsquery, over the `parameters` of the same terms."""
    number = 0
    for term in terms:
        names = [f"phraseto_tsquery('words', :f{n})" for n in range(number, number + len(term.forms))]
        number += len(term.forms)
        yield " || ".join(names)


def parameters(terms: Sequence[Term]) -> dict[str, str]:
    forms = [form for term in terms for form in term.forms]
    return {f"f{number}": bare(form) for number, form in enumerate(forms)}


def chunks(text: str) -> Iterator[str]:
    """Split the words of a text, as PostgreSQL's parser should see them, into pieces that a tsvector can hold."""
    words = bare(segment(text))
    while len(words) > _CHUNK:
        end = words.rfind(" ", 1, _CHUNK)
        end = _CHUNK if end < 0 else end
        yield words[:end]
        words = words[end:]
    yield words


def bare(text: str) -> str:
    """Return the words of a text without what a parser takes for a path or an address, Latin letters without accents."""
    if not text.isascii():
        text = _ACCENTED.sub(lambda found: unicodedata.normalize("NFD", found[0])[0], text)
    return _NOT_WORDS.sub(" ", text)


def _by_term(terms: Sequence[Term], phrases: dict[str, list[tuple[int, str]]], lexemes: _Lexemes) -> Places:
    return [sorted(place for form in term.forms for place in _starts(phrases[form], lexemes)) for term in terms]


def _starts(phrase: list[tuple[int, str]], lexemes: _Lexemes) -> Sequence[int]:
    """Return the positions where all lexemes of a phrase follow each other."""
    if not phrase:
        return ()
    (_, first), *rest = phrase
    starts: Sequence[int] = lexemes.get(first, ())
    for distance, lexeme in rest:
        there = set(lexemes.get(lexeme, ()))
        starts = [start for start in starts if start + distance in there]
    return starts
