"""Search raw bytes for words of erased texts, wherever in a file they may be."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence

OVERLAP = 256
"""Bytes by which blocks of a file must overlap, so that no word between two of them is missed."""
_LEAST, _MOST = 6, 64
_WORD = re.compile(rf"\w{{{_LEAST},}}")
_EACH = 4


def choose_needles(texts: Iterable[str], most: int = 200) -> list[str]:
    """Return a few long words and the first line of each text, by which it can be recognised."""
    found: dict[str, None] = {}
    for text in texts:
        words = sorted(set(_WORD.findall(text)), key=lambda word: (len(word), word), reverse=True)
        lines = [line.strip()[:_MOST] for line in text.splitlines() if len(line.strip()) > 2 * _LEAST]
        found |= dict.fromkeys([word[:_MOST] for word in words[:_EACH]] + lines[:1])
        if len(found) >= most:
            break
    return list(found)[:most]


class ByteSearch:
    """A search for words in bytes, written as plain text or as JSON escapes."""

    def __init__(self, needles: Sequence[str]) -> None:
        import re2

        self._needles = needles
        self._encodings = {encoded: needle for needle in needles for encoded in _encodings(needle)}
        options = re2.Options()
        options.encoding = re2.Options.Encoding.LATIN1
        options.max_mem = 64 << 20
        self._pattern = re2.compile(
            b"|".join(re.escape(each) for each in sorted(self._encodings, reverse=True)), options
        )

    def find(self, blocks: Iterable[bytes]) -> list[str]:
        """Return the needles that the blocks contain."""
        if not self._needles:
            return []
        seen = {self._encodings[match.group()] for block in blocks for match in self._pattern.finditer(block)}
        return [needle for needle in self._needles if needle in seen]


def _encodings(needle: str) -> set[bytes]:
    return {needle.encode("utf-8", "replace"), json.dumps(needle)[1:-1].encode()}
