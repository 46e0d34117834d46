"""What a pattern costs in a long history, against a plain scan of it taken in the same run.

The plain scan reads every message from the newest on, a thousand at a time, and tries the same pattern on each. Ours is
`Conversation.grep`: the database first skips what cannot match. They take turns; what is printed is the median of their
times and of their ratios. Both must find the same messages.

    python bench/grep.py                                 # 10k and 100k messages, eleven pairs each
    python bench/grep.py --sizes 10000 --pairs 3
    python bench/grep.py --postgres postgresql://...     # an empty database, instead of SQLite
"""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from ingest import made
from lossless import Conversation, Lossless, Message
from lossless.search import regex
from lossless.store.rows.types import SPAN
from lossless.store.store import Store

EVERY = 1_000
PAGE = 1_000
PATTERNS = {
    r"ERR_\d{4}": "a literal in one of a thousand",
    r"\bERR_4711\b": "with edges of words",
    r"(?i)err_\d+ at Dawn": "ignoring case",
    r"ERR_\d+|FATAL: \w+": "one literal or another",
    r"py:\d*978:": "two literals, one of them in a quarter",
    r"zq[xy]{3}jk": "nowhere",
    r"[0-9]{5}[x-z][x-z]": "without a literal to skip by",
}


def fill(lcm: Lossless, count: int) -> Conversation:
    chat = lcm.conversation("bench")
    messages = [
        Message.user(f"{m.text} ERR_4711 at dawn" if n % EVERY == 0 else m.text) for n, m in enumerate(made(count))
    ]
    for start in range(0, count, PAGE):
        chat.ingest(messages[start : start + PAGE])
    return chat


def plain(store: Store, conversation: int, pattern: str, limit: int) -> list[int]:
    """The seqs of the matches, by looking at every text."""
    compiled, found = regex.compile(pattern), list[int]()
    base, below = conversation * SPAN, (conversation + 1) * SPAN
    while rows := store.all(
        "SELECT id, text FROM message WHERE id > :base AND id < :below ORDER BY id DESC LIMIT :page",
        base=base,
        below=below,
        page=PAGE,
    ):
        found += [row[0] - base for row in rows if compiled.search(row[1])]
        below = rows[-1][0]
        if len(found) >= limit:
            break
    return found[:limit]


def timed(work: Callable[[], list[int]]) -> tuple[float, list[int]]:
    started = time.perf_counter()
    found = work()
    return (time.perf_counter() - started) * 1000, found


def compare(chat: Conversation, store: Store, pattern: str, pairs: int) -> tuple[float, float, float, int]:
    """Milliseconds of the plain scan and of ours, the median of their ratios, and how many were found."""
    conversation, limit = chat.status().id, 200
    times: list[tuple[float, float]] = []
    for _ in range(pairs):
        slow, expected = timed(lambda: plain(store, conversation, pattern, limit))
        fast, found = timed(lambda: [hit.seq or 0 for hit in chat.grep(pattern, scope="messages", limit=limit)])
        if sorted(found) != sorted(expected):
            sys.exit(f"{pattern}: {len(found)} hits, the plain scan has {len(expected)}")
        times.append((slow, fast))
    before, after = (statistics.median(each[side] for each in times) for side in (0, 1))
    return before, after, statistics.median(slow / fast for slow, fast in times), len(found)


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--sizes", type=int, nargs="+", default=[10_000, 100_000])
    options.add_argument("--pairs", type=int, default=11)
    options.add_argument("--postgres", metavar="URL", help="an empty database, of which the first size is measured")
    given = options.parse_args()
    for count in given.sizes[:1] if given.postgres else given.sizes:
        with (
            tempfile.TemporaryDirectory() as directory,
            Lossless.open(given.postgres or Path(directory) / "bench.db") as lcm,
        ):
            chat, store = fill(lcm, count), lcm._store
            if not isinstance(store, Store):
                raise TypeError("the plain scan speaks SQL")
            print(f"{count:>7,} messages           plain ms   ours ms   faster    hits")
            for pattern, about in PATTERNS.items():
                before, after, ratio, hits = compare(chat, store, pattern, given.pairs)
                print(f"  {pattern:<24} {before:9.1f} {after:9.1f} {ratio:7.1f}x {hits:7}   {about}", flush=True)


if __name__ == "__main__":
    main()
