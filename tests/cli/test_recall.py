"""lcm describe, expand and ask: the verbs, on a terminal."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from lossless import Lossless, Message
from lossless.cli import cli
from tests.engine.compaction.test_compaction import SMALL, short
from tests.engine.recall.test_recall import grown, top

FACT = "The deploy key lies in the \x1b[31mblue safe\x1b[0m."


@pytest.fixture
def where(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("LCM_SUMMARY_MODEL", "extractive")
    path = str(tmp_path / "lcm.db")
    with Lossless.open(path, settings=SMALL, summarizer=short) as lcm:
        grown(lcm.conversation("k")).ingest([Message.user(FACT)])
    return path


def run(*arguments: str) -> Result:
    return CliRunner().invoke(cli, arguments, catch_exceptions=False)


def data(result: Result) -> Any:
    assert result.exit_code == 0, result.output
    told = json.loads(result.stdout)
    assert told["ok"]
    return told["data"]


def summary(where: str) -> str:
    with Lossless.open(where, settings=SMALL, read_only=True) as lcm:
        return top(lcm.conversation("k")).id


def test_describe_shows_a_summary_and_what_lies_below(where: str) -> None:
    id = summary(where)
    result = run("describe", id, "--db", where)
    described = data(run("describe", id, "--db", where, "--json"))
    assert result.stdout.startswith(f"{described['content']}\n\nsummary        {id}, depth ")
    assert described["branches"][0]["id"] == id
    assert described["text"].startswith(f"LCM_SUMMARY {id}\n")
    for notation in ("LCM_SUMMARY", "tok=", "manifest"):
        assert notation not in result.stdout, "machine notation is for --json"
    assert f"lcm expand {id}" in result.stdout


def test_old_text_cannot_speak_to_the_terminal(where: str) -> None:
    for arguments in (("describe", "msg#1000000121"), ("expand", "1000000121"), ("ask", "Where is the deploy key?")):
        out = run(*arguments, "--db", where).stdout
        assert "\x1b" not in out
        assert "\\x1b[31mblue safe" in out
    assert data(run("expand", "1000000121", "--db", where, "--json"))["text"].endswith(FACT)


def test_expand_pages_with_a_cursor(where: str) -> None:
    first = data(run("expand", summary(where), "--db", where, "--max-tokens", "80", "--json"))
    assert first["truncated"]
    second = data(run("expand", summary(where), "--db", where, "--cursor", first["next"], "--json"))
    assert second["items"][0]["id"] != first["items"][0]["id"]
    told = run("expand", summary(where), "--db", where, "--max-tokens", "80")
    assert f"More: --cursor {first['next']}" in told.stderr


def test_ask_shows_the_evidence_where_there_is_no_model(where: str) -> None:
    found = data(run("ask", "Where is the deploy key?", "--db", where, "--json"))
    assert found["answer"] == ""
    (fact,) = [each for each in found["evidence"] if each["quote"] == FACT]
    assert fact["reason"] == "contains: deploy, key"
    assert [each["at"] for each in found["evidence"]] == sorted(each["at"] for each in found["evidence"])
    one = data(run("ask", "Where is the deploy key?", "-c", "k", "--db", where, "--json"))
    assert one["evidence"][0] == found["evidence"][0]
    assert "Nothing found." in run("ask", "xylophone", "-c", "k", "--db", where).stdout


def test_an_unknown_id_is_an_error(where: str) -> None:
    ran = run("describe", "sum_ffffffffffffffff", "--db", where)
    assert (ran.exit_code, ran.stdout) == (3, "")
