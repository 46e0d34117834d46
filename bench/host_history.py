"""The history that the benchmark of hosts gives to each of them, and the turns that it measures."""

from __future__ import annotations

import gc
import json
import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from itertools import count
from pathlib import Path
from typing import NamedTuple

from lossless import Lossless, Message, Settings, SummaryRequest, Text, ToolResult, demo
from lossless.events import Event
from stand_in import StandIn

WINDOW = 128_000
STEADY = 0.02
"""How much the size of a request may change from turn to turn once the history is compacted."""
MOST_WARM_UP = 20
PROMPT = "What did we decide about the gate, and who wrote it down? Look at the newest entries first. " * 3

FAILURES: list[str] = []
"""What our side reported while turns were measured."""


class Contest(NamedTuple):
    """One host without and with us: each takes a turn with a prompt."""

    name: str
    without: Callable[[str], object]
    with_us: Callable[[str], object]
    fit: Callable[[int], object]
    """Lets the side without us send requests of so many bytes, if that can still be changed."""
    settle: Callable[[], object] = lambda: None
    """Does on our side what is done in the background when a conversation is idle."""


class Spent(NamedTuple):
    """The seconds of a turn."""

    wall: float
    cpu: float
    """Of the process that the host runs in; 0 where that is not known."""


class Result(NamedTuple):
    """The turns of each side, and the median size of their requests in bytes."""

    name: str
    without: list[Spent]
    with_us: list[Spent]
    sent: tuple[int, int]


def p95(values: Sequence[float]) -> float:
    return statistics.quantiles(values, n=20, method="inclusive")[18] if len(values) > 1 else values[0]


def measure(contest: Contest, provider: StandIn, turns: int, warm_up: int) -> Result:
    """Let both sides take the same turns, one after the other, each first in every second one."""
    FAILURES.clear()
    prompts = (f"Question {number}. {PROMPT}" for number in count())
    _settle(contest, provider, prompts, warm_up)
    for _ in range(warm_up):
        contest.fit(provider.last_request())
        contest.without(next(prompts))
    sides = contest.without, contest.with_us
    spent: tuple[list[Spent], list[Spent]] = [], []
    sent: tuple[list[int], list[int]] = [], []
    for number in range(turns):
        prompt = next(prompts)
        for side in (0, 1) if number % 2 else (1, 0):
            gc.collect()
            spent[side].append(timed(sides[side], prompt))
            sent[side].append(provider.last_request())
        contest.fit(sent[1][-1])
    assert not FAILURES, FAILURES[0]  # a turn that fell back to the host's own list would be fast
    return Result(contest.name, *spent, (round(statistics.median(sent[0])), round(statistics.median(sent[1]))))


def _settle(contest: Contest, provider: StandIn, prompts: Iterator[str], warm_up: int) -> None:
    """Take turns with us until requests keep their size: a history that was delivered at once is compacted in steps."""
    sizes = [0]
    while len(sizes) <= warm_up or (abs(sizes[-1] - sizes[-2]) > sizes[-1] * STEADY and len(sizes) < MOST_WARM_UP):
        contest.with_us(next(prompts))
        contest.settle()
        sizes.append(provider.last_request())


def timed(turn: Callable[[str], object], prompt: str) -> Spent:
    """Take a turn. One that runs in another process returns its own seconds."""
    start, cpu = time.perf_counter(), time.process_time()
    done = turn(prompt)
    return done if isinstance(done, Spent) else Spent(time.perf_counter() - start, time.process_time() - cpu)


def texts(messages: int) -> list[str]:
    """Texts of the demo, again and again, said by the user and by the assistant in turn: an even number."""
    said = [_words(message) for message in demo.conversation()]
    return [f"{number}: {said[number % len(said)]}" for number in range(messages // 2 * 2)]


def _words(message: Message) -> str:
    """Return what a message says, with what it calls and what a tool answered."""
    parts = [*message.parts, *(part for each in message.parts if isinstance(each, ToolResult) for part in each.parts)]
    found = [part.text if isinstance(part, Text) else getattr(part, "arguments", "") for part in parts]
    return "\n".join(filter(None, found)) or "-"


def newest(said: Sequence[str], size: int) -> list[str]:
    """Return the newest texts that make a request of so many bytes, beginning with one of the user."""
    start, left = len(said), size
    while start > 0 and left > 0:
        start -= 1
        left -= len(json.dumps({"role": "user", "content": said[start]}))
    return list(said[start - start % 2 :])


def first_lines(request: SummaryRequest) -> str:
    """Summarise at once: some lines of the source."""
    lines = [line for line in request.source.splitlines() if line and not line.startswith("[")]
    return "\n".join(lines[:20])[: 4 * request.target_tokens] + "\nExpand for details about: the rest"


def opened(path: Path) -> Lossless:
    """Open a database that compacts as by default, with a summariser that costs nothing."""
    settings = Settings(summary_max_calls_per_window=10**6, max_sweep_iterations=10**6)
    return Lossless.open(path, settings=settings, summarizer=first_lines, on_event=_note)


def _note(event: Event) -> None:
    if event.level == "error":
        FAILURES.append(event.message)
