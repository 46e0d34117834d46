"""Transplanting: history of one conversation, copied whole before everything that another one holds."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from importlib import import_module
from itertools import count
from pathlib import Path

import anyio
import pytest
from hypothesis import HealthCheck, given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st
from msgspec import structs

from lossless import AsyncLossless, Conversation, Lossless, Message, SummaryRequest
from lossless.engine.shared.promise import promise_violations
from lossless.engine.shared.transplanted_ranges import copy_digest
from lossless.errors import InvalidInput, NotFound
from lossless.model import Context, Excerpt
from tests.histories import SMALL, short
from tests.transcribing import Session, assistant, user
from tests.validators import VALIDATORS, violations

WINDOW = 500


@pytest.fixture
def lcm(database: str, tmp_path: Path) -> Iterator[Lossless]:
    ticks = count(1_790_000_000)
    settings = structs.replace(SMALL, large_files_dir=str(tmp_path / "files"))
    with Lossless.open(database, settings=settings, summarizer=short, clock=lambda: float(next(ticks))) as lcm:
        yield lcm


def talk(lcm: Lossless, key: str, turns: int = 12, *, compact: bool = True) -> Conversation:
    chat = lcm.conversation(key)
    said = len(chat.messages())
    words = "some words " * 25
    chat.ingest([Message.user(f"{key} {n}: {words}", event_id=f"{key}-{n}") for n in range(said, said + turns)])
    if compact:
        chat.compact(WINDOW, force=True)
    return chat


def flaws(lcm: Lossless) -> list[str]:
    return [
        sentence for row in lcm._store.conversations.of_owner() for sentence in promise_violations(lcm._store, row.id)
    ]


def told(chat: Conversation) -> list[str]:
    """Everything below the context, in its order, word for word."""
    found: list[str] = []
    for item in chat.context().items:
        if isinstance(item.id, str):
            found += [each.text for each in _leaves(chat, item.id)]
        else:
            found.append(item.text)
    return found


def _leaves(chat: Conversation, summary: str) -> Iterator[Excerpt]:
    done = chat.expand(summary, 1_000_000, depth=20)
    assert not done.truncated
    return (each for each in done.items if each.kind == "message")


def refused(context: Context) -> list[str]:
    """What a provider would not take of it."""
    dumped = {name: import_module(f"lossless.formats.{name}").dump(context) for name in VALIDATORS}
    return [sentence for name, request in dumped.items() for sentence in violations(name, request)]


def test_old_history_comes_before_everything_and_is_reached_word_for_word(lcm: Lossless) -> None:
    old, new = talk(lcm, "old", 30), talk(lcm, "new")
    before, own = told(old), told(new)
    done = lcm.transplant("old", "new", apply=True)
    assert told(new) == [*before[: -done.uncovered], *own]
    assert [item.id for item in new.context().items][: len(done.made)] == list(done.made)
    assert new.status().context_tokens == done.target_tokens + done.tokens
    assert told(old) == before
    assert flaws(lcm) == []
    assert lcm._store.check_search() == []


def test_a_plan_says_what_would_be_done_and_does_nothing(lcm: Lossless) -> None:
    old, new = talk(lcm, "old", 30), talk(lcm, "new")
    stored = [len(chat.messages()) for chat in (old, new)]
    plan = lcm.transplant("old", "new")
    assert (plan.source, plan.target, plan.applied, plan.made) == ("old", "new", False, ())
    assert (plan.source_tokens, plan.target_tokens) == (old.status().context_tokens, new.status().context_tokens)
    assert (plan.summaries, plan.messages) == (len(old.summaries()), stored[0] - plan.uncovered)
    assert [len(chat.messages()) for chat in (old, new)] == stored
    assert lcm.transplant("old", "new", apply=True).tokens == plan.tokens


def test_copies_know_where_they_come_from_and_all_that_the_originals_do(lcm: Lossless) -> None:
    old, new = talk(lcm, "old", 30), talk(lcm, "new")
    mine = {each.id for each in new.summaries()}
    lcm.transplant("old", "new", apply=True)
    originals = {each.id: each for each in old.summaries()}
    copies = [each for each in new.summaries() if each.id not in mine]
    assert {copy.origin for copy in copies} == originals.keys()
    for copy in copies:
        assert copy.origin is not None
        assert structs.replace(copy, id=copy.origin, origin=None) == originals[copy.origin]
        below = new.describe(copy.id), old.describe(copy.origin)
        assert [len(each.sources) for each in below[:1]] == [len(each.sources) for each in below[1:]]
        assert len(below[0].message_ids) == len(below[1].message_ids)


def test_earlier_texts_and_large_files_come_along(lcm: Lossless) -> None:
    old, new = lcm.conversation("old"), talk(lcm, "new")
    large = "A large one. " * 1000
    old.ingest([Message.user(large)])
    talk(lcm, "old", 30)
    store, row = lcm._store, lcm._store.conversations.active("old")
    assert row is not None
    summary = store.summaries.read(row.id)[0]
    assert store.summaries.revise(row.id, summary, structs.replace(summary, text="Told anew.", tokens=3))
    done = lcm.transplant("old", "new", apply=True)
    (file,) = new.files()
    assert new.files.read(file.id).decode() == large
    assert large in [each.text for each in new.messages()]
    copy = next(each for each in new.summaries() if each.origin == summary.public_id)
    found = store.summaries.named(copy.id)
    assert found is not None
    assert (copy.text, copy.revision) == ("Told anew.", 2)
    assert store.summaries.revisions(found[0], [found[1].id]) == {(found[1].id, 1): summary.text}
    assert done.applied
    assert flaws(lcm) == []


def test_what_was_copied_is_found_and_shown_to_a_model(lcm: Lossless) -> None:
    talk(lcm, "old", 30)
    new = talk(lcm, "new")
    done = lcm.transplant("old", "new", apply=True)
    assert [hit.key for hit in new.grep("old 3:", scope="messages")] == ["new"]
    (hit,) = new.grep("old 3:", scope="messages")
    assert new.explain(hit.id).state == "summarised"
    context = new.assemble(4_000)
    assert [item.id for item in context.items][:1] == [done.made[0]]
    assert refused(context) == []


def test_the_same_history_twice_is_refused_or_left_out(lcm: Lossless) -> None:
    talk(lcm, "old", 30)
    new = talk(lcm, "new")
    first = lcm.transplant("old", "new", apply=True)
    said = told(new)
    again = lcm.transplant("old", "new")
    assert len(again.duplicates) == first.summaries
    with pytest.raises(InvalidInput, match="already"):
        lcm.transplant("old", "new", apply=True)
    assert told(new) == said
    nothing = lcm.transplant("old", "new", apply=True, dedupe=True)
    assert (nothing.summaries, nothing.skipped, nothing.made) == (0, len(first.made), ())
    talk(lcm, "old", 12)
    more = lcm.transplant("old", "new", apply=True, dedupe=True)
    assert more.made
    assert flaws(lcm) == []


def test_history_that_was_copied_can_be_copied_again(lcm: Lossless) -> None:
    chats = [talk(lcm, key, 20) for key in ("first", "second", "third")]
    lcm.transplant("first", "second", apply=True)
    chats[1].compact(WINDOW, force=True, target=100)
    second = told(chats[1])
    done = lcm.transplant("second", "third", apply=True)
    assert told(chats[2])[: len(second) - done.uncovered] == second[: len(second) - done.uncovered]
    assert flaws(lcm) == []


def test_what_comes_after_a_transplant_goes_on_as_before(lcm: Lossless) -> None:
    talk(lcm, "old", 30)
    new = talk(lcm, "new")
    lcm.transplant("old", "new", apply=True)
    own = [text for text in told(new) if text.startswith("new")]
    talk(lcm, "new", 20)
    assert [text for text in told(new) if text.startswith("new")][: len(own)] == own
    assert flaws(lcm) == []
    new.new(retain_depth=1)
    assert flaws(lcm) == []
    talk(lcm, "elder", 20)
    lcm.transplant("elder", "new", apply=True)
    assert told(new)[0].startswith("elder 0:")
    assert flaws(lcm) == []


def test_no_delivery_is_taken_for_a_copy(lcm: Lossless) -> None:
    talk(lcm, "old", 30)
    new = lcm.conversation("new")
    said = [Message.user("hello"), Message.assistant("hi")]
    new.ingest(said, whole=True)
    lcm.transplant("old", "new", apply=True)
    repeated = [each.message for each in lcm.conversation("old").messages(limit=5)]
    assert new.ingest([structs.replace(repeated[0])]).known == 0, "its event id is the other conversation's"
    nameless = [structs.replace(each, event_id=None) for each in repeated[1:]]
    assert len(new.ingest([*said, *nameless], whole=True).stored) == len(nameless)
    assert flaws(lcm) == []


def test_every_copy_is_found_by_the_digest_of_its_original(lcm: Lossless) -> None:
    talk(lcm, "origin")
    for source, target in (("origin", "middle"), ("middle", "end")):
        lcm.conversation(target).ingest([Message.user(f"{target} is here.", event_id=target)])
        lcm.transplant(source, target, apply=True)
    original = digests(lcm, "origin")[0]
    assert copy_digest(original) in digests(lcm, "middle")
    assert copy_digest(copy_digest(original)) in digests(lcm, "end")
    assert original not in (*digests(lcm, "middle"), *digests(lcm, "end"))
    done = lcm.conversation("origin").forget(lcm.conversation("origin").messages()[0].id, apply=True)
    assert (done.messages, done.copied) == (3, 2)
    assert flaws(lcm) == []


def digests(lcm: Lossless, key: str) -> list[bytes]:
    row = lcm._store.conversations.active(key)
    assert row is not None
    return [each.digest for each in lcm._store.messages.read(row.id)]


def test_a_host_that_holds_its_messages_is_not_shown_them_twice(lcm: Lossless) -> None:
    talk(lcm, "old", 30)
    new = lcm.conversation("new")
    said = [Message.user("hello"), Message.assistant("hi"), Message.user("and now?")]
    new.ingest(said)
    lcm.transplant("old", "new", apply=True)
    shown = new.assemble(4_000, live=said).messages
    assert [each.text for each in shown][-3:] == ["hello", "hi", "and now?"]
    assert [each.text for each in shown].count("hello") == 1


def test_a_transcript_goes_on_behind_a_transplant(lcm: Lossless, tmp_path: Path) -> None:
    talk(lcm, "old", 30)
    new, session = lcm.conversation("new"), Session(tmp_path / "s1.jsonl")
    session.says(user("one"), assistant("two"))
    new.bootstrap(session.path)
    new.after_turn(session.says(user("three"), assistant("four")), window=100_000)
    lcm.transplant("old", "new", apply=True)
    assert new.bootstrap(session.path).imported == 0
    new.after_turn(session.says(user("five"), assistant("six")), window=100_000)
    assert new.bootstrap(session.path).imported == 0
    assert told(new)[-6:] == ["one", "two", "three", "four", "five", "six"]
    assert flaws(lcm) == []


def test_an_archived_conversation_is_named_by_its_id(lcm: Lossless) -> None:
    chat = talk(lcm, "k", 30)
    number = chat.status().id
    assert chat.reset()
    chat.ingest([Message.user("a fresh start")])
    lcm.transplant(number, "k", apply=True)
    assert told(chat)[0].startswith("k 0:")
    assert told(chat)[-1] == "a fresh start"
    assert flaws(lcm) == []


def test_what_cannot_be_is_refused(lcm: Lossless, database: str) -> None:
    talk(lcm, "old", 30)
    with pytest.raises(InvalidInput, match="into itself"):
        lcm.transplant("old", "old")
    with pytest.raises(NotFound):
        lcm.transplant("old", "nobody", apply=True)
    with Lossless.open(database, owner="another") as other:
        other.conversation("mine").ingest([Message.user("hello")])
        with pytest.raises(NotFound):
            other.transplant("old", "mine")
        with pytest.raises(NotFound):
            other.transplant(lcm.conversation("old").status().id, "mine")
    closed = structs.replace(lcm.settings, stateless_session_patterns=("cron:*",))
    talk(lcm, "cron:1", 2)
    with Lossless.open(database, settings=closed) as closed_one, pytest.raises(InvalidInput, match="stateless"):
        closed_one.transplant("old", "cron:1", apply=True)


def test_a_compaction_that_is_under_way_is_not_disturbed(database: str, tmp_path: Path) -> None:
    asked, go_on = threading.Event(), threading.Event()

    def slow(request: SummaryRequest) -> str:
        asked.set()
        assert go_on.wait(30)
        return short(request)

    settings = structs.replace(SMALL, large_files_dir=str(tmp_path / "files"))
    with Lossless.open(database, settings=settings, summarizer=short) as lcm:
        talk(lcm, "old", 30)
        talk(lcm, "new", 20, compact=False)
        with Lossless.open(database, settings=settings, summarizer=slow) as other:
            done: list[str] = []
            thread = threading.Thread(
                target=lambda: done.append(other.conversation("new").compact(WINDOW, force=True).stop)
            )
            thread.start()
            assert asked.wait(30)
            lcm.transplant("old", "new", apply=True)
            go_on.set()
            thread.join(30)
        assert done == ["compacted"]
        assert flaws(lcm) == []


def test_transplants_that_cross_both_arrive(lcm: Lossless) -> None:
    talk(lcm, "a", 20)
    talk(lcm, "b", 20)
    gate, errors = threading.Barrier(2), list[BaseException]()

    def carry(source: str, target: str) -> None:
        gate.wait()
        try:
            lcm.transplant(source, target, apply=True, dedupe=True)
        except BaseException as error:  # noqa: BLE001 - told below
            errors.append(error)

    threads = [threading.Thread(target=carry, args=pair) for pair in (("a", "b"), ("b", "a"))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == []
    assert flaws(lcm) == []


def test_a_transplant_survives_an_archive_and_a_move(lcm: Lossless, tmp_path: Path) -> None:
    talk(lcm, "old", 30)
    new = talk(lcm, "new")
    lcm.transplant("old", "new", apply=True)
    lcm.export(tmp_path / "all.zip")
    lcm.migrate(tmp_path / "moved.db")
    for path, names in ((tmp_path / "moved.db", ()), (tmp_path / "back.db", (tmp_path / "all.zip",))):
        with Lossless.open(path, settings=lcm.settings) as other:
            for name in names:
                other.import_(name, apply=True)
            assert told(other.conversation("new")) == told(new)
            assert flaws(other) == []


def test_the_same_awaited(lcm: Lossless) -> None:
    talk(lcm, "old", 30)
    talk(lcm, "new")

    async def carried() -> int:
        return (await AsyncLossless(lcm).transplant("old", "new", apply=True)).messages

    assert anyio.run(carried) == lcm.transplant("old", "new").messages


steps = st.lists(
    st.one_of(
        st.tuples(st.just("say"), st.sampled_from("abc"), st.integers(1, 9)),
        st.tuples(st.just("compact"), st.sampled_from("abc"), st.integers(100, 900)),
        st.tuples(st.just("new"), st.sampled_from("abc"), st.integers(-1, 2)),
        st.tuples(st.just("transplant"), st.sampled_from("abc"), st.sampled_from("abc")),
    ),
    min_size=4,
    max_size=14,
)


@given(steps=steps, dedupe=st.booleans())
@hypothesis_settings(suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
def test_whatever_is_transplanted_the_promise_holds(
    tmp_path: Path, steps: list[tuple[str, str, int]], dedupe: bool
) -> None:
    settings = structs.replace(SMALL, large_files_dir=str(tmp_path / "files"))
    with Lossless.open(":memory:", settings=settings, summarizer=short) as lcm:
        for key in "abc":
            talk(lcm, key, 3)
        for verb, key, what in steps:
            chat = lcm.conversation(key)
            if verb == "say":
                talk(lcm, key, what, compact=False)
            elif verb == "compact":
                chat.compact(WINDOW, force=True, target=what)
            elif verb == "new":
                chat.new(what)
            elif key != str(what):
                before = told(chat)
                plan = lcm.transplant(key, str(what), dedupe=dedupe)
                if plan.duplicates and not dedupe:
                    continue
                lcm.transplant(key, str(what), apply=True, dedupe=dedupe)
                assert told(chat) == before
            assert flaws(lcm) == []
        for key in "abc":
            assert refused(lcm.conversation(key).assemble(2_000)) == []
