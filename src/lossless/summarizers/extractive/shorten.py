"""Shorten a sentence to the clauses that say something.

Only clauses at its beginning and end are left out, so that the rest is still a quotation. A clause that denies,
restricts or sets a condition always stays.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from itertools import pairwise

_CLAUSE = re.compile(r"[,;:]\s+|\s[-–—]\s|(?<=[.!?…])\s+|[，；：、](?=.)")
_HOLD = re.compile(
    r"\b(?:not|no|never|none|nor|without|\w+n't|cannot|only|unless|until|if|when|except|instead|but|because|than|should|must"
    r"|nicht|kein\w*|nie|niemals|ohne|nur|wenn|falls|außer|bis|statt|aber|sondern|weil|solange"
    r"|no|nunca|sin|solo|sólo|si|salvo|hasta|pero|cuando|excepto|jamás"
    r"|ne|pas|jamais|sans|sauf|quand|jusqu\w*|mais|seulement|rien|aucun\w*|n'\w+"
    r"|não|nem|sem|só|se|quando|até|mas|exceto|apenas"
    r"|не|нет|ни|без|только|если|когда|кроме|пока|но)\b|[不没別别勿未无]|ない|ません|ずに|なら|れば|たら|まで|だけ",
    re.I,
)
_LEAD = re.compile(r"[^,;:]{2,48}:\s")
_LEAST_SAVED = 8
"""The characters that must be saved."""
_STRONG, _STRONG_LEAD = 0.15, 0.35
"""The share of a sentence's weight from which on a clause stays; of a few words before a colon, more."""
_MARKS = ",;: ，；：、-–—"


def shorten(text: str, weights: Mapping[str, float]) -> str:
    """Return the sentence without clauses at its beginning and end that have no weight."""
    borders = [0, *(found.end() for found in _CLAUSE.finditer(text)), len(text)]
    clauses = [text[start:end].lower() for start, end in pairwise(borders)]
    if len(clauses) < 2:
        return text
    total = sum(weights.values())
    keeps = [_says_something(clause, weights, _STRONG * total) for clause in clauses]
    if _LEAD.match(text) and not _says_something(clauses[0], weights, _STRONG_LEAD * total):
        keeps[0] = False
    if not any(keeps):
        return text
    last = len(keeps) - keeps[::-1].index(True)
    kept = text[borders[keeps.index(True)] : borders[last]].strip()
    kept = kept.rstrip(_MARKS) if last < len(clauses) else kept
    return kept if len(text) - len(kept) >= _LEAST_SAVED else text


def _says_something(clause: str, weights: Mapping[str, float], least: float) -> bool:
    return sum(weight for word, weight in weights.items() if word in clause) > least or bool(_HOLD.search(clause))
