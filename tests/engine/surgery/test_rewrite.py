"""Rewriting: bottom-up, from fresh sources, each text at once, and every row back where it was."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from hashlib import sha256
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from msgspec import structs

from lossless import AsyncLossless, Conversation, Lossless, Summary, SummaryRequest
from lossless.engine.shared.promise import promise_violations
from lossless.errors import ConfigError, ContextMoved, InvalidInput, NotFound
from lossless.model import Operation, Step
from lossless.store.rows.types import NewSummary
from lossless.store.store import Store
from tests.engine.compaction.test_compaction import SMALL, WINDOW, open_small, short, turns
from tests.provider import Play, Provider

DEEP = structs.replace(SMALL, condensed_target_tokens=60, leaf_chunk_tokens=150)
ROOM = 200
NOTHING_SAID = frozenset({"operation", "change", "guard", "debt"})


def anew(request: SummaryRequest) -> str:
    """Like `short`, and told from it by its first word, which claims nothing."""
    return f"anew: {short(request)}"


def rows(store: Store) -> dict[str, str]:
    """A digest of every table, less what tells of operations and calls."""
    tables = (each for each in store.tables.names() if each not in NOTHING_SAID)
    return {
        each: sha256(repr(list(store.tables.rows(store.tables.shape(each)))).encode()).hexdigest() for each in tables
    }


def whole(lcm: Lossless) -> None:
    for conversation in lcm.conversations():
        assert promise_violations(lcm._store, conversation.id) == []
    assert lcm._store.check_search() == []


def rewrites(of: Lossless | Conversation) -> list[Operation]:
    """The operations other than the compactions that made the summaries."""
    return [each for each in of.history() if each.kind != "compact"]


@pytest.fixture
def deep(database: str) -> Iterator[Lossless]:
    """A history whose summaries have three depths."""
    with Lossless.open(database, settings=DEEP, summarizer=short) as lcm:
        chat = lcm.conversation("k")
        for start in range(0, 80, 20):
            chat.ingest(turns(20, start))
            chat.compact(ROOM)
        assert {each.depth for each in chat.summaries()} == {0, 1, 2}
        yield lcm


def test_all_are_made_anew_from_fresh_sources_and_undone_to_the_byte(deep: Lossless) -> None:
    chat, before, told = deep.conversation("k"), rows(deep._store), list[SummaryRequest]()

    def model(request: SummaryRequest) -> str:
        told.append(request)
        return anew(request)

    old = {each.id: each.text for each in chat.summaries()}
    done = chat.rewrite(all=True, apply=True, model=model)
    assert (done.status, done.problem) == ("applied", "")
    assert [each.depth for each in done.steps] == sorted(each.depth for each in done.steps)
    assert [each.depth for each in told] == sorted(each.depth for each in told)
    assert all("anew: " in each.source for each in told if each.depth)
    assert {each.state for each in done.steps} == {"written"}
    for step in done.steps:
        assert step.old == old[step.id]
        assert f"-{step.old.splitlines()[0]}" in step.diff
        assert f"+{step.new.splitlines()[0]}" in step.diff
    assert all(each.text.startswith("anew: ") and each.revision == 2 for each in chat.summaries())
    assert [hit.kind for hit in chat.grep("anew", "full_text", "summaries", limit=1)] == ["summary"]
    whole(deep)

    assert done.operation is not None
    assert deep.undo(done.operation).status == "undone"
    assert rows(deep._store) == before
    assert not chat.grep("anew", "full_text", "summaries", limit=1)
    whole(deep)
    with pytest.raises(InvalidInput, match="already undone"):
        deep.undo(done.operation)


def test_a_plan_asks_nobody_and_a_dry_run_writes_nothing(deep: Lossless) -> None:
    chat, before, asked = deep.conversation("k"), rows(deep._store), count()

    def model(request: SummaryRequest) -> str:
        next(asked)
        return anew(request)

    planned = chat.rewrite(all=True, model=model)
    assert (planned.status, planned.steps, next(asked)) == ("planned", (), 0)
    assert planned.plan.input_tokens > planned.plan.output_tokens > 0
    assert planned.plan.cost is None
    drafted = chat.rewrite(all=True, dry_run=True, model=model)
    assert (drafted.status, drafted.operation) == ("drafted", None)
    assert all(step.state == "drafted" and step.new.startswith("anew: ") for step in drafted.steps)
    # What would have been written is what the next depth is made from.
    assert all(step.new.startswith("anew: anew: ") for step in drafted.steps if step.depth)
    assert rows(deep._store) == before
    assert rewrites(deep) == []


def test_one_a_depth_or_a_subtree_may_be_meant(deep: Lossless) -> None:
    chat = deep.conversation("k")
    top = next(each for each in chat.summaries() if each.depth == 2)
    below = chat.rewrite(subtree=top.id).plan.steps
    assert [step.depth for step in below] == sorted(step.depth for step in below)
    assert below[-1].id == top.id
    assert {step.depth for step in below} == {0, 1, 2}
    assert [step.id for step in chat.rewrite(top.id).plan.steps] == [top.id]
    assert {step.depth for step in chat.rewrite(depth=1).plan.steps} == {1}
    with pytest.raises(InvalidInput, match="is not clear"):
        chat.rewrite(top.id, all=True)
    with pytest.raises(NotFound):
        chat.rewrite("sum_0000000000000000")
    with pytest.raises(ConfigError, match="time zone"):
        chat.rewrite(all=True, timezone="Mars/Olympus")


def test_within_a_depth_four_are_made_at_a_time_and_never_more(deep: Lossless) -> None:
    together, busy, most = threading.Barrier(4), list[int](), list[int]()

    def model(request: SummaryRequest) -> str:
        busy.append(1)
        most.append(len(busy))
        if request.depth == 0 and len(most) <= 4:
            together.wait(20)  # it only opens if four are here at once
        busy.pop()
        return anew(request)

    done = deep.conversation("k").rewrite(depth=0, apply=True, model=model)
    assert done.status == "applied"
    assert max(most) <= 4


def test_a_model_that_fails_in_the_middle_leaves_what_was_written_and_the_same_operation_goes_on(
    deep: Lossless,
) -> None:
    chat, before, calls = deep.conversation("k"), rows(deep._store), count()

    def failing(request: SummaryRequest) -> str:
        if next(calls) >= 9:
            raise ConnectionError("no route")
        return anew(request)

    done = chat.rewrite(all=True, apply=True, model=failing)
    assert done.status == "partly"
    assert "ConnectionError" in done.problem
    written = {step.id for step in done.steps if step.state == "written"}
    assert 0 < len(written) <= 9
    assert {each.id for each in chat.summaries() if each.revision == 2} == written
    assert [each.status for each in rewrites(chat)] == ["partly"]
    whole(deep)

    again = list[str]()

    def model(request: SummaryRequest) -> str:
        again.append(request.source)
        return anew(request)

    assert done.operation is not None
    rest = deep.resume(done.operation, model=model)
    assert (rest.status, rest.operation) == ("applied", done.operation)
    assert len(set(again)) == len(chat.summaries()) - len(written)
    assert all(each.revision == 2 for each in chat.summaries())
    with pytest.raises(InvalidInput, match="is left to do"):
        deep.resume(done.operation)
    deep.undo(done.operation)
    assert rows(deep._store) == before


def test_what_was_cut_off_is_counted_as_far_as_it_came(deep: Lossless) -> None:
    chat, before, ended = deep.conversation("k"), rows(deep._store), count(1)

    def closed_pipe(step: Step) -> None:
        if next(ended) == 5:
            raise BrokenPipeError

    with pytest.raises(BrokenPipeError):
        chat.rewrite(all=True, apply=True, model=anew, progress=closed_pipe)
    total, written = len(chat.summaries()), sum(each.revision == 2 for each in chat.summaries())
    assert 5 <= written < total
    (told,) = rewrites(chat)
    assert told.status == "partly"
    assert told.summary.startswith(f"{written} of {total} summaries rewritten")
    assert deep.undo(told.id).summary == told.summary
    assert rows(deep._store) == before


def test_what_another_changes_meanwhile_is_planned_again_and_never_overwritten(deep: Lossless, database: str) -> None:
    chat, store = deep.conversation("k"), deep._store
    row = store.conversations.active("k")
    assert row is not None
    leaf = next(each for each in store.summaries.read(row.id) if each.depth == 0)
    with Lossless.open(database, settings=DEEP, summarizer=short) as other:

        def model(request: SummaryRequest) -> str:
            if not told:
                told.append(request)
                changed = other._store.summaries.read(row.id, [leaf.id])[0]
                fields = {name: getattr(changed, name) for name in NewSummary.__struct_fields__}
                new = NewSummary(**{**fields, "text": "the other's", "tokens": 3})
                assert other._store.summaries.revise(row.id, changed, new)
                other.conversation("k").ingest(turns(20, 1_000))
                other.conversation("k").compact(ROOM)
            return anew(request)

        told = list[SummaryRequest]()
        done = chat.rewrite(leaf.public_id, apply=True, model=model)
    (step,) = done.steps
    assert (step.state, step.old) == ("written", "the other's")
    texts = store.summaries.revisions(row.id, [leaf.id])
    assert set(texts) == {(leaf.id, 1), (leaf.id, 2)}
    assert texts[leaf.id, 2] == "the other's"
    whole(deep)


def test_a_worker_that_was_at_it_does_not_overwrite_a_rewrite(database: str) -> None:
    with open_small(database, "extractive") as lcm:
        chat = lcm.conversation("k")
        chat.ingest(turns(60))
        chat.compact(WINDOW)
        assert {each.level for each in chat.summaries()} == {"extractive"}
    rewritten = list[str]()

    def worker(request: SummaryRequest) -> str:
        if not rewritten:
            first = chat.summaries()[0]
            rewritten.append(first.id)
            assert chat.rewrite(first.id, apply=True, model=anew).status == "applied"
        return f"by a worker: {short(request)}"

    with open_small(database, worker) as lcm:
        chat = lcm.conversation("k")
        lcm.drain()
        texts = {each.id: each.text for each in chat.summaries()}
        assert texts.pop(rewritten[0]).startswith("anew: ")
        assert all(text.startswith("by a worker: ") for text in texts.values())
        whole(lcm)


def test_what_was_made_from_it_since_does_not_keep_a_rewrite_from_being_undone(deep: Lossless) -> None:
    chat, store = deep.conversation("k"), deep._store
    lone = next(each for each in chat.context().items if isinstance(each, Summary) and each.depth == 0)
    done = chat.rewrite(lone.id, apply=True, model=anew)
    for start in range(2_000, 2_080, 20):
        chat.ingest(turns(20, start))
        chat.compact(ROOM)
    assert done.operation is not None
    deep.undo(done.operation)
    assert next(each.text for each in chat.summaries() if each.id == lone.id) == lone.text
    row = store.conversations.active("k")
    assert row is not None
    named = {each.public_id for each in store.summaries.unsettled(row.id, tries=3, limit=100)}
    found = store.summaries.named(lone.id)
    assert found is not None
    consumers = set(store.summaries.consumers(row.id, found[1].id))
    assert consumers
    assert consumers <= named
    whole(deep)


def test_an_undo_that_would_overwrite_something_is_refused_by_name(deep: Lossless) -> None:
    chat = deep.conversation("k")
    leaf = chat.summaries()[0]
    first = chat.rewrite(leaf.id, apply=True, model=anew).operation
    second = chat.rewrite(leaf.id, apply=True, model=lambda request: f"twice: {short(request)}").operation
    assert first is not None
    assert second is not None
    with pytest.raises(ContextMoved, match=f"{leaf.id} changed since {first}. Undo {second} first"):
        deep.undo(first)
    deep.undo(second)
    deep.undo(first)
    assert chat.summaries()[0] == leaf
    assert [each.status for each in rewrites(deep)] == ["undone", "undone"]


def test_a_rewrite_that_is_undone_under_way_writes_nothing_more(deep: Lossless) -> None:
    chat, before, lock, undone = deep.conversation("k"), rows(deep._store), threading.Lock(), list[str]()

    def model(request: SummaryRequest) -> str:
        with lock:
            if request.depth == 1 and not undone:
                undone.append(deep.undo(rewrites(deep)[0].id).status)
        return anew(request)

    done = chat.rewrite(all=True, apply=True, model=model)
    assert undone == ["undone"]
    assert "was undone meanwhile" in done.problem
    assert [each.status for each in rewrites(deep)] == ["undone"]
    assert rows(deep._store) == before
    whole(deep)


def test_a_text_that_is_no_summary_changes_nothing(deep: Lossless) -> None:
    chat = deep.conversation("k")
    leaf = chat.summaries()[0]
    done = chat.rewrite(leaf.id, apply=True, model=lambda request: request.source * 2)
    assert [step.state for step in done.steps] == ["kept"]
    same = chat.rewrite(leaf.id, apply=True, model=lambda request: leaf.text)
    assert [step.note for step in same.steps] == ["The text is the same."]
    assert chat.summaries()[0] == leaf
    with pytest.raises(InvalidInput, match="no model"):
        chat.rewrite(leaf.id, apply=True, model="extractive")


def test_times_zone_and_prompts_are_the_operators(deep: Lossless, tmp_path: Path) -> None:
    told = list[SummaryRequest]()

    def model(request: SummaryRequest) -> str:
        told.append(request)
        return anew(request)

    chat = deep.conversation("k")
    (tmp_path / "leaf.txt").write_text("In my own words: {{ conversation_segment }}\nExpand for details about: ...")
    ask: dict[str, Any] = {"dry_run": True, "model": model}
    leaf, condensed = chat.summaries()[0], next(each for each in chat.summaries() if each.depth)
    chat.rewrite(leaf.id, **ask)
    chat.rewrite(leaf.id, timezone="Asia/Tokyo", **ask)
    chat.rewrite(leaf.id, timestamps=False, prompt_dir=tmp_path, **ask)
    chat.rewrite(condensed.id, timestamps=False, **ask)
    assert " | user]\n" in told[0].source
    assert " JST | user]\n" in told[1].source
    assert told[2].source.startswith("[user]\n")
    assert told[2].prompt.startswith("In my own words: [user]\n")
    assert not told[3].source.startswith("[")
    with pytest.raises(InvalidInput, match="nowhere"):
        chat.rewrite(leaf.id, prompt_dir=tmp_path / "nowhere", **ask)


def test_another_owner_has_no_such_operation(deep: Lossless, database: str) -> None:
    done = deep.conversation("k").rewrite(depth=1, apply=True, model=anew)
    assert done.operation is not None
    with Lossless.open(database, settings=DEEP, owner="another", summarizer=short) as other:
        assert other.history() == []
        with pytest.raises(NotFound):
            other.undo(done.operation)
        with pytest.raises(NotFound):
            other.resume(done.operation)


@pytest.mark.parametrize("name", ["anthropic/claude-haiku-4-5", "openai/gpt-4.1-mini"])
def test_the_providers_models_rewrite_too_and_their_price_is_told(
    name: str, deep: Lossless, database: str, provider: Provider, credentials: None
) -> None:
    settings = structs.replace(DEEP, summary_model=name, summary_base_url=provider.url)
    provider.script(Play(text="Question 0: words of the question.\nExpand for details about: the rest"))
    with Lossless.open(database, settings=settings) as lcm:
        chat = lcm.conversation("k")
        leaf = chat.summaries()[0]
        assert (chat.rewrite(leaf.id).plan.cost or 0) > 0
        done = chat.rewrite(leaf.id, apply=True)
        assert [step.state for step in done.steps] == ["written"]
        provider.script("401")
        refused = chat.rewrite(depth=1, apply=True)
        assert refused.status == "partly"
        assert {step.state for step in refused.steps} <= {"failed", "planned"}
        assert chat.summaries()[0].model.startswith(name)
        whole(lcm)


async def _rewritten(database: str, model: Callable[[SummaryRequest], Any]) -> list[Step]:
    async with AsyncLossless.open(database, settings=DEEP, summarizer=model) as lcm:
        chat = lcm.conversation("k")
        done = await chat.rewrite(all=True, apply=True)
        assert done.operation is not None
        assert [each.status for each in await lcm.history() if each.kind == "rewrite"] == ["applied"]
        await lcm.undo(done.operation)
        return list(done.steps)


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_it_can_be_awaited(deep: Lossless, database: str, backend: str) -> None:
    import anyio

    async def model(request: SummaryRequest) -> str:
        await anyio.lowlevel.checkpoint()
        return anew(request)

    before = rows(deep._store)
    steps = anyio.run(_rewritten, database, model, backend=backend)
    assert {step.state for step in steps} == {"written"}
    assert rows(deep._store) == before
    assert isinstance(deep.conversation("k"), Conversation)


def test_a_source_that_is_rewritten_to_the_same_length_meanwhile_is_read_again(database: str) -> None:
    told, anew = list[str](), list[str]()

    def swapped(request: SummaryRequest) -> str:
        return short(request).replace("words of", "of words")

    def model(request: SummaryRequest) -> str:
        if request.depth == 1:
            told.append(request.source)
            if len(told) == 1:
                with Lossless.open(database, settings=DEEP) as other:
                    leaf = next(each for each in other.conversation("k").summaries() if each.text in request.source)
                    assert other.conversation("k").rewrite(leaf.id, apply=True, model=swapped).operation
                    (now,) = [each for each in other.conversation("k").summaries() if each.id == leaf.id]
                    anew.append(now.text)
                    assert now.tokens == leaf.tokens, "else the length alone would tell"
        return short(request)

    with Lossless.open(database, settings=DEEP, summarizer=model) as lcm:
        chat = lcm.conversation("k")
        chat.ingest(turns(40, 0))
        chat.compact(ROOM)
        chat.compact(ROOM)
        assert any(anew[0] in source for source in told[1:]), "made again, from the new text"
        whole(lcm)


def _one_way(text: str) -> str:
    return text.replace("words of", "of words")


def _another(text: str) -> str:
    return text.replace("the question", "question the")


def test_a_source_that_is_undone_and_rewritten_meanwhile_is_read_again(database: str) -> None:
    told, texts, operations = list[str](), list[str](), list[str]()

    def rewrite(other: Lossless, request: SummaryRequest, to: Callable[[str], str]) -> None:
        chat = other.conversation("k")
        leaf = next(each for each in chat.summaries() if each.text in request.source)
        for operation in operations:
            other.undo(operation)
        operations[:] = [chat.rewrite(leaf.id, apply=True, model=lambda asked: to(short(asked))).operation or ""]
        texts.append(next(each.text for each in chat.summaries() if (each.id, each.revision) == (leaf.id, 2)))

    def model(request: SummaryRequest) -> str:
        if request.depth == 1:
            told.append(request.source)
            if len(told) <= 2:
                with Lossless.open(database, settings=DEEP) as other:
                    rewrite(other, request, [_one_way, _another][len(told) - 1])
        return short(request)

    with Lossless.open(database, settings=DEEP, summarizer=model) as lcm:
        chat = lcm.conversation("k")
        chat.ingest(turns(40, 0))
        for _ in range(3):
            chat.compact(ROOM)
        assert len(set(texts)) == 2
        assert any(texts[1] in source for source in told[2:]), "made again, though the number is the same"
        whole(lcm)
