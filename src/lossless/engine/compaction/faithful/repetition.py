"""Recognise a reply that is no summary of its source: the prompt or an earlier summary, repeated."""

from __future__ import annotations

from collections.abc import Iterator

from lossless.engine.compaction.faithful.nearby import keys
from lossless.engine.compaction.faithful.statements import LISTED, statements
from lossless.engine.compaction.faithful.wording import PIECE, is_wide, lowered

_PROBE, _WIDE_PROBE = 5, 8
"""The length of a quotation in words, or in signs of a script without spaces."""
_MOST_COPIED, _MOST_PROMPT = 0.5, 0.3
_MOST_ABOUT_PROMPT = 0.6
_TELLING = 10
"""The fewest words by which a text can be about its instructions."""


def copies(text: str, source: str, previous: str) -> bool:
    """Return True if a reply is in the main a copy of the summary before it."""
    return bool(previous) and _share_of(_body(text), source, previous) > _MOST_COPIED


def repeats_prompt(text: str, source: str, instructions: str) -> bool:
    """Return True if a reply in the main repeats its instructions, or is about them."""
    body = _body(text)
    return _share_of(body, source, instructions) > _MOST_PROMPT or _is_about(body, source, instructions)


def _body(text: str) -> str:
    return "\n".join(line for line in text.split("\n") if not LISTED.match(line))


def _share_of(body: str, source: str, given: str) -> float:
    """Return the share of a text that another one has and its source has not."""
    wide = is_wide(body)
    probes, there = list(_probes(body, wide)), _plain(given, wide)
    copied = [probe for probe in probes if probe in there]
    if not copied:
        return 0.0
    known = _plain(source, wide)
    return sum(probe not in known for probe in copied) / len(probes)


def _plain(text: str, wide: bool) -> str:
    """Return the words of a text, or its signs, without what is between them."""
    return "".join(PIECE.findall(lowered(text))) if wide else f" {' '.join(PIECE.findall(lowered(text)))} "


def _probes(text: str, wide: bool) -> Iterator[str]:
    """Yield a few stretches of each statement."""
    size = _WIDE_PROBE if wide else _PROBE
    for start, end in statements(text):
        said = _plain(text[start:end], wide)
        words = list(said) if wide else said.split()
        for at in {0, (len(words) - size) // 2, len(words) - size} if len(words) >= size else ():
            yield "".join(words[at : at + size]) if wide else f" {' '.join(words[at : at + size])} "


def _is_about(body: str, source: str, instructions: str) -> bool:
    """Return True if the words of a text are those of its instructions, more than of its source."""
    said = set(keys(lowered(body)))
    shown = said & set(keys(lowered(instructions)))
    if len(said) < _TELLING or len(shown) <= _MOST_ABOUT_PROMPT * len(said):
        return False
    return len(said & set(keys(lowered(source)))) < len(shown)
