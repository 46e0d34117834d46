"""Backfilling: a history that is imported and compacted to its end, and goes on where it was broken off."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs

from lossless import Lossless, Message, SummaryRequest
from lossless.engine.compaction import plan
from lossless.engine.compaction.backfill import estimate_cost, limits, next_run
from lossless.engine.compaction.prompts import Templates
from lossless.engine.shared.promise import promise_violations
from lossless.errors import InvalidInput, NotFound, SummarizerAuth, SummarizerUnavailable
from lossless.model import Backfill
from lossless.store.rows.types import MESSAGE, USER_MESSAGE, ItemRow
from tests.histories import SMALL, short
from tests.transcribing import Session, assistant, user

LARGE = structs.replace(SMALL, leaf_chunk_tokens=1_000, leaf_target_tokens=100, leaf_min_fanout=3)
Open = Callable[..., Lossless]


@pytest.fixture
def open_lcm(database: str, tmp_path: Path) -> Iterator[Open]:
    """Opens the same database as often as a test likes."""
    opened: list[Lossless] = []
    ticks = count(1_795_000_000)

    def open_(summarizer: Callable[[SummaryRequest], str] | str = short) -> Lossless:
        settings = structs.replace(LARGE, large_files_dir=str(tmp_path / "files"))
        lcm = Lossless.open(
            database,
            settings=settings,
            summarizer=summarizer,
            clock=lambda: float(next(ticks)),
            on_event=lambda _: None,
        )
        opened.append(lcm)
        return lcm

    yield open_
    for lcm in opened:
        lcm.close()


@pytest.fixture
def lcm(open_lcm: Open) -> Lossless:
    return open_lcm()


@pytest.fixture
def session(tmp_path: Path) -> Session:
    return spoken(Session(tmp_path / "s1.jsonl"), 60)


def spoken(session: Session, turns: int) -> Session:
    for n in range(turns):
        session.says(user(f"Question {n}: " + "some words " * 20), assistant(f"Answer {n}: " + "other words " * 20))
    return session


def one(found: tuple[Backfill, ...]) -> Backfill:
    (only,) = found
    return only


def flaws(lcm: Lossless) -> list[str]:
    return [
        sentence for row in lcm._store.conversations.of_owner() for sentence in promise_violations(lcm._store, row.id)
    ]


def test_a_transcript_is_imported_and_compacted_until_nothing_is_left(lcm: Lossless, session: Session) -> None:
    done = one(lcm.backfill(session.path, apply=True, tail=8, title="Old times"))
    assert (done.imported, done.messages_left, done.failure) == (120, 8, "")
    assert len(done.made) > 3
    assert done.tokens_after < done.tokens_before / 4
    assert done.conversation is not None
    row = lcm._store.conversations.get(done.conversation)
    assert row is not None
    assert (row.title, row.context_tokens) == ("Old times", done.tokens_after)
    items = lcm._store.context.items(done.conversation)
    boundary = plan.tail_start(items, 8, None)
    assert next_run(items, boundary, limits(lcm.settings, 8), lcm.settings, single_root=False) is None
    assert flaws(lcm) == []


def test_without_apply_it_is_told_what_it_would_take_and_nothing_is_written(lcm: Lossless, session: Session) -> None:
    told = one(lcm.backfill(session.path, tail=8))
    assert (told.applied, told.conversation, told.imported) == (False, None, 120)
    assert list(lcm.conversations()) == []
    asked: list[SummaryRequest] = []
    done = one(lcm.backfill(session.path, tail=8, apply=True, progress=lambda *_: asked.clear()))
    assert told.expected.calls == pytest.approx(len(done.made), abs=2)
    assert told.tokens_before == done.tokens_before
    assert told.expected.tokens_read > done.tokens_before
    assert told.expected.tokens_written > 0


def test_run_again_it_neither_imports_nor_makes_anything_twice(lcm: Lossless, session: Session) -> None:
    done = one(lcm.backfill(session.path, apply=True, tail=8))
    again = one(lcm.backfill(session.path, apply=True, tail=8))
    assert (again.imported, again.made, again.failure) == (0, (), "")
    assert again.conversation == done.conversation
    spoken(session, 30)
    more = one(lcm.backfill(session.path, apply=True, tail=8))
    assert (more.imported, more.conversation) == (60, done.conversation)
    assert more.made
    assert flaws(lcm) == []


def test_a_conversation_that_was_named_once_is_found_again(lcm: Lossless, session: Session) -> None:
    first = one(lcm.backfill(session.path, apply=True, key="mine"))
    again = one(lcm.backfill(session.path, apply=True))
    assert (first.key, again.key, again.imported) == ("mine", "mine", 0)
    assert len(lcm.conversations()) == 1


def test_recompact_imports_nothing(lcm: Lossless, session: Session) -> None:
    with pytest.raises(NotFound):
        lcm.backfill(session.path, recompact=True, apply=True)
    assert list(lcm.conversations()) == []
    lcm.conversation("mine").bootstrap(session.path)
    spoken(session, 5)
    done = one(lcm.backfill(recompact=True, key="mine", apply=True, tail=8))
    assert (done.imported, lcm.conversation("mine").status().messages) == (0, 120)
    assert done.made


def test_one_root_is_left_of_all(lcm: Lossless, session: Session) -> None:
    done = one(lcm.backfill(session.path, apply=True, single_root=True))
    assert (done.summaries_left, done.messages_left, done.failure) == (1, 0, "")
    chat = lcm.conversation(done.key)
    (root,) = chat.context().items
    below = [each for each in chat.expand(str(root.id), 1_000_000, depth=20).items if each.kind == "message"]
    assert [each.text for each in below] == session.texts()
    assert flaws(lcm) == []


def test_a_later_word_that_is_too_short_to_be_summarised_is_told(lcm: Lossless, session: Session) -> None:
    lcm.backfill(session.path, apply=True, single_root=True)
    session.says(user("ok"))
    done = one(lcm.backfill(session.path, apply=True, single_root=True))
    assert "no single root" in done.failure
    assert done.messages_left == 1
    assert flaws(lcm) == []


@pytest.mark.parametrize("error", [SummarizerAuth("No such key."), SummarizerUnavailable("It is down.")])
def test_a_model_that_fails_in_the_middle_loses_nothing(open_lcm: Open, session: Session, error: Exception) -> None:
    calls = 0

    def failing(request: SummaryRequest) -> str:
        nonlocal calls
        calls += 1
        if calls > 3:
            raise error
        return short(request)

    broken_off = one(open_lcm(failing).backfill(session.path, apply=True, tail=8))
    assert str(error) in broken_off.failure
    assert len(broken_off.made) == 3
    lcm = open_lcm()
    assert {each.level for each in lcm.conversation(broken_off.key).summaries()} == {"normal"}, "nothing was made up"
    done = one(lcm.backfill(session.path, apply=True, tail=8))
    assert (done.imported, done.failure) == (0, "")
    assert done.made
    assert flaws(lcm) == []


def test_it_works_without_a_model(open_lcm: Open, session: Session) -> None:
    lcm = open_lcm("extractive")
    done = one(lcm.backfill(session.path, apply=True, single_root=True))
    assert (done.model, done.summaries_left, done.failure) == ("extractive", 1, "")
    assert flaws(lcm) == []


def test_more_calls_than_a_hosts_turns_may_make_are_made(lcm: Lossless, tmp_path: Path) -> None:
    session = spoken(Session(tmp_path / "long.jsonl"), 150)
    lcm.settings = structs.replace(lcm.settings, summary_max_calls_per_window=2, max_sweep_iterations=1)
    done = one(lcm.backfill(session.path, apply=True, tail=8))
    assert done.failure == ""
    assert len(done.made) > 10


def test_what_came_out_stands_before_another_conversation_once(lcm: Lossless, session: Session) -> None:
    live = lcm.conversation("live")
    live.ingest([Message.user("What did we say?")])
    done = one(lcm.backfill(session.path, apply=True, single_root=True, transplant_to="live"))
    assert done.transplant is not None
    assert [item.id for item in live.context().items] == [done.transplant.made[0], live.messages(limit=1)[0].id]
    again = one(lcm.backfill(session.path, apply=True, single_root=True, transplant_to="live"))
    assert again.transplant is not None
    assert (again.transplant.made, again.transplant.skipped) == ((), 1)
    assert flaws(lcm) == []


def test_several_transcripts_are_carried_over_in_the_order_of_time(lcm: Lossless, tmp_path: Path) -> None:
    live = lcm.conversation("live")
    live.ingest([Message.user("now")])
    paths = []
    for name in ("early", "late"):
        session = Session(tmp_path / f"{name}.jsonl", name)
        session.count = 0 if name == "early" else 1_000
        paths.append(spoken(session, 20).path)
    done = lcm.backfill(reversed(paths), apply=True, single_root=True, transplant_to="live")
    assert len(done) == 2
    first, second, _ = live.context().items
    for root, name in ((first, "early"), (second, "late")):
        origin = next(each.origin for each in live.summaries() if each.id == root.id)
        assert origin in {each.id for each in lcm.conversation(f"openclaw:{name}").summaries()}
    assert flaws(lcm) == []


def test_what_cannot_be_is_refused_before_anything_is_written(lcm: Lossless, session: Session, tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="tail"):
        lcm.backfill(session.path, tail=-1)
    with pytest.raises(InvalidInput, match="single root"):
        lcm.backfill(session.path, tail=4, single_root=True)
    with pytest.raises(InvalidInput, match="nothing to backfill"):
        lcm.backfill()
    with pytest.raises(NotFound):
        lcm.backfill(session.path, apply=True, transplant_to="nobody")
    assert "not there" in one(lcm.backfill(tmp_path / "typo.jsonl", apply=True)).failure
    assert list(lcm.conversations()) == []


sizes = st.lists(st.tuples(st.sampled_from([MESSAGE, USER_MESSAGE]), st.integers(1, 3_000)), max_size=60)


@given(sizes=sizes, tail=st.integers(0, 10), single_root=st.booleans())
def test_it_comes_to_an_end_whatever_the_sizes(sizes: list[tuple[int, int]], tail: int, single_root: bool) -> None:
    items = [ItemRow(at, None, tokens, depth) for at, (depth, tokens) in enumerate(sizes, 1)]
    told = estimate_cost(
        items, LARGE, templates=Templates.load(None), tail=0 if single_root else tail, single_root=single_root
    )
    assert told.calls <= len(items) * 2
    assert told.tokens_left <= sum(item.tokens for item in items)
