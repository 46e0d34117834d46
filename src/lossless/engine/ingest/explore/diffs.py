"""Patches: which files change, by how much, and on which line each part starts."""

from __future__ import annotations

import re
from itertools import pairwise

from lossless.engine.ingest.explore.lines import beginning, hits, line_count, unread
from lossless.engine.ingest.explore.page import Fact, Several, plural, shown

MOST_FILES = 5_000
SHOWN_FILES = 200

_GIT = re.compile(r"\ndiff --git (?:\"?a/)?([^\n]{1,300})")
_PLAIN = re.compile(r"\n\+\+\+ (?:b/)?([^\t\n]{1,300})")


def describe_diff(text: str) -> list[Fact]:
    """Files changed with the lines added and removed in each."""
    part = beginning(text)
    pattern = _GIT if "diff --git " in part[:200_000] else _PLAIN
    found = list(hits(pattern, part, MOST_FILES))
    bounds = [*(match.start() for _, match in found), len(part) + 1]
    padded = "\n" + part
    files = [
        f"{_path(match[1])} (line {line:,}) {_change(padded, start, end)}"
        for (line, match), (start, end) in list(zip(found, pairwise(bounds), strict=True))[
            :: len(found) // SHOWN_FILES + 1
        ]
    ]
    size = f"{plural(len(text), 'character')} on {plural(line_count(text), 'line')}"
    hunks = plural(padded.count("\n@@ "), "hunk")
    return [
        f"Diff, {size}, {plural(len(found), 'file', MOST_FILES)}, {hunks}, {_change(padded, 0, len(padded))} lines.",
        *unread(text, part),
        Several("Files", files, len(found), "\n- ", spread=True),
    ]


def _path(names: str) -> str:
    return shown(names.split(" b/")[-1].strip('"'), 80)


def _change(text: str, start: int, end: int) -> str:
    added = text.count("\n+", start, end) - text.count("\n+++ ", start, end)
    removed = text.count("\n-", start, end) - text.count("\n--- ", start, end)
    return f"+{added:,} -{removed:,}"
