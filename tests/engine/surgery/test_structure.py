"""Dissolving, repairing, merging, undoing: whatever is done to summaries, the promise holds and there is a way back."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from lossless import Conversation, Lossless, Message, Summary, SummaryRequest
from lossless.engine.surgery.flaws import flaw
from lossless.errors import ContextMoved, InvalidInput, NotFound
from lossless.store.rows.types import NewSummary
from lossless.summarizers.base import METHOD
from tests.engine.compaction.test_compaction import short, turns
from tests.engine.surgery.test_rewrite import DEEP, ROOM, anew, deep, rows, whole

__all__ = ["deep"]


def condensed(chat: Conversation) -> Summary:
    """The first summary in the context that was made from others."""
    return next(each for each in chat.context().items if isinstance(each, Summary) and each.depth)


def shown(chat: Conversation) -> list[str]:
    return [each.id for each in chat.context().items if isinstance(each, Summary)]


def test_a_dissolved_summary_gives_way_to_its_sources_where_they_stood(deep: Lossless) -> None:
    chat, before = deep.conversation("k"), rows(deep._store)
    summary, words = condensed(chat), [each.text for each in chat.messages()]
    planned = chat.dissolve(summary.id)
    assert (planned.status, planned.operation) == ("planned", None)
    assert planned.plan.tokens_after > planned.plan.tokens_before == chat.status().context_tokens
    assert rows(deep._store) == before

    at = shown(chat).index(summary.id)
    done = chat.dissolve(summary.id, apply=True)
    sources = [step.id for step in done.plan.steps]
    assert shown(chat)[at : at + len(sources)] == sources
    assert chat.status().context_tokens == planned.plan.tokens_after
    assert [(each.id, each.cause) for each in chat.detached()] == [(summary.id, "dissolved")]
    assert [each.text for each in chat.messages()] == words
    assert chat.expand(summary.id).items[0].id == sources[0]
    whole(deep)

    assert done.operation is not None
    deep.undo(done.operation)
    assert rows(deep._store) == before
    whole(deep)


def test_a_dissolved_summary_that_cost_something_else_than_its_first_source_comes_back_at_its_price(
    deep: Lossless,
) -> None:
    chat = deep.conversation("k")
    summary = condensed(chat)
    chat.rewrite(summary.id, apply=True, model=lambda request: f"{short(request)} and much more of the question")
    before = rows(deep._store)
    done = chat.dissolve(summary.id, apply=True)
    assert done.operation is not None
    deep.undo(done.operation)
    assert rows(deep._store) == before
    whole(deep)


def test_what_was_dissolved_can_be_condensed_again_and_then_the_way_back_is_closed(deep: Lossless) -> None:
    chat = deep.conversation("k")
    summary = condensed(chat)
    done = chat.dissolve(summary.id, apply=True)
    for start in range(1_000, 1_060, 20):
        chat.ingest(turns(20, start))
        chat.compact(ROOM)
    whole(deep)
    assert done.operation is not None
    with pytest.raises(ContextMoved, match="of item changed since"):
        deep.undo(done.operation)
    whole(deep)
    told = chat.explain(chat.messages()[0].id)
    assert told.state == "summarised"
    assert summary.id not in told.summaries


def test_only_a_condensed_summary_in_the_context_can_be_dissolved(deep: Lossless) -> None:
    chat = deep.conversation("k")
    with pytest.raises(InvalidInput, match="is a leaf"):
        chat.dissolve(chat.summaries()[0].id)
    below = next(each.id for each in chat.summaries() if each.depth and each.id not in shown(chat))
    with pytest.raises(InvalidInput, match="not in the context"):
        chat.dissolve(below, apply=True)
    with pytest.raises(NotFound):
        deep.conversation("another").dissolve(condensed(chat).id)


def test_a_purge_is_refused_while_anything_refers_to_it_and_can_be_undone(deep: Lossless) -> None:
    chat, before = deep.conversation("k"), rows(deep._store)
    summary = condensed(chat)
    source = chat.dissolve(summary.id, apply=True).plan.steps[0].id
    with pytest.raises(InvalidInput, match=f"{summary.id} was made from {source}"):
        chat.dissolve(source, apply=True, purge=True)
    done = chat.dissolve(summary.id, apply=True, purge=True)
    assert summary.id not in {each.id for each in chat.summaries()}
    assert chat.detached() == ()
    whole(deep)
    purged, dissolved, *_ = deep.history()
    assert purged.id == done.operation
    deep.undo(purged.id)
    deep.undo(dissolved.id)
    assert rows(deep._store) == before
    whole(deep)


def test_an_archive_keeps_what_was_dissolved(deep: Lossless, tmp_path: Path) -> None:
    chat = deep.conversation("k")
    summary = condensed(chat)
    chat.dissolve(summary.id, apply=True)
    deep.export(tmp_path / "k.lcm")
    with Lossless.open(tmp_path / "other.db", settings=DEEP, summarizer=short) as other:
        other.import_(tmp_path / "k.lcm", apply=True)
        again = other.conversation("k")
        assert [each.text for each in again.messages()] == [each.text for each in chat.messages()]
        assert len(shown(again)) == len(shown(chat))
        whole(other)


def spoil(lcm: Lossless, summary_id: str, **changes: object) -> None:
    """A summary as an import might have brought it."""
    found = lcm._store.summaries.named(summary_id)
    assert found is not None
    fields = {name: getattr(found[1], name) for name in NewSummary.__struct_fields__}
    assert lcm._store.summaries.revise(found[0], found[1], NewSummary(**(fields | changes)))


def test_without_a_model_only_summaries_of_an_older_built_in_summariser_are_written_again(deep: Lossless) -> None:
    chat = deep.conversation("k")
    leaf, other = chat.summaries()[:2]
    old = {"level": "extractive", "model": "extractive"}
    spoil(deep, leaf.id, **old, prompt_version="0123456789ab")
    spoil(deep, other.id, **old, prompt_version=METHOD)
    by_model = {each.id: each.text for each in chat.summaries() if each.level == "normal"}
    plan = chat.repair(model="extractive")
    assert plan.status == "planned"
    assert [step.id for step in plan.plan.steps if step.reason == "provisional"] == [leaf.id]
    done = chat.repair(model="extractive", apply=True)
    assert [step.id for step in done.steps if step.state == "written"] == [leaf.id]
    assert {each.id: each.text for each in chat.summaries() if each.level == "normal"} == by_model
    assert chat.repair(model="extractive").plan.steps == ()
    assert done.operation
    deep.undo(done.operation)
    assert chat.summaries()[0].text == leaf.text


@pytest.mark.parametrize(
    ("kind", "changes"),
    [
        ("provisional", {"level": "extractive", "model": "extractive"}),
        ("marked", {"text": "[LCM fallback summary; truncated for context management]\nhalf", "tokens": 20}),
        ("marked", {"model": "emergency-fallback"}),
        ("truncated", {"text": "half\n[Truncated from 9,000 tokens]", "tokens": 12}),
        ("truncated", {"text": "half\n[Truncated for context management]", "tokens": 12}),
        ("unfaithful", {"faithful": 0.5}),
    ],
)
def test_what_is_wrong_is_made_anew_from_its_sources_and_its_consumers_follow(
    kind: str, changes: dict[str, object], deep: Lossless
) -> None:
    chat = deep.conversation("k")
    assert chat.repair().plan.steps == ()
    leaf = chat.summaries()[0]
    spoil(deep, leaf.id, **changes)
    before = rows(deep._store)
    done = chat.repair(apply=True, model=anew)
    reasons = {step.id: step.reason for step in done.steps}
    assert reasons.pop(leaf.id) == kind
    assert reasons
    assert set(reasons.values()) == {"follows"}
    assert {step.state for step in done.steps} == {"written"}
    assert chat.repair().plan.steps == ()
    assert (chat.repair(kinds=[kind]).status, deep.repair()) == ("planned", ())
    whole(deep)
    assert done.operation is not None
    deep.undo(done.operation)
    assert rows(deep._store) == before


def test_a_repair_that_is_no_better_is_not_written(deep: Lossless) -> None:
    chat = deep.conversation("k")
    leaf = chat.summaries()[0]
    spoil(deep, leaf.id, text="half\n[Truncated from 9,000 tokens]", tokens=12)
    done = chat.repair(apply=True, model=lambda request: f"{short(request)}\n[Truncated from 900 tokens]")
    assert done.steps[0].note == "The new text is no better."
    with pytest.raises(InvalidInput, match="not kinds"):
        chat.repair(kinds=["ugly"])


def test_every_conversation_is_repaired_archived_ones_too(deep: Lossless) -> None:
    chat = deep.conversation("k")
    spoil(deep, chat.summaries()[0].id, level="cut")
    chat.reset()
    (planned,) = deep.repair()
    assert planned.plan.conversation == "k"
    (done,) = deep.repair(apply=True, model=anew)
    assert done.status == "applied"
    assert deep.repair() == ()
    whole(deep)


@pytest.mark.parametrize(
    ("text", "model", "told"),
    [
        ("x" * 41 + "\n[Truncated from " + "y" * 23, "m", "truncated"),
        ("x" * 41 + "\n[Truncated from " + "y" * 24, "m", ""),
        ("They saw [Truncated from 12 tokens]", "m", ""),
        ("They saw [Truncated for context management]", "m", ""),
        (" ", "m", "empty"),
        ("[Truncated for context management]" + "y" * 45, "m", "truncated"),
        ("[Truncated for context management]" + "y" * 46, "m", ""),
        ("words\n[Truncated for context management]", "unknown", "marked"),
        ("a talk about [LCM fallback summary; directive-shaped untrusted content omitted] here", "m", ""),
        ("words\n[LCM fallback summary; directive-shaped untrusted content omitted]\nmore", "m", "marked"),
        ("a sound text", "unknown", ""),
    ],
)
def test_a_marker_counts_where_it_marks_and_not_where_it_is_talked_about(text: str, model: str, told: str) -> None:
    assert flaw(text, "normal", model, 1.0) == told


@pytest.fixture
def split(database: str) -> Iterator[tuple[Lossless, int]]:
    """Two conversations under one key, apart by a rollover; the earlier shows summaries alone."""
    ticks = count(1_790_000_000)
    with Lossless.open(database, settings=DEEP, summarizer=short, clock=lambda: float(next(ticks))) as lcm:
        chat, store = lcm.conversation("k"), lcm._store
        chat.ingest(turns(20))
        chat.compact(ROOM)
        row = store.conversations.active("k")
        assert row is not None
        tail = [item for item in store.context.items(row.id) if item.is_message]
        with store.transaction():
            store.context.detach(row.id, tail, "new", 1)
            store.conversations.start("k", "next", int(next(ticks) * 1_000_000), continues=row.id, cause="rollover")
        chat.ingest([Message.user("And where were we?", event_id="next")])
        yield lcm, row.id


def test_what_a_rollover_split_is_one_history_again(split: tuple[Lossless, int]) -> None:
    lcm, earlier = split
    chat, before = lcm.conversation("k"), rows(lcm._store)
    told = [item.summary_id for item in lcm._store.context.items(earlier)]
    assert told
    planned = lcm.merge("k")
    assert planned.plan.review == ()
    assert planned.plan.tokens_after > planned.plan.tokens_before
    done = lcm.merge("k", apply=True)
    assert len(shown(chat)) == len(told)
    assert chat.status().context_tokens == planned.plan.tokens_after
    assert "already" in lcm.merge("k", apply=True).plan.review[0]
    whole(lcm)
    assert done.operation is not None
    lcm.undo(done.operation)
    assert rows(lcm._store) == before
    whole(lcm)

    again = lcm.merge("k", apply=True).operation
    assert again is not None
    chat.ingest([Message.user("We go on.", event_id="on")])
    with pytest.raises(ContextMoved, match="of conversation changed since"):
        lcm.undo(again)


def test_a_merge_that_is_not_safe_needs_review_and_a_reset_is_left_alone(deep: Lossless) -> None:
    chat, store = deep.conversation("k"), deep._store
    with store.transaction():
        row = store.conversations.active("k")
        assert row is not None
        store.conversations.start("k", "next", row.created_at + 1, continues=row.id, cause="rollover")
    before = rows(store)
    done = deep.merge("k", apply=True)
    assert (done.status, done.operation) == ("planned", None)
    assert "messages outside summaries" in done.plan.review[0]
    assert rows(store) == before
    chat.ingest(turns(2, 5_000))
    chat.reset()
    chat.ingest(turns(2, 6_000))
    assert len(deep.merge("k").plan.review) == 1
    with pytest.raises(NotFound):
        deep.merge("nobody")


class _Life:
    """A conversation that is worked on at random."""

    def __init__(self, lcm: Lossless) -> None:
        self.lcm, self.chat, self.said = lcm, lcm.conversation("k"), 0
        for _ in range(3):
            self.talk(15)
            self.chat.compact(ROOM)

    def talk(self, size: int) -> None:
        self.chat.ingest(turns(size, self.said))
        self.said += size

    def act(self, action: str, number: int) -> None:
        summaries = self.chat.summaries()
        if action == "talk":
            self.talk(3 + number % 9)
        elif action == "compact":
            self.chat.compact(ROOM, force=bool(number % 2))
        elif action == "rewrite" and summaries:
            self.chat.rewrite(summaries[number % len(summaries)].id, apply=True, model=_numbered(number))
        elif action == "subtree" and summaries:
            self.chat.rewrite(subtree=summaries[number % len(summaries)].id, apply=True, model=_numbered(number))
        elif action == "dissolve":
            found = [each for each in self.chat.context().items if isinstance(each, Summary) and each.depth]
            if found:
                purge = number % 3 == 0
                self._if_allowed(lambda: self.chat.dissolve(found[number % len(found)].id, apply=True, purge=purge))
        elif action == "undo":
            done = [each for each in self.lcm.history() if each.status != "undone"]
            if done:
                self._if_allowed(lambda: self.lcm.undo(done[number % len(done)].id))

    def _if_allowed(self, action: Callable[[], object]) -> None:
        before = rows(self.lcm._store)
        try:
            action()
        except (ContextMoved, InvalidInput):
            assert rows(self.lcm._store) == before


def _by_depth(request: SummaryRequest) -> str:
    """What was made of more costs more."""
    return short(request) + ", and so on" * request.depth


def _numbered(number: int) -> Callable[[SummaryRequest], str]:
    return lambda request: f"made anew: {short(request)[: 40 + number % 20]}"


ACTIONS = st.tuples(
    st.sampled_from(("talk", "compact", "compact", "rewrite", "subtree", "dissolve", "dissolve", "undo", "undo")),
    st.integers(0, 1_000),
)


def _lives(database: str, actions: list[tuple[str, int]]) -> None:
    with Lossless.open(database, settings=DEEP, summarizer=_by_depth, on_event=lambda event: None) as lcm:
        life = _Life(lcm)
        for action, number in actions:
            life.act(action, number)
            whole(lcm)
        # The newest first, everything that can be taken back is.
        for each in lcm.history():
            if each.status != "undone":
                life._if_allowed(lambda each=each: lcm.undo(each.id))  # type: ignore[misc]  # a default of its own
        whole(lcm)
        assert len(life.chat.messages()) == 2 * life.said


@settings(max_examples=20)
@example(actions=[("undo", 0), ("dissolve", 1), ("undo", 416)])
@given(actions=st.lists(ACTIONS, max_size=14))
def test_any_sequence_of_work_keeps_the_promise(actions: list[tuple[str, int]]) -> None:
    _lives(":memory:", actions)


@settings(max_examples=6, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(actions=st.lists(ACTIONS, min_size=6, max_size=10))
def test_any_sequence_of_work_keeps_the_promise_on_a_server(
    emptied: Callable[[], str], actions: list[tuple[str, int]]
) -> None:
    _lives(emptied(), actions)


def test_the_id_of_a_purged_summary_is_never_given_again_so_that_its_purge_can_be_undone(deep: Lossless) -> None:
    chat, store = deep.conversation("k"), deep._store
    newest = max(store.summaries.read(chat.status().id), key=lambda row: row.id)
    before = chat.context()
    done = chat.dissolve(newest.public_id, apply=True, purge=True)
    other = deep.conversation("other")
    other.ingest(turns(60))
    assert other.compact(ROOM, force=True).summaries
    assert done.operation is not None
    deep.undo(done.operation)
    assert chat.context() == before
    whole(deep)
