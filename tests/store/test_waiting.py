"""A limit on waiting counts for all transactions of some work together, in either database."""

from __future__ import annotations

import threading
import time
from pathlib import Path

import pytest

from lossless import Lossless
from lossless.errors import StoreBusy
from lossless.model import Message, Text
from lossless.store.waiting import WaitLimit, at_most, current
from tests.locks import locked

LONG = 15.0
"""Far more than the limits here, and half of what is waited without one."""


def say(lcm: Lossless, text: str) -> None:
    lcm.conversation("chat").ingest([Message("user", (Text(text),))])


def test_work_gives_up_after_its_limit_and_succeeds_when_the_lock_is_gone(database: str) -> None:
    with Lossless.open(database) as lcm:
        say(lcm, "one")
        begun = time.monotonic()
        with locked(database), at_most(0.3) as limit:
            for _ in range(3):
                with pytest.raises(StoreBusy):
                    say(lcm, "two")
            assert limit.left == 0
        assert time.monotonic() - begun < LONG
        with at_most(0.3) as limit:
            say(lcm, "three")
        assert limit.has_entered
        assert [each.text for each in lcm.conversation("chat").messages()] == ["one", "three"]
    assert current() is None


def test_a_database_is_opened_within_the_limit(tmp_path: Path) -> None:
    path = tmp_path / "lcm.db"
    path.touch()
    begun = time.monotonic()
    with locked(path, "BEGIN EXCLUSIVE"), at_most(0.3), pytest.raises(StoreBusy):
        Lossless.open(path)
    assert time.monotonic() - begun < LONG


def test_a_thread_that_waits_for_the_database_does_not_keep_another_beyond_its_limit(tmp_path: Path) -> None:
    path, events = tmp_path / "lcm.db", threading.Event()
    with Lossless.open(path, on_event=lambda event: events.set()) as lcm:
        say(lcm, "one")
        with locked(path):
            patient = threading.Thread(target=say, args=(lcm, "two"))
            patient.start()
            assert events.wait(LONG), "it waits, and says so"
            begun = time.monotonic()
            with at_most(0.2), pytest.raises(StoreBusy, match="in use by this process"):
                say(lcm, "three")
            assert time.monotonic() - begun < LONG
        patient.join(LONG)
        assert [each.text for each in lcm.conversation("chat").messages()] == ["one", "two"]


def test_waits_are_added_up() -> None:
    limit = WaitLimit(1.0)
    assert limit.spend(0.6)
    assert not limit.spend(0.6)
    assert (limit.left, limit.seconds) == (0.0, 1.0)
