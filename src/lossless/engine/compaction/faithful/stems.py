"""Words without their endings, to compare the wording of two texts."""

from __future__ import annotations

import re
from functools import lru_cache

from lossless.engine.compaction.faithful.claim import words

_IRREGULAR = dict(
    pair.split(":")
    for pair in words(
        """kept:keep sent:send made:make left:leave wrote:write written:write ran:run went:go gone:go took:take taken:take
        given:give gave:give found:find chosen:choose chose:choose ate:eat told:tell paid:pay held:hold broke:break"""  # word list
    )
)
IRREGULAR = frozenset(_IRREGULAR)
_ENDING = re.compile(r"(?:ations?|ments?|ables?|ings?|ies|ed|en|es|ly|s|e|y)$")
COMMON = words(
    """a an the and or of in on at to for with by from as is are was were be been being am it its this that these those there
    i you he she we they my your his her our their me him us them do does did has have had will would should could can may
    might must shall just also still yet so then than very too please ok yes any some all one here now again more most much
    because but if which who what when where while since into over under out up down about s t der die das und ist mit für
    von den auf im ein eine wird werden wurde am bei zu dem er sie es и в на с по что это был была было к из за"""
)
"""Words that say nothing about the subject of a sentence."""


@lru_cache(maxsize=16_384)
def stem(word: str) -> str:
    """Return a word without its ending."""
    word = _IRREGULAR.get(word, word)
    if len(word) <= 3:
        return word
    if not word.isascii():
        return word[: max(4, len(word) - 2)]
    short = _ENDING.sub("", word)
    if len(short) < 3:
        return word
    if short[-1] == short[-2] and short[-1] not in "aeiousl":
        short = short[:-1]
    return short[:7]
