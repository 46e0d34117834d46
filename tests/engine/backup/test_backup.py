"""A backup holds all there is at one moment, and a restore puts exactly that in place."""

from __future__ import annotations

import errno
import hashlib
import json
import os
import resource
import shutil
import stat
import subprocess
import sys
import tracemalloc
import zipfile
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from random import Random
from typing import Any

import apsw
import psycopg
import pytest

from lossless import AsyncLossless, Lossless, LosslessError, Message, Settings
from lossless.engine.backup import backup as engine
from lossless.engine.backup.backup_file import Bundle
from lossless.engine.shared.file_store import Files
from lossless.engine.shared.promise import promise_violations
from lossless.errors import (
    InvalidInput,
    NotFound,
    NotOurDatabase,
    SchemaTooNew,
    StoreBusy,
    StoreCorrupt,
    StoreFull,
    StoreUnavailable,
)
from lossless.model import Backup
from lossless.store.sqlite.errors import translate
from lossless.store.sqlite.replace_database import FileSite
from lossless.store.sqlite.store import SQLiteStore
from tests.transcribing import Session, user

LARGE = "All of the ledger, line by line. " * 10_000
NOON, LATER = 1_785_412_800.0, 1_785_499_200.0


def kept_in(database: str | Path, tmp_path: Path) -> Settings:
    """A database called `own.db` has its files beside it."""
    return Settings(large_files_dir=None if str(database).endswith("own.db") else str(tmp_path / "files"))


def opened(database: str | Path, tmp_path: Path, **more: Any) -> Lossless:
    return Lossless.open(database, **{"settings": kept_in(database, tmp_path), "clock": lambda: NOON, **more})


def told(lcm: Lossless, *texts: str, key: str = "k") -> None:
    lcm.conversation(key).ingest([Message.user(text, event_id=text[:40]) for text in texts])


def texts(lcm: Lossless, key: str = "k") -> list[str]:
    return [each.text for each in lcm.conversation(key).messages()]


def restored(backup: str | Path, database: str | Path, tmp_path: Path, **more: Any) -> Any:
    how = {"settings": kept_in(database, tmp_path), "clock": lambda: LATER, **more}
    return Lossless.restore(backup, database, **how)


@pytest.fixture(autouse=True)
def _nobodys_data(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))


@pytest.fixture
def backup(tmp_path: Path) -> Path:
    """Of a database with a payload, which is gone with it."""
    with opened(tmp_path / "source" / "own.db", tmp_path) as lcm:
        told(lcm, "Short.", LARGE)
        lcm.backup(tmp_path / "b")
    shutil.rmtree(tmp_path / "source")
    return tmp_path / "b"


def test_what_was_backed_up_comes_back_with_its_files_and_all_owners(database: str, tmp_path: Path) -> None:
    with opened(database, tmp_path) as lcm, opened(database, tmp_path, owner="other") as other:
        told(lcm, "Short.", LARGE)
        told(other, "Another's.")
        done = lcm.backup(prove=True)
        told(lcm, "Too late.")
    assert (done.conversations, done.messages, done.files, done.missing_files) == (2, 3, 1, ())
    assert (done.proved, done.flaws) == (True, ())
    assert done.form == ("pg_dump" if database.startswith("postgresql") else "sqlite")
    assert stat.S_IMODE(os.stat(done.path).st_mode) == 0o600
    shutil.rmtree(tmp_path / "files")
    with pytest.raises(InvalidInput, match="There is a database at"):
        restored(done.path, database, tmp_path)
    planned = restored(done.path, database, tmp_path, replace=True)
    assert (planned.replaces, planned.applied, planned.aside) == (True, False, ())
    put = restored(done.path, database, tmp_path, replace=True, apply=True)
    assert put.applied
    with opened(database, tmp_path) as lcm, opened(database, tmp_path, owner="other") as other:
        assert texts(lcm) == ["Short.", LARGE]
        assert texts(other) == ["Another's."]
        assert lcm.grep("Short")
        told(lcm, "And on.")
        assert lcm._store.damage() == []
        assert put.aside[0] in (*lcm._store.kept_copies(), *lcm._store.backups.paths())


def test_the_replaced_database_can_be_opened_where_it_is_now(backup: Path, tmp_path: Path) -> None:
    database = tmp_path / "own.db"
    with opened(database, tmp_path) as lcm:
        told(lcm, "Before.", LARGE.upper())
    put = restored(backup, database, tmp_path, replace=True, apply=True)
    aside, files = put.aside
    assert Path(files).is_dir()
    with Lossless.open(aside, settings=Settings()) as old:
        assert texts(old) == ["Before.", LARGE.upper()]
    with opened(database, tmp_path) as lcm:
        assert texts(lcm) == ["Short.", LARGE]


def test_the_files_of_the_replaced_database_are_kept_wherever_the_setting_says_the_usual_place(
    backup: Path, tmp_path: Path
) -> None:
    database, usual = tmp_path / "own.db", Settings(large_files_dir=str(tmp_path / "own-files"))
    with Lossless.open(database, settings=usual) as lcm:
        told(lcm, LARGE.upper())
    aside, files = Lossless.restore(backup, database, replace=True, apply=True, settings=usual).aside
    shutil.rmtree(tmp_path / "own-files")
    with opened(aside, tmp_path, settings=Settings()) as old:
        assert old.doctor(checks=["F01"]).findings == ()
    assert Path(files).is_dir()


def test_a_restored_transcript_is_read_on_and_nothing_twice(tmp_path: Path) -> None:
    session, database = Session(tmp_path / "s.jsonl"), tmp_path / "lcm.db"
    session.says(user("One."), user("Two."))
    with opened(database, tmp_path) as lcm:
        lcm.conversation("k").bootstrap(session.path)
        done = lcm.backup()
        session.says(user("Three."))
        lcm.conversation("k").bootstrap(session.path)
    restored(done.path, database, tmp_path, replace=True, apply=True)
    with opened(database, tmp_path) as lcm:
        chat = lcm.conversation("k")
        assert texts(lcm) == ["One.", "Two."]
        session.says(user("Four."))
        chat.bootstrap(session.path)
        chat.bootstrap(session.path)
        assert texts(lcm) == session.texts() == ["One.", "Two.", "Three.", "Four."]
        assert promise_violations(lcm._store, chat.status().id) == []


def test_a_restore_says_what_transcripts_will_bring_back_and_leaves_it_out_when_told(
    database: str, tmp_path: Path
) -> None:
    session = Session(tmp_path / "s.jsonl")
    session.says(user("One."), user("Two."))
    with opened(database, tmp_path) as lcm:
        lcm.conversation("k").bootstrap(session.path)
        done = lcm.backup(tmp_path / "b")
        session.says(user("Three."), user(LARGE))
        lcm.conversation("k").bootstrap(session.path)
    planned = restored(done.path, database, tmp_path, replace=True)
    put = restored(done.path, database, tmp_path, replace=True, apply=True)
    for each in (planned, put) if done.form == "sqlite" else (put,):
        ((path, key, state),) = [(found.path, found.key, found.state) for found in each.transcripts]
        assert (path, key, state) == (str(session.path), "k", "behind")
        assert each.transcripts[0].bytes > len(LARGE)
    again = {"replace": True, "apply": True, "reimport": False, "clock": lambda: LATER + 60}
    put = restored(done.path, database, tmp_path, **again)
    assert (put.left_out, put.transcripts) == (2, ())
    with opened(database, tmp_path) as lcm:
        chat = lcm.conversation("k")
        session.says(user("Four."))
        chat.bootstrap(session.path)
        assert [text for text in texts(lcm) if text] == ["One.", "Two.", "Four."]
        assert chat.files() == []
        assert promise_violations(lcm._store, chat.status().id) == []


_WRITER = """
import sys
from lossless import Lossless, Message, Settings
with Lossless.open(sys.argv[1], settings=Settings()) as lcm:
    for number in range(10_000):
        lcm.conversation("k").ingest([Message.user(f"{number}", event_id=f"{number}")])
        print(number, flush=True)
"""


def test_a_backup_made_while_somebody_writes_is_of_one_moment(tmp_path: Path) -> None:
    database = tmp_path / "own.db"
    with subprocess.Popen([sys.executable, "-c", _WRITER, str(database)], stdout=subprocess.PIPE, text=True) as writer:
        assert writer.stdout is not None
        for _ in range(20):
            writer.stdout.readline()
        with opened(database, tmp_path) as lcm:
            done = lcm.backup(prove=True)
        with pytest.raises(StoreBusy, match="open in another process"):
            restored(done.path, database, tmp_path, replace=True, apply=True)
        assert writer.stdout.readline()
        writer.kill()
    assert done.messages >= 20
    assert done.flaws == ()
    assert not list(tmp_path.glob("*.part"))
    restored(done.path, tmp_path / "there" / "own.db", tmp_path)
    with opened(tmp_path / "there" / "own.db", tmp_path) as lcm:
        assert texts(lcm) == [str(number) for number in range(done.messages)]


def test_nothing_is_overwritten_but_the_same_rolling_backup(tmp_path: Path) -> None:
    with opened(tmp_path / "lcm.db", tmp_path) as lcm:
        told(lcm, "One.")
        first = lcm.backup()
        assert first.path == str(tmp_path / "lcm.db.backup-20260730T120000Z")
        with pytest.raises(InvalidInput, match="is there already"):
            lcm.backup()
        (tmp_path / "shelf").mkdir()
        assert Path(lcm.backup(tmp_path / "shelf").path).parent == tmp_path / "shelf"
        rolled = lcm.backup(rolling="Every Night!")
        told(lcm, "Two.")
        again = lcm.backup(rolling="every night")
        assert rolled.path == again.path == str(tmp_path / "lcm.db.every-night-latest")
        assert (rolled.messages, again.messages) == (1, 2)
        for label, path in (("!", None), ("x", tmp_path / "no directory")):
            with pytest.raises(InvalidInput):
                lcm.backup(path, rolling=label)
    with Lossless.open(":memory:", settings=Settings()) as lcm:
        told(lcm, "Kept after all.")
        with pytest.raises(InvalidInput, match="in memory"):
            lcm.backup()
        assert lcm.backup(tmp_path / "m").messages == 1
    with pytest.raises(InvalidInput, match="in memory"):
        Lossless.restore(tmp_path / "m", ":memory:")


def test_databases_of_one_name_do_not_overwrite_each_others_rolling_backup(tmp_path: Path) -> None:
    shelf = tmp_path / "shelf"
    shelf.mkdir()
    for name in ("a", "b"):
        with opened(tmp_path / name / "lcm.db", tmp_path) as lcm:
            told(lcm, name)
    with opened(tmp_path / "a" / "lcm.db", tmp_path, read_only=True) as lcm:
        done = lcm.backup(shelf, rolling="nightly")
        assert lcm.backup(shelf, rolling="nightly").path == done.path
    with (
        opened(tmp_path / "b" / "lcm.db", tmp_path) as lcm,
        pytest.raises(InvalidInput, match=r"of another database \(.*a/lcm\.db\)"),
    ):
        lcm.backup(shelf, rolling="nightly")
    shutil.rmtree(tmp_path / "a")
    (tmp_path / "b").rename(tmp_path / "a")  # the same place, as on another machine
    with opened(tmp_path / "a" / "lcm.db", tmp_path) as lcm:
        with pytest.raises(InvalidInput, match="of another database"):
            lcm.backup(shelf, rolling="nightly")
        (shelf / "lcm.db.weekly-latest").write_text("Somebody's notes.")
        with pytest.raises(InvalidInput, match="no backup that can be read"):
            lcm.backup(shelf, rolling="weekly")
    restored(done.path, tmp_path / "c.db", tmp_path)
    with opened(tmp_path / "c.db", tmp_path) as lcm:
        assert texts(lcm) == ["a"]


def test_forgetting_names_backups_and_takes_them_along_when_asked(backup: Path, tmp_path: Path) -> None:
    database = tmp_path / "own.db"
    with opened(database, tmp_path) as lcm:
        told(lcm, "A secret.")
    restored(backup, database, tmp_path, replace=True, apply=True)
    with opened(database, tmp_path) as lcm:
        lcm.backup()
        lcm.backup(rolling="nightly")
        assert len(lcm.forget("k").backups) == 3
        assert lcm.forget("k", apply=True, backups=True).backups == ()
    assert sorted(path.name for path in tmp_path.glob("own*")) == ["own.db", "own-files"][::-1]


def test_forgetting_takes_only_what_is_its_own(tmp_path: Path) -> None:
    with opened(tmp_path / "lcm.db", tmp_path) as lcm:
        told(lcm, "Mine.")
        lcm.backup(rolling="nightly")
    for name in ("lcm.notes-latest.md", "lcm.backup-of-my-thesis", "lcm.replaced-tyres"):
        (tmp_path / name).write_text("Somebody's own.")
    there = sorted(tmp_path.iterdir())
    with opened(tmp_path / "lcm", tmp_path) as lcm:
        told(lcm, "A secret.")
        assert lcm.forget("k", apply=True, backups=True).backups == ()
    assert sorted(tmp_path.iterdir()) == sorted([*there, tmp_path / "lcm"])


def test_forgetting_finds_copies_behind_a_link_and_what_a_killed_restore_unpacked(tmp_path: Path) -> None:
    real, link = tmp_path / "real" / "lcm.db", tmp_path / "lcm.db"
    SQLiteStore(real).close()
    link.symlink_to(real)
    with opened(link, tmp_path) as lcm:
        lcm.conversation("k").ingest([Message.user("A secret horseradish.")])
        lcm.backup()
        (tmp_path / "real" / "lcm.db.4711-0123abcd.part").mkdir()
        (tmp_path / "real" / "lcm.db.4711-0123abcd.part" / "database").write_bytes(b"horseradish")
        shown = lcm.forget("k")
        assert [Path(each).parent.name for each in shown.backups] == ["real", "real"]
        assert "put elsewhere" in shown.beyond[-1]
        done = lcm.forget("k", apply=True, backups=True)
        assert (done.backups, done.left, done.complete) == ((), 0, True)
        assert lcm._store.size() > 8192
    assert [path.name for path in real.parent.iterdir()] == ["lcm.db"]


# what goes wrong


def failing(code: int) -> Callable[..., None]:
    def fail(*_: object, **__: object) -> None:
        raise OSError(code, os.strerror(code))

    return fail


def pruned_while_packed(tmp_path: Path) -> Backup:
    """A backup during which everything was removed after the database was copied."""
    long_ago = datetime(2020, 1, 1, tzinfo=UTC)
    with opened(tmp_path / "own.db", tmp_path) as lcm:
        lcm.conversation("k").ingest([Message.user(LARGE, at=long_ago)])

        def meanwhile(copy: Path | None) -> tuple[str, ...]:
            assert lcm.prune("1y", include_active=True, apply=True).files == 1
            return ()

        request = engine.BackupRequest(
            path=tmp_path / "b",
            open=lambda path, read_only: SQLiteStore(path, read_only=read_only),
            at=datetime.fromtimestamp(NOON, UTC),
            prove=meanwhile,
        )
        return engine.backup(lcm._runtime, request)


def test_payloads_that_are_removed_meanwhile_are_in_the_backup(tmp_path: Path) -> None:
    done = pruned_while_packed(tmp_path)
    assert (done.files, done.missing_files, done.flaws) == (1, (), ())


def test_a_backup_without_a_payload_that_was_there_is_not_called_proved(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "link", failing(errno.EXDEV))
    done = pruned_while_packed(tmp_path)
    assert len(done.missing_files) == 1
    assert done.flaws == (f"files: {done.missing_files[0][:16]} is damaged or missing",)


@contextmanager
def files_no_larger_than(size: int) -> Iterator[None]:
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def test_without_room_nothing_is_left(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with opened(tmp_path / "lcm.db", tmp_path) as lcm:
        told(lcm, *(f"{number} {hashlib.sha256(b'%d' % number).hexdigest() * 20}" for number in range(400)))
        rolled = lcm.backup(rolling="nightly")
        before = Path(rolled.path).read_bytes()
        for size in (100_000, 1_000_000):
            with files_no_larger_than(size), pytest.raises((StoreFull, StoreUnavailable)):
                lcm.backup(rolling="nightly")
        usage = shutil.disk_usage(tmp_path)._replace(free=10_000)
        monkeypatch.setattr(shutil, "disk_usage", lambda path: usage)
        with pytest.raises(StoreFull, match="has 10,000 bytes free"):
            lcm.backup()
    with pytest.raises(StoreFull):
        restored(rolled.path, tmp_path / "new.db", tmp_path)
    assert Path(rolled.path).read_bytes() == before
    assert not [path for path in tmp_path.iterdir() if path.name.endswith(".part") or path.name.startswith("new")]


def test_interrupted_it_leaves_nothing(backup: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    database = tmp_path / "own.db"
    with opened(database, tmp_path) as lcm:
        told(lcm, "Still here.")
    there = sorted(tmp_path.rglob("*"))

    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    replace_ = os.replace
    monkeypatch.setattr(os, "replace", lambda old, new: interrupted() if "part" in str(old) else replace_(old, new))
    with opened(database, tmp_path, read_only=True) as lcm, pytest.raises(KeyboardInterrupt):
        lcm.backup()
    with pytest.raises(KeyboardInterrupt):
        restored(backup, database, tmp_path, replace=True, apply=True)
    monkeypatch.undo()
    assert [path for path in sorted(tmp_path.rglob("*")) if "own-files" not in path.parts] == there
    with opened(database, tmp_path) as lcm:
        assert texts(lcm) == ["Still here."]


def test_a_directory_of_files_that_could_not_be_kept_aside_is_not_left(
    backup: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    database = tmp_path / "own.db"
    with opened(database, tmp_path) as lcm:
        told(lcm, LARGE.upper())
    there, link = sorted(tmp_path.rglob("*")), os.link

    def interrupted(source: Any, target: Any) -> None:
        if "-files" in str(target):
            raise KeyboardInterrupt
        link(source, target)

    monkeypatch.setattr(os, "link", interrupted)
    with pytest.raises(KeyboardInterrupt):
        restored(backup, database, tmp_path, replace=True, apply=True)
    monkeypatch.setattr(os, "link", failing(errno.EPERM))
    monkeypatch.setattr(shutil, "copy2", failing(errno.ENOSPC))
    with pytest.raises(StoreFull):
        restored(backup, database, tmp_path, replace=True, apply=True)
    assert sorted(tmp_path.rglob("*")) == there


def test_a_second_name_that_a_killed_restore_left_is_gone_when_the_database_is_opened(tmp_path: Path) -> None:
    database = tmp_path / "own.db"
    SQLiteStore(database).close()
    os.link(database, tmp_path / "own.db.replaced-20260730T120000Z.db")
    (tmp_path / "own.db.replaced-20260730T120000Z-files").mkdir()
    (tmp_path / "own.db.replaced-20250101T120000Z.db").write_bytes(b"another")
    os.link(database, tmp_path / "somebody's own link")
    SQLiteStore(database).close()
    left = ["own.db", "own.db.replaced-20250101T120000Z.db", "somebody's own link"]
    assert sorted(path.name for path in tmp_path.iterdir()) == left


def test_whoever_is_first_at_a_free_place_keeps_it(tmp_path: Path) -> None:
    database, new, now = tmp_path / "own.db", tmp_path / "new.db", datetime.fromtimestamp(LATER, UTC)
    SQLiteStore(new).close()
    (tmp_path / "own.db-wal").write_bytes(b"left over")
    site = FileSite(database)
    with pytest.raises(InvalidInput, match="by now"), site.cleared(now, replaces=False) as aside:
        with opened(database, tmp_path) as lcm:
            told(lcm, "Acknowledged.")
        site.load(new, 1)
    assert Path(*aside).read_bytes() == b"left over"
    with opened(database, tmp_path) as lcm:
        assert texts(lcm) == ["Acknowledged."]
        with pytest.raises(InvalidInput, match="by now"), site.cleared(now, replaces=False):
            pass
    assert sorted(path.name for path in tmp_path.iterdir()) == ["new.db", "own.db", Path(*aside).name]


@pytest.mark.parametrize("size", [0, 8192])
def test_whoever_waits_for_a_database_that_is_replaced_is_told_to_open_it_again(size: int, tmp_path: Path) -> None:
    database, new = tmp_path / "own.db", tmp_path / "new.db"
    SQLiteStore(new).close()
    if size:
        SQLiteStore(database).close()
    else:
        database.touch()
    site = FileSite(database)
    with site.cleared(datetime.fromtimestamp(LATER, UTC), replaces=True):
        host = apsw.Connection(str(database))
        with pytest.raises(apsw.BusyError):
            host.execute("PRAGMA journal_mode = WAL").fetchall()
        site.load(new, 1)
    with pytest.raises(apsw.ReadOnlyError) as moved:
        host.execute("PRAGMA journal_mode = WAL").fetchall()
    host.close()
    assert "own.db was deleted, moved or replaced meanwhile. Open it again." in str(
        translate(moved.value, str(database))
    )
    assert not list(tmp_path.glob("own.db-*"))


def test_logs_of_a_damaged_or_lost_database_do_not_get_into_the_restored_one(backup: Path, tmp_path: Path) -> None:
    database, garbage = tmp_path / "own.db", b"not a database" * 1000
    for suffix in ("", "-wal", "-shm"):
        Path(f"{database}{suffix}").write_bytes(garbage)
    put = restored(backup, database, tmp_path, replace=True, apply=True)
    assert Path(put.aside[0]).read_bytes() == garbage
    assert not list(tmp_path.glob("own.db-*"))
    lost = tmp_path / "lost.db"
    Path(f"{lost}-wal").write_bytes(garbage)
    assert Path(*restored(backup, lost, tmp_path).aside).read_bytes() == garbage
    assert not list(tmp_path.glob("lost.db-*"))
    for each in (database, lost):
        with opened(each, tmp_path) as lcm:
            assert texts(lcm) == ["Short.", LARGE]


def test_a_payload_that_is_damaged_is_mended_and_one_that_is_gone_is_told(backup: Path, tmp_path: Path) -> None:
    restored(backup, tmp_path / "own.db", tmp_path)
    (payload,) = (path for path in tmp_path.glob("own-files/*/*"))
    payload.write_bytes(b"broken")
    restored(backup, tmp_path / "own.db", tmp_path, replace=True, apply=True)
    with opened(tmp_path / "own.db", tmp_path, on_event=lambda event: None) as lcm:
        assert texts(lcm)[1] == LARGE
        payload.unlink()
        assert lcm.backup().missing_files == (payload.name,)


def test_another_programs_database_stays(backup: Path, tmp_path: Path) -> None:
    path = tmp_path / "theirs.db"
    theirs = apsw.Connection(str(path))
    theirs.execute("CREATE TABLE notes (text)")
    theirs.close()
    with pytest.raises(NotOurDatabase):
        restored(backup, path, tmp_path, replace=True, apply=True)
    with pytest.raises(NotFound, match="There is no backup at"):
        restored(tmp_path / "nowhere", path, tmp_path)


def packed(
    path: Path,
    pieces: dict[str, bytes],
    kind: int = stat.S_IFREG,
    *,
    packing: int = zipfile.ZIP_DEFLATED,
    **manifest: Any,
) -> Path:
    """A backup by somebody else's hand: plausible, unless the manifest says otherwise."""
    vouched = {name: {"sha256": hashlib.sha256(data).hexdigest(), "bytes": len(data)} for name, data in pieces.items()}
    head = {"format": "lossless-backup", "version": 1, "created_at": "2026-07-30T12:00:00Z", "lossless": "1"}
    rest = {"form": "sqlite", "made_by": "x", "schema": 1, "counts": {}, "members": vouched}
    with zipfile.ZipFile(path, "w") as file:
        for name, data in pieces.items():
            info = zipfile.ZipInfo(name)
            info.external_attr, info.compress_type = kind << 16, packing
            file.writestr(info, data)
        file.writestr("manifest.json", json.dumps({**head, **rest, **manifest}))
    return path


NOBODY = {"sha256": "0" * 64, "bytes": 1}
HOSTILE: dict[str, tuple[Callable[[Path], object], type[LosslessError], str]] = {
    "no zip": (lambda path: path.write_bytes(b"PK not really"), InvalidInput, "not a whole backup"),
    "no manifest": (lambda path: zipfile.ZipFile(path, "w").close(), InvalidInput, "manifest.json"),
    "an archive": (lambda path: packed(path, {}, format="lossless-archive"), InvalidInput, "does not say"),
    "a newer one": (lambda path: packed(path, {}, version=2), SchemaTooNew, "version 2"),
    "a way out": (
        lambda path: packed(path, {"database": b"", "../../evil": b"x"}),
        InvalidInput,
        "no name of a member",
    ),
    "a link": (
        lambda path: packed(path, {"database": b"/etc/passwd"}, stat.S_IFLNK),
        InvalidInput,
        "no plain file",
    ),
    "another way to pack": (
        lambda path: packed(path, {"database": b"x"}, packing=zipfile.ZIP_LZMA),
        InvalidInput,
        "in a way that none of ours is",
    ),
    "no database": (lambda path: packed(path, {}), InvalidInput, "missing"),
    "another hash": (
        lambda path: packed(path, {"database": b"x"}, members={"database": NOBODY}),
        InvalidInput,
        "not what its hash says",
    ),
    "another size": (
        lambda path: packed(path, {"database": b"xx"}, members={"database": NOBODY}),
        InvalidInput,
        "not what the manifest says",
    ),
    "a payload under another name": (
        lambda path: packed(path, {"database": b"", f"files/{'0' * 64}": b"x"}),
        InvalidInput,
        "not what its hash says",
    ),
    "no rows": (lambda path: packed(path, {"database": b"words"}), StoreCorrupt, "is not a database"),
    "a database of theirs": (
        lambda path: packed(path, {"database": b""}, form="pg_dump"),
        InvalidInput,
        "is a file",
    ),
}


@pytest.mark.parametrize("kind", HOSTILE)
def test_nothing_is_taken_from_what_is_no_backup_of_ours(kind: str, tmp_path: Path) -> None:
    make, error, sentence = HOSTILE[kind]
    make(tmp_path / "hostile")
    with pytest.raises(error, match=sentence):
        restored(tmp_path / "hostile", tmp_path / "own.db", tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["hostile"]


def test_a_payload_is_unpacked_piece_by_piece(tmp_path: Path) -> None:
    data = b"\0" * (24 << 20)
    name = hashlib.sha256(data).hexdigest()
    packed(tmp_path / "b", {"database": b"", f"files/{name}": data})
    del data
    tracemalloc.start()
    try:
        with Bundle(tmp_path / "b") as bundle:
            assert bundle.unpack_payloads(Files(tmp_path / "files")) == [name]
            assert bundle.unpack_payloads(Files(tmp_path / "files")) == []
        assert tracemalloc.get_traced_memory()[1] < 8 << 20
    finally:
        tracemalloc.stop()


def test_whatever_is_damaged_in_a_backup_is_told_in_a_sentence(backup: Path, tmp_path: Path) -> None:
    whole, chance = backup.read_bytes(), Random(1)
    directory = whole.index(b"PK\x01\x02")
    for _ in range(150):
        damaged = bytearray(whole)
        damaged[chance.randrange(directory, len(whole))] = chance.choice((0, 255, chance.randrange(256)))
        (tmp_path / "damaged").write_bytes(damaged)
        with suppress(LosslessError):
            Bundle(tmp_path / "damaged").__exit__()


def test_a_backup_of_an_older_schema_is_brought_up_to_date_when_it_is_written_to(tmp_path: Path) -> None:
    from lossless.store import migrate

    steps = migrate.steps("sqlite")
    old = SQLiteStore(tmp_path / "old.db", scripts={number: steps[number] for number in (1, 2, 3)})
    with old.snapshot():
        old.tables.count("conversation")
        old.dump(tmp_path / "dump")
    old.close()
    counts = dict.fromkeys(("conversation", "message", "summary", "file"), 0)
    packed(tmp_path / "b", {"database": (tmp_path / "dump").read_bytes()}, schema=3, counts=counts)
    assert restored(tmp_path / "b", tmp_path / "own.db", tmp_path).backup.schema == 3
    with opened(tmp_path / "own.db", tmp_path, on_event=lambda event: None) as lcm:
        told(lcm, "Up to date.")
        assert lcm._store.version() == max(steps)


# servers


def test_without_pg_dump_the_rows_go_into_a_file_that_either_kind_takes(
    emptied: Callable[[], str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = emptied()
    tools = tmp_path / "bin"
    tools.mkdir()
    (tools / "pg_dump").write_text("#!/bin/sh\necho 'pg_dump: error: server version mismatch' >&2\nexit 1\n")
    (tools / "pg_dump").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tools}:/bin")
    with opened(url, tmp_path) as lcm:
        told(lcm, "Short.", LARGE)
        done = lcm.backup(tmp_path / "b")
    assert done.form == "sqlite"
    assert "server version mismatch" in done.made_by
    restored(done.path, tmp_path / "there.db", tmp_path)
    with opened(tmp_path / "there.db", tmp_path) as lcm:
        assert texts(lcm) == ["Short.", LARGE]
    put = restored(done.path, url, tmp_path, replace=True, apply=True)
    assert put.aside[0].startswith("lossless_before_restore_2026")
    with opened(url, tmp_path) as lcm:
        assert texts(lcm) == ["Short.", LARGE]


def test_a_server_whose_restore_fails_is_as_it_was(
    emptied: Callable[[], str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = emptied()
    with opened(url, tmp_path) as lcm:
        told(lcm, "Still here.")
        done = lcm.backup()
        assert Path(done.path) in [Path(each) for each in lcm.forget("k").backups]
    with monkeypatch.context() as without:
        without.setenv("PATH", str(tmp_path))
        with pytest.raises(LosslessError, match="pg_restore is not installed"):
            restored(done.path, url, tmp_path, replace=True, apply=True)
    with opened(url, tmp_path) as lcm:
        assert texts(lcm) == ["Still here."]
        assert lcm._store.kept_copies() == []


def test_a_server_whose_restore_fails_at_its_very_end_is_as_it_was(
    emptied: Callable[[], str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = emptied()
    # A row gets lost on the way, which only the last comparison can notice.
    (tmp_path / "pg_restore").write_text(
        f'#!/bin/sh\n{shutil.which("pg_restore")} "$@" || exit 1\n'
        'case "$*" in *--table=message\\ *) sed -i \'/In the backup/d\' "$(echo "$*" | sed \'s/.*--file=\\([^ ]*\\).*/\\1/\')";; esac\n'
    )
    (tmp_path / "pg_restore").chmod(0o755)
    with opened(url, tmp_path) as lcm:
        told(lcm, "In the backup.", "And this.")
        done = lcm.backup(tmp_path / "b")
        told(lcm, "Since then.")
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    with pytest.raises(StoreCorrupt, match="The copy has"):
        restored(done.path, url, tmp_path, replace=True, apply=True)
    with opened(url, tmp_path) as lcm:
        assert texts(lcm) == ["In the backup.", "And this.", "Since then."]
        # What was put in place for a moment is kept, since somebody may have written to it.
        assert [name[-2:] for name in lcm._store.kept_copies()] == ["_0"]


def test_rows_come_to_a_server_whole_or_not_at_all(emptied: Callable[[], str], tmp_path: Path) -> None:
    from lossless.store.postgres.replace_database import SchemaSite

    url = emptied()
    with opened(url, tmp_path) as lcm:
        told(lcm, "Still here.")
        copies = lcm._store.kept_copies
        site, now = SchemaSite(url), datetime.fromtimestamp(LATER, UTC)
        with (
            pytest.raises(KeyboardInterrupt),
            site.cleared(now, replaces=True),
            site.filling() as there,
        ):
            assert there.tables.count("message") == 0
            assert copies() == []
            raise KeyboardInterrupt
        assert (texts(lcm), copies()) == (["Still here."], [])
        with pytest.raises(InvalidInput, match="by now"), site.cleared(now, replaces=False):
            pass
        assert site.beside == lcm._store.place()


def test_no_password_is_on_a_command_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from lossless.store.postgres import dump

    for program in ("pg_dump", "pg_restore"):
        (tmp_path / program).write_text(
            f'#!/bin/sh\necho "$@" >> {tmp_path}/line\n[ -z "$PGPASSWORD" ] || echo "$PGPASSWORD" > {tmp_path}/word\n'
        )
        (tmp_path / program).chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/bin")
    dump.dump("postgresql://me:open%20sesame@db.example.com/memory", "snapshot", tmp_path / "dump")
    assert "sesame" not in (tmp_path / "line").read_text()
    assert "host=db.example.com" in (tmp_path / "line").read_text()
    assert (tmp_path / "word").read_text() == "open sesame\n"


# what is no row


def doctored(backup: Path, target: Path, *statements: str) -> Path:
    """A backup whose database was changed, and whose manifest vouches for it."""
    with zipfile.ZipFile(backup) as file:
        manifest = json.loads(file.read("manifest.json"))
        pieces = {name: file.read(name) for name in file.namelist() if name != "manifest.json"}
    path = target.with_suffix(".db")
    path.write_bytes(pieces["database"])
    connection = apsw.Connection(str(path))
    for statement in statements:
        connection.execute(statement).fetchall()
    connection.close()
    pieces["database"] = path.read_bytes()
    return packed(target, pieces, **{name: manifest[name] for name in ("schema", "counts", "form")})


FOREIGN = {
    "trigger": "CREATE TRIGGER pest AFTER INSERT ON message BEGIN DELETE FROM message; END",
    "view": "CREATE VIEW pest AS SELECT * FROM message",
    "table": "CREATE TABLE pest (words TEXT)",
    "index": "CREATE INDEX pest ON message (lower(text))",
}


@pytest.mark.parametrize("kind", FOREIGN)
def test_a_backup_with_anything_that_is_not_ours_is_refused_by_its_name(
    kind: str, backup: Path, tmp_path: Path
) -> None:
    bad = doctored(backup, tmp_path / "bad", FOREIGN[kind])
    with opened(tmp_path / "own.db", tmp_path) as lcm:
        told(lcm, "Acknowledged.")
    with pytest.raises(InvalidInput, match=f"bad holds the {kind} pest, which lossless did not make"):
        restored(bad, tmp_path / "own.db", tmp_path, replace=True, apply=True)
    with pytest.raises(InvalidInput, match="pest"):
        restored(bad, tmp_path / "new.db", tmp_path)
    assert not (tmp_path / "new.db").exists()
    with opened(tmp_path / "own.db", tmp_path) as lcm:
        assert texts(lcm) == ["Acknowledged."]


def test_a_backup_whose_tables_were_changed_is_refused_by_their_name(backup: Path, tmp_path: Path) -> None:
    change = "UPDATE sqlite_schema SET sql = replace(sql, 'NOT NULL', '') WHERE name = 'pin'"
    bad = doctored(backup, tmp_path / "bad", "PRAGMA writable_schema = ON", change)
    with pytest.raises(InvalidInput, match="the table pin, which lossless did not make"):
        restored(bad, tmp_path / "own.db", tmp_path)


@pytest.mark.parametrize(
    ("statement", "column"),
    [
        ("UPDATE message SET text = x'00ff' WHERE id % 10 = 1", r"message\.text"),
        ("UPDATE message SET tokens = 'many'", r"message\.tokens"),
        ("UPDATE message SET tokens = -5", r"message\.tokens"),
        ("UPDATE conversation SET next_seq = 1.5", r"conversation\.next_seq"),
    ],
)
def test_a_value_that_is_not_of_its_columns_kind_is_refused(
    statement: str, column: str, backup: Path, tmp_path: Path
) -> None:
    bad = doctored(backup, tmp_path / "bad", statement)
    with pytest.raises(InvalidInput, match=f"a value in {column}"):
        restored(bad, tmp_path / "own.db", tmp_path)


def test_only_rows_are_taken_from_a_backup(backup: Path, tmp_path: Path) -> None:
    restored(backup, tmp_path / "own.db", tmp_path)
    with opened(tmp_path / "own.db", tmp_path) as lcm, closing(SQLiteStore(":memory:")) as fresh:
        assert isinstance(lcm._store, SQLiteStore)
        more = lcm._store.present() - fresh.present()
        assert not [name for name in more if not name.startswith("sqlite_stat")]


SERVER_FOREIGN = {
    "FUNCTION": "CREATE FUNCTION lossless.pest() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN DELETE FROM lossless.message; RETURN NULL; END $$",
    "TABLE": "CREATE TABLE lossless.pest (words text)",
    "TRIGGER": "CREATE FUNCTION lossless.pest() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN DELETE FROM lossless.message; RETURN NULL; END $$;"
    "CREATE TRIGGER pest AFTER INSERT ON lossless.message EXECUTE FUNCTION lossless.pest()",
    "RULE": "CREATE RULE pest AS ON INSERT TO lossless.message DO ALSO DELETE FROM lossless.message",
}


@pytest.mark.parametrize("kind", SERVER_FOREIGN)
def test_a_dump_with_anything_that_is_not_ours_is_refused_by_its_name(
    kind: str, postgres_url: str, emptied: Callable[[], str], tmp_path: Path
) -> None:
    with opened(postgres_url, tmp_path) as lcm:
        told(lcm, "Theirs.")
        with psycopg.connect(postgres_url, autocommit=True) as connection:
            connection.execute(SERVER_FOREIGN[kind].encode())
        done = lcm.backup(tmp_path / "bad")
    assert done.form == "pg_dump"
    url = emptied()
    with opened(url, tmp_path) as lcm:
        told(lcm, "Acknowledged.")
        with pytest.raises(InvalidInput, match=r"pest.*which lossless did not make"):
            restored(done.path, url, tmp_path, replace=True, apply=True)
        assert texts(lcm) == ["Acknowledged."]
        told(lcm, "And on.")
        assert texts(lcm) == ["Acknowledged.", "And on."]
        assert lcm._store.kept_copies() == []


def test_hosts_do_not_wait_while_rows_come_to_a_server(emptied: Callable[[], str], tmp_path: Path) -> None:
    from lossless.store.postgres.replace_database import SchemaSite

    url = emptied()
    with opened(url, tmp_path) as lcm:
        told(lcm, "Before.")
        site = SchemaSite(url)
        with site.cleared(datetime.fromtimestamp(LATER, UTC), replaces=True), site.filling() as there:
            assert there.tables.count("message") == 0
            told(lcm, "Meanwhile.")
            assert texts(lcm) == ["Before.", "Meanwhile."]


@pytest.mark.anyio
async def test_awaited_it_is_the_same(tmp_path: Path) -> None:
    async with AsyncLossless.open(tmp_path / "own.db", settings=Settings()) as lcm:
        await lcm.conversation("k").ingest([Message.user("Hi.")])
        done = await lcm.backup(tmp_path / "b")
    put = await AsyncLossless.restore(done.path, tmp_path / "there.db", settings=Settings())
    assert put.backup.messages == 1
