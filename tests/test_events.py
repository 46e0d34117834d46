"""Every event name is listed once, and no other is emitted."""

from __future__ import annotations

import ast
import re
from pathlib import Path
from typing import get_args

from lossless.events import EventName

ROOT = Path(__file__).parents[1]


def emitted() -> set[str]:
    """Return the first argument of every call of `Event` in the package, which must be a literal string."""
    names: set[str] = set()
    for path in (ROOT / "src").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "Event":
                name = node.args[0] if node.args else next(each.value for each in node.keywords if each.arg == "name")
                assert isinstance(name, ast.Constant), f"{path}:{node.lineno}: the name of an event is not a literal"
                names.add(str(name.value))
    return names


def test_exactly_the_listed_events_are_emitted() -> None:
    assert emitted() == set(get_args(EventName))
    assert list(get_args(EventName)) == sorted(set(get_args(EventName)))


def test_every_event_is_explained() -> None:
    page = (ROOT / "docs/reference/errors.md").read_text()
    assert set(re.findall(r"^\| `([a-z]+\.[a-z_]+)` \|", page, re.M)) == set(get_args(EventName))
