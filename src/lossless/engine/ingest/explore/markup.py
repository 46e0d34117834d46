"""Describe XML and HTML tag by tag: nothing is expanded, fetched or trusted."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from itertools import islice
from xml.parsers import expat

from lossless.engine.ingest.explore.compose import Fact, Several, counted, named, plural, shown
from lossless.engine.ingest.explore.lines import MOST_CHARS, Ruler, line_count

MOST_ELEMENTS = 60_000
MOST_TAGS = 300_000
MOST_HEADINGS = 20_000

_OPENING = re.compile(r"<([A-Za-z_][\w:.-]{0,80})")
_TITLE = re.compile(r"<title[^<>]{0,200}>([^<]{0,300})", re.I)
_HEADING = re.compile(r"<[hH]([1-6])[\s>]")
_MARKUP = re.compile(r"<[^<>]{0,500}>?")


class _Enough(Exception):
    """Raised by a handler to stop the parser early, with the reason for the reader."""


class _Tree:
    """The root and two levels below it, counted while parsing."""

    def __init__(self) -> None:
        self.root = ""
        self.attributes: dict[str, str] = {}
        self.children: Counter[str] = Counter()
        self.inner: dict[str, Counter[str]] = {}
        self.keys: dict[str, list[str]] = {}
        self.places: dict[str, int] = {}
        self.count = 0
        self._child = ""
        self._depth = 0

    def parse(self, text: str) -> str:
        """Parse as far as possible; return why it stopped early, if it did."""
        if not text.startswith("<"):
            return "It does not begin with a tag."
        self._parser = expat.ParserCreate()
        self._parser.StartElementHandler = self._open
        self._parser.EndElementHandler = self._close
        self._parser.EntityDeclHandler = _refuse
        try:
            # One call, not many: older expat versions start a huge token over with each piece they are fed.
            self._parser.Parse(text.encode("utf-8", "replace"), True)
        except _Enough as reason:
            return str(reason)
        except expat.ExpatError as error:
            return f"Stops being well-formed at line {error.lineno:,} ({expat.ErrorString(error.code)})."
        return ""

    def _open(self, tag: str, attributes: dict[str, str]) -> None:
        self._depth += 1
        self.count += 1
        if self._depth == 3:
            self.inner[self._child][tag] += 1
        elif self._depth == 2:
            self._child = tag
            self._met(tag, attributes)
        elif self._depth == 1:
            self.root, self.attributes = tag, attributes
        if self.count >= MOST_ELEMENTS:
            raise _Enough(f"Children below were counted up to line {self._parser.CurrentLineNumber:,} only.")

    def _close(self, tag: str) -> None:
        self._depth -= 1

    def _met(self, tag: str, attributes: dict[str, str]) -> None:
        self.children[tag] += 1
        if tag not in self.places:
            self.places[tag], self.keys[tag] = self._parser.CurrentLineNumber, list(attributes)[:6]
            self.inner[tag] = Counter()


def describe_xml(text: str) -> list[Fact]:
    """Return the root element and its children by tag with counts, first lines and attributes."""
    tree = _Tree()
    trouble = tree.parse(text[:MOST_CHARS].lstrip())
    if len(text) > MOST_CHARS:
        trouble = f"Only the first {MOST_CHARS:,} characters were read."
    if not tree.root:
        return [f"XML, {_size(text)}.", *([trouble] if trouble else []), *_tags(text), *_ends(text)]
    attributes = [f"{named(key)}={shown(value, 40)}" for key, value in list(tree.attributes.items())[:8]]
    facts: list[Fact] = [
        f"XML, {_size(text)}, {plural(tree.count, 'element', MOST_ELEMENTS)}. Root: {named(tree.root)}."
    ]
    facts += [trouble] if trouble else []
    facts.append(Several("Root attributes", attributes, len(tree.attributes)))
    facts.append(Several("Children of the root", list(_children(tree)), len(tree.children), "\n- "))
    return [*facts, *(_tags(text) if trouble else []), *_ends(text)]


def describe_html(text: str) -> list[Fact]:
    """Return the title, the headings with their lines, and the elements of the page."""
    title = _TITLE.search(text[:200_000])
    facts: list[Fact] = [f"HTML, {_size(text)}."]
    facts += [f"Title: {shown(title[1], 120)}"] if title else []
    facts.append(_headings(text))
    return [*facts, *_tags(text), *([] if title else _ends(text))]


def _refuse(*declaration: object) -> None:
    raise _Enough("It declares entities, which are never expanded here.")


def _children(tree: _Tree) -> Iterator[str]:
    for tag, count in tree.children.most_common(20):
        keys = "".join(f" @{shown(key, 24)}" for key in tree.keys[tag])
        held = ", ".join(counted((named(name, 30), many) for name, many in tree.inner[tag].most_common(6)))
        yield f"{named(tag)} {count:,} (first at line {tree.places[tag]:,}){keys}" + (f": {held}" if held else "")


def _tags(text: str) -> list[Fact]:
    part = text[:MOST_CHARS]
    part = part[: len(part) * MOST_TAGS // max(MOST_TAGS, part.count("<"))]
    tags = Counter(_OPENING.findall(part))
    label = "Opening tags" if len(part) == len(text) else f"Opening tags in the first {len(part):,} characters"
    return [Several(label, counted((named(tag, 30), count) for tag, count in tags.most_common(20)), len(tags))]


def _headings(text: str) -> Fact:
    found = list(islice(_HEADING.finditer(text), MOST_HEADINGS))
    ruler = Ruler(text)
    lines = [_heading(text, heading, ruler) for heading in found[:: len(found) // 60 + 1]]
    return Several("Headings", lines, len(found), "\n- ", spread=True)


def _heading(text: str, found: re.Match[str], ruler: Ruler) -> str:
    body = text[found.start() : found.start() + 600]
    title = _MARKUP.sub(" ", body[: body.lower().find(f"</h{found[1]}")])
    return f"h{found[1]} line {ruler.line(found.start()):,}: {shown(title, 60)}"


def _size(text: str) -> str:
    return f"{plural(len(text), 'character')} on {plural(line_count(text), 'line')}"


def _ends(text: str) -> list[Fact]:
    return [f"Begins: {shown(text[:400], 100)}"]
