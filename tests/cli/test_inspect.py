"""lcm conversations, messages and files: what is stored, on a terminal and in a pipe."""

from __future__ import annotations

import base64
import json
import os
import pty
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from lossless import File, Lossless, Message, Reasoning, Text, ToolCall
from lossless.cli import cli

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)
LONG = "".join(f"line {n} of a long report\n" for n in range(1, 10_001))
PICTURE = b"\x89PNG\r\n\x1a\n\0" + bytes(range(256)) * 8
ESCAPE = "\x1b[31mred"


@pytest.fixture(scope="module")
def where(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("inspect")
    with Lossless.open(root / "lcm.db", clock=lambda: NOON.timestamp()) as lcm:
        chat = lcm.conversation("work", "session-1")
        chat.ingest([Message.user("first, archived", at=NOON)])
        chat.reset()
        chat.ingest(
            [
                Message.user(f"Please read it. {ESCAPE}", at=NOON, event_id="e1"),
                Message(
                    "assistant",
                    (Reasoning("hm, a file"), Text("I will."), ToolCall("c1", "read", '{"path": "report.txt"}')),
                    at=NOON + timedelta(minutes=1),
                ),
                Message.tool(LONG, call_id="c1", name="read", at=NOON + timedelta(minutes=2)),
                Message("user", (File("image/png", "cat.png", base64.b64encode(PICTURE).decode()),), at=NOON),
                Message("narrator", (Text("Meanwhile."),), at=NOON),
            ]
        )
        chat.pin("never on Fridays")
    with Lossless.open(root / "lcm.db", clock=lambda: NOON.timestamp() - 60) as lcm:
        lcm.conversation("home").ingest([Message.user("hello")])
    return root


@pytest.fixture(autouse=True)
def chosen(where: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("LCM_DATABASE_PATH", str(where / "lcm.db"))
    monkeypatch.setenv("LCM_TIMEZONE", "UTC")


def run(*arguments: str) -> Result:
    return CliRunner().invoke(cli, arguments, catch_exceptions=False)


def told(*arguments: str) -> dict[str, Any]:
    result = run(*arguments, "--json")
    assert result.exit_code == 0, result.output
    answer: dict[str, Any] = json.loads(result.stdout)
    return answer


def refused(*arguments: str) -> tuple[int, str]:
    result = run(*arguments, "--json")
    assert result.stdout == ""
    return result.exit_code, json.loads(result.stderr)["error"]["code"]


def files() -> dict[str, str]:
    """The ids of the files by their kind."""
    return {each["mime"] or "text": each["id"] for each in told("files", "list", "work")["data"]["files"]}


def test_conversations_are_listed_active_ones_unless_asked() -> None:
    lines = run("conversations", "list").stdout.splitlines()
    assert lines[0].split()[:4] == ["id", "title", "messages", "first"]
    assert [line.split()[0] for line in lines[1:]] == ["#2", "#3"]
    assert [line.split()[-1] for line in lines[1:]] == ["work", "home"]
    assert ["Please read it." in line for line in lines[1:]] == [True, False]
    assert "archived (manual-reset)" in run("conversations", "list", "--archived").stdout
    answer = told("conversations", "list", "--all", "--limit", "2")
    assert answer["command"] == "conversations.list"
    assert [each["id"] for each in answer["data"]["conversations"]] == [2, 1]
    assert answer["pagination"]["has_more"]
    more = told("conversations", "list", "--all", "--limit", "2", "--cursor", answer["pagination"]["next_cursor"])
    assert [each["key"] for each in more["data"]["conversations"]] == ["home"]
    assert more["pagination"] == {"limit": 2, "returned": 1, "has_more": False, "next_cursor": None}


def test_a_noun_alone_lists() -> None:
    assert run("conversations").stdout == run("conversations", "list").stdout
    assert run("messages", "work", "-L", "2").stdout == run("messages", "list", "work", "--limit", "2").stdout
    assert run("messages", "-c", "work").stdout == run("messages", "list", "work").stdout
    assert run("summaries", "work").stdout == run("summaries", "list", "work").stdout
    assert run("files", "work").stdout == run("files", "list", "work").stdout
    assert run("config").stdout == run("config", "show").stdout
    assert run("prompts").stdout == run("prompts", "list").stdout
    for noun, typo, meant in (
        ("messages", "lsit", "list"),
        ("conversations", "shwo", "show"),
        ("config", "gte", "get"),
    ):
        wrong = run(noun, typo)
        assert (wrong.exit_code, f"Did you mean {meant}?" in wrong.stderr) == (2, True)
    assert refused("messages", "nobody") == (3, "CONVERSATION_NOT_FOUND")


def test_every_list_takes_since_and_until_in_one_grammar() -> None:
    def ids(*arguments: str) -> list[Any]:
        (listed,) = told(*arguments)["data"].values()
        return [each["id"] for each in listed]

    noon, minute_before = "2026-03-01T12:00Z", "2026-03-01T11:59Z"
    assert ids("conversations", "--since", noon) == [2]
    assert ids("conversations", "--until", noon) == [3]
    assert ids("conversations", "--since", "2026-02-01", "--until", "2026-03-01") == []
    assert ids("conversations", "--since", "2026-03-01") == [2, 3]
    assert ids("files", "work", "--since", noon) == ids("files", "work") != []
    assert ids("files", "work", "--until", noon) == []
    assert len(ids("history", "--since", noon)) == len(ids("history")) == 1
    assert ids("history", "--until", noon) == []
    for noun in ("conversations", "messages", "summaries", "files", "history"):
        assert refused(noun, "--since", "yesteday") == (2, "INVALID_TIME_FILTER")
    page = told("conversations", "--since", minute_before, "-L", "1")
    rest = told("conversations", "--since", minute_before, "-L", "1", "--cursor", page["pagination"]["next_cursor"])
    assert [each["id"] for each in rest["data"]["conversations"]] == [3]
    other = run("conversations", "-L", "1", "--cursor", page["pagination"]["next_cursor"], "--json")
    assert json.loads(other.stderr)["error"]["code"] == "INVALID_CURSOR"


def test_one_conversation_is_shown_by_key_or_by_id() -> None:
    shown = run("conversations", "show", "work").stdout
    for sentence in ("work  #2  active", "session-1", "#1 work, archived (manual-reset)", "pin_", "fresh tail"):
        assert sentence in shown
    assert told("conversations", "show", "#1")["data"]["conversation"]["messages"] == 1
    unsaid = run("conversations", "show")
    assert unsaid.stdout == shown
    assert "the newest of 2" in unsaid.stderr
    assert refused("conversations", "show", "nobody") == (3, "CONVERSATION_NOT_FOUND")
    assert refused("conversations", "show", "#99") == (3, "CONVERSATION_NOT_FOUND")


def test_messages_are_listed_with_where_they_are() -> None:
    rows = told("messages", "list", "work")["data"]["messages"]
    assert [row["seq"] for row in rows] == [5, 4, 3, 2, 1]
    assert rows[0]["where"] == {"state": "outside", "why": "role", "summaries": []}
    assert rows[2]["files"] == [files()["text"]]
    assert rows[3]["preview"] == 'I will. [call c1 of read] {"path": "report.txt"}'
    assert rows[3]["content"] is None
    text = run("messages", "list", "work").stdout
    assert "outside: role" in text
    full = run("messages", "list", "work", "--include-content", "--oldest-first", "--limit", "1")
    assert full.stdout.splitlines()[1] == "Please read it. \\x1b[31mred"
    assert full.stderr.startswith("More: --cursor ")


def test_messages_are_chosen_by_role_and_time() -> None:
    def seqs(*arguments: str) -> list[int]:
        return [row["seq"] for row in told("messages", "list", "-c", "work", *arguments)["data"]["messages"]]

    assert seqs("--role", "user", "--role", "tool") == [4, 3, 1]
    assert seqs("--after", "2026-03-01T12:01Z") == [3, 2]
    assert seqs("--before", "2026-03-01T13:01:00+01:00") == [5, 4, 1]
    assert seqs("--between", "2026-03-01T12:01:00Z..2026-03-01T12:02:00.0Z") == [2]
    assert seqs("--recency", "9999w") == [5, 4, 3, 2, 1]


def test_a_time_that_a_list_shows_is_taken_back(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LCM_TIMEZONE", "Asia/Kolkata")
    text = run("messages", "list", "work").stdout
    assert "at (Asia/Kolkata)" in text
    assert "2026-03-01 17:31" in text
    for shown in ("2026-03-01 17:31", "2026-03-01 17:31 IST", "2026-03-01 17:31+05:30"):
        found = told("messages", "list", "-c", "work", "--after", shown)["data"]["messages"]
        assert [row["seq"] for row in found] == [3, 2]
        assert told("messages", "list", "-c", "work", "--after", found[-1]["at"])["data"]["messages"] == found


@pytest.mark.parametrize(
    "arguments",
    [
        ("--after", "2026-03-01T12:00Z PST"),
        ("--after", "2026-02-30T12:00Z"),
        ("--after", "2026-03-01T24:00Z"),
        ("--after", "٢026-03-01T12:00Z"),
        ("--before", "0001-01-01T00:00+12:00"),
        ("--recency", "0h"),
        ("--recency", "2 hh"),
        ("--recency", "30m"),
        ("--recency", "-2h"),
        ("--recency", "999999999w"),
        ("--between", "2026-03-01T12:00Z"),
        ("--between", "2026-03-01T12:00Z..2026-03-01T12:00Z"),
        ("--between", "2026-03-01T12:00Z..2026-03-01T13:00Z", "--before", "2026-03-01T14:00Z"),
        ("--recency", "2h", "--after", "2026-03-01T12:00Z"),
        ("--recency", "2h", "--before", "2020-03-01T12:00Z"),
        ("--after", "2026-03-01T12:00Z", "--before", "2026-03-01T11:00Z"),
    ],
)
def test_what_is_no_time_is_refused(arguments: tuple[str, ...]) -> None:
    assert refused("messages", "list", "work", *arguments) == (2, "INVALID_TIME_FILTER")


@pytest.mark.parametrize(
    ("arguments", "outcome"),
    [
        (("messages", "list", "work", "--cursor", "x"), (2, "INVALID_CURSOR")),
        (("messages", "list", "work", "--limit", "501"), (2, "INVALID_ARGUMENT")),
        (("messages", "list", "work", "--role", "narrator"), (2, "INVALID_ARGUMENT")),
        (("messages", "list", "work", "--depth", "1"), (2, "INVALID_ARGUMENT")),
        (("messages", "tail", "work", "--after", "2026-03-01T12:00Z"), (2, "INVALID_ARGUMENT")),
        (("messages", "list", "work", "-c", "home"), (2, "INVALID_ARGUMENT")),
        (("messages", "show", "msg#2000000099"), (3, "MESSAGE_NOT_FOUND")),
        (("messages", "show", "sum_1a2b"), (2, "INVALID_INPUT")),
        (("messages", "around", "99", "-c", "work"), (3, "MESSAGE_NOT_FOUND")),
        (("files", "show", "file_1a2b"), (3, "FILE_NOT_FOUND")),
        (("files", "list", "--role", "user"), (2, "INVALID_ARGUMENT")),
    ],
)
def test_what_is_wrong_is_refused_and_never_ignored(arguments: tuple[str, ...], outcome: tuple[int, str]) -> None:
    assert refused(*arguments) == outcome


def test_a_message_is_shown_with_every_part() -> None:
    shown = run("messages", "show", "2", "-c", "work").stdout
    for piece in ("msg#2000000002", "in the context", "hm, a file", "I will.", "call of read (c1)", '{"path": "report'):
        assert piece in shown
    data = told("messages", "show", "msg#2000000001")["data"]
    assert data["stored"]["message"]["parts"] == [{"type": "text", "text": f"Please read it. {ESCAPE}"}]
    assert data["stored"]["message"]["event_id"] == "e1"
    assert "\x1b" not in run("messages", "show", "msg#2000000001").stdout
    reference = run("messages", "show", "msg#2000000003").stdout
    assert f"files         {files()['text']}" in reference
    assert "line 5000 of" not in reference
    assert "line 5000 of" in run("messages", "show", "msg#2000000003", "--whole").stdout
    assert "outside the context (role)" in run("messages", "show", "msg#2000000005").stdout


def test_the_tail_and_the_neighbours_are_shown_in_order() -> None:
    tail = told("messages", "tail", "work", "--count", "2")["data"]
    assert [each["seq"] for each in tail["messages"]] == [3, 4]
    assert (tail["count"], tail["stored_messages"]) == (2, 5)
    assert [each["seq"] for each in told("messages", "tail", "work")["data"]["messages"]] == [1, 2, 3, 4]
    lines = run("messages", "around", "msg#2000000002", "--before", "1", "--after", "0").stdout.splitlines()
    assert [line.split()[0] for line in lines if "msg#" in line] == ["user", ">"]


def test_files_are_listed_and_shown() -> None:
    listed = run("files", "list", "work").stdout
    assert "cat.png" in listed
    shown = run("files", "show", files()["text"]).stdout
    for piece in ("10,000 lines", "#2 work", "msg#2000000003", "line 1 of a long report"):
        assert piece in shown
    assert told("files", "show", files()["image/png"])["data"]["file"]["bytes"] == len(PICTURE)


def test_a_file_comes_out_as_it_went_in(tmp_path: Path) -> None:
    text, picture = files()["text"], files()["image/png"]
    # A pipe is given the bytes, whatever other answers would be.
    piped = CliRunner(env={"LCM_OUTPUT": ""})
    assert piped.invoke(cli, ["files", "cat", picture]).stdout_bytes == PICTURE
    assert piped.invoke(cli, ["files", "cat", text]).stdout_bytes == LONG.encode()
    assert run("files", "cat", text, "--lines", "3:4").stdout == "line 3 of a long report\nline 4 of a long report\n"
    assert run("files", "cat", text, "--lines", "9999:").stdout.splitlines()[-1] == "line 10000 of a long report"
    assert run("files", "cat", text, "--bytes", ":6").stdout == "line 1"
    assert told("files", "cat", text, "--bytes", "0:6")["data"]["content"] == "line 1"
    data = told("files", "cat", picture)["data"]
    assert (data["encoding"], base64.b64decode(data["content"])) == ("base64", PICTURE)
    assert refused("files", "cat", text, "--lines", "one") == (2, "INVALID_ARGUMENT")
    assert refused("files", "cat", text, "--lines", "1:2", "--bytes", "1:2") == (2, "INVALID_INPUT")
    out = tmp_path / "out.png"
    assert "2.01 KB in" in run("files", "cat", picture, "-o", str(out)).stdout
    assert out.read_bytes() == PICTURE
    assert refused("files", "cat", text, "-o", str(out)) == (2, "INVALID_INPUT")
    assert run("files", "cat", text, "-o", str(out), "--force").exit_code == 0
    assert out.read_text() == LONG


def test_bytes_that_are_gone_are_told_in_a_sentence(
    where: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = files()["text"]
    monkeypatch.setenv("LCM_LARGE_FILES_DIR", str(tmp_path / "elsewhere"))
    assert "missing: restore the files directory" in run("files", "show", text).stdout
    result = run("files", "cat", text)
    assert (result.exit_code, result.stdout) == (1, "")
    assert "Restore the files directory" in result.stderr
    assert refused("files", "cat", text) == (1, "FILE_UNAVAILABLE")


def test_a_terminal_is_not_given_binary() -> None:
    above, below = pty.openpty()
    command = [sys.executable, "-m", "lossless", "files", "cat", files()["image/png"]]
    ran = subprocess.run(command, stdout=below, stderr=subprocess.PIPE, text=True, check=False)
    os.close(below)
    os.close(above)
    assert ran.returncode == 2
    assert "is not text. -o PATH writes it to a file; --force shows it here." in ran.stderr


def test_times_are_those_of_the_zone_that_is_set(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LCM_TIMEZONE", "Asia/Tokyo")
    for line in (("messages", "list", "work"), ("conversations", "list")):
        head, first = run(*line).stdout.splitlines()[:2]
        assert "at (Asia/Tokyo)" in head
        assert "2026-03-01 21:0" in first
    assert "2026-03-01 21:00 JST" in run("messages", "show", "msg#2000000001").stdout
    assert told("messages", "list", "work")["data"]["messages"][-1]["at"] == "2026-03-01T12:00:00Z"


def test_a_file_that_is_lost_is_named_where_its_content_was_wanted(tmp_path: Path) -> None:
    with Lossless.open(tmp_path / "lcm.db") as lcm:
        lcm.conversation("k").ingest([Message.user(LONG)])
        (file,) = lcm.messages.show("msg#1000000001").files
        for path in lcm.settings.files_dir.glob("*/*"):
            path.unlink()
    show = ("messages", "show", "msg#1000000001", "--db", str(tmp_path / "lcm.db"))
    assert run(*show).stderr == ""
    assert f"{file} cannot be read" in run(*show, "--whole").stderr
    assert told(*show, "--whole")["data"]["lost_files"] == [file]


def test_a_context_says_what_it_costs_as_it_is_sent_and_when_that_is_too_much() -> None:
    whole = run("context", "work", "--window", "200000").stdout
    assert "as sent" in whole
    assert "over budget" not in whole
    over = run("context", "work", "--window", "20").stdout
    assert "of 20 tokens" in over.splitlines()[0]
    assert "\nover budget " in over


def test_an_explanation_says_which_of_many_messages_it_is_about(tmp_path: Path) -> None:
    with Lossless.open(tmp_path / "lcm.db") as lcm:
        chat = lcm.conversation("k")
        chat.ingest([Message.user(f"a lamp, number {number}") for number in range(205)])
        assert chat.explain("number 204", window=100_000).text.endswith("in the context, unchanged.")
        assert chat.explain("number 20", window=100_000).text.endswith("It is the newest of 6 messages with this text.")
        assert "the newest of more than 200 messages" in chat.explain("lamp", window=100_000).text


def test_a_guess_at_a_conversation_is_all_that_is_said(tmp_path: Path) -> None:
    assert run("context", "hme").stderr.startswith("lcm: There is no conversation hme. Did you mean home? `lcm")
    assert "A conversation is created by its first message." in run("context", "zzzzzz").stderr


def test_an_id_that_is_too_long_is_told_as_it_was_given() -> None:
    assert "There is no message msg#99999999999999999999999." in run("messages", "show", f"msg#{'9' * 23}").stderr
