"""What hosts delivered and which hooks fired is recorded, whatever happens to the database."""

from __future__ import annotations

import fcntl
import os
import stat
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Thread

import pytest

from lossless.engine.shared import host_activity
from lossless.engine.shared.host_activity import read_all, record


@pytest.fixture(autouse=True)
def _state(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))


def test_the_first_and_the_newest_delivery_are_recorded() -> None:
    record("codex", "Stop", seconds=0.2, delivered=2, database="/a/lcm.db", clock=lambda: 100.0)
    record("codex", "SessionStart", seconds=0.1, clock=lambda: 200.0)
    record("codex", "Stop", seconds=0.05, delivered=3, clock=lambda: 300.0)
    (found,) = read_all()
    assert (found.first_delivery, found.last_delivery, found.delivered) == (100.0, 300.0, 5)
    assert (found.last_event, found.last_event_at, found.last_seconds, found.slowest_seconds) == (
        "Stop",
        300,
        0.05,
        0.2,
    )
    assert found.database == "/a/lcm.db"


def test_failures_are_counted_until_one_event_succeeds() -> None:
    record("codex", "Stop", error="The database is locked.", clock=lambda: 1.0)
    record("codex", "Stop", error="The database is locked.", clock=lambda: 2.0)
    assert [(found.failures, found.last_error) for found in read_all()] == [(2, "The database is locked.")]
    record("codex", "Stop", clock=lambda: 3.0)
    assert [(found.failures, found.last_error_at) for found in read_all()] == [(0, 2.0)]


def test_hooks_that_fire_at_once_lose_no_count() -> None:
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda _: record("codex", "Stop", delivered=1), range(64)))
    assert read_all()[0].delivered == 64


@pytest.mark.parametrize("damage", [b"", b"{", b'{"host": 3}', b"\xff\xfe"])
def test_a_damaged_record_is_overwritten(damage: bytes) -> None:
    record("codex", "Stop", delivered=1)
    path = host_activity.directory() / "codex.json"
    path.write_bytes(damage)
    assert read_all() == []
    record("codex", "Stop", delivered=1)
    assert read_all()[0].delivered == 1


def test_a_record_that_cannot_be_written_is_no_error(tmp_path: Path) -> None:
    (tmp_path / "lossless").write_text("a file in the way")
    record("codex", "Stop", delivered=1)
    assert read_all() == []


def test_a_name_that_is_no_name_of_a_host_writes_nothing() -> None:
    record("../../evil", "Stop")
    record("", "Stop")
    assert read_all() == []


def test_records_are_for_their_owner_only() -> None:
    record("codex", "Stop")
    assert {stat.S_IMODE(path.stat().st_mode) for path in host_activity.directory().iterdir()} == {0o600}
    assert stat.S_IMODE(host_activity.directory().stat().st_mode) == 0o700


def test_a_failure_is_recorded_where_no_new_file_can_be_written() -> None:
    record("codex", "Stop", delivered=2, clock=lambda: 1.0)
    draft = host_activity.directory() / f"codex.{os.getpid()}.draft"
    draft.mkdir()  # as on a full disk
    record("codex", "Stop", error="The disk is full.", clock=lambda: 2.0)
    assert [(found.delivered, found.failures, found.last_error) for found in read_all()] == [
        (2, 1, "The disk is full.")
    ]


def test_a_stopped_process_that_holds_the_lock_delays_nobody_for_long() -> None:
    record("codex", "Stop", clock=lambda: 1.0)
    begun = time.monotonic()
    with (host_activity.directory() / "codex.lock").open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        recording = Thread(target=record, args=("codex", "Stop"), daemon=True)
        recording.start()
        recording.join(10)
    assert time.monotonic() - begun < 5
