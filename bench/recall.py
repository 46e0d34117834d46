"""How much of the evidence a search finds when it is given a question as typed.

The data is a file in LoCoMo's format: conversations in sessions with a date and two named speakers, and questions
with the ids of the turns that answer them. Each conversation is ingested with its speakers and times; each question
is put to the search as it stands, in its own conversation and in all of them together. What is printed is the share
of the evidence among the first hits, the mean over the questions.

    LCM_BENCH_LOCOMO=locomo.json python bench/recall.py     # its licence forbids to ship it: get it from its authors
    python bench/recall.py --mode semantic                  # words and vectors, all vectors made before
    python bench/recall.py other.json --postgres postgresql://...      # an empty database
"""

from __future__ import annotations

import argparse
import json
import os
import re
import statistics
import sys
import tempfile
from collections import defaultdict
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, NamedTuple

from lossless import Lossless, Message, Settings
from lossless.engine.recall.search_request import Mode

DATA = os.environ.get("LCM_BENCH_LOCOMO")
AT = (5, 10, 20, 100)
_TURN = re.compile(r"D\d+:\d+")


class Asked(NamedTuple):
    """A question, the seqs of its evidence, and what kind of question it is."""

    question: str
    evidence: tuple[int, ...]
    category: int


class Sample(NamedTuple):
    name: str
    messages: list[Message]
    asked: list[Asked]
    without: list[str]
    """Questions that cannot be counted: they name no turn of the conversation."""


class Found(NamedTuple):
    """For one question, the share of its evidence among the first hits, for each of `AT`."""

    category: int
    shares: tuple[float, ...]


def samples(path: Path) -> Iterator[Sample]:
    content = json.loads(path.read_text(encoding="utf-8"))
    for number, one in enumerate(content if isinstance(content, list) else [content]):
        turns = list(_turns(one["conversation"]))
        seqs = {turn: seq for seq, (turn, _) in enumerate(turns, 1)}
        asked, without = [], []
        for qa in one["qa"]:
            named = dict.fromkeys(turn for text in qa.get("evidence", ()) for turn in _TURN.findall(text))
            evidence = tuple(seqs[turn] for turn in named if turn in seqs)
            if evidence:
                asked.append(Asked(qa["question"], evidence, qa.get("category", 0)))
            else:
                without.append(qa["question"])
        yield Sample(one.get("sample_id", str(number)), [message for _, message in turns], asked, without)


def _turns(conversation: dict[str, Any]) -> Iterator[tuple[str, Message]]:
    numbers = sorted(int(key[8:]) for key in conversation if re.fullmatch(r"session_\d+", key))
    for number in numbers:
        start = datetime.strptime(conversation[f"session_{number}_date_time"], "%I:%M %p on %d %B, %Y").replace(
            tzinfo=UTC
        )
        for place, turn in enumerate(conversation[f"session_{number}"]):
            say = Message.user if turn["speaker"] == conversation["speaker_a"] else Message.assistant
            yield turn["dia_id"], say(turn["text"], at=start + timedelta(seconds=place), name=turn["speaker"])


class Measured(NamedTuple):
    own: list[Found]
    """Each question asked of its own conversation."""
    together: list[Found]
    """Each asked of all conversations."""


def measure(chosen: list[Sample], database: str, mode: Mode = "full_text") -> Measured:
    """Ingest the conversations into an empty database and ask every question of it, twice."""
    with Lossless.open(database, settings=Settings(semantic=mode == "semantic")) as lcm:
        for sample in chosen:
            lcm.conversation(sample.name).ingest(sample.messages)
        lcm.drain()
        own, together = (
            [found for sample in chosen for found in _answers(lcm, sample, everywhere, mode)]
            for everywhere in (False, True)
        )
        return Measured(own, together)


def recall(path: Path, database: str) -> float:
    """The recall at 20 of a file's questions, each asked of its own conversation in an empty database."""
    return mean(measure(list(samples(path)), database).own)


def _answers(lcm: Lossless, sample: Sample, everywhere: bool, mode: Mode) -> Iterator[Found]:
    chat = lcm.conversation(sample.name)
    conversation = chat.status().id
    for question, evidence, category in sample.asked:
        hits = (lcm if everywhere else chat).grep(question, mode, "messages", sort="relevance", limit=max(AT))
        places = [(hit.conversation, hit.seq) for hit in hits]
        wanted = {(conversation, seq) for seq in evidence}
        yield Found(category, tuple(len(wanted.intersection(places[:at])) / len(wanted) for at in AT))


def mean(found: list[Found], at: int = 20) -> float:
    """The recall at so many hits."""
    return statistics.fmean(each.shares[AT.index(at)] for each in found)


def report(title: str, found: list[Found]) -> None:
    kinds = defaultdict(list)
    for each in found:
        kinds[each.category].append(each)
    print(f"{title:<28}" + "  ".join(f"R@{at} {mean(found, at):.3f}" for at in AT), end="   ")
    print(
        "R@20 by category: "
        + " ".join(f"{kind}: {mean(kinds[kind]):.3f} ({len(kinds[kind])})" for kind in sorted(kinds))
    )


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("data", type=Path, nargs="?", default=DATA)
    options.add_argument("--mode", choices=["full_text", "semantic"], default="full_text")
    options.add_argument("--postgres", metavar="URL", help="an empty database to measure instead of SQLite")
    options.add_argument("--fail-below", type=float, metavar="RECALL", help="exit with 1 when recall at 20 is less")
    given = options.parse_args()
    if given.data is None:
        options.error("name a file in LoCoMo's format, or set LCM_BENCH_LOCOMO to its path")
    chosen = list(samples(given.data))
    for sample in chosen:
        print(f"{sample.name}: {len(sample.messages)} messages, {len(sample.asked)} questions")
        for question in sample.without:
            print(f"  not counted, since it names no turn as its evidence: {question}")
    with tempfile.TemporaryDirectory() as directory:
        found = measure(chosen, given.postgres or str(Path(directory) / "recall.db"), given.mode)
    report("in its own conversation", found.own)
    report("in all of them together", found.together)
    if given.fail_below and mean(found.own) < given.fail_below:
        sys.exit(f"recall at 20 is {mean(found.own):.3f}, less than {given.fail_below}")


if __name__ == "__main__":
    main()
