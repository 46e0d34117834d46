from __future__ import annotations

from lossless.search.query.dates import Span, time_spans
from lossless.search.query.question import analyse
from lossless.search.ranking.candidates import Candidates
from lossless.search.ranking.scoring import Line, are_near, score_messages, term_weight

DAY = 86_400_000_000


def line(words: int = 20, *, role: str = "user", speaker: str | None = None, at: int = 0) -> Line:
    return Line(role, words, speaker, at)


def best(asked: str, lines: dict[int, Line], places: dict[int, list[list[int]]], spans: tuple[Span, ...] = ()) -> int:
    scores = score_messages(analyse(asked), [1.0] * len(analyse(asked).terms), lines, places, spans)
    return max(scores, key=lambda each: scores[each])


def test_a_rare_word_says_more_and_a_common_one_still_something() -> None:
    assert term_weight(1, 1000) > term_weight(500, 1000) > term_weight(1000, 1000) > 0


def test_being_short_gains_nothing_below_a_few_lines_and_being_long_costs() -> None:
    lines = {10: line(5), 20: line(40), 30: line(400)}
    scores = score_messages(analyse("boat"), [1.0], lines, {each: [[3]] for each in lines})
    assert scores[10] == scores[20] > scores[30]


def test_a_turn_takes_from_its_neighbours_what_it_leaves_out() -> None:
    lines = {n: line() for n in range(1, 13)}
    scores = score_messages(analyse("boat name"), [1.0, 1.0], lines, {2: [[1], []], 3: [[], [1]], 10: [[1], []]})
    assert scores[2] > scores[10] > scores[11] > scores[12] > 0
    assert 7 not in scores


def test_words_of_another_conversation_flow_nowhere() -> None:
    scores = score_messages(analyse("boat"), [1.0], {10: line(), 20: line()}, {10: [[1]]})
    assert set(scores) == {10}


def test_words_side_by_side_count_more() -> None:
    lines = {10: line(), 20: line()}
    assert best("red boat", lines, {10: [[1], [9]], 20: [[1], [2]]}) == 20
    assert are_near([1, 50], [20, 53])
    assert not are_near([1], [5])


def test_who_is_named_is_who_is_asked_for() -> None:
    lines = {10: line(speaker="Anna"), 20: line(speaker="Bela")}
    assert best("what did Bela build", lines, {each: [[], [1]] for each in lines}) == 20


def test_the_first_person_is_the_user() -> None:
    lines = {10: line(role="assistant"), 20: line(role="user")}
    assert best("where did I leave keys", lines, {each: [[], [1]] for each in lines}) == 20


def test_the_day_that_is_named_is_looked_at_first() -> None:
    lines = {10: line(at=0), 20: line(at=90 * DAY), 30: line(at=200 * DAY)}
    spans = time_spans(analyse("what broke on 1 April 1970").days, 0, 200 * DAY)
    assert best("what broke on 1 April 1970", lines, {each: [[1], [], [], []] for each in lines}, spans) == 20


def test_likely_are_those_whose_neighbours_hold_the_rest() -> None:
    lonely = range(100, 200, 10)
    candidates = Candidates([1.0, 1.0], [[*lonely, 500], [501]])
    assert candidates.choose(2, candidates.widest(3)) == [501, 500]


def test_of_equally_likely_ones_the_newest_are_looked_at() -> None:
    candidates = Candidates([1.0], [list(range(10, 10_000, 10))])
    assert sorted(candidates.choose(3, candidates.widest(3))) == [9_970, 9_980, 9_990]
