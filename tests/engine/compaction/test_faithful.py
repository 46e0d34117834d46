"""A summary may say less than its source, in other words and other notations, but nothing else."""

from __future__ import annotations

import json
import time
from collections import Counter
from itertools import pairwise
from pathlib import Path
from zlib import crc32

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Struct

from lossless import tokens
from lossless.engine.compaction.faithful import Claim, Faithfulness, own_words
from lossless.engine.compaction.faithful.wording import PIECE, Wording, lowered, sentences
from tests.sources import check

PAIRS = Path(__file__).parents[2] / "cases" / "faithful" / "pairs.jsonl"


class Pair(Struct, frozen=True):
    """A summary of a source, faithful or with one thing in it altered."""

    id: str
    source_id: str
    label: str
    kind: str
    summary: str
    source: str

    @property
    def held_out(self) -> bool:
        """Set aside while the checker was first written: 42 of 47 alterations caught then, 9 of 47 false alarms.

        Those failures were looked at later, so today's better figures are no longer a blind test.
        """
        return crc32(self.source_id.encode()) % 2 == 1


def _pairs() -> list[Pair]:
    fields = Pair.__struct_fields__
    lines = PAIRS.read_text(encoding="utf-8").splitlines()
    return [Pair(*(json.loads(line)[name] for name in fields)) for line in lines]


@pytest.fixture(scope="module")
def pairs() -> list[Pair]:
    return _pairs()


def test_at_least_95_of_100_alterations_are_caught(pairs: list[Pair]) -> None:
    altered = [pair for pair in pairs if pair.label == "altered"]
    missed = [pair.id for pair in altered if check(pair.summary, pair.source).passed]
    assert len(missed) <= 0.05 * len(altered), missed


def test_at_most_5_of_100_faithful_summaries_are_suspected(pairs: list[Pair]) -> None:
    faithful = [pair for pair in pairs if pair.label == "faithful"]
    results = {pair.id: check(pair.summary, pair.source) for pair in faithful}
    suspected = {name: result.unsupported for name, result in results.items() if not result.passed}
    assert len(suspected) <= 0.05 * len(faithful), suspected


def test_what_the_pairs_are(pairs: list[Pair]) -> None:
    assert Counter(pair.label for pair in pairs) == {"faithful": 100, "altered": 100}
    assert set(Counter(pair.kind for pair in pairs if pair.label == "altered").values()) == {20}
    sources = {pair.source for pair in pairs}
    assert len(sources) >= 40
    assert all(300 <= len(source) <= 3_000 and source.count(" | ") >= 6 for source in sources)
    assert 80 <= sum(pair.held_out for pair in pairs) <= 120


def test_a_longer_source_does_not_make_a_faithful_summary_suspect(pairs: list[Pair]) -> None:
    everything = "\n\n".join(dict.fromkeys(pair.source for pair in pairs))
    faithful = [pair for pair in pairs if pair.label == "faithful"]
    assert sum(not check(pair.summary, pair.source, context=everything).passed for pair in faithful) <= 5


HEADER = "[2026-02-17 15:37 PST | user]\n"


@pytest.mark.parametrize(
    ("source", "summary"),
    [
        ("It took three attempts.", "It took 3 attempts."),
        ("It took 24 attempts.", "It took twenty-four attempts."),
        ("We have 1,200 rows.", "We have 1200 rows."),
        ("We have 1,200 rows.", "We have 1.2k rows."),
        ("We have 1200 rows.", "We have 1.2 thousand rows."),
        ("Wir haben 1.200,50 Euro.", "We have 1,200.50 euros."),
        ("The count is 1,204,553.", "The count is 1.2 million."),
        ("The count is 48,212.", "The count is about 48,000."),
        ("A file of 5MB, 40 % done.", "A file of 5 MB, 40% done."),
        ("It took 8,400 ms.", "It took 8.4 s."),
        ("This is the fourth attempt.", "This is the 4th attempt."),
        ("Commit 9f3c2ab17d fixed it.", "Commit 9f3c2ab fixed it."),
        ("We use v2.31.0 on port 8080.", "Version 2.31.0 on port 8080 is used."),
        (f"{HEADER}Done.", "On Feb 17, 2026 it was done."),
        (f"{HEADER}Done.", "On 17 February it was done, a Tuesday."),
        (f"{HEADER}Done.", "It was done on the 17th."),
        (f"{HEADER}Done.", "It was done around 15:30 PST."),
        (f"{HEADER}Done.", "It was done by 4 pm."),
        (f"{HEADER}We ship tomorrow.", "Shipping on 2026-02-18."),
        (f"{HEADER}We ship on Friday.", "Shipping on Feb 20."),
        ("Closed from 11 to 15 June.", "Closed from June 11–15."),
        ("Let us meet at 4:15.", "They meet at 16:15."),
        ("The file src/a/b.py is wrong.", "The file b.py is wrong."),
        ("In /srv/app I changed lib/x.rb.", "Changed /srv/app/lib/x.rb."),
        ("Look at the upload queue.", "Look at UploadQueue."),
        ("UploadQueue is slow.", "The Upload Queue is slow."),
        ("priya said yes.", "Priya's answer was yes."),
        ("The Federal Grain Board wrote.", "The FGB wrote."),
        ("Amélie came.", "Amelie came."),
        ("Fix it.", "1. Fix it.\n2) User and Assistant agreed, see API.\n[Truncated from 9000 tokens]"),
        ("Edit a.py.", "It was edited.\nFiles: a.py (modified)\nExpand for details about: the edit"),
        ("Done.", "Files: none\nExpand for details about: nothing"),
        ("Don't touch the backoff.", "The backoff must not be touched."),
        ("No rollback, please.", "They decided against a rollback."),
        ("Do not deploy before Lena's review.", "Deploy after Lena's review."),
        ("Можно удалить слот для Светланы.", "Слот можно удалить, сообщить Светлане."),
        ("王磊说还有两个缺陷。", "Wang Lei reports two defects."),
        (
            "Der Kunde bringt den Wagen.",
            "Der Kunde hat das Auto in die Werkstatt gebracht und wird mit der Rechnung warten.",
        ),
    ],
)
def test_the_same_in_other_words_is_supported(source: str, summary: str) -> None:
    assert check(summary, source).unsupported == ()


@pytest.mark.parametrize(
    ("source", "summary", "kind", "text"),
    [
        ("It took three attempts.", "It took 4 attempts.", "number", "4"),
        ("We have 1,200 rows.", "We have 1,300 rows.", "number", "1,300"),
        ("We have 48,212 rows.", "We have 48,000 rows.", "number", "48,000"),
        ("We have 48,212 rows.", "We have about 60,000 rows.", "number", "60,000"),
        ("We use v2.31.0.", "We use v2.13.0.", "number", "v2.13.0"),
        ("Host 10.0.0.17 is down.", "Host 10.0.0.71 is down.", "number", "10.0.0.71"),
        ("Commit 9f3c2ab17d fixed it.", "Commit 9f3c2bb fixed it.", "name", "9f3c2bb"),
        ("Priya tuned it.", "It was tuned by Pooja.", "name", "Pooja"),
        ("Priya tuned it.", "Pooja tuned it.", "name", "Pooja"),
        ("Set MAX_RETRIES.", "They set MAX_TRIES.", "name", "MAX_TRIES"),
        ("See GK-318.", "It is in GK-381.", "name", "GK-381"),
        ("Mail ops@harbor.io.", "Mail ops@harbour.io.", "path", "harbour.io"),
        ("The file src/a/b.py is wrong.", "The file src/c/b.py is wrong.", "path", "src/c/b.py"),
        ("See https://x.io/i/7", "See https://x.io/j/7", "path", "https://x.io/j/7"),
        (f"{HEADER}Done.", "On Feb 27 it was done.", "date", "feb 27"),
        (f"{HEADER}Done.", "On Feb 17, 2025 it was done.", "date", "feb 17, 2025"),
        (f"{HEADER}Done.", "It was done at 17:30.", "date", "17:30"),
        ("Meet on 2026-03-04.", "They meet on a Friday.", "date", "friday"),
        ("Do not deploy on Friday.", "Deploy on Friday.", "negation", "deploy on friday."),
        ("Deploy the worker on Friday.", "Do not deploy the worker on Friday.", "negation", "do not deploy"),
        ("Mum doesn't eat seafood.", "Mum eats seafood.", "negation", "mum eats"),
        ("The ban was rejected.", "The ban was accepted.", "negation", "the ban"),
    ],
)
def test_what_the_source_does_not_say_is_named(source: str, summary: str, kind: str, text: str) -> None:
    (claim,) = check(summary, source).unsupported
    assert claim.kind == kind
    assert claim.text.startswith(text)


def test_what_else_the_summariser_was_shown_supports_a_claim_too() -> None:
    assert not check("Kenji owns GK-12.", "Fixed.").passed
    assert check("Kenji owns GK-12.", "Fixed.", context="[earlier] Kenji took GK-12").passed


@pytest.mark.parametrize(
    ("source", "summary"),
    [
        ("bb_ro reads it.\nNoted.\nRun `psql` as `bb_rw`, as bb_ro may not.", "Noted. Run `psql` as `bb_rw`, as bb_ro may not."),
        ("bb_ro reads it.\nNoted\nRun `psql` as `bb_rw`,\n  as bb_ro may not", "Noted Run `psql` as `bb_rw`, as bb_ro may not"),
    ],
)  # fmt: skip
def test_sentences_repeated_whole_contradict_nothing(source: str, summary: str) -> None:
    assert check(summary, source).passed


@pytest.mark.parametrize(
    ("source", "summary"),
    [
        ("We said: do not deploy on Friday.\nHello.", "Hello. Deploy on Friday."),
        ("Deploy on Friday?\nDo not deploy on Friday.", "Hello. Deploy on Friday."),
        ("bb_ro reads it.\nRun `psql` as `bb_rw`, as bb_ro may not.", "Hello. As bb_ro may not."),
    ],
)
def test_a_part_of_a_sentence_may_well_contradict_it(source: str, summary: str) -> None:
    assert [claim.kind for claim in check(summary, source).unsupported] == ["negation"]


@pytest.mark.parametrize(
    ("source", "summary", "passed"),
    [
        (f"{HEADER}Done.", "There were 17 rows.", False),  # the day of a message counts nothing
        (f"{HEADER}Done.", "There were 37 rows.", False),
        (f"{HEADER}Done.", "It was done in 2026, at 15:37.", True),
        ("[2026-02-17 15:37:09] Done.", "It was done at 15:37:09.", True),
        ("[2026-02-17 15:37:09] Done.", "It was done at 15:37:10.", False),
        ("[2026-02-17 15:373月25日", "There were 25 rows.", True),
        ("[2026-13-17 15:37] Done.", "There were 13 rows.", True),  # no month, so a number
        ("We have 2 400 rows.", "We have 2400 rows.", True),
        ("We have twenty four rows.", "We have 24 rows.", True),
        ("我们有两行。", "There are 2 rows.", True),
        ("Day 20260217 was fine.", "Feb 17 was fine.", True),
        ("Day 120260217 was fine.", "Feb 17 was fine.", False),
    ],
)
def test_each_notation_is_looked_up_where_it_may_stand(source: str, summary: str, passed: bool) -> None:
    assert check(summary, source).passed == passed


def test_the_score_is_the_share_of_supported_claims() -> None:
    result = check("Rows: 5, 6, 7 and 80.", "There were 5, 6 and 7 rows.")
    assert result == Faithfulness(0.75, (Claim("number", "80"),), 4, suspected=((0, 21),))
    assert check("", "anything") == Faithfulness(1.0, (), 0)


PIECES = """Feb|17|May 15|3.5|1,200|v2.31.0|not|do not|deploy|Friday|Kenji|a/b.py|/etc/x|https://x.io/a|10:30|5 pm|2-4 pm|15.4.
28.2.-7.3.|MAX_RETRIES|OOMKilled|BUG-12|三月|不要|3月25日|9f3c2ab|1.2k|$5|20%|İx|three|4th|accepted|rejected|.|,|;|:|(|-|'s|n't|e.g.
[2026-02-17 15:37 PST / user]|12/11/2026|R2.5|37m22s|#87|@x/y|C:\\a|only|Dr.|ß|é|about 50|2 400|18h30|week later|99/99/9999|٣"""
texts = st.text() | st.lists(st.sampled_from([*PIECES.replace("\n", "|").split("|"), "\n", "\n- "])).map(" ".join)


@given(texts)
def test_a_text_is_faithful_to_itself(text: str) -> None:
    assert check(text, text).passed


@given(texts | st.text("aZ1_ .。\n\u3000\u2028不é’👍"))
def test_words_are_the_same_whichever_way_they_are_read(text: str) -> None:
    known = Wording(text)
    read = [piece for sentence in sentences(lowered(text)) for piece in PIECE.findall(sentence)]
    assert known.words == set(read)
    assert known.initials == "".join(word[0] for word in read)
    assert all(known.follows(*pair) for pair in pairwise(read))


@given(texts, texts, texts)
def test_any_text_can_be_checked(summary: str, source: str, context: str) -> None:
    result = check(summary, source, context=context)
    assert 0.0 <= result.score <= 1.0
    assert result.passed == (not result.unsupported) == (result.score == 1.0)
    assert len(result.unsupported) <= result.checked


def test_a_source_of_20k_tokens_costs_milliseconds(pairs: list[Pair]) -> None:
    sources = list(dict.fromkeys(pair.source for pair in pairs if pair.source.isascii()))
    source, summary = "\n\n".join(sources * 3), "\n".join(pair.summary for pair in pairs if pair.label == "faithful")
    source = source[: len(source) * 20_000 // tokens.estimate(source)]
    summary = summary[: len(summary) * 1_200 // tokens.estimate(summary)]
    # 30 ms on a machine of its own; twice that for one that is busy.
    assert min(_seconds(summary, source) for _ in range(7)) < 0.06


def test_quoted_lines_cost_next_to_nothing(pairs: list[Pair]) -> None:
    source = "\n\n".join(dict.fromkeys(pair.source for pair in pairs))
    summary = f"{source[:4_000].rpartition(chr(10))[0]}\nExpand for details about: the rest"
    # 0.2 ms on a machine of its own.
    assert min(_seconds(summary, source) for _ in range(7)) < 0.002


MEGABYTE = 1_000_000


@pytest.mark.parametrize(
    "unit",
    [
        "1",
        "1,",
        "not ",
        "a",
        "Aa ",
        "a.",
        "/a",
        "aB",
        "2026-01-01 ",
        "1 may ",
        "monday ",
        "1:00 ",
        "不要",
        "(",
        "\n",
        "a_1 ",
        "do not deploy. ",
    ],
)
def test_hostile_texts_cost_time_in_proportion(unit: str) -> None:
    def seconds(size: int) -> float:
        text = unit * (size // len(unit))
        return _seconds(text, f"{text}!") + _seconds("Kenji will not deploy 5 of a/b.py on 3 May.", text)

    assert seconds(MEGABYTE // 4) < 6


def _seconds(summary: str, source: str) -> float:
    start = time.process_time()
    check(summary, source)
    return time.process_time() - start


lines = st.lists(st.sampled_from(["", " ", "a", "aa", "a a", "b"]) | st.text(max_size=3), max_size=30).map("\n".join)


@given(lines, lines)
def test_the_own_words_of_a_summary_are_its_lines_that_no_line_of_the_source_is(summary: str, source: str) -> None:
    known = source.split("\n")
    assert own_words(summary, source) == "\n".join(line for line in summary.split("\n") if line not in known)
