"""Programs that come from PyPI, installed once into an environment of their own and kept for the next run.

They go to LCM_TEST_HOSTS_DIR, else to the user's cache, in a directory named after their version. The lossless of this checkout
is added to an environment by its path and its entry points, so that several checkouts can use one installation at a time.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
import tomllib
import venv
from pathlib import Path
from typing import Any

import platformdirs

ROOT = Path(__file__).parents[2]


def python(package: str, version: str, extra: str = "") -> Path:
    """Return the interpreter of an environment with that package; LookupError if it cannot be installed."""
    wanted = [f"{package}[{extra}]=={version}" if extra else f"{package}=={version}", *_project()["dependencies"]]
    kept = os.environ.get("LCM_TEST_HOSTS_DIR")
    cache = Path(kept) if kept else platformdirs.user_cache_path("lossless", appauthor=False) / "hosts"
    place = cache / f"{package}-{version}"
    cache.mkdir(parents=True, exist_ok=True)
    with place.with_name(f"{place.name}.lock").open("w") as lock:
        # Tests run in several processes: one installs, the others wait for it.
        fcntl.flock(lock, fcntl.LOCK_EX)
        complete = place / "complete"
        if not complete.exists() or complete.read_text() != "\n".join(wanted):
            _install(wanted, place)
            complete.write_text("\n".join(wanted))
    return place / "bin" / "python"


def with_lossless(directory: Path) -> dict[str, str]:
    """Return the environment in which an interpreter has the lossless of this checkout; `directory` is written."""
    project = _project()
    about = directory / "lossless-0.dist-info"
    about.mkdir(parents=True, exist_ok=True)
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: lossless\nVersion: 0\n")
    groups = {"console_scripts": project["scripts"], **project["entry-points"]}
    lines = [line for group, points in groups.items() for line in (f"[{group}]", *_lines(points))]
    (about / "entry_points.txt").write_text("\n".join(lines) + "\n")
    return {"PYTHONPATH": os.pathsep.join((str(directory), str(ROOT / "src")))}


def copied(python: Path, program: str, directory: Path) -> Path:
    """Return a program in an environment of its own, with pip, which sees the packages of the one that it comes from."""
    subprocess.run([python, "-m", "venv", directory], check=True, timeout=120)
    (packages,) = directory.glob("lib/python3*/site-packages")
    (theirs,) = python.parent.parent.glob("lib/python3*/site-packages")
    (packages / "theirs.pth").write_text(f"import site; site.addsitedir({str(theirs)!r})\n")
    _, _, rest = (python.parent / program).read_text().partition("\n")
    path = directory / "bin" / program
    path.write_text(f"#!{directory / 'bin' / 'python'}\n{rest}")
    path.chmod(0o755)
    return path


def _lines(points: dict[str, str]) -> list[str]:
    return [f"{name} = {value}" for name, value in points.items()]


def _project() -> dict[str, Any]:
    project: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    return project


def _install(wanted: list[str], place: Path) -> None:
    if not (place / "bin" / "pip").exists():
        venv.create(place, symlinks=True, with_pip=True)
    done = subprocess.run(
        [place / "bin" / "python", "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *wanted],
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    if done.returncode:
        shutil.rmtree(place, ignore_errors=True)
        raise LookupError(f"pip cannot install {wanted[0]}: {done.stderr[-2000:]}")
