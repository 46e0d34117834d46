"""Words among bytes: whether anything of a text is still there, wherever in a file it may lie."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence

OVERLAP = 256
"""How far pieces of a file have to overlap, for no word between two of them to be missed."""
_LEAST, _MOST = 6, 64
_WORD = re.compile(rf"\w{{{_LEAST},}}")
_EACH = 4


def needles(texts: Iterable[str], most: int = 200) -> list[str]:
    """A few words and the beginning of each text, by which it would be known again, whatever stands between its words."""
    found: dict[str, None] = {}
    for text in texts:
        words = sorted(set(_WORD.findall(text)), key=lambda word: (len(word), word), reverse=True)
        lines = [line.strip()[:_MOST] for line in text.splitlines() if len(line.strip()) > 2 * _LEAST]
        found |= dict.fromkeys([word[:_MOST] for word in words[:_EACH]] + lines[:1])
        if len(found) >= most:
            break
    return list(found)[:most]


class Sought:
    """Words to be looked for among bytes, as text or as JSON writes it."""

    def __init__(self, needles: Sequence[str]) -> None:
        import re2

        self._needles = needles
        self._forms = {form: needle for needle in needles for form in _forms(needle)}
        options = re2.Options()
        options.encoding = re2.Options.Encoding.LATIN1
        options.max_mem = 64 << 20
        self._pattern = re2.compile(b"|".join(re.escape(each) for each in sorted(self._forms, reverse=True)), options)

    def found(self, blocks: Iterable[bytes]) -> list[str]:
        """Those that stand somewhere in the blocks."""
        if not self._needles:
            return []
        seen = {self._forms[match.group()] for block in blocks for match in self._pattern.finditer(block)}
        return [needle for needle in self._needles if needle in seen]


def _forms(needle: str) -> set[bytes]:
    return {needle.encode("utf-8", "replace"), json.dumps(needle)[1:-1].encode()}
