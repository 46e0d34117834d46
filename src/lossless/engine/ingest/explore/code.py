"""Source code: what it imports and which signatures are on which lines, broken or not."""

from __future__ import annotations

import re
from collections import Counter
from itertools import islice

from lossless.engine.ingest.explore.kinds import HEAD, extension
from lossless.engine.ingest.explore.languages import EXTENSIONS, Language, recognise
from lossless.engine.ingest.explore.lines import Ruler, beginning, hits, line_count, unread
from lossless.engine.ingest.explore.page import Fact, Several, named, plural, shown

IMPORTS_WITHIN = 200_000
MOST_SIGNATURES = 60_000
MOST_SHOWN = 400
CODE_LINES = 200_000


def describe_code(text: str, name: str | None, mime: str | None) -> list[Fact]:
    """Language, imports, and an outline: the outermost definitions first, evenly thinned when there are many."""
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
