"""What importers have in common: how other programs write times and names, and in which order a history of summaries is told."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from datetime import datetime
from hashlib import sha256
from typing import Any

from lossless.errors import SchemaTooNew
from lossless.model import instant
from lossless.store.sqlite.foreign import Foreign

_MILLISECONDS = 100_000_000_000
"""From here on a number of seconds would be after the year 5000: it counts milliseconds."""

Tables = Mapping[str, frozenset[str]]


def names(written: str) -> frozenset[str]:
    return frozenset(written.split())


def moment(value: object) -> datetime | None:
    """A time as databases hold it: a text in UTC, or seconds or milliseconds since 1970. None if it is none."""
    try:
        if isinstance(value, int | float):
            return instant(value / 1000 if abs(value) >= _MILLISECONDS else value)
        return instant(value) if isinstance(value, str) else None
    except (ValueError, OverflowError, OSError):
        return None


def loaded(text: object) -> Any:
    """JSON that may be none: None then."""
    try:
        return json.loads(text) if isinstance(text, str) else None
    except (ValueError, RecursionError):
        return None


def identity(*facts: object) -> str:
    """A short name made of what tells a source from every other."""
    return sha256(json.dumps(facts, default=str).encode()).hexdigest()[:16]


def check(source: Foreign, system: str, tables: Tables, needed: Tables) -> None:
    """Refuse a schema in which something is missing that every known version has."""
    missing = [table for table in needed if table not in tables]
    missing += [f"{t}.{c}" for t in needed if t in tables for c in sorted(needed[t] - tables[t])]
    if not missing:
        return
    unknown = [f"{t}.{c}" for t in needed if t in tables for c in sorted(tables[t] - needed[t])]
    raise SchemaTooNew(
        f"{source.path} looks like a database of {system}, but has no {', '.join(missing)}"
        + (f" (it has {', '.join(unknown[:8])})." if unknown else "."),
        hint="It is of a version that this one does not know. Nothing was imported; look for a newer lossless.",
    )


def additions(source: Foreign, tables: Tables, known: Tables, ignored: Sequence[str]) -> list[str]:
    """What a newer version has added and no importer reads, where anything is in it."""
    told = []
    for table, columns in sorted(tables.items()):
        if table.startswith(("sqlite_", *ignored)) or "_fts" in table:
            continue
        if table not in known:
            count = source.all(f'SELECT count(*) FROM "{_quoted(table)}"')[0][0]  # noqa: S608 - a name out of its schema
            told += [f"The table {table} is not known here; its rows ({count:,}) stay behind."] if count else []
        for column in sorted(columns - known.get(table, columns)):
            some = source.all(f'SELECT 1 FROM "{_quoted(table)}" WHERE "{_quoted(column)}" IS NOT NULL LIMIT 1')  # noqa: S608 - likewise
            told += [f"The column {table}.{column} is not known here; what it says stays behind."] if some else []
    return told


def _quoted(name: str) -> str:
    return name.replace('"', '""')


def depths(sources: Mapping[str, Sequence[str]]) -> dict[str, int]:
    """How many steps each summary is above the messages, whatever was written down: sources first, then as given.

    Those that lead back to themselves come last; what they were made from cannot be told.
    """
    found: dict[str, int] = {}
    consumers: dict[str, list[str]] = {}
    waiting = {}
    for ref, below in sources.items():
        known = {each for each in below if each in sources}
        waiting[ref] = len(known)
        for each in known:
            consumers.setdefault(each, []).append(ref)
    level, depth = [ref for ref, count in waiting.items() if not count], 0
    while level:
        found |= dict.fromkeys(level, depth)
        above = [each for ref in level for each in consumers.get(ref, ())]
        for ref in above:
            waiting[ref] -= 1
        level, depth = [ref for ref in dict.fromkeys(above) if not waiting[ref]], depth + 1
    return found | dict.fromkeys((ref for ref in sources if ref not in found), depth)
