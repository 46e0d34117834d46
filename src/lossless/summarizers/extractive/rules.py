"""Recognise standing rules: what the user wants to be observed from now on."""

from __future__ import annotations

import re
from collections.abc import Sequence

from lossless.summarizers.extractive.cues import wide_cues
from lossless.summarizers.extractive.profiles import Profile
from lossless.summarizers.extractive.weights import WeightedPassage
from lossless.summarizers.extractive.words import is_wide

_LEAST_WORDS = 4
_DIRECT = re.compile(
    r"\b(?:never|always|must(?:n't)?|don't|do not|from now on|make sure|not allowed|forbidden|prefer|unless|allergic|i (?:do not )?want(?! to\b)|(?:whatever|everything|every|any|each|all)\b.{0,120}\bi want to"
    r"|not to be|no longer|at most"
    r"|nie|niemals|immer|darf(?:st)?|ich will|ich möchte|ab jetzt|ab sofort|musst?|künftig|solange|es sei denn"
    r"|nunca|siempre|jamás|debe[sn]?|quiero|sin preguntar\w*|a partir de|hay que|salvo que|a menos que"
    r"|jamais|toujours|doi[st]|veuillez|je (?:ne )?veux|à partir de|il faut|sans me|sauf si|à moins"
    r"|sempre|devem?|quero|sem (?:me )?perguntar|tem que"
    r"|никогда|всегда|нельзя|обязательно|хочу|без моего|не спросив|впредь|не надо)\b",
    re.I,
)
_BARE = re.compile(
    r"(?:^|: |\bbut )(?:(?:no|nothing) \w+(?: \w+)* (?:the|in|on|of|to|about|with|without|until|after|before|at|by|from)\b"
    r"|(?-i:Kein(?:e|en)?) (?!\w+:)(?-i:[A-ZÄÖÜ])|nada de |ning[uú]n\w* |pas d['’e]|aucune? |nenhum\w* |никак\w+ |ничего не )",
    re.I,
)
"""A prohibition without a verb: "No calls about the contract"."""
_HABIT = re.compile(
    r"\b(?:i|he|she|they|we|it|who|as|ich|er|sie|wir|es|wie|como|comme|je|il|elle|on|eu|ele|ela|я|он|она|мы|они|как)"
    r" (?:always|never|must|muss|immer|nie|siempre|nunca|toujours|jamais|dois|doit|sempre|всегда|никогда)\b"
    r"|\b(?:muss ich|don't (?:ask|worry|know)|do not know)\b|聞かないで",
    re.I,
)
"""The same words about what people do, not about what they want."""


def mark_rules(weighted: Sequence[WeightedPassage], profile: Profile) -> None:
    """Mark the user's rules, and raise them."""
    for each in weighted:
        passage = each.passage
        if passage.kind == "rule" or (passage.kind == "said" and passage.place.role == "user" and _is_rule(each)):
            each.rule = True
            each.factor *= profile.rule


def _is_rule(each: WeightedPassage) -> bool:
    text = each.passage.text
    if len(each.words) < _LEAST_WORDS or each.asks or each.open:
        return False
    if _BARE.search(text):
        return True
    wanted = _HABIT.sub("", text)
    return "rule" in wide_cues(wanted) if is_wide(text) else _DIRECT.search(wanted) is not None
