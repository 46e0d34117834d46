"""Titles of conversations: set by a user, the first words of the user, or the project directory."""

from __future__ import annotations

import re
from collections.abc import Iterable

from lossless.engine.ingest.heartbeats import mentions_heartbeat

LONGEST = 80
"""Characters of a computed title."""
_ESCAPES = re.compile(
    r"(?:\x1b\]|\x9d)[^\x07\x1b\x9c]*(?:\x07|\x1b\\|\x9c|$)"  # commands to the terminal itself, with their text
    r"|(?:\x1b\[|\x9b)[0-?]*[ -/]*[@-~]?"  # colours and cursor movements
    r"|\x1b[ -/]*[0-~]?"
)
_UNSAFE = re.compile(r"[\0-\x1f\x7f-\x9f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff\ud800-\udfff]+")
_FRAMES = re.compile(
    r'<summary id="sum_|<focus_brief id="brief_|<pinned(?:-\d+)? id="pin_|\[LCM '  # ours
    r"|</?[a-z]+[-_][a-z_-]+[\s>]|Caveat: The messages below were generated"  # of agents, in the name of the user
)


def title_of(texts: Iterable[str], directory: str | None) -> str | None:
    """Return the first of these user texts that makes a title, or the name of the directory."""
    words = next((title for text in texts if (title := _first_words(text))), None)
    return words or (_shorten(_one_line(_last_part(directory))) or None if directory else None)


def _first_words(text: str) -> str:
    """Return the beginning of a user's text on one line; empty for text that no user wrote."""
    if _FRAMES.match(text.lstrip()) or mentions_heartbeat(text):
        return ""
    return _shorten(_one_line(text))


def _one_line(text: str) -> str:
    return " ".join(_UNSAFE.sub(" ", _ESCAPES.sub("", text)).split())


def _shorten(text: str) -> str:
    """Cut a line at the last word that fits."""
    if len(text) <= LONGEST:
        return text
    head, _, last = text[:LONGEST].rpartition(" ")
    return f"{head if head and len(last) < LONGEST // 2 else text[: LONGEST - 1]}…"


def _last_part(directory: str) -> str:
    return re.split(r"[\\/]", directory.rstrip("\\/"))[-1] or directory
