"""What a summary says that can be looked up."""

from __future__ import annotations

from typing import Literal, TypeAlias

from msgspec import Struct

Kind: TypeAlias = Literal["number", "name", "path", "date", "negation"]


class Claim(Struct, frozen=True):
    """Something a summary says: what it is, and how it reads there."""

    kind: Kind
    text: str


def words(text: str) -> frozenset[str]:
    """Return a list of words, written as one."""
    return frozenset(text.split())


Judged: TypeAlias = tuple[Claim, bool]
"""A claim, and whether the source supports it."""
