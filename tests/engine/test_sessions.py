"""Sessions: what /new, /reset and the end of a session do, whom sub-agents belong to, and who is left alone."""

from __future__ import annotations

from collections.abc import Callable

import anyio
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule
from msgspec import structs

from lossless import AsyncLossless, Conversation, Lossless, Message, Settings, Summary, SummaryRequest
from lossless.client.model_work import Job
from lossless.engine import sessions
from lossless.engine.sessions import leaving
from lossless.engine.shared.model_flow import advance
from lossless.errors import InvalidInput, NotFound
from lossless.events import Event
from lossless.model import Compaction
from lossless.session_patterns import is_scheduled
from lossless.store.rows.types import ItemRow
from lossless.summarizers.base import Reply
from lossless.tools import tools
from tests.engine.compaction.test_compaction import SMALL, WINDOW, assert_promise, expanded, open_small, short, turns

DEPTHS = [3, 2, 1, 0, -2, -1]
JOB = "agent:main:cron:nightly"


def compacted(lcm: Lossless, key: str = "k") -> Conversation:
    chat = lcm.conversation(key)
    chat.ingest(turns(40))
    chat.compact(WINDOW)
    return chat


def depths(chat: Conversation) -> list[int]:
    return [item.depth if isinstance(item, Summary) else -1 for item in chat.context().items]


def found(chat: Conversation, pattern: str) -> list[str]:
    return [hit.key for hit in chat.grep(pattern, scope="messages")]


# /new


@pytest.mark.parametrize(
    ("retain_depth", "left"), [(-1, DEPTHS), (0, [3, 2, 1, 0]), (1, [3, 2, 1]), (2, [3, 2]), (3, [3]), (4, [])]
)
def test_a_new_session_keeps_the_summaries_from_a_depth_on(retain_depth: int, left: list[int]) -> None:
    items = [ItemRow(at, None if depth < 0 else at, 1, depth) for at, depth in enumerate(DEPTHS)]
    gone = leaving(items, retain_depth)
    assert [item.depth for item in items if item not in gone] == left


@pytest.mark.parametrize("retain_depth", [-1, 0, 1, 2, 9])
def test_new_takes_items_out_of_the_context_and_deletes_nothing(database: str, retain_depth: int) -> None:
    with open_small(database, short) as lcm:
        chat = compacted(lcm)
        messages, summaries, before = chat.messages(), chat.summaries(), chat.context()
        seqs, shown = expanded(chat), depths(chat)
        done = chat.new(retain_depth)
        assert depths(chat) == (shown if retain_depth < 0 else [depth for depth in shown if depth >= retain_depth])
        assert (chat.messages(), chat.summaries()) == (messages, summaries)
        assert done.detached == chat.detached()
        assert {each.cause for each in done.detached} <= {"new"}
        assert len(done.detached) + len(chat.context().items) == len(before.items)
        assert (done.tokens_before, done.tokens_after) == (before.tokens, chat.context().tokens)
        assert done.tokens_before - done.tokens_after == sum(each.tokens for each in done.detached)
        assert_promise(chat)
        assert expanded(chat) == seqs
        assert chat.new(retain_depth).detached == ()


def test_new_follows_the_setting_and_the_conversation_goes_on(database: str) -> None:
    with open_small(database, short, new_session_retain_depth=0) as lcm:
        chat = compacted(lcm)
        chat.new()
        assert -1 not in depths(chat)
        chat.ingest([Message.user("a fresh start")])
        assert chat.assemble(10_000).messages[-1].text == "a fresh start"
        assert chat.status().messages == 81


def test_what_left_the_context_is_still_found_read_and_explained(database: str) -> None:
    with open_small(database, short) as lcm:
        chat = compacted(lcm)
        raw, told = chat.messages()[-1], chat.messages()[0]
        chat.new(9)
        assert found(chat, "Answer 39") == ["k"]
        assert "Answer 39" in chat.expand(raw.id).text
        explained = chat.explain(raw.id)
        assert (explained.state, explained.summaries) == ("detached", ())
        assert "/new started a new context" in explained.text
        explained = chat.explain(told.id)
        assert explained.state == "detached"
        assert explained.summaries[-1] in [each.id for each in chat.detached()]
        assert chat.expand(explained.summaries[0]).items


def test_new_leaves_the_newest_system_message_in_its_place(database: str) -> None:
    with open_small(database, short) as lcm:
        chat = lcm.conversation("k")
        prompt = Message.system("You are Bob.", event_id="s2")
        chat.ingest([Message.system("You are Ada."), *turns(10), prompt, *turns(20)])
        chat.compact(WINDOW, force=True)
        planned = chat.new(9, dry_run=True)
        done = chat.new(9)
        assert [each.id for each in done.detached] == [each.id for each in planned.detached]
        assert done.tokens_after == planned.tokens_after == chat.context().tokens > 0
        assert chat.assemble(WINDOW).messages == (prompt,)
        assert chat.new(9).detached == ()
        chat.ingest([prompt, Message.user("hello")])
        assert chat.assemble(WINDOW).messages == (prompt, Message.user("hello"))
        assert chat.assemble(WINDOW, live=[prompt, Message.user("hello")]).messages == (prompt, Message.user("hello"))
        assert_promise(chat)


@pytest.mark.parametrize(("name", "left"), [("Ada", 10), ("Bob", 11)])
def test_a_system_message_from_before_new_gives_way_to_a_newer_one(database: str, name: str, left: int) -> None:
    with open_small(database, short) as lcm:
        chat = lcm.conversation("k")
        chat.ingest([Message.system("You are Ada."), *turns(5)], whole=True)
        before = [item.id for item in chat.context().items]
        chat.new(9)
        said = (Message.system(f"You are {name}."), Message.user("hello"))
        live = chat.assemble(WINDOW, live=said)
        assert (live.messages, live.left_out) == (said, ())
        chat.ingest(said, whole=True)
        assert chat.assemble(WINDOW).messages == said
        assert len(chat.detached()) == left
        assert_promise(chat)
        lcm.undo(next(each.id for each in chat.history() if each.kind == "new"))
        assert [item.id for item in chat.context().items][: len(before)] == before
        assert chat.detached() == ()
        assert_promise(chat)


def test_new_before_anything_was_said_does_nothing(chat: Conversation) -> None:
    assert chat.new().detached == ()
    assert chat.detached() == ()
    with pytest.raises(NotFound):
        chat.status()
    with pytest.raises(InvalidInput, match="retain_depth=-2"):
        chat.new(-2)


def test_after_new_a_live_message_like_an_old_one_is_shown(database: str) -> None:
    with open_small(database, short) as lcm:
        chat = compacted(lcm)
        chat.ingest([Message.user("ping")])
        chat.new(0)
        assert chat.assemble(10_000, live=[Message.user("ping")]).messages[-1].text == "ping"


# /reset and the end of a session


def test_reset_archives_and_starts_afresh(lcm: Lossless, chat: Conversation) -> None:
    chat.ingest([Message.user("the old deploy key")])
    old = chat.status()
    assert chat.reset()
    fresh = chat.status()
    assert (fresh.id != old.id, fresh.messages, chat.context().items) == (True, 0, ())
    assert [each.active for each in lcm.conversations()] == [True, False]
    row = lcm._store.conversations.get(old.id)
    assert row is not None
    assert row.archive_cause == "manual-reset"
    assert lcm._store.conversations.get(fresh.id).continues == old.id  # type: ignore[union-attr]  # it is there
    assert found(chat, "deploy key") == [chat.key]


def test_reset_of_an_empty_conversation_changes_nothing(lcm: Lossless, chat: Conversation) -> None:
    assert chat.reset()  # there was none: now there is
    only = lcm.conversations()
    assert [each.messages for each in only] == [0]
    assert not chat.reset()
    assert lcm.conversations() == only


@pytest.mark.parametrize("reason", ["", "new", "unknown", "restart", "shutdown", " Shutdown "])
def test_a_conversation_outlives_a_session_that_ends_without_meaning_it(
    lcm: Lossless, chat: Conversation, reason: str
) -> None:
    chat.ingest([Message.user("still here")])
    before = lcm.conversations()
    assert not chat.end(reason)
    assert lcm.conversations() == before


@pytest.mark.parametrize(
    ("reason", "cause", "active"),
    [("deleted", "session-deleted", 0), ("idle", "session-end", 1), ("reset", "session-end", 1)],
)
def test_a_session_that_ends_for_good_archives_its_conversation(
    lcm: Lossless, chat: Conversation, reason: str, cause: str, active: int
) -> None:
    chat.ingest([Message.user("something")])
    old = chat.status().id
    assert chat.end(reason)
    row = lcm._store.conversations.get(old)
    assert row is not None
    assert (row.active, row.archive_cause) == (False, cause)
    assert sum(each.active for each in lcm.conversations()) == active
    assert found(chat, "something") == [chat.key]


def test_the_end_that_a_reset_brings_along_does_nothing_more(lcm: Lossless, chat: Conversation) -> None:
    chat.ingest([Message.user("something")])
    chat.reset()
    before = lcm.conversations()
    assert not chat.end("reset")
    assert lcm.conversations() == before
    assert not lcm.conversation("never heard of").end("idle")


def test_what_was_shown_of_an_archived_conversation_is_not_told_of_the_next(database: str) -> None:
    with Lossless.open(database) as lcm, Lossless.open(database) as other:
        chat = lcm.conversation("k")
        chat.ingest([Message.user("before")])
        chat.assemble(10_000)
        other.conversation("k").reset()
        chat.ingest([Message.user("after")])
        with pytest.raises(NotFound):
            chat.context(at=1)


# whoever summarises meanwhile


@pytest.mark.parametrize("act", [Conversation.new, Conversation.reset, lambda chat: chat.end("deleted")])
def test_a_summary_that_was_being_written_comes_too_late(database: str, act: Callable[[Conversation], object]) -> None:
    with open_small(database, short) as lcm:
        chat = lcm.conversation("k")
        chat.ingest(turns(40))
        row, items = chat._row(), chat.context().items
        job = chat._compactor.compaction(WINDOW)
        assert row is not None
        assert isinstance(job, Job)
        request = advance(job.flow)  # the model is still thinking ...
        assert isinstance(request, SummaryRequest)
        act(chat)  # ... when the conversation begins anew
        done = advance(job.flow, Reply(short(request), "m"))
        assert isinstance(done, Compaction)
        assert (done.stop, done.summaries) == ("moved", ())
        assert lcm._store.summaries.read(row.id) == []
        left = [*lcm._store.context.items(row.id), *(item for item, *_ in lcm._store.context.detached(row.id))]
        assert sorted(item.ordinal for item in left) == [item.seq for item in items if not isinstance(item, Summary)]


@pytest.mark.parametrize("act", [Conversation.new, Conversation.reset])
def test_a_worker_that_meets_a_fresh_start_leaves_it_alone(
    database: str, act: Callable[[Conversation], object]
) -> None:
    def interrupted(request: SummaryRequest) -> str:
        with Lossless.open(database, settings=SMALL) as host:
            act(host.conversation("k"))
        return short(request)

    with open_small(database, interrupted) as lcm:
        lcm._background.wake = lambda: None  # type: ignore[method-assign]  # drained below
        chat = lcm.conversation("k")
        chat.after_turn(turns(40), window=WINDOW)
        assert lcm.drain() >= 1
        assert chat.context().items == ()
        assert all(lcm._store.summaries.read(row.id) == [] for row in lcm._store.conversations.family("k"))


# sub-agents


def test_a_parent_recalls_what_its_sub_agents_were_told_and_not_the_other_way_round(lcm: Lossless) -> None:
    parent = lcm.conversation("agent:main:main")
    parent.ingest([Message.user("the parent's pineapple")])
    child = lcm.conversation("agent:main:subagent:1", parent=parent)
    child.ingest([Message.user("the child's pineapple")])
    grandchild = lcm.conversation("agent:main:subagent:2", parent="agent:main:subagent:1")
    grandchild.ingest([Message.user("the grandchild's pineapple")])
    assert len(found(parent, "pineapple")) == 3
    assert len(found(child, "pineapple")) == 2
    assert found(grandchild, "pineapple") == [grandchild.key]
    said = child.messages()[0]
    assert "child's" in parent.expand(said.id).text
    assert "child's" in parent.describe(said.id).text
    assert any("child's" in each.quote for each in parent.ask("What about the child's pineapple?").evidence)
    assert "child's" in tools(parent).call("lcm_grep", {"pattern": "pineapple"}).text
    with pytest.raises(NotFound):
        child.expand(parent.messages()[0].id)


def test_a_sub_agent_finds_its_parent_once_there_is_one_and_keeps_it_through_a_reset(lcm: Lossless) -> None:
    parent, child = lcm.conversation("parent"), lcm.conversation("child", parent="parent")
    child.ingest([Message.user("first")])
    assert len(lcm.conversations()) == 1
    parent.ingest([Message.user("hello")])
    child.ingest([Message.user("second")])
    assert found(parent, "first|second") == ["child", "child"]
    child.reset()
    parent.reset()
    child.ingest([Message.user("third")])
    assert found(parent, "first|second|third") == ["child", "child", "child"]


def test_nobody_is_their_own_sub_agent(lcm: Lossless) -> None:
    with pytest.raises(InvalidInput, match="its own sub-agent"):
        lcm.conversation("k", parent="k")
    with pytest.raises(InvalidInput):
        lcm.conversation("k", parent="")


# scheduled jobs


@pytest.mark.parametrize(
    ("key", "is_one"),
    [
        ("agent:main:cron:nightly", True),
        ("agent:main:cron:nightly:run:1", True),
        ("agent:main:cron", False),
        ("agent:main:main:cron", False),
        ("host:main:cron:nightly", False),
    ],
)
def test_a_scheduled_job_is_known_by_its_key(key: str, is_one: bool) -> None:
    assert is_scheduled(key) is is_one


def test_a_run_of_a_scheduled_job_sees_and_changes_itself_only(lcm: Lossless) -> None:
    first, second = lcm.conversation(JOB, "run-1"), lcm.conversation(JOB, "run-2")
    first.ingest([Message.user("apples")])
    helper = lcm.conversation("helper", parent=first)
    helper.ingest([Message.user("apples of the helper")])
    assert found(second, "apples") == []
    second.ingest([Message.user("pears")])
    assert sorted(found(first, "apples|pears")) == [JOB, "helper"]
    assert found(second, "apples|pears") == [JOB]
    assert [each.text for each in first.messages()] == ["apples"]
    assert not first.reset()
    assert first.compact(WINDOW, force=True).stop == "nothing to compact"
    assert second.reset()
    second.ingest([Message.user("plums")])
    assert [each.text for each in second.messages()] == ["plums"]


# those that are left alone


CLOSED = {
    "off": Settings(enabled=False),
    "ignored": Settings(ignore_session_patterns=("agent:*:cron:**",)),
    "stateless": Settings(stateless_session_patterns=("agent:*:cron:**",)),
}
CLOSED_KEY = "agent:main:cron:nightly:run:1"


@pytest.mark.parametrize("settings", CLOSED.values(), ids=CLOSED)
@pytest.mark.parametrize("filled", [False, True], ids=["empty", "filled"])
def test_a_conversation_that_is_left_alone_is_never_written(
    database: str, settings: Settings, filled: bool, tmp_path: object
) -> None:
    settings = structs.replace(settings, large_files_dir=str(tmp_path))
    if filled:
        with Lossless.open(database, settings=Settings(large_files_dir=str(tmp_path))) as lcm:
            lcm.conversation(CLOSED_KEY).ingest([Message.user("from before"), Message.assistant("yes")])
    told: list[Event] = []
    with Lossless.open(database, settings=settings, on_event=told.append, summarizer=short) as lcm:
        before = written(lcm)
        chat, live = lcm.conversation(CLOSED_KEY, "s"), [Message.user("hello")]
        assert chat.ingest(live).stored == chat.after_turn(live, window=WINDOW).stored == ()
        assert chat.compact(WINDOW, force=True).summaries == ()
        assert chat.assemble(10_000, live=live).messages[-1].text == "hello"
        assert (chat.new().detached, chat.reset(), chat.end("deleted")) == ((), False, False)
        for refused in (lambda: chat.pin("always"), chat.grant):
            with pytest.raises(InvalidInput, match="nothing is written"):
                refused()
        tools(chat).call("lcm_expand_query", {"query": "before", "prompt": "What was before?"})
        lcm.drain()
        assert written(lcm) == before
    assert {event.name for event in told} >= {"ingest.disabled", "session.disabled"}


def written(lcm: Lossless) -> list[object]:
    """Every row that a call might add or change."""
    tables = ("conversation", "message", "item", "debt", "manifest", "pin", "recall_grant", "guard", "session")
    return [lcm._store.all(f"SELECT * FROM {table} ORDER BY 1, 2") for table in tables]


def test_a_stateless_conversation_reads_what_is_there(database: str) -> None:
    with Lossless.open(database) as lcm:
        lcm.conversation(CLOSED_KEY).ingest([Message.user("the key is under the mat"), Message.assistant("noted")])
    with Lossless.open(database, settings=CLOSED["stateless"], summarizer=short) as lcm:
        chat = lcm.conversation(CLOSED_KEY)
        shown = chat.assemble(10_000, live=[Message.user("where is the key?")])
        assert shown.messages[0].text == "the key is under the mat"
        assert shown.messages[-1].text == "where is the key?"
        assert found(chat, "under the mat") == [CLOSED_KEY]
        answer = chat.ask("Where is the key?")
        assert (answer.answer, answer.model) == ("", "")
        assert "under the mat" in answer.evidence[0].quote


@pytest.mark.parametrize("kind", ["off", "ignored"])
def test_who_is_ignored_is_shown_the_live_messages_and_told_why_there_are_no_tools(database: str, kind: str) -> None:
    with Lossless.open(database) as lcm:
        lcm.conversation(CLOSED_KEY).ingest([Message.user("from before")])
    with Lossless.open(database, settings=CLOSED[kind]) as lcm:
        chat = lcm.conversation(CLOSED_KEY)
        shown = chat.assemble(10_000, live=[Message.user("hello"), Message.assistant("half an ans")])
        assert [message.text for message in shown.messages] == ["hello"]
        assert shown.reason.startswith("live: ")
        refusal = tools(chat).call("lcm_grep", {"pattern": "before", "allConversations": True})
        assert "there is no memory to search" in refusal.text
        with pytest.raises(InvalidInput, match="no memory to ask"):
            chat.ask("What was before?")


def test_a_debt_of_a_conversation_that_is_left_alone_since_is_not_paid(database: str) -> None:
    with open_small(database, short) as lcm:
        lcm._background.wake = lambda: None  # type: ignore[method-assign]  # nobody drains
        lcm.conversation(CLOSED_KEY).after_turn(turns(40), window=WINDOW)
    with open_small(database, short, ignore_session_patterns=("agent:**",)) as lcm:
        assert lcm.drain() == 1
        assert lcm.conversation(CLOSED_KEY).summaries() == []


# hosts that send their whole list each time, without ids


def listed(words: str) -> list[Message]:
    return [Message.user(word) for word in words.split()]


@pytest.mark.parametrize(
    ("steps", "stored"),
    [
        (["ping", "ping pong", "/new", "ping", "ping pong go"], "ping pong ping pong go"),
        (["ping pong", "/new", "ping", "ping pong", "/new", "ping", "ping pong yes"], "ping pong " * 3 + "yes"),
        (["ok ok ok", "/new", "ok", "ok ok", "ok ok fine"], "ok ok ok ok ok fine"),
        (["+ping", "+pong", "/new", "ping", "ping pong more"], "ping pong ping pong more"),
        (["+ping", "/new", "ping pong more"], "ping ping pong more"),
        (["hi x y", "/new", "hi p q r s"], "hi x y hi p q r s"),
        (["system hi x", "/new", "system hi p q", "system hi p q r"], "system hi x system hi p q r"),
        (["a b c", "/new", "x y z", "x", "x y z w"], "a b c x y z w"),
        (["a b c", "/new", "x b", "x b c d e"], "a b c x b c d e"),
        (["a b", "/new", "a b c", "a b c d"], "a b c d"),
        (["a b c d", "/new", "a b c d e", "a", "a b c d e f"], "a b c d e f"),
        (["s1 a b c", "/new", "s2 a b c d", "s3 a b c d e"], "s1 a b c s2 d s3 e"),
        (["a b", "/new", "a b c", "/new", "a b c d", "/new", "a", "a b"], "a b c d a b"),
        (["a b", "/new", "x", "x y", "/new", "x y z", "q"], "a b x y z q"),
        (["ping pong", "/reset", "ping pong go"], "ping pong go"),
        (["ping pong", "/new", "/reset", "ping", "ping pong go"], "ping pong go"),
        (["ping pong", "/end", "ping pong go"], "ping pong go"),
    ],
)
def test_a_whole_list_after_new_stores_what_was_said_and_nothing_twice(
    chat: Conversation, steps: list[str], stored: str
) -> None:
    for step in steps:
        match step:
            case "/new":
                chat.new()
            case "/reset":
                chat.reset()
            case "/end":
                chat.end("idle")
            case _ if step.startswith("+"):
                chat.ingest(listed(step[1:]))
            case _:
                chat.ingest(listed(step), whole=True)
                chat.ingest(listed(step), whole=True)
    assert [message.text for message in chat.messages()] == stored.split()


def test_each_session_of_a_host_keeps_its_own_list_across_new(lcm: Lossless) -> None:
    before, after = lcm.conversation("k", "one"), lcm.conversation("k", "two")
    before.ingest(listed("ping pong"), whole=True)
    before.new()
    for step in ("ping", "ping pong", "ping pong go"):
        after.ingest(listed(step), whole=True)
    before.ingest(listed("ping pong old"), whole=True)
    assert [message.text for message in after.messages()] == ["ping", "pong", "ping", "pong", "go", "old"]


@pytest.mark.parametrize("whole", [True, False], ids=["whole", "by turns"])
@pytest.mark.parametrize(
    ("before", "since", "live", "shown"),
    [
        ("ping pong", "ping", "ping pong go", "ping pong go"),
        ("ping pong", "", "ping", "ping"),
        ("ping pong", "", "ping x go", "ping x go"),
        ("ok", "", "ok ok fine", "ok ok fine"),
        ("a b c", "x", "x b c d", "x b c d"),
        ("a b c", "", "a b c d", "a b c d"),
    ],
)
def test_live_messages_said_after_new_are_shown_however_alike_they_are(
    chat: Conversation, whole: bool, before: str, since: str, live: str, shown: str
) -> None:
    chat.ingest(listed(before), whole=whole)
    chat.new()
    chat.ingest(listed(since), whole=whole)
    context = chat.assemble(10_000, live=listed(live))
    assert [message.text for message in context.messages] == shown.split()


def test_live_messages_from_before_new_are_not_shown_again_by_a_host_that_kept_them(chat: Conversation) -> None:
    chat.ingest(listed("a b c"), whole=True)
    chat.new()
    chat.ingest(listed("a b c x"), whole=True)
    context = chat.assemble(10_000, live=listed("a b c x d"))
    assert [message.text for message in context.messages] == ["x", "d"]


class AHostThatSendsItsList(RuleBasedStateMachine):
    """Says a few words again and again, and sends its list each time, cleared by some /new and kept by others."""

    def __init__(self) -> None:
        super().__init__()
        self.lcm = Lossless.open(":memory:")
        self.chat = self.lcm.conversation("k")
        self.list: list[str] = []
        self.said: list[str] = []

    @rule(word=st.sampled_from(["ok", "ping", "pong", "go"]), again=st.booleans())
    def say(self, word: str, again: bool) -> None:
        self.list.append(word)
        self.said.append(word)
        for _ in range(1 + again):
            self.chat.ingest(listed(" ".join(self.list)), whole=True)

    @rule()
    def keep_the_list(self) -> None:
        self.chat.new()

    @precondition(lambda self: len(self.list) > 1)
    @rule()
    def clear_the_list(self) -> None:
        self.chat.new()
        self.list = []

    @invariant()
    def everything_is_stored_once(self) -> None:
        assert [message.text for message in self.chat.messages()] == self.said

    def teardown(self) -> None:
        self.lcm.close()


TestAHostThatSendsItsList = AHostThatSendsItsList.TestCase
TestAHostThatSendsItsList.settings = settings(max_examples=30, stateful_step_count=25, deadline=None)


# awaited


def test_the_same_verbs_can_be_awaited(database: str) -> None:
    async def main() -> None:
        async with AsyncLossless.open(database) as lcm:
            chat = lcm.conversation("k")
            child = lcm.conversation("child", parent=chat)
            await chat.ingest([Message.user("one")])
            await child.ingest([Message.user("two")])
            assert [hit.key for hit in await chat.grep("two")] == ["child"]
            assert (await chat.new()).detached == await chat.detached()
            assert await chat.reset()
            assert not await chat.end("restart")

    anyio.run(main)


def test_a_message_that_its_host_takes_back_leaves_the_context_and_stays_stored(chat: Conversation) -> None:
    chat.ingest([Message.user(text, event_id=text) for text in ("one", "two", "three")])
    last = chat.messages()[-1]
    now = chat._intake.now()
    assert sessions.withdraw(chat._store, chat.key, None, [last.seq], now) == 1
    assert sessions.withdraw(chat._store, chat.key, None, [last.seq], now) == 0
    assert [each.text for each in chat.context().messages] == ["one", "two"]
    assert [each.text for each in chat.messages()] == ["one", "two", "three"]
    assert [each.cause for each in chat.detached()] == ["withdrawn"]
    assert chat.grep("three").total == 1


@pytest.mark.parametrize(
    ("held", "shown"),
    [
        (["one", "two"], ["one", "two"]),
        (["one", "three"], ["one", "three"]),
        (["three"], ["one", "two", "three"]),
        (["unknown"], ["one", "two", "three"]),
        ([], ["one", "two", "three"]),
    ],
)
def test_a_context_follows_the_list_of_its_host(
    lcm: Lossless, chat: Conversation, held: list[str], shown: list[str]
) -> None:
    def follow(names: list[str]) -> None:
        sessions.follow_host(chat._store, chat.key, None, names, chat._intake.now())

    follow(held)
    chat.ingest([Message.user(text, event_id=text) for text in ("one", "two", "three")])
    follow(held)
    assert [each.text for each in chat.context().messages] == shown
    follow(["one", "two", "three"])
    assert [each.text for each in chat.context().messages] == ["one", "two", "three"]
    assert lcm.doctor().findings == ()
