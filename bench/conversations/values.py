"""Invent the values of facts: amounts, identifiers, dates and names, each different from all others of a conversation."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import date, timedelta
from random import Random

from conversations.texts import Language

_THOUSANDS = {"en": ",", "de": ".", "es": ".", "fr": " ", "pt": ".", "ru": " "}
_FOLDERS = ("ops", "intake", "shared", "drafts", "archive", "plans", "forms", "inbox")
_FILES = ("layout", "ledger", "notes", "schedule", "checklist", "contract", "summary", "roster")
_ENDINGS = ("yml", "csv", "md", "pdf", "toml", "txt", "xlsx")


@dataclass(frozen=True)
class Value:
    """A value as it is written, and the spellings by which it is recognised."""

    text: str
    spellings: tuple[str, ...]
    form: str
    """`number`, `name`, `path` (any identifier), `date` or `words`."""
    near: Callable[[], Value] | None = None
    """Return the same value altered by one digit, letter or day."""


class Values:
    """Draw values; none is drawn twice."""

    def __init__(self, chosen: Language, rng: Random) -> None:
        self._language = chosen
        self._rng = rng
        self._used: set[str] = set()

    def amount(self) -> Value:
        """Return a number with a unit, or an amount of money."""
        unit = self._rng.choice(self._language.sections["unit"])
        money = self._rng.choice(self._language.sections["money"])
        if self._rng.random() < 0.3:
            number = self._fresh(lambda: self._rng.randrange(11, 100), key=unit)
            return self._counted(number, unit)
        number = self._fresh(
            lambda: self._rng.choice((self._rng.randrange(110, 1_000), self._rng.randrange(1_100, 9_900)))
        )
        form = money if self._rng.random() < 0.4 else f"{{n}}{self._gap}{unit}"
        return self._numbered(number, form)

    def _counted(self, number: int, unit: str) -> Value:
        text = f"{number}{self._gap}{unit}"
        return Value(text, (text,), "number", lambda: self._counted(number + 1, unit))

    def _numbered(self, number: int, form: str) -> Value:
        spellings = tuple(dict.fromkeys([str(number), *(f"{number:,}".replace(",", mark) for mark in ",. ")]))
        text = form.replace("{n}", self.written(number))
        return Value(text, spellings, "number", lambda: self._numbered(number + 1, form))

    def written(self, number: int) -> str:
        """Return a number in the notation of the language."""
        return f"{number:,}".replace(",", _THOUSANDS.get(self._language.code, ""))

    def identifier(self) -> Value:
        """Return a reference, a path, a link or a hash."""
        rng = self._rng
        number = self._fresh(lambda: rng.randrange(20_000, 99_000))
        kind = rng.randrange(5)
        if kind == 0:
            return _identifier(f"{rng.choice('KLMTX')}{rng.choice('BDQZ')}-", number, "")
        if kind == 1:
            return _identifier("https://intra.example.org/t/", number, "")
        if kind == 2:
            hashed = f"{rng.choice('abcdef')}{number:x}{rng.randrange(16**3):03x}"
            return Value(hashed, (hashed,), "words")
        head = f"{rng.choice(_FOLDERS)}/{rng.choice(_FILES)}-"
        return _identifier(head, number % 900 + 100, f".{rng.choice(_ENDINGS)}")

    def day(self) -> Value:
        """Return a day of the year after the conversation."""
        start = date(2026, 4, 2)
        nth = self._fresh(lambda: self._rng.randrange(0, 230), key="day")
        form = self._rng.choice(self._language.sections["date_form"])
        return self._dated(start + timedelta(days=nth), form)

    def _dated(self, day: date, form: str) -> Value:
        months, weekdays = self._language.sections["month"], self._language.sections["weekday"]
        names = {"day": str(day.day), "month": months[day.month - 1], "weekday": weekdays[day.weekday()]}
        plain = [each.format(**names) for each in self._language.sections["date_form"]]
        shortest = min(plain, key=len)
        spellings = (shortest, *plain, f"{day:%Y-%m-%d}", f"{day:%d.%m.}", f"{day:%d/%m}", f"{day.day}/{day.month}")
        text = form.format(**names)
        return Value(text, tuple(dict.fromkeys(spellings)), "date", lambda: self._dated(day + timedelta(days=1), form))

    def person(self) -> Value:
        """Return a full name, recognised by its last part."""
        first = self._rng.choice(self._language.sections["first"])
        wide = self._language.wide
        last = self._fresh_text(lambda: self._surname(2 if wide else self._rng.choice((2, 3))))
        shown = f"{first}{last}" if wide else f"{first} {last}"
        key = shown if wide else last
        return Value(shown, (key,), "name", lambda: self._renamed(first, last))

    def _renamed(self, first: str, last: str) -> Value:
        """Return the name with its last syllable exchanged."""
        syllables = self._language.sections["syllable"]
        end = next(each for each in sorted(syllables, key=len, reverse=True) if last.lower().endswith(each))
        other = syllables[(syllables.index(end) + 1) % len(syllables)]
        changed = last[: len(last) - len(end)] + other
        changed = changed[:1].upper() + changed[1:]
        shown = f"{first}{changed}" if self._language.wide else f"{first} {changed}"
        return Value(shown, (shown if self._language.wide else changed,), "name")

    def _surname(self, parts: int) -> str:
        return "".join(self._rng.choice(self._language.sections["syllable"]) for _ in range(parts)).capitalize()

    def loose_number(self) -> str:
        """Return a number for small talk that no fact has."""
        while True:
            number = self._rng.choice((self._rng.randrange(110, 1_000), self._rng.randrange(1_100, 9_900)))
            if str(number) not in self._used:
                return self.written(number)

    def loose_identifier(self) -> str:
        return f"{self._rng.choice('RSVW')}{self._rng.choice('FGHJ')}-{self._rng.randrange(10_000, 20_000)}"

    def loose_date(self) -> str:
        """Return a day of the months in which no fact has one."""
        day = date(2026, 1, 20) + timedelta(days=self._rng.randrange(65))
        return self._dated(day, self._rng.choice(self._language.sections["date_form"])).text

    @property
    def _gap(self) -> str:
        return "" if self._language.wide else " "

    def _fresh(self, draw: Callable[[], int], key: str = "") -> int:
        while True:
            number = draw()
            if f"{key}{number}" not in self._used and number not in range(2020, 2031):
                # The next number stays free, so that one altered by one is not another fact's.
                self._used.update((f"{key}{number}", f"{key}{number + 1}"))
                return number

    def _fresh_text(self, draw: Callable[[], str]) -> str:
        while (text := draw()) in self._used:
            pass
        self._used.add(text)
        return text


def _identifier(head: str, number: int, tail: str) -> Value:
    text = f"{head}{number}{tail}"
    return Value(text, (text,), "path", lambda: _identifier(head, number + 1, tail))
