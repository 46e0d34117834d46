"""The parts of a source: passages with their time and speaker, without prompt injections."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from lossless.summarizers.extractive.sentences import Span
from lossless.summarizers.injections import continues_injection, find_injections

_BULLET = re.compile(r"(?:[-*•+>]|\d{1,3}[.)]|#{1,6})\s+")
_NO_TEXT = re.compile(r"[\W_]*", re.UNICODE)
_SPEAKER = re.compile(r"(?:user|assistant|system|tool)(?: .{1,80})?")


@dataclass(frozen=True, slots=True)
class Place:
    """The day (or span), the time and the speaker of some passages."""

    day: str = ""
    time: str = ""
    who: str = ""

    @property
    def role(self) -> str:
        return self.who.partition(" ")[0]


@dataclass(slots=True)
class Passage:
    """A sentence, a clause or a line of the source, with its white space normalised."""

    at: int
    place: Place
    text: str
    kind: str = "said"
    """`said`, `goal`, `rule` and `next` (marked so in an older summary), `call` (a tool's arguments), `output` (a line of a tool), `alarm` (an important one), `asked` (one that the user asked for), `open` (of an older summary)."""
    ends: bool = False
    """True if it is the last passage of its turn."""
    failed: bool = False
    turn: int = 0
    """The number of the entry of the source."""


@dataclass(slots=True)
class ParsedSource:
    """The passages, tool calls, files and topics of a source."""

    passages: list[Passage] = field(default_factory=list)
    calls: list[tuple[str, str]] = field(default_factory=list)
    """The tools that were called, with their arguments as written."""
    files: list[str] = field(default_factory=list)
    """The entries of the `Files:` lines of older summaries."""
    topics: list[str] = field(default_factory=list)
    """The topics that older summaries left out."""
    turns: int = 0
    request: frozenset[str] = frozenset()
    """The distinctive words of the user's newest message."""

    def add(self, place: Place, text: str, kind: str, *, failed: bool = False, ends: bool = False) -> None:
        """Add a passage without its bullet; one without a letter or a digit is skipped."""
        text = " ".join(text.split())
        bullet = _BULLET.match(text)
        text = text[bullet.end() :] if bullet else text
        if not _NO_TEXT.fullmatch(text):
            passage = Passage(
                at=len(self.passages), place=place, text=text, kind=kind, ends=ends, failed=failed, turn=self.turns
            )
            self.passages.append(passage)


def is_known_speaker(who: str) -> bool:
    """Return whether a line that starts with this name alone is parsed as a turn again."""
    return _SPEAKER.fullmatch(who) is not None


def without_injections(text: str, spans: Iterable[Span], *, by_user: bool) -> Iterator[Span]:
    """Yield the spans that neither contain an injection nor continue one."""
    after = False
    for span, injected in mark_overlaps(find_injections(text, by_user=by_user), spans):
        if injected:
            after = True
        elif not (after and continues_injection(text[slice(*span)])):
            after = False
            yield span


def mark_overlaps(bad: list[Span], spans: Iterable[Span]) -> Iterator[tuple[Span, bool]]:
    """Yield each span, and whether one of the bad ones overlaps it; both are sorted."""
    nth = 0
    for start, end in spans:
        while nth < len(bad) and bad[nth][1] <= start:
            nth += 1
        yield (start, end), nth < len(bad) and bad[nth][0] < end
