"""Hold a database as another program would, so that nothing can be written."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psycopg

# A process of its own: the locks of a file are those of a process, so one that holds them does not wait for itself.
_HOLDER = """
import sqlite3, sys
held = sqlite3.connect(sys.argv[1], isolation_level=None)
held.execute(sys.argv[2])
print("held", flush=True)
sys.stdin.read()
"""


@contextmanager
def locked(database: str | Path, begin: str = "BEGIN IMMEDIATE") -> Iterator[None]:
    """Hold a database: a file, or the schema `lossless` behind a URL."""
    if str(database).startswith("postgresql"):
        with psycopg.connect(str(database)) as other:
            other.execute("LOCK TABLE lossless.conversation IN SHARE ROW EXCLUSIVE MODE")
            yield
        return
    command = [sys.executable, "-c", _HOLDER, str(database), begin]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as holder:
        assert holder.stdin
        assert holder.stdout
        assert holder.stdout.readline() == b"held\n"
        try:
            yield
        finally:
            holder.stdin.close()
