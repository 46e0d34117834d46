"""`pg_dump`, `pg_restore` and `psql`, where they are installed. Passwords go by the environment: a command line is there for all to read."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

from psycopg.conninfo import conninfo_to_dict, make_conninfo

from lossless.errors import StoreBusy, StoreError
from lossless.store.base import Dump

FORM = "pg_dump"
_SECRET = ("password", "sslpassword")
_HELD = re.compile(r"\b(?:55P03|40P01):")
"""Waited for a lock too long, or for one another."""


def dump(url: str, snapshot: str, path: Path) -> Dump:
    """The schema as an exported snapshot shows it, read back to its end; without a form, and with the reason, if that fails."""
    try:
        _run("pg_dump", url, "--format=custom", "--schema=lossless", f"--snapshot={snapshot}", f"--file={path}")
        _run("pg_restore", None, f"--file={os.devnull}", str(path))
        return Dump(FORM, _run("pg_dump", None, "--version").strip())
    except StoreError as error:
        path.unlink(missing_ok=True)
        return Dump("", error.message)


def restore(url: str, path: Path, *, first: str) -> None:
    """Carry out some statements and bring a dump in, in one transaction: all of it or nothing."""
    script = path.with_name(f"{path.name}.sql")
    _run("pg_restore", None, "--no-owner", "--no-privileges", f"--file={script}", str(path))
    options = ("--no-psqlrc", "--quiet", "--single-transaction", "--set=ON_ERROR_STOP=1", "--set=VERBOSITY=verbose")
    _run("psql", url, *options, f"--command={first}", f"--file={script}")


def _run(program: str, url: str | None, *arguments: str) -> str:
    found = shutil.which(program)
    if found is None:
        raise StoreError(
            f"{program} is not installed.", hint="Install PostgreSQL's client programs, the server's version."
        )
    environment, server = dict(os.environ), []
    if url is not None:
        told = conninfo_to_dict(url)
        if told.get("password"):
            environment["PGPASSWORD"] = str(told["password"])
        open_to_all: dict[str, Any] = {name: value for name, value in told.items() if name not in _SECRET}
        server = ["--no-password", f"--dbname={make_conninfo(**open_to_all)}"]
    ran = subprocess.run(  # noqa: S603 - one of three programs, no shell
        [found, *server, *arguments],
        env=environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        errors="replace",
        check=False,
    )
    if _HELD.search(ran.stderr):
        raise StoreBusy(
            "Another session was in the midst of writing for too long.",
            hint="Let the hosts and workers rest, then try again; nothing was changed.",
        )
    if ran.returncode:
        why = next((line for line in ran.stderr.splitlines() if line.strip()), f"it ended with {ran.returncode}")
        raise StoreError(
            f"{program} failed: {why.strip()}.", hint="The versions of it and of the server may not agree."
        )
    return ran.stdout
