"""Whatever a host and its transcript tell, in whatever order and however often they break off: one row per event, in order."""

from __future__ import annotations

import json
import shutil
import tempfile
from pathlib import Path

import psycopg
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule, run_state_machine_as_test

from lossless import Conversation, Lossless, Message, Settings
from tests.conftest import new_database
from tests.transcribing import Died, Session, assistant, dying, user

WORDS = st.sampled_from(["ok", "again", "continue", "a longer thing to say"])
LATER = st.sampled_from(["before", "after", "never"])


_LIVES = max(24, hypothesis_settings().max_examples)


class Told(RuleBasedStateMachine):
    """A host that talks, writes, forgets, dies, forks and starts new files."""

    server: str | None = None

    @initialize(named=st.booleans())
    def open(self, named: bool) -> None:
        self.directory = Path(tempfile.mkdtemp(prefix="lcm-told-"))
        self.database = new_database(self.server) if self.server else str(self.directory / "lcm.db")
        self.named = named
        self.events: list[int] = []
        """When each message was said, in order: no two at the same time."""
        self.forks: list[tuple[str, Session]] = []
        self.number = 0
        self.lcm = self.opened()
        self.session = self.next_session()
        self.files = [self.session]
        self.chat.bootstrap(self.session.path)

    def opened(self) -> Lossless:
        lcm = Lossless.open(self.database, settings=Settings(large_files_dir=str(self.directory / "files")))
        lcm._background.wake = lambda: None  # type: ignore[method-assign]  # nothing is to be done meanwhile
        return lcm

    def next_session(self) -> Session:
        self.number += 1
        started = Session(self.directory / f"s{self.number}.jsonl", f"s{self.number}")
        started.count = len(self.events)
        return started

    @property
    def chat(self) -> Conversation:
        return self.lcm.conversation("k", session=self.session.session)

    @rule(asked=WORDS, told=WORDS, live=LATER)
    def turn(self, asked: str, told: str, live: str) -> None:
        """The host may deliver a turn before its transcript has it, after, or not at all."""
        start = len(self.session.said)
        lines = [self.session.entry(user(asked)), self.session.entry(assistant(told))]
        self.events += [message["timestamp"] for _, message in self.session.said[start:]]
        said = self.session.live(start, named=self.named)
        if live == "before":
            self.deliver(said)
        self.session.write(lines)
        if live == "after":
            self.deliver(said)

    def deliver(self, said: list[Message]) -> None:
        self.chat.after_turn(said, window=1_000_000)

    @rule(asked=WORDS, after=st.integers(0, 30), again=st.booleans())
    def turn_in_which_it_dies(self, asked: str, after: int, again: bool) -> None:
        start = len(self.session.said)
        self.session.write([self.session.entry(user(asked))])
        self.events.append(self.session.said[-1][1]["timestamp"])
        said = self.session.live(start, named=self.named)
        try:
            with dying(self.lcm._store, after):
                self.deliver(said)
        except Died:
            self.restart()
            if again:
                self.deliver(said)

    @rule()
    def read(self) -> None:
        self.chat.bootstrap(self.session.path)

    @rule(after=st.integers(0, 40))
    def die_while_reading(self, after: int) -> None:
        try:
            with dying(self.lcm._store, after):
                self.chat.bootstrap(self.session.path)
        except Died:
            self.restart()

    @rule()
    def restart(self) -> None:
        self.lcm.close()
        self.lcm = self.opened()

    @rule()
    def half_a_line(self) -> None:
        """A reading while the host is in the middle of a line."""
        whole = self.session.path.read_bytes()
        self.session.path.write_bytes(whole + b'{"type":"message","id":"half')
        self.chat.bootstrap(self.session.path)
        self.session.path.write_bytes(whole)

    @precondition(lambda self: self.session.said)
    @rule()
    def rotate(self) -> None:
        self.session = self.next_session()
        self.files.append(self.session)
        self.chat.bootstrap(self.session.path)  # a host says so when a session starts

    @precondition(lambda self: len(self.session.said) > 2)
    @rule(keep=st.integers(1, 4))
    def shrink(self, keep: int) -> None:
        """Maintenance cuts what was read off the file."""
        self.chat.bootstrap(self.session.path)
        lines = [json.loads(line) for line in self.session.path.read_text().splitlines()]
        self.session.write([lines[0], *lines[1:][-keep:]], "w")

    @precondition(lambda self: self.session.said)
    @rule(asked=WORDS)
    def fork(self, asked: str) -> None:
        """Another conversation goes on from here, with a file of its own."""
        self.number += 1
        copied = self.directory / f"fork{self.number}.jsonl"
        lines = self.session.path.read_text().splitlines(keepends=True)
        forked = Session(copied, f"fork{self.number}", parent=self.session.session)
        with copied.open("a") as file:
            file.writelines(lines[1:])
        forked.said, forked.leaf, forked.count = list(self.session.said), self.session.leaf, self.session.count + 500
        forked.said = forked.said[-(len(lines) - 1) :]
        forked.says(user(asked))
        self.forks.append((f"fork:{self.number}", forked))
        self.lcm.conversation(f"fork:{self.number}").bootstrap(copied)

    def teardown(self) -> None:
        if not hasattr(self, "lcm"):
            return
        try:
            self.converged()
        finally:
            self.lcm.close()
            shutil.rmtree(self.directory)

    def converged(self) -> None:
        for session in self.files:
            self.chat.bootstrap(session.path)
        rows = self.chat.messages()
        assert [when(row.message) for row in rows] == self.events
        assert [row.outside for row in rows] == [None] * len(rows)
        for key, forked in self.forks:
            fork = self.lcm.conversation(key)
            assert fork.bootstrap(forked.path).imported == 0
            assert [when(row.message) for row in fork.messages()] == [said["timestamp"] for _, said in forked.said]
        for session in self.files:
            assert self.chat.bootstrap(session.path).imported == 0


def when(message: Message) -> int:
    assert message.at is not None
    return round(message.at.timestamp() * 1000)


def test_they_converge_on_sqlite() -> None:
    run_state_machine_as_test(Told, settings=hypothesis_settings(max_examples=_LIVES, stateful_step_count=20))


def test_they_converge_on_postgresql(postgres_server: str) -> None:
    class OnPostgres(Told):
        server = postgres_server

        def teardown(self) -> None:
            super().teardown()
            if hasattr(self, "database"):
                name = self.database.rpartition("/")[2].partition("?")[0]
                with psycopg.connect(postgres_server, autocommit=True) as connection:
                    connection.execute(f"DROP DATABASE IF EXISTS {name} WITH (FORCE)".encode())

    run_state_machine_as_test(
        OnPostgres, settings=hypothesis_settings(max_examples=_LIVES // 3, stateful_step_count=20)
    )
