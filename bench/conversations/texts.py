"""Read the texts of a language and compose sentences from them.

A file in `texts/` has sections of alternatives, one on a line or several between bars. A slot `{name}` stands for a random
alternative of that section, `{Name}` for the same with a capital. A section `[domain NAME]` holds the words of a domain.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from random import Random

TEXTS = Path(__file__).with_name("texts")
_SLOT = re.compile(r"\{(\w+)\}")
_ARTICLES = frozenset(("der", "die", "das", "el", "la", "los", "las", "le", "les", "o", "a", "os", "as"))


@dataclass(frozen=True)
class Topic:
    """A thing that a domain is about: its name, and the words by which a text names it."""

    name: str
    words: tuple[str, ...]


@dataclass(frozen=True)
class Domain:
    """The words of one domain."""

    name: str
    topics: tuple[Topic, ...]
    options: tuple[str, ...]
    errors: tuple[str, ...]
    fixes: tuple[str, ...]
    tools: tuple[str, ...]


@dataclass(frozen=True)
class Language:
    """The sections of one language."""

    code: str
    name: str
    sections: Mapping[str, tuple[str, ...]]
    domains: Mapping[str, Domain]

    @property
    def wide(self) -> bool:
        """True if its script has no spaces between words."""
        return self.code in ("zh", "ja")

    def join(self, sentences: list[str]) -> str:
        return ("" if self.wide else " ").join(sentences)


@cache
def language(code: str) -> Language:
    """Return a language by its code, e.g. "en"."""
    sections: dict[str, list[str]] = {}
    current: list[str] = []
    for line in (TEXTS / f"{code}.txt").read_text("utf-8").splitlines():
        if line.startswith("["):
            current = sections.setdefault(line.strip("[]"), [])
        elif line:
            current.append(line)
    domains = {head[7:]: _domain(head[7:], lines) for head, lines in sections.items() if head.startswith("domain ")}
    plain = {head: _alternatives(lines) for head, lines in sections.items() if not head.startswith("domain ")}
    return Language(code, plain["language"][0], plain, domains)


@cache
def pairs() -> tuple[tuple[str, str], ...]:
    """Return every language with every domain it has texts for."""
    codes = sorted(path.stem for path in TEXTS.glob("*.txt"))
    return tuple((code, domain) for code in codes for domain in language(code).domains)


def _alternatives(lines: list[str]) -> tuple[str, ...]:
    return tuple(item.strip() for line in lines for item in line.split(" | "))


def _domain(name: str, lines: list[str]) -> Domain:
    lists = {head.strip(): _alternatives([rest]) for head, _, rest in (line.partition("=") for line in lines)}
    topics = tuple(_topic(form, noun) for form in lists["thing"] for noun in lists["noun"])
    return Domain(name, topics, lists["option"], lists["error"], lists["fix"], lists["tool"])


def _topic(form: str, noun: str) -> Topic:
    article, _, bare = noun.partition(" ")
    words = (bare if article in _ARTICLES else noun, form.replace("{noun}", "").strip())
    return Topic(form.replace("{noun}", noun), words)


class Composer:
    """Fill templates of a language with random alternatives."""

    def __init__(self, chosen: Language, rng: Random, slots: Mapping[str, Callable[[], str]]) -> None:
        self._language = chosen
        self._rng = rng
        self._slots = slots

    def compose(self, section: str, **given: str) -> str:
        """Return a sentence from a random template of a section."""
        return self.fill(self._rng.choice(self._language.sections[section]), **given)

    def fill(self, template: str, **given: str) -> str:
        """Return the template with its slots filled, beginning with a capital."""
        text = _SLOT.sub(lambda slot: self._value(slot[1], given), template)
        return text[:1].upper() + text[1:]

    def _value(self, name: str, given: Mapping[str, str]) -> str:
        low = name.lower()
        text = given.get(low) or (self._slots[low]() if low in self._slots else self._part(low, given))
        return text[:1].upper() + text[1:] if name[0].isupper() else text

    def _part(self, section: str, given: Mapping[str, str]) -> str:
        template = self._rng.choice(self._language.sections[section])
        return _SLOT.sub(lambda slot: self._value(slot[1], given), template)
