"""`lcm prompts`, as an operator with prompts of their own runs it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from lossless import Lossless, Message, Settings
from lossless.engine.compaction.prompts import NAMES, Templates
from tests.command import fine, lcm

OWN = "Kort. {{ conversation_segment }}\nExpand for details about: ...\n"


@pytest.fixture
def own(tmp_path: Path) -> Path:
    """A directory in which an operator has put a leaf prompt."""
    directory = tmp_path / "own"
    directory.mkdir()
    (directory / "leaf.txt").write_text(OWN)
    return directory


def data(*arguments: str, **environment: str) -> Any:
    """What a subcommand prints as JSON."""
    told = json.loads(lcm("prompts", *arguments, "--json", **environment).stdout)
    assert (told["ok"], told["command"]) == (True, f"prompts.{arguments[0]}")
    return told["data"]


def test_the_list_tells_where_each_prompt_comes_from(own: Path) -> None:
    ran = lcm("prompts", "list", "--prompt-dir", str(own))
    assert (ran.returncode, ran.stderr) == (0, "")
    rows = dict(line.split(maxsplit=1) for line in ran.stdout.splitlines())
    assert rows == dict.fromkeys(NAMES, "built-in") | {"leaf": str(own / "leaf.txt")}
    listed = data("list", LCM_PROMPT_DIR=str(own))
    assert {each["name"]: each["source"] for each in listed["prompts"]} == rows
    assert (listed["version"], listed["problems"]) == (Templates.load(own).version, [])


@pytest.mark.parametrize("command", [["list"], ["show", "leaf"], ["render", "leaf"]])
def test_a_prompt_that_cannot_serve_is_told_beside_what_serves(own: Path, command: list[str]) -> None:
    (own / "leaf.txt").write_text("\n{{ sorce }}")
    ran = lcm("prompts", *command, "--prompt-dir", str(own))
    told = f"{own / 'leaf.txt'}, line 2: sorce is not a variable. The built-in prompt serves instead."
    assert (ran.returncode, ran.stderr) == (0, f"{told}\n")
    assert str(own) not in ran.stdout
    assert data(*command, "--prompt-dir", str(own))["problems"] == [told]


@pytest.mark.parametrize("name", ["leaf", "leaf.txt", "LEAF.TXT"])
def test_show_prints_the_text_in_force(own: Path, name: str) -> None:
    assert lcm("prompts", "show", name).stdout == Templates.load(None).source("leaf")
    assert lcm("prompts", "show", name, LCM_PROMPT_DIR=str(own)).stdout == OWN
    shown = {"name": "leaf", "source": str(own / "leaf.txt"), "text": OWN, "problems": []}
    assert data("show", name, "--prompt-dir", str(own)) == shown


def test_a_prompt_cannot_speak_to_the_terminal(own: Path) -> None:
    hostile = "a\x1b[2Jb\x9bc\u202ed\x00\te\r\nf\rg\n" + OWN
    (own / "leaf.txt").write_bytes(hostile.encode())
    where = ("leaf", "--prompt-dir", str(own))
    for command in ("show", "diff", "render"):
        assert "a\\x1b[2Jb\\x9bc\\u202ed\\x00\te\n" in lcm("prompts", command, *where).stdout
    assert "\nf\\rg\nKort." in lcm("prompts", "show", *where).stdout
    assert data("show", *where)["text"] == hostile


def test_diff_leads_from_the_built_in_prompt_to_ones_own(own: Path) -> None:
    path = own / "leaf.txt"
    path.write_text(Templates.load(None).source("leaf").replace("small talk", "chatter"))
    lines = lcm("prompts", "diff", "leaf", "--prompt-dir", str(own)).stdout.splitlines()
    assert lines[:2] == ["--- built-in/leaf.txt", f"+++ {path}"]
    assert [line.split(",")[0] for line in lines[2:] if line[0] in "+-"] == [
        "-Leave out small talk",
        "+Leave out chatter",
    ]
    assert data("diff", "leaf", "--prompt-dir", str(own))["diff"].splitlines() == lines


def test_diff_without_an_override_names_the_path_it_tried(own: Path) -> None:
    ran = lcm("prompts", "diff", "system", "--prompt-dir", str(own))
    assert (ran.returncode, ran.stdout) == (3, "")
    assert ran.stderr == f"lcm: There is no override of system. There is no file {own / 'system.txt'}.\n"
    told = json.loads(lcm("prompts", "diff", "system", "--json", "--prompt-dir", str(own)).stderr)
    assert told["ok"] is False
    assert told["error"]["code"] == "NOT_FOUND"


def test_render_shows_all_that_a_model_would_get(own: Path, tmp_path: Path) -> None:
    built_in = Templates.load(None)
    shown = lcm("prompts", "render", "leaf").stdout
    assert shown.startswith(f"=== system ===\n{built_in.source('system').strip()}\n\n=== user ===\nCompact one segment")
    assert "| user]\nWhere does the deploy script" in shown
    (tmp_path / "source.txt").write_text("What was said.\n")
    (tmp_path / "previous.txt").write_text("What was before.\n")
    given = ["--source", str(tmp_path / "source.txt"), "--previous", str(tmp_path / "previous.txt"), "--target", "77"]
    asked = data("render", "condensed-d1", *given)
    assert "<previous_context>\nWhat was before.\n</previous_context>" in asked["prompt"]
    assert "<conversation_to_condense>\nWhat was said.\n</conversation_to_condense>" in asked["prompt"]
    assert (asked["depth"], asked["target_tokens"]) == (1, 77)
    mine = data("render", "leaf", *given, "--prompt-dir", str(own), LCM_CUSTOM_INSTRUCTIONS="x")["prompt"]
    assert mine.startswith("Kort. What was said.\nExpand for details about: ...\n\nWishes of the operator")
    assert "\nx\n" in mine, "wishes reach a template that does not name them"


def test_render_knows_which_depths_a_prompt_serves() -> None:
    assert data("render", "condensed-d3", "--depth", "9")["depth"] == 9
    ran = lcm("prompts", "render", "leaf-aggressive", "--depth", "2")
    assert ran.returncode == 2
    assert ran.stderr == "lcm: leaf-aggressive does not serve depth 2. condensed-d2-aggressive does.\n"


def test_what_is_exported_is_without_fault_and_is_not_overwritten(tmp_path: Path) -> None:
    target = tmp_path / "new" / "prompts"
    assert lcm("prompts", "export", str(target)).stdout.startswith(f"9 prompts written to {target}.\n")
    assert lcm("prompts", "check", str(target)).returncode == 0
    assert Templates.load(target).version == Templates.load(None).version
    for name in NAMES[1:]:
        (target / f"{name}.txt").unlink()
    (target / "system.txt").write_text("mine")
    ran = lcm("prompts", "export", str(target))
    assert ran.returncode == 2
    assert f"{target} already has system.txt. Nothing was written" in ran.stderr
    assert [path.read_text() for path in target.iterdir()] == ["mine"]
    assert len(data("export", str(target), "--force")["files"]) == len(NAMES)
    assert (target / "system.txt").read_text() == Templates.load(None).source("system")


def test_check_tells_all_that_is_wrong_and_exits_with_one(own: Path) -> None:
    fine = lcm("prompts", "check", str(own))
    assert (fine.returncode, fine.stdout) == (0, f"leaf in {own}: no problems.\n")
    (own / "leaf.txt").write_text("{{ a }}\n{{ b }}")
    (own / "leaf\x1b.tmpl").write_text("")
    ran = lcm("prompts", "check", LCM_PROMPT_DIR=str(own))
    assert (ran.returncode, ran.stderr) == (1, "")
    assert ran.stdout.splitlines() == [
        f"{own / 'leaf.txt'}, line 1: a is not a variable.",
        f"{own / 'leaf.txt'}, line 2: b is not a variable.",
        f"{own}/leaf\\x1b.tmpl is not the name of a prompt (did you mean leaf.txt?).",
    ]
    assert [each["line"] for each in data("check", "--prompt-dir", str(own))["findings"]] == [1, 2, None]


def test_check_does_not_pass_for_want_of_a_directory(tmp_path: Path) -> None:
    nowhere = lcm("prompts", "check", str(tmp_path / "nowhere"))
    assert (nowhere.returncode, nowhere.stdout) == (1, f"{tmp_path / 'nowhere'} is not a directory.\n")
    unset = lcm("prompts", "check", HOME=str(tmp_path), XDG_CONFIG_HOME=str(tmp_path))
    assert (unset.returncode, unset.stdout) == (2, "")
    assert "No directory of prompts is given." in unset.stderr


def test_render_shows_the_request_of_a_summary(own: Path, tmp_path: Path) -> None:
    database = tmp_path / "lcm.db"
    settings = Settings(
        fresh_tail_count=1,
        leaf_chunk_tokens=400,
        leaf_min_fanout=2,
        compaction_trigger="leaf",
        condensed_target_tokens=100,
        incremental_max_depth=1,
    )
    with Lossless.open(database, settings=settings, summarizer="extractive") as opened:
        chat = opened.conversation("k")
        chat.ingest([Message.user(f"The deposit for boat {n} is {n * 7} euros. " * 6) for n in range(24)])
        while chat.compact(100_000).summaries:
            pass
        first, deepest = chat.summaries()[0], max(chat.summaries(), key=lambda each: each.depth)
    shown = fine("prompts", "render", "--summary", first.id, "--db", str(database))
    assert shown.startswith("=== system ===\nYou are a compaction engine.")
    assert "| user]\nThe deposit for boat 0 is 0 euros." in shown
    asked = data("render", "--summary", deepest.id, "--db", str(database))
    assert (asked["name"], asked["depth"], deepest.depth) == ("condensed-d1", 1, 1)
    assert "<conversation_to_condense>\n[" in asked["prompt"]
    mine = data("render", "--summary", first.id, "--db", str(database), "--prompt-dir", str(own))
    assert mine["prompt"].startswith("Kort. [")


def test_render_needs_one_thing_to_show(tmp_path: Path) -> None:
    database = tmp_path / "lcm.db"
    with Lossless.open(database) as opened:
        opened.conversation("k").ingest([Message.user("hi")])
    missing = lcm("prompts", "render", "--summary", "sum_ffffffffffffffff", "--db", str(database))
    assert (missing.returncode, missing.stdout) == (3, "")
    assert missing.stderr.startswith("lcm: There is no summary sum_ffffffffffffffff.")
    assert lcm("prompts", "render").returncode == 2
    both = lcm("prompts", "render", "leaf", "--summary", "sum_ffffffffffffffff", "--db", str(database))
    assert both.returncode == 2
    assert "--summary takes no NAME" in both.stderr
