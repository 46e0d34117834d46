"""The public surface: every documented name can be imported, and a change of a signature is seen in review.

`LCM_TEST_GOLDEN=write pytest tests/client/test_surface.py` writes the signatures again.
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
from lossless import Conversation, Lossless, aio
from lossless.client.conversations import Conversations
from lossless.client.doctor import Doctor
from lossless.client.files import ConversationFiles, StoredFiles
from lossless.client.messages import Messages
from lossless.client.summaries import Summaries

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs/reference/api.md").read_text("utf-8")
SIGNATURES = Path(__file__).parents[1] / "cases" / "signatures.txt"
CLASSES = (
    *(Lossless, Conversations, Messages, Summaries, StoredFiles, Doctor),
    *(Conversation, ConversationFiles),
    *(
        aio.AsyncLossless,
        aio.AsyncConversations,
        aio.AsyncMessages,
        aio.AsyncSummaries,
        aio.AsyncFiles,
        aio.AsyncDoctor,
    ),
    *(aio.AsyncConversation, aio.AsyncConversationFiles),
)
CONSTANTS = {"True", "False", "None"}


def documented() -> list[str]:
    """Return every class that api.md names in code, up to the section about other modules."""
    prose = re.sub(r"```.*?```", "", PAGE.partition("\n## Other modules")[0], flags=re.S)
    code = " ".join(re.findall(r"`[^`]+`", prose))
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
        if name.startswith("_") and not (name == "__call__" and "__call__" in vars(kind)):
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


PAIRS = [
    (Lossless, aio.AsyncLossless, {"watch", "worker"}),
    (Conversations, aio.AsyncConversations, set[str]()),
    (Messages, aio.AsyncMessages, set[str]()),
    (Summaries, aio.AsyncSummaries, set[str]()),
    (StoredFiles, aio.AsyncFiles, set[str]()),
    (Doctor, aio.AsyncDoctor, set[str]()),
    (Conversation, aio.AsyncConversation, set[str]()),
    (ConversationFiles, aio.AsyncConversationFiles, set[str]()),
]


def public(kind: type) -> set[str]:
    return {name for name in dir(kind) if not name.startswith("_") or (name == "__call__" and "__call__" in vars(kind))}


@pytest.mark.parametrize(("kind", "twin", "synchronous"), PAIRS, ids=lambda each: getattr(each, "__name__", ""))
def test_every_verb_has_an_awaited_twin_with_the_same_signature(kind: type, twin: type, synchronous: set[str]) -> None:
    assert public(kind) - public(twin) == synchronous
    for name in public(kind) - synchronous - {"conversation", "find"}:
        member = inspect.getattr_static(kind, name)
        if not isinstance(member, property):
            assert inspect.signature(getattr(twin, name)) == inspect.signature(getattr(kind, name)), name


DOCUMENTED = {
    Lossless: "",
    Conversations: "conversations.",
    Messages: "messages.",
    Summaries: "summaries.",
    StoredFiles: "files.",
    Doctor: "doctor.",
    Conversation: "",
    ConversationFiles: "files.",
}


@pytest.mark.parametrize("kind", DOCUMENTED, ids=lambda kind: kind.__name__)
def test_every_verb_is_on_the_page(kind: type) -> None:
    for name in public(kind):
        call = DOCUMENTED[kind].rstrip(".") if name == "__call__" else f"{DOCUMENTED[kind]}{name}"
        is_group = isinstance(inspect.getattr_static(kind, name), property)
        assert is_group or re.search(rf"`(?:Lossless\.)?{re.escape(call)}\(", PAGE), call
