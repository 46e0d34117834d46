"""Simple summarisers to compare with: `--summarizer conversations.baselines:rare_words`."""

from __future__ import annotations

import math
import re
from collections import Counter
from random import Random

from lossless import SummaryRequest
from lossless.tokens import estimate

_END = re.compile(r"(?<=[.!?])\s+|(?<=[。！？])|\n+")
_WORD = re.compile(r"[^\W_]+")


def rare_words(request: SummaryRequest) -> str:
    """Quote the sentences whose words are rare in the source."""
    sentences = _sentences(request.source)
    split = [set(_words(each)) for each in sentences]
    spread = Counter(word for words in split for word in words)
    scores = [sum(math.log(len(split) / spread[word]) for word in words) / (len(words) + 4) ** 0.5 for words in split]
    order = sorted(range(len(sentences)), key=lambda nth: (-scores[nth], nth))
    return _take(sentences, order, request.target_tokens)


def random_sentences(request: SummaryRequest) -> str:
    """Quote sentences by chance."""
    sentences = _sentences(request.source)
    order = list(range(len(sentences)))
    Random(len(request.source)).shuffle(order)
    return _take(sentences, order, request.target_tokens)


def _sentences(source: str) -> list[str]:
    return [text for each in _END.split(source) if (text := each.strip())]


def _words(text: str) -> list[str]:
    words: list[str] = []
    for word in _WORD.findall(text.lower()):
        words += [word] if word.isascii() or word[0] < "\u3000" else [word[at : at + 2] for at in range(len(word))]
    return words


def _take(sentences: list[str], order: list[int], limit: int) -> str:
    taken, left = [], limit
    for nth in order:
        left -= estimate(sentences[nth]) + 1
        if left < 0:
            break
        taken.append(nth)
    return "\n".join(sentences[nth] for nth in sorted(taken))
