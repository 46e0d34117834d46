"""A source as words and sentences, each read on first use."""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Collection, Iterator, Set
from functools import cached_property
from itertools import accumulate, pairwise

CJK = "\u2e80-\u9fff\uac00-\ud7ff\uf900-\ufaff\uff66-\uff9f"
PIECE = re.compile(rf"[^\W_{CJK}]+|[{CJK}]+")
_IS_CJK = re.compile(f"[{CJK}]")
_END = "."
"""Stands among words for the end of a sentence."""
_HEADER = re.compile(r"\[\d{4}-\d\d-\d\d[^\n]{0,200}\]")
"""The line before an entry of a source."""
_ASCII = bytes(range(128))
_BLANKED = bytes(each if each == 10 or each > 127 or chr(each).isalnum() else 32 for each in range(256))
_FEW = 24


def lowered(text: str) -> str:
    """Return the text in lower case, with every character in its place."""
    low = text.lower()
    return low if len(low) == len(text) else "".join(c.lower() if len(c.lower()) == 1 else c for c in text)


def is_wide(text: str) -> bool:
    """Return True if a text is mostly in a script without spaces between words."""
    return not text.isascii() and 3 * len(_IS_CJK.findall(text)) > len(text)


def sentences(text: str) -> list[str]:
    for mark in (". ", "! ", "? ", "; "):
        text = text.replace(mark, f"{mark[0]}\n")
    for mark in "。！？；":
        text = text.replace(mark, f"{mark}\n") if mark in text else text
    return text.split("\n")


class Wording:
    """The words and sentences of a source, in lower case."""

    def __init__(self, source: str) -> None:
        self.source = source

    @cached_property
    def low(self) -> str:
        return lowered(self.source)

    @cached_property
    def words(self) -> set[str]:
        found = set(self._spoken)
        found.discard(_END)
        return found

    @cached_property
    def initials(self) -> str:
        """Return the first letters of all words, to check abbreviations."""
        return "".join([word[0] for word in self._spoken if word != _END])

    @cached_property
    def strange(self) -> set[str]:
        """Return the characters of the source beyond ASCII."""
        return set(_utf8(self.low).translate(None, _ASCII).decode("utf-8", "surrogatepass"))

    def follows(self, *words: str) -> bool:
        """Return True if each word comes directly after the other, also across sentences."""
        return f" {' '.join(words)} " in self._unmarked

    @cached_property
    def wide(self) -> bool:
        """True if the source has words without spaces between them."""
        return any(map(_IS_CJK.match, self.strange))

    @cached_property
    def text(self) -> str:
        """Return the source in lower case with a line for each sentence."""
        return "\n".join(self._sentences)

    @cached_property
    def _starts(self) -> list[int]:
        return [0, *accumulate(len(line) + 1 for line in self._sentences)]

    @cached_property
    def ranks(self) -> list[int]:
        """Return the number of each sentence among those that say something; a header counts with the one after it."""
        ranks, rank = [], -1
        held = False
        for line in self._sentences:
            if line[:1] == "[" and _HEADER.fullmatch(line):
                rank += not held
                held = True
            elif line and not line.isspace():
                rank += not held
                held = False
            ranks.append(max(rank, 0))
        return ranks

    @cached_property
    def headers(self) -> list[tuple[int, str]]:
        """Return the first lines of entries with the rank of what follows."""
        lines = zip(self.ranks, self._sentences, strict=True)
        return [(rank, line) for rank, line in lines if line[:1] == "[" and _HEADER.fullmatch(line)]

    def rank(self, at: int) -> int:
        """Return the rank of the sentence at a place of `text`."""
        return self.ranks[bisect_right(self._starts, at, 0, len(self.ranks)) - 1]

    def stretch(self, first: int, last: int) -> tuple[int, int]:
        """Return the place of the sentences of these ranks in `text`."""
        start, end = bisect_left(self.ranks, first), bisect_right(self.ranks, last)
        return self._starts[start], self._starts[end]

    def located(self, wanted_words: Collection[str]) -> Iterator[tuple[str, int]]:
        """Yield each of these words with the rank of its sentence, in order."""
        ranks = iter(self.ranks)
        rank = next(ranks, 0)
        for word in filter({*wanted_words, _END}.__contains__, self._spoken):
            if word == _END:
                rank = next(ranks, rank)
            else:
                yield word, rank

    def located_pairs(self, wanted_pairs: Set[str]) -> Iterator[tuple[str, int]]:
        """Yield each of these pairs of signs with the rank of its sentence, in order."""
        for rank, line in zip(self.ranks, self._sentences, strict=True):
            if not line.isascii():
                for pair in map("".join, pairwise(line)):
                    if pair in wanted_pairs:
                        yield pair, rank

    def saying(self, wanted_words: Set[str]) -> Iterator[tuple[str, set[str]]]:
        """Yield the sentences with two or more of these words, and the words."""
        found_words: set[str] = set()
        ends = iter(self._sentences)
        for word in filter({*wanted_words, _END}.__contains__, self._spoken):
            if word != _END:
                found_words.add(word)
                continue
            sentence = next(ends)
            if len(found_words) > 1:
                yield sentence, found_words
            if found_words:
                found_words = set()

    def quotes(self, sentence: str) -> bool:
        """Return True if a sentence is one, or several in a row, of the source, apart from spaces."""
        said = " ".join(sentence.split()) + " "
        text, starts = self._unbroken
        at = text.find(said)
        while at >= 0:
            if at in starts and at + len(said) in starts:
                return True
            at = text.find(said, at + len(said))
        return False

    @cached_property
    def _unmarked(self) -> str:
        return f" {' '.join(filter(_END.__ne__, self._spoken))} "

    @cached_property
    def _sentences(self) -> list[str]:
        return sentences(self.low)

    @cached_property
    def _spoken(self) -> list[str]:
        """Return the words in order, with a mark after each sentence."""
        signs = [each for each in self.strange if not each.isalnum()]
        if len(signs) > _FEW or any(map(_IS_CJK.match, self.strange)):
            return [word for line in self._sentences for word in (*PIECE.findall(line), _END)]
        # Where no script ends a word but by a sign, blanks for all signs do the same in a quarter of the time.
        text = self.text
        for sign in signs:
            text = text.replace(sign, " ")
        bare = _utf8(text).translate(_BLANKED).decode("utf-8", "surrogatepass")
        return f"{bare}\n".replace("\n", f" {_END} ").split()

    @cached_property
    def _unbroken(self) -> tuple[str, set[int]]:
        """Return all sentences as one text, and the start of each."""
        lines = [" ".join(line.split()) + " " for line in self._sentences if line.strip()]
        starts, at = {0}, 0
        for line in lines:
            at += len(line)
            starts.add(at)
        return "".join(lines), starts


def _utf8(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")
