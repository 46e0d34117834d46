"""The package says what it is, and offers only what it has."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest

import lossless

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
EXTRAS: dict[str, list[str]] = PROJECT["optional-dependencies"]
FRAMEWORKS = {"langchain", "openai-agents", "pydantic-ai"}
"""Extras for users of a framework, who have it already; `frameworks` is all of them, for the tests."""
FEATURES = sorted(EXTRAS.keys() - {"all", "dev", "frameworks"})


@pytest.mark.parametrize("extra", FEATURES)
def test_an_extra_is_used_by_the_code(extra: str) -> None:
    source = "".join(path.read_text("utf-8") for path in (ROOT / "src").rglob("*.py"))
    for requirement in EXTRAS[extra]:
        (package,) = re.findall(r"^[\w-]+", requirement)
        assert re.search(rf"^ *(import|from) {package}\b|\"{package}\"", source, re.M), f"{package} is not used"


def test_all_is_every_extra() -> None:
    assert EXTRAS["all"] == [
        f"lossless[{','.join(key for key in EXTRAS if key in FEATURES and key not in FRAMEWORKS)}]"
    ]


def test_the_tests_of_frameworks_have_all_of_them() -> None:
    assert EXTRAS["frameworks"][0] == f"lossless[{','.join(sorted(FRAMEWORKS))}]"


def test_the_version_is_stated_once() -> None:
    assert "version" in PROJECT["dynamic"]
    assert re.fullmatch(r"\d+\.\d+\.\d+", lossless.__version__)


def test_the_source_package_holds_what_its_tests_need() -> None:
    build = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["tool"]["hatch"]["build"]["targets"]["sdist"]
    assert {"src", "tests", "docs", "examples", "scripts", "bench"} <= set(build["include"])
    assert all((ROOT / name).exists() for name in build["include"])
