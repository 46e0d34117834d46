from __future__ import annotations

import os
import tempfile
import uuid
from collections.abc import Callable, Iterator
from importlib import import_module
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit, urlunsplit

import psycopg
import pytest
from hypothesis import HealthCheck, settings

from lossless import Conversation, Lossless, Settings
from lossless.store.postgres.store import PostgresStore
from lossless.store.sqlite.store import SQLiteStore
from lossless.store.store import Store
from tests import postgres
from tests.hosts.chosen import chosen
from tests.provider import Provider

KEY = "sk-test-1234567890"

# No test reads or writes what the person who runs it has.
_HOME = tempfile.TemporaryDirectory(prefix="lcm-test-home-")
os.environ |= {"XDG_CONFIG_HOME": f"{_HOME.name}/config", "XDG_DATA_HOME": f"{_HOME.name}/data"}
os.environ["XDG_STATE_HOME"] = f"{_HOME.name}/state"
# Tests read what a person reads, unless they ask for JSON.
os.environ |= {"LCM_OUTPUT": "text", "COLUMNS": "100"}

# The bounded run invents the same examples every time, so that a failure means a change; `make slow` invents others.
settings.register_profile(
    "ci", max_examples=12, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow]
)
settings.register_profile("slow", max_examples=1000, deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile(os.environ.get("LCM_TEST_PROFILE", "ci"))


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out the tests of programs that were not asked for."""
    left_out = [item for item in items if item.get_closest_marker("hosts") and not chosen(item.path)]
    if left_out:
        config.hook.pytest_deselected(items=left_out)
        items[:] = [item for item in items if item not in left_out]


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Say which programs were not started: a test that nobody sees missing is a defect."""
    asked = os.environ.get("LCM_TEST_HOSTS", "")
    if asked != "all":
        terminalreporter.write_line(f"Agent programs started: {asked or 'none'}; `make hosts` starts all of them.")


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[str]:
    try:
        with postgres.server() as url:
            yield url
    except (LookupError, ImportError, OSError) as reason:
        if os.environ.get("CI"):
            raise
        pytest.skip(f"NO POSTGRESQL: {reason}")


def new_database(server: str) -> str:
    """A fresh, empty database on the server; its URL."""
    name = f"lcm_{uuid.uuid4().hex[:16]}"
    with psycopg.connect(server, autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {name} TEMPLATE template0".encode())
    return urlunsplit(urlsplit(server)._replace(path=f"/{name}"))


@pytest.fixture
def postgres_url(postgres_server: str) -> Iterator[str]:
    url = new_database(postgres_server)
    yield url
    with psycopg.connect(postgres_server, autocommit=True) as connection:
        connection.execute(f"DROP DATABASE {urlsplit(url).path[1:]} WITH (FORCE)".encode())


_LARGE = 4_000_000
"""Bytes from which emptying by TRUNCATE is worth its price: a new file for every table and index."""


def _empty_tables(connection: psycopg.Connection[tuple[Any, ...]]) -> None:
    """Remove every row. Deleting them takes a tenth of the time of a TRUNCATE while the tables are small."""
    found = connection.execute(
        "SELECT tablename, pg_total_relation_size(format('lossless.%I', tablename)::regclass) FROM pg_tables"
        " WHERE schemaname = 'lossless' AND tablename <> 'migration'"
    ).fetchall()
    tables = [f"lossless.{table}" for table, _ in found]
    superuser = connection.execute("SELECT current_setting('is_superuser')").fetchone()
    if sum(size for _, size in found) > _LARGE or superuser != ("on",):
        connection.execute(f"TRUNCATE {', '.join(tables)} RESTART IDENTITY CASCADE".encode())
        return
    sequences = connection.execute("SELECT sequencename FROM pg_sequences WHERE schemaname = 'lossless'").fetchall()
    with connection.transaction():
        connection.execute("SET LOCAL session_replication_role = replica")  # in any order, whatever refers to what
        connection.execute("; ".join(f"DELETE FROM {table}" for table in tables).encode())
        for (sequence,) in sequences:
            connection.execute(f"ALTER SEQUENCE lossless.{sequence} RESTART".encode())


@pytest.fixture(scope="session")
def emptied(postgres_server: str) -> Callable[[], str]:
    """A database with today's tables and nothing in them: the same again and again, since to make one takes its time."""
    url = new_database(postgres_server)
    PostgresStore(url).close()

    def empty() -> str:
        with psycopg.connect(url, autocommit=True) as connection:
            connection.execute("SET lock_timeout TO '10s'")
            connection.execute(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
                " WHERE datname = current_database() AND pid <> pg_backend_pid()"
            )
            for (copy,) in connection.execute(
                "SELECT nspname FROM pg_namespace WHERE nspname LIKE 'lossless!_before!_%' ESCAPE '!'"
            ).fetchall():
                connection.execute(f"DROP SCHEMA {copy} CASCADE".encode())
            _empty_tables(connection)
        return url

    return empty


@pytest.fixture(params=["sqlite", "postgres"])
def database(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """Where a database is: one of either kind with nothing in it, and for the tests of the store not even tables."""
    if request.param == "sqlite":
        return str(tmp_path / "lcm.db")
    if "store" in request.path.parts:
        return str(request.getfixturevalue("postgres_url"))
    return str(request.getfixturevalue("emptied")())


OpenStore = Callable[..., Store]


@pytest.fixture
def open_store(database: str) -> Iterator[OpenStore]:
    """Opens the database as often as a test likes, and closes what it left open."""
    opened: list[Store] = []

    def open_(**options: object) -> Store:
        kind = PostgresStore if database.startswith("postgresql") else SQLiteStore
        store = kind(database, **options)  # type: ignore[arg-type]  # either takes the options a test passes
        opened.append(store)
        return store

    yield open_
    for store in opened:
        store.close()


@pytest.fixture
def store(open_store: OpenStore) -> Store:
    return open_store()


@pytest.fixture
def lcm(database: str, tmp_path: Path) -> Iterator[Lossless]:
    """The library over a new database of either kind."""
    with Lossless.open(database, settings=Settings(large_files_dir=str(tmp_path / "files"))) as lcm:
        yield lcm


@pytest.fixture
def chat(lcm: Lossless) -> Conversation:
    return lcm.conversation("agent:main:main")


@pytest.fixture
def provider() -> Iterator[Provider]:
    """A stand-in for the providers, on loopback.

    The SDKs load their modules on first use, which may take longer than the time a test allows for a call.
    """
    for module in ("anthropic.resources.messages", "openai.resources.chat.completions", "openai.resources.responses"):
        import_module(module)
    with Provider() as started:
        yield started


@pytest.fixture
def credentials(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Ours, and nobody else's: neither the machine's keys nor its profiles and proxies."""
    for variable in [name for name in os.environ if name.startswith(("ANTHROPIC_", "OPENAI_"))]:
        monkeypatch.delenv(variable)
    monkeypatch.setenv("ANTHROPIC_CONFIG_DIR", str(tmp_path))
    monkeypatch.setenv("ANTHROPIC_API_KEY", KEY)
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    # Loopback needs no certificates, and to load them takes longer than most tests.
    monkeypatch.delenv("SSL_CERT_FILE", raising=False)
    monkeypatch.setenv("SSL_CERT_DIR", str(tmp_path))
