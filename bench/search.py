"""What it costs to search, against raw FTS5 over the same messages in the same run.

The messages are those of a file in LoCoMo's format (see recall.py), again and again until there are enough. Two floors:

* questions as typed: what is left of the question without its stop words, joined by OR, ranked by bm25, 20 hits,
  asked of the very same index;
* plain words and phrases: the same words, ranked by bm25, 20 hits with their snippets, asked of an FTS5 index that
  keeps its content (ours does not).

Floor and lossless take turns, question by question. A round gives the median and the 95th percentile of each; what is
printed is the median over the rounds, and the median of their ratios.

    python bench/search.py                          # 10k and 100k messages, five rounds
    python bench/search.py --sizes 10000 --rounds 3
"""

from __future__ import annotations

import argparse
import random
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from itertools import cycle, pairwise
from pathlib import Path
from typing import NamedTuple

import apsw

from lossless import Lossless
from lossless.search.query.question import analyse
from lossless.search.query.stopwords import STOP_WORDS
from recall import DATA, Sample, samples

QUESTIONS = 150
RANKED = "SELECT rowid, rank FROM search_message WHERE search_message MATCH ? ORDER BY rank LIMIT 20"
WITH_SNIPPET = (
    "SELECT rowid, snippet(floor, 0, '', '', '...', 32) FROM floor WHERE floor MATCH ? ORDER BY rank LIMIT 20"
)


class Reading(NamedTuple):
    """Milliseconds."""

    p50: float
    p95: float


class Contest(NamedTuple):
    """Questions, how the floor answers one, and the time it is granted."""

    name: str
    questions: list[str]
    floor: Callable[[str], object]


def fill(path: str, chosen: list[Sample], size: int) -> None:
    """A lossless database with so many messages, and beside it the floor with its content."""
    db = apsw.Connection(f"{path}-floor")
    db.execute("CREATE TABLE content (id INTEGER PRIMARY KEY, text TEXT)")
    db.execute(
        "CREATE VIRTUAL TABLE floor USING fts5 (text, content = 'content', content_rowid = 'id', tokenize = 'porter unicode61')"
    )
    left = size
    with Lossless.open(path) as lcm:
        for number, sample in enumerate(cycle(chosen)):
            messages = sample.messages[:left]
            if not messages:
                break
            lcm.conversation(f"{sample.name}-{number}").ingest(messages)
            with db:
                rows = [(size - left + place, message.text) for place, message in enumerate(messages)]
                db.executemany("INSERT INTO content VALUES (?, ?)", rows)
                db.executemany("INSERT INTO floor (rowid, text) VALUES (?, ?)", rows)
            left -= len(messages)
    db.close()


def reader(path: str) -> apsw.Connection:
    db = apsw.Connection(path, flags=apsw.SQLITE_OPEN_READWRITE)
    for pragma in ("query_only = ON", "cache_size = -16384", "temp_store = MEMORY"):
        db.execute(f"PRAGMA {pragma}").fetchall()
    return db


def contests(path: str, chosen: list[Sample]) -> list[Contest]:
    dice = random.Random(7)
    asked = [each.question for sample in chosen for each in sample.asked]
    texts = [message.text.split() for sample in chosen for message in sample.messages]
    words = [word for text in texts for word in text if word.isalpha() and word.lower() not in STOP_WORDS]
    pairs = [f'"{a} {b}"' for text in texts for a, b in pairwise(text) if (a + b).isalpha()]
    same, content = reader(path), reader(f"{path}-floor")

    def any_word(question: str) -> object:
        terms = analyse(question).terms
        return same.execute(RANKED, (" OR ".join(f'"{term.forms[0]}"' for term in terms),)).fetchall()

    def with_snippet(query: str) -> object:
        return content.execute(WITH_SNIPPET, (query if query[0] == '"' else f'"{query}"',)).fetchall()

    return [
        Contest("questions as typed", dice.sample(asked, QUESTIONS), any_word),
        Contest("single words", dice.sample(words, QUESTIONS), with_snippet),
        Contest("phrases", dice.sample(pairs, QUESTIONS), with_snippet),
    ]


def timed(answer: Callable[[str], object], question: str) -> float:
    start = time.perf_counter()
    answer(question)
    return (time.perf_counter() - start) * 1000


def measure(contest: Contest, ours: Callable[[str], object], rounds: int) -> list[tuple[Reading, Reading]]:
    for question in contest.questions:  # warm both caches
        contest.floor(question), ours(question)
    found = []
    for _ in range(rounds):
        pairs = [(timed(contest.floor, question), timed(ours, question)) for question in contest.questions]
        floor, mine = (_reading([pair[side] for pair in pairs]) for side in (0, 1))
        found.append((floor, mine))
    return found


def _reading(spent: list[float]) -> Reading:
    hundredths = statistics.quantiles(spent, n=100)
    return Reading(statistics.median(spent), hundredths[94])


def ratio(found: list[tuple[Reading, Reading]], field: str) -> float:
    return float(statistics.median(getattr(mine, field) / getattr(floor, field) for floor, mine in found))


def line(size: int, name: str, found: list[tuple[Reading, Reading]]) -> str:
    figures = [
        f"{statistics.median(getattr(pair[side], field) for pair in found):8.2f}"
        for field in Reading._fields
        for side in (0, 1)
    ]
    p50, p95 = ratio(found, "p50"), ratio(found, "p95")
    return f"{size:>8,}  {name:<20}{figures[0]} {figures[1]} {p50:5.2f}x  {figures[2]} {figures[3]} {p95:5.2f}x"


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("data", type=Path, nargs="?", default=DATA)
    options.add_argument("--sizes", type=int, nargs="+", default=[10_000, 100_000])
    options.add_argument("--rounds", type=int, default=5)
    options.add_argument("--fail-above", type=float, metavar="RATIO", help="exit with 1 when a ratio is higher")
    given = options.parse_args()
    chosen = list(samples(given.data))
    worst = 0.0
    print("messages                        p50 ms floor    ours   ratio  p95 ms floor    ours   ratio")
    for size in given.sizes:
        with tempfile.TemporaryDirectory() as directory:
            path = f"{directory}/bench.db"
            fill(path, chosen, size)
            with Lossless.open(path) as lcm:
                for contest in contests(path, chosen):
                    found = measure(contest, lcm._store.search, given.rounds)
                    worst = max(worst, ratio(found, "p50"), ratio(found, "p95"))
                    print(line(size, contest.name, found), flush=True)
    if given.fail_above and worst > given.fail_above:
        sys.exit(f"a search costs {worst:.2f} times the floor, more than {given.fail_above}")


if __name__ == "__main__":
    main()
