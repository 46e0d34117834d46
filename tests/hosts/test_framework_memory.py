"""The common part of the adapters for frameworks, without a framework: a locked, a deleted and a replaced database."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from lossless import Conversation, Lossless
from lossless.engine.shared import host_activity
from lossless.events import Event
from lossless.hosts.frameworks import Memory, recall
from lossless.model import Message, Text
from tests.locks import locked


class Framework:
    """A framework that keeps its own list, and delivers it before each request."""

    def __init__(self, path: Path) -> None:
        self.path, self.events = path, list[Event]()
        self.lcm = Lossless.open(path, summarizer="extractive", on_event=self.events.append)
        self.memory = Memory("testhost", self.lcm, package="pytest", window=8_000)
        self.chat = self.memory.chat("one")
        self.list: list[Message] = []

    def say(self, text: str) -> str:
        """Add a message, store the list, and return what a model would be shown."""
        self.list.append(Message("user", (Text(text),), event_id=text))
        self.memory.attempt("store", self.memory.store_list, self.chat, self.list)
        context = self.memory.attempt("assemble", self.memory.view, self.chat, self.list)
        assert context is not None
        return "\n".join(message.text for message in context.messages)

    def stored(self) -> list[str]:
        with Lossless.open(self.path, read_only=True) as lcm:
            return [each.text for each in lcm.conversation(self.chat.key).messages()]

    def activity(self) -> host_activity.HostActivity:
        (found,) = host_activity.read_all()
        return found


@pytest.fixture
def framework(tmp_path: Path, state: Path) -> Iterator[Framework]:
    made = Framework(tmp_path / "lcm.db")
    yield made
    made.lcm.close()


def test_a_locked_database_delays_a_run_by_seconds_and_nothing_is_lost(framework: Framework) -> None:
    framework.say("one")
    with locked(framework.path):
        begun = time.monotonic()
        for number in range(10):
            assert f"step {number}" in framework.say(f"step {number}")
        assert time.monotonic() - begun < 15
        assert framework.activity().failures == 10
        assert "host.failed" in [event.name for event in framework.events]
    framework.say("two")
    assert framework.stored() == ["one", *(f"step {number}" for number in range(10)), "two"]
    assert framework.activity().failures == 0


@pytest.mark.parametrize("how", ["deleted", "replaced"])
def test_a_database_that_was_deleted_or_replaced_is_opened_again(framework: Framework, how: str) -> None:
    framework.say("one")
    pinned: Conversation = framework.lcm.conversation("pinned")
    for path in framework.path.parent.glob("lcm.db*"):
        path.unlink()
    if how == "replaced":
        Lossless.open(framework.path).close()
    assert "two" in framework.say("two")
    # The framework holds what the other database had, and delivers it.
    assert framework.stored() == ["one", "two"]
    (said,) = [event.message for event in framework.events if event.name == "host.failed"]
    assert "was deleted, moved or replaced" in said
    assert framework.activity().failures == 0
    # Conversations that the application holds go on there, too, and so does work in the background.
    pinned.ingest([Message("user", (Text("mine"),))])
    assert [each.text for each in framework.lcm.conversation("pinned").messages()] == ["mine"]
    assert "two" in recall(framework.memory, framework.chat, "lcm_grep", {"pattern": "two"})
    framework.lcm._background.wake()
    assert not framework.lcm._background.is_closing


def test_a_database_that_cannot_be_opened_again_breaks_no_run_and_is_tried_at_the_next_step(
    framework: Framework,
) -> None:
    framework.say("one")
    for path in framework.path.parent.glob("lcm.db*"):
        path.unlink()
    framework.path.mkdir()
    assert "two" in framework.say("two")
    assert framework.activity().failures > 0
    framework.path.rmdir()
    framework.say("three")
    assert framework.stored() == ["one", "two", "three"]
