"""Measure what summaries keep: planted facts of invented conversations, by kind, depth and language. No judge is asked.

The conversations are composed from `conversations/texts` by a seed: 14 domains in eight languages, each about 50,000 tokens
with 29 to 32 facts. The library compacts them into ten leaves (10:1), two summaries of five leaves (about 50:1) and one of
these two (about 100:1). For each fact and depth, the summaries in view

    keep it     every key value is there, near its topic
    cue it      not kept, but "Expand for details about" names its topic
    are stale   they show a superseded value without the newest one
    halve it    some of its values are there
    lose it     none of these

It also reports how many of the `Open:` lines are open questions, the check of a model's claims (altered values that it
removes, good sentences that it removes), calls and tokens, CPU, and older lists of facts.

    python bench/summaries.py                               # seeds 1 to 3
    python bench/summaries.py --quick                       # one seed, eight conversations of 20,000 tokens: 20 seconds
    python bench/summaries.py --seeds 11-20 --parts facts   # other seeds, only the planted facts
    python bench/summaries.py --summarizer conversations.baselines:rare_words --parts facts
    LCM_BENCH_LOCOMO=locomo.json python bench/summaries.py --parts lists
"""

from __future__ import annotations

import argparse
import os
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from conversations import FULL, KINDS, STATES, Conversation, View, generate, is_open, language, open_lines, pairs
from conversations.compaction import DEPTHS, Compacted, compact, summarizer
from conversations.gate import FORMS, LENGTHS, SOURCE, GateFigures, measure_gate
from lossless.summarizers import Summarizer

PARTS = ("facts", "gate", "lists")
QUICK = 20_000
LOCOMO = os.environ.get("LCM_BENCH_LOCOMO")
_TAIL = 1.1
"""The length of a conversation in relation to the part that is summarised, so that every leaf is full."""


@dataclass
class Figures:
    """Counts over all conversations."""

    states: dict[tuple[int, str, str], Counter[str]] = field(default_factory=lambda: defaultdict(Counter))
    """The states of facts by depth, kind and language."""
    open_true: Counter[int] = field(default_factory=Counter)
    open_lines: Counter[int] = field(default_factory=Counter)
    ratios: dict[int, list[float]] = field(default_factory=lambda: defaultdict(list))
    tokens: int = 0
    source_tokens: int = 0
    summaries: int = 0
    calls: int = 0
    read: int = 0
    written: int = 0
    seconds: float = 0.0

    def add(self, conversation: Conversation, compacted: Compacted) -> None:
        """Count what the summaries of a conversation keep."""
        end = max(each.latest_at for each in compacted.summaries if each.latest_at)
        times = [message.at for message in conversation.messages]
        facts = [
            fact
            for nth, fact in enumerate(conversation.facts)
            if all((at := times[place]) is not None and at <= end for place in conversation.places[nth])
        ]
        for depth in DEPTHS:
            view = View(compacted.texts(depth))
            for fact in facts:
                self.states[depth, fact.kind, conversation.language.name][view.state(fact)] += 1
            lines = [line for text in compacted.texts(depth) for line in open_lines(text)]
            self.open_lines[depth] += len(lines)
            self.open_true[depth] += sum(is_open(line, facts) for line in lines)
            self.ratios[depth].append(compacted.ratio(depth))
        counted = compacted.counted
        self.tokens += conversation.tokens
        self.source_tokens += compacted.source_tokens
        self.summaries += len(compacted.summaries)
        self.calls += counted.calls
        self.read += counted.read
        self.written += counted.written
        self.seconds += counted.seconds

    def count(self, depth: int, kind: str | None = None, spoken: str | None = None) -> Counter[str]:
        """Return the states of the facts of a depth, of one kind or language."""
        chosen = Counter[str]()
        for (at, of_kind, of_language), states in self.states.items():
            if at == depth and kind in (None, of_kind) and spoken in (None, of_language):
                chosen.update(states)
        return chosen

    @property
    def facts(self) -> int:
        return sum(self.count(0).values())


def measure(
    inner: Summarizer, seeds: Iterable[int], chosen: Sequence[tuple[str, str]], tokens: int, parts: Sequence[str]
) -> tuple[Figures, GateFigures]:
    """Generate, compact and score every conversation."""
    figures, gate = Figures(), GateFigures()
    for seed in seeds:
        for code, domain in chosen:
            conversation = generate(code, domain, seed, tokens)
            if "facts" in parts:
                longer = generate(code, domain, seed, tokens, tail=_TAIL)
                figures.add(longer, compact(longer.messages, inner, chunk=tokens // 10))
            if "gate" in parts:
                gate.add(measure_gate(conversation, seed))
    return figures, gate


def print_facts(figures: Figures) -> None:
    """Print what is kept, by depth, kind and language."""
    ratios = [sum(figures.ratios[depth]) / len(figures.ratios[depth]) for depth in DEPTHS]
    print(f"\n{figures.facts:,} facts" + " " * 12 + "   kept   cued  stale   half   lost   kept or cued")
    for depth, ratio in zip(DEPTHS, ratios, strict=True):
        counted = figures.count(depth)
        shares = "".join(f"{_share(counted, state):>7}" for state in STATES)
        print(f"  d{depth}  {ratio:5.1f}:1".ljust(24) + f"{shares}{_share(counted, 'kept', 'cued'):>15}")
    columns = "".join(f"   d{depth} kept  or cued" for depth in DEPTHS)
    print(f"\nby kind           n{columns}   d2 stale   d2 half")
    for kind in KINDS:
        _print_row(kind, [figures.count(depth, kind) for depth in DEPTHS])
    print(f"\nby language       n{columns}   d2 stale   d2 half")
    for spoken in dict.fromkeys(each[2] for each in figures.states):
        _print_row(spoken, [figures.count(depth, spoken=spoken) for depth in DEPTHS])
    print("\n`Open:` lines that are open questions: ", end="")
    print(", ".join(f"d{depth} {figures.open_true[depth]} of {figures.open_lines[depth]}" for depth in DEPTHS))
    each = max(1, figures.summaries)
    print(
        f"{figures.summaries:,} summaries: {figures.calls / each:.2f} calls, {figures.read / each:,.0f} tokens read and "
        f"{figures.written / each:,.0f} written for each"
    )
    print(
        f"CPU of the summariser for 20,000 tokens of messages, all depths: {figures.seconds / figures.source_tokens * 20_000:.3f} s"
    )


def _print_row(name: str, counted: Sequence[Counter[str]]) -> None:
    cells = "".join(f"{_share(each, 'kept'):>10}{_share(each, 'kept', 'cued'):>9}" for each in counted)
    last = counted[-1]
    print(f"  {name:<13}{sum(last.values()):>4}{cells}{_share(last, 'stale'):>11}{_share(last, 'half'):>10}")


def _share(counted: Counter[str], *states: str) -> str:
    total = sum(counted.values())
    return f"{sum(counted[each] for each in states) / total:.3f}" if total else "-"


def print_gate(gate: GateFigures) -> None:
    """Print what the check of claims removes."""
    print(f"\nthe check of claims, sources of {SOURCE:,} tokens")
    for form in FORMS:
        name = "number of another fact" if form == "swapped" else f"{form} altered by one"
        print(
            f"  {name:<24} removed {gate.caught[form]:>4} of {gate.altered[form]:>4}  {_percent(gate.caught[form], gate.altered[form])}"
        )
    for length in LENGTHS:
        part = _percent(gate.removed[length], gate.good[length])
        print(
            f"  good text of {length:>5,} tokens: removed {gate.removed[length]:>4} of {gate.good[length]:>5} sentences  {part}"
        )
    print(
        f"  good texts: {gate.calls / max(1, gate.texts):.2f} calls for each; nothing stored of {gate.rejected} of {gate.texts}"
    )


def _percent(part: int, whole: int) -> str:
    return f"({part / whole:.1%})" if whole else ""


def print_lists(inner: Summarizer) -> None:
    """Print the shares of older lists."""
    from conversations.lists import demo_questions, evidence, planted

    compacted, answered, asked = demo_questions(inner)
    print("\nother lists")
    found = ", ".join(
        f"d{depth} {count} of {asked} ({compacted.ratio(depth):.0f}:1)"
        for depth, count in zip(DEPTHS, answered, strict=True)
    )
    print(f"  questions about the demo: {found}")
    for name in ("demo", "household"):
        shares = [(ratio, *planted(inner, name, ratio)) for ratio in (10, 16)]
        print(
            f"  planted in {name}: "
            + ", ".join(f"{ratio}:1 {kept} of {all_} ({kept / all_:.2f})" for ratio, kept, all_ in shares)
        )
    if LOCOMO:
        share, turns = evidence(inner, Path(LOCOMO), 10)
        print(f"  LoCoMo: {share:.3f} of the text of {turns} turns with evidence is quoted at 10:1")


def _seeds(text: str) -> list[int]:
    first, _, last = text.partition("-")
    return list(range(int(first), int(last or first) + 1))


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--seeds", type=_seeds, default=_seeds("1-3"), metavar="N[-M]")
    options.add_argument("--languages", nargs="+", metavar="CODE", help="only these, e.g. en zh")
    options.add_argument("--tokens", type=int, default=FULL, help="the length of each conversation")
    options.add_argument("--parts", nargs="+", choices=PARTS, default=PARTS)
    options.add_argument("--summarizer", default="extractive", metavar="NAME")
    options.add_argument(
        "--quick", action="store_true", help="one seed and a conversation of 20,000 tokens in each language"
    )
    given = options.parse_args()
    chosen = [pair for pair in pairs() if not given.languages or pair[0] in given.languages]
    if given.quick:
        given.seeds, given.tokens = given.seeds[:1], min(given.tokens, QUICK)
        chosen = list({code: (code, domain) for code, domain in chosen}.values())
    inner = summarizer(given.summarizer)
    names = ", ".join(dict.fromkeys(language(code).name for code, _ in chosen))
    print(
        f"{given.summarizer}; seeds {given.seeds[0]} to {given.seeds[-1]}; {len(chosen)} conversations each ({names}), {given.tokens:,} tokens"
    )
    figures, gate = measure(inner, given.seeds, chosen, given.tokens, given.parts)
    if "facts" in given.parts:
        print_facts(figures)
    if "gate" in given.parts:
        print_gate(gate)
    if "lists" in given.parts:
        print_lists(inner)


if __name__ == "__main__":
    main()
