"""Whatever is done to a database as it should be done leaves nothing to complain of, and everything proven."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from lossless import Lossless, Message, Settings
from lossless.errors import InvalidInput, NotFound
from lossless.store import migrate
from lossless.store.sqlite.store import SQLiteStore
from tests.engine.doctor.damage import KEY, contents, inside, live, plant
from tests.histories import lived_in, opened
from tests.imports.databases import CLAW, HERMES, move_in
from tests.transcribing import Session, assistant, user


@pytest.fixture
def lcm(database: str, tmp_path: Path) -> Iterator[Lossless]:
    with opened(database, tmp_path / "files") as lcm:
        yield lcm


def healthy(lcm: Lossless) -> bool:
    assert lcm.doctor().at_least("warn") == ()
    proofs = lcm.doctor.prove()
    assert all(proof.holds and proof.accounted == proof.messages for proof in proofs)
    assert sum(proof.messages for proof in proofs) == lcm.status().messages
    return True


def test_an_empty_database_is_healthy(lcm: Lossless) -> None:
    assert healthy(lcm)
    assert lcm.doctor.prove() == ()


def test_a_database_that_was_lived_in_is_healthy(database: str, tmp_path: Path) -> None:
    lived_in(database, tmp_path / "files")
    for owner in ("default", "another"):
        with opened(database, tmp_path / "files", owner) as lcm:
            assert healthy(lcm)


def test_it_stays_so_through_compaction_new_beginnings_and_made_anew_summaries(lcm: Lossless) -> None:
    number = live(lcm)
    chat = lcm.conversation(KEY)
    for retain in (2, 1, 0):
        chat.new(retain_depth=retain)
        chat.ingest([Message.user(f"{retain} {n}: " + "other words " * 25) for n in range(12)])
        chat.compact(window=500, force=True)
        assert healthy(lcm)
    assert lcm.doctor.prove()[0].detached.keys() == {"new"}
    with inside(lcm).transaction():
        assert inside(lcm).context.bury(number, [chat.messages()[-1].seq], "forgotten", 1)
    assert healthy(lcm)
    assert lcm.doctor.prove()[0].tombstones == {"forgotten": 1}


def test_branches_and_forks_of_transcripts_are_healthy(lcm: Lossless, tmp_path: Path) -> None:
    first = Session(tmp_path / "one.jsonl", "one")
    first.says(*(each for n in range(6) for each in (user(f"question {n} " * 30), assistant(f"answer {n} " * 30))))
    chat = lcm.conversation(KEY, "one")
    chat.bootstrap(first.path)
    chat.compact(window=500, force=True)
    fork = Session(tmp_path / "two.jsonl", "two", parent=str(first.path))
    fork.says(*(each for n in range(6) for each in (user(f"question {n} " * 30), assistant(f"other answer {n} " * 30))))
    lcm.conversation("agent:main:fork", "two").bootstrap(fork.path)
    assert healthy(lcm)


@pytest.mark.parametrize("source", [CLAW, HERMES], ids=["claw", "hermes"])
def test_what_came_from_other_systems_is_healthy_and_witnessed(lcm: Lossless, source: Path) -> None:
    move_in(lcm, source)
    assert healthy(lcm)
    assert any(proof.summaries for proof in lcm.doctor.prove())
    assert lcm.doctor(checks=["S16"]).findings == ()


def test_archives_and_transplants_take_their_witnesses_along(lcm: Lossless, tmp_path: Path) -> None:
    live(lcm)
    lcm.conversation("agent:main:other").ingest([Message.user("new here")])
    lcm.transplant(KEY, "agent:main:other", apply=True)
    assert healthy(lcm)
    other = next(proof for proof in lcm.doctor.prove() if proof.key == "agent:main:other")
    assert other.witnessed == other.summaries > 0
    lcm.export(tmp_path / "all.zip")
    with opened(tmp_path / "again.db", tmp_path / "files again") as again:
        move_in(again, tmp_path / "all.zip")
        assert healthy(again)
        shape = inside(lcm).tables.shape("summary")
        at = shape.columns.index("source_hash")
        assert {row[at] for row in contents(again)["summary"]} == {row[at] for row in contents(lcm)["summary"]}


def test_the_proof_names_what_is_lost_twice_and_changed(lcm: Lossless) -> None:
    number = live(lcm)
    (before,) = lcm.doctor.prove()
    last = f"ordinal = (SELECT max(ordinal) FROM item WHERE conversation_id = {number})"
    plant(lcm, f"DELETE FROM item WHERE conversation_id = {number} AND {last}")
    plant(lcm, f"UPDATE message SET text = 'x' WHERE id = {number * 10**9 + 3}")
    (proof,) = lcm.doctor.prove(KEY)
    assert (before.holds, proof.holds) == (True, False)
    assert (proof.missing, proof.accounted) == (1, proof.messages - 1)
    assert proof.broken[0] == "missing"
    assert len(proof.changed) == 1 + max(summary.depth for summary in lcm.conversation(KEY).summaries())
    assert proof.witnessed == proof.summaries - len(proof.changed)


def test_only_the_conversation_that_was_named_is_examined(lcm: Lossless) -> None:
    number = live(lcm)
    lcm.conversation("agent:main:other").ingest([Message.user("hello")])
    plant(lcm, "UPDATE conversation SET context_tokens = 1 WHERE key = 'agent:main:other'")
    assert lcm.doctor(KEY).at_least("warn") == ()
    assert lcm.doctor(number).at_least("warn") == ()
    assert [finding.check for finding in lcm.doctor("agent:main:other").at_least("warn")] == ["C08"]
    with pytest.raises(NotFound):
        lcm.doctor("nobody")


def test_another_owner_is_told_nothing(database: str, lcm: Lossless) -> None:
    number = live(lcm)
    plant(lcm, "UPDATE conversation SET context_tokens = 1")
    with Lossless.open(database, owner="other") as other:
        assert other.doctor().at_least("warn") == ()
        assert other.doctor.prove() == ()
        with pytest.raises(NotFound):
            other.doctor.prove(number)


def test_a_database_that_can_only_be_read_is_examined_all_the_same(database: str, tmp_path: Path) -> None:
    with opened(database, tmp_path / "files") as lcm:
        live(lcm)
    settings = Settings(large_files_dir=str(tmp_path / "files"))
    with Lossless.open(database, settings=settings, read_only=True) as lcm:
        assert healthy(lcm)
        assert lcm.doctor.fix(["M03"]).steps == ()


def test_an_unknown_check_is_named_with_those_there_are(lcm: Lossless) -> None:
    with pytest.raises(InvalidInput, match=r"There is no check Z99\. The checks are D01, "):
        lcm.doctor(checks=["Z99"])
    with pytest.raises(InvalidInput, match="M05 cannot be fixed"):
        lcm.doctor.fix(["M05"])


def test_an_older_schema_is_told_and_moves_forward_when_it_is_opened_for_writing(tmp_path: Path) -> None:
    path, scripts = tmp_path / "lcm.db", migrate.steps("sqlite")
    SQLiteStore(path, scripts={step: script for step, script in scripts.items() if step < max(scripts)}).close()
    with Lossless.open(path, read_only=True) as lcm:
        (finding, *_) = lcm.doctor(checks=["D03"]).findings
        assert finding.samples == (f"schema {max(scripts) - 1}, and {max(scripts)} is the newest",)
        assert {each.check for each in lcm.doctor().at_least("warn")} == {"D03"}
    with Lossless.open(path) as lcm:
        assert healthy(lcm)
