"""Split texts into words, in any script."""

from __future__ import annotations

import re

from lossless.summarizers.extractive.cues import BY_WORD, COMMON

_WORD = re.compile(r"[^\W_](?:[\w'’./:@#%&+~-]{0,80}[\w%])?|[€$£¥]")
_WIDE = re.compile(r"[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]")
_HIRAGANA = re.compile(r"[\u3041-\u309f]{1,2}")
_FUNCTION = frozenset("的了是在和就把吧我你他她它们这那有也都很着吗呢")
_MOST_REQUESTED = 60


def split_words(text: str) -> list[str]:
    """Split a text into words, or into pairs of characters where a script has no spaces."""
    words: list[str] = []
    for word in _WORD.findall(text):
        if word.isascii() or not _WIDE.search(word):
            words.append(word)
        else:
            words.extend(word[at : at + 2] for at in range(max(1, len(word) - 1)))
    return words


def is_wide(text: str) -> bool:
    """Return whether a text contains a script without spaces between words."""
    return _WIDE.search(text) is not None


def is_function(pair: str) -> bool:
    """Return whether a pair of characters of such a script has no meaning of its own."""
    return _HIRAGANA.fullmatch(pair) is not None or not _FUNCTION.isdisjoint(pair)


def telling_words(text: str) -> frozenset[str]:
    """Return the distinctive words of a message, of a long one those at its end."""
    words = dict.fromkeys(word.lower() for word in split_words(text[-2_000:]))
    telling = [word for word in words if word not in COMMON and word not in BY_WORD and _has_meaning(word)]
    return frozenset(telling[-_MOST_REQUESTED:])


def _has_meaning(word: str) -> bool:
    return not is_function(word) if is_wide(word) else len(word) > 2
