"""What every store must do for sessions, sub-agents and detached items; each test runs on SQLite and on PostgreSQL."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from lossless.errors import ContextMoved, NotFound
from lossless.store.rows.types import SPAN, ConversationRow, ItemRow, NewSummary, PinRow
from lossless.store.store import Store
from tests.conftest import OpenStore
from tests.store.test_contract import NOW, fill, found, row

JOB = "agent:main:cron:nightly"


def lock(store: Store, key: str, session: str | None = None, now: int = NOW) -> ConversationRow:
    with store.transaction():
        return store.conversations.lock(key, session, now)


def start(store: Store, key: str, session: str | None = None, **options: object) -> ConversationRow:
    with store.transaction():
        return store.conversations.start(key, session, NOW, **options)  # type: ignore[arg-type]  # passed through


def read(store: Store, conversation_id: int) -> ConversationRow:
    known = store.conversations.get(conversation_id)
    assert known is not None
    return known


def summarised(store: Store, key: str, count: int, name: str = "sum_0") -> ItemRow:
    """The first items of a conversation, replaced by a leaf."""
    conversation = store.conversations.active(key)
    assert conversation is not None
    items = store.context.items(conversation.id)[:count]
    summary = NewSummary(name, 0, "what was said", 5, NOW, NOW, 0, 0, "[]", "m", "normal", None, None, NOW)
    return store.context.replace(conversation, items, summary)


# sessions


def test_every_session_a_conversation_was_known_by_is_remembered(store: Store) -> None:
    for at, session in enumerate(["s1", "s2", "s1", None, "s3"]):
        lock(store, "k", session, NOW + at)
    conversation = store.conversations.of_owner()[0]
    assert store.conversations.sessions(conversation.id) == ["s1", "s2", "s3"]
    assert conversation.session == "s3"
    assert store.conversations.with_session("k", "s1") == conversation
    assert store.conversations.with_session("k", "s9") is None
    assert store.conversations.with_session("other", "s1") is None


def test_a_conversation_is_found_and_held_by_its_id(store: Store) -> None:
    conversation = lock(store, "k")
    assert store.conversations.get(conversation.id) == conversation
    assert store.conversations.get(99) is None
    with store.transaction():
        assert store.conversations.hold(conversation.id) == conversation
        with pytest.raises(NotFound):
            store.conversations.hold(99)


def test_a_fresh_conversation_archives_the_active_one_for_a_cause(store: Store) -> None:
    old = lock(store, "k", "s1")
    fresh = start(store, "k", "s2", continues=old.id, cause="manual-reset")
    assert store.conversations.active("k") == fresh
    assert (fresh.active, fresh.continues, fresh.session, fresh.archive_cause) == (True, old.id, "s2", None)
    archived = read(store, old.id)
    assert (archived.active, archived.archive_cause, archived.archived_at) == (False, "manual-reset", NOW)
    assert store.conversations.sessions(fresh.id) == ["s2"]
    assert store.conversations.with_session("k", "s1") == archived


def test_a_conversation_can_be_archived_from_the_beginning(store: Store) -> None:
    active = lock(store, "k")
    aside = start(store, "k", "s", active=False, cause="import", continues=active.id)
    assert (aside.active, aside.archive_cause, aside.archived_at) == (False, "import", NOW)
    assert store.conversations.active("k") == active


def test_archiving_happens_once(store: Store) -> None:
    conversation = lock(store, "k")
    with store.transaction():
        assert store.conversations.archive(conversation.id, "session-end", NOW)
        assert not store.conversations.archive(conversation.id, "manual-reset", NOW + 1)
    assert store.conversations.active("k") is None
    assert read(store, conversation.id).archive_cause == "session-end"


def test_title_renewal_and_transcript_are_remembered(store: Store) -> None:
    conversation = lock(store, "k")
    assert (conversation.title, conversation.renewed_at, conversation.transcribed) == (None, None, False)
    with store.transaction():
        store.conversations.set_title(conversation.id, "Greetings")
        store.conversations.set_renewed(conversation.id, NOW)
        store.conversations.set_transcribed(conversation.id)
    read_back = read(store, conversation.id)
    assert (read_back.title, read_back.renewed_at, read_back.transcribed) == ("Greetings", NOW, True)


def test_of_many_that_start_afresh_at_once_one_is_active(open_store: OpenStore) -> None:
    stores = [open_store() for _ in range(4)]
    threads = [threading.Thread(target=start, args=(each, "k", f"s{n}")) for n, each in enumerate(stores)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(each.active for each in stores[0].conversations.family("k")) == [False, False, False, True]


# scheduled jobs


def test_each_run_of_a_scheduled_job_is_a_conversation_of_its_own(store: Store) -> None:
    first, second = lock(store, JOB, "run-1"), lock(store, JOB, "run-2")
    assert first.id != second.id
    assert second.continues == first.id
    assert read(store, first.id).archive_cause == "cron-rotation"
    assert lock(store, JOB, "run-2").id == lock(store, JOB).id == second.id


def test_a_late_word_of_an_old_run_goes_to_its_own_conversation(store: Store) -> None:
    first, second = lock(store, JOB, "run-1"), lock(store, JOB, "run-2")
    with store.transaction():
        late = store.conversations.lock(JOB, "run-1", NOW)
        store.messages.append(late, [row("late")], NOW)
    assert late.id == first.id
    assert [each.text for each in store.messages.read(first.id)] == ["late"]
    active = store.conversations.active(JOB)
    assert active is not None
    assert (active.id, active.session, active.messages) == (second.id, "run-2", 0)


def test_a_late_word_wakes_no_job_that_was_deleted(store: Store) -> None:
    run = lock(store, JOB, "run-1")
    with store.transaction():
        store.conversations.archive(run.id, "session-deleted", NOW)
    assert lock(store, JOB, "run-1").id == run.id
    assert store.conversations.active(JOB) is None


def test_a_scheduled_job_without_a_session_so_far_takes_the_first(store: Store) -> None:
    assert lock(store, JOB).id == lock(store, JOB, "run-1").id
    assert store.conversations.of_owner()[0].session == "run-1"


def test_runs_that_begin_at_once_stay_apart(open_store: OpenStore) -> None:
    stores, jobs = [open_store() for _ in range(4)], [f"{JOB}:{n}" for n in range(20)]
    runs = [("run-1", "run-2", "run-0"), ("run-1", "run-3", "run-1"), ("run-2", "run-1", "run-3"), ("run-3", "run-2")]
    for job in jobs:
        lock(stores[0], job, "run-0")
    with ThreadPoolExecutor(4) as pool:
        for job in jobs:
            # Each does so several times: late words of older runs are among them.
            list(pool.map(lambda store, own, job=job: [lock(store, job, run) for run in own], stores, runs))
    for job in jobs:
        assert sorted(each.session or "" for each in stores[0].conversations.family(job)) == [
            "run-0",
            "run-1",
            "run-2",
            "run-3",
        ]


# sub-agents


def test_the_family_ends_with_the_conversations_of_sub_agents(store: Store) -> None:
    old = lock(store, "k")
    active = start(store, "k", continues=old.id)
    child = start(store, "k:sub", parent=old.id)
    grandchild = lock(store, "k:sub:sub")
    stranger = lock(store, "another")
    with store.transaction():
        store.conversations.set_parent(grandchild.id, child.id)
    assert [each.id for each in store.conversations.family("k")] == [active.id, old.id, grandchild.id, child.id]
    assert [each.id for each in store.conversations.family("k:sub")] == [child.id, grandchild.id]
    assert [each.id for each in store.conversations.family("another")] == [stranger.id]


def test_parents_that_lead_back_to_themselves_end(store: Store) -> None:
    one = lock(store, "one")
    two = start(store, "two", parent=one.id)
    with store.transaction():
        store.conversations.set_parent(one.id, two.id)
    assert [each.id for each in store.conversations.family("one")] == [one.id, two.id]


# what left the view


def test_detached_items_are_listed_beside_the_context_and_come_back(store: Store) -> None:
    conversation = fill(store, "k", row("one"), row("two"), row("three"))
    items = store.context.items(conversation)
    with store.transaction():
        assert store.context.detach(conversation, items[:2], "new", NOW) == 2
        assert store.context.detach(conversation, items[:2], "branch", NOW) == 0
    assert store.context.items(conversation) == items[2:]
    assert store.context.detached(conversation) == [(items[0], "new", NOW), (items[1], "new", NOW)]
    assert read(store, conversation).context_tokens == items[2].tokens
    assert found(store, "one") == [1]
    with store.transaction():
        assert store.context.attach(conversation, [1, 3, 9]) == 1
    assert store.context.items(conversation) == [items[0], items[2]]
    assert store.context.detached(conversation) == [(items[1], "new", NOW)]
    assert read(store, conversation).context_tokens == items[0].tokens + items[2].tokens


def test_an_item_that_became_another_is_not_detached(store: Store) -> None:
    conversation = fill(store, "k", row("one"), row("two"), row("three"))
    seen = store.context.items(conversation)
    leaf = summarised(store, "k", 2)
    with store.transaction():
        assert store.context.detach(conversation, seen, "new", NOW) == 1
    assert store.context.items(conversation) == [leaf]


def test_a_summary_and_its_first_message_may_both_be_detached(store: Store) -> None:
    conversation = fill(store, "k", row("one"), row("two"))
    messages = store.context.items(conversation)
    leaf = summarised(store, "k", 2)
    with store.transaction():
        store.context.detach(conversation, [leaf], "dissolved", NOW)
        store.insert(
            "item",
            ("conversation_id", "ordinal", "summary_id", "tokens", "depth"),
            [(conversation, each.ordinal, None, each.tokens, each.depth) for each in messages],
        )
        store.context.detach(conversation, messages, "new", NOW + 1)
    assert [each for each, *_ in store.context.detached(conversation)] == [leaf, *messages]
    with store.transaction():
        assert store.context.attach(conversation, [1]) == 1
    assert store.context.items(conversation) == [messages[0]]


def test_a_detached_summary_that_is_made_anew_comes_back_with_its_new_size(store: Store) -> None:
    conversation = fill(store, "k", row("one"), row("two"))
    leaf = summarised(store, "k", 2)
    with store.transaction():
        store.context.detach(conversation, [leaf], "new", NOW)
    old = store.summaries.read(conversation)[0]
    new = NewSummary("sum_0", 0, "said better", 9, NOW, NOW, 0, 0, "[]", "m", "normal", None, None, NOW)
    assert store.summaries.revise(conversation, old, new)
    assert read(store, conversation).context_tokens == 0
    with store.transaction():
        store.context.attach(conversation, [1])
    assert read(store, conversation).context_tokens == store.context.items(conversation)[0].tokens == 9


def test_a_summary_comes_too_late_for_items_that_left_or_a_conversation_that_was_archived(store: Store) -> None:
    conversation = fill(store, "k", row("one"), row("two"), row("three"))
    before, items = read(store, conversation), store.context.items(conversation)
    summary = NewSummary("sum_0", 0, "late", 5, NOW, NOW, 0, 0, "[]", "m", "normal", None, None, NOW)
    with store.transaction():
        store.context.detach(conversation, items[:1], "new", NOW)
    with pytest.raises(ContextMoved):
        store.context.replace(before, items[:2], summary)
    start(store, "k", cause="manual-reset")
    with pytest.raises(ContextMoved):
        store.context.replace(before, items[1:], summary)
    assert store.summaries.read(conversation) == []


# what is buried


def test_a_buried_message_keeps_its_place_and_its_event_id_and_nothing_else(store: Store) -> None:
    conversation = fill(store, "k", row("secret words", event_id="e1", parts="[]"), row("open"))
    with store.transaction():
        store.messages.keep_copy(conversation, 1, row("secret twin"))
        store.texts.add_vectors("model", [(conversation * SPAN + 1, b"\1")])
        store.manifests.add_pin(conversation, PinRow("pin", conversation * SPAN + 1, "secret words", 3, NOW))
        assert store.context.bury(conversation, [1, 9], "forgotten", NOW) == [1]
        assert store.context.bury(conversation, [1], "heartbeat", NOW) == []
    buried = store.messages.read(conversation)[0]
    assert (buried.seq, buried.text, buried.parts, buried.meta, buried.outside) == (1, "", None, None, "forgotten")
    assert (buried.created_at, buried.tokens) == (NOW, 0)
    assert store.messages.copies(conversation, 1) == []
    assert store.manifests.pins(conversation) == []
    assert store.texts.vectors("model", [conversation * SPAN + 1]) == {}
    assert found(store, "secret") == []
    assert store.check_search() == []
    assert store.messages.known_events(conversation, ["e1"])["e1"].seq == 1
    assert [each.ordinal for each in store.context.items(conversation)] == [2]
    assert read(store, conversation).context_tokens == len("open")


def test_a_message_that_a_summary_was_made_from_is_not_buried(store: Store) -> None:
    conversation = fill(store, "k", row("one"), row("two"), row("three"))
    leaf = summarised(store, "k", 2)
    with store.transaction():
        assert store.context.bury(conversation, [1, 3], "forgotten", NOW) == [3]
    assert [each.text for each in store.messages.read(conversation)] == ["one", "two", ""]
    assert store.context.items(conversation) == [leaf]


def test_a_detached_message_that_is_buried_does_not_come_back(store: Store) -> None:
    conversation = fill(store, "k", row("one"))
    with store.transaction():
        store.context.detach(conversation, store.context.items(conversation), "new", NOW)
        store.context.bury(conversation, [1], "forgotten", NOW)
    assert store.context.detached(conversation) == []


# further names


def test_further_event_ids_are_known_to_those_who_ask_for_them(store: Store) -> None:
    conversation = fill(store, "k", row("one", event_id="e1"), row("two", event_id="e2"))
    with store.transaction():
        store.messages.add_aliases(conversation, {"a1": 1, "e2": 1})
        store.messages.add_aliases(conversation, {"a1": 2})
    names = ["a1", "e1", "e2", "a9"]
    assert set(store.messages.known_events(conversation, names)) == {"e1", "e2"}
    known = store.messages.known_events(conversation, names, aliases=True)
    assert {name: event.seq for name, event in known.items()} == {"a1": 1, "e1": 1, "e2": 2}
    assert known["a1"] == known["e1"]


def test_cursors_are_listed_by_how_their_source_begins(store: Store) -> None:
    one, two = fill(store, "one", row("a")), fill(store, "two", row("b"))
    with store.transaction():
        store.state.set_cursor(one, "file:%a", {"offset": 1}, NOW)
        store.state.set_cursor(two, "file:b", None, NOW)
        store.state.set_cursor(two, "other", 7, NOW)
    assert store.state.cursors("file:") == [(one, "file:%a", {"offset": 1}), (two, "file:b", None)]
    assert store.state.cursors("file:%") == [(one, "file:%a", {"offset": 1})]
    assert len(store.state.cursors("")) == 3


# owners


def test_what_another_owner_has_is_neither_seen_nor_changed(open_store: OpenStore) -> None:
    ours, theirs = open_store(), open_store(owner="somebody else")
    conversation = fill(ours, "k", row("one", event_id="e"), row("two"))
    lock(ours, "k", "s1")
    with ours.transaction():
        ours.messages.add_aliases(conversation, {"a": 1})
        ours.state.set_cursor(conversation, "file", 1, NOW)
        ours.context.detach(conversation, ours.context.items(conversation)[:1], "new", NOW)
    before = ours.conversations.get(conversation)
    assert theirs.conversations.get(conversation) is None
    assert theirs.conversations.with_session("k", "s1") is None
    assert theirs.conversations.sessions(conversation) == []
    assert theirs.context.detached(conversation) == []
    assert theirs.conversations.family("k") == []
    assert theirs.state.cursors("") == []
    assert theirs.messages.known_events(conversation, ["a"], aliases=True) == {}
    with theirs.transaction():
        assert not theirs.conversations.archive(conversation, "manual-reset", NOW)
        theirs.conversations.set_title(conversation, "mine")
        theirs.conversations.set_parent(conversation, conversation)
    items = ours.context.items(conversation)
    for act in (
        lambda: theirs.conversations.hold(conversation),
        lambda: theirs.context.detach(conversation, items, "new", NOW),
        lambda: theirs.context.attach(conversation, [1]),
        lambda: theirs.context.bury(conversation, [1, 2], "forgotten", NOW),
    ):
        with pytest.raises(NotFound), theirs.transaction():
            act()
    assert ours.conversations.get(conversation) == before
    assert [each.text for each in ours.messages.read(conversation)] == ["one", "two"]


def test_a_sub_agent_of_another_owner_is_no_part_of_the_family(open_store: OpenStore) -> None:
    ours, theirs = open_store(), open_store(owner="somebody else")
    parent = lock(ours, "k")
    start(theirs, "k:sub", parent=parent.id)
    assert [each.id for each in ours.conversations.family("k")] == [parent.id]
