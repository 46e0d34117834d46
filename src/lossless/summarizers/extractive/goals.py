"""Find the goal of a conversation and the next step, which a summary of summaries states first and last."""

from __future__ import annotations

import re
from collections.abc import Sequence

from lossless.summarizers.extractive.weights import WeightedPassage

GUIDES = ("goal", "next")
"""The kinds of passages that a summary puts apart to guide its reader."""
_LEAST_WORDS = 5
_SUBJECT = 0.4
"""The least share of a goal in what the conversation comes back to."""
_LAST_PART = 0.75
"""The share of a source after which a plan counts as the next step."""
_NEXT = re.compile(
    r"\b(?:next (?:step|week|month|year|is|up|we|i|time|thing|comes)|tomorrow|tonight|later today|remaining|to do|will|i'll|we'll|shall|going to|before|by (?:mon|tues|wednes|thurs|fri|satur|sun)day"
    r"|morgen|nächste\w*|als nächstes|werde[nt]?|wird|demnächst|bis (?:mon|diens|donners|frei|sams|sonn)tag"
    r"|mañana|próxim[ao]s?|siguiente|vamos a|luego|demain|prochaine?s?|ensuite|on va|je vais|nous allons"
    r"|amanhã|seguinte|depois|vou|vamos|завтра|следующ\w+|дальше|будем|буду|потом)\b|明天|下一步|接下来|将|次は|明日|これから|予定",
    re.I,
)


def mark_goal(weighted: Sequence[WeightedPassage], *, is_beginning: bool) -> None:
    """Mark the goal: that of an older summary, or the main sentence of the conversation's first message."""
    carried = [each for each in weighted if each.passage.kind == "goal"]
    for each in carried[1:]:
        each.passage.kind = "said"
    if carried or not is_beginning:
        return
    first = next((each.passage.turn for each in weighted if each.passage.place.role == "user"), None)
    said = [each for each in weighted if each.passage.turn == first and _may_be_goal(each)]
    if best := max(said, key=lambda each: (not each.asks, sum(each.facts.values())), default=None):
        best.passage.kind = "goal"


def _may_be_goal(each: WeightedPassage) -> bool:
    return each.passage.kind == "said" and len(each.words) >= _LEAST_WORDS and each.subject >= _SUBJECT


def mark_next(weighted: Sequence[WeightedPassage]) -> None:
    """Mark the newest plan as the next step."""
    for each in weighted:
        if each.passage.kind == "next":
            each.passage.kind = "said"
    plans = [each for each in weighted[int(_LAST_PART * len(weighted)) :] if _is_plan(each)]
    if plans:
        max(plans, key=lambda each: (bool(each.values), each.passage.at)).passage.kind = "next"


def _is_plan(each: WeightedPassage) -> bool:
    if each.passage.kind != "said" or each.asks or each.rule or each.open:
        return False
    return each.passage.place.role in ("user", "assistant") and _NEXT.search(each.passage.text) is not None
