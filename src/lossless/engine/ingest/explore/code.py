"""Describe source code and diffs: imports and signatures, or the changed files, with their lines."""

from __future__ import annotations

import re
from collections import Counter
from itertools import islice, pairwise

from lossless.engine.ingest.explore.compose import Fact, Several, named, plural, shown
from lossless.engine.ingest.explore.kinds import HEAD, extension
from lossless.engine.ingest.explore.languages import EXTENSIONS, Language, recognise
from lossless.engine.ingest.explore.lines import Ruler, beginning, hits, line_count, unread

IMPORTS_WITHIN = 200_000
MOST_SIGNATURES = 60_000
MOST_SHOWN = 400
CODE_LINES = 200_000
MOST_FILES = 5_000
SHOWN_FILES = 200

_GIT = re.compile(r"\ndiff --git (?:\"?a/)?([^\n]{1,300})")
_PLAIN = re.compile(r"\n\+\+\+ (?:b/)?([^\t\n]{1,300})")


def describe_code(text: str, name: str | None, mime: str | None) -> list[Fact]:
    """Return the language, the imports and an outline: the outermost definitions first, thinned evenly."""
    language = _language(text, name, mime)
    part = beginning(text, CODE_LINES)
    found = _definitions(language, part)
    ruler = Ruler(part)
    modules = _modules(language, text)
    size = f"{plural(len(text), 'character')} on {plural(line_count(text), 'line')}"
    outline = [f"{ruler.line(match.start())}: {_signature(match[2])}" for match in _outermost(found)]
    return [
        f"{language.name if language else 'Source code'}, {size}, {plural(len(found), 'definition', MOST_SIGNATURES)}.",
        *unread(text, part),
        Several("Imports", [named(module) for module in modules], len(modules)),
        Several("Outline (line: signature)", outline, len(found), "\n", spread=True),
        *([] if outline else [f"Begins: {shown(text[:400], 150)}", f"Ends: {shown(text[-400:], 100)}"]),
    ]


def _language(text: str, name: str | None, mime: str | None) -> Language | None:
    claimed = EXTENSIONS.get(extension(name, None)) or EXTENSIONS.get(extension(None, mime))
    return claimed or recognise("\n" + text[:HEAD].lstrip())


def _definitions(language: Language | None, text: str) -> list[re.Match[str]]:
    return list(islice(language.definitions.finditer("\n" + text), MOST_SIGNATURES)) if language else []


def _depth(definition: re.Match[str]) -> int:
    return definition.end(1) - definition.start(1)


def _outermost(found: list[re.Match[str]], enough: int = 12) -> list[re.Match[str]]:
    depths = Counter(map(_depth, found))
    kept, deepest = 0, -1
    for depth in sorted(depths):
        if kept >= enough:
            break
        kept, deepest = kept + depths[depth], depth
    shallow = [definition for definition in found if _depth(definition) <= deepest]
    return shallow[:: len(shallow) // MOST_SHOWN + 1]


def _modules(language: Language | None, text: str) -> list[str]:
    if not language:
        return []
    found = hits(language.imports, text[:IMPORTS_WITHIN], 500)
    return list(dict.fromkeys(next(filter(None, match.groups()), "").strip() for _, match in found))


def _signature(line: str) -> str:
    return shown(line.rstrip().removesuffix("{").rstrip().removesuffix(":"), 90)


def describe_diff(text: str) -> list[Fact]:
    """Return the changed files with the lines added and removed in each."""
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
