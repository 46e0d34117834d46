"""Every public verb has a docstring with an example, and every example runs."""

from __future__ import annotations

import doctest
import inspect
from pathlib import Path

import pytest

from lossless import Conversation, Lossless, Message
from lossless.client.conversations import Conversations
from lossless.client.doctor import Doctor
from lossless.client.files import ConversationFiles, StoredFiles
from lossless.client.messages import Messages
from lossless.client.summaries import Summaries
from tests.engine.compaction.test_compaction import short, turns
from tests.engine.surgery.test_rewrite import DEEP, ROOM

CLASSES = (Lossless, Conversations, Messages, Summaries, StoredFiles, Doctor, Conversation, ConversationFiles)
VERBS = {
    f"{kind.__name__}.{name}": getattr(kind, name)
    for kind in CLASSES
    for name in dir(kind)
    if (not name.startswith("_") or (name == "__call__" and name in vars(kind)))
    and not isinstance(inspect.getattr_static(kind, name), property)
}
MODEL = {"Conversation.ask", "Lossless.ask", "Conversation.compact"}
"""Verbs whose examples run without a model."""


@pytest.mark.parametrize("verb", VERBS)
def test_the_example_of_a_verb_runs(verb: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("LCM_DATABASE_PATH", str(tmp_path / "default.db"))
    names: dict[str, object] = {"Lossless": Lossless, "Message": Message}
    with Lossless.open("lcm.db", settings=DEEP, summarizer=short) as lcm:
        chat = lcm.conversation("agent:main:main")
        chat.ingest([*turns(20), Message.user("line of a log\n" * 20_000)])
        chat.compact(ROOM)
        lcm.conversation("other").ingest([Message.user("hello")])
        summaries = chat.summaries()
        names |= {"message": "msg#1000000001", "summary": summaries[0].id, "file": chat.files()[0].id}
        names["condensed"] = next(each.id for each in lcm.summaries(chat.key, depth=1) if each.place == "context")
    summarizer = "extractive" if verb in MODEL else short
    settings = None if verb in MODEL else DEEP
    with Lossless.open("lcm.db", settings=settings, summarizer=summarizer) as lcm:
        names |= {"lcm": lcm, "chat": lcm.conversation("agent:main:main")}
        examples = doctest.DocTestParser().get_doctest(inspect.getdoc(VERBS[verb]) or "", names, verb, None, 0)
        assert examples.examples, f"{verb} has no example"
        report: list[str] = []
        doctest.DocTestRunner(optionflags=doctest.ELLIPSIS).run(examples, out=report.append)
        assert not report, "".join(report)


@pytest.mark.parametrize("verb", VERBS)
def test_a_docstring_begins_with_a_verb_phrase_on_one_line(verb: str) -> None:
    first, _, rest = (inspect.getdoc(VERBS[verb]) or "").partition("\n")
    assert first.endswith(".")
    assert not rest or rest.startswith("\n")
    assert first.split()[0] not in {"What", "Which", "Whether", "Where", "Who", "How", "When", "Why", "As", "The"}
