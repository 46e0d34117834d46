"""Databases, archives and backups of earlier versions open, and nothing in them is lost (`tests/databases`)."""

from __future__ import annotations

import tarfile
from contextlib import closing
from pathlib import Path
from typing import Any

import apsw
import pytest
from msgspec import structs

from lossless import Lossless, Message
from lossless.store import migrate
from tests.histories import SMALL, opened

DATABASES = Path(__file__).parents[1] / "databases"
PACKED = sorted(DATABASES.glob("*.tar.xz"))
WORDS = "SELECT id, role, text, parts, meta, tokens, digest, at, created_at, event_id, outside FROM message ORDER BY id"


def unpack(packed: Path, target: Path) -> Path:
    """Unpack a database and its files; return the path of the database."""
    with tarfile.open(packed) as archive:
        archive.extractall(target, filter="data")
    return target / "lcm.db"


def rows(database: Path, sql: str) -> list[Any]:
    """Read a file without the program under test."""
    with closing(apsw.Connection(str(database), flags=apsw.SQLITE_OPEN_READONLY)) as connection:
        return list(connection.execute(sql))


def assert_healthy(lcm: Lossless) -> int:
    """Return the number of messages, all of which are accounted for."""
    assert lcm.doctor().at_least("warn") == ()
    proofs = lcm.doctor.prove()
    assert all(proof.holds and proof.accounted == proof.messages for proof in proofs)
    return sum(proof.messages for proof in proofs)


def test_there_is_a_database_of_every_schema_version() -> None:
    kept = {int(path.name[7:9]) for path in PACKED if path.name.startswith("schema-")}
    assert kept == set(migrate.steps("sqlite")), "run scripts/old_databases.py"


@pytest.mark.parametrize(
    "packed", [path for path in PACKED if path.name.startswith("schema-")], ids=lambda path: path.name[:9]
)
def test_every_table_of_a_version_has_rows(packed: Path, tmp_path: Path) -> None:
    database = unpack(packed, tmp_path)
    assert rows(database, "PRAGMA user_version") == [(int(packed.name[7:9]),)]
    tables = rows(database, "SELECT name FROM sqlite_schema WHERE type = 'table'")
    assert [name for (name,) in tables if rows(database, f"SELECT count(*) FROM {name}") == [(0,)]] == []


@pytest.mark.parametrize("packed", PACKED, ids=lambda path: path.name.partition(".")[0])
def test_a_database_of_an_earlier_version_is_migrated_and_proves_every_message(packed: Path, tmp_path: Path) -> None:
    database = unpack(packed, tmp_path)
    before, version = rows(database, WORDS), rows(database, "PRAGMA user_version")[0][0]
    owners = [owner for (owner,) in rows(database, "SELECT DISTINCT owner FROM conversation")]
    newest = max(migrate.steps("sqlite"))

    proved = 0
    for owner in owners:
        with opened(database, tmp_path / "lcm-files", owner) as lcm:
            proved += assert_healthy(lcm)
    assert proved == len(before)
    assert rows(database, "PRAGMA user_version") == [(newest,)]
    assert rows(database, WORDS) == before
    assert bool(list(tmp_path.glob("lcm.db?*before*"))) == (version < newest)

    with opened(database, tmp_path / "lcm-files") as lcm:
        chat = lcm.conversation("agent:main:main")
        chat.ingest([Message.user(f"a zebra {n} " * 30) for n in range(8)])
        chat.compact(window=500, force=True)
        assert len(chat.grep("zebra", mode="full_text", scope="messages")) == 8
        assert chat.grep("some words", mode="full_text", scope="messages")
        assert_healthy(lcm)


def test_an_archive_of_an_earlier_version_is_imported(tmp_path: Path) -> None:
    with opened(tmp_path / "lcm.db", tmp_path / "lcm-files") as lcm:
        done = lcm.import_(DATABASES / "written-10.archive", apply=True)
        assert (done.messages, done.errors) == (36, ())
        assert assert_healthy(lcm) == 36
        assert lcm.import_(DATABASES / "written-10.archive", apply=True).messages == 0


def test_a_backup_of_an_earlier_version_is_restored(tmp_path: Path) -> None:
    database = tmp_path / "lcm.db"
    Lossless.restore(DATABASES / "written-10.backup", database, apply=True)
    assert rows(database, WORDS) == rows(unpack(DATABASES / "written-10.tar.xz", tmp_path / "as it was"), WORDS)
    for owner in ("default", "another"):
        with opened(database, tmp_path / "lcm-files", owner) as lcm:
            assert assert_healthy(lcm) == 36


def test_a_backup_of_an_earlier_version_of_postgresql_is_restored(tmp_path: Path, postgres_url: str) -> None:
    settings = structs.replace(SMALL, large_files_dir=str(tmp_path / "lcm-files"))
    Lossless.restore(DATABASES / "written-10.postgresql-backup", postgres_url, apply=True, settings=settings)
    for owner in ("default", "another"):
        with opened(postgres_url, tmp_path / "lcm-files", owner) as lcm:
            assert assert_healthy(lcm) == 36
