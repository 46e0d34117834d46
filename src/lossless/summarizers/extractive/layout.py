"""Write passages as lines, under their days and speakers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby

from lossless.summarizers.extractive.passages import Passage, Place, is_known_speaker
from lossless.summarizers.extractive.weights import WeightedPassage

_MINUTES = 30
"""The minutes after which the time is shown again."""
_TOKENS_OF_DAY, _TOKENS_OF_SPAN = 64, 128
"""The length of a summary for each heading: of a day, or where there are too many, of a span of days."""
_END = (".", "!", "?", "…", ":", ";")
_WIDE_END = ("。", "！", "？")


def timed_lines(passages: Sequence[Passage]) -> Iterator[str]:
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


def dated_lines(passages: Sequence[WeightedPassage], limit: int) -> Iterator[str]:
    """Yield a line for each speaker under a day or a span of days, without times of day."""
    days = list(dict.fromkeys(each.passage.place.day for each in passages if each.passage.place.day))
    heads = _heads(days, limit)
    for head, group in groupby(passages, key=lambda each: heads.get(each.passage.place.day, "")):
        yield from [head] if head else []
        for who, said in groupby(_by_speaker(list(group)), key=lambda each: each.place.who):
            texts = list(said)
            line = f"{who}: " if who else "- "
            for nth, each in enumerate(texts):
                line += (_gap(texts[nth - 1], each) if nth else "") + each.text
            yield line


def _by_speaker(passages: Sequence[WeightedPassage]) -> list[Passage]:
    """Return the passages of each speaker together, then those that need each other."""
    needed = {other for each in passages for other in each.needs}
    paired = [each.passage for each in passages if each.needs or each.passage.at in needed]
    alone = [each.passage for each in passages if not each.needs and each.passage.at not in needed]
    order = {who: nth for nth, who in enumerate(dict.fromkeys(each.place.who for each in alone))}
    return sorted(alone, key=lambda each: order[each.place.who]) + paired


def _heads(days: Sequence[str], limit: int) -> dict[str, str]:
    """Return the heading of each day: itself, or a span of days where there are too many."""
    if len(days) <= limit // _TOKENS_OF_DAY:
        return {day: day for day in days}
    size = -(-len(days) // max(1, limit // _TOKENS_OF_SPAN))
    heads: dict[str, str] = {}
    for at in range(0, len(days), size):
        part = days[at : at + size]
        heads.update(dict.fromkeys(part, _span(part[0], part[-1])))
    return heads


def _span(first: str, last: str) -> str:
    """Return the span from one day or span to another: `2026-02-17 - 02-21 (PST)`."""
    start, zone = first[:10], first[first.index(" (") :] if " (" in first else ""
    bare = last.partition(" (")[0]
    end = bare[13:] if bare[10:13] == " - " else bare
    if not (start[:4].isdigit() and end[:2].isdigit()):
        return first
    if len(end) >= 10:
        end = end[5:10] if end[:4] == start[:4] else end[:10]
    return f"{start}{zone}" if end == start[5:] else f"{start} - {end}{zone}"


def open_line(passage: Passage, *, timed: bool) -> str:
    """Return the line of an open question: when it was asked, and by whom."""
    place = passage.place
    when = " ".join(filter(None, (place.day.partition(" ")[0], place.time))) if timed else place.day[:10]
    return f"Open: [{' | '.join(filter(None, (when, place.who)))}] {passage.text}"
