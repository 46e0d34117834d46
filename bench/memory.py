"""What an agent can still look at after five days of work: truncation, one rolling summary, and lossless.

The conversation is the demo's: 527 messages of a coding agent. 48 questions ask for what was said in it, in the words of
a person who asks later (`questions.jsonl`). A question counts as answered if the words that answer it stand in what the
model would be given. No model is asked, neither for answers nor for summaries: all summaries are written by the embedded
summariser, so that only the ways of remembering differ.

    truncation        the newest messages that fit into the window
    rolling summary   whenever the window is full, everything but the newest half of it becomes one summary of at most a
                      quarter of the window, the summary before included
    lossless          `assemble(window)`: summaries of several depths and the newest messages
    + one search      the same, and what the tool `lcm_grep` answers to the question as typed: ten passages
    + reading         the same, and the best three of these messages in full (`lcm_describe`)

    python bench/memory.py                          # windows of 8,000, 16,000 and 32,000 tokens
    python bench/memory.py --windows 4000 --verbose # and the questions that were not answered
"""

from __future__ import annotations

import argparse
import json
import re
import statistics
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from lossless import Lossless, Message, Settings, SummaryRequest
from lossless.demo import conversation
from lossless.summarizers.extractive import summarize
from lossless.tokens import estimate, message_tokens
from lossless.tools import Tools, tools

HITS = 10
ORIGINALS = 3
QUESTIONS = Path(__file__).with_name("questions.jsonl")


class Question(NamedTuple):
    """A question, and the words of which any is an answer."""

    question: str
    answers: tuple[str, ...]

    def is_answered_by(self, text: str) -> bool:
        folded = fold(text)
        return any(fold(answer) in folded for answer in self.answers)


class Result(NamedTuple):
    """One way of remembering at one window."""

    name: str
    tokens: int
    missed: list[str]


def fold(text: str) -> str:
    """Leave out differences of case, spaces and quoting."""
    return " ".join(text.replace("`", "").replace("\\", "").casefold().split())


def questions() -> list[Question]:
    lines = map(json.loads, QUESTIONS.read_text("utf-8").splitlines())
    return [Question(line["question"], tuple(line["answers"])) for line in lines]


def newest(messages: Sequence[Message], budget: int) -> list[Message]:
    """Return the newest messages that fit."""
    chosen: list[Message] = []
    for message in reversed(messages):
        budget -= message_tokens(message)
        if budget < 0:
            break
        chosen.append(message)
    return chosen[::-1]


def written(messages: Sequence[Message]) -> str:
    """Write messages out as a model reads them."""
    return "\n\n".join(f"[{each.at:%Y-%m-%d %H:%M} | {each.role}]\n{each.text}" for each in messages if each.at)


def rolling(messages: Sequence[Message], window: int) -> tuple[str, list[Message]]:
    """Compact into one summary whenever the window is full; return it with the messages that are left."""
    summary, kept, used = "", list[Message](), 0
    for message in messages:
        kept.append(message)
        used += message_tokens(message)
        if used + estimate(summary) > window:
            tail = newest(kept, window // 2)
            source = written(kept[: len(kept) - len(tail)])
            joined = f"{summary}\n\n{source}" if summary else source
            summary = summarize(SummaryRequest("", "", joined, 0, window // 4, window // 4))
            kept, used = tail, sum(map(message_tokens, tail))
    return summary, kept


def measure(messages: Sequence[Message], asked: Sequence[Question], window: int) -> Iterator[Result]:
    """Put every question to each way of remembering."""
    cut = newest(messages, window)
    yield _result("truncation", written(cut), sum(map(message_tokens, cut)), asked)
    summary, tail = rolling(messages, window)
    tokens = estimate(summary) + sum(map(message_tokens, tail))
    yield _result("rolling summary", f"{summary}\n{written(tail)}", tokens, asked)
    with tempfile.TemporaryDirectory() as directory:
        settings = Settings(timezone="UTC", large_files_dir=directory)
        with Lossless.open(Path(directory) / "lcm.db", settings=settings, on_event=lambda event: None) as lcm:
            chat = lcm.conversation("demo")
            for message in messages:
                chat.ingest([message])
                if message.role == "user":
                    chat.compact(window)
            chat.compact(window)
            context = chat.assemble(window)
            text = "\n".join(each.text for each in context.messages)
            yield _result("lossless", text, context.tokens, asked)
            memory = tools(chat)
            for name, originals in ((f"+ one search, {HITS} hits", 0), (f"+ reading {ORIGINALS} of them", ORIGINALS)):
                given = [text + look_up(memory, question.question, originals) for question in asked]
                missed = [
                    each.question for each, there in zip(asked, given, strict=True) if not each.is_answered_by(there)
                ]
                read = round(statistics.fmean(estimate(there[len(text) :]) for there in given))
                yield Result(name, context.tokens + read, missed)


def look_up(memory: Tools, question: str, originals: int) -> str:
    """Return what the tools answer to one search, and to a look at the best hits."""
    asked = {"pattern": question, "mode": "full_text", "scope": "messages", "sort": "relevance", "limit": HITS}
    found = memory.call("lcm_grep", asked)
    ids = re.findall(r"msg#\d+", found.text)[:originals]
    return "\n".join([found.text, *(memory.call("lcm_describe", {"id": each}).text for each in ids)])


def _result(name: str, text: str, tokens: int, asked: Sequence[Question]) -> Result:
    return Result(name, tokens, [each.question for each in asked if not each.is_answered_by(text)])


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--windows", type=int, nargs="+", default=[8_000, 16_000, 32_000], metavar="TOKENS")
    options.add_argument("--verbose", action="store_true", help="list the questions that were not answered")
    given = options.parse_args()
    messages, asked = conversation(), questions()
    everything = written(messages)
    assert all(each.is_answered_by(everything) for each in asked), "a question has no answer"
    print(f"{len(messages)} messages, {sum(map(message_tokens, messages)):,} tokens; {len(asked)} questions")
    for window in given.windows:
        print(f"\nwindow {window:,}")
        for result in measure(messages, asked, window):
            answered = len(asked) - len(result.missed)
            print(
                f"  {result.name:<28} {answered:>3} of {len(asked)}  ({answered / len(asked):4.0%})  {result.tokens:>7,} tokens"
            )
            if given.verbose:
                print(*(f"      - {question}" for question in result.missed), sep="\n")


if __name__ == "__main__":
    main()
