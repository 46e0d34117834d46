"""Rank the messages that answer a question, in two passes.

The database finds every message that contains a term. A bounded number of candidates and their neighbours is then
scored, at some microseconds for each.
"""

from __future__ import annotations

from collections.abc import Sequence
from heapq import nsmallest
from typing import Protocol

from msgspec import Struct
from msgspec.structs import replace

from lossless.search.query.question import Question, Term, analyse
from lossless.search.ranking import scoring
from lossless.search.ranking.candidates import choose_candidates
from lossless.search.ranking.scoring import Line, Places

_CANDIDATES = 50


class Limits(Struct, frozen=True):
    """The messages that may be an answer. Times are microseconds, from `since` on and before `before`."""

    since: int | None = None
    before: int | None = None
    roles: tuple[str, ...] | None = None
    include_recall: bool = False
    """Search the calls of our own recall tools and their results, too."""

    @property
    def is_unlimited(self) -> bool:
        """True if every message is admitted."""
        return self.since is None and self.before is None and self.roles is None

    def admit(self, line: Line) -> bool:
        """Return whether a message may be an answer."""
        return (
            (self.since is None or line.at >= self.since)
            and (self.before is None or line.at < self.before)
            and (self.roles is None or line.role in self.roles)
        )


class Index(Protocol):
    """The full-text index of a database over `total` messages."""

    total: int

    def best(self, term: Term, most: int) -> list[tuple[int, float]]:
        """Return messages within the limits that contain a term, with scores of the database.

        The best come first, of equal ones the newest.
        """

    def holders(self, terms: Sequence[Term], reach: int) -> list[list[int]]:
        """Return for each term the ids of the messages that contain it, within the limits or at most `reach` away."""

    def lines(self, ids: Sequence[int]) -> dict[int, Line]:
        """Return those of the messages that exist."""

    def places(self, terms: Sequence[Term], ids: Sequence[int]) -> dict[int, Places]:
        """Return the positions of the terms in the messages that contain any."""


def rank_messages(query: str, index: Index, limits: Limits, limit: int) -> list[tuple[int, float]]:
    """Return the ids of messages with their scores, the best first.

    A few words find messages that contain some of them. A single word or phrase keeps the order of the database.
    A sentence also finds the turns next to its matches: an answer seldom repeats the words of its question.
    """
    question = analyse(query)
    if len(question.terms) == 1 and not question.reach:
        return index.best(question.terms[0], limit)
    question, holders = _find_holders(question, index)
    if not holders:
        return []
    weights = [scoring.term_weight(len(ids), index.total) for ids in holders]
    ids = choose_candidates(weights, holders, max(_CANDIDATES, 2 * limit))
    lines = index.lines(sorted({each + step for each in ids for step in (-2, -1, 0, 1, 2)}))
    places = index.places(question.terms, list(lines))
    scores = scoring.score_messages(question, weights, lines, places)
    allowed = [
        each
        for each in scores
        if (question.reach or each in places) and (limits.is_unlimited or limits.admit(lines[each]))
    ]
    return [(each, scores[each]) for each in nsmallest(limit, allowed, key=lambda each: (-scores[each], -each))]


def _find_holders(question: Question, index: Index) -> tuple[Question, list[list[int]]]:
    """Return the question with only the terms that messages contain, and their ids; with its fillers if there are none."""
    holders = index.holders(question.terms, question.reach)
    if not any(holders):
        question = replace(question, terms=question.fillers, pairs=())
        holders = index.holders(question.terms, question.reach)
    return question.keep_terms([bool(ids) for ids in holders]), [ids for ids in holders if ids]
