"""Which messages answer a question: a first look at every holder of its terms, a close look at the likely ones.

The first look is what a database does fast. The close look costs some microseconds a message, so it is taken at
a bounded number of them and their neighbours.
"""

from __future__ import annotations

from collections.abc import Sequence
from heapq import nsmallest
from typing import Protocol

from msgspec import Struct
from msgspec.structs import replace

from lossless.search.query.question import Question, Term, analyse
from lossless.search.ranking import scoring
from lossless.search.ranking.candidates import likely
from lossless.search.ranking.scoring import Line, Places

_LIKELY = 50


class Limits(Struct, frozen=True):
    """Which messages may be an answer. Times are microseconds, from `since` on and before `before`."""

    since: int | None = None
    before: int | None = None
    roles: tuple[str, ...] | None = None
    include_recall: bool = False
    """Search the calls of our own recall tools and their results, too."""

    @property
    def are_none(self) -> bool:
        return self.since is None and self.before is None and self.roles is None

    def admit(self, line: Line) -> bool:
        return (
            (self.since is None or line.at >= self.since)
            and (self.before is None or line.at < self.before)
            and (self.roles is None or line.role in self.roles)
        )


class Index(Protocol):
    """What a database knows of the messages that are searched, of which there are `total`."""

    total: int

    def best(self, term: Term, most: int) -> list[tuple[int, float]]:
        """The ids of messages within the limits that hold a term, with scores of the database's own reckoning.

        The best first, the newest of equals.
        """

    def holders(self, terms: Sequence[Term], reach: int) -> list[list[int]]:
        """For each term, the ids of the messages that hold it and lie within the limits, or not further off than `reach`."""

    def lines(self, ids: Sequence[int]) -> dict[int, Line]:
        """These messages, as far as they exist."""

    def places(self, terms: Sequence[Term], ids: Sequence[int]) -> dict[int, Places]:
        """Where the terms stand, in those of these messages that hold any."""


def recall(asked: str, index: Index, limits: Limits, limit: int) -> list[tuple[int, float]]:
    """The ids of messages with their scores, the best first.

    A few words find messages that hold some of them; one word or phrase leaves nothing to weigh, and the database's
    own order stands. A sentence also finds the turns beside those: an answer seldom repeats the words of its question.
    """
    question = analyse(asked)
    if len(question.terms) == 1 and not question.reach:
        return index.best(question.terms[0], limit)
    question, holders = _said(question, index)
    if not holders:
        return []
    weights = [scoring.weight(len(ids), index.total) for ids in holders]
    ids = likely(weights, holders, max(_LIKELY, 2 * limit))
    lines = index.lines(sorted({each + step for each in ids for step in (-2, -1, 0, 1, 2)}))
    places = index.places(question.terms, list(lines))
    scores = scoring.rank(question, weights, lines, places)
    may = [
        each for each in scores if (question.reach or each in places) and (limits.are_none or limits.admit(lines[each]))
    ]
    return [(each, scores[each]) for each in nsmallest(limit, may, key=lambda each: (-scores[each], -each))]


def _said(question: Question, index: Index) -> tuple[Question, list[list[int]]]:
    """The question with only those terms that somebody said, and who. Its fillers, if nobody said any."""
    holders = index.holders(question.terms, question.reach)
    if not any(holders):
        question = replace(question, terms=question.fillers, pairs=())
        holders = index.holders(question.terms, question.reach)
    return question.having([bool(ids) for ids in holders]), [ids for ids in holders if ids]
