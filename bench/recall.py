"""How much of the evidence a search finds when it is given a question as typed.

The data is a file in LoCoMo's format: conversations in sessions with a date and two named speakers, and questions
with the ids of the turns that answer them. Each conversation is ingested with its speakers and times; each question
is put to the search as it stands, in its own conversation and in all of them together. What is printed is the share
of the evidence among the first hits, the mean over the questions: for each conversation, for each kind of question, with
the two messages before and after each hit, and what the tools reach with a question and no other argument.

    LCM_BENCH_LOCOMO=locomo.json python bench/recall.py     # its licence forbids to ship it: get it from its authors
    python bench/recall.py --mode semantic                  # words and vectors, all vectors made before
    python bench/recall.py one.json other.json              # several sets, one after the other
    python bench/recall.py --postgres postgresql://...      # an empty database
    python bench/recall.py --sizes 1000 10000 100000        # processor time of a question instead, on SQLite
"""

from __future__ import annotations

import argparse
import json
import os
import random
import re
import statistics
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from itertools import cycle
from pathlib import Path
from typing import Any, NamedTuple

from msgspec import structs

from lossless import Conversation, Lossless, Message, Settings
from lossless.engine.recall.search_request import Mode, Sort
from lossless.tokens import estimate
from lossless.tools import tools

DATA = os.environ.get("LCM_BENCH_LOCOMO")
AT = (5, 10, 20, 100)
AROUND = 2
QUESTIONS = 60
SORTS: tuple[Sort, ...] = ("relevance", "recency")
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
    around: float = 0.0
    """The share among the first 20 hits and the messages around them."""
    sample: str = ""


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
        places = [(hit.conversation, hit.seq or 0) for hit in hits]
        wanted = {(conversation, seq) for seq in evidence}
        near = {(number, seq + step) for number, seq in places[:20] for step in range(-AROUND, AROUND + 1)}
        shares = tuple(len(wanted.intersection(places[:at])) / len(wanted) for at in AT)
        yield Found(category, shares, len(wanted & near) / len(wanted), sample.name)


class Reached(NamedTuple):
    """The share of the evidence that a tool shows, and the tokens of its answer."""

    share: float
    tokens: float


def reach(chosen: list[Sample], database: str) -> dict[str, Reached]:
    """Ingest the conversations into an empty database and give every question to the tools, without other arguments."""
    found: dict[str, list[Reached]] = defaultdict(list)
    with Lossless.open(database) as lcm:
        for sample in chosen:
            chat = lcm.conversation(sample.name)
            chat.ingest(sample.messages)
            kit = tools(chat)
            for question, evidence, _ in sample.asked:
                for name, argument in (("lcm_grep", "pattern"), ("lcm_expand_query", "prompt")):
                    outcome = kit.call(name, {argument: question})
                    shown = {int(number) % 1_000_000_000 for number in re.findall(r"msg#(\d+)", outcome.text)}
                    share = len(shown.intersection(evidence)) / len(evidence)
                    found[name].append(Reached(share, estimate(outcome.text)))
    return {name: Reached(*map(statistics.fmean, zip(*each, strict=True))) for name, each in found.items()}


def reach_from_context(chosen: list[Sample], database: str, window: int = 8_000) -> tuple[float, float, float]:
    """Return the share of the evidence in an assembled context, and with one and with two calls of the tools.

    Summaries are written without a model, and count only for messages that they quote in full.
    """
    found: list[tuple[float, float, float]] = []
    with Lossless.open(database, on_event=lambda event: None) as lcm:
        for sample in chosen:
            chat = lcm.conversation(sample.name)
            chat.ingest(sample.messages)
            chat.compact(window)
            context = "\n".join(each.text for each in chat.assemble(window).messages)
            texts, kit = dict(enumerate((each.text for each in sample.messages), 1)), tools(chat)
            for question, evidence, _ in sample.asked:
                shown, shares = {seq for seq in evidence if texts[seq] in context}, []
                for name, argument in (("", ""), ("lcm_grep", "pattern"), ("lcm_expand_query", "prompt")):
                    outcome = kit.call(name, {argument: question}).text if name else ""
                    shown |= {int(number) % 1_000_000_000 for number in re.findall(r"msg#(\d+)", outcome)}
                    shares.append(len(shown.intersection(evidence)) / len(evidence))
                found.append((shares[0], shares[1], shares[2]))
    alone, one, two = (statistics.fmean(each) for each in zip(*found, strict=True))
    return alone, one, two


def costs(chosen: list[Sample], size: int, mode: Mode) -> None:
    """Print the processor time of questions to one conversation with so many messages, made of the samples again and again."""
    asked = [each.question for sample in chosen for each in sample.asked]
    asked = random.Random(7).sample(asked, min(QUESTIONS, len(asked)))
    settings = Settings(semantic=mode == "semantic")
    with (
        tempfile.TemporaryDirectory() as directory,
        Lossless.open(Path(directory) / "cost.db", settings=settings) as lcm,
    ):
        chat, left = lcm.conversation("one"), size
        for round_, sample in enumerate(cycle(chosen)):
            later = timedelta(days=5 * round_)
            chat.ingest([structs.replace(each, at=each.at + later) for each in sample.messages[:left] if each.at])
            left -= len(sample.messages)
            if left <= 0:
                break
        lcm.drain()
        for sort in SORTS:
            chat.grep(asked[0], mode, "messages", sort=sort, limit=20)
            spent = statistics.quantiles([_spent(chat, each, mode, sort) for each in asked], n=20)
            print(
                f"{size:>9,} messages  {mode:<10}{sort:<10} p50 {spent[9]:6.1f} ms  p95 {spent[18]:6.1f} ms", flush=True
            )


def _spent(chat: Conversation, question: str, mode: Mode, sort: Sort) -> float:
    start = time.process_time()
    chat.grep(question, mode, "messages", sort=sort, limit=20)
    return (time.process_time() - start) * 1000


def mean(found: list[Found], at: int = 20) -> float:
    """The recall at so many hits."""
    return statistics.fmean(each.shares[AT.index(at)] for each in found)


def report(title: str, found: list[Found]) -> None:
    kinds = defaultdict(list)
    for each in found:
        kinds[each.category].append(each)
    print(f"{title:<28}" + "  ".join(f"R@{at} {mean(found, at):.3f}" for at in AT), end="   ")
    print(f"R@20 with neighbours {statistics.fmean(each.around for each in found):.3f}", end="   ")
    print(
        "R@20 by category: "
        + " ".join(f"{kind}: {mean(kinds[kind]):.3f} ({len(kinds[kind])})" for kind in sorted(kinds))
    )


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("data", type=Path, nargs="*", default=[Path(DATA)] if DATA else [])
    options.add_argument("--mode", choices=["full_text", "semantic"], default="full_text")
    options.add_argument(
        "--postgres", metavar="URL", help="an empty database to measure instead of SQLite (one file only)"
    )
    options.add_argument(
        "--sizes", type=int, nargs="+", metavar="N", help="measure processor time at these sizes instead"
    )
    options.add_argument("--fail-below", type=float, metavar="RECALL", help="exit with 1 when recall at 20 is less")
    given = options.parse_args()
    if not given.data:
        options.error("name a file in LoCoMo's format, or set LCM_BENCH_LOCOMO to its path")
    if given.postgres and len(given.data) > 1:
        options.error("with --postgres give one file: the database must be empty")
    for path in given.data:
        chosen = list(samples(path))
        for size in given.sizes or ():
            costs(chosen, size, given.mode)
        if not given.sizes:
            _measure_set(path, chosen, given.postgres, given.mode, given.fail_below)


def _measure_set(path: Path, chosen: list[Sample], postgres: str | None, mode: Mode, least: float | None) -> None:
    print(path.name)
    for sample in chosen:
        print(f"{sample.name}: {len(sample.messages)} messages, {len(sample.asked)} questions")
        for question in sample.without:
            print(f"  not counted, since it names no turn as its evidence: {question}")
    with tempfile.TemporaryDirectory() as directory:
        found = measure(chosen, postgres or str(Path(directory) / "recall.db"), mode)
        reached = reach(chosen, str(Path(directory) / "tools.db"))
        alone, one, two = reach_from_context(chosen, str(Path(directory) / "context.db"))
    report("in its own conversation", found.own)
    for sample in chosen:
        report(f"  of them {sample.name}", [each for each in found.own if each.sample == sample.name])
    report("in all of them together", found.together)
    for name, (share, tokens) in reached.items():
        print(f"{name} with the question alone: {share:.3f} in {tokens:,.0f} tokens")
    print(f"a context of 8,000 tokens: {alone:.3f}, with lcm_grep {one:.3f}, and with lcm_expand_query {two:.3f}")
    if least and mean(found.own) < least:
        sys.exit(f"recall at 20 is {mean(found.own):.3f}, less than {least}")


if __name__ == "__main__":
    main()
