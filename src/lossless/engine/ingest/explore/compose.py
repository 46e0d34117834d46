"""Compose the few lines that a model will read: quoted safely, within a budget."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from lossless.tokens import estimate, truncate

AIM_TOKENS = 235
MOST_TOKENS = 290

_PLAIN_NAME = re.compile(r"[\w.$@/+-]+")


@dataclass(frozen=True, slots=True)
class Several:
    """A label and as many of its items as fit; `total` also counts those that were never collected."""

    label: str
    items: Sequence[str]
    total: int = 0
    separator: str = ", "
    spread: bool = False


Fact: TypeAlias = "str | Several"


def shown(value: str, most: int = 60) -> str:
    """Return untrusted text on one line, with invisible characters spelled out, cut at `most` characters."""
    line = " ".join(value[: most * 4].split())
    text = line if line.isprintable() else "".join(c if c.isprintable() else _spelled(c) for c in line[: most + 1])
    return text if len(text) <= most and len(value) <= most * 4 else text[: most - 1] + "…"


def named(value: str, most: int = 40) -> str:
    """Return an untrusted name: bare if it reads as one word, else quoted."""
    text = shown(value, most)
    return text if _PLAIN_NAME.fullmatch(text.rstrip("…")) else f'"{text}"'


def number(value: int, limit: int | None = None) -> str:
    """Return a number with thousands separators, and a `+` if the count stopped at its limit."""
    return f"{value:,}" + ("+" if limit is not None and value >= limit else "")


def plural(value: int, noun: str, limit: int | None = None, many: str = "") -> str:
    """Return `1 line`, `2 lines`, `3 entries`."""
    return f"{number(value, limit)} {noun if value == 1 else many or noun + 's'}"


def counted(pairs: Iterable[tuple[str, int]]) -> list[str]:
    """Return `INFO 10`, `ERROR 2`: names with their counts."""
    return [f"{name} {count:,}" for name, count in pairs]


def compose(facts: Iterable[Fact]) -> str:
    """Return every plain fact that fits, then the lists, each with a fair share of the space left."""
    chosen = _affordable(facts)
    budget = AIM_TOKENS - sum(estimate(fact) + 1 for fact in chosen if isinstance(fact, str))
    lists = sum(isinstance(fact, Several) for fact in chosen)
    lines: list[str] = []
    for fact in chosen:
        if isinstance(fact, Several):
            line = _listed(fact, budget // lists)
            budget, lists = budget - estimate(line), lists - 1
        else:
            line = fact
        lines.append(line)
    return truncate("\n".join(filter(None, lines)), MOST_TOKENS)


def _affordable(facts: Iterable[Fact]) -> list[Fact]:
    chosen: list[Fact] = []
    budget = AIM_TOKENS
    for fact in facts:
        if isinstance(fact, Several):
            chosen += [fact] if fact.items else []
        elif (cost := estimate(fact) + 1) <= budget:
            chosen.append(fact)
            budget -= cost
    return chosen


def _listed(fact: Several, budget: int) -> str:
    total = max(fact.total, len(fact.items))
    kept = _picked(fact, budget - estimate(fact.label) - 8)
    missing = total - len(kept)
    if not kept:
        return f"{fact.label}: {number(total)}"
    how = " between them" if fact.spread else ""
    rest = [f"({number(missing)} more{how})"] if missing else []
    start = fact.separator if "\n" in fact.separator else " "
    return f"{fact.label}:{start}" + fact.separator.join([*kept, *rest])


def _picked(fact: Several, budget: int) -> list[str]:
    costs = [estimate(item) + 1 for item in fact.items]
    if fact.spread and sum(costs) > budget:
        keep = max(1, budget * len(costs) // sum(costs))
        items = [fact.items[index * len(costs) // keep] for index in range(keep)]
    else:
        items = list(fact.items)
    return list(_within(items, budget))


def _within(items: Iterable[str], budget: int) -> Iterable[str]:
    for item in items:
        budget -= estimate(item) + 1
        if budget < 0:
            return
        yield item


def _spelled(char: str) -> str:
    return char.encode("ascii", "backslashreplace").decode() if ord(char) > 127 else f"\\x{ord(char):02x}"
