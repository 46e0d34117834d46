"""What it costs to import a transcript, against bare ingest of the same messages taken in the same run.

The transcript is a session of pi with made messages: a question, a reply that calls a tool, its result, a reply. Bare
ingest is given the messages ready made, 500 a call; the import has to find, read and understand the file first, and keeps its
place in it. Each measurement is a process of its own; both take turns, and what is printed is the median of their ratios.

    python bench/imports.py                     # 100,000 messages, three pairs: two minutes
    python bench/imports.py --messages 10000 --pairs 3
    python bench/imports.py --files 1000        # as many small files instead of one
"""

from __future__ import annotations

import argparse
import json
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from ingest import BATCH, Made, made
from lossless import Lossless, Message
from lossless.transcripts import Tally, reader, recognise

SMALL = 1_000
EPOCH = 1_794_700_000_000
"""Milliseconds: when the first message is said."""


class Reading(NamedTuple):
    cpu: float
    wall: float
    megabytes: float
    """At the peak."""
    again: float
    """Seconds of a second import, of which nothing is new."""


def write(directory: Path, messages: int, files: int) -> None:
    """The messages, in order, in so many files."""
    said = made(messages)
    for number in range(files):
        share = messages // files + (number < messages % files)
        with (directory / f"{number:06}.jsonl").open("w") as file:
            for line in _lines(f"session-{number}", said, share):
                file.write(json.dumps(line, separators=(",", ":")) + "\n")


def _lines(session: str, said: Iterator[Made], count: int) -> Iterator[dict[str, Any]]:
    yield {"type": "session", "version": 3, "id": session, "timestamp": "2026-11-15T00:00:00.000Z", "cwd": "/home/dev"}
    before, call = None, ""
    for number in range(count):
        each = next(said)
        message = _message(each, number, call)
        call = each.call_id
        yield {
            "type": "message",
            "id": each.event_id,
            "parentId": before,
            "timestamp": "2026-11-15T00:00:00.000Z",
            "message": {**message, "timestamp": EPOCH + 1000 * number},
        }
        before = each.event_id


def _message(each: Made, number: int, call: str) -> dict[str, Any]:
    text = [{"type": "text", "text": each.text}]
    if each.role == "user":
        return {"role": "user", "content": text}
    if each.role == "tool":
        return {"role": "toolResult", "toolCallId": call, "toolName": "read", "content": text, "isError": False}
    asks = number % 4 == 1
    calls = [{"type": "toolCall", "id": each.call_id, "name": "read", "arguments": {"path": f"src/{number}.py"}}]
    return {
        "role": "assistant",
        "content": [*text, *calls] if asks else text,
        "api": "anthropic-messages",
        "provider": "anthropic",
        "model": "claude-opus-4-5",
        "usage": {"input": 1200 + number % 700, "output": 90, "cacheRead": 0, "cacheWrite": 0, "totalTokens": 1290},
        "stopReason": "toolUse" if asks else "stop",
    }


def bare(directory: Path, database: Path) -> Reading:
    """Ingest of messages that are at hand."""
    given: list[tuple[str, list[Message]]] = []
    for path in sorted(directory.iterdir()):
        header = recognise(path)
        entries = reader(header.format).entries(path, header, Tally())
        given.append((header.key, [entry.message for entry in entries if entry.message]))
    with Lossless.open(database) as lcm:
        cpu, wall = time.process_time(), time.perf_counter()
        for key, messages in given:
            chat = lcm.conversation(key)
            for at in range(0, len(messages), BATCH):
                chat.ingest(messages[at : at + BATCH])
        return Reading(time.process_time() - cpu, time.perf_counter() - wall, _peak(), 0)


def imported(directory: Path, database: Path) -> Reading:
    with Lossless.open(database) as lcm:
        cpu, wall = time.process_time(), time.perf_counter()
        done = lcm.import_(directory, apply=True)
        cpu, wall = time.process_time() - cpu, time.perf_counter() - wall
        assert {each.status for each in done.sources} == {"imported"}
        peak, start = _peak(), time.perf_counter()
        again = lcm.import_(directory, apply=True)
        assert {each.status for each in again.sources} == {"up-to-date"}
        return Reading(cpu, wall, peak, time.perf_counter() - start)


def _peak() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def one(kind: str, directory: Path) -> Reading:
    """One measurement in a process of its own."""
    command = [sys.executable, __file__, "--one", kind, "--directory", str(directory)]
    return Reading(*json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout))


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--messages", type=int, default=100_000)
    options.add_argument("--files", type=int, default=1)
    options.add_argument("--pairs", type=int, default=3)
    options.add_argument("--fail-above", type=float, metavar="RATIO", help="exit with 1 when an import takes longer")
    options.add_argument("--one", choices=["bare", "import"], help=argparse.SUPPRESS)
    options.add_argument("--directory", type=Path, help=argparse.SUPPRESS)
    given = options.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        if given.one:
            measure = bare if given.one == "bare" else imported
            print(json.dumps(measure(given.directory, Path(scratch) / "bench.db")))
            return
        worst = report(Path(scratch), given.messages, given.files, given.pairs)
    if given.fail_above and worst > given.fail_above:
        sys.exit(f"an import takes {worst:.2f} times as long as ingest, more than {given.fail_above}")


def report(scratch: Path, messages: int, files: int, pairs: int) -> float:
    large, small = scratch / "large", scratch / "small"
    for directory, count, among in ((large, messages, files), (small, SMALL, 1)):
        directory.mkdir()
        write(directory, count, among)
    least = one("import", small).megabytes
    found = [(one("bare", large), one("import", large)) for _ in range(pairs)]
    ratio = statistics.median(mine.cpu / base.cpu for base, mine in found)
    base, mine = (
        Reading(*map(statistics.median, zip(*(pair[side] for pair in found), strict=True))) for side in (0, 1)
    )
    more = mine.megabytes - least
    print(
        "messages  files   CPU: ingest    import   ratio   wall: ingest   import   more memory than 1,000   a second run"
    )
    print(
        f"{messages:>8,} {files:>6,} {base.cpu:>12.2f}s {mine.cpu:>8.2f}s {ratio:>6.2f}x {base.wall:>12.2f}s"
        f" {mine.wall:>7.2f}s {more:>21.1f} MB {mine.again:>13.3f}s"
    )
    return ratio


if __name__ == "__main__":
    main()
