"""Dates and times as people write them, and a check that a source contains them.

A year, a zone and the half of the day are often left out, so a mention is compared by what it says and not
by what it leaves open: "4:15" is a quarter past four of either half, "17 Feb" of any year.
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Iterator
from datetime import date, timedelta
from functools import cached_property
from itertools import chain, islice
from typing import TypeAlias

from msgspec import Struct

from lossless.engine.compaction.faithful.wording import Wording

Day: TypeAlias = tuple[int, int]
"""A month and its day."""

_NAMES = (
    "january jan januar jänner января январь janvier enero janeiro",
    "february feb februar февраля февраль février febrero fevereiro",
    "march mar märz марта март mars marzo março",
    "april apr апреля апрель avril abril",
    "may mai мая mayo maio",
    "june jun juni июня июнь juin junio junho",
    "july jul juli июля июль juillet julio julho",
    "august aug августа август août agosto",
    "september sep sept сентября сентябрь septembre septiembre setembro",
    "october oct oktober okt октября октябрь octobre octubre outubro",
    "november nov ноября ноябрь novembre noviembre novembro",
    "december dec dezember dez декабря декабрь décembre diciembre dezembro",
)
_MONTHS = {name: number for number, names in enumerate(_NAMES, 1) for name in names.split()}
# Alone, these are more often other words: "may", "mar", "mars", "sep".
_MONTHS_ALONE = {name: n for name, n in _MONTHS.items() if len(name) > 4 and n != 5} | {"june": 6, "july": 7}
_WEEKDAYS = {
    name: number
    for number, names in enumerate(
        (
            "monday mon montag понедельник lunes lundi segunda-feira 周一 星期一 月曜",
            "tuesday tue dienstag вторник martes mardi terça-feira 周二 星期二 火曜",
            "wednesday wed mittwoch среду среда miércoles mercredi quarta-feira 周三 星期三 水曜",
            "thursday thu donnerstag четверг jueves jeudi quinta-feira 周四 星期四 木曜",
            "friday fri freitag пятницу пятница viernes vendredi sexta-feira 周五 星期五 金曜",
            "saturday sat samstag субботу суббота sábado samedi 周六 星期六 土曜",
            "sunday sun sonntag воскресенье domingo dimanche 周日 星期日 日曜",
        )
    )
    for name in names.split()
}
_RELATIVE = {
    "tomorrow": 1,
    "morgen": 1,
    "завтра": 1,
    "明天": 1,
    "yesterday": -1,
    "gestern": -1,
    "вчера": -1,
    "昨天": -1,
}
_RELATIVE |= {"week later": 7, "next week": 7, "in a week": 7, "nächste woche": 7}

_MONTH = rf"(?:{'|'.join(sorted(_MONTHS, key=len, reverse=True))})"
_DAY = r"\d{1,2}(?:st|nd|rd|th|\.)?"
_DAYS = rf"{_DAY}(?:\s?(?:-|–|—|to|and|bis|und|until|through|&|/|,)\s?{_DAY})?"
_YEAR = r"(?:,?\s(?P<{}>\d{{4}})(?!\d))?"
_NAMED = re.compile(
    rf"(?<![\w.])(?P<before>{_DAYS})\s?(?:of\s|de\s)?(?P<month>{_MONTH})\b{_YEAR.format('y1')}"
    rf"|\b(?P<month2>{_MONTH})\b\.?\s{{1,2}}(?P<after>{_DAYS})(?!\d|:\d|[.,]\d|\s?[ap]m){_YEAR.format('y2')}"
)
# Both begin with a digit and look back behind it, because only then can the search skip what is no digit.
_WRITTEN = re.compile(
    r"(?P<n>\d(?<![a-z0-9_.]\d)\d{0,3})(?:"
    r"(?<=\d{4})[-/.](?P<m>\d{1,2})[-/.](?P<d>\d{1,2})(?:[ t](?P<hh>\d\d):(?P<mm>\d\d)(?::(?P<ss>\d\d))?)?"
    # Without a year it is a date only in a range: "release 15.4." ends a sentence.
    r"|\.\s?(?P<m2>\d{1,2})\.(?:(?P<y2>\d{4})(?!\d)|(?=\s?[-–])|(?<=[-–]\d\.\d\.)|(?<=[-–]\d\d\.\d\.))"
    r"|/(?P<b>\d{1,2})/(?P<y3>\d{4}|\d\d)(?!\d)"
    r"|年(?P<m4>\d{1,2})月(?P<d4>\d{1,2})[日号]|月(?P<d5>\d{1,2})[日号])"
)
_HALF = r"(?:am|pm|a\.m\.|p\.m\.)"
_CLOCK = re.compile(
    r"(?P<h>\d(?<![\d.:/#$€£]\d)\d?)(?:[:h](?P<m>\d\d)(?::(?P<s>\d\d))?)?(?:"
    rf"\s?(?:-|–|to|and|bis)\s?(?P<h2>\d{{1,2}})(?::(?P<m2>\d\d))?\s?(?P<half2>{_HALF})(?!\w)"
    rf"|\s?(?P<half>{_HALF})(?!\w)|\s?(?:uhr\b|点|時|час)|(?(m)(?![\d:])|(?!)))"
)
# "Plot 19 may not be let" is no date.
_MODAL = re.compile(r" (?!at|to|from|and|or|until|for|in|by|with|as|is|was|on)[a-z]")
_SPELLED = re.compile(r"(\d{1,2})\s?(?:h|hours?|m|min|minutes?)\s(?:and\s)?(\d{1,2})(?!\d)")
_WORDS = re.compile(r"[^\W\d_]+")
_ORDINAL = re.compile(r"(\d(?<!\w\d)\d?)(?:st|nd|rd|th|日|-го)\b")
_COMPACT = re.compile(r"20(?<!\d20)\d\d(0[1-9]|1[0-2])([0-3]\d)(?!\d)")
# What every entry of a source begins with is no riddle: taken out first, it need not be read by what follows.
_HEADER = re.compile(r"\[(\d{4})-(0[1-9]|1[0-2])-(0[1-9]|[12]\d|3[01])[ t](\d\d):(\d\d)(?!\d|:\d\d)")
_DAYS_OF_HEADER = re.compile(r"(\d{4})-(\d\d)-(\d\d)")
_BLANK = f"[{' ' * 16}"
_MANY = 500
_AROUND = 40
_FEW = 8
_CLOCK_OF_HEADER = re.compile(r"\[\d{4}-\d\d-\d\d (\d\d):(\d\d)")
_BESIDE = 18
"""The most characters between a weekday and its date."""


class Mention(Struct, frozen=True):
    """A date or time: year, month and day, or minutes and seconds of a clock."""

    text: str
    at: int = 0
    """Its place in the text."""
    year: int | None = None
    month: int | None = None
    day: int | None = None
    minutes: tuple[int, ...] = ()
    """Of the day, one for each half it may mean."""
    seconds: int | None = None
    weekday: int | None = None
    stamp: bool = False


def read(text: str, words: set[str]) -> tuple[list[Mention], str]:
    """Read the dates and times of a lower-case text; return them, and the text with blanks in their place."""
    found: list[Mention] = []
    take = _Taker(found)
    text = _WRITTEN.sub(take.written, text)
    pieces: list[str] = []
    for piece, near in _near_months(text, words):
        pieces.append(_NAMED.sub(take.named, piece) if near else piece)
        take.base += len(piece)
    take.base = 0
    return found, _CLOCK.sub(take.clock, "".join(pieces))


def _near_months(text: str, words: set[str]) -> Iterator[tuple[str, bool]]:
    """Yield the text in pieces, and True for those that may contain a date with a month name."""
    spots = sorted({at for name in words & _MONTHS.keys() for at in _places(name, text)})
    done = 0
    for first, last in _merged(spots):
        start = max(done, first - _AROUND)
        yield text[done:start], False
        done = last + _AROUND
        yield text[start:done], True
    yield text[done:], False


def _places(name: str, text: str) -> Iterator[int]:
    at = text.find(name)
    while at >= 0:
        yield at
        at = text.find(name, at + 1)


def _merged(spots: list[int]) -> Iterator[tuple[int, int]]:
    """Merge neighbouring stretches, so that no date is cut."""
    first = last = None
    for spot in spots:
        if first is not None and last is not None and spot - last > 2 * _AROUND:
            yield first, last
            first = spot
        first, last = spot if first is None else first, spot
    if first is not None and last is not None:
        yield first, last


class _Taker:
    """A helper that removes matches from the text, except those that are no dates."""

    def __init__(self, found: list[Mention]) -> None:
        self.found = found
        self.base = 0
        """The place of the text that matches are counted from."""

    def written(self, match: re.Match[str]) -> str:
        year: str | None = match["n"]
        month, day = match["m"], match["d"]
        if match["m2"]:
            year, month, day = match["y2"], match["m2"], match["n"]
        elif match["b"]:
            year, month, day = match["y3"], match["n"], match["b"]
            if int(month) > 12:
                month, day = day, month
        elif match["m4"]:
            month, day = match["m4"], match["d4"]
        elif match["d5"]:
            year, month, day = None, match["n"], match["d5"]
        if not self._add(match, year, month, [day], stamp=bool(match["hh"])):
            return match[0]
        if match["hh"]:
            self._time(match, match["hh"], match["mm"], match["ss"], None, stamp=True)
        return " " * len(match[0])

    def named(self, match: re.Match[str]) -> str:
        month = _MONTHS[match["month"] or match["month2"]]
        days = re.findall(r"\d+", match["before"] or match["after"])
        year = match["y1"] or match["y2"]
        if match["month"] == "may" and not year and _MODAL.match(match.string, match.end()):
            return match[0]
        return " " * len(match[0]) if self._add(match, year, str(month), days) else match[0]

    def clock(self, match: re.Match[str]) -> str:
        half = match["half2"] or match["half"]
        self._time(match, match["h"], match["m"], match["s"], half)
        if match["h2"]:
            self._time(match, match["h2"], match["m2"], None, half)
        return " " * len(match[0])

    def _add(self, match: re.Match[str], year: str | None, month: str, days: list[str], *, stamp: bool = False) -> bool:
        if not (1 <= int(month) <= 12 and all(1 <= int(day) <= 31 for day in days)):
            return False
        known = int(year) + (2000 if len(year) == 2 else 0) if year else None
        for day in days:
            text, at = match[0].strip(" .,"), self.base + match.start()
            self.found.append(Mention(text, at, year=known, month=int(month), day=int(day), stamp=stamp))
        return True

    def _time(
        self,
        match: re.Match[str],
        hour: str,
        minute: str | None,
        second: str | None,
        half: str | None,
        *,
        stamp: bool = False,
    ) -> None:
        h, m = int(hour), int(minute or 0)
        if half and h <= 12:
            hours = [h % 12 + (12 if half.startswith("p") else 0)]
        else:
            hours = [h, (h + 12) % 24] if h <= 12 and not stamp else [h]
        seconds = h * 3600 + m * 60 + int(second) if second else None
        minutes = tuple(each * 60 + m for each in hours)
        self.found.append(
            Mention(match[0].strip(), self.base + match.start(), minutes=minutes, seconds=seconds, stamp=stamp)
        )


def is_named(word: str) -> bool:
    """Return True if a word is a month or a weekday."""
    return word in _MONTHS or word in _WEEKDAYS


def named_alone(text: str) -> Iterator[Mention]:
    """Return weekdays and months without a day, in a lower-case text without dates."""
    for found in _WORDS.finditer(text):
        word = found[0]
        if (weekday := _WEEKDAYS.get(word)) is not None and len(word) > 3:
            yield Mention(word, found.start(), weekday=weekday)
        elif month := _MONTHS_ALONE.get(word):
            yield Mention(word, found.start(), month=month)


class Calendar:
    """Every date and time in a source."""

    def __init__(self, source: Wording) -> None:
        self._wording, self._source, self._words, self._strange = source, source.text, source.words, source.strange
        headers = set(_HEADER.findall(self._source))
        mentions, self.undated = read(_HEADER.sub(_BLANK, self._source), source.words)
        self._mentions = mentions
        self.dates = {(m.year, m.month, m.day) for m in mentions if m.day and m.month}
        self.dates |= {(int(year), int(month), int(day)) for year, month, day, _, _ in headers}
        self._any_year: set[Day] = {(month, day) for _, month, day in self.dates}
        self.years = {year for year, _, _ in self.dates if year}
        self.days = {day for _, _, day in self.dates}
        self._months = {month for _, month, _ in self.dates} | {_MONTHS[word] for word in self._words & _MONTHS.keys()}
        self._stamps = {m.minutes[0] for m in mentions if m.stamp and m.minutes}
        self._stamps |= {int(hour) * 60 + int(minute) for _, _, _, hour, minute in headers}
        self._minutes = self._stamps.union(*(m.minutes for m in mentions))
        self._seconds = {m.seconds for m in mentions if m.seconds is not None}

    def knows(self, mention: Mention, *, about: bool = False) -> bool:
        if mention.minutes:
            return self._knows_time(mention, about)
        if mention.weekday is not None:
            return self._knows_weekday(mention.weekday)
        if mention.day is None or mention.month is None:
            return mention.month in self._months
        return self._knows_date(mention.year, mention.month, mention.day)

    def places(self, mention: Mention, *, implied: bool = False) -> list[range]:
        """Return the ranks of the sentences that name a day or time, or were said then.

        With `implied` of those that mean a day by other words: "tomorrow", "the 17th", "a week later".
        """
        if mention.minutes:
            return [place for minute in mention.minutes for place in self._timed(minute)][:_MANY]
        if not mention.month or not mention.day:
            return []
        day = (mention.month, mention.day)
        if implied:
            return self._implied.get(day, [])[:_MANY]
        return [*self._named.get(day, ())[:_MANY], *self._said.get(day, ())[:_MANY]]

    def lasts(self, mention: Mention) -> bool:
        """Return True if the source has a duration that may be written like this time."""
        return not self._durations.isdisjoint(mention.minutes)

    def _timed(self, minute: int) -> Iterator[range]:
        for exact in self._clocks if minute % 30 == 0 else (minute,):
            places, said = self._clocks.get(exact, ((), ()))
            yield from places if exact == minute else ()
            yield from said if exact == minute or _rounded(exact, minute) else ()

    @cached_property
    def _clocks(self) -> dict[int, tuple[list[range], list[range]]]:
        """Return the sentences that name each minute of the day, and those that were said at it."""
        clocks: dict[int, tuple[list[range], list[range]]] = defaultdict(lambda: ([], []))
        for mention, rank in zip(self._mentions, self._mention_ranks, strict=True):
            for minute in mention.minutes:
                clocks[minute][mention.stamp].append(range(rank, rank + 1))
        for place, line in self._entries:
            if clock := _CLOCK_OF_HEADER.match(line):
                clocks[int(clock[1]) * 60 + int(clock[2])][1].append(place)
        return clocks

    @cached_property
    def _mention_ranks(self) -> list[int]:
        return [self._wording.rank(mention.at) for mention in self._mentions]

    @cached_property
    def _entries(self) -> list[tuple[range, str]]:
        """Return the ranks of each entry, and its first line."""
        headers = self._wording.headers
        ends = [rank for rank, _ in headers[1:]] + [self._wording.ranks[-1] + 1 if self._wording.ranks else 1]
        # An entry of one sentence is a span of two: what it was said at is no part of it.
        return [(range(rank, max(end, rank + 2)), line) for (rank, line), end in zip(headers, ends, strict=False)]

    @cached_property
    def _named(self) -> dict[Day, list[range]]:
        named: dict[Day, list[range]] = defaultdict(list)
        for mention, rank in zip(self._mentions, self._mention_ranks, strict=True):
            if mention.month and mention.day:
                named[mention.month, mention.day].append(range(rank, rank + 1))
        return named

    @cached_property
    def _implied(self) -> dict[Day, list[range]]:
        implied: dict[Day, list[range]] = defaultdict(list)
        for day, rank in (*self._relative, *self._loose, *self._compact):
            implied[day].append(range(rank, rank + 1))
        return implied

    @cached_property
    def _loose(self) -> list[tuple[Day, int]]:
        """Return days without a month ("the 17th") in the months that they may mean, and the rank of the sentence."""
        found = [(int(each[1]), self._wording.rank(each.start())) for each in _ORDINAL.finditer(self.undated)]
        if not found:
            return []
        headers = self._wording.headers
        starts, months = [rank for rank, _ in headers], [int(line[6:8]) for _, line in headers]
        loose: list[tuple[Day, int]] = []
        for day, rank in found:
            at = bisect_right(starts, rank) - 1
            seen = {months[at], months[at] % 12 + 1} if at >= 0 else set()
            named = self._months if not months else seen | self._months_near(rank)
            loose += [((month, day), rank) for month in sorted(named)]
        return loose

    def _months_near(self, rank: int) -> set[int]:
        text = self._source[slice(*self._wording.stretch(rank - 1, rank + 1))]
        return {_MONTHS[word] for word in _WORDS.findall(text) if word in _MONTHS}

    @cached_property
    def _compact(self) -> list[tuple[Day, int]]:
        found = _COMPACT.finditer(self._source)
        return [((int(each[1]), int(each[2])), self._wording.rank(each.start())) for each in found]

    @cached_property
    def _said(self) -> dict[Day, list[range]]:
        """Return the ranks of the entries of each day."""
        said: dict[Day, list[range]] = defaultdict(list)
        for place, line in self._entries:
            for _, month, day in _DAYS_OF_HEADER.findall(line):
                said[int(month), int(day)].append(place)
        return said

    def _knows_date(self, year: int | None, month: int, day: int) -> bool:
        if (year, month, day) in self.dates or (year is None and (month, day) in self._any_year):
            return True
        if year and (None, month, day) in self.dates and year in self.years:
            return True
        if year is not None and year not in self.years:
            return False
        return (month, day) in self._implied

    def _knows_weekday(self, weekday: int) -> bool:
        if any(number == weekday and self._says(name) for name, number in _WEEKDAYS.items()):
            return True
        return any(_weekday(*each) == weekday for each in self.dates)

    def _knows_time(self, mention: Mention, about: bool) -> bool:
        if mention.seconds is not None:
            return mention.seconds in self._seconds
        if not self._minutes.isdisjoint(mention.minutes) or not self._durations.isdisjoint(mention.minutes):
            return True
        nearby = self._minutes if about else self._stamps
        return any(_rounded(exact, minute) for minute in mention.minutes for exact in nearby)

    @cached_property
    def _durations(self) -> set[int]:
        """Return durations in words ("3 minutes 10"), which a summary may write as 3:10."""
        spelled = _SPELLED.findall(self.undated)
        return {int(most) * 60 + int(rest) for most, rest in spelled} | ({720} if "noon" in self._words else set())

    @cached_property
    def _relative(self) -> list[tuple[Day, int]]:
        """Return the days meant by "tomorrow" or "on Friday", seen from their message, and the rank of the sentence."""
        found: list[tuple[Day, int]] = []
        starts = [place.start for place, _ in self._entries]
        phrases = [phrase for phrase in [*_RELATIVE, *_WEEKDAYS] if self._says(phrase)] if starts else []
        for phrase in phrases:
            for at in islice(_places(phrase, self._source), _MANY):
                rank = self._wording.rank(at)
                today = _iso(self._entries[max(0, bisect_right(starts, rank) - 1)][1][1:11])
                if today and not self._is_dated(at):
                    found += [(day, rank) for day in _meant(phrase, today, self._source[max(0, at - 5) : at])]
        return found + list(self._weeks_later())

    def _weeks_later(self) -> Iterator[tuple[Day, int]]:
        """Yield the days one or two weeks after a date beside the words "week later", and the rank of these."""
        if "later" not in self._words:
            return
        for at in islice(chain(_places("week later", self._source), _places("weeks later", self._source)), _MANY):
            rank = self._wording.rank(at)
            for mention, place in zip(self._mentions, self._mention_ranks, strict=True):
                near = abs(place - rank) < _FEW and mention.day and mention.month
                known = _date(mention.year or 2000, mention.month or 1, mention.day or 1) if near else None
                if known:
                    yield from ((_day(known + timedelta(weeks=weeks)), rank) for weeks in (1, 2))

    def _is_dated(self, at: int) -> bool:
        """Return True if a date stands beside a weekday: "Friday, 13 March" is no other Friday."""
        after = bisect_left(self._dated, at - _BESIDE)
        return after < len(self._dated) and self._dated[after] <= at + _BESIDE

    @cached_property
    def _dated(self) -> list[int]:
        return sorted(mention.at for mention in self._mentions if mention.day and mention.month)

    def _says(self, phrase: str) -> bool:
        if phrase.isascii():
            return self._words.issuperset(phrase.split())
        return not self._strange.isdisjoint(phrase) and phrase in self._source


def _meant(phrase: str, today: date, before: str) -> Iterator[Day]:
    """Yield the days that "tomorrow" or "Friday" may mean on a day; `before` is the text before it."""
    if phrase in _RELATIVE:
        yield _day(today + timedelta(_RELATIVE[phrase]))
        return
    ahead = (_WEEKDAYS[phrase] - today.weekday()) % 7
    yield _day(today + timedelta(ahead))
    yield _day(today + timedelta(ahead - 7))
    if before == "next " or not ahead:
        yield _day(today + timedelta(ahead + 7))


def _rounded(exact: int, minute: int) -> bool:
    """Return True if a summary may round this minute to the hour or half-hour."""
    return (minute % 30 == 0 and abs(exact - minute) < 30) or (minute % 60 == 0 and minute // 60 == exact // 60)


def _date(year: int, month: int, day: int) -> date | None:
    try:
        return date(year, month, day)
    except ValueError:
        return None


def _iso(text: str) -> date | None:
    return _date(*map(int, text.split("-")))


def _weekday(year: int | None, month: int | None, day: int | None) -> int | None:
    known = _date(year, month, day) if year and month and day else None
    return known.weekday() if known else None


def _day(when: date) -> Day:
    return when.month, when.day
