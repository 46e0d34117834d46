"""Junk is told, exported, and gone with everything that belonged to it; all else stays as it is."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from msgspec import structs

from lossless import Lossless, Message
from lossless.engine.doctor import clean_conversations as clean_rules
from lossless.engine.doctor.clean_conversations import RULES
from lossless.engine.shared.file_store import Files
from lossless.errors import InvalidInput
from tests.engine.doctor.damage import KEY, contents, inside, live
from tests.histories import SMALL, opened, short
from tests.imports.databases import move_in

SUB, JOB, PLAIN = "agent:main:subagent:7", "agent:main:cron:nightly", "5f2c-session"


@pytest.fixture
def lcm(database: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Lossless]:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    ticks = count(1_790_000_000)
    with Lossless.open(database, settings=SMALL, summarizer=short, clock=lambda: float(next(ticks))) as lcm:
        yield lcm


@pytest.fixture
def clean(lcm: Lossless) -> dict[str, list[Any]]:
    """A database with nothing to clean, as its rows."""
    live(lcm)
    return contents(lcm)


def litter(lcm: Lossless) -> None:
    for key in (SUB, JOB, PLAIN):
        opening = "[Subagent Context] Look for it.\x1b[2J" if key == PLAIN else "Look for it."
        chat = lcm.conversation(key, "s")
        chat.ingest([Message.user(opening), *(Message.user(f"{key} {n} " * 60, event_id=f"{n}") for n in range(12))])
        chat.ingest([Message.user(f"A large one for {key}. " * 1000)])
        chat.compact(window=500, force=True)
        chat.pin("always")
    for key in (SUB, PLAIN):
        lcm.conversation(key).end("deleted")


def test_what_would_go_is_told_with_examples(lcm: Lossless, clean: dict[str, list[Any]]) -> None:
    assert lcm.doctor.clean().conversations == 0
    litter(lcm)
    before = contents(lcm)
    told = lcm.doctor.clean()
    assert [(each.rule, each.conversations, each.messages) for each in told.junk] == [(name, 1, 14) for name in RULES]
    assert (told.conversations, told.messages, told.applied) == (3, 42, False)
    assert told.junk[0].examples == (f"{SUB}: Look for it.",)
    assert contents(lcm) == before
    findings = [finding for finding in lcm.doctor().findings if finding.check == "V03"]
    assert [finding.text.split()[-1] for finding in findings] == list(RULES)


def test_it_is_exported_and_then_gone_with_all_that_belonged_to_it(
    lcm: Lossless, clean: dict[str, list[Any]], tmp_path: Path
) -> None:
    payloads = set(lcm._files.root.rglob("*"))
    litter(lcm)
    done = lcm.doctor.clean(apply=True)
    assert (done.applied, done.conversations, done.files, done.doubtful) == (True, 3, 3, 0)
    # What was spent on summaries was spent.
    assert contents(lcm) | {"guard": []} == clean | {"guard": []}
    assert {path for path in lcm._files.root.rglob("*") if path.is_file()} == {p for p in payloads if p.is_file()}
    assert lcm.doctor().at_least("warn") == ()
    assert inside(lcm).check_search() == []
    with opened(tmp_path / "again.db", tmp_path / "again") as again:
        move_in(again, Path(done.archive))
        assert {each.key for each in again.conversations()} == {SUB, JOB, PLAIN}
        assert {each.check for each in again.doctor().at_least("warn")} == {"S17"}, "no model wrote those summaries"
    Path(done.archive).unlink()


def test_one_rule_leaves_the_others_junk_alone(lcm: Lossless, clean: dict[str, list[Any]], tmp_path: Path) -> None:
    litter(lcm)
    lcm.doctor.clean("cron_sessions", apply=True, archive=tmp_path / "jobs.zip")
    assert {each.key for each in lcm.conversations()} == {KEY, SUB, PLAIN}
    assert (tmp_path / "jobs.zip").is_file()
    with pytest.raises(InvalidInput, match=r"There is no rule all\. The rules are archived_subagents"):
        lcm.doctor.clean("all")


def test_a_sub_agent_at_work_and_look_alikes_are_no_junk(lcm: Lossless) -> None:
    for key in (SUB, "agent:main:subagent:", "agent:main:x:subagent:7", "agent:main:cronjob:x", "agents:main:cron:x"):
        lcm.conversation(key).ingest([Message.user("[Subagent Context] at work")])
        if key != SUB:
            lcm.conversation(key).end("deleted")
    assert {each.rule: each.conversations for each in lcm.doctor.clean().junk} == {
        "archived_subagents": 0,
        "cron_sessions": 0,
        "null_subagent_context": 1,  # agents:main:cron:x: an archived one, under no agent's key
    }


def test_whoever_hung_from_what_is_gone_stands_alone(lcm: Lossless) -> None:
    lcm.conversation(JOB).ingest([Message.user("x")])
    lcm.conversation("agent:main:helper", parent=JOB).ingest([Message.user("y")])
    lcm.doctor.clean("cron_sessions", apply=True)
    row = inside(lcm).conversations.active("agent:main:helper")
    assert row is not None
    assert row.parent is None
    assert lcm.doctor().at_least("warn") == ()


def test_what_was_written_to_meanwhile_stays(database: str, lcm: Lossless, tmp_path: Path) -> None:
    lcm.conversation(JOB).ingest([Message.user("A large one. " * 1000)])

    class Meddling(Files):
        def read_all(self, sha256: str) -> bytes:
            other.conversation(JOB).ingest([Message.user("late")])
            return super().read_all(sha256)

    with opened(database, lcm._files.root) as other:
        runtime = structs.replace(lcm._runtime, files=Meddling(lcm._files.root))
        done = clean_rules.apply(runtime, "cron_sessions", tmp_path / "jobs.zip")
    assert done.conversations == 0
    assert len(lcm.conversation(JOB).messages()) == 2


def test_a_pin_that_came_meanwhile_keeps_its_conversation(database: str, lcm: Lossless, tmp_path: Path) -> None:
    lcm.conversation(JOB).ingest([Message.user("A large one. " * 1000)])

    class Meddling(Files):
        def read_all(self, sha256: str) -> bytes:
            other.conversation(JOB).pin("always")
            return super().read_all(sha256)

    with Lossless.open(database, settings=lcm.settings) as other:
        runtime = structs.replace(lcm._runtime, files=Meddling(lcm._files.root))
        done = clean_rules.apply(runtime, "cron_sessions", tmp_path / "jobs.zip")
    assert (done.conversations, done.changed) == (0, 1)


def test_only_what_goes_is_exported_and_it_comes_back_once(lcm: Lossless, tmp_path: Path) -> None:
    lcm.conversation(SUB).ingest([Message.user("done", event_id="1")])
    lcm.conversation(SUB).end("deleted")
    lcm.conversation(SUB).ingest([Message.user("at work again", event_id="2")])
    lcm.conversation("kid", parent=SUB).ingest([Message.user("below", event_id="3")])
    before = sorted((each.key, each.messages, each.active) for each in lcm.conversations())
    done = lcm.doctor.clean(apply=True, archive=tmp_path / "out.zip")
    assert done.conversations == 1
    for _ in range(2):
        lcm.import_(tmp_path / "out.zip", apply=True)
        assert sorted((each.key, each.messages, each.active) for each in lcm.conversations()) == before


def test_payloads_that_another_database_may_need_stay(database: str, tmp_path: Path) -> None:
    with opened(database, tmp_path / "shared") as lcm:
        lcm.conversation(JOB).ingest([Message.user("A large one. " * 1000)])
        done = lcm.doctor.clean("cron_sessions", apply=True, archive=tmp_path / "out.zip")
        assert (done.conversations, done.files, done.doubtful) == (1, 0, 1)
        assert len([path for path in (tmp_path / "shared").rglob("*") if path.is_file()]) == 1
