"""A fix tells first, keeps a copy, and either helps or has never been."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import anyio
import pytest

from lossless import AsyncLossless, Lossless, Message, Settings
from lossless.errors import StoreReadOnly
from lossless.store.postgres.store import PostgresStore
from lossless.store.rows.types import Step
from tests.engine.doctor.damage import KEY, contents, inside, live, plant, words
from tests.histories import opened


@pytest.fixture
def lcm(database: str, tmp_path: Path) -> Iterator[Lossless]:
    with opened(database, tmp_path / "files") as lcm:
        yield lcm


@pytest.fixture
def number(lcm: Lossless) -> int:
    return live(lcm)


def test_without_apply_it_is_only_told_row_by_row(lcm: Lossless, number: int) -> None:
    plant(lcm, "UPDATE item SET tokens = tokens + 5 WHERE conversation_id = :id AND depth = -1", id=number)
    before = contents(lcm)
    plan = lcm.doctor.fix(["C08"])
    assert (plan.applied, plan.snapshot) == (False, "")
    assert {(step.check, step.action, step.table) for step in plan.steps} == {
        ("C08", "change", "item"),
        ("C08", "recount", "conversation"),
    }
    assert plan.steps[0].key.startswith(f"conversation_id {number}, ordinal ")
    assert contents(lcm) == before


def test_what_was_there_before_is_kept(lcm: Lossless, number: int, tmp_path: Path) -> None:
    plant(lcm, "UPDATE conversation SET context_tokens = 17 WHERE id = :id", id=number)
    done = lcm.doctor.fix(["C08"], apply=True)
    store = inside(lcm)
    if isinstance(store, PostgresStore):
        kept = store.all(f"SELECT context_tokens FROM {done.snapshot}.conversation WHERE id = :id", id=number)
        assert kept == [(17,)]
        with store.transaction():
            store.script(f"DROP SCHEMA {done.snapshot} CASCADE")
    else:
        assert Path(done.snapshot).parent == tmp_path
        with Lossless.open(done.snapshot, read_only=True) as copy:
            assert copy.conversation(KEY).status().context_tokens == 17
    assert lcm.doctor().at_least("warn") == ()


def test_with_nothing_to_put_right_nothing_is_copied(lcm: Lossless, number: int, tmp_path: Path) -> None:
    done = lcm.doctor.fix(["C08", "S02"], apply=True)
    assert (done.applied, done.snapshot, done.steps) == (False, "", ())
    assert not list(tmp_path.glob("*before-fix*"))


def test_a_fix_that_would_do_harm_is_taken_back_whole(
    lcm: Lossless, number: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    plant(lcm, "UPDATE conversation SET context_tokens = 17 WHERE id = :id", id=number)
    before, store = contents(lcm), inside(lcm)
    fix = type(store.integrity).fix

    def clumsy(self: object, step: Step) -> None:
        fix(store.integrity, step)
        store.run("DELETE FROM item WHERE conversation_id = :id", id=number)

    monkeypatch.setattr(type(store.integrity), "fix", clumsy)
    done = lcm.doctor.fix(["C08"], apply=True)
    assert not done.applied
    assert "S14" in done.refused
    assert contents(lcm) == before


@pytest.mark.parametrize(
    "step",
    [
        Step("change", "message", {"id": 1}, {"text": "other words"}),
        Step("change", "message", {"id": 1}, {"tokens": 1, "outside": None}),
        Step("remove", "message", {"id": 1}),
        Step("change", "summary", {"id": 1}, {"text": "other words"}),
        Step("remove", "summary", {"id": 1}),
        Step("change", "conversation", {"id": 1}, {"active": 1}),
    ],
    ids=repr,
)
def test_no_step_can_change_what_was_said(lcm: Lossless, number: int, step: Step) -> None:
    before = contents(lcm)
    with pytest.raises(ValueError, match="not a doctor's"), inside(lcm).transaction():
        inside(lcm).integrity.fix(step)
    assert contents(lcm) == before


def test_a_new_beginning_is_never_undone(lcm: Lossless, number: int) -> None:
    chat = lcm.conversation(KEY)
    chat.new(retain_depth=99)
    chat.ingest([Message.user("after it")])
    plant(lcm, "DELETE FROM detached WHERE conversation_id = :id", id=number)
    said = words(lcm)
    assert lcm.doctor().at_least("critical")
    assert lcm.doctor.fix(["S14"], apply=True).applied
    assert lcm.doctor().at_least("warn") == ()
    assert [item.text for item in chat.context().items] == ["after it"]
    assert {each.cause for each in chat.detached()} == {"doctor"}
    assert words(lcm) == said


def test_a_summary_that_lost_its_place_comes_back_whole(lcm: Lossless, number: int) -> None:
    shown = [item.id for item in lcm.conversation(KEY).context().items]
    plant(lcm, "DELETE FROM item WHERE conversation_id = :id AND summary_id IS NOT NULL", id=number)
    said = words(lcm)
    done = lcm.doctor.fix(["S14"], apply=True)
    assert done.applied, done.refused
    assert [item.id for item in lcm.conversation(KEY).context().items] == shown
    assert lcm.doctor().at_least("warn") == ()
    assert words(lcm) == said


def test_an_archived_conversation_stays_archived(lcm: Lossless, number: int) -> None:
    lcm.conversation(KEY).reset()
    plant(lcm, "UPDATE conversation SET context_tokens = 17 WHERE id = :id", id=number)
    assert lcm.doctor.fix(["C08"], apply=True).applied
    row = inside(lcm).conversations.get(number)
    assert row is not None
    assert (row.active, row.archive_cause) == (False, "manual-reset")


def test_what_can_only_be_read_is_not_fixed(database: str, lcm: Lossless, number: int) -> None:
    plant(lcm, "UPDATE conversation SET context_tokens = 17 WHERE id = :id", id=number)
    with Lossless.open(database, read_only=True) as reader:
        assert len(reader.doctor.fix(["C08"]).steps) == 1
        with pytest.raises(StoreReadOnly):
            reader.doctor.fix(["C08"], apply=True)


def test_the_same_verbs_are_awaited(database: str, lcm: Lossless, number: int, tmp_path: Path) -> None:
    plant(lcm, "UPDATE conversation SET context_tokens = 17 WHERE id = :id", id=number)

    settings = Settings(large_files_dir=str(tmp_path / "files"))

    async def main() -> None:
        async with AsyncLossless.open(database, settings=settings) as other:
            assert [each.check for each in (await other.doctor()).at_least("warn")] == ["C08"]
            assert not (await other.doctor.prove(number))[0].holds
            assert (await other.doctor.fix(["C08"], apply=True)).applied
            assert (await other.doctor.prove(number))[0].holds
            assert (await other.doctor.clean()).conversations == 0

    anyio.run(main)
