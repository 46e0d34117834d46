"""`lcm status` and `lcm stats`, as a person and as a program read them."""

from __future__ import annotations

import json
import os
import re
import shutil
import time
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from lossless import Lossless, Message, Settings
from lossless.cli import cli
from lossless.errors import StoreFull
from lossless.store.sqlite.store import SQLiteStore
from tests.client.test_behaviours import launch
from tests.engine.compaction.test_compaction import WINDOW, turns
from tests.engine.test_worker import Clock, open_at
from tests.provider import Provider
from tests.store.test_sqlite import failing_disk
from tests.transcribing import Session, user


def lcm(*arguments: str, columns: int = 80) -> Result:
    return CliRunner(env={"COLUMNS": str(columns)}).invoke(cli, list(arguments))


def data(*arguments: str) -> Any:
    ran = lcm(*arguments, "--json")
    told = json.loads(ran.stdout)
    assert told["ok"] is True
    assert told["command"] == arguments[0]
    return told["data"]


def flat(ran: Result) -> str:
    """What was printed, whatever the width."""
    return " ".join(ran.stdout.split())


@pytest.fixture
def path(tmp_path: Path) -> str:
    """A database with one conversation that was compacted and then grew beyond its budget."""
    path = str(tmp_path / "lcm.db")
    with open_at(path, Clock()) as opened:
        opened._clock = time.time
        chat = opened.conversation("agent:main:main")
        chat.ingest(turns(50))
        chat.compact(WINDOW)
        chat.ingest(turns(10, 50))
        chat.assemble(WINDOW)
    return path


def test_one_screen_tells_how_it_stands(path: str) -> None:
    ran = lcm("status", "--db", path)
    assert ran.exit_code == 0, ran.stderr
    lines = ran.stdout.splitlines()
    assert len(lines) <= 24
    assert max(len(line) for line in lines if path not in line) <= 80, "only a path stays whole"
    assert any(line.startswith("conversations  1 (1 active; since 20") for line in lines)
    assert any(line.startswith("messages       120 (") for line in lines)
    assert any(re.match(r"summaries      \d+ \([\d,]+ tokens", line) for line in lines)
    assert any(line.startswith("problems       ") and "summaries written without a model" in line for line in lines)
    assert lines[-1] == "               -> lcm compact agent:main:main --window 1000"
    assert "transcripts    none followed" in lines
    found = data("status", "--db", path)
    assert (found["verdict"], found["messages"]) == ("degraded", 120)
    assert [each["what"] for each in found["reasons"]] == ["crowded"]
    assert found["holdings"]["source_tokens"] == found["holdings"]["depths"][0]["source_tokens"]


def test_a_narrow_terminal_shows_it_too(path: str) -> None:
    ran = lcm("status", "agent:main:main", "--db", path, columns=40)
    assert max(len(line) for line in ran.stdout.splitlines() if path not in line) <= 40


def test_a_conversation_adds_its_own_lines(path: str) -> None:
    ran = lcm("status", "agent:main:main", "--db", path)
    assert "conversation   agent:main:main (active)" in ran.stdout
    assert "budget         1,000 tokens" in ran.stdout
    assert data("status", "-c", "agent:main:main", "--db", path)["conversation"]["holdings"]["messages"] == 120
    assert lcm("status", "nobody", "--db", path).exit_code == 3


def test_before_the_first_message_it_is_empty_and_nothing_is_made(tmp_path: Path) -> None:
    ran = CliRunner(env={"XDG_DATA_HOME": str(tmp_path / "none")}).invoke(cli, ["status"])
    assert "size           not created yet" in ran.stdout
    assert "verdict        empty" in ran.stdout
    assert "last message   never" in ran.stdout
    assert "pending work   none" in ran.stdout
    assert list(tmp_path.iterdir()) == []
    assert CliRunner(env={"XDG_DATA_HOME": str(tmp_path)}).invoke(cli, ["status", "--fail-on", "quiet"]).exit_code == 6


def test_a_database_that_somebody_named_and_that_is_gone_is_an_error(tmp_path: Path) -> None:
    where = str(tmp_path / "gone" / "lcm.db")
    assert lcm("status", "--db", where).exit_code == 3
    assert CliRunner(env={"LCM_DATABASE_PATH": where}).invoke(cli, ["status"]).exit_code == 3


def test_a_transcript_that_was_not_read_is_named_with_the_command_that_reads_it(tmp_path: Path) -> None:
    path, session = str(tmp_path / "lcm.db"), Session(tmp_path / "s1.jsonl")
    session.says(user("one"))
    with Lossless.open(path) as opened:
        opened.conversation("k").bootstrap(session.path)
    session.says(user("two"))
    an_hour_ago = time.time() - 3_630
    os.utime(session.path, (an_hour_ago, an_hour_ago))
    ran = lcm("status", "--db", path)
    assert ran.exit_code == 0
    assert "transcripts    1 followed, 1 behind, " in ran.stdout
    assert "verdict        degraded" in ran.stdout
    assert "bytes not read for 60 min;" in flat(ran)
    cure = f"lcm import {session.path} --key k --apply"
    assert f"-> {cure}".replace(" ", "") in ran.stdout.replace(" ", "").replace("\n", "")
    (reason,) = data("status", "--db", path)["reasons"]
    assert (reason["severity"], reason["what"], reason["command"]) == ("degraded", "behind", cure)
    assert lcm("status", "--db", path, "--fail-on", "degraded").exit_code == 6
    lcm("watch", str(tmp_path), "--once", "--db", path)
    assert lcm("status", "--db", path, "--fail-on", "warning").exit_code == 0


def test_a_rate_limit_is_told(tmp_path: Path, provider: Provider, credentials: None) -> None:
    path, clock = str(tmp_path / "lcm.db"), Clock()
    clock.now = time.time() - 4
    provider.script("429")
    model = {"summary_model": "anthropic/stand-in", "summary_base_url": provider.url}
    with open_at(path, clock, None, **model) as opened:
        opened.conversation("k").after_turn(launch(17), window=WINDOW)
        clock.now += 3
        opened.worker().step()
    ran = lcm("status", "k", "--db", path)
    assert "pending work   1 waiting, 0 running, 1 failed" in ran.stdout
    assert "the provider asked for a pause (rate limit); next attempt" in flat(ran)
    assert "-> lcm worker --once" in ran.stdout
    found = data("status", "--db", path)
    assert [each["what"] for each in found["reasons"]] == ["pending"]
    assert (found["verdict"], found["debts"][0]["stop"], found["calls"]["calls"]) == ("warning", "rate limit", 1)
    assert lcm("status", "--db", path, "--fail-on", "degraded").exit_code == 0
    assert lcm("status", "--db", path, "--fail-on", "warning").exit_code == 6


def test_a_full_disk_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = str(tmp_path / "lcm.db")
    with failing_disk() as disk:
        store = SQLiteStore(path, vfs="failing")
        with Lossless(store, Settings(database_path=path)) as opened:
            chat = opened.conversation("k")
            chat.ingest([Message.user("before")])
            disk.left = 0
            with pytest.raises(StoreFull):
                chat.ingest([Message.user("too much")])
            disk.left = None
    full = shutil._ntuple_diskusage(10**9, 10**9 - 12_000_000, 12_000_000)
    monkeypatch.setattr(shutil, "disk_usage", lambda path: full)
    ran = lcm("status", "--db", path)
    assert "messages       1 (" in ran.stdout
    assert "11.4 MB free" in flat(ran)
    assert "The disk is nearly full: 12 MB free" in flat(ran)
    assert "verdict        degraded" in ran.stdout
    assert [each["what"] for each in data("status", "--db", path)["reasons"]] == ["full"]


def test_a_damaged_database_is_told_in_a_sentence(tmp_path: Path, path: str) -> None:
    size = os.stat(path).st_size
    with open(path, "r+b") as file:
        file.seek(8192)
        file.write(b"\xff" * (size - 8192))
    for ran in (lcm("status", "--db", path), lcm("stats", "--db", path)):
        assert ran.exit_code == 5
        assert "is damaged" in ran.stderr


def test_stats_tell_what_was_saved_and_spent(path: str) -> None:
    ran = lcm("stats", "--db", path)
    assert ran.exit_code == 0, ran.stderr
    assert max(map(len, ran.stdout.splitlines())) <= 80
    assert "shown          1 turn of 1 conversation: " in ran.stdout
    assert "tokens a turn with the whole history (estimate)" in flat(ran)
    assert "saved          about " in ran.stdout
    assert "depth  summaries" in ran.stdout
    assert "extractive" in ran.stdout
    found = data("stats", "agent:main:main", "--db", path)
    assert found["turns"]["saved_tokens"] == found["turns"]["whole_tokens"] - found["turns"]["shown_tokens"]
    assert (found["step"], found["days"][-1]["messages"], found["cost"]) == (1, 120, 0.0)


def test_stats_begin_so_long_ago_or_at_a_time(path: str) -> None:
    for since, counted in (
        ("7d", 120),
        ("7 days", 120),
        ("2w", 120),
        ("2020-01-01T09:00+01:00", 120),
        ("2999-01-01", 0),
    ):
        found = data("stats", "--since", since, "--db", path)
        assert sum(each["messages"] for each in found["roles"]) == counted, since
    for since in ("soon", "7 dayz", "6m", "0d", "99999999w", "1d2h"):
        ran = lcm("stats", "--since", since, "--db", path, "--json")
        assert (ran.exit_code, json.loads(ran.stderr)["error"]["code"]) == (2, "INVALID_TIME_FILTER"), since


def test_an_unknown_price_is_not_invented(tmp_path: Path) -> None:
    path = str(tmp_path / "lcm.db")
    with open_at(path, Clock(), lambda request: "Short.") as opened:
        chat = opened.conversation("k")
        chat.ingest(turns(60))
        chat.compact(WINDOW)
    ran = lcm("stats", "--db", path)
    assert "unknown price" in ran.stdout
    assert "unknown price; without prompts" in flat(ran)
    assert data("stats", "--db", path)["cost"] is None
