"""Programs that come from npm, installed once and kept for the next run.

They go to LCM_TEST_HOSTS_DIR, else to the user's cache, in a directory named after their version.
"""

from __future__ import annotations

import fcntl
import os
import platform
import shutil
import subprocess
import tempfile
from pathlib import Path

import platformdirs

NODE = "24.21.0"
"""The Node that programs run on which refuse the system's. An npm under an older Node installs older programs."""


def node() -> Path:
    """The program `node` of that version."""
    kind = "arm64" if platform.machine() in ("aarch64", "arm64") else "x64"
    package = f"node-{platform.system().lower()}-{kind}"
    return program(package, NODE, f"{package}/bin/node")


def program(package: str, version: str, path: str, *, on: Path | None = None) -> Path:
    """The file of a package that matches the path; LookupError if it would have to be installed and there is no npm.

    `on` is the Node it is installed with, if not the one on the path.
    """
    kept = os.environ.get("LCM_TEST_HOSTS_DIR")
    cache = Path(kept) if kept else platformdirs.user_cache_path("lossless", appauthor=False) / "hosts"
    place = cache / f"{package.lstrip('@').replace('/', '-')}-{version}"
    cache.mkdir(parents=True, exist_ok=True)
    with place.with_name(f"{place.name}.lock").open("w") as lock:
        # Tests run in several processes: one installs, the others wait for it.
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not place.exists():
            _install(f"{package}@{version}", path, place, on)
    # An older npm brings the program for every C library; the usual one's has the shortest name.
    return min((place if on is None else place / "node_modules").glob(path))


def _install(package: str, path: str, place: Path, on: Path | None) -> None:
    npm = shutil.which("npm")
    if npm is None:
        raise LookupError(f"npm, which would install {package}, is not on the path")
    options = ("--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error")
    with tempfile.TemporaryDirectory(dir=place.parent) as new:
        done = subprocess.run(
            [npm, "install", "--prefix", new, *options, package],
            capture_output=True,
            text=True,
            env=os.environ if on is None else os.environ | {"PATH": f"{on.parent}{os.pathsep}{os.environ['PATH']}"},
            timeout=480,
            check=False,
        )
        modules = Path(new, "node_modules")
        # The program itself is an optional dependency: npm is content without.
        if done.returncode or not any(modules.glob(path)):
            raise RuntimeError(f"npm could not install {package}: {done.stdout}{done.stderr}")
        if on is None:
            modules.rename(place)
        else:  # a program in JavaScript finds its dependencies by the name of their directory
            (Path(new) / "package").mkdir()
            modules.rename(Path(new) / "package" / "node_modules")
            (Path(new) / "package").rename(place)
