"""Name what a summary leaves out: the subjects of the passages that it does not quote."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import pairwise

from lossless.summarizers.extractive.cues import BY_WORD, COMMON, TIME_WORDS
from lossless.summarizers.extractive.passages import ParsedSource
from lossless.summarizers.extractive.topics import list_topics
from lossless.summarizers.extractive.weights import WeightedPassage
from lossless.summarizers.extractive.words import is_wide, split_words
from lossless.tokens import estimate

_MOST_PASSAGES = 150
_MOST_WORDS = 5
_LEAST_LENGTH = 6
"""The characters of a phrase that says enough."""
_SEVERAL = 1.3
"""The factor of a phrase of several words, which says more than one alone."""
_WIDE_LENGTHS = range(2, 15)
_TOKEN = re.compile(r"[^\W_][\w'’./-]*[^\W_]|[^\W_]|[^\w\s]+")
_FUNCTION = re.compile(
    r"[\u3041-\u306d\u306f-\u309f\s、。，：；！？“”「」『』（）0-9A-Za-z的了是在和就把吧我你他她它们这那有也都很着吗呢]+"
)


class KeyPhrases:
    """The subjects of a source's passages, the most important first, and the topics that older summaries left out."""

    def __init__(self, parsed: ParsedSource, weighted: Sequence[WeightedPassage]) -> None:
        self._older = list_topics(parsed)
        spread = Counter(word for each in weighted for word in each.plain)
        spread.update(word.lower() for topic in self._older for word in split_words(topic))
        worth = [each.factor * sum(each.facts.values()) ** 0.8 / _length(each) ** 0.6 for each in weighted]
        best = sorted(range(len(weighted)), key=lambda nth: (-worth[nth], nth))[:_MOST_PASSAGES]
        self._phrases = [(nth, key_phrase(weighted[nth].passage.text, spread)) for nth in best]

    def missing_in(self, shown: Iterable[Sequence[str]], chosen: set[int]) -> list[str]:
        """Return the subjects of passages that were not chosen, without those that the shown words name."""
        seen = {pair for words in shown for pair in _pairs(words)}
        found: list[str] = []
        for phrase in [*(phrase for at, phrase in self._phrases if at not in chosen), *self._older]:
            pairs = _pairs([word.lower() for word in split_words(phrase)])
            if pairs and not pairs <= seen:
                found.append(phrase.replace(",", " "))
                seen |= pairs
        return found


def _length(each: WeightedPassage) -> int:
    return estimate(each.passage.text) + 6


def _pairs(words: Sequence[str]) -> set[tuple[str, ...]]:
    """Return each two words in a row; of a single word, itself."""
    return {tuple(words)} if len(words) == 1 else set(pairwise(words))


def key_phrase(text: str, spread: Mapping[str, int]) -> str:
    """Return the run of words that the conversation uses most, with its attributes."""
    if is_wide(text):
        pieces = [piece for each in _FUNCTION.split(text) if len(piece := each.strip("の")) in _WIDE_LENGTHS]
        return max(pieces, key=lambda piece: _commonness(split_words(piece), spread), default="")
    runs = [run for run in _runs(text) if len(" ".join(run)) >= _LEAST_LENGTH]
    return " ".join(max(runs, key=lambda run: _worth([word.lower() for word in run], spread), default=[]))


def _worth(words: Sequence[str], spread: Mapping[str, int]) -> float:
    return _commonness(words, spread) * (_SEVERAL if len(words) > 1 else 1.0)


def _commonness(words: Sequence[str], spread: Mapping[str, int]) -> float:
    return float(sum(spread.get(word, 0) ** 0.5 for word in words) / (1 + len(words)) ** 0.5)


def _runs(text: str) -> Iterator[list[str]]:
    """Yield runs of words that are neither common nor cues nor figures; one or two small words may join them."""
    run: list[str] = []
    joint: list[str] = []
    for word in _TOKEN.findall(text):
        low = word.lower()
        if low in COMMON and run and len(joint) < 2:
            joint.append(word)
        elif low in COMMON or not _is_plain(low):
            yield from [run[:_MOST_WORDS]] if run else []
            run, joint = [], []
        else:
            run, joint = [*run, *joint, word], []
    yield from [run[:_MOST_WORDS]] if run else []


def _is_plain(low: str) -> bool:
    return low.replace("'", "").replace("-", "").isalpha() and low not in TIME_WORDS and low not in BY_WORD
