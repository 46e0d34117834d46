"""Run `pg_dump` and `pg_restore` where they are installed. Passwords go by the environment: anybody can read a command line."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Iterator, Set
from pathlib import Path
from typing import Any

from psycopg.conninfo import conninfo_to_dict, make_conninfo

from lossless.errors import InvalidInput, StoreError
from lossless.store.rows.types import Dump

FORM = "pg_dump"
_SECRET = ("password", "sslpassword")
_KINDS = (
    *("SCHEMA", "TABLE", "TABLE DATA", "SEQUENCE", "SEQUENCE OWNED BY", "SEQUENCE SET", "DEFAULT", "VIEW", "INDEX"),
    *("CONSTRAINT", "FK CONSTRAINT", "TEXT SEARCH CONFIGURATION", "TEXT SEARCH DICTIONARY", "FUNCTION", "TRIGGER"),
)
"""What one of our schemas consists of."""
_ENTRY = re.compile(r"\d+; \d+ \d+ ([A-Z]+(?: [A-Z]+)*) (?:- |lossless )(.*?) \S+")
_COPY = re.compile(rb'COPY lossless\.(\w+) \(("?\w+"?(?:, "?\w+"?)*)\) FROM stdin;\n')


def dump(url: str, snapshot: str, path: Path) -> Dump:
    """Dump the schema as an exported snapshot shows it, and read it back; without a format, and with the reason, if that fails."""
    try:
        _run("pg_dump", url, "--format=custom", "--schema=lossless", f"--snapshot={snapshot}", f"--file={path}")
        _run("pg_restore", None, f"--file={os.devnull}", str(path))
        return Dump(FORM, _run("pg_dump", None, "--version").strip())
    except StoreError as error:
        path.unlink(missing_ok=True)
        return Dump("", error.message)


def refuse_programs(path: Path, names: Set[str]) -> None:
    """Raise `InvalidInput` unless the file of a backup contains our schema of a version, nothing else, and values that fit its columns."""
    for line in _run("pg_restore", None, "--list", str(path)).splitlines():
        if not line.strip() or line.startswith(";"):
            continue
        entry = _ENTRY.fullmatch(line)
        words = entry[2].split(" ") if entry else []
        if not entry or entry[1] not in _KINDS or not (entry[2] in names or set(words) <= names):
            what = f"{entry[1]} {entry[2]}" if entry else line
            raise InvalidInput(
                f"The dump holds {what}, which lossless did not make.",
                hint="A restore takes rows and no programs. Nothing was restored; do not trust this backup.",
            )


def rows(path: Path, table: str) -> Iterator[tuple[list[str], Iterator[bytes]]]:
    """Return the columns of a table in a dump, and its rows as COPY reads them. Everything else in the dump is skipped."""
    script = path.with_name(f"{path.name}.{table}.sql")
    try:
        _run("pg_restore", None, "--data-only", "--schema=lossless", f"--table={table}", f"--file={script}", str(path))
        with script.open("rb") as lines:
            for line in lines:
                if head := _COPY.fullmatch(line):
                    if head[1].decode() != table:
                        raise InvalidInput(f"The dump has rows of {head[1].decode()} among those of {table}.")
                    columns = [name.strip('"') for name in head[2].decode().split(", ")]
                    yield columns, iter(lambda: _data(next(lines, b"\\.\n")), b"")
    finally:
        script.unlink(missing_ok=True)


def _data(line: bytes) -> bytes:
    return b"" if line == b"\\.\n" else line


def _run(program: str, url: str | None, *arguments: str) -> str:
    found = shutil.which(program)
    if found is None:
        raise StoreError(
            f"{program} is not installed.", hint="Install PostgreSQL's client programs, the server's version."
        )
    environment, server = dict(os.environ), []
    if url is not None:
        options = conninfo_to_dict(url)
        if options.get("password"):
            environment["PGPASSWORD"] = str(options["password"])
        open_to_all: dict[str, Any] = {name: value for name, value in options.items() if name not in _SECRET}
        server = ["--no-password", f"--dbname={make_conninfo(**open_to_all)}"]
    ran = subprocess.run(  # noqa: S603 - one of two programs, no shell
        [found, *server, *arguments],
        env=environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        errors="replace",
        check=False,
    )
    if ran.returncode:
        why = next((line for line in ran.stderr.splitlines() if line.strip()), f"it ended with {ran.returncode}")
        raise StoreError(
            f"{program} failed: {why.strip()}.", hint="The versions of it and of the server may not agree."
        )
    return ran.stdout
