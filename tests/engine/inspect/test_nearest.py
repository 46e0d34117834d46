"""Whoever names something that is not there is told what comes close to it, and never anything worse than before."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from lossless import Lossless, Message
from lossless.cli import cli
from lossless.cli.nearest import add_nearest
from lossless.errors import InvalidInput, NotFound
from lossless.model import Nearest
from tests.engine.compaction.test_compaction import short, turns
from tests.engine.surgery.test_rewrite import DEEP, ROOM


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("made") / "lcm.db"
    with Lossless.open(path, settings=DEEP, summarizer=short) as lcm:
        chat = lcm.conversation("agent:main:main")
        chat.ingest(turns(20))
        chat.compact(ROOM)
        lcm.conversation("agent:other:main").ingest([Message.user("hello")])
    return path


def run(database: object, *arguments: str) -> Result:
    return CliRunner().invoke(cli, [*arguments, "--db", str(database)], catch_exceptions=False)


def summary(made: Path) -> str:
    with Lossless.open(made, read_only=True) as lcm:
        return lcm.summaries("agent:main:main", limit=1)[0].id


def mistyped(id: str) -> str:
    """The same with another last digit."""
    return id[:-1] + ("0" if id[-1] != "0" else "1")


def test_a_mistyped_id_is_answered_with_the_one_beside_it(made: Path) -> None:
    id = summary(made)
    for command in (("summaries", "show"), ("describe",), ("expand",)):
        refused = run(made, *command, mistyped(id))
        assert refused.exit_code == 3
        assert refused.stderr.startswith(f"lcm: There is no summary {mistyped(id)}. Did you mean {id}?")
    told = json.loads(run(made, "summaries", "show", mistyped(id), "--json").stderr)
    assert told["error"]["code"] == "SUMMARY_NOT_FOUND"
    assert told["error"]["hint"].startswith(f"Did you mean {id}?")


def test_an_id_may_lack_its_prefix_or_its_end(made: Path) -> None:
    id = summary(made)
    for part in (id.removeprefix("sum_"), id[:12], id.removeprefix("sum_")[:8], id.upper()):
        assert f"Did you mean {id}?" in run(made, "summaries", "show", part).stderr
    # `describe` does not even take it for an id; ten digits and no letter are a message's.
    assert f"Did you mean {id}?" in run(made, "describe", id.removeprefix("sum_")).stderr


def test_what_nothing_resembles_is_only_not_there(made: Path) -> None:
    refused = run(made, "summaries", "show", "sum_zzzzzzzzzzzzzzzz")
    assert refused.exit_code == 3
    assert "Did you mean" not in refused.stderr


def test_a_mistyped_key_is_answered_with_the_closest(made: Path) -> None:
    refused = run(made, "summaries", "list", "agent:mian:main")
    assert refused.exit_code == 3
    assert "Did you mean agent:main:main" in refused.stderr
    assert "`lcm conversations list" in refused.stderr
    assert "agent:other:main" in run(made, "summaries", "tree", "OTHER").stderr


def test_a_message_out_of_range_is_answered_with_the_range_and_a_seq_with_its_id(made: Path) -> None:
    assert "The messages of agent:main:main are msg#1000000001 to msg#1000000040." in (
        run(made, "describe", "msg#1000000041").stderr
    )
    assert "Did you mean msg#1000000012?" in run(made, "describe", "12").stderr
    assert "Did you mean msg#2000000001 or msg#1000000001?" in run(made, "describe", "msg#1").stderr


def test_operations_are_found_too(made: Path) -> None:
    with Lossless.open(made, settings=DEEP, summarizer=short) as lcm:
        done = lcm.conversation("agent:main:main").rewrite(summary(made), apply=True, model=lambda request: "anew")
    assert done.operation is not None
    assert f"Did you mean {done.operation}?" in run(made, "undo", mistyped(done.operation)).stderr


def test_ids_of_either_database_are_found_by_their_neighbours_and_never_another_owners(database: str) -> None:
    with Lossless.open(database, settings=DEEP, summarizer=short) as lcm:
        chat = lcm.conversation("k")
        chat.ingest([*turns(20), Message.user("x" * 200_000)])
        chat.compact(ROOM)
        ids = sorted(each.id for each in chat.summaries())
        file = chat.files()[0].id
        done = chat.rewrite(ids[0], apply=True, model=lambda request: "anew")
        assert done.operation is not None
        for at, id in enumerate(ids):
            assert set(lcm._store.details.around("summary", id)) <= set(ids[max(0, at - 2) : at + 2])
            assert lcm._nearest("summary", id[4:]).names == (id,)
        assert lcm._nearest("summary", ids[0][:10]).names == (ids[0],)
        assert lcm._nearest("file", mistyped(file)).names == (file,)
        assert lcm._nearest("file", file[:12]).names == (file,)
        assert lcm._nearest("operation", mistyped(done.operation)).names == (done.operation,)
        assert lcm._nearest("id", ids[0][4:12]).names == (ids[0],)
        assert lcm.summaries.revisions(ids[0])[0].operation == done.operation
    with Lossless.open(database, settings=DEEP, owner="somebody else") as other:
        names = {"summary": ids[0], "file": file, "operation": done.operation, "conversation": "k", "message": "1"}
        for what, which in names.items():
            assert other._nearest(what, which) == Nearest()


def test_an_error_is_never_made_worse(tmp_path: Path, made: Path) -> None:
    missing = NotFound("summary", "sum_1", hint="as it was")
    assert add_nearest(missing, str(tmp_path / "none.db")) is missing
    assert missing.hint == "as it was"
    for which in ("\0", "\ud800", "", "x" * 100_000, 10**40, None):
        for what in ("conversation", "message", "summary", "file", "operation", "setting"):
            odd = NotFound(what, which)
            assert add_nearest(odd, str(made)) is odd
    time = InvalidInput("'2026' is not a time.", hint="Give one.")
    assert add_nearest(time, str(made)).hint == "Give one."
    refused = run(tmp_path / "none.db", "summaries", "show", "sum_1")
    assert refused.exit_code == 3
    assert "There is no database" in refused.stderr
