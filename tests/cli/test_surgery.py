"""`lcm rewrite`, `repair`, `dissolve`, `merge`, `history` and `undo`: preview first, and every line safe to print."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from lossless import Lossless, Summary
from lossless.cli import cli
from lossless.errors import NotFound
from tests.command import lcm
from tests.engine.compaction.test_compaction import short
from tests.engine.surgery.test_rewrite import DEEP, deep, rewrites, rows, whole
from tests.engine.surgery.test_structure import spoil
from tests.provider import Play, Provider

__all__ = ["deep"]

Run = Callable[..., Result]
MODEL = f"command:{sys.executable} -c \"import sys; sys.stdin.read(); print('question words \\x1b')\""


@pytest.fixture
def run(deep: Lossless, database: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[Run]:
    """The command on a history with three depths; what it raises is raised."""
    for name in ("LCM_SUMMARY_MODEL", "LCM_PROMPT_DIR"):
        monkeypatch.delenv(name, raising=False)

    def invoke(*arguments: str, model: bool = False) -> Result:
        asks = ("--model", MODEL) if model else ()
        return CliRunner().invoke(cli, [*arguments, "--db", database, *asks], catch_exceptions=False)

    yield invoke
    whole(deep)


def first(lcm: Lossless, depth: int) -> Summary:
    return next(each for each in lcm.conversation("k").summaries() if each.depth == depth)


def data(result: Result) -> Any:
    told = json.loads(result.stdout)
    assert told["ok"] is True
    return told["data"]


def test_a_dry_run_shows_old_and_new_and_writes_nothing(run: Run, deep: Lossless) -> None:
    leaf, before = first(deep, 0), rows(deep._store)
    result = run("rewrite", "k", "--summary", leaf.id, model=True)
    assert result.exit_code == 0
    lines = result.stdout.splitlines()
    assert lines[0].startswith("k: 1 summary (1 leaf); about ")
    assert lines[2].startswith(f"━━━ {leaf.id} (d0, ")
    assert lines[2].endswith(" ━━━")
    assert f"OLD ({leaf.tokens} tokens):" in lines
    assert any(line.startswith("NEW (") for line in lines)
    assert re.search(rf"^  Δ tokens: -\d+ \({leaf.tokens} → \d+\)$", result.stdout, re.M)
    assert lines[-1] == "Dry run: nothing was changed. --apply applies it."
    assert "\x1b" not in result.stdout
    assert rows(deep._store) == before
    planned = run("rewrite", "k", "--all", "--plan", model=True)
    assert len(planned.stdout.splitlines()) == 1 + len(deep.conversation("k").summaries())


def test_what_is_applied_is_in_the_history_and_can_be_undone(run: Run, deep: Lossless) -> None:
    before, leaf = rows(deep._store), first(deep, 0)
    result = run("rewrite", "--subtree", leaf.id, "--apply", "--diff", model=True)
    assert f"--- {leaf.id} (old)" in result.stdout
    assert f"-{leaf.text.splitlines()[0]}" in result.stdout
    assert "+question words" in result.stdout
    operation = result.stdout.splitlines()[-1].split()[2].rstrip(";")
    listed = run("history", "k").stdout
    assert operation in listed
    row = next(line for line in listed.splitlines() if line.startswith(operation))
    assert row.split()[3:9] == ["applied", "k", "1", "of", "1", "summaries"]
    assert [each["id"] for each in data(run("history", "--json"))["operations"] if each["kind"] != "compact"] == [
        operation
    ]
    assert run("undo", operation).stdout.startswith(f"{operation} undone: ")
    assert rows(deep._store) == before
    again = run("undo", operation)
    assert (again.exit_code, "already undone" in again.stderr) == (2, True)
    assert run("undo", "op_000000000000").exit_code == 3


def test_a_model_that_fails_is_told_with_the_way_on(run: Run, deep: Lossless, tmp_path: Path) -> None:
    flag = tmp_path / "works"
    code = f"import os, sys; sys.stdin.read(); os.path.exists('{flag}') or sys.exit(1); print('question words')"
    failing = f'command:{sys.executable} -c "{code}"'
    result = run("rewrite", "k", "--depth", "1", "--apply", "--model", failing)
    assert result.exit_code == 1
    (operation,) = [each.id for each in rewrites(deep)]
    assert f"`lcm rewrite --resume {operation}` continues" in result.stdout
    flag.touch()
    again = run("rewrite", "--resume", operation, "--json")
    assert data(again)["status"] == "applied"
    assert {each.text for each in deep.conversation("k").summaries() if each.depth == 1} == {"question words"}


def test_an_interrupt_says_how_to_go_on(run: Run, deep: Lossless, monkeypatch: pytest.MonkeyPatch) -> None:
    from lossless.cli.commands.rewrite import Reporter

    def interrupt(self: Reporter, step: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(Reporter, "step", interrupt)
    result = run("rewrite", "k", "--all", "--apply", model=True)
    assert result.exit_code == 130
    (operation,) = rewrites(deep)
    assert operation.status == "partly"
    assert f"`lcm rewrite --resume {operation.id}` continues, `lcm undo {operation.id}` reverts it." in result.stderr
    deep.undo(operation.id)


def test_repair_tells_what_is_wrong_and_makes_it_anew(run: Run, deep: Lossless) -> None:
    leaf = first(deep, 0)
    spoil(deep, leaf.id, level="cut")
    planned = run("repair", "k", "--plan", model=True)
    assert f"{leaf.id} (d0, " in planned.stdout
    assert ": provisional" in planned.stdout
    assert ": follows" in planned.stdout
    (done,) = data(run("repair", "--all", "--apply", "--kind", "provisional", "--json", model=True))["conversations"]
    assert done["status"] == "applied"
    assert (done["steps"][0]["id"], done["steps"][0]["state"]) == (leaf.id, "written")
    nothing = run("repair", "k", "--apply", model=True)
    assert nothing.stdout.splitlines()[-1] == "Nothing to do."


def test_dissolve_previews_and_does_it(run: Run, deep: Lossless) -> None:
    before = rows(deep._store)
    target = next(each for each in deep.conversation("k").context().items if isinstance(each, Summary) and each.depth)
    preview = run("dissolve", target.id)
    assert preview.stdout.splitlines()[-1] == "Dry run: nothing was changed. --apply applies it."
    assert rows(deep._store) == before
    done = data(run("dissolve", target.id, "--apply", "--json"))
    assert [step["reason"] for step in done["steps"]] == ["returns"] * len(done["steps"])
    run("undo", done["operation"])
    assert rows(deep._store) == before


def test_merge_says_what_needs_a_look(run: Run, deep: Lossless) -> None:
    assert run("merge", "k").stdout.splitlines()[-1] == "k: nothing to merge."
    store = deep._store
    with store.transaction():
        row = store.conversations.active("k")
        assert row is not None
        store.conversations.start("k", "next", row.created_at + 1, continues=row.id, cause="rollover")
    result = run("merge", "k", "--apply")
    assert result.exit_code == 1
    assert result.stdout.startswith("k needs a review:\n  Conversation 1 has messages outside summaries (")


def test_the_settings_serve_when_nobody_names_a_model(database: str, deep: Lossless) -> None:
    with Lossless.open(database, settings=DEEP, summarizer=short) as lcm:
        assert lcm.find(first(deep, 1).id).key == "k"
        with pytest.raises(NotFound):
            lcm.find("sum_0000000000000000")


def test_a_plan_says_first_that_nobody_could_write(run: Run) -> None:
    plan = run("rewrite", "k", "--depth", "2", "--plan").stdout.splitlines()
    assert plan[0].startswith("No model is configured: give --model NAME")
    assert "extractive" not in plan[1]
    refused = run("rewrite", "k", "--depth", "2")
    assert refused.exit_code == 2
    assert "`lcm config set summary_model NAME`" in refused.stderr


def test_a_rewrite_of_nothing_in_particular_names_the_ways_to_choose(run: Run) -> None:
    for given in ((), ("--all", "--depth", "1")):
        refused = run("rewrite", "k", *given)
        assert refused.exit_code == 2
        assert "--summary ID, --depth N, --subtree ID or --all." in refused.stderr


def test_three_depths_are_made_anew_by_a_provider_in_order_from_fresh_sources_and_undone(
    deep: Lossless, database: str, provider: Provider, credentials: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    before, old = rows(deep._store), deep.conversation("k").summaries()
    monkeypatch.setenv("LCM_SUMMARY_BASE_URL", provider.url)
    provider.script(Play(text="question words, told afresh\nExpand for details about: the rest"))
    words = ["rewrite", "k", "--all", "--apply", "--diff", "--model", "anthropic/claude-haiku-4-5", "--db", database]
    result = CliRunner().invoke(cli, words)
    assert result.exit_code == 0, result.output
    depths = [int(depth) for depth in re.findall(r"^━━━ sum_\w+ \(d(\d),", result.stdout, re.M)]
    assert depths == sorted(each.depth for each in old)
    assert set(depths) == {0, 1, 2}
    assert result.stdout.count("\n+question words, told afresh\n") == len(old)
    asked = [json.dumps(call.body) for call in provider.requests]
    leaves = sum(each.depth == 0 for each in old)
    assert len(asked) >= len(old), "what is not shorter than its source is asked for once more"
    assert "told afresh" not in asked[0]
    assert all("told afresh" in each for each in asked[leaves - len(old) :]), (
        "and a condensed one from what was just written"
    )
    assert {each.text for each in deep.conversation("k").summaries()} == {
        "question words, told afresh\nExpand for details about: the rest"
    }
    operation = deep.history()[0].id
    assert lcm("undo", operation, "--db", database).returncode == 0
    assert rows(deep._store) == before
    whole(deep)
