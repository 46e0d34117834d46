"""What hermes-lcm and lcm-x kept is here, as it was."""

from __future__ import annotations

from pathlib import Path

import apsw
import pytest

from lossless import Lossless, ToolCall
from lossless.errors import SchemaTooNew
from lossless.formats import openai_chat
from lossless.imports import recognise
from tests.imports.databases import HERMES, HERMES_04, OldHermes, in_wal_mode, move_in


@pytest.fixture
def old(tmp_path: Path) -> OldHermes:
    return OldHermes(tmp_path / "hermes.db", HERMES_04)


def test_a_real_database_comes_in_whole(lcm: Lossless) -> None:
    done = move_in(lcm, HERMES)
    (came,) = done.histories
    assert (came.key, came.messages, came.summaries, came.active, done.verified) == ("conv", 601, 11, True, True)
    database = apsw.Connection(f"{HERMES.as_uri()}?immutable=1", flags=apsw.SQLITE_OPEN_READONLY | apsw.SQLITE_OPEN_URI)
    rows = database.execute("SELECT role, content FROM messages ORDER BY store_id").fetchall()
    stored = lcm.conversation("conv").messages()
    assert [(m.role, m.text) for m in stored] == rows
    assert [m.event_id for m in stored[:2]] == ["hermes:1", "hermes:2"]
    texts = [text for (text,) in database.execute("SELECT summary FROM summary_nodes")]
    assert sorted(each.text for each in lcm._store.summaries.read(came.conversation)) == sorted(texts)
    assert lcm._store.check_search() == []


def test_what_no_summary_was_made_from_is_shown_and_nothing_twice(lcm: Lossless) -> None:
    """The system prompt stands before everything, then the summaries of what was said, then what was said last."""
    (came,) = move_in(lcm, HERMES).histories
    items = lcm._store.context.items(came.conversation)
    assert [item.ordinal for item in items] == [1, 2, 227, 437, *range(525, 602)]
    assert [item.depth for item in items[:4]] == [-1, 1, 1, 0]
    assert lcm._store.context.detached(came.conversation) == []


def test_a_second_import_does_nothing_and_leaves_nothing_behind(lcm: Lossless, tmp_path: Path) -> None:
    path = in_wal_mode(HERMES, tmp_path)
    assert move_in(lcm, path).verified
    assert move_in(lcm, path).histories == ()
    assert move_in(lcm, HERMES).histories == (), "a copy is the same database"


def test_a_call_and_its_result_go_out_as_they_came(lcm: Lossless) -> None:
    move_in(lcm, HERMES)
    call, result = (stored.message for stored in lcm.conversation("conv").messages(after=2, limit=2))
    assert any(isinstance(part, ToolCall) for part in call.parts)
    said = openai_chat.dump([call, result])["messages"]
    assert said[0]["tool_calls"][0]["function"] == {"name": "read_file", "arguments": '{"path": "src/1.py"}'}
    assert said[1]["tool_call_id"] == "call_1"


def test_summaries_carried_over_keep_what_they_were_made_from(lcm: Lossless, old: OldHermes) -> None:
    first = old.say("monday", "a", "b", "c")
    leaf = old.node("monday", first[:2])
    old.node("tuesday", [leaf], of="nodes", depth=1, summary="Monday.", expand_hint="Expand for: b")
    old.say("tuesday", "d")
    old.say("other", "x")
    old.add(
        "lcm_lifecycle_state", conversation_id="week", current_session_id="tuesday", last_finalized_session_id="monday"
    )
    done = move_in(lcm, old.close())
    assert [(each.key, each.messages, each.active) for each in done.histories] == [
        ("week", 4, True),
        ("other", 1, True),
    ]
    assert done.verified
    assert any("monday, tuesday share summaries" in each for each in done.unmapped)
    number = done.histories[0].conversation
    assert [(item.ordinal, item.depth) for item in lcm._store.context.items(number)] == [(1, 1), (4, -2)]
    assert [(item.ordinal, cause) for item, cause, _ in lcm._store.context.detached(number)] == [(3, "import")]
    (upper,) = [each for each in lcm._store.summaries.read(number) if each.depth == 1]
    assert upper.text == "Monday.\n\nExpand for: b"
    assert "Monday." in lcm.describe(upper.public_id).text


def test_a_session_that_is_over_is_archived(lcm: Lossless, old: OldHermes) -> None:
    old.say("monday", "a")
    old.say("tuesday", "b")
    old.add(
        "lcm_lifecycle_state", conversation_id="week", current_session_id="tuesday", last_finalized_session_id="monday"
    )
    done = move_in(lcm, old.close())
    assert [(each.key, each.active) for each in done.histories] == [("week", False), ("week", True)]
    assert [row.session for row in lcm._store.conversations.family("week")] == ["tuesday", "monday"]


def test_pinned_messages_are_not_the_operators_word_unless_they_are_trusted(lcm: Lossless, old: OldHermes) -> None:
    old.say("s", "never deploy on Fridays", pinned=1)
    (done,) = move_in(lcm, old.close()).histories
    assert lcm.conversation("s").pins() == []
    assert "1 pinned messages were not pinned" in " ".join(done.changed)


def test_pinned_messages_are_pins(lcm: Lossless, old: OldHermes) -> None:
    old.say("s", "never deploy on Fridays", pinned=1)
    old.say("s", "fine")
    assert move_in(lcm, old.close(), trust_pins=True).verified
    (pin,) = lcm.conversation("s").pins()
    assert pin.text == "never deploy on Fridays"
    assert "Fridays" in lcm.conversation("s").assemble(10_000).messages[0].text


def test_damage_costs_only_what_is_damaged(lcm: Lossless, old: OldHermes) -> None:
    said = old.say("s", "a", "b")
    old.say("s", "", tool_calls="{not json")
    old.node("s", said, source_ids="nonsense")
    old.node("s", said[:1], source_ids='[1, "2", 77]')
    old.node("s", [5], of="nodes")
    done = move_in(lcm, old.close())
    assert done.verified
    assert sum("not written as a list of numbers" in each for each in done.unmapped) == 2
    assert "{not json" in lcm.conversation("s").messages()[2].text
    number = done.histories[0].conversation
    assert [item.depth for item in lcm._store.context.items(number)] == [0, -2, -2]


def test_what_a_newer_version_added_is_listed_and_what_it_renamed_is_refused(lcm: Lossless, old: OldHermes) -> None:
    old.say("s", "a")
    old.run("CREATE TABLE assertions (quote TEXT)")
    old.run("INSERT INTO assertions VALUES ('a')")
    old.run("UPDATE metadata SET value = '31'")
    done = move_in(lcm, old.path)
    assert done.verified
    assert [each.split(" is unknown")[0] for each in done.unmapped] == ["The table assertions"]
    old.run("ALTER TABLE summary_nodes RENAME COLUMN source_ids TO parents")
    with pytest.raises(SchemaTooNew, match=r"no summary_nodes\.source_ids"):
        recognise(old.close())
