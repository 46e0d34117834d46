"""`lcm summaries`: what stands for what, page by page, as a tree at any width, and what has become of one."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from lossless import Lossless, Message
from lossless.cli import cli
from lossless.model import ListedSummary
from tests.engine.compaction.test_compaction import short, turns
from tests.engine.surgery.test_rewrite import DEEP, ROOM, anew, deep
from tests.engine.surgery.test_structure import spoil

__all__ = ["deep"]


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A history whose summaries have three depths."""
    path = tmp_path_factory.mktemp("made") / "lcm.db"
    with Lossless.open(path, settings=DEEP, summarizer=short) as lcm:
        chat = lcm.conversation("k")
        for start in range(0, 80, 20):
            chat.ingest(turns(20, start))
            chat.compact(ROOM)
    return path


@pytest.fixture
def lcm(made: Path, tmp_path: Path) -> Iterator[Lossless]:
    """A copy of it."""
    copy = tmp_path / "lcm.db"
    shutil.copy(made, copy)
    with Lossless.open(copy, settings=DEEP, summarizer=short) as lcm:
        yield lcm


def run(database: Any, *arguments: str, columns: int = 100, colour: bool = False) -> Result:
    words = ["summaries", *arguments, "--db", str(database)]
    return CliRunner(env={"COLUMNS": str(columns)}).invoke(cli, words, catch_exceptions=False, color=colour)


def told(result: Result) -> Any:
    assert result.exit_code == 0, result.stderr
    return json.loads(result.stdout)


def everything(lcm: Lossless) -> list[ListedSummary]:
    return list(lcm.summaries("k", limit=500))


def of_depth(lcm: Lossless, depth: int) -> ListedSummary:
    """One that something was made from, or one at the top."""
    return next(each for each in everything(lcm) if each.depth == depth and (each.consumers or depth == 2))


def test_pages_hold_every_summary_once_the_newest_first(deep: Lossless, database: str) -> None:
    ids: list[str] = []
    cursor: str | None = ""
    while cursor is not None:
        page = told(run(database, "list", "k", "--limit", "7", "--json", *(["--cursor", cursor] if cursor else [])))
        assert page["command"] == "summaries.list"
        assert page["pagination"]["returned"] == len(page["data"]["summaries"]) <= 7
        ids += [each["id"] for each in page["data"]["summaries"]]
        cursor = page["pagination"]["next_cursor"]
        assert page["pagination"]["has_more"] is (cursor is not None)
    assert sorted(ids) == sorted(each.id for each in deep.conversation("k").summaries())
    assert [each.id for each in everything(deep)] == ids
    times = [each.latest_at or each.created_at for each in everything(deep)]
    assert times == sorted(times, reverse=True)
    for each in everything(deep):
        reached = deep.expand(each.id, 10**6, depth=9).items
        assert each.messages == sum(item.kind == "message" for item in reached)
        assert each.descendants == sum(item.kind == "summary" for item in reached)
        shown = deep.summaries.show(each.id)
        assert (len(shown.sources) + len(shown.messages), len(shown.consumers)) == (each.sources, each.consumers)


def test_a_page_is_a_stretch_of_an_index(lcm: Lossless, monkeypatch: pytest.MonkeyPatch) -> None:
    store, asked = lcm._store, list[tuple[str, dict[str, Any]]]()
    read = store.all

    def noted(sql: str, **given: Any) -> Any:
        asked.append((sql, given))
        return read(sql, **given)

    monkeypatch.setattr(store, "all", noted)
    first = lcm.summaries("k", limit=5)
    lcm.summaries("k", limit=5, cursor=first.next_cursor)
    lcm.summaries("k", limit=5, depth=1)
    pages = [each for each in asked if "LIMIT" in each[0] and "summary s" in each[0]]
    assert len(pages) == 3
    for sql, given in pages:
        plan = [row[3] for row in read(f"EXPLAIN QUERY PLAN {sql}", **given)]
        assert any("summary_time (conversation_id=?" in step for step in plan)
        assert not any("TEMP B-TREE" in step for step in plan)
    asked.clear()
    entries = lcm.summaries.tree("k").entries
    assert len(entries) > 30
    assert len(asked) < 15


def test_filters_choose_by_depth_kind_and_time(lcm: Lossless, made: Path) -> None:
    assert {each["depth"] for each in told(run(made, "list", "--depth", "1", "--json"))["data"]["summaries"]} == {1}
    assert {each["kind"] for each in told(run(made, "list", "--kind", "leaf", "--json"))["data"]["summaries"]} == {
        "leaf"
    }
    assert {
        each["depth"] for each in told(run(made, "list", "--kind", "condensed", "--json"))["data"]["summaries"]
    } == {1, 2}
    assert told(run(made, "list", "--kind", "leaf", "--depth", "1", "--json"))["data"]["summaries"] == []
    assert told(run(made, "list", "--before", "2001-01-01T00:00Z", "--json"))["data"]["summaries"] == []
    assert len(told(run(made, "list", "--recency", "1w", "--limit", "500", "--json"))["data"]["summaries"]) == len(
        everything(lcm)
    )
    assert run(made, "list", "--recency", "1w", "--after", "2001-01-01T00:00Z").exit_code == 2
    assert run(made, "list", "--limit", "501").exit_code == 2


def test_a_cursor_of_other_filters_is_refused(lcm: Lossless, made: Path) -> None:
    cursor = lcm.summaries("k", depth=0, limit=2).next_cursor
    assert cursor is not None
    for wrong in (("--cursor", cursor), ("--depth", "0", "--cursor", f"x{cursor}")):
        refused = run(made, "list", "--json", *wrong)
        assert refused.exit_code == 2
        assert json.loads(refused.stderr)["error"]["code"] == "INVALID_CURSOR"


def test_a_list_fits_the_terminal_and_tells_what_is_to_be_said_against_a_summary(lcm: Lossless) -> None:
    leaf = of_depth(lcm, 0)
    spoil(lcm, leaf.id, text="in short \x1b[31m", level="cut", model="extractive", faithful=0.5)
    for columns in (40, 80, 130):
        lines = run(lcm.location, "list", "--limit", "500", columns=columns).stdout.splitlines()
        assert max(map(len, lines)) <= columns
    row = next(line for line in lines if line.startswith(leaf.id))
    assert "below, provisional, cut, unfaithful" in row
    assert "in short \\x1b[31m" in row
    assert any("stale" in each.flags for each in everything(lcm))
    whole = run(lcm.location, "list", "--include-content", "--limit", "500").stdout
    assert all(each.text.splitlines()[0] in whole for each in lcm.conversation("k").summaries() if each.id != leaf.id)


def test_sources_are_below_and_consumers_above(lcm: Lossless, made: Path) -> None:
    middle = of_depth(lcm, 1)
    shown = told(run(made, "show", middle.id, "--json"))["data"]
    row = lcm._store.summaries.named(middle.id)
    assert row is not None
    assert [each["id"] for each in shown["sources"]] == lcm._store.summaries.source_ids(row[0], [row[1].id])[row[1].id]
    assert {each["depth"] for each in shown["sources"]} == {0}
    assert {each["depth"] for each in shown["consumers"]} == {2}
    assert shown["summary"]["content"] == row[1].text
    leaf = lcm.summaries.show(shown["sources"][0]["id"])
    assert [each.id for each in leaf.consumers] == [middle.id]
    assert [each.seq for each in leaf.messages] == lcm._store.summaries.sources(1, leaf_row(lcm, leaf.summary.id))[0]
    assert leaf.messages[0].preview.startswith(("Question ", "Answer "))
    lines = run(made, "show", leaf.summary.id).stdout.splitlines()
    assert lines[0].startswith(f"{leaf.summary.id}  leaf, depth 0, in k: below")
    assert f"covers         {len(leaf.messages)} messages; " in lines[1]


def leaf_row(lcm: Lossless, id: str) -> int:
    found = lcm._store.summaries.named(id)
    assert found is not None
    return found[1].id


def test_a_tree_is_the_context_in_order_with_everything_below(deep: Lossless) -> None:
    tree, chat = deep.summaries.tree("k", limit=1_000), deep.conversation("k")
    assert [each.summary.id for each in tree.entries if each.summary and not each.steps] == [
        each.id for each in chat.context().items if hasattr(each, "depth")
    ]
    assert sorted(each.summary.id for each in tree.entries if each.summary) == sorted(s.id for s in chat.summaries())
    assert (tree.hidden, tree.older, tree.tokens) == (0, 0, chat.status().context_tokens)
    run_ = tree.entries[-1].messages
    assert run_ is not None
    assert run_.last == f"msg#{chat.messages()[-1].id}"
    assert run_.messages == tree.messages == sum(not hasattr(each, "depth") for each in chat.context().items)
    assert tree.source_tokens == sum(each.tokens for each in chat.messages())
    chat.new()
    left = deep.summaries.tree("k", everything=True, limit=1_000).aside
    assert sum(each.messages.messages for each in left if each.messages) == tree.messages
    assert {each.cause for each in left if not each.steps} == {"new"}


@pytest.mark.parametrize("columns", [20, 40, 60, 80, 100, 160])
def test_no_line_of_a_tree_is_wider_than_the_terminal(made: Path, columns: int) -> None:
    lines = run(made, "tree", columns=columns).stdout.splitlines()
    assert max(map(len, lines)) <= max(columns, 36)
    assert any("├" in line for line in lines)
    assert any(line.startswith("the ") for line in lines)


def test_branches_are_drawn_as_they_hang(lcm: Lossless, made: Path) -> None:
    lines = run(made, "tree", columns=120).stdout.splitlines()[2:]
    entries = lcm.summaries.tree("k").entries
    for entry, line in zip(entries, lines, strict=False):
        if entry.summary:
            assert line.index(f"d{entry.summary.depth} sum_") == 3 * entry.steps
            assert f"{entry.summary.source_tokens:,} → {entry.summary.tokens:,} tokens" in line
    first = next(at for at, entry in enumerate(entries) if entry.steps == 1)
    assert lines[first].startswith(("├─ ", "└─ "))
    coloured = run(made, "tree", columns=120, colour=True).stdout
    assert "\x1b[32m" in coloured
    assert "\x1b[36m" in coloured
    assert "\x1b[" not in run(made, "tree", "--no-color", colour=True).stdout


def test_a_tree_that_does_not_fit_says_how_much_more_there_is(lcm: Lossless, made: Path) -> None:
    tree = lcm.summaries.tree("k", limit=12)
    shown = sum(each.summary is not None for each in tree.entries)
    assert len(tree.entries) <= 12
    assert shown + tree.hidden == len(everything(lcm))
    assert f"+N: {tree.hidden} more summaries below" in run(made, "tree", "--limit", "12").stdout
    assert {each.steps for each in lcm.summaries.tree("k", depth=0).entries} == {0}
    newest = lcm.summaries.tree("k", limit=1)
    assert (newest.entries[0].messages is not None, newest.older) == (
        True,
        len(lcm.summaries.tree("k", depth=0).entries) - 1,
    )
    assert "older" in run(made, "tree", "--limit", "1").stdout


def test_a_tree_may_start_at_any_summary(lcm: Lossless, made: Path) -> None:
    middle = of_depth(lcm, 1)
    found = told(run(made, "tree", "--root", middle.id, "--json"))["data"]
    assert found["entries"][0]["summary"]["id"] == middle.id
    assert [each["above"] for each in found["entries"][1:]] == [middle.id] * middle.sources
    assert run(made, "tree", "k", "--root", "sum_none").exit_code == 3


def test_what_left_the_context_stands_under_its_own_head_and_what_it_shares_is_told_once(lcm: Lossless) -> None:
    top = next(each.summary for each in lcm.summaries.tree("k").entries if each.summary and each.summary.depth)
    chat = lcm.conversation("k")
    chat.dissolve(top.id, apply=True)
    chat.ingest([Message.user("the last")])
    plain = run(lcm.location, "tree").stdout
    assert "Outside the context" not in plain
    assert f"d{top.depth} {top.id}" not in plain
    lines = run(lcm.location, "tree", "--all", "--limit", "500", columns=120).stdout.splitlines()
    head = lines.index("Outside the context")
    assert f"d{top.depth} {top.id}" in lines[head + 1]
    assert "dissolved" in lines[head + 1]
    assert all("shown above" in line for line in lines[head + 2 : head + 2 + top.sources])


def test_a_graph_that_leads_back_to_itself_ends_all_the_same(lcm: Lossless) -> None:
    middle = of_depth(lcm, 2)
    below = lcm.summaries.show(middle.id).sources[0].id
    store: Any = lcm._store
    with store.transaction():
        store.insert(
            "summary_source",
            ("summary_id", "source_id", "ordinal"),
            [(leaf_row(lcm, below), leaf_row(lcm, middle.id), 99)],
        )
    entries = lcm.summaries.tree(root=middle.id).entries
    assert [each.summary.id for each in entries if each.summary and each.repeated] == [middle.id]


def test_history_tells_when_by_whom_and_by_which_operation(lcm: Lossless) -> None:
    leaf = of_depth(lcm, 0)
    assert "no text before revision 1" in run(lcm.location, "diff", leaf.id).stdout
    done = lcm.conversation("k").rewrite(leaf.id, apply=True, model=anew)
    spoil(lcm, leaf.id, text="a third text", tokens=3)
    found = told(run(lcm.location, "history", leaf.id, "--json"))["data"]["revisions"]
    assert [each["number"] for each in found] == [3, 2, 1]
    assert [each["operation"] for each in found] == [None, done.operation, None]
    assert [each["model"] for each in found][1:] == ["anew", "short"]
    lines = run(lcm.location, "history", leaf.id).stdout.splitlines()
    assert done.operation is not None
    assert done.operation in lines[2]
    assert lcm.summaries.show(leaf.id).revisions == 3


def test_a_diff_compares_the_texts_one_names(lcm: Lossless) -> None:
    leaf = of_depth(lcm, 0)
    spoil(lcm, leaf.id, text="same\nnew")
    spoil(lcm, leaf.id, text="same\nnewer")
    lines = run(lcm.location, "diff", leaf.id).stdout.splitlines()
    assert lines[0] == f"--- {leaf.id} (revision 2, short)"
    assert lines[-3:] == [" same", "-new", "+newer"]
    coloured = run(lcm.location, "diff", leaf.id, colour=True).stdout
    assert "\x1b[31m-new\x1b[0m" in coloured
    assert "\x1b[32m+newer\x1b[0m" in coloured
    assert "\x1b[36m@@" in coloured
    assert "+newer" in run(lcm.location, "diff", leaf.id, "--from", "1").stdout
    assert "-newer" in run(lcm.location, "diff", leaf.id, "--from", "3", "--to", "2").stdout
    assert "are equal" in run(lcm.location, "diff", leaf.id, "--from", "2", "--to", "2").stdout
    refused = run(lcm.location, "diff", leaf.id, "--from", "9")
    assert (refused.exit_code, refused.stderr) == (3, "lcm: There is no revision 9. The revisions are 1, 2, 3.\n")


def test_an_undone_text_leaves_no_trace_in_history(lcm: Lossless) -> None:
    leaf = of_depth(lcm, 0)
    done = lcm.conversation("k").rewrite(leaf.id, apply=True, model=anew)
    assert done.operation is not None
    lcm.undo(done.operation)
    assert [(each.number, each.operation) for each in lcm.summaries.revisions(leaf.id)] == [(1, None)]


def test_a_conversation_without_summaries_says_so(tmp_path: Path) -> None:
    with Lossless.open(tmp_path / "lcm.db", settings=DEEP) as lcm:
        lcm.conversation("k").ingest([Message.user("only this")])
    assert run(tmp_path / "lcm.db", "list").stdout == "No summaries.\n"
    lines = run(tmp_path / "lcm.db", "tree").stdout.splitlines()
    assert "0 summaries and 1 message in the context (" in lines[1]
    assert lines[2].startswith("the newest message")
