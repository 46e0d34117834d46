"""Whatever comes from elsewhere: every message once, in order; cut off, it goes on; twice, it changes nothing."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import TypeAlias

import apsw
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lossless import Lossless, Message, Settings
from lossless.engine.backup.export_archive import export
from lossless.engine.import_history import foreign_history
from lossless.engine.import_history.context_layout import LayoutEntry, Node, layout
from lossless.errors import InvalidInput
from lossless.imports import recognise
from lossless.imports.base import Source
from lossless.model import Imported
from tests.imports.databases import CLAW, CLAW_01, CLAW_06, OldClaw, move_in


@pytest.fixture
def old(tmp_path: Path) -> OldClaw:
    return OldClaw(tmp_path / "claw.db", CLAW_01)


class Fault(Exception):
    """Injected."""


def apply(lcm: Lossless, source: Source) -> Imported:
    plan = foreign_history.plan(lcm._store, source)
    return foreign_history.apply(
        lcm._store, lcm._files, lambda key, session: lcm.conversation(key, session)._intake, source, plan
    )


def small_history(path: Path) -> Path:
    """Two leaves, one above them, messages left over, two that no context showed, and a file."""
    old = OldClaw(path, CLAW_06)
    one = old.conversation(session_key="k")
    said = old.say(one, *(f"word {n}" for n in range(9)))
    low, high = old.leaf(one, "sum_000000000000000a", said[:2]), old.leaf(one, "sum_000000000000000b", said[2:4])
    old.condensed(one, "sum_000000000000000c", [low, high])
    old.show(one, "sum_000000000000000c", *said[4:7])
    (path.parent / "lcm-files" / "1").mkdir(parents=True, exist_ok=True)
    (path.parent / "lcm-files" / "1" / "file_7.txt").write_text("seven")
    uri = "1/file_7.txt"
    old.add("large_files", file_id="file_7", conversation_id=one, storage_uri=uri, exploration_summary="7")
    return old.close()


def state(lcm: Lossless) -> object:
    """Everything an import leaves, but for when it did."""
    store = lcm._store
    found = []
    for row in sorted(store.conversations.of_owner(), key=lambda each: each.id):
        said = [(m.seq, m.text, m.event_id, m.created_at) for m in store.messages.read(row.id)]
        sources = store.summaries.source_ids(row.id, [each.id for each in store.summaries.read(row.id)])
        summaries = [
            (s.public_id, s.text, s.depth, store.summaries.sources(row.id, s.id)[0], sources.get(s.id))
            for s in store.summaries.read(row.id)
        ]
        aside = [(item.ordinal, cause) for item, cause, _ in store.context.detached(row.id)]
        files = [(file.id, file.sha256) for file in store.files.of_conversation(row.id)]
        names = {each.id: each.public_id for each in store.summaries.read(row.id)}
        items = [
            (item.ordinal, names.get(item.summary_id or 0), item.tokens, item.depth)
            for item in store.context.items(row.id)
        ]
        found.append((row.key, row.active, row.context_tokens, said, summaries, items, aside, files))
    return found


def test_a_fault_at_every_statement_is_gone_on_from(
    lcm: Lossless, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However often an import is cut off, it ends as if it never had been."""
    monkeypatch.setattr(foreign_history, "BATCH", 4)
    path = small_history(tmp_path / "claw.db")
    with Lossless.open(tmp_path / "whole.db", settings=Settings(large_files_dir=str(tmp_path / "f"))) as whole:
        assert move_in(whole, path).verified
        expected = state(whole)
    source, store, wait, cut = recognise(path), lcm._store, 1, 0
    while True:
        left = wait

        def failing(verb: Callable[..., object]) -> Callable[..., object]:
            def fails(*arguments: object, **named: object) -> object:
                nonlocal left
                left -= 1
                if left == 0:
                    raise Fault
                return verb(*arguments, **named)

            return fails

        with monkeypatch.context() as patch:
            for name in ("run", "insert", "index", "remember_events", "all"):
                patch.setattr(store, name, failing(getattr(store, name)))
            try:
                done = apply(lcm, source)
                break
            except Fault:
                cut, wait = cut + 1, wait + 1
    assert cut > 30
    assert done.verified
    assert state(lcm) == expected
    assert store.check_search() == []
    assert apply(lcm, source).histories == ()
    source.close()


def test_what_was_begun_is_said_and_nobody_goes_on_with_it(
    lcm: Lossless, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(foreign_history, "BATCH", 4)
    source = recognise(small_history(tmp_path / "claw.db"))

    def stop(_key: str, done: int, _all: int) -> None:
        if done == 8:
            raise Fault

    plan = foreign_history.plan(lcm._store, source)
    with pytest.raises(Fault):
        foreign_history.apply(
            lcm._store, lcm._files, lambda key, at: lcm.conversation(key, at)._intake, source, plan, stop
        )
    assert lcm._store.conversations.active("k") is None
    assert [each.state for each in foreign_history.plan(lcm._store, source).histories] == ["begun"]
    assert apply(lcm, source).histories[0].active
    source.close()


def test_a_source_that_changed_under_a_begun_import_is_refused(
    lcm: Lossless, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = small_history(tmp_path / "claw.db")
    begun = recognise(path)
    monkeypatch.setattr(foreign_history, "BATCH", 4)
    with pytest.raises(Fault), monkeypatch.context() as patch:
        patch.setattr(foreign_history, "_finish", lambda *_: (_ for _ in ()).throw(Fault()))
        apply(lcm, begun)
    begun.close()
    owner = apsw.Connection(str(path))
    owner.execute("DELETE FROM messages WHERE message_id = 3")
    owner.execute("UPDATE messages SET seq = seq + 100 WHERE message_id = 9")
    owner.close()
    source = recognise(path)
    with pytest.raises(InvalidInput, match="changed since its import was interrupted"):
        apply(lcm, source)
    source.close()


def test_a_key_in_use_stays_with_whoever_uses_it(lcm: Lossless, tmp_path: Path) -> None:
    lcm.conversation("k").ingest([Message.user("mine")])
    done = move_in(lcm, small_history(tmp_path / "claw.db"))
    assert (done.verified, done.histories[0].active) == (True, False)
    mine, came = lcm._store.conversations.family("k")
    assert (mine.active, mine.messages, came.active, came.archive_cause) == (True, 1, False, "import")
    assert [m.text for m in lcm.conversation("k").messages()] == ["mine"]
    assert [hit.snippet for hit in lcm.conversation("k").grep("word 3")] == ["word 3"]


def test_messages_that_came_later_are_told_and_not_merged(lcm: Lossless, tmp_path: Path) -> None:
    path = small_history(tmp_path / "claw.db")
    move_in(lcm, path)
    old = OldClaw(path, "SELECT 1")
    old.say(1, "too late")
    again = move_in(lcm, old.close())
    assert again.histories == ()
    assert again.unmapped == ("k has 1 messages that are newer than the import; they are not imported.",)


def test_two_owners_import_the_same_database(database: str, tmp_path: Path) -> None:
    path = small_history(tmp_path / "claw.db")
    settings = Settings(large_files_dir=str(tmp_path / "f"))
    with (
        Lossless.open(database, settings=settings, owner="ann") as ann,
        Lossless.open(database, settings=settings, owner="bob") as bob,
    ):
        assert move_in(ann, path).histories[0].changed == ("2 items were in no context; they are listed beside it.",)
        done = move_in(bob, path)
        assert done.verified
        assert "3 summaries got a new id: theirs was in use, or invalid." in done.histories[0].changed
        assert len(ann.conversations()) == len(bob.conversations()) == 1


def test_a_plan_for_another_source_is_refused(lcm: Lossless, tmp_path: Path) -> None:
    one, other = recognise(CLAW), recognise(small_history(tmp_path / "claw.db"))
    plan = foreign_history.plan(lcm._store, one)
    with pytest.raises(InvalidInput, match="another source"):
        foreign_history.apply(lcm._store, lcm._files, lambda key, at: lcm.conversation(key, at)._intake, other, plan)
    one.close()
    other.close()


def test_messages_under_one_event_id_are_all_kept(lcm: Lossless, tmp_path: Path) -> None:
    old = OldClaw(tmp_path / "claw.db", CLAW_06)
    old.run("ALTER TABLE messages ADD COLUMN transcript_entry_id TEXT")
    one = old.conversation()
    old.show(one, *old.say(one, "a", "b", "c"))
    old.run("UPDATE messages SET transcript_entry_id = 'e'")
    done = move_in(lcm, old.close())
    assert done.verified
    stored = lcm.conversation("s").messages()
    assert [(m.text, m.event_id) for m in stored] == [("a", "e"), ("b", "e#2"), ("c", "e#3")]


def shown(lcm: Lossless, old: OldClaw) -> tuple[list[int | str], str]:
    """What the context is after the import, by the first seq or the text of each item; and what was changed."""
    done = move_in(lcm, old.close())
    (came,) = done.histories
    assert done.verified
    texts = {each.id: each.public_id[-1] for each in lcm._store.summaries.read(came.conversation)}
    items = lcm._store.context.items(came.conversation)
    return [texts[item.summary_id] if item.summary_id else item.ordinal for item in items], " ".join(came.changed)


def test_a_message_under_two_leaves_is_shown_once(lcm: Lossless, old: OldClaw) -> None:
    one = old.conversation()
    said = old.say(one, *"abcde")
    old.show(one, old.leaf(one, "sum_1a", said[:3]), old.leaf(one, "sum_1b", said[2:4]), said[4])
    assert shown(lcm, old)[0] == ["a", 4, 5]


def test_a_leaf_with_others_between_its_messages_steps_aside(lcm: Lossless, old: OldClaw) -> None:
    one = old.conversation()
    said = old.say(one, *"abcdef")
    torn = old.leaf(one, "sum_1a", [said[0], said[1], said[4]])
    whole = old.leaf(one, "sum_1b", [said[5]])
    top = old.condensed(one, "sum_1c", [torn, whole])
    old.show(one, top, said[2], said[3])
    items, changed = shown(lcm, old)
    assert items == [1, 2, 3, 4, 5, "b"]
    assert "with others between them" in changed


def test_a_leaf_around_what_left_the_context_stays(lcm: Lossless, old: OldClaw) -> None:
    one = old.conversation()
    said = old.say(one, *"abcd")
    old.show(one, old.leaf(one, "sum_1a", [said[0], said[2]]), said[3])
    assert shown(lcm, old)[0] == ["a", 4]


def test_what_is_below_a_summary_is_not_shown_beside_it(lcm: Lossless, old: OldClaw) -> None:
    one = old.conversation()
    said = old.say(one, *"abcd")
    leaf = old.leaf(one, "sum_1a", said[:2])
    top = old.condensed(one, "sum_1b", [leaf])
    old.show(one, leaf, said[1], top, said[3], said[2])
    items, changed = shown(lcm, old)
    assert items == ["b", 3, 4]
    assert "also" not in changed
    assert "were in the context and below a summary" in changed
    assert "in another order" in changed


House: TypeAlias = tuple[dict[str, Node], list[LayoutEntry], list[int]]


@st.composite
def houses(draw: st.DrawFn) -> House:
    """Messages, summaries over any of them and of each other, and any context of it all."""
    last = draw(st.integers(1, 12))
    seqs = list(range(1, last + 1))
    nodes: dict[str, Node] = {}
    for number in range(draw(st.integers(0, 7))):
        deeper = draw(st.booleans())
        if nodes and deeper:
            below = draw(st.lists(st.sampled_from(sorted(nodes)), min_size=1, max_size=3))
            nodes[f"s{number}"] = Node((), tuple(below))
        else:
            nodes[f"s{number}"] = Node(tuple(sorted(draw(st.sets(st.sampled_from(seqs))))), ())
    everything: list[LayoutEntry] = [*seqs, *nodes]
    entries = st.lists(st.sampled_from(everything), max_size=15)
    return nodes, draw(entries), draw(st.lists(st.sampled_from(seqs), unique=True))


@given(houses())
def test_any_house_finds_its_places(house: House) -> None:
    """Everything shown or listed, expanded, is every message that may be shown exactly once; the context is in order."""
    nodes, entries, seqs = house
    found = layout(nodes, entries, [], seqs)

    def below(entry: LayoutEntry) -> list[int]:
        if isinstance(entry, int):
            return [entry]
        node = nodes[entry]
        return [*node.seqs, *(seq for each in node.sources for seq in below(each))]

    context = [seq for place in found.context for seq in sorted(below(place.entry))]
    aside = [seq for place in found.aside for seq in below(place.entry)]
    assert context == sorted(context)
    assert len(set(context + aside)) == len(context + aside)
    assert set(seqs) <= set(context + aside)
    assert all(isinstance(place.entry, str) or place.entry in seqs for place in [*found.context, *found.aside])


def test_an_archive_of_ours_comes_through_the_same_door(lcm: Lossless, tmp_path: Path) -> None:
    with Lossless.open(tmp_path / "whole.db", settings=Settings(large_files_dir=str(tmp_path / "f"))) as whole:
        move_in(whole, small_history(tmp_path / "claw.db"))
        expected = state(whole)
        archive = tmp_path / "all.zip"
        export(whole._store, whole._files, archive, replace=False, now=datetime(2026, 1, 1, tzinfo=UTC))
    source = recognise(archive)
    assert [each.state for each in foreign_history.plan(lcm._store, source).histories] == ["new"]
    done = apply(lcm, source)
    assert (done.verified, [each.messages for each in done.histories]) == (True, [9])
    assert state(lcm) == expected
    assert [each.state for each in foreign_history.plan(lcm._store, source).histories] == ["here"]
    assert apply(lcm, source).histories == ()
    source.close()
