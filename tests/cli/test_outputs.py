"""No output option writes over a database, a backup or a directory of ours, whatever name leads there."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from lossless import Lossless, Message, Settings
from lossless.errors import InvalidInput
from tests.command import fine
from tests.command import lcm as command
from tests.transcribing import Session, assistant, user


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """A directory with a database, its payloads, a backup and an older database."""
    path = tmp_path / "lcm.db"
    with Lossless.open(path, settings=Settings(large_file_token_threshold=1_000)) as lcm:
        lcm.conversation("agent:main:main").ingest([Message.user("lines of a log\n" * 2_000, event_id="one")])
        lcm.backup(tmp_path / "kept")
    with Lossless.open(tmp_path / "old.db") as other:
        other.conversation("a").ingest([Message.user("hello")])
    return tmp_path


def spellings(target: Path, home: Path) -> list[Path]:
    """Other names that lead to a file: relative, through a directory link, a link, a hard link."""
    (home / "link").symlink_to(target)
    (home / "here").symlink_to(target.parent)
    os.link(target, home / "second")
    return [target, Path(os.path.relpath(target)), home / "link", home / "here" / target.name, home / "second"]


@pytest.mark.parametrize("name", ["lcm.db", "old.db", "kept"])
def test_an_export_refuses_to_replace_a_database_or_a_backup(home: Path, name: str) -> None:
    target = home / name
    before = target.read_bytes()
    for path in spellings(target, home):
        with Lossless.open(home / "lcm.db") as lcm, pytest.raises(InvalidInput):
            lcm.export(path, replace=True)
    assert target.read_bytes()[:16] == before[:16]
    with Lossless.open(home / "lcm.db") as lcm:
        assert len(lcm.conversation("agent:main:main").messages()) == 1


@pytest.mark.parametrize("suffix", ["-wal", "-shm", "-journal"])
def test_nothing_is_written_where_a_database_keeps_its_log(home: Path, suffix: str) -> None:
    with Lossless.open(home / "lcm.db") as lcm:
        for name in ("lcm.db", "old.db"):
            with pytest.raises(InvalidInput):
                lcm.export(home / f"{name}{suffix}", replace=True)
            with pytest.raises(InvalidInput):
                lcm.backup(home / f"{name}{suffix}")


def test_nothing_is_written_into_a_directory_of_payloads(home: Path) -> None:
    files = home / "lcm-files"
    (payload,) = files.glob("*/*")
    with Lossless.open(home / "lcm.db") as lcm, Lossless.open(home / "other.db") as other:
        for path in (files / "new.zip", payload.parent / "new.zip", payload):
            for writer in (lcm, other):
                with pytest.raises(InvalidInput):
                    writer.export(path, replace=True)
                with pytest.raises(InvalidInput):
                    writer.backup(path)
    for target in (files, payload.parent):
        assert command("prompts", "export", target).returncode != 0
    assert [path for path in files.glob("*/*") if path.is_file()] == [payload]


def test_an_archive_of_removed_conversations_is_not_replaced(home: Path) -> None:
    path = home / "lcm.db.pruned-20260101-000000.zip"
    with Lossless.open(home / "lcm.db") as lcm:
        lcm.export(path)
        before = path.read_bytes()
        with pytest.raises(InvalidInput):
            lcm.export(path, replace=True)
        lcm.export(home / "mine.zip")
        lcm.export(home / "mine.zip", replace=True)
    assert path.read_bytes() == before


@pytest.mark.parametrize("name", ["lcm.db", "old.db", "kept"])
def test_the_bytes_of_a_file_are_not_written_over_a_database(home: Path, name: str) -> None:
    target = home / name
    with Lossless.open(home / "lcm.db") as lcm:
        (file,) = lcm.files("agent:main:main")
    before = target.read_bytes()
    for path in spellings(target, home):
        ran = command("files", "cat", file.id, "-o", path, "--force", "--db", home / "lcm.db")
        assert ran.returncode != 0
        assert "Nothing was written" in ran.stderr
    assert target.read_bytes() == before


def test_prompts_are_not_exported_over_a_database(home: Path) -> None:
    own = home / "own"
    own.mkdir()
    (home / "old.db").rename(own / "leaf.txt")
    before = (own / "leaf.txt").read_bytes()
    assert command("prompts", "export", own, "--force").returncode != 0
    assert (own / "leaf.txt").read_bytes() == before


def test_whatever_is_written_is_for_its_owner_only(tmp_path: Path) -> None:
    """At the widest umask, in directories that are not there yet."""
    home = tmp_path / "home"
    environment = {
        "HOME": str(home),
        "XDG_CONFIG_HOME": str(home / "deep" / "config"),
        "XDG_DATA_HOME": str(home / "deep" / "data"),
        "LCM_LARGE_FILE_TOKEN_THRESHOLD": "1000",
    }
    session = Session(tmp_path / "session.jsonl", "s")
    session.says(user("A large one. " * 2000), assistant("Read."))
    before = os.umask(0)
    try:
        fine("config", "set", "fresh_tail_count", "9", **environment)
        fine("config", "set", "fresh_tail_count", "10", **environment)
        fine("import", session.path, "--apply", **environment)
        database = home / "deep" / "data" / "lossless" / "lcm.db"
        with Lossless.open(database) as lcm:
            file = lcm.conversation(lcm.conversations()[0].key).files()[0].id
        fine("backup", **environment)
        fine("backup", home / "kept.zip", **environment)
        fine("export", home / "all.zip", **environment)
        fine("prompts", "export", home / "more" / "prompts", **environment)
        fine("files", "cat", file, "-o", home / "file.txt", **environment)
        fine("restore", home / "kept.zip", "--db", home / "other" / "place" / "lcm.db", **environment)
        with Lossless.open(database, clock=lambda: time.time() + 10 * 86_400) as lcm:
            assert lcm.prune("1d", include_active=True, apply=True).archive
        fine("demo", session.path, **environment)
    finally:
        os.umask(before)
    written = [home, *home.rglob("*")]
    assert len([path for path in written if path.is_dir()]) > 10
    modes = {str(path): oct(path.stat().st_mode & 0o777) for path in written}
    assert modes == {str(path): oct(0o700 if path.is_dir() else 0o600) for path in written}


def test_directories_that_were_there_keep_their_mode(tmp_path: Path) -> None:
    tmp_path.chmod(0o755)
    (tmp_path / "there").mkdir(mode=0o755)
    with Lossless.open(tmp_path / "there" / "new" / "lcm.db"):
        modes = [path.stat().st_mode & 0o777 for path in (tmp_path, tmp_path / "there", tmp_path / "there" / "new")]
    assert modes == [0o755, 0o755, 0o700]
