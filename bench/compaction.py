"""What compaction costs, against plain statements that write the same rows, and how often a summariser is asked.

A conversation is delivered turn by turn, and compacted after every delivery by a summariser that answers at once. The
floor delivers the same messages and puts the rows that compaction left into the database by hand: the summary, its
links, its item in the place of its run, its words, the tokens of the conversation and the count of calls. It reads
nothing, decides nothing and asks nobody. Both take only their own part, not the ingest between, in CPU time, each in a
process of its own; the ratio printed is the median of the pairs.

    python bench/compaction.py                  # 10,000 messages, five pairs
    python bench/compaction.py --large          # 100,000 messages: whether the last ones cost more than the first
    python bench/compaction.py --quick          # 2,000 messages, one pair
    python bench/compaction.py --parts          # what the time goes into
    python bench/compaction.py --parts --joined # the same with a summary that quotes no whole line
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from datetime import timedelta
from functools import wraps
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import apsw
from msgspec.structs import replace

from lossless import Lossless, Message, Settings, SummaryRequest, Text
from lossless.demo import conversation
from lossless.store.sqlite.store import SQLiteStore

DELIVERY = 20
MINUTE = 60.0
WINDOW = 128_000
QUOTED = 500
SETTINGS = Settings(timezone="UTC")
MOST_CALLS = 1.1
MOST_GROWTH = 1.3
QUICK_RATIO = 80.0
"""One pair on a busy machine: what fails here has lost its way, not its footing."""


def made(count: int) -> Iterator[Message]:
    """The demo again and again, a week later each time; every message quotes another one, each time a different one."""
    told = conversation()
    for number in range(count):
        week, at = divmod(number, len(told))
        message, other = told[at], told[(at * 7 + week * 31) % len(told)]
        quoted = Text(f"Earlier: {other.text[:QUOTED]}")
        when = message.at + timedelta(weeks=week) if message.at else None
        yield replace(message, parts=(*message.parts, quoted), at=when, event_id=f"{message.event_id}.{week}")


def deliveries(count: int) -> Iterator[tuple[float, list[Message]]]:
    """The messages as they come in, and when: twenty a minute."""
    messages = list(made(count))
    for number, start in enumerate(range(0, count, DELIVERY), 1):
        yield number * MINUTE, messages[start : start + DELIVERY]


class Instant:
    """A summariser that answers at once, with the first lines of its source: about two thirds of the length wanted.

    A line quoted whole is faithful without a look at what it says; `joined` into one, the same words are looked up.
    """

    def __init__(self, *, joined: bool = False) -> None:
        self.calls = 0
        self._joined = joined

    def __call__(self, request: SummaryRequest) -> str:
        self.calls += 1
        beginning = request.source[: 3 * request.target_tokens].rpartition("\n")[0]
        told = " ".join(beginning.split()) if self._joined else beginning
        return f"{told}\nExpand for details about: what came after"


class Reading(NamedTuple):
    """CPU in microseconds a message, and what was made of them."""

    compaction: float
    ingest: float
    tenths: list[float]
    """Both together, for each tenth of the messages."""
    calls: int = 0
    summaries: int = 0
    depth: int = 0
    twice: int = 0
    """Messages under more than one leaf, or under none and yet out of the context."""
    tokens: int = 0


class Stopwatch:
    """CPU time, added up."""

    def __init__(self) -> None:
        self.total = 0.0

    def __enter__(self) -> None:
        self._start = time.process_time()

    def __exit__(self, *_: object) -> None:
        self.total += time.process_time() - self._start


def warm() -> None:
    """What only the first compaction of a process pays: loading Jinja, compiling prompts and patterns."""
    with Lossless.open(":memory:", settings=SETTINGS, summarizer=Instant()) as lcm:
        chat = lcm.conversation("warm")
        chat.ingest(made(200))
        chat.compact(WINDOW, force=True)


def ours(path: Path, count: int, *, joined: bool = False) -> Reading:
    """Deliver and compact; the database stays, for the floor to read what was written."""
    now, summarizer, laps = 0.0, Instant(joined=joined), [0.0]
    ingesting, compacting = Stopwatch(), Stopwatch()
    with Lossless.open(path, settings=SETTINGS, summarizer=summarizer, clock=lambda: now) as lcm:
        chat = lcm.conversation("bench")
        for now, messages in deliveries(count):  # noqa: B007 - the clock reads it
            with ingesting:
                chat.ingest(messages)
            with compacting:
                chat.compact(WINDOW)
            laps.append(ingesting.total + compacting.total)
    micro = 1e6 / count
    return Reading(
        compacting.total * micro, ingesting.total * micro, _tenths(laps, micro), summarizer.calls, *_left(path)
    )


def _tenths(laps: list[float], micro: float) -> list[float]:
    marks = [laps[round(tenth * (len(laps) - 1) / 10)] for tenth in range(11)]
    return [(after - before) * 10 * micro for before, after in pairwise(marks)]


def _left(path: Path) -> tuple[int, int, int, int]:
    """The summaries, their depth, the messages not summarised exactly once, the tokens of all messages."""
    db = apsw.Connection(str(path))
    summaries, depth = _all(db, "SELECT count(*), max(depth) FROM summary")[0]
    twice = _all(
        db,
        "SELECT count(*) FROM message m WHERE 1 <> (SELECT count(*) FROM summary_message WHERE message_id = m.id)"
        " + (SELECT count(*) FROM item i WHERE i.ordinal = m.seq AND i.summary_id IS NULL)",
    )
    tokens = _all(db, "SELECT sum(tokens) FROM message")
    return summaries, depth or 0, twice[0][0], tokens[0][0]


def floor(path: Path, count: int, left: Path) -> Reading:
    """Deliver, and write by hand what compaction wrote into the database it left, at the same moments."""
    now, writing, ingesting = 0.0, Stopwatch(), Stopwatch()
    written = _written(left)
    with Lossless.open(path, settings=SETTINGS, clock=lambda: now) as lcm:
        chat, store = lcm.conversation("bench"), lcm._store
        assert isinstance(store, SQLiteStore)
        for now, messages in deliveries(count):
            with ingesting:
                chat.ingest(messages)
            with writing:
                for rows in written.get(int(now * 1e6), ()):
                    _write(store._writer, rows)
    _compare(path, left)
    micro = 1e6 / count
    return Reading(writing.total * micro, ingesting.total * micro, [])


class Written(NamedTuple):
    """The rows of one summary."""

    summary: tuple[Any, ...]
    messages: list[tuple[int, int]]
    sources: list[tuple[int, int, int]]
    run: tuple[int, int, int]
    item: tuple[int, int, int, int, int]
    change: tuple[int, int]
    words: tuple[int, str]
    guard: tuple[str, str, int]


def _written(left: Path) -> dict[int, list[Written]]:
    """What compaction wrote, by the moment it did."""
    db = apsw.Connection(str(left))
    guard, found = _all(db, "SELECT * FROM guard WHERE name LIKE '%:spend:%'")[0], dict[int, list[Written]]()
    columns = [row[1] for row in _all(db, "PRAGMA table_info(summary)")]
    spans: dict[int, tuple[int, int, int]] = {}
    for row in _all(db, "SELECT * FROM summary ORDER BY id"):
        value = dict(zip(columns, row, strict=True))
        identity, conversation_id, moment = value["id"], value["conversation_id"], value["created_at"]
        messages = _all(db, "SELECT * FROM summary_message WHERE summary_id = ? ORDER BY 1", identity)
        sources = _all(db, "SELECT * FROM summary_source WHERE summary_id = ? ORDER BY ordinal", identity)
        inside = [spans[source] for _, source, _ in sources] or _all(
            db, "SELECT seq, seq, tokens FROM message WHERE id BETWEEN ? AND ?", messages[0][0], messages[-1][0]
        )
        first, last, tokens = inside[0][0], inside[-1][1], value["tokens"]
        spans[identity] = (first, last, tokens)
        rows = Written(
            row,
            messages,
            sources,
            (conversation_id, first, last),
            (conversation_id, first, identity, tokens, value["depth"]),
            (tokens - sum(each[2] for each in inside), conversation_id),
            (identity, value["text"]),
            guard,
        )
        found.setdefault(moment, []).append(rows)
    return found


def _write(db: apsw.Connection, rows: Written) -> None:
    db.execute("BEGIN IMMEDIATE")
    db.execute("INSERT OR REPLACE INTO guard VALUES (?, ?, ?)", rows.guard)
    db.execute("COMMIT")
    db.execute("BEGIN IMMEDIATE")
    db.execute(f"INSERT INTO summary VALUES ({', '.join('?' * len(rows.summary))})", rows.summary)  # noqa: S608 - its own columns
    db.executemany("INSERT INTO summary_message VALUES (?, ?)", rows.messages)
    db.executemany("INSERT INTO summary_source VALUES (?, ?, ?)", rows.sources)
    db.execute("DELETE FROM item WHERE conversation_id = ? AND ordinal BETWEEN ? AND ?", rows.run)
    db.execute("INSERT INTO item VALUES (?, ?, ?, ?, ?)", rows.item)
    db.execute("UPDATE conversation SET context_tokens = context_tokens + ? WHERE id = ?", rows.change)
    db.execute("INSERT INTO search_summary (rowid, text) VALUES (?, ?)", rows.words)
    db.execute("COMMIT")


def _compare(path: Path, left: Path) -> None:
    """A floor that left other rows would be none."""
    one, other = apsw.Connection(str(path)), apsw.Connection(str(left))
    for table in ("conversation", "item", "summary", "summary_message", "summary_source"):
        query = f"SELECT * FROM {table}"  # noqa: S608 - our names
        if _all(one, query) != _all(other, query):
            sys.exit(f"the floor left other rows in {table}")


def _all(db: apsw.Connection, sql: str, *values: Any) -> list[tuple[Any, ...]]:
    return db.execute(sql, values).fetchall()


def one(kind: str, count: int, directory: str) -> Reading:
    """One measurement in a process of its own."""
    command = [sys.executable, __file__, "--one", kind, "--messages", str(count), "--directory", directory]
    printed = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout
    return Reading(*json.loads(printed))


def measured(kind: str, directory: Path, count: int) -> Reading:
    warm()
    left = directory / "ours.db"
    return ours(left, count) if kind == "ours" else floor(directory / "floor.db", count, left)


def pair(count: int) -> tuple[Reading, Reading]:
    """The floor writes what ours has written, so ours comes first."""
    with tempfile.TemporaryDirectory() as directory:
        mine = one("ours", count, directory)
        return one("floor", count, directory), mine


def ratio(found: list[tuple[Reading, Reading]]) -> float:
    return float(statistics.median(mine.compaction / base.compaction for base, mine in found))


def growth(reading: Reading) -> float:
    """What a message of the last tenth costs, to one of the third to fifth."""
    return reading.tenths[-1] / statistics.median(reading.tenths[2:5])


def problems(reading: Reading) -> list[str]:
    """What the counts of a run say against it."""
    said = []
    if reading.calls > MOST_CALLS * reading.summaries:
        said.append(f"{reading.calls} calls for {reading.summaries} summaries")
    if reading.twice:
        said.append(f"{reading.twice} messages are not summarised exactly once")
    return said


def report(count: int, found: list[tuple[Reading, Reading]]) -> str:
    base, mine = (statistics.median(pair[side].compaction for pair in found) for side in (0, 1))
    ingest, last = statistics.median(pair[1].ingest for pair in found), found[-1][1]
    return (
        f"{count:>8,}  {base:7.1f} {mine:7.1f} {ratio(found):6.2f}x  {ingest:7.1f}   "
        f"{last.calls:>5} {last.summaries:>9} {last.depth:>5}   {last.tokens / count:6.0f}"
    )


def parts(count: int, *, joined: bool) -> None:
    """One run with a stopwatch at every part of compaction."""
    from lossless.engine.compaction import prompts, summarize, sweep
    from lossless.engine.shared import call_limits

    places: dict[str, list[tuple[Any, str]]] = {
        "the sources as text": [(sweep, "of_messages"), (sweep, "of_summaries")],
        "reading rows": [(SQLiteStore, name) for name in ("items", "messages_at", "summaries")],
        "the prompt": [(prompts, "request")],
        "guards": [(call_limits.Guards, name) for name in ("is_exhausted", "before_call", "answered")],
        "the summariser": [(Instant, "__call__")],
        "whether it is faithful": [(summarize, "_verified")],
        "the store's writes": [(SQLiteStore, "replace")],
    }
    warm()
    taken = {label: _watched(found) for label, found in places.items()}
    with tempfile.TemporaryDirectory() as directory:
        reading = ours(Path(directory) / "ours.db", count, joined=joined)
    for label, stopwatch in taken.items():
        print(f"{stopwatch.total / count * 1e6:7.1f} us/message  {label}")
    rest = reading.compaction - sum(each.total for each in taken.values()) / count * 1e6
    print(f"{rest:7.1f} us/message  the rest\n{reading.compaction:7.1f} us/message  together")
    print(f"{reading.calls} calls for {reading.summaries} summaries")


def _watched(places: list[tuple[Any, str]]) -> Stopwatch:
    stopwatch = Stopwatch()

    def watch(function: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(function)
        def watched(*values: Any, **named: Any) -> Any:
            with stopwatch:
                return function(*values, **named)

        return watched

    for owner, name in places:
        setattr(owner, name, watch(getattr(owner, name)))
    return stopwatch


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--messages", type=int, default=10_000)
    options.add_argument("--pairs", type=int, default=5)
    options.add_argument("--large", action="store_true", help="100,000 messages, the cost of each tenth")
    options.add_argument("--quick", action="store_true", help="2,000 messages, one pair")
    options.add_argument("--parts", action="store_true", help="what the time goes into, in one run")
    options.add_argument("--joined", action="store_true", help="with --parts: a summary that quotes no whole line")
    options.add_argument("--fail-above", type=float, metavar="RATIO", help="exit with 1 when compaction costs more")
    options.add_argument("--one", choices=["floor", "ours"], help=argparse.SUPPRESS)
    options.add_argument("--directory", type=Path, help=argparse.SUPPRESS)
    given = options.parse_args()
    count, pairs = (2_000, 1) if given.quick else (given.messages, given.pairs)
    if given.one:
        print(json.dumps(measured(given.one, given.directory, count)))
    elif given.parts:
        parts(count, joined=given.joined)
    elif given.large:
        large(100_000)
    else:
        small(count, pairs, given.fail_above or (QUICK_RATIO if given.quick else None))


def small(count: int, pairs: int, most: float | None) -> None:
    print("messages   compaction CPU us/message    ingest   calls summaries depth   tokens")
    print("             floor    ours   ratio        ours                        a message")
    found = [pair(count) for _ in range(pairs)]
    print(report(count, found))
    said = [problem for _, mine in found for problem in problems(mine)]
    if most and ratio(found) > most:
        said.append(f"compaction costs {ratio(found):.2f} times the floor, more than {most}")
    if said:
        sys.exit("\n".join(said))


def large(count: int) -> None:
    with tempfile.TemporaryDirectory() as directory:
        reading = one("ours", count, directory)
    print(f"{count:,} messages, CPU us/message of ingest and compaction, by tenths:")
    print("  ".join(f"{tenth:.0f}" for tenth in reading.tenths))
    print(
        f"the last to the third to fifth: {growth(reading):.2f}x; {reading.calls} calls, {reading.summaries} summaries"
    )
    said = problems(reading)
    if growth(reading) > MOST_GROWTH:
        said.append(f"the last tenth costs {growth(reading):.2f} times the third to fifth, more than {MOST_GROWTH}")
    if said:
        sys.exit("\n".join(said))


if __name__ == "__main__":
    main()
