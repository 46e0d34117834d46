"""What a question asks for: its terms, which of them belong together, whom and when it is about."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator, Sequence
from itertools import pairwise

from msgspec import Struct
from msgspec.structs import replace

from lossless.search.query import dates
from lossless.search.query.irregular_words import forms
from lossless.search.query.stopwords import STOP_WORDS
from lossless.search.text import camel_parts, cjk_apart, emoji_words, has_cjk, segment

MOST_TERMS = 64
"""More than any question has; a pasted page is searched by its beginning."""
_BEGINNING = 10_000
_CHUNK = re.compile(r'"([^"]*)"|([^\s"]+)')
# Marks that stand on or around letters belong to the word; which of them a tokenizer drops is its own affair.
_MARKS = "\u0300-\u036f\u0483-\u0489\u0591-\u05c7\u0610-\u061a\u064b-\u065f\u0670\u06d6-\u06ed\u0900-\u0dff\u0e31-\u0e4e\u0eb1-\u0ece\u0f71-\u0f84\u102b-\u109d\u17b4-\u17d3"
_WORD = re.compile(f"[^\\W_](?:[^\\W_]|[{_MARKS}])*")
_COMPOUND = re.compile(r"\w[^\w\s'’]+\w|_")
_LONGEST_CJK_PHRASE = 4
_REACH = 2
_FIRST_PERSON = frozenset({"i", "me", "my", "mine", "myself", "we", "us", "our", "ours", "ourselves"})


class Term(Struct, frozen=True):
    """One thing to look for: a word or a phrase, in any of its forms (words side by side, set apart by spaces)."""

    forms: tuple[str, ...]


class Question(Struct, frozen=True):
    terms: tuple[Term, ...]
    pairs: tuple[tuple[int, int], ...]
    """Terms that stand side by side in the question, and had better do so in an answer."""
    words: frozenset[str]
    """Every word, in lower case."""
    days: tuple[dates.Day, ...]
    fillers: tuple[Term, ...]
    """The words it is made with, for when nobody said any of the others."""
    reach: int
    """How far from the words of a sentence its answer may lie, in messages. A few words must stand in it themselves."""

    @property
    def is_first_person(self) -> bool:
        return not self.words.isdisjoint(_FIRST_PERSON)

    def having(self, said: Sequence[bool]) -> Question:
        """The question without the terms that nobody said."""
        if all(said):
            return self
        numbers = {old: new for new, old in enumerate(at for at, is_said in enumerate(said) if is_said)}
        pairs = tuple((numbers[a], numbers[b]) for a, b in self.pairs if a in numbers and b in numbers)
        return replace(self, terms=tuple(self.terms[old] for old in numbers), pairs=pairs)


class _Piece(Struct, frozen=True):
    """A term with the place of its first word in the question."""

    place: int
    term: Term
    is_filler: bool = False
    is_part: bool = False


def analyse(question: str) -> Question:
    """A question as it was typed: words in any order, phrases in quotes.

    Operators and punctuation mean nothing here: `sub-agent`, `NOT`, `agent:foo`, `*` are words or
    nothing, and an unclosed quote is a character like any other.
    """
    question = unicodedata.normalize("NFC", question[:_BEGINNING].encode("utf-8", "replace").decode()).replace(
        "\0", " "
    )
    pieces = list(_pieces(emoji_words(question)))
    found = [piece for piece in pieces if not piece.is_filler]
    fillers = [piece for piece in pieces if piece.is_filler]
    numbers = _numbered(found or fillers)
    return Question(
        tuple(numbers),
        tuple(dict.fromkeys(_pairs(found, numbers))),
        frozenset(_WORD.findall(question.lower())),
        dates.named(question),
        tuple(_numbered(fillers)) if found else (),
        _REACH if (fillers and found) or any(piece.is_part for piece in found) else 0,
    )


def _numbered(pieces: list[_Piece]) -> dict[Term, int]:
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
            place += 3  # a phrase pairs with nothing
            continue
        words = _WORD.findall(match[2])
        if len(words) > 1 and _COMPOUND.search(match[2]) and not has_cjk(match[2]):
            yield _Piece(place, _phrase(" ".join(words)))
        for word in words:
            if has_cjk(word):
                yield from _cjk(place, cjk_apart(word).split())
            else:
                for part in (word, *camel_parts(word)):
                    yield _Piece(place, Term(forms(part.lower())), word.lower() in STOP_WORDS)
            place += 1


def _phrase(words: str) -> Term:
    return Term((" ".join(segment(" ".join(_WORD.findall(words))).lower().split()),))


def _cjk(place: int, characters: list[str]) -> Iterator[_Piece]:
    """A few characters are a phrase. More are a sentence without spaces, and looked for two by two."""
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
