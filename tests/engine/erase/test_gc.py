"""What nobody needs is told, then removed; whatever somebody needs, or may be about to need, stays."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from collections import namedtuple
from collections.abc import Callable, Iterator
from pathlib import Path

import anyio
import pytest

from lossless import AsyncLossless, Lossless, Message, Settings
from lossless.engine.backup.backup_file import drafting
from lossless.engine.erase import gc as collecting
from lossless.engine.shared.abandoned_drafts import hold_draft
from lossless.engine.shared.files_dir import SHARED, is_exclusive
from lossless.engine.shared.promise import promise_violations
from lossless.errors import InvalidInput, StoreFull
from lossless.model import Garbage
from lossless.store.rows.types import GrantRow, NewManifest
from lossless.store.sqlite.store import SQLiteStore

NOW = 1_790_000_000
DAY = 86_400
LARGE = "A large one, line after line.\n" * 1000
Room = namedtuple("Room", "total used free")


@pytest.fixture
def lcm(database: str, tmp_path: Path) -> Iterator[Lossless]:
    settings = Settings(large_files_dir=str(tmp_path / "files"), large_file_token_threshold=1000)
    with Lossless.open(database, settings=settings, summarizer="extractive", clock=lambda: NOW) as lcm:
        yield lcm


def orphan(lcm: Lossless, name: str = "ab" * 32, *, age: int = 2 * 3600, size: int = 5000) -> Path:
    """A payload whose row never came, so many seconds old."""
    path = lcm._files.root / name[:2] / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"x" * size)
    os.utime(path, (NOW - age, NOW - age))
    return path


def age(path: Path) -> None:
    os.utime(path, (NOW - 2 * 3600, NOW - 2 * 3600))


def payloads(lcm: Lossless) -> set[Path]:
    return {path for path in lcm._files.root.rglob("*") if path.is_file()}


def litter(lcm: Lossless) -> None:
    """A grant, a lease and a note of each kind: one that is over, and one that is not."""
    store = lcm._store
    for key in ("old", "live"):
        lcm.conversation(key).ingest([Message.user(f"Something said in {key}.", event_id=key)])
    old, live = (lcm.conversation(key).status().id for key in ("old", "live"))
    now = NOW * 1_000_000
    with store.transaction():
        for conversation_id, at in (
            (old, now - 100 * DAY * 1_000_000),
            (old, now),
            (live, now - 100 * DAY * 1_000_000),
        ):
            store.manifests.add(conversation_id, [NewManifest(at, 2, 3, "prefix", "reason", b"x")], 10)
        for name, ends in (("over", now - 2 * DAY * 1_000_000), ("holds", now + 1)):
            store.grants.add(GrantRow(name, "old", "q", 100, 0, 3, 1, ends, None, (old,)))
        store.debts.record(live, 1_000, 10, None, now)
    assert store.debts.claim("worker", now=now, idle_before=now, lease_until=now - 2 * 3600 * 1_000_000, tries=0)
    lcm.conversation("old").end("deleted")


def test_what_nobody_needs_is_told_and_then_gone(lcm: Lossless) -> None:
    litter(lcm)
    chat = lcm.conversation("live")
    chat.ingest([Message.user(LARGE, event_id="large")])
    for kept in payloads(lcm):
        age(kept)
    stray = orphan(lcm)
    draft = stray.with_name(f".{'cd' * 32}.4711.0a1b2c3d")
    draft.write_bytes(b"half")
    age(draft)
    told = lcm.gc(unshared=True)
    assert (told.files, told.drafts, told.grants, told.manifests, told.leases) == (1, 1, 1, 1, 1)
    assert told.bytes >= 5004
    assert not told.applied
    assert {stray, draft} < payloads(lcm)

    before = chat.messages(), chat.summaries()
    done = lcm.gc(apply=True, unshared=True)
    assert (done.files, done.drafts, done.grants, done.manifests, done.leases) == (1, 1, 1, 1, 1)
    assert done.applied
    assert done.complete
    assert done.bytes >= 5004
    assert (chat.messages(), chat.summaries()) == before
    assert LARGE in before[0][-1].text
    assert promise_violations(lcm._store, chat.status().id) == []
    assert lcm._store.grants.get("holds")
    debt = lcm._store.debts.get(chat.status().id)
    assert debt
    assert (debt.pending, debt.worker) == (True, None)
    again = lcm.gc(unshared=True)
    assert (again.files, again.drafts, again.grants, again.manifests, again.leases) == (0, 0, 0, 0, 0)


def test_a_payload_that_gets_its_row_between_plan_and_removal_stays(lcm: Lossless) -> None:
    lcm.conversation("a").ingest([Message.user(LARGE, event_id="a")])
    (path,) = payloads(lcm)
    lcm.forget("a", apply=True, unshared=True)
    assert payloads(lcm) == set()
    path.write_bytes(LARGE.encode())  # as a writer leaves it that died before its row
    age(path)
    found = collecting.find_unused(lcm._runtime, unshared=True)
    assert [each.path for each in found.payloads] == [path]
    lcm.conversation("b").ingest([Message.user(LARGE, event_id="b")])
    done = collecting.collect(lcm._runtime, found)
    assert done.files == 0
    assert lcm.conversation("b").messages()[0].text == LARGE


@pytest.mark.parametrize("database", ["sqlite"], indirect=True)
def test_a_payload_just_written_and_what_is_not_ours_stay(lcm: Lossless) -> None:
    fresh = orphan(lcm, age=60)
    strange = fresh.with_name("README")
    strange.write_text("mine")
    age(strange)
    beside = lcm._files.root.parent / ".somebody.else.12.0a1b2c3d"
    beside.write_text("theirs")
    age(beside)
    done = lcm.gc(apply=True, unshared=True)
    assert (done.files, done.drafts) == (0, 0)
    assert fresh.exists()
    assert strange.exists()
    assert beside.exists()


@pytest.mark.parametrize("database", ["sqlite"], indirect=True)
def test_in_a_directory_that_others_may_use_no_payload_goes_unless_somebody_says_they_do_not(lcm: Lossless) -> None:
    theirs = orphan(lcm)
    done = lcm.gc(apply=True)
    assert (done.files, done.doubtful) == (0, 1)
    assert theirs.exists()


def test_a_directory_named_after_the_database_is_its_own(tmp_path: Path) -> None:
    with Lossless.open(tmp_path / "lcm.db", settings=Settings(), clock=lambda: NOW) as lcm:
        stray = orphan(lcm)
        draft = tmp_path / ".lcm.db.pruned-20260101-000000.zip.4711.0a1b2c3d"
        draft.write_bytes(b"half")
        age(draft)
        backups = [tmp_path / f"lcm.db.backup-20260101T000000Z.{n}-0a1b2c3d.part" for n in (1, 2)]
        for backup, days in zip(backups, (0.1, 2), strict=True):
            backup.mkdir()
            (backup / "database").write_bytes(b"half")
            os.utime(backup, (NOW - days * DAY, NOW - days * DAY))
        with hold_draft(backups[0]):
            done = lcm.gc(apply=True)
        assert (done.files, done.drafts, done.doubtful) == (1, 2, 0)
        assert not stray.exists()
        assert not draft.exists()
        assert [backup.exists() for backup in backups] == [True, False]  # somebody is still at one


def test_copies_go_when_somebody_says_how_old_they_may_be(lcm: Lossless) -> None:
    store = lcm._store
    with store.transaction():
        store.keep_copy_before(99)  # type: ignore[attr-defined]  # as a migration does
        if not isinstance(store, SQLiteStore):
            store.script("CREATE SCHEMA lossless_before_fix_20200101_000000_000000")
    copy = min(store.kept_copies())
    if isinstance(store, SQLiteStore):
        os.utime(copy, (NOW - 40 * DAY, NOW - 40 * DAY))
    assert lcm.gc().copies == ()
    assert lcm.gc(keep_copies=10_000).copies == ()
    assert lcm.gc(keep_copies=30).copies == (copy,)
    left = set(store.kept_copies()) - {copy}
    assert lcm.gc(keep_copies=30, apply=True).copies == (copy,)
    assert set(store.kept_copies()) == left


def test_the_database_gives_its_room_back(tmp_path: Path) -> None:
    with Lossless.open(tmp_path / "lcm.db", settings=Settings(), clock=lambda: NOW) as lcm:
        for key in ("a", "b"):
            lcm.conversation(key).ingest([Message.user(f"{key} {n} " * 200, event_id=f"{n}") for n in range(300)])
        with lcm._store.transaction():
            lcm._store.integrity.remove_conversation(1)
        before, told = lcm._store.size(), lcm.gc()
        done = lcm.gc(apply=True)
        assert done.bytes == before - lcm._store.size()
        assert done.bytes == told.bytes > 1_000_000
        assert lcm.gc().bytes == 0
        done = lcm.gc(apply=True, vacuum=True)
        assert done.complete
        assert len(lcm.conversation("b").messages()) == 300
        assert lcm._store.damage() == []


def test_without_room_for_a_second_copy_nothing_is_written_anew(lcm: Lossless, monkeypatch: pytest.MonkeyPatch) -> None:
    if not isinstance(lcm._store, SQLiteStore):
        assert lcm.gc(apply=True, vacuum=True).complete
        return
    stray = orphan(lcm)
    monkeypatch.setattr(shutil, "disk_usage", lambda path: Room(1000, 990, 10))
    with pytest.raises(StoreFull, match="and 10 are free"):
        lcm.gc(apply=True, vacuum=True)
    assert stray.exists()
    assert lcm.gc(apply=True, unshared=True).files == 1


@pytest.mark.parametrize("database", ["sqlite"], indirect=True)
def test_a_number_of_days_is_no_less_than_none(lcm: Lossless) -> None:
    with pytest.raises(InvalidInput, match="keep_copies=-1"):
        lcm.gc(keep_copies=-1)


def test_it_can_be_awaited(tmp_path: Path) -> None:
    async def told() -> Garbage:
        async with AsyncLossless.open(tmp_path / "lcm.db", settings=Settings()) as lcm:
            return await lcm.gc()

    assert anyio.run(told).files == 0


def shared_name(tmp_path: Path, how: str) -> Lossless:
    """A database whose files directory has the right name, and yet is not its own."""
    if how == "namesake":
        Lossless.open(tmp_path / "lcm.sqlite", settings=Settings()).close()
    elif how == "link":
        (tmp_path / "elsewhere").mkdir()
        (tmp_path / "lcm-files").symlink_to(tmp_path / "elsewhere")
    else:
        (tmp_path / "lcm-files").mkdir()
        (tmp_path / "lcm-files" / SHARED).touch()
    return Lossless.open(tmp_path / "lcm.db", settings=Settings(), clock=lambda: NOW)


@pytest.mark.parametrize("how", ["namesake", "link", "said"])
def test_a_name_that_another_database_goes_by_too_makes_no_directory_its_own(tmp_path: Path, how: str) -> None:
    with shared_name(tmp_path, how) as lcm:
        theirs = orphan(lcm)
        done = lcm.gc(apply=True)
        assert (done.files, done.doubtful) == (0, 1)
        assert theirs.exists()


def test_what_lies_beside_a_database_and_is_none_takes_nothing_from_it(tmp_path: Path) -> None:
    with Lossless.open(tmp_path / "lcm", settings=Settings(), clock=lambda: NOW) as lcm:
        lcm._store.keep_copy_before(99)  # type: ignore[attr-defined]  # as a migration does
        (tmp_path / "lcm.toml").write_text("semantic = false")
        (tmp_path / "lcm.link").symlink_to(tmp_path / "lcm")
        orphan(lcm)
        assert lcm.gc(apply=True).files == 1


def test_looking_for_namesakes_takes_no_lock_from_whoever_has_one_open_here(tmp_path: Path) -> None:
    with shared_name(tmp_path, "said") as lcm, Lossless.open(tmp_path / "lcm.x", settings=Settings()) as other:
        assert lcm._store.namesakes() == [str(tmp_path / "lcm.x")]
        held = Path("/proc/locks")
        if held.exists():
            inode = f":{(tmp_path / 'lcm.x').stat().st_ino} "
            assert any(str(os.getpid()) in line and inode in line for line in held.read_text().splitlines())
        assert other.location


def test_databases_of_a_server_have_a_directory_each(
    emptied: Callable[[], str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    url, settings = emptied(), Settings(large_file_token_threshold=1000)
    (tmp_path / "lossless" / "lcm-files").mkdir(parents=True)  # somebody else's
    with Lossless.open(url, settings=settings, clock=lambda: NOW) as lcm:
        assert lcm._files.root.name.endswith(f"-{url.rpartition('/')[2]}-files")
        assert is_exclusive(lcm._store, lcm._files)
        lcm.conversation("k").ingest([Message.user(LARGE, event_id="large")])
        own = lcm._files.root
    shutil.rmtree(own.with_name("lcm-files"))
    own.rename(own.with_name("lcm-files"))  # as all of them once had it
    with Lossless.open(url, settings=settings, clock=lambda: NOW) as lcm:
        assert lcm.conversation("k").messages()[0].text == LARGE
        assert not is_exclusive(lcm._store, lcm._files)
        lcm.forget("k", apply=True)
        assert len([path for path in payloads(lcm) if path.name != SHARED]) == 1
    with Lossless.open(own.with_name("lcm.db"), settings=settings, clock=lambda: NOW) as default:
        assert not is_exclusive(default._store, default._files)


def test_a_copy_that_a_restore_put_aside_twice_tells_its_time(emptied: Callable[[], str], tmp_path: Path) -> None:
    with Lossless.open(emptied(), settings=Settings(large_files_dir=str(tmp_path)), clock=lambda: NOW) as lcm:
        with lcm._store.transaction():
            lcm._store.script("CREATE SCHEMA lossless_before_restore_20200101_000000_000000_0")
        assert lcm.gc(keep_copies=30).copies == ("lossless_before_restore_20200101_000000_000000_0",)


def test_a_database_named_by_a_relative_path_stays_where_it_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("here", "there"):
        (tmp_path / name).mkdir()
    monkeypatch.chdir(tmp_path / "here")
    with Lossless.open("lcm.db", settings=Settings(large_file_token_threshold=1000)) as lcm:
        monkeypatch.chdir(tmp_path / "there")
        lcm.conversation("k").ingest([Message.user(LARGE, event_id="large")])
        lcm._store._idle.clear()  # type: ignore[attr-defined]  # so that another one is opened
        assert lcm.conversation("k").messages()[0].text == LARGE
        assert lcm.location == str(tmp_path / "here" / "lcm.db")
    assert not list((tmp_path / "there").iterdir())


KILLED = """
import os, signal, sys
from lossless import Lossless, Message
with Lossless.open(sys.argv[1]) as lcm:
    lcm.conversation("k").ingest([Message.user("x", event_id="x")])
    ours = os.replace
    os.replace = lambda *names: os.kill(os.getpid(), signal.SIGKILL) if str(names[0]).endswith("backup") else ours(*names)
    lcm.backup(sys.argv[2])
"""


@pytest.mark.parametrize("by", ["gc", "backup"])
def test_the_draft_of_a_killed_backup_is_found_and_removed(tmp_path: Path, by: str) -> None:
    database, elsewhere = tmp_path / "lcm.db", tmp_path / "elsewhere"
    elsewhere.mkdir()
    target = tmp_path / "kept.zip" if by == "gc" else elsewhere / "kept.zip"
    ran = subprocess.run([sys.executable, "-c", KILLED, str(database), str(target)], check=False)
    assert ran.returncode == -signal.SIGKILL
    (draft,) = target.parent.glob("kept.zip.*.part")
    assert {each.name for each in draft.iterdir()} == {"backup", "database"}
    with Lossless.open(database, clock=lambda: time.time() + 60) as lcm:
        assert lcm.gc(apply=True).drafts == 0  # it may still be written to, for all we know
        lcm.backup(elsewhere / "first.zip")
        assert draft.exists()
    with Lossless.open(database, clock=lambda: time.time() + 7_200) as lcm:
        if by == "gc":
            (found,) = lcm.doctor(checks=["D04"]).findings
            assert "1 draft of interrupted backups" in found.text
            assert lcm.gc().drafts == 1
            assert draft.exists()
            assert lcm.gc(apply=True).drafts == 1
            assert lcm.doctor(checks=["D04"]).findings == ()
        else:
            lcm.backup(elsewhere / "second.zip")
    assert not draft.exists()


def test_the_draft_of_a_backup_that_takes_long_is_left_alone(tmp_path: Path) -> None:
    with Lossless.open(tmp_path / "lcm.db", clock=lambda: time.time() + 30 * 86_400) as lcm:
        with drafting(tmp_path / "kept.zip") as draft:
            assert lcm.gc(apply=True).drafts == 0
            lcm.backup(tmp_path / "other.zip")
            assert draft.exists()
        assert not draft.exists()
