"""Where a transcript belongs that shares no entry with what is stored."""

from __future__ import annotations

from typing import Any

import pytest

from lossless.engine.sync.continuation import Fingerprint, Situation, choose_destination


def told(*words: str, role: str = "user", at: int | None = 0) -> list[Fingerprint]:
    return [Fingerprint(role, word.encode(), None if at is None else at + place) for place, word in enumerate(words)]


STORED = told("a", "b", at=100)
OLDER, LATER = told("x", "y", at=10), told("x", "y", at=200)


@pytest.mark.parametrize(
    ("expected", "situation"),
    [
        ("same", {"entries": LATER, "stored": [], "tracked": "none"}),
        ("same", {"entries": LATER, "stored": STORED, "tracked": "other file"}),
        ("epoch", {"entries": LATER, "stored": STORED, "tracked": "missing file"}),
        ("epoch", {"entries": LATER, "stored": STORED, "tracked": "same file"}),
        ("same", {"entries": LATER, "stored": STORED, "tracked": "same file", "renewed": True}),
        ("epoch", {"entries": told("a", "y", at=200), "stored": STORED, "tracked": "other file"}),
        ("same", {"entries": told("a", "y", at=200), "stored": STORED, "tracked": "other file", "sure": True}),
        ("epoch", {"entries": told("x", at=None), "stored": STORED, "tracked": "other file"}),
        ("aside", {"entries": OLDER, "stored": STORED, "tracked": "other file", "last_at": 11}),
        ("aside", {"entries": LATER, "stored": STORED, "tracked": "other file", "elsewhere": True}),
        (
            "same",
            {"entries": told("a", at=100), "stored": STORED, "tracked": "other file", "elsewhere": True, "sure": True},
        ),
        ("aside", {"entries": told("note", role="system"), "stored": STORED, "tracked": "other file"}),
        ("same", {"entries": OLDER, "stored": told("note", role="system"), "tracked": "none", "last_at": 11}),
        ("same", {"entries": told("a", "z", at=100), "stored": STORED, "tracked": "none"}),
        ("epoch", {"entries": told("x", "z", at=100), "stored": STORED, "tracked": "none"}),
    ],
)
def test_it_goes_on_starts_anew_or_is_kept_aside(expected: str, situation: dict[str, Any]) -> None:
    assert choose_destination(Situation(**situation))[0] == expected
