"""What a source is taken apart into: passages, each with its place, and none that gives orders to its reader."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from lossless.summarizers.directives import continues_order, orders
from lossless.summarizers.sentences import Span

_BULLET = re.compile(r"(?:[-*•+>]|\d{1,3}[.)]|#{1,6})\s+")
_HOLLOW = re.compile(r"[\W_]*", re.UNICODE)
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
    """A sentence, a clause or a line, as it stands in the source but for its white space."""

    at: int
    place: Place
    text: str
    kind: str = "said"
    """`said`, `call` (a tool's arguments), `output` (a line of a tool), `alarm` (a telling one), `open` (of an older summary)."""
    ends: bool = False
    """It ends what its speaker said."""
    failed: bool = False
    turn: int = 0
    """Which entry of the source it belongs to."""


@dataclass(slots=True)
class Reading:
    """All that was found in a source."""

    passages: list[Passage] = field(default_factory=list)
    calls: list[tuple[str, str]] = field(default_factory=list)
    """The tools that were called, with their arguments as written."""
    files: list[str] = field(default_factory=list)
    """The entries of older summaries' `Files:` lines."""
    topics: list[str] = field(default_factory=list)
    """What older summaries say they left out."""
    turns: int = 0

    def add(self, place: Place, text: str, kind: str, *, failed: bool = False, ends: bool = False) -> None:
        """Take a passage over, less its bullet; one without a letter or a digit says nothing."""
        text = " ".join(text.split())
        bullet = _BULLET.match(text)
        text = text[bullet.end() :] if bullet else text
        if not _HOLLOW.fullmatch(text):
            self.passages.append(Passage(len(self.passages), place, text, kind, ends, failed, self.turns))


def is_known_speaker(who: str) -> bool:
    """Whether a line that begins with this name alone is read as somebody's words again."""
    return _SPEAKER.fullmatch(who) is not None


def harmless(text: str, spans: Iterable[Span], *, by_user: bool) -> Iterator[Span]:
    """The spans that neither hold an order nor continue one."""
    after = False
    for span, ordering in held_against(orders(text, by_user=by_user), spans):
        if ordering:
            after = True
        elif not (after and continues_order(text[slice(*span)])):
            after = False
            yield span


def held_against(bad: list[Span], spans: Iterable[Span]) -> Iterator[tuple[Span, bool]]:
    """Each span, and whether one of the bad ones touches it; both in order."""
    nth = 0
    for start, end in spans:
        while nth < len(bad) and bad[nth][1] <= start:
            nth += 1
        yield (start, end), nth < len(bad) and bad[nth][0] < end
