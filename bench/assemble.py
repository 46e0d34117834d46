"""What assembly costs, from disk: read, choose, pair, render, note; against one query and the decoding of the same rows.

    python bench/assemble.py [--messages 1000 10000 100000] [--runs 200]

Both are timed in turn in one process, wall time, on a database that is compacted as it grows (a window of 128,000 tokens, a
summariser that answers at once), so the rows of the context are in the page cache for both.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from collections.abc import Callable
from json import loads
from pathlib import Path
from typing import Any

import apsw
from msgspec import structs

from lossless import Conversation, Lossless, Message, Settings, SummaryRequest, ToolCall, ToolResult, demo

WINDOW = 128_000
BATCH = 50


def first_line(request: SummaryRequest) -> str:
    """A summary at once: some lines of its source."""
    lines = [line for line in request.source.splitlines() if line and not line.startswith("[")]
    return "\n".join(lines[:20])[: 4 * request.target_tokens] + "\nExpand for details about: the rest"


def history(count: int) -> list[Message]:
    """The demo again and again, each time with call ids of its own, as a provider gives them."""
    said = demo.conversation()

    def again(number: int) -> Message:
        week, at = divmod(number, len(said))
        parts = tuple(
            structs.replace(part, call_id=f"{part.call_id}.{week}") if isinstance(part, ToolCall | ToolResult) else part
            for part in said[at].parts
        )
        return structs.replace(said[at], parts=parts, event_id=f"e{number}", at=None)

    return [again(number) for number in range(count)]


def filled(path: Path, count: int) -> None:
    settings = Settings(summary_max_calls_per_window=10**6, max_sweep_iterations=10**6)
    with Lossless.open(path, settings=settings, summarizer=first_line) as lcm:
        chat, said = lcm.conversation("k"), history(count)
        for start in range(0, count, BATCH):
            chat.ingest(said[start : start + BATCH])
            chat.compact(WINDOW)


def floor(connection: apsw.Connection) -> int:
    """The rows that the context consists of, asked for in one query each kind, and their JSON read."""
    rows: list[tuple[Any, ...]] = connection.execute(
        "SELECT m.role, m.text, m.parts, m.meta, m.at, m.tokens, m.created_at FROM item i"
        " JOIN message m ON m.id = 1000000000 + i.ordinal WHERE i.conversation_id = 1 AND i.summary_id IS NULL ORDER BY i.ordinal"
    ).fetchall()
    rows += connection.execute(
        "SELECT s.public_id, s.text, NULL, s.file_ids, s.depth, s.tokens, s.created_at FROM item i"
        " JOIN summary s ON s.id = i.summary_id WHERE i.conversation_id = 1 ORDER BY i.ordinal"
    ).fetchall()
    read = [
        {"role": row[0], "content": row[1] if row[2] is None else loads(row[2]), "meta": row[3] and loads(row[3])}
        for row in rows
    ]
    return len(read)


def timed(call: Callable[[], object]) -> float:
    start = time.perf_counter()
    call()
    return time.perf_counter() - start


def measure(path: Path, runs: int) -> tuple[list[float], list[float], int]:
    settings = Settings()
    with Lossless.open(path, settings=settings) as lcm:
        chat: Conversation = lcm.conversation("k")
        raw = apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READONLY)
        ours, theirs = [], []
        for _ in range(runs):
            theirs.append(timed(lambda: floor(raw)))
            ours.append(timed(lambda: chat.assemble(WINDOW)))
        items = len(chat.assemble(WINDOW).items)
        raw.close()
    return ours[5:], theirs[5:], items


def p95(values: list[float]) -> float:
    return statistics.quantiles(values, n=20)[18]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--messages", type=int, nargs="+", default=[1_000, 10_000, 100_000])
    parser.add_argument("--runs", type=int, default=200)
    options = parser.parse_args()
    print(
        f"{'messages':>9} {'items':>6} {'floor p50':>10} {'p95':>8} {'assemble p50':>13} {'p95':>8} {'p50 x':>6} {'p95 x':>6}"
    )
    for count in options.messages:
        with tempfile.TemporaryDirectory() as directory:
            path = Path(directory) / "lcm.db"
            filled(path, count)
            ours, theirs, items = measure(path, options.runs)
        a, b = statistics.median(theirs) * 1e3, p95(theirs) * 1e3
        c, d = statistics.median(ours) * 1e3, p95(ours) * 1e3
        print(f"{count:>9,} {items:>6} {a:>8.2f}ms {b:>6.2f}ms {c:>11.2f}ms {d:>6.2f}ms {c / a:>6.2f} {d / b:>6.2f}")


if __name__ == "__main__":
    main()
