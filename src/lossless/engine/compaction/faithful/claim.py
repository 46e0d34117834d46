"""Claims of a summary that can be looked up."""

from __future__ import annotations

from typing import Literal, TypeAlias

from msgspec import Struct

Kind: TypeAlias = Literal["number", "name", "path", "date", "negation"]


class Claim(Struct, frozen=True):
    """A claim of a summary: its kind, and its text."""

    kind: Kind
    text: str


def words(text: str) -> frozenset[str]:
    """Return a list of words from a text."""
    return frozenset(text.split())


Judged: TypeAlias = tuple[Claim, bool, int]
"""A claim, whether the source supports it, and its place in the summary."""
