"""Sessions of OpenClaw and pi: trees and plain sequences of messages."""

from __future__ import annotations

from collections import Counter
from datetime import UTC, datetime
from pathlib import Path

import pytest

from lossless.formats import openclaw
from lossless.transcripts import reader
from tests.fixtures import PI_SESSION, TRANSCRIPTS
from tests.transcripts.files import AT, SESSION, Line, pi, pi_session, put, read, said, shown, words

FLAT: Line = {"role": "user", "content": "hello"}


def test_a_session_of_old_is_read_whole() -> None:
    entries, header, tally = read(PI_SESSION)
    assert Counter(each.message.role for each in said(entries) if each.message) == {
        "assistant": 453,
        "tool": 373,
        "user": 88,
    }
    assert (tally.lines, tally.links, tally.malformed, tally.unknown) == (1_019, 105, 0, {})
    assert (header.named, header.key) == (False, "openclaw:d703a1a9-1b7b-4fb1-b512-c9738b1fe617")
    assert header.started_at == datetime(2025, 11, 20, 23, 33, 50, 805_000, UTC)
    assert [each.id for each in entries] == [f"{header.session}#{n}" for n in range(1, 915)]
    assert [each.parent for each in entries] == [None, *(each.id for each in entries[:-1])]
    assert tally.end == entries[-1].end == PI_SESSION.stat().st_size
    assert reader("openclaw").branch(PI_SESSION, header) is None


def test_a_tree_is_read_with_its_links() -> None:
    entries, header, tally = read(TRANSCRIPTS / "pi-v3.jsonl")
    assert [each.id for each in entries] == [
        "3a6e43b7",
        "844adb86",
        "a86b3f2c",
        "3cf7624f",
        "5f733cc0",
        "ec67335e",
        "4e7e6c3a",
        "ff6799eb",
    ]
    assert [each.parent for each in entries] == [None, *(each.id for each in entries[:-1])]
    assert [each.number for each in entries] == [0, 0, 1, 2, 3, 4, 5, 6]
    assert (tally.lines, tally.links) == (9, 3)
    assert (header.session, header.directory) == ("01a1e05e-e473-74a0-b8aa-1bd0e9a4ebf5", "/home/dev/project")
    message = entries[2].message
    assert message
    assert message.at == datetime(2026, 11, 15, 18, 1, 18, 227_000, UTC)
    assert message.event_id == "a86b3f2c"


def test_a_message_tells_its_time_before_its_line_does(tmp_path: Path) -> None:
    bare = {"type": "message", "id": "b", "parentId": "a", "timestamp": AT, "message": FLAT}
    late = bare | {"id": "c", "message": FLAT | {"createdAt": "2026-01-02T03:04:05+01:00"}}
    none = bare | {"id": "d", "timestamp": "yesterday"}
    entries, _, _ = read(put(tmp_path / "x.jsonl", pi_session(), pi("a", None, "x"), bare, late, none))
    assert [(each.message.at, each.own_time) for each in entries if each.message] == [
        (datetime(2026, 11, 15, 18, 1, 18, 227_000, UTC), True),
        (datetime(2026, 11, 16, 1, 31, 23, 721_000, UTC), False),
        (datetime(2026, 1, 2, 2, 4, 5, tzinfo=UTC), True),
        (None, False),
    ]


def test_summaries_of_the_program_are_no_messages_and_its_extensions_messages_are(tmp_path: Path) -> None:
    chain = {"timestamp": AT}
    compaction = {"type": "compaction", "id": "b", "parentId": "a", "summary": "s", "firstKeptEntryId": "a", **chain}
    summary = {"type": "branch_summary", "id": "c", "parentId": "b", "fromId": "a", "summary": "s", **chain}
    custom = {"type": "custom_message", "id": "d", "parentId": "c", "customType": "note", "content": "mind", **chain}
    strange = {"type": "hologram", "id": "e", "parentId": "d", "message": FLAT, **chain}
    state = {"type": "custom", "id": "f", "parentId": "e", "customType": "note", "data": {}, **chain}
    lines = [pi_session(), pi("a", None, "hello"), compaction, summary, custom, strange, state, pi("g", "f", "bye")]
    path = put(tmp_path / "x.jsonl", *lines)
    entries, _, tally = read(path)
    assert words(entries) == [("user", "hello"), ("custom", "mind"), ("user", "bye")]
    assert [each.id for each in entries] == list("abcdefg")
    assert (tally.boundaries, tally.links, tally.unknown) == (2, 2, {"hologram": 1})
    assert shown(path) == ["hello", "mind", "bye"]


def test_every_way_to_write_a_line(tmp_path: Path) -> None:
    uuid = {"type": "message", "uuid": "u", "parentUuid": "a", "message": FLAT}
    lines = [pi("a", None, "x"), uuid, {"type": "message", "message": FLAT}, FLAT, {"type": "message", **FLAT}]
    entries, header, _ = read(put(tmp_path / "x.jsonl", *lines))
    made = header.session
    assert made.startswith("x-")
    assert [(each.id, each.parent) for each in entries] == [
        ("a", None),
        ("u", "a"),
        (f"{made}#3", f"{made}#2"),
        (f"{made}#4", f"{made}#3"),
        (f"{made}#5", f"{made}#4"),
    ]


@pytest.mark.parametrize("message", [None, "words", [1], {}, {"role": 7, "content": "x"}])
def test_a_message_that_is_none_is_counted_and_stays_a_link(tmp_path: Path, message: object) -> None:
    broken = {"type": "message", "id": "b", "parentId": "a", "message": message}
    path = put(tmp_path / "x.jsonl", pi_session(), pi("a", None, "one"), broken, pi("c", "b", "two"))
    entries, _, tally = read(path)
    assert ([each.id for each in entries], tally.malformed) == (["a", "b", "c"], 1)
    assert shown(path) == ["one", "two"]


def test_what_the_quick_way_declines_is_read_all_the_same(tmp_path: Path) -> None:
    picture = {"role": "user", "content": [{"type": "image", "data": "aGk=", "mimeType": "image/png"}], "timestamp": 1}
    line = {"type": "message", "id": "a", "parentId": None, "message": picture}
    entries, _, _ = read(put(tmp_path / "x.jsonl", pi_session(), line))
    assert entries[0].message
    assert openclaw.dump_message(entries[0].message) == picture


def tree(*links: tuple[str, str | None]) -> list[Line]:
    return [pi_session(), *(pi(name, parent, name) for name, parent in links)]


@pytest.mark.parametrize(
    ("links", "seen"),
    [
        pytest.param([("a", None), ("b", "a"), ("c", "b")], "abc", id="no branch"),
        pytest.param([("a", None), ("b", "a"), ("c", "a"), ("d", "c")], "acd", id="a branch left behind"),
        pytest.param([("a", None), ("b", None), ("c", "b")], "bc", id="two roots"),
        pytest.param([("a", None), ("b", "a"), ("c", "b"), ("d", "x")], "abcd", id="a parent that is not there"),
        pytest.param([("a", "b"), ("b", "a")], "ab", id="a cycle"),
        pytest.param([("a", "a")], "a", id="its own parent"),
        pytest.param([("a", None), ("b", "a"), ("a", "b"), ("c", "a")], "abac", id="the same id twice"),
    ],
)
def test_the_branch_leads_to_the_newest_entry(tmp_path: Path, links: list[tuple[str, str | None]], seen: str) -> None:
    assert shown(put(tmp_path / "x.jsonl", *tree(*links))) == list(seen)


def test_one_entry_without_an_id_makes_the_tree_flat(tmp_path: Path) -> None:
    path = put(tmp_path / "x.jsonl", *tree(("a", None), ("b", "a"), ("c", "a")), FLAT)
    assert shown(path) == ["a", "b", "c", "hello"]


def test_a_fork_knows_what_it_was_forked_from(tmp_path: Path) -> None:
    _, header, _ = read(put(tmp_path / "x.jsonl", pi_session(parentSession="older.jsonl"), pi("a", None, "x")))
    assert (header.session, header.parent_session) == (SESSION, "older.jsonl")
