"""The public surface: every documented name can be imported, and a change of a signature is seen in review.

`LCM_TEST_GOLDEN=write pytest tests/test_surface.py` writes the signatures again.
"""

from __future__ import annotations

import inspect
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import lossless
from lossless import AsyncConversation, AsyncLossless, Conversation, Lossless

ROOT = Path(__file__).parents[1]
PAGE = (ROOT / "docs/reference/api.md").read_text("utf-8")
SIGNATURES = Path(__file__).parent / "cases" / "signatures.txt"
CLASSES = (Lossless, Conversation, AsyncLossless, AsyncConversation)
CONSTANTS = {"True", "False", "None"}


def documented() -> list[str]:
    """Return every class that api.md names in code, up to the section about other modules."""
    code = " ".join(re.findall(r"`[^`]+`", PAGE.partition("\n## Other modules")[0]))
    return sorted(set(re.findall(r"(?<![\w\"])[A-Z][a-z]+(?:[A-Z][a-z]+)*\b", code)) - CONSTANTS)


def test_the_page_documents_names() -> None:
    assert len(documented()) >= 60


@pytest.mark.parametrize("name", documented())
def test_every_documented_name_can_be_imported_from_the_package(name: str) -> None:
    assert name in lossless.__all__
    assert getattr(lossless, name).__name__ == name


def test_importing_the_package_loads_none_of_its_modules() -> None:
    code = "import sys, lossless; print(sorted(name for name in sys.modules if name.startswith('lossless')))"
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ran.stdout.strip() == "['lossless', 'lossless.version']"


def test_a_name_that_does_not_exist_is_refused() -> None:
    with pytest.raises(AttributeError, match="nonsense"):
        lossless.nonsense  # type: ignore[attr-defined]  # noqa: B018  # the point: nothing has this name


def signatures(kind: type) -> Iterator[str]:
    """List the public members of a class, each with its signature."""
    for name, _ in inspect.getmembers(kind):
        if name.startswith("_"):
            continue
        member = inspect.getattr_static(kind, name)
        if isinstance(member, property):
            yield f"{kind.__name__}.{name}"
        else:
            # A default that is a function has its address in its text, an annotation its quotes.
            signature = re.sub(
                r"<(?:built-in )?function (\w+)[^>]*>|'", r"\1", str(inspect.signature(getattr(kind, name)))
            )
            yield f"{kind.__name__}.{name}{signature}"


def test_the_signatures_are_those_that_were_reviewed() -> None:
    written = "\n".join(line for kind in CLASSES for line in signatures(kind)) + "\n"
    if os.environ.get("LCM_TEST_GOLDEN") == "write":
        SIGNATURES.write_text(written, "utf-8")
    assert SIGNATURES.read_text("utf-8") == written
