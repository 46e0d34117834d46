"""The promise: the context items, expanded to their leaves, are every message exactly once, in order."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from lossless import Lossless, Message, Settings
from lossless.engine.ingest.ingest import SHOWN
from lossless.errors import LosslessError
from tests import strategies
from tests.conftest import new_database


class Boom(Exception):
    """A host that dies in the middle of a call."""


class History(RuleBasedStateMachine):
    """Random deliveries, against a list that a child could keep."""

    server: str | None = None

    @initialize()
    def open(self) -> None:
        self.directory = Path(tempfile.mkdtemp(prefix="lcm-promise-"))
        self.database = new_database(self.server) if self.server else str(self.directory / "lcm.db")
        self.settings = Settings(large_file_token_threshold=1000, large_files_dir=str(self.directory / "files"))
        self.lcm = Lossless.open(self.database, settings=self.settings)
        self.said: list[Message] = []
        self.events: dict[str, Message] = {}
        self.sent_whole: list[Message] = []
        self.only_whole = True
        self.archived: list[list[Message]] = []

    @property
    def chat(self):  # type: ignore[no-untyped-def]  # a fresh handle each time, as hosts do
        return self.lcm.conversation("k")

    def named(self, message: Message) -> Message:
        event_id = f"event {len(self.events)}"
        named = Message(message.role, message.parts, message.at, message.name, event_id, message.stop, message.extra)
        self.events[event_id] = named
        return named

    @rule(messages=st.lists(strategies.messages, min_size=1, max_size=4))
    def deliver(self, messages: list[Message]) -> None:
        named = [self.named(message) for message in messages]
        assert len(self.chat.ingest(named).stored) == len(named)
        self.said += named
        self.only_whole = False

    @rule(messages=st.lists(strategies.messages, min_size=1, max_size=3))
    def deliver_without_ids(self, messages: list[Message]) -> None:
        assert len(self.chat.ingest(messages).stored) == len(messages)
        self.said += messages
        self.only_whole = False

    @precondition(lambda self: self.events)
    @rule(data=st.data(), fresh=st.lists(strategies.messages, max_size=2))
    def deliver_again_in_any_order(self, data: st.DataObject, fresh: list[Message]) -> None:
        again = data.draw(st.lists(st.sampled_from(list(self.events.values())), max_size=5))
        new = [self.named(message) for message in fresh]
        batch = data.draw(st.permutations([*again, *new])) if new else again
        order = [message for message in batch if message in new]
        done = self.chat.ingest(batch)
        assert (len(done.stored), done.known) == (len(new), len(again))
        self.said += order
        self.only_whole = self.only_whole and not new

    @precondition(lambda self: self.only_whole)
    @rule(messages=st.lists(strategies.messages, max_size=3))
    def resend_everything(self, messages: list[Message]) -> None:
        self.sent_whole = [*self.sent_whole, *messages]
        assert len(self.chat.ingest(self.sent_whole, whole=True).stored) == len(messages)
        self.said += messages

    @rule(messages=st.lists(strategies.messages, min_size=1, max_size=3))
    def crash_in_the_middle(self, messages: list[Message]) -> None:
        """The write is done and the commit is not: nothing of it may be seen, then or later."""
        store = self.lcm._store
        with pytest.raises(Boom), store.transaction():
            self.chat.ingest(messages)
            raise Boom

    @rule(retain_depth=st.integers(-1, 2))
    def begin_anew(self, retain_depth: int) -> None:
        self.chat.new(retain_depth)

    @rule()
    def reset(self) -> None:
        is_due = bool(self.said) or not self.lcm.conversations()
        assert self.chat.reset() is is_due
        if self.said:
            self.archived.append(self.said)
        self.said, self.events, self.sent_whole, self.only_whole = [], {}, [], True

    @rule()
    def reopen(self) -> None:
        self.lcm.close()
        self.lcm = Lossless.open(self.database, settings=self.settings)

    @rule()
    def send_nonsense(self) -> None:
        with pytest.raises(LosslessError):
            self.chat.ingest([Message.user("never"), "not a message"])

    @invariant()
    def every_message_once_in_order(self) -> None:
        if not hasattr(self, "lcm"):
            return
        stored = self.chat.messages()
        assert [m.message for m in stored] == self.said
        assert [m.seq for m in stored] == list(range(1, len(self.said) + 1))
        shown = {m.id for m in stored if m.outside is None}
        context = [item.id for item in self.chat.context().items]
        assert context == sorted(context)
        assert sorted([*context, *(int(each.id[4:]) for each in self.chat.detached())]) == sorted(shown)
        hidden = [m for m in stored if m.outside]
        assert all(m.role not in SHOWN or (m.message.stop and not m.text) for m in hidden)
        rows = self.lcm._store.conversations.of_owner()
        assert self.chat.context().tokens == sum(row.context_tokens for row in rows if row.active)
        archived = [
            self.lcm._store.messages.read(row.id) for row in sorted(rows, key=lambda row: row.id) if not row.active
        ]
        assert [[each.event_id for each in rows] for rows in archived] == [
            [message.event_id for message in said] for said in self.archived
        ]

    def teardown(self) -> None:
        if hasattr(self, "lcm"):
            assert self.lcm._store.check_search() == []
            assert self.lcm._store.damage() == []
            self.lcm.close()
            shutil.rmtree(self.directory)


def test_the_promise_on_sqlite() -> None:
    run_state_machine_as_test(History)


def test_the_promise_on_postgresql(postgres_server: str) -> None:
    class OnPostgres(History):
        server = postgres_server

    # A server answers more slowly, and runs the same code: half as many histories.
    run_state_machine_as_test(OnPostgres, settings=settings(max_examples=settings().max_examples // 2))
