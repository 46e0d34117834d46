"""Refuse backups that contain triggers, views or other programs."""

from __future__ import annotations

import re
from contextlib import closing
from pathlib import Path

import apsw

from lossless.errors import (
    InvalidInput,
)
from lossless.store import migrate
from lossless.store.sqlite.errors import translate
from lossless.store.sqlite.store import SQLiteStore

_INTERNAL = ("sqlite_stat1", "sqlite_stat4", "sqlite_sequence")

_KINDS_OF = {"INTEGER": ("integer", "null"), "TEXT": ("text", "null"), "BLOB": ("blob", "null")}

_COUNTS = ("tokens", "context_tokens", "source_tokens", "descendants", "bytes", "next_seq", "revision", "used_tokens")
"""Columns that are never below zero."""

_REMARKS = re.compile(r"('(?:[^']|'')*')|--[^\n]*|\s+")


def refuse_programs(path: Path, version: int, backup: str) -> None:
    """Raise `InvalidInput` unless the file of a backup contains our schema of a version, nothing else, and values that fit its columns.

    Nothing in the file is carried out to find out: no trigger, no view.
    """
    with closing(SQLiteStore(":memory:", scripts=migrate.until("sqlite", version))) as ours:
        expected = {(kind, name): _bare(sql) for kind, name, sql in ours.all(_DEFINED)}
        columns = {table: ours.columns(table) for table in ours.tables.names() if ("table", table) in expected}
    flags = apsw.SQLITE_OPEN_READONLY | apsw.SQLITE_OPEN_URI
    connection = apsw.Connection(f"{path.absolute().as_uri()}?immutable=1", flags=flags)
    try:
        connection.config(apsw.SQLITE_DBCONFIG_DEFENSIVE, 1)
        connection.config(apsw.SQLITE_DBCONFIG_ENABLE_TRIGGER, 0)
        connection.config(apsw.SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0)
        for kind, name, sql in connection.execute(_DEFINED).fetchall():
            if expected.get((kind, name), "" if name in _INTERNAL else None) not in (_bare(str(sql)), ""):
                raise _not_ours(backup, f"the {kind} {name}, which lossless did not make")
        for table, found in columns.items():
            for name, kind, _ in found:
                wrong = f"typeof({name}) NOT IN {_KINDS_OF[kind]}" if kind in _KINDS_OF else "FALSE"
                wrong += f" OR {name} < 0" if name in _COUNTS else ""
                if connection.execute(f"SELECT 1 FROM {table} WHERE {wrong} LIMIT 1").fetchall():
                    raise _not_ours(backup, f"a value in {table}.{name} that lossless does not write")
    except apsw.Error as error:
        raise translate(error, str(path)) from error
    finally:
        connection.close()


_DEFINED = "SELECT type, name, sql FROM sqlite_schema WHERE sql IS NOT NULL"


def _bare(sql: str) -> str:
    """Return a definition without comments and white space."""
    return _REMARKS.sub(lambda found: found[1] or "", sql)


def _not_ours(backup: str, what: str) -> InvalidInput:
    return InvalidInput(
        f"{backup} holds {what}.",
        hint="A restore takes rows and no programs. Nothing was restored; do not trust this backup.",
    )
