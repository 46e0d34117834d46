"""Pure: decide whether a question is answered directly, from a shallow reading, or delegated."""

from __future__ import annotations

import math
import re
from typing import Literal, TypeAlias

from msgspec import Struct

Action: TypeAlias = Literal["answer_directly", "expand_shallow", "delegate_traversal"]
Intent: TypeAlias = Literal["query_probe", "explicit_expand"]
Level: TypeAlias = Literal["low", "moderate", "high"]

DEFAULT_DEPTH, DEEPEST = 3, 10
_DIRECT_DEPTH, _DIRECT_CANDIDATES = 2, 1
_MODERATE, _HIGH = 0.35, 0.70
_PER_SUMMARY, _WITH_MESSAGES, _PER_LEVEL = 220, 1.9, 0.65
_BROAD_FACTOR, _HOPS_FACTOR = 1.35, 1.25
_HOPS_DEPTH, _HOPS_CANDIDATES = 3, 5
_BOUNDLESS = 2**53 - 1
_BROAD = re.compile(
    r"\b(?:last|past)\s+(?:months?|quarters?|years?)\b"
    r"|\b(?:over|across|throughout)\s+(?:time|months|quarters|years)\b"
    r"|\b(?:timeline|chronology|history|long[\s-]term)\b"
    r"|\bbetween\b[^.]{1,40}\band\b[^.]{1,40}",
    re.IGNORECASE,
)
_HOPS = re.compile(
    r"\b(?:root\s+cause|causal\s+chain|chain\s+of\s+events|multi-hop|multi-step|cross-summary)\b"
    r"|\bhow\s+did\b.{1,200}\blead\s+to\b",
    re.IGNORECASE | re.DOTALL,
)
_YEAR = re.compile(r"\b(?:19|20)\d\d\b", re.ASCII)


class Route(Struct, frozen=True):
    """The decision for a question, and the reasons for it."""

    action: Action
    depth: int
    candidates: int
    estimate: int
    cap: int
    ratio: float
    level: Level
    broad: bool
    """The question is about a long period."""
    hops: bool
    """The question combines several facts."""
    triggers: dict[str, bool]
    reasons: tuple[str, ...]
    measured: int | None = None
    """The real cost of the candidates, if known; it replaces the estimate."""


def route(
    intent: Intent,
    candidates: int,
    *,
    cap: float,
    query: str = "",
    depth: float | None = None,
    messages: bool = False,
    measured: int | None = None,
) -> Route:
    """Decide how to answer. `measured` is the real cost of the candidates, if it is known."""
    levels, most = _depth(depth), _cap(cap)
    broad, hops = is_broad(query), levels >= _HOPS_DEPTH or candidates >= _HOPS_CANDIDATES or bool(_HOPS.search(query))
    guess = estimate(candidates, levels, messages=messages, broad=broad, hops=hops)
    ratio = (guess if measured is None else measured) / most
    level: Level = "high" if ratio >= _HIGH else "moderate" if ratio >= _MODERATE else "low"
    small = levels <= _DIRECT_DEPTH and candidates <= _DIRECT_CANDIDATES and level == "low"
    triggers = {
        "directByNoCandidates": not candidates,
        "directByLowComplexityProbe": bool(candidates) and intent == "query_probe" and small and not (broad or hops),
        "delegateByDepth": False,
        "delegateByCandidateCount": False,
        "delegateByTokenRisk": bool(candidates) and level == "high",
        "delegateByBroadTimeRangeAndMultiHop": bool(candidates) and broad and hops,
    }
    return Route(
        _action(triggers),
        levels,
        candidates,
        guess,
        most,
        ratio,
        level,
        broad,
        hops,
        triggers,
        tuple(_reasons(triggers, ratio)),
        measured,
    )


def estimate(candidates: int, depth: int, *, messages: bool, broad: bool, hops: bool) -> int:
    """Estimate the tokens of reading below so many summaries."""
    factors = (_WITH_MESSAGES if messages else 1) * (1 + (depth - 1) * _PER_LEVEL)
    factors *= (_BROAD_FACTOR if broad else 1) * (_HOPS_FACTOR if hops else 1)
    # Round first: an error of binary fractions must not add a token.
    return math.ceil(round(_PER_SUMMARY * factors * candidates, 6))


def is_broad(query: str) -> bool:
    """Return True if a question is about a long period."""
    years = [int(year) for year in _YEAR.findall(query)]
    return bool(_BROAD.search(query)) or (bool(years) and max(years) - min(years) >= 2)


def _depth(depth: float | None) -> int:
    if depth is None or not math.isfinite(depth):
        return DEFAULT_DEPTH
    return min(max(math.trunc(depth), 1), DEEPEST)


def _cap(cap: float) -> int:
    return max(1, math.trunc(cap)) if math.isfinite(cap) else _BOUNDLESS


def _action(triggers: dict[str, bool]) -> Action:
    if triggers["directByNoCandidates"] or triggers["directByLowComplexityProbe"]:
        return "answer_directly"
    handed_on = triggers["delegateByTokenRisk"] or triggers["delegateByBroadTimeRangeAndMultiHop"]
    return "delegate_traversal" if handed_on else "expand_shallow"


def _reasons(triggers: dict[str, bool], ratio: float) -> list[str]:
    texts = {
        "directByNoCandidates": "No summary matches.",
        "directByLowComplexityProbe": "One summary, a shallow look and little to read.",
        "delegateByTokenRisk": f"The reading would take {ratio:.2f} of the budget, at least {_HIGH:.2f} of it.",
        "delegateByBroadTimeRangeAndMultiHop": "It asks about a long time and takes several things together.",
    }
    fired = [reason for name, reason in texts.items() if triggers[name]]
    return fired or ["It fits a shallow reading."]
