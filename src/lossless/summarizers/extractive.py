"""The summariser that needs no model: it quotes.

Every sentence it writes stands in the source. It takes the ones that tell most for their length, spreads them over
the whole time of the source, says once what was said often, and names what it left out. Deterministic and offline.

The form, which it also reads when summaries are condensed (`…` where something was left out, `·` between lines):

    2026-02-17 (PST)
    15:37 user: We keep SQLite. … Never deploy on Fridays.
    15:41 tool bash: 2 failed, 118 passed
    Open: [2026-02-17 15:44 | user] Which region do we use?
    Files: src/app.py (edited), notes.md (read)
    Expand for details about: bash x12, retries, pricing
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice

from lossless.model import SummaryRequest
from lossless.summarizers import traces
from lossless.summarizers.passages import Passage, Place, Reading, is_known_speaker
from lossless.summarizers.ranking import ranked
from lossless.summarizers.reading import read
from lossless.summarizers.telling import Told, weigh, words_of
from lossless.tokens import estimate, truncate

FILES = "Files: "
EXPAND = "Expand for details about: "
_FILES_SHARE, _EXPAND_SHARE = 0.1, 0.06
_MOST_TOPICS = 10
_MOST_NAMED = 5
_WORDING = "the exact wording"
_MINUTES = 15
"""After how long the time is told again."""
_END = (".", "!", "?", "…", ":", ";")
_WIDE_END = ("。", "！", "？")


def summarize(request: SummaryRequest) -> str:
    """A summary of `request.source` in quotations, at most `request.target_tokens` long.

    It ends with a `Files:` line and a line of what was left out, and is shorter than its source wherever these fit.
    """
    reading = read(request.source, request.depth)
    told = weigh(reading.passages)
    limit = max(1, min(request.target_tokens, estimate(request.source) - 1))
    known = {word.lower() for word in words_of(request.previous or "")}
    order = list(ranked(told, known, limit))
    draft = _Draft(reading, told, request.source, limit)
    fits, exceeds = 0, len(order) + 1
    while exceeds - fits > 1:
        middle = (fits + exceeds) // 2
        if estimate(draft.text(order[:middle])) <= limit:
            fits = middle
        else:
            exceeds = middle
    return draft.text(order[:fits])


def left_out(source: str, depth: int, summary: str) -> str:
    """Name what a source speaks of and a summary of it does not."""
    reading = read(source, depth)
    told = {word.lower() for word in words_of(summary)}
    missing = (topic for topic in traces.topics(reading, weigh(reading.passages)) if topic.lower() not in told)
    return ", ".join(islice(missing, _MOST_NAMED)) or _WORDING


class _Draft:
    """The summary for any choice of passages."""

    def __init__(self, reading: Reading, told: Sequence[Told], source: str, limit: int) -> None:
        self._limit = limit
        self._count = len(told)
        self._files = _listing(FILES, traces.files(reading, source), limit, _FILES_SHARE)
        self._tools = traces.tools(reading)
        self._topics = traces.topics(reading, told)

    def text(self, chosen: Sequence[Told]) -> str:
        ordered = sorted(chosen, key=lambda each: each.passage.at)
        opened = [_open_line(each.passage) for each in ordered if each.open]
        lines = _lines([each.passage for each in ordered if not each.open])
        return "\n".join([*lines, *opened, self._files, self._expand(ordered)])

    def _expand(self, chosen: Sequence[Told]) -> str:
        # A word of no chosen passage is one of the others, so nobody has to look which they are.
        kept = {fact for each in chosen for fact in each.facts}
        left = (topic for topic in self._topics if topic.lower() not in kept)
        items = [*self._tools, *islice(left, _MOST_TOPICS)]
        if not items and (len(chosen) < self._count or not self._count):
            items = [_WORDING]
        return _listing(EXPAND, items, self._limit, _EXPAND_SHARE)


def _lines(passages: Sequence[Passage]) -> Iterator[str]:
    """A line for each turn at speaking, under its day; the time again when some minutes have passed."""
    line, last, shown = "", Passage(-2, Place(), ""), ""
    for passage in passages:
        place = passage.place
        told = place.day == last.place.day and not _is_later(shown, place.time)
        if line and told and place.who == last.place.who:
            line += _gap(last, passage) + passage.text
        else:
            yield from [line] if line else []
            yield from [place.day] if place.day != last.place.day else []
            line = f"{_speaker(place, told)}{passage.text}"
            shown = shown if told else place.time
        last = passage
    yield from [line] if line else []


def _speaker(place: Place, told: bool) -> str:
    if not place.who:
        return "- "
    bare = told and is_known_speaker(place.who)
    return f"{place.who}: " if bare or not place.time else f"{place.time} {place.who}: "


def _is_later(shown: str, time: str) -> bool:
    return not shown or not time or abs(_minute(time) - _minute(shown)) >= _MINUTES


def _minute(time: str) -> int:
    hours, _, minutes = time.partition(":")
    return 60 * int(hours) + int(minutes)


def _gap(last: Passage, passage: Passage) -> str:
    if last.at + 1 != passage.at or last.turn != passage.turn:
        return " … "
    if last.text.endswith(_WIDE_END):
        return ""
    return " " if last.text.endswith(_END) else " · "


def _open_line(passage: Passage) -> str:
    when = " ".join(filter(None, (passage.place.day.partition(" ")[0], passage.place.time)))
    return f"Open: [{' | '.join(filter(None, (when, passage.place.who)))}] {passage.text}"


def _listing(frame: str, items: Sequence[str], limit: int, share: float) -> str:
    """As many of the items as their share of the summary allows, at least the beginning of the first."""
    line, cost = "", 0
    for item in items:
        cost += estimate(item) + 1
        if cost > share * limit:
            break
        line = f"{line}, {item}" if line else item
    if items and not line:
        line = truncate(items[0], max(3, min(12, limit // 8)))
    return f"{frame}{line.strip() or 'none'}"
