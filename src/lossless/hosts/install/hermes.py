"""Connect Hermes: lossless in Hermes's own Python, and the plugin in its configuration."""

from __future__ import annotations

import json
import re
import shlex
import shutil
import sys
from importlib import metadata
from pathlib import Path
from urllib.parse import unquote, urlsplit

from lossless.hosts.install.entries import Append, Put
from lossless.hosts.install.plans import ConfigFile, HostPlan, Place, Program, skill_files, user_only
from lossless.version import __version__

ID = "lossless"
_MARKER = re.compile(r"#!\s*(.+)")
_EXEC = re.compile(r"""^'''exec' (.+?) "\$0" "\$@"$""", re.M)


def root(place: Place) -> Path:
    """Return the directory of Hermes's configuration."""
    return place.directory("HERMES_HOME", ".hermes")


def plan(place: Place) -> HostPlan:
    """Return what connects Hermes."""
    user_only(place, "Hermes")
    base = root(place)
    programs, warnings = _package(place)
    return HostPlan(
        root=base,
        configs=(
            ConfigFile(
                base / "config.yaml",
                "yaml",
                (Append(("plugins", "enabled"), ID), Put(("context", "engine"), ID)),
            ),
        ),
        copies=skill_files(base / "skills"),
        programs=programs,
        notes=("Start Hermes again: a running one keeps its old context engine.",),
        warnings=warnings,
    )


def _package(place: Place) -> tuple[tuple[Program, ...], tuple[str, ...]]:
    """Return the program that makes lossless importable in Hermes's Python, if that is needed."""
    python = interpreter(place)
    if python is None:
        sentence = f"Hermes was not found on this machine. Its Python needs the package: pip install {requirement()}"
        return (), (sentence,)
    if _is_same(python) or installed_version(python, "lossless") == __version__:
        return (), ()
    pip = _pip(place, python)
    if pip is None:
        return (), (f"{python} has no pip, and there is no uv. Install there by hand: {requirement()}",)
    uninstall = [*pip, "uninstall", *(() if "uv" in Path(pip[0]).name else ("-y",)), "lossless"]
    return (
        Program(
            (*pip, "install", *_python_option(pip, python), requirement()), tuple(_with_python(uninstall, pip, python))
        ),
    ), ()


def interpreter(place: Place) -> Path | None:
    """Return the Python that runs Hermes: the one that its program names in the first line."""
    program = find_program(place)
    if program is None:
        return None
    try:
        with open(program, encoding="utf-8", errors="replace") as file:
            head = file.read(2000)
    except OSError:
        return None
    for pattern in (_EXEC, _MARKER):
        if found := pattern.search(head):
            words = shlex.split(found[1])
            path = Path(words[0] if words else "")
            if "python" in path.name and path.exists():
                return path
    beside = program.resolve().parent / "python"
    return beside if beside.exists() else None


def find_program(place: Place) -> Path | None:
    """Return the program of Hermes: in the path, else where its installer puts it."""
    found = shutil.which("hermes", path=place.search_path)
    usual = root(place) / "hermes-agent" / "venv" / "bin" / "hermes"
    return Path(found) if found else usual if usual.exists() else None


def installed_version(python: Path, package: str) -> str | None:
    """Return the version of a package in another Python, as its directories name it; None if it is not there."""
    name = re.escape(package.replace("-", "_"))
    folders = [
        *python.parent.parent.glob("lib*/python3*/site-packages"),
        python.parent.parent / "Lib" / "site-packages",
    ]
    for folder in folders:
        for path in folder.glob("*.dist-info") if folder.is_dir() else ():
            if found := re.fullmatch(rf"(?i){name}-(.+)\.dist-info", path.name):
                return found[1]
    return None


def requirement() -> str:
    """Return what pip has to install: this version, from where this one came."""
    try:
        text = metadata.distribution("lossless").read_text("direct_url.json")
        url = json.loads(text)["url"] if text else ""
    except (metadata.PackageNotFoundError, ValueError, KeyError):
        url = ""
    parts = urlsplit(url)
    if parts.scheme == "file":
        return unquote(parts.path)
    return f"lossless @ {url}" if url else f"lossless=={__version__}"


def _is_same(python: Path) -> bool:
    return python.parent.resolve() == Path(sys.executable).parent.resolve()


def _pip(place: Place, python: Path) -> list[str] | None:
    if installed_version(python, "pip") is not None:
        return [str(python), "-m", "pip"]
    uv = shutil.which("uv", path=place.search_path)
    return [uv, "pip"] if uv else None


def _python_option(pip: list[str], python: Path) -> tuple[str, ...]:
    return () if pip[0] == str(python) else ("--python", str(python))


def _with_python(words: list[str], pip: list[str], python: Path) -> list[str]:
    return [*words[:-1], *_python_option(pip, python), words[-1]]
