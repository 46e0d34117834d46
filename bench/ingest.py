"""What it costs to ingest, against a raw-SQLite floor taken in the same run.

The floor is the least a program could do to have the same messages searchable: the standard library's
sqlite3, one table, one FTS5 index, the same durability, the same batches. Each measurement is a process of
its own; floor and lossless take turns, and what is printed is the median of their ratios.

    python bench/ingest.py                      # 1k, 10k and 100k messages, five pairs each
    python bench/ingest.py --sizes 1000 --pairs 3
    python bench/ingest.py --postgres postgresql://...   # PostgreSQL as well (reported, no floor)
"""

from __future__ import annotations

import argparse
import json
import os
import random
import sqlite3
import statistics
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

BATCH = 500
SINGLES = 300
WORDS = 4_000


class Made(NamedTuple):
    """A made message: about 350 bytes, a quarter of them tool results."""

    event_id: str
    role: str
    text: str
    call_id: str


def made(count: int) -> Iterator[Made]:
    """Invented words with the frequencies of a language, the same in every run."""
    dice = random.Random(7)
    syllables = [a + b for a in "bcdfghklmnprstvz" for b in ("a", "e", "i", "o", "u", "ar", "en", "or")]
    words = ["".join(dice.choices(syllables, k=dice.randint(1, 3))) for _ in range(WORDS)]
    weights = [1 / (rank + 5) for rank in range(WORDS)]
    roles = ("user", "assistant", "tool", "assistant")
    for number in range(count):
        role = roles[number % 4]
        text = " ".join(dice.choices(words, weights, k=58))
        if role == "tool":
            text = f"src/{words[number % WORDS]}/{words[number % 97]}.py:{number}: {text}"
        yield Made(str(uuid.UUID(int=dice.getrandbits(128), version=4)), role, text, f"call_{number}")


class Reading(NamedTuple):
    cpu: float
    wall: float
    bytes: int
    text: int
    single_cpu: float
    single_wall: float


def floor(path: Path, messages: list[Made]) -> Reading:
    db = sqlite3.connect(path, isolation_level=None)
    db.executescript(
        "PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL;"
        "CREATE TABLE message (id INTEGER PRIMARY KEY, event_id TEXT, role TEXT, text TEXT);"
        "CREATE VIRTUAL TABLE search USING fts5 (text, content = 'message', content_rowid = 'id', tokenize = 'porter unicode61');"
    )
    number = 0

    def write(batch: list[Made]) -> None:
        nonlocal number
        db.execute("BEGIN IMMEDIATE")
        rows = [(number + at, m.event_id, m.role, m.text) for at, m in enumerate(batch, 1)]
        db.executemany("INSERT INTO message VALUES (?, ?, ?, ?)", rows)
        db.executemany("INSERT INTO search (rowid, text) VALUES (?, ?)", [(row[0], row[3]) for row in rows])
        db.execute("COMMIT")
        number += len(batch)

    return _measured(messages, write, db.close, lambda: path.stat().st_size)


def ours(database: str, messages: list[Made]) -> Reading:
    from lossless import Lossless, Message

    with Lossless.open(":memory:") as first:
        first.conversation("warm").ingest([Message.user("hello")])  # modules are loaded once, when they are first used
    lcm = Lossless.open(database)
    chat = lcm.conversation("bench")

    def message(m: Made) -> Message:
        if m.role == "tool":
            return Message.tool(m.text, call_id=m.call_id, event_id=m.event_id)
        return (
            Message.user(m.text, event_id=m.event_id)
            if m.role == "user"
            else Message.assistant(m.text, event_id=m.event_id)
        )

    def write(batch: list[Made]) -> None:
        chat.ingest([message(m) for m in batch])

    def size() -> int:
        if not database.startswith("postgresql"):
            return os.stat(database).st_size
        with Lossless.open(database) as again:
            return again.status().bytes

    return _measured(messages, write, lcm.close, size)


def _measured(
    messages: list[Made], write: Callable[[list[Made]], None], close: Callable[[], None], size: Callable[[], int]
) -> Reading:
    """Most of the messages in batches, the last few one by one."""
    singles = min(SINGLES, len(messages) // 4)
    bulk = messages[: len(messages) - singles]
    cpu, wall = time.process_time(), time.perf_counter()
    for start in range(0, len(bulk), BATCH):
        write(bulk[start : start + BATCH])
    cpu, wall = time.process_time() - cpu, time.perf_counter() - wall
    single_cpu, single_wall = time.process_time(), time.perf_counter()
    for each in messages[len(bulk) :]:
        write([each])
    single_cpu, single_wall = time.process_time() - single_cpu, time.perf_counter() - single_wall
    close()
    text = sum(len(m.text.encode()) for m in messages)
    micro = 1e6
    return Reading(
        cpu / len(bulk) * micro,
        wall / len(bulk) * micro,
        size(),
        text,
        single_cpu / singles * micro,
        single_wall / singles * micro,
    )


def one(kind: str, count: int, database: str | None) -> Reading:
    """One measurement in a process of its own."""
    command = [
        sys.executable,
        __file__,
        "--one",
        kind,
        "--sizes",
        str(count),
        *(["--postgres", database] if database else []),
    ]
    printed = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    return Reading(*json.loads(printed))


def pairs(count: int, number: int) -> list[tuple[Reading, Reading]]:
    return [(one("floor", count, None), one("ours", count, None)) for _ in range(number)]


def ratio(found: list[tuple[Reading, Reading]], field: str) -> float:
    return float(statistics.median(getattr(mine, field) / getattr(base, field) for base, mine in found))


def report(count: int, found: list[tuple[Reading, Reading]]) -> str:
    base, mine = (statistics.median(pair[side].cpu for pair in found) for side in (0, 1))
    single_base, single_mine = (statistics.median(pair[side].single_cpu for pair in found) for side in (0, 1))
    density = found[0][1].bytes / found[0][1].text
    return (
        f"{count:>8,}  {base:7.1f} {mine:7.1f} {ratio(found, 'cpu'):6.2f}x   "
        f"{single_base:7.0f} {single_mine:7.0f} {ratio(found, 'single_cpu'):6.2f}x   {density:5.2f}"
    )


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--sizes", type=int, nargs="+", default=[1_000, 10_000, 100_000])
    options.add_argument("--pairs", type=int, default=5)
    options.add_argument("--postgres", metavar="URL", help="an empty database to measure as well")
    options.add_argument("--fail-above", type=float, metavar="RATIO", help="exit with 1 when a batch costs more")
    options.add_argument("--one", choices=["floor", "ours"], help=argparse.SUPPRESS)
    given = options.parse_args()
    if given.one:
        messages = list(made(given.sizes[0]))
        with tempfile.TemporaryDirectory() as directory:
            path = Path(directory) / "bench.db"
            one_reading = floor(path, messages) if given.one == "floor" else ours(given.postgres or str(path), messages)
        print(json.dumps(one_reading))
        return
    print("messages   batch CPU us/message        single CPU us/message       bytes per")
    print("             floor    ours   ratio       floor    ours   ratio      byte of text")
    worst = 0.0
    for count in given.sizes:
        found = pairs(count, given.pairs)
        worst = max(worst, ratio(found, "cpu"))
        print(report(count, found), flush=True)
    if given.postgres:
        server = one("ours", given.sizes[0], given.postgres)
        print(
            f"PostgreSQL, {given.sizes[0]:,}: client CPU {server.cpu:.0f} us, wall {server.wall:.0f} us a message in batches;"
            f" single: wall {server.single_wall / 1000:.1f} ms; {server.bytes / server.text:.2f} bytes per byte of text"
        )
    if given.fail_above and worst > given.fail_above:
        sys.exit(f"a batch costs {worst:.2f} times the floor, more than {given.fail_above}")


if __name__ == "__main__":
    main()
