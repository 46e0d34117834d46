"""Analyse a full-text question: its terms, pairs of terms, dates and person."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator, Sequence
from functools import lru_cache
from itertools import pairwise
from typing import Literal

from msgspec import Struct
from msgspec.structs import replace

from lossless.search.query import dates
from lossless.search.query.irregular_words import word_forms
from lossless.search.query.stopwords import STOP_WORDS
from lossless.search.segment import camel_parts, has_cjk, replace_emoji, segment, separate_cjk

MOST_TERMS = 64
"""More than any question has; of a pasted page only the beginning is searched."""
_BEGINNING = 10_000
_CHUNK = re.compile(r'"([^"]*)"|([^\s"]+)')
# Combining marks belong to the word, whether or not a tokenizer drops them.
_MARKS = "\u0300-\u036f\u0483-\u0489\u0591-\u05c7\u0610-\u061a\u064b-\u065f\u0670\u06d6-\u06ed\u0900-\u0dff\u0e31-\u0e4e\u0eb1-\u0ece\u0f71-\u0f84\u102b-\u109d\u17b4-\u17d3"
_WORD = re.compile(f"[^\\W_](?:[^\\W_]|[{_MARKS}])*")
_COMPOUND = re.compile(r"\w[^\w\s'’]+\w|_")
_LONGEST_CJK_PHRASE = 4
_REACH = 2
_FIRST_PERSON = frozenset({"i", "me", "my", "mine", "myself", "we", "us", "our", "ours", "ourselves"})
_SECOND_PERSON = re.compile(
    r"\b(?:you|your) (?:\w+ly |already |ever |just |once )?(?:t[eo]l[dl]|say|said|suggest|recommend|advi[sc]e|advised|give|gave|given"
    r"|explain|mention|propose|answer|repl|write|wrote|written|describe|show|list|warn|promise|offer|conclu|find|found)",
    re.IGNORECASE,
)
_AGGREGATING = re.compile(
    r"\b(?:how (?:many|often)|list (?:all|every|the|of)|all (?:the|of|my|our|his|her|their)|every time|each time"
    r"|in (?:what|which) order|chronolog\w*|timeline|summari[sz]e|summary of|overview|over time|recap)\b",
    re.IGNORECASE,
)


class Term(Struct, frozen=True):
    """A word or phrase to find, in any of its forms; the words of a phrase are separated by spaces."""

    forms: tuple[str, ...]


class Question(Struct, frozen=True):
    """An analysed question."""

    terms: tuple[Term, ...]
    pairs: tuple[tuple[int, int], ...]
    """Pairs of terms that are adjacent in the question, and preferably in an answer."""
    words: frozenset[str]
    """Every word, in lower case."""
    days: tuple[dates.Day, ...]
    agos: tuple[dates.Ago, ...]
    event: dates.EventTime | None
    side: Literal["user", "assistant"] | None
    """The side of the dialogue that the question is about: `I` said it, or `you` said it to me."""
    is_aggregating: bool
    """It asks about many messages: how many, in what order, all of them."""
    fillers: tuple[Term, ...]
    """Its stop words, used if no message contains any other term."""
    reach: int
    """How far from the words of a sentence its answer may lie, in messages. A few words must stand in it themselves."""

    @property
    def names_time(self) -> bool:
        """Return whether the question names a time."""
        return bool(self.days or self.agos or self.event)

    def keep_terms(self, is_used: Sequence[bool]) -> Question:
        """Return the question with only the terms that some message contains."""
        if all(is_used):
            return self
        numbers = {old: new for new, old in enumerate(at for at, used in enumerate(is_used) if used)}
        pairs = tuple((numbers[a], numbers[b]) for a, b in self.pairs if a in numbers and b in numbers)
        return replace(self, terms=tuple(self.terms[old] for old in numbers), pairs=pairs)


class _Piece(Struct, frozen=True):
    """A term and the position of its first word in the question."""

    place: int
    term: Term
    is_filler: bool = False
    is_part: bool = False


@lru_cache(32)
def analyse(question: str) -> Question:
    """Analyse a question as it was typed: words in any order, phrases in quotes.

    There are no operators: `sub-agent`, `NOT`, `agent:foo`, `*` are words or nothing, and an unclosed quote is an
    ordinary character.
    """
    question = unicodedata.normalize("NFC", question[:_BEGINNING].encode("utf-8", "replace").decode()).replace(
        "\0", " "
    )
    pieces = list(_pieces(replace_emoji(question)))
    found = [piece for piece in pieces if not piece.is_filler]
    fillers = [piece for piece in pieces if piece.is_filler]
    numbers = _number_terms(found or fillers)
    words = frozenset(_WORD.findall(question.lower()))
    return Question(
        terms=tuple(numbers),
        pairs=tuple(dict.fromkeys(_pairs(found, numbers))),
        words=words,
        days=dates.find_dates(question),
        agos=dates.find_relative(question),
        event=dates.find_event(question),
        side=_side(question, words),
        is_aggregating=_AGGREGATING.search(question) is not None,
        fillers=tuple(_number_terms(fillers)) if found else (),
        reach=_REACH if (fillers and found) or any(piece.is_part for piece in found) else 0,
    )


def _side(question: str, words: frozenset[str]) -> Literal["user", "assistant"] | None:
    if _SECOND_PERSON.search(question):
        return "assistant"
    return None if words.isdisjoint(_FIRST_PERSON) else "user"


def _number_terms(pieces: list[_Piece]) -> dict[Term, int]:
    numbers: dict[Term, int] = {}
    for piece in pieces:
        numbers.setdefault(piece.term, len(numbers))
        if len(numbers) == MOST_TERMS:
            break
    return numbers


def _pieces(question: str) -> Iterator[_Piece]:
    if question.count('"') % 2:
        question = question[::-1].replace('"', " ", 1)[::-1]
    place = 0
    for match in _CHUNK.finditer(question):
        if match[1] is not None:
            if _WORD.search(match[1]):
                yield _Piece(place, _phrase(match[1]))
            place += 3  # a phrase is not paired with its neighbours
            continue
        words = _WORD.findall(match[2])
        if len(words) > 1 and _COMPOUND.search(match[2]) and not has_cjk(match[2]):
            yield _Piece(place, _phrase(" ".join(words)))
        for word in words:
            if has_cjk(word):
                yield from _cjk(place, separate_cjk(word).split())
            else:
                for part in (word, *camel_parts(word)):
                    yield _Piece(place, Term(word_forms(part.lower())), word.lower() in STOP_WORDS)
            place += 1


def _phrase(words: str) -> Term:
    return Term((" ".join(segment(" ".join(_WORD.findall(words))).lower().split()),))


def _cjk(place: int, characters: list[str]) -> Iterator[_Piece]:
    """Yield a few characters as a phrase; more are a sentence without spaces, searched in pairs of characters."""
    if len(characters) <= _LONGEST_CJK_PHRASE:
        yield _Piece(place, Term((" ".join(characters),)))
    else:
        for one, other in pairwise(characters):
            yield _Piece(place, Term((f"{one} {other}",)), is_part=True)


def _pairs(pieces: list[_Piece], numbers: dict[Term, int]) -> Iterator[tuple[int, int]]:
    for one, other in pairwise(pieces):
        if one.place < other.place <= one.place + 2 and one.term in numbers and other.term in numbers:
            a, b = numbers[one.term], numbers[other.term]
            if a != b:
                yield a, b
