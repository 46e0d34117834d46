"""Share what importers need: times, JSON, schema checks, and the depth of summaries."""

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
"""A larger number counts milliseconds: in seconds it would be after the year 5000."""

Tables = Mapping[str, frozenset[str]]


def name_set(written: str) -> frozenset[str]:
    """Return the names in a text, separated by spaces."""
    return frozenset(written.split())


def parse_time(value: object) -> datetime | None:
    """Return a time from a text in UTC, or from seconds or milliseconds since 1970; None for anything else."""
    try:
        if isinstance(value, int | float):
            return instant(value / 1000 if abs(value) >= _MILLISECONDS else value)
        return instant(value) if isinstance(value, str) else None
    except (ValueError, OverflowError, OSError):
        return None


def parse_json(text: object) -> Any:
    """Return the value of a JSON text; None if it is not JSON."""
    try:
        return json.loads(text) if isinstance(text, str) else None
    except (ValueError, RecursionError):
        return None


def make_identity(*facts: object) -> str:
    """Return a short id made of facts that distinguish a source from every other."""
    return sha256(json.dumps(facts, default=str).encode()).hexdigest()[:16]


def check_schema(source: Foreign, system: str, tables: Tables, needed: Tables) -> None:
    """Refuse a schema that lacks something every known version has."""
    missing = [table for table in needed if table not in tables]
    missing += [f"{t}.{c}" for t in needed if t in tables for c in sorted(needed[t] - tables[t])]
    if not missing:
        return
    unknown = [f"{t}.{c}" for t in needed if t in tables for c in sorted(tables[t] - needed[t])]
    raise SchemaTooNew(
        f"{source.path} looks like a database of {system}, but has no {', '.join(missing)}"
        + (f" (it has {', '.join(unknown[:8])})." if unknown else "."),
        hint="This version of it is unknown. Nothing was imported; look for a newer lossless.",
    )


def list_additions(source: Foreign, tables: Tables, known: Tables, ignored: Sequence[str]) -> list[str]:
    """Return notes on tables and columns of newer versions that contain data and are not imported."""
    notes = []
    for table, columns in sorted(tables.items()):
        if table.startswith(("sqlite_", *ignored)) or "_fts" in table:
            continue
        if table not in known:
            count = source.all(f'SELECT count(*) FROM "{_quoted(table)}"')[0][0]  # noqa: S608 - a name out of its schema
            notes += [f"The table {table} is unknown; its {count:,} rows are not imported."] if count else []
        for column in sorted(columns - known.get(table, columns)):
            some = source.all(f'SELECT 1 FROM "{_quoted(table)}" WHERE "{_quoted(column)}" IS NOT NULL LIMIT 1')  # noqa: S608 - likewise
            notes += [f"The column {table}.{column} is unknown and not imported."] if some else []
    return notes


def _quoted(name: str) -> str:
    return name.replace('"', '""')


def depths(sources: Mapping[str, Sequence[str]]) -> dict[str, int]:
    """Return how many steps each summary is above the messages, sources first, then as given.

    Summaries that lead back to themselves come last; their sources are unknown.
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
