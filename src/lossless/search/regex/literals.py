"""Find literals that every match of a pattern contains, so that a database can skip texts without them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from lossless.search.regex.syntax import Token, tokens

_MOST_CHOICES, _MOST_LITERALS = 8, 3
_LEAST_BYTES = 2
# Letters that a pattern which ignores case also finds in characters outside ASCII (the Kelvin sign, the long s).
_ODD = frozenset("ksKS")


class RequiredLiteral(NamedTuple):
    """Literals of which every matching text contains one; `folded`: in upper or lower case of ASCII letters."""

    any_of: tuple[str, ...]
    folded: bool = False

    def is_in(self, text: str) -> bool:
        """Return whether a text contains one of the literals."""
        if self.folded:
            text = _lowered(text)
        return any(literal in text for literal in self.any_of)


def required_literals(pattern: str) -> tuple[RequiredLiteral, ...]:
    """Return the literals that a valid pattern requires, the most selective first; empty if there are none."""
    literals = (each for each in _Reader(tokens(pattern)).alternatives() if _selectivity(each)[0] >= _LEAST_BYTES)
    return tuple(sorted(literals, key=_selectivity, reverse=True)[:_MOST_LITERALS])


class _Reader:
    """A recursive reader of the tokens of a pattern, from left to right."""

    def __init__(self, found: Iterator[Token]) -> None:
        self._found = list(found)
        self._at = 0

    def alternatives(self) -> list[RequiredLiteral]:
        branches = [self._sequence()]
        while self._next("or"):
            branches.append(self._sequence())
        return branches[0] if len(branches) == 1 else _either(branches)

    def _sequence(self) -> list[RequiredLiteral]:
        found: list[RequiredLiteral] = []
        run, folded = "", False

        def end() -> None:
            nonlocal run
            if run:
                found.append(RequiredLiteral((run,), folded))
            run = ""

        while (token := self._next()) and token.kind not in ("or", "close"):
            if token.kind == "edge":
                continue  # it has no width: the characters before and after it are adjacent
            if token.kind == "literal":
                character, folds = _folded(token)
                least = self._least()
                if folds != folded or not character or least == 0:
                    end()
                folded = folds
                if least != 0:
                    run += character
                if least is not None:
                    end()
                    run = character if least else ""
                continue
            end()
            if token.kind == "open":
                inner = self.alternatives()
                self._next("close")
                if self._least() != 0:
                    found += inner
        if token:
            self._at -= 1
        end()
        return found

    def _next(self, kind: str | None = None) -> Token | None:
        if self._at == len(self._found) or kind not in (None, self._found[self._at].kind):
            return None
        self._at += 1
        return self._found[self._at - 1]

    def _least(self) -> int | None:
        """Return the minimum count of the token just read, if a repetition follows it."""
        repeat = self._next("repeat")
        return repeat.least if repeat else None


def _folded(token: Token) -> tuple[str, bool]:
    """Return the character that a text must contain ("" if another is possible), and whether case is ignored."""
    character = token.character
    if character == "\0" or "\ud800" <= character <= "\udfff":
        return "", "i" in token.flags  # databases accept it neither in a text nor in a query
    if "i" not in token.flags:
        return character, False
    return (character.lower() if character.isascii() and character not in _ODD else ""), True


def _either(branches: list[list[RequiredLiteral]]) -> list[RequiredLiteral]:
    """Return what a text must contain whichever branch matches: the most selective literal of each."""
    best = [max(branch, key=_selectivity) for branch in branches if branch]
    folded = any(each.folded for each in best)
    literals = dict.fromkeys(literal for each in best for literal in each.any_of)
    if len(best) < len(branches) or len(literals) > _MOST_CHOICES:
        return []
    return [RequiredLiteral(tuple(map(_lowered, literals)) if folded else tuple(literals), folded)]


def _selectivity(one: RequiredLiteral) -> tuple[int, int]:
    return min(len(literal.encode("utf-8", "replace")) for literal in one.any_of), -len(one.any_of)


def _lowered(text: str) -> str:
    """Return the text with its ASCII letters in lower case, as the databases do it."""
    return text.lower() if text.isascii() else "".join(c.lower() if c.isascii() else c for c in text)
