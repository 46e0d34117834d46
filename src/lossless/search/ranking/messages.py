"""Rank the messages that answer a question, in three passes.

The database finds every message that contains a term. A bounded number of candidates and their neighbours is then
scored, at some microseconds for each, and the best of them are compared by further cues. The bounds do not depend on the
number of hits that are asked for: a longer list begins with the shorter one.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from typing import Protocol

from msgspec import Struct
from msgspec.structs import replace

from lossless.search.query import dates
from lossless.search.query.question import Question, Term, analyse
from lossless.search.ranking import scoring
from lossless.search.ranking.candidates import Candidates, Shares
from lossless.search.ranking.scoring import Line, Places

_LEAST, _MOST, _GROWTH = 250, 1_000, 220
"""The number of candidates: from 250, one more for every 220 messages, to 1,000."""
_SAMPLE = 20
"""The number of messages with a name that are looked at to tell whether it is a speaker's."""
_PAGE = 500


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


class Ranking(Struct, frozen=True):
    """The best hits with their scores, and the number of messages that match."""

    hits: list[tuple[int, float]]
    total: int
    shares: Shares | None = None
    """The share of the question's weight in and around each hit, if more than one word was searched for."""

    def share(self, hit: int) -> float:
        return 1.0 if self.shares is None else self.shares.around(hit)


class Index(Protocol):
    """The full-text index of a database over `total` messages."""

    total: int

    def best(self, term: Term, most: int) -> list[tuple[int, float]]:
        """Return messages within the limits that contain a term, with scores of the database.

        The best come first, of equal ones the newest.
        """

    def count(self, question: Question) -> int:
        """Count the messages that contain any term of a question; any filler of it if none contains a term."""

    def holders(self, terms: Sequence[Term], reach: int) -> list[list[int]]:
        """Return for each term the ids of the messages that contain it, ascending.

        They are within the limits, or at most `reach` away from such a message.
        """

    def lines(self, ids: Sequence[int]) -> dict[int, Line]:
        """Return those of the messages that exist."""

    def places(self, terms: Sequence[Term], ids: Sequence[int]) -> dict[int, Places]:
        """Return the positions of the terms in the messages that contain any."""

    def texts(self, ids: Sequence[int]) -> dict[int, str]:
        """Return the texts of messages."""

    def of_role(self, role: str, ids: Sequence[int]) -> list[int]:
        """Return those of the messages that have a role."""

    def period(self) -> tuple[int, int]:
        """Return the times of the oldest and the newest message."""

    def within(self, start: int, end: int) -> list[int]:
        """Return the messages within the limits from `start` on and before `end`."""


def rank_messages(query: str, index: Index, limits: Limits, limit: int, now: int) -> Ranking:
    """Return the ids of messages with their scores, the best first.

    A few words find messages that contain some of them. A single word or phrase keeps the order of the database.
    A sentence also finds the turns next to its matches: an answer seldom repeats the words of its question.
    """
    question = analyse(query)
    if len(question.terms) == 1 and not question.reach and not question.names_time:
        return Ranking(index.best(question.terms[0], limit), index.count(question))
    asked = len(question.terms)
    question, holders = _find_holders(question, index)
    spans = _find_spans(question, index, limits, now) if question.names_time else ()
    if not holders and not spans:
        return Ranking([], 0)
    weights = [scoring.term_weight(len(ids), index.total) for ids in holders]
    candidates = Candidates(weights, holders)
    ids = _choose(candidates, question, weights, holders, index, spans)
    lines = index.lines(sorted({each + step for each in ids for step in (-2, -1, 0, 1, 2)}))
    places = index.places(question.terms, list(lines)) if holders else {}
    scores = scoring.score_messages(question, weights, lines, places, spans)
    if scores and question.reach:
        from lossless.search.ranking.cues import add_cues

        scores = add_cues(query, question, weights, lines, candidates.masks, scores, spans, index)
    hits = [
        (each, score)
        for each, score in scores.items()
        if (question.reach or each in places) and (limits.is_unlimited or limits.admit(lines[each]))
    ]
    if question.is_aggregating:
        from lossless.search.ranking.sessions import spread_over_sessions

        hits = spread_over_sessions(hits, lines)
    hits.sort(key=lambda hit: (-hit[1], -hit[0]))
    ranking = _with_rest(hits, candidates, lines, index, limits, limit, is_exact=not question.reach)
    absent = max(0, asked - len(question.terms)) * scoring.term_weight(0, index.total)
    return replace(ranking, shares=Shares(weights, candidates.masks, absent))


def _with_rest(
    hits: list[tuple[int, float]],
    candidates: Candidates,
    lines: Mapping[int, Line],
    index: Index,
    limits: Limits,
    limit: int,
    *,
    is_exact: bool,
) -> Ranking:
    """Return the hits, followed by matches that were not scored as far as the limit wants them."""
    count = len(hits)
    if is_exact or limits.is_unlimited:
        count = len(candidates) + sum(each not in candidates for each, _ in hits)
    if limit > len(hits):
        least = min((score for _, score in hits), default=1.0)
        rest = _admitted(candidates.rest(lines), index, limits, is_exact=is_exact)
        hits += [(each, least / (2 + place)) for place, each in enumerate(islice(rest, limit - len(hits)))]
    return Ranking(hits[:limit], max(count, len(hits)))


def _admitted(ids: Sequence[int], index: Index, limits: Limits, *, is_exact: bool) -> Iterator[int]:
    """Yield the messages within the limits; the neighbours of such are among the ids, unless they are exact."""
    if is_exact or limits.is_unlimited:
        yield from ids
        return
    for start in range(0, len(ids), _PAGE):
        page = ids[start : start + _PAGE]
        lines = index.lines(page)
        yield from (each for each in page if each in lines and limits.admit(lines[each]))


def match_messages(query: str, index: Index, limit: int) -> Ranking:
    """Return messages that contain words of a question, those with the rarest words first, without comparing them further."""
    question = analyse(query)
    if len(question.terms) == 1:
        return Ranking(index.best(question.terms[0], limit), index.count(question))
    question, holders = _find_holders(replace(question, reach=0), index)
    if not holders:
        return Ranking([], 0)
    candidates = Candidates([scoring.term_weight(len(ids), index.total) for ids in holders], holders)
    best = candidates.heaviest(limit)
    return Ranking([(each, 1.0 - place / (len(best) + 1)) for place, each in enumerate(best)], len(candidates))


def _choose(
    candidates: Candidates,
    question: Question,
    weights: Sequence[float],
    holders: Sequence[Sequence[int]],
    index: Index,
    spans: Sequence[dates.Span],
) -> list[int]:
    """Choose the messages to score."""
    most = min(_MOST, _LEAST + index.total // _GROWTH)
    dated = {
        each: span.weight
        for span in sorted(spans, key=lambda span: span.weight)
        for each in index.within(span.start, span.end)
        if each in candidates or (question.reach and span.weight > scoring.WHOLE_YEAR)
    }
    if len(candidates) <= most and not dated:
        return candidates.all()
    name = _find_name(question, index, holders)
    if name is not None:
        words = name.lower().split()
        mask = sum(1 << number for number, term in enumerate(question.terms) if term.forms[0] in words)
        candidates.prefer(mask, scoring.without_name(question, weights, name))
    among = candidates.widest(most)
    side = set(index.of_role(question.side, among)) if question.side else set()
    return candidates.choose(most, {*among, *dated}, side, dated)


def _find_name(question: Question, index: Index, holders: Sequence[Sequence[int]]) -> str | None:
    """Return the speaker whom the question names, if messages with its words are of only one such speaker."""
    sample = {each for ids in holders for each in ids[-_SAMPLE:]}
    return scoring.find_speaker(question, index.lines(sorted(sample)).values())


def _find_spans(question: Question, index: Index, limits: Limits, now: int) -> tuple[dates.Span, ...]:
    first, last = index.period()
    spans = (*dates.time_spans(question.days, first, last), *dates.relative_spans(question.agos, now, last))
    if question.event is None:
        return spans
    days = dates.time_spans(dates.find_dates(question.event.event), first, last)
    if days:
        return (*spans, dates.event_span(question.event, days[0].start + dates.DAY))
    found = rank_messages(question.event.event, index, limits, 1, now).hits
    at = [line.at for line in index.lines([each for each, _ in found]).values()]
    return (*spans, *(dates.event_span(question.event, each) for each in at))


def _find_holders(question: Question, index: Index) -> tuple[Question, list[list[int]]]:
    """Return the question with only the terms that messages contain, and their ids; with its fillers if there are none."""
    holders = index.holders(question.terms, question.reach)
    if not any(holders):
        question = replace(question, terms=question.fillers, pairs=())
        holders = index.holders(question.terms, question.reach)
    return question.keep_terms([bool(ids) for ids in holders]), [ids for ids in holders if ids]
