"""What lossless-claw kept is here, as it was, whatever version kept it."""

from __future__ import annotations

import json
import os
from datetime import UTC, datetime
from pathlib import Path

import apsw
import pytest

from lossless import Conversation, Lossless, Message, ToolCall, ToolResult
from lossless.engine.import_history import foreign_history
from lossless.engine.shared.promise import promise_violations
from lossless.errors import InvalidInput, NotOurDatabase, SchemaTooNew, StoreBusy, StoreCorrupt, StoreUnavailable
from lossless.formats import openclaw
from lossless.imports import recognise
from tests.imports.databases import CLAW, CLAW_01, CLAW_06, OldClaw, in_wal_mode, move_in


@pytest.fixture
def old(tmp_path: Path) -> OldClaw:
    (tmp_path / "old").mkdir()
    return OldClaw(tmp_path / "old" / "lcm.db", CLAW_01)


def in_context(chat: Conversation) -> list[str | int]:
    """The items of a context: ids of summaries, seqs of messages."""
    store, row = chat._store, chat._store.conversations.active(chat.key)
    assert row is not None
    names = {each.id: each.public_id for each in store.summaries.read(row.id)}
    return [names[item.summary_id] if item.summary_id else item.ordinal for item in store.context.items(row.id)]


def test_a_real_database_comes_in_whole(lcm: Lossless) -> None:
    done = move_in(lcm, CLAW)
    (came,) = done.histories
    assert (came.messages, came.summaries, came.active, came.changed) == (600, 17, True, ())
    assert done.verified
    assert done.unmapped == ()
    chat, store = lcm.conversation("bench"), lcm._store
    stored, summaries = chat.messages(), store.summaries.read(came.conversation)
    links = [store.summaries.sources(came.conversation, each.id) for each in summaries]
    assert [sum(len(side) for side in sides) for sides in zip(*links, strict=True)] == [536, 13]
    assert len(store.context.items(came.conversation)) == 68
    database = apsw.Connection(f"{CLAW.as_uri()}?immutable=1", flags=apsw.SQLITE_OPEN_READONLY | apsw.SQLITE_OPEN_URI)
    rows = database.execute("SELECT role, content, created_at FROM messages ORDER BY seq").fetchall()
    assert [(m.role, m.text, f"{m.message.at:%Y-%m-%d %H:%M:%S}") for m in stored] == rows
    texts = dict(database.execute("SELECT summary_id, content FROM summaries"))
    assert {each.public_id: each.text for each in summaries} == texts
    facts = database.execute("SELECT summary_id, earliest_at, latest_at, descendant_count FROM summaries").fetchall()
    ours = {s.public_id: (s.earliest_at, s.latest_at, s.descendants) for s in summaries}
    assert ours == {n: (_micros(first), _micros(last), count) for n, first, last, count in facts}
    assert store.check_search() == []


def _micros(text: object) -> int:
    return int(datetime.fromisoformat(str(text)).timestamp() * 1_000_000)


def test_every_message_is_reached_from_the_context(lcm: Lossless) -> None:
    move_in(lcm, CLAW)
    chat = lcm.conversation("bench")
    row = lcm._store.conversations.active("bench")
    assert row

    def below(summary_id: int) -> list[int]:
        seqs, sources = lcm._store.summaries.sources(row.id, summary_id)
        return seqs + [seq for each in sources for seq in below(each)]

    items = lcm._store.context.items(row.id)
    reached = [seq for item in items for seq in (below(item.summary_id) if item.summary_id else [item.ordinal])]
    assert reached == [m.seq for m in chat.messages()] == list(range(1, 601))
    assert "sum_20a50d347b312350" in chat.describe("sum_5a6018f2ed97bf88").text
    assert chat.assemble(200_000).messages


def test_a_second_import_does_nothing(lcm: Lossless) -> None:
    first = move_in(lcm, CLAW)
    before = lcm._store.conversations.of_owner(), lcm._store.context.items(first.histories[0].conversation)
    again = move_in(lcm, CLAW)
    assert again.histories == ()
    assert again.verified
    assert (lcm._store.conversations.of_owner(), lcm._store.context.items(first.histories[0].conversation)) == before


def test_a_plan_says_what_would_come_and_writes_nothing(lcm: Lossless) -> None:
    source = recognise(CLAW)
    plan = foreign_history.plan(lcm._store, source)
    (planned,) = plan.histories
    assert (plan.system, plan.version, planned.key, planned.state, planned.active) == (
        "lossless-claw",
        "0.15",
        "bench",
        "new",
        True,
    )
    assert (planned.messages, planned.summaries, planned.files) == (600, 17, 0)
    assert lcm._store.conversations.of_owner() == []
    source.close()


def test_a_database_in_use_is_read_and_left_alone(lcm: Lossless, tmp_path: Path) -> None:
    """In its owner's mode nothing is left beside it; what the owner has not put into the file yet comes too."""
    path = in_wal_mode(CLAW, tmp_path)
    source = recognise(path)
    owner = apsw.Connection(str(path))
    owner.execute("DELETE FROM context_items")
    assert len(list(source.items(source.histories()[0]))) == 68, "one moment is read, whatever its owner does"
    source.close()
    owner.execute("INSERT INTO conversations (session_id) VALUES ('later')")
    source = recognise(path)
    assert [each.key for each in source.histories()] == ["bench", "later"]
    source.close()
    owner.close()
    assert [each.name for each in tmp_path.glob("lossless-claw*")] == [path.name]
    assert move_in(lcm, path).verified


def test_the_hosts_own_blocks_come_back_verbatim(lcm: Lossless) -> None:
    move_in(lcm, CLAW)
    stored = lcm.conversation("bench").messages(limit=3)
    call, result = stored[1].message, stored[2].message
    assert [type(part) for part in call.parts][1] is ToolCall
    assert isinstance(answer := result.parts[0], ToolResult)
    assert (answer.call_id, answer.name, answer.is_error) == ("call_1", "read_file", False)
    wire = openclaw.dump_message(call)
    assert wire["content"][1] == {
        "type": "toolCall",
        "id": "call_1",
        "name": "read_file",
        "arguments": {"path": "src/1.py"},
    }


def test_the_oldest_schema_has_its_ranges_counts_and_files_made_good(
    lcm: Lossless, old: OldClaw, tmp_path: Path
) -> None:
    one = old.conversation("tg:1")
    said = old.say(one, *(f"word {n}" for n in range(6)))
    low = old.leaf(one, "sum_00000000000000a1", said[:2])
    high = old.leaf(one, "sum_00000000000000a2", said[2:4])
    top = old.condensed(one, "sum_00000000000000a3", [low, high])  # depth and ranges were not kept in those days
    old.show(one, top, *said[4:])
    directory = old.path.parent / "lcm-files" / "1"
    directory.mkdir(parents=True)
    (directory / "file_0123456789abcdef.txt").write_text("line one\nline two\n")
    old.add(
        "large_files",
        file_id="file_0123456789abcdef",
        conversation_id=one,
        file_name="notes.txt",
        mime_type="text/plain",
        storage_uri="/home/somebody/.openclaw/lcm-files/1/file_0123456789abcdef.txt",
        exploration_summary="Two lines.",
        created_at="2025-03-01 10:00:01",
    )
    done = move_in(lcm, old.close())
    assert (done.verified, done.unmapped, done.histories[0].changed) == (True, (), ())
    chat = lcm.conversation("tg:1")
    assert in_context(chat) == [top, 5, 6]
    summary = chat.describe(top).summary
    assert summary is not None
    assert (summary.depth, summary.descendants) == (1, 2)
    assert summary.earliest_at == datetime(2025, 3, 1, 10, 0, 1, tzinfo=UTC)
    assert summary.latest_at == datetime(2025, 3, 1, 10, 0, 4, tzinfo=UTC)
    file = chat.describe("file_0123456789abcdef")
    assert "line two" in file.text
    assert file.file is not None
    assert (file.file.name, file.file.lines, file.file.summary) == ("notes.txt", 2, "Two lines.")
    assert [m.event_id for m in chat.messages(limit=2)] == ["claw:1", "claw:2"]


def test_families_archives_and_titles_come_with_them(lcm: Lossless, tmp_path: Path) -> None:
    old = OldClaw(tmp_path / "claw.db", CLAW_06)
    for session, active, title in (("a", 0, "first"), ("b", 1, "second")):
        archived = None if active else "2025-03-01 12:00:00"
        number = old.conversation(session, session_key="main", active=active, title=title, archived_at=archived)
        old.show(number, *old.say(number, f"in {title}"))
    done = move_in(lcm, old.close())
    assert [(each.key, each.active) for each in done.histories] == [("main", False), ("main", True)]
    newest, oldest = lcm._store.conversations.family("main")
    assert (newest.title, newest.session, newest.archived_at) == ("second", "b", None)
    assert (oldest.title, oldest.session, oldest.archive_cause) == ("first", "a", None)
    assert oldest.archived_at == _micros("2025-03-01 12:00:00+00:00")
    assert lcm._store.conversations.sessions(oldest.id) == ["a"]
    assert [hit.snippet for hit in lcm.conversation("main").grep("in first")] == ["in first"]


def test_parts_without_the_hosts_blocks_say_what_their_columns_say(lcm: Lossless, old: OldClaw) -> None:
    one = old.conversation()
    asked, answered, patched = old.say(one, "", "", "changed it")
    part = {"session_id": "s", "ordinal": 0}
    old.add("message_parts", part_id="1", message_id=asked, part_type="reasoning", text_content="hm", **part)
    call = {"tool_call_id": "c1", "tool_name": "ls", "tool_input": '{"path": "."}'}
    old.add("message_parts", part_id="2", message_id=asked, part_type="tool", **part | {"ordinal": 1}, **call)
    old.run("UPDATE messages SET role = 'assistant' WHERE message_id = ?", asked)
    old.run("UPDATE messages SET role = 'tool' WHERE message_id = ?", answered)
    old.add(
        "message_parts",
        part_id="3",
        message_id=answered,
        part_type="tool",
        tool_call_id="c1",
        tool_output="a b",
        **part,
    )
    old.add("message_parts", part_id="4", message_id=patched, part_type="patch", patch_files='["a.py"]', **part)
    old.show(one, asked, answered, patched)
    assert move_in(lcm, old.close()).verified
    first, second, third = (stored.message for stored in lcm.conversation("s").messages())
    assert [type(part).__name__ for part in first.parts] == ["Reasoning", "ToolCall"]
    assert json.loads(first.parts[1].arguments) == {"path": "."}  # type: ignore[union-attr]  # the line above says so
    assert isinstance(result := second.parts[0], ToolResult)
    assert (result.call_id, second.text) == ("c1", "a b")
    assert "a.py" in str(third.parts)


def test_what_has_no_place_is_listed(lcm: Lossless, old: OldClaw) -> None:
    one = old.conversation()
    said = old.say(one, "a", "b", "c", "d")
    old.leaf(one, "sum_00000000000000b1", [])
    old.leaf(one, "sum_00000000000000b2", [said[0], 99])
    old.condensed(one, "sum_00000000000000b3", ["sum_00000000000000b2", "sum_gone"])
    old.show(one, "sum_00000000000000b3", said[1], said[1], 98, "sum_nowhere")
    old.say(7, "of nobody")
    old.add("message_parts", part_id="x", message_id=97, session_id="s", part_type="text", ordinal=0)
    done = move_in(lcm, old.close())
    came, lost = done.histories
    assert (done.verified, came.messages, lost.key, lost.active) == (True, 4, "lossless-claw:7", False)
    told = " ".join(came.changed)
    for sentence in (
        "2 links",
        "2 items of the context named something missing",
        "1 items were in the context twice",
        "no existing source",
        "2 items were in no",
    ):
        assert sentence in told
    assert any("parts of messages that are missing" in each for each in done.unmapped)
    chat = lcm.conversation("s")
    assert in_context(chat) == ["sum_00000000000000b3", 2]
    assert [item.ordinal for item, cause, _ in lcm._store.context.detached(came.conversation) if cause == "import"] == [
        3,
        4,
    ]
    assert chat.describe("sum_00000000000000b1").text


def test_no_file_outside_the_files_directory_is_read(lcm: Lossless, old: OldClaw, tmp_path: Path) -> None:
    secret = tmp_path / "secret.txt"
    secret.write_text("nobody's business")
    one = old.conversation()
    old.show(one, *old.say(one, "a"))
    root = old.path.parent / "lcm-files"
    (root / "1").mkdir(parents=True)
    os.symlink(secret, root / "1" / "link.txt")
    os.mkfifo(root / "1" / "pipe.txt")
    uris = [str(secret), f"file://{secret}", "1/../../../secret.txt", str(root / "1" / "link.txt"), "1/pipe.txt", "\0"]
    for number, uri in enumerate(uris, 1):
        old.add(
            "large_files",
            file_id=f"file_{number}",
            conversation_id=one,
            byte_size=17,
            storage_uri=uri,
            exploration_summary="A secret.",
        )
    done = move_in(lcm, old.close())
    assert [each.split(" are not in")[0] for each in done.unmapped] == [
        f"The bytes of file_{number}" for number in range(1, len(uris) + 1)
    ]
    assert not any("nobody" in path.read_text() for path in lcm._files.root.glob("*/*"))
    known = lcm.conversation("s").describe("file_1")
    assert "A secret." in known.text
    assert "cannot be read" in known.text


def test_sources_that_lead_back_to_themselves_end(lcm: Lossless, old: OldClaw) -> None:
    one = old.conversation()
    said = old.say(one, "a", "b")
    old.leaf(one, "sum_00000000000000c1", said[:1])
    old.condensed(one, "sum_00000000000000c2", ["sum_00000000000000c1", "sum_00000000000000c3"], depth=1)
    old.condensed(one, "sum_00000000000000c3", ["sum_00000000000000c2"], depth=2)
    old.show(one, "sum_00000000000000c3", said[1])
    done = move_in(lcm, old.close())
    assert done.verified
    assert any("back to themselves" in each for each in done.histories[0].changed)


def test_a_schema_that_only_grew_is_read_and_one_that_changed_is_refused(lcm: Lossless, old: OldClaw) -> None:
    one = old.conversation()
    old.show(one, *old.say(one, "a"))
    old.run("ALTER TABLE messages ADD COLUMN mood TEXT")
    old.run("UPDATE messages SET mood = 'good'")
    old.run("CREATE TABLE moods (mood TEXT)")
    old.run("INSERT INTO moods VALUES ('good')")
    done = move_in(lcm, old.path)
    assert done.verified
    assert [each.split(" is unknown")[0] for each in done.unmapped] == ["The column messages.mood", "The table moods"]
    old.run("ALTER TABLE messages RENAME COLUMN content TO body")
    old.run("DROP TABLE summary_parents")
    with pytest.raises(SchemaTooNew, match=r"no summary_parents, messages\.content \(it has .*messages\.body"):
        recognise(old.close())


def test_what_cannot_be_imported_is_told_apart(lcm: Lossless, old: OldClaw, tmp_path: Path) -> None:
    (tmp_path / "text.db").write_text("not a database " * 100)
    with pytest.raises(StoreCorrupt, match="not an SQLite database, or it is encrypted"):
        recognise(tmp_path / "text.db")
    with pytest.raises(StoreUnavailable, match="no file"):
        recognise(tmp_path / "nothing.db")
    with Lossless.open(tmp_path / "ours.db") as ours:
        ours.status()
        with pytest.raises(InvalidInput, match="lcm migrate"):
            recognise(tmp_path / "ours.db")
    apsw.Connection(str(tmp_path / "empty.db")).execute("CREATE TABLE notes (text)").connection.close()
    with pytest.raises(NotOurDatabase, match="its tables: notes"):
        recognise(tmp_path / "empty.db")
    old.run("PRAGMA locking_mode = EXCLUSIVE")
    old.conversation()
    with pytest.raises(StoreBusy, match="import a copy"):
        recognise(old.path, patience_ms=10)


def test_a_damaged_database_says_so(lcm: Lossless, old: OldClaw) -> None:
    one = old.conversation()
    old.show(one, *old.say(one, *(f"word {n} " * 200 for n in range(200))))
    path = old.close()
    data = bytearray(path.read_bytes())
    data[8192 : len(data) - 8192] = os.urandom(len(data) - 16384)
    path.write_bytes(data)
    with pytest.raises(StoreCorrupt, match="is damaged"):
        move_in(lcm, path)


def test_the_promise_holds_for_what_was_imported_and_compacted_here(lcm: Lossless) -> None:
    (came,) = move_in(lcm, CLAW).histories
    chat = lcm.conversation("bench")
    chat.ingest([Message.user(f"And then {n}. " * 20) for n in range(100)])
    assert chat.compact(window=6_000, force=True).summaries
    assert promise_violations(lcm._store, came.conversation) == []
