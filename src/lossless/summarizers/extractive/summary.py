"""Summarize without a model, by quoting.

Every sentence of the summary is a quotation of the source. It takes the sentences with most facts for their length,
spreads them over the time of the source, avoids repetition, and names what it left out. Deterministic and offline.

The format, which it also reads when summaries are condensed (`…` for omissions, `·` between lines):

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
from lossless.summarizers.extractive import topics
from lossless.summarizers.extractive.passages import ParsedSource, Passage, Place, is_known_speaker
from lossless.summarizers.extractive.ranking import rank_passages
from lossless.summarizers.extractive.reader import read_source
from lossless.summarizers.extractive.weights import WeightedPassage, split_words, weigh
from lossless.tokens import estimate, truncate

FILES = "Files: "
EXPAND = "Expand for details about: "
_FILES_SHARE, _EXPAND_SHARE = 0.1, 0.06
_MOST_TOPICS = 10
_MOST_NAMED = 5
_WORDING = "the exact wording"
_MINUTES = 15
"""The minutes after which the time is shown again."""
_END = (".", "!", "?", "…", ":", ";")
_WIDE_END = ("。", "！", "？")


def summarize(request: SummaryRequest) -> str:
    """Summarize `request.source` by quotations, at most `request.target_tokens` long.

    It ends with a `Files:` line and a line of omitted topics, and is shorter than its source wherever these fit.
    """
    parsed = read_source(request.source, request.depth)
    weighted = weigh(parsed.passages)
    limit = max(1, min(request.target_tokens, estimate(request.source) - 1))
    known = {word.lower() for word in split_words(request.previous or "")}
    order = list(rank_passages(weighted, known, limit))
    draft = _Draft(parsed, weighted, source=request.source, limit=limit)
    fits, exceeds = 0, len(order) + 1
    while exceeds - fits > 1:
        middle = (fits + exceeds) // 2
        if estimate(draft.text(order[:middle])) <= limit:
            fits = middle
        else:
            exceeds = middle
    return draft.text(order[:fits])


def left_out(source: str, depth: int, summary: str) -> str:
    """Name topics of a source that its summary does not mention."""
    parsed = read_source(source, depth)
    mentioned = {word.lower() for word in split_words(summary)}
    missing = (topic for topic in topics.list_topics(parsed, weigh(parsed.passages)) if topic.lower() not in mentioned)
    return ", ".join(islice(missing, _MOST_NAMED)) or _WORDING


class _Draft:
    """A summary of any selection of passages."""

    def __init__(self, parsed: ParsedSource, weighted: Sequence[WeightedPassage], source: str, limit: int) -> None:
        self._limit = limit
        self._count = len(weighted)
        self._files = _listing(FILES, topics.list_files(parsed, source), limit, _FILES_SHARE)
        self._tools = topics.list_tools(parsed)
        self._topics = topics.list_topics(parsed, weighted)

    def text(self, chosen: Sequence[WeightedPassage]) -> str:
        ordered = sorted(chosen, key=lambda each: each.passage.at)
        opened = [_open_line(each.passage) for each in ordered if each.open]
        lines = _lines([each.passage for each in ordered if not each.open])
        return "\n".join([*lines, *opened, self._files, self._expand(ordered)])

    def _expand(self, chosen: Sequence[WeightedPassage]) -> str:
        # A word of no chosen passage must be from one of the others.
        shown = {fact for each in chosen for fact in each.facts}
        left = (topic for topic in self._topics if topic.lower() not in shown)
        items = [*self._tools, *islice(left, _MOST_TOPICS)]
        if not items and (len(chosen) < self._count or not self._count):
            items = [_WORDING]
        return _listing(EXPAND, items, self._limit, _EXPAND_SHARE)


def _lines(passages: Sequence[Passage]) -> Iterator[str]:
    """Yield a line for each turn under its day, with the time if some minutes have passed."""
    line, last, shown = "", Passage(-2, Place(), ""), ""
    for passage in passages:
        place = passage.place
        is_shown = place.day == last.place.day and not _is_later(shown, place.time)
        if line and is_shown and place.who == last.place.who:
            line += _gap(last, passage) + passage.text
        else:
            yield from [line] if line else []
            yield from [place.day] if place.day != last.place.day else []
            line = f"{_speaker(place, is_shown)}{passage.text}"
            shown = shown if is_shown else place.time
        last = passage
    yield from [line] if line else []


def _speaker(place: Place, is_shown: bool) -> str:
    if not place.who:
        return "- "
    bare = is_shown and is_known_speaker(place.who)
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
    """Join as many items as their share of the summary allows, at least the beginning of the first."""
    line, cost = "", 0
    for item in items:
        cost += estimate(item) + 1
        if cost > share * limit:
            break
        line = f"{line}, {item}" if line else item
    if items and not line:
        line = truncate(items[0], max(3, min(12, limit // 8)))
    return f"{frame}{line.strip() or 'none'}"
