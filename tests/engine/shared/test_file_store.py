"""Large content leaves the row, is found again by id, and comes back as it was."""

from __future__ import annotations

import base64
import hashlib
import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lossless import File, Lossless, Message, Opaque, Settings, Text, ToolCall, ToolResult
from lossless.client import Conversation
from lossless.engine.ingest import large_content
from lossless.engine.shared.file_store import Files
from lossless.errors import FileUnavailable, InvalidInput, NotFound
from lossless.events import Event
from lossless.model import Part
from lossless.tokens import estimate
from tests import strategies

THRESHOLD = 1000
PNG = base64.b64encode(b"\x89PNG\r\n\x1a\n" + bytes(range(256)) * 4).decode()


def lines(count: int) -> str:
    return "\n".join(f"line {n} of the report" for n in range(count))


def text_of(tokens: int) -> str:
    """A text of exactly so many tokens."""
    text = "word " * (tokens * 2)
    while estimate(text) > tokens:
        text = text[:-1]
    assert estimate(text) == tokens
    return text


@pytest.fixture
def lcm(tmp_path: Path) -> Iterator[Lossless]:
    with Lossless.open(tmp_path / "lcm.db", settings=Settings(large_file_token_threshold=THRESHOLD)) as lcm:
        yield lcm


@pytest.fixture
def chat(lcm: Lossless) -> Conversation:
    return lcm.conversation("k")


def stored_files(tmp_path: Path) -> list[Path]:
    return [path for path in (tmp_path / "lcm-files").rglob("*") if path.is_file()]


def view(chat: Conversation) -> str:
    return chat.context().messages[-1].text


def file_id(text: str) -> str:
    return text[text.index("file_") :][:29]


@pytest.mark.parametrize(("tokens", "leaves"), [(THRESHOLD - 1, False), (THRESHOLD, True), (THRESHOLD + 1, True)])
def test_raw_text_leaves_from_the_threshold_on(chat: Conversation, tokens: int, leaves: bool) -> None:
    text = text_of(tokens)
    chat.ingest([Message.user(text)])
    assert view(chat).startswith("[LCM Raw Payload: file_") is leaves
    assert chat.messages()[0].text == text


@pytest.mark.parametrize(("tokens", "leaves"), [(THRESHOLD - 1, False), (THRESHOLD, True)])
def test_tool_results_leave_from_the_threshold_on(chat: Conversation, tokens: int, leaves: bool) -> None:
    message = Message.tool(text_of(tokens), call_id="c1", name="read", is_error=True)
    chat.ingest([message])
    shown = chat.context().messages[0]
    assert shown.text.startswith("[LCM Tool Output: file_") is leaves
    assert isinstance(shown.parts[0], ToolResult)
    assert (shown.parts[0].call_id, shown.parts[0].name, shown.parts[0].is_error) == ("c1", "read", True)
    assert chat.messages()[0].message == message


@pytest.mark.parametrize(("tokens", "leaves"), [(THRESHOLD - 100, False), (THRESHOLD, True)])
def test_file_blocks_leave_each_on_its_own(chat: Conversation, tokens: int, leaves: bool) -> None:
    block = f"<file name=\"notes.md\" mime='text/markdown'>{text_of(tokens)}</file>"
    text = f"look at this {block} and this <file name=small.txt>tiny</file> please"
    chat.ingest([Message.user(text)])
    assert ("[LCM File: file_" in view(chat)) is leaves
    assert "<file name=small.txt>tiny</file> please" in view(chat)
    assert chat.messages()[0].text == text
    if leaves:
        found = chat.files.show(file_id(view(chat)))
        assert (found.name, found.mime) == ("notes.md", "text/markdown")


def test_the_reference_says_what_is_in_it(chat: Conversation) -> None:
    chat.ingest([Message.tool(lines(4000), call_id="c", name="read")])
    assert f"{len(lines(4000)):,} bytes" in view(chat)
    assert "tool=read" in view(chat)
    assert "4,000 lines" in view(chat)
    assert estimate(view(chat)) < 400


def test_images_always_leave(chat: Conversation, tmp_path: Path) -> None:
    message = Message("user", (Text("see"), File("image/png", "a.png", PNG, extra={"openclaw": {"k": 1}})))
    chat.ingest([message])
    assert f"[User image: a.png (image/png, {len(base64.b64decode(PNG)):,} bytes) | LCM file: file_" in view(chat)
    assert chat.messages()[0].message == message
    assert [path.read_bytes() for path in stored_files(tmp_path)] == [base64.b64decode(PNG)]


def test_images_in_tool_results_leave(chat: Conversation) -> None:
    message = Message("tool", (ToolResult("c", (Text("shot"), File("image/png", None, PNG))),))
    chat.ingest([message])
    assert "[Tool image: unknown (image/png" in view(chat)
    assert chat.messages()[0].message == message


@pytest.mark.parametrize(
    "text",
    [
        PNG,
        f"data:image/png;base64,{PNG}",
        f"before ![x](data:image/png;base64,{PNG}) after",
        f"[media attached: shot.png]\n{PNG}\nwhat is it?",
        base64.b64encode(os.urandom(3000)).decode() + " trailing words",
    ],
)
def test_base64_in_text_leaves_and_comes_back(chat: Conversation, text: str) -> None:
    chat.ingest([Message.user(text)])
    assert "LCM file: file_" in view(chat)
    assert len(view(chat)) < 300
    assert chat.messages()[0].text == text


@pytest.mark.parametrize(
    "text", ["a" * 5000, "0123456789abcdef" * 200, "/".join(["usr", "lib"] * 200), "A" * 300 + "="]
)
def test_long_words_that_are_no_base64_stay(chat: Conversation, text: str) -> None:
    chat.ingest([Message.user(text[:1200])])
    assert view(chat) == text[:1200]


def test_base64_that_does_not_decode_stays_whole(chat: Conversation) -> None:
    message = Message("user", (File("image/png", None, "not base64 at all"),))
    chat.ingest([message])
    assert chat.messages()[0].message == message


def test_equal_bytes_are_stored_once(lcm: Lossless, tmp_path: Path) -> None:
    for key in ("one", "two"):
        lcm.conversation(key).ingest([Message.user(lines(4000)), Message.tool(lines(4000), call_id="c")])
    assert len(stored_files(tmp_path)) == 1


def test_calls_and_thinking_keep_their_message_whole(chat: Conversation) -> None:
    chat.ingest([Message("assistant", (Text(lines(4000)), ToolCall("c", "n", '{"a":1}')))])
    assert view(chat) == lines(4000)


def test_our_own_recall_is_not_put_away_again(chat: Conversation) -> None:
    chat.ingest([Message.tool(lines(4000), call_id="c", name="lcm_describe")])
    assert view(chat) == lines(4000)


def test_a_result_that_does_not_name_its_tool_gets_it_from_the_call(chat: Conversation) -> None:
    chat.ingest([Message("assistant", (ToolCall("c1", "read_log", "{}"),))])
    chat.ingest([Message.tool(lines(4000), call_id="c1")])
    assert "tool=read_log" in view(chat)
    chat.ingest(
        [Message("assistant", (ToolCall("c2", "lcm_describe", "{}"),)), Message.tool(lines(4000), call_id="c2")]
    )
    assert view(chat) == lines(4000)


def test_the_files_of_a_conversation_are_listed(chat: Conversation) -> None:
    assert chat.files() == []
    chat.ingest([Message.user(lines(4000)), Message("user", (File("image/png", "a.png", PNG),))])
    assert {found.mime for found in chat.files()} == {None, "image/png"}
    assert chat.files.show(chat.files()[0].id) == chat.files()[0]


def test_many_texts_leave_until_the_rest_is_small(chat: Conversation) -> None:
    message = Message("tool", (ToolResult("c", tuple(Text(text_of(600)) for _ in range(4))),))
    chat.ingest([message])
    assert view(chat).count("[LCM Tool Output:") == 3
    assert chat.messages()[0].message == message


def test_a_known_event_writes_no_file(chat: Conversation, tmp_path: Path) -> None:
    chat.ingest([Message.user("short", event_id="e")])
    chat.ingest([Message.user("short", event_id="e")])
    assert stored_files(tmp_path) == []


def test_bytes_and_lines_are_read_by_range(chat: Conversation) -> None:
    chat.ingest([Message.user(lines(4000))])
    which = file_id(view(chat))
    data = lines(4000).encode()
    assert chat.files.read(which) == data
    assert chat.files.read(which, 10, 20) == data[10:20]
    assert chat.files.read(which, len(data) - 3) == data[-3:]
    assert chat.files.read(which, 10**9) == b""
    assert chat.files.lines(which, 2, 3) == "line 1 of the report\nline 2 of the report\n"
    assert chat.files.lines(which, 3999) == "line 3998 of the report\nline 3999 of the report"
    assert chat.files.lines(which, 10**6) == ""
    assert chat.files.show(which).lines == 4000
    for bad in [(-1, 3), (5, 2)]:
        with pytest.raises(InvalidInput):
            chat.files.read(which, *bad)
    with pytest.raises(InvalidInput):
        chat.files.lines(which, 0)


@pytest.mark.parametrize("which", ["file_nope", "../../etc/passwd", "/etc/passwd", "file_\0", "", "\ud800", "sum_1"])
def test_unknown_ids_are_not_found(chat: Conversation, which: str) -> None:
    chat.ingest([Message.user("hi")])
    with pytest.raises(NotFound):
        chat.files.read(which)


def test_another_conversations_file_is_not_found(lcm: Lossless) -> None:
    mine = lcm.conversation("mine")
    mine.ingest([Message.user(lines(4000))])
    which = file_id(view(mine))
    theirs = lcm.conversation("theirs")
    theirs.ingest([Message.user("hi")])
    with pytest.raises(NotFound):
        theirs.files.read(which)


def test_a_lost_file_leaves_the_history_readable(tmp_path: Path) -> None:
    told: list[Event] = []
    with Lossless.open(
        tmp_path / "lcm.db", settings=Settings(large_file_token_threshold=THRESHOLD), on_event=told.append
    ) as lcm:
        chat = lcm.conversation("k")
        chat.ingest([Message.user("before"), Message.user(lines(4000)), Message.user("after")])
        for path in stored_files(tmp_path):
            path.unlink()
        texts = [m.text for m in chat.messages()]
        assert texts[0] == "before"
        assert texts[1].startswith("[LCM Raw Payload: file_")
        assert texts[2] == "after"
        assert [event.name for event in told] == ["file.unavailable"]
        with pytest.raises(FileUnavailable, match="cannot be read"):
            chat.files.read(file_id(texts[1]))


def test_links_planted_in_the_directory_lead_nowhere(chat: Conversation, tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text("secret")
    chat.ingest([Message.user(lines(4000))])
    which = file_id(view(chat))
    (path,) = stored_files(tmp_path)
    path.unlink()
    path.symlink_to(secret)
    with pytest.raises(FileUnavailable):
        chat.files.read(which)
    path.unlink()
    moved = path.parent.rename(tmp_path / "elsewhere")
    (moved / path.name).write_text("secret")
    path.parent.symlink_to(moved)
    with pytest.raises(FileUnavailable):
        chat.files.read(which)


def test_a_name_that_is_no_hash_is_refused(tmp_path: Path) -> None:
    for name in ("../../etc/passwd", "a" * 63, "A" * 64, "a" * 64 + "\n"):
        with pytest.raises(InvalidInput):
            Files(tmp_path).read(name)


def test_files_and_directories_are_for_their_owner_only(chat: Conversation, tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        chat.ingest([Message.user(lines(4000))])
    finally:
        os.umask(before)
    (path,) = stored_files(tmp_path)
    assert path.stat().st_mode & 0o777 == 0o600
    assert (tmp_path / "lcm-files").stat().st_mode & 0o777 == 0o700
    assert path.parent.stat().st_mode & 0o777 == 0o700


heavy_texts = st.sampled_from(
    [
        lines(300),
        f"x <file name='a'>{lines(300)}</file> y",
        f"<file>{lines(300)}\ud800</file>",
        f"look: data:image/png;base64,{PNG} !",
        PNG,
        "<file><file></file>" * 50,
        "\0" + lines(300),
    ]
)
heavy_parts: st.SearchStrategy[Part] = st.one_of(
    strategies.parts,
    st.builds(Text, heavy_texts, strategies.extras),
    st.builds(ToolResult, st.just("c"), st.lists(st.builds(Text, heavy_texts), max_size=3).map(tuple)),
    st.builds(File, st.just("image/png"), st.none(), st.just(PNG)),
)


@given(st.sampled_from(["user", "assistant", "tool"]), st.lists(heavy_parts, max_size=4).map(tuple))
def test_whatever_left_comes_back(role: str, parts: tuple[Part, ...]) -> None:
    message = Message(role, parts)
    shown, taken = large_content.extract(message, 500, {})
    kept = {payload.id: payload.data for payload in taken}
    assert large_content.restore(shown, kept.__getitem__) == message
    assert taken == [] or large_content.has_large_content(message, 500)


def test_unknown_parts_are_kept_as_they_are(chat: Conversation) -> None:
    message = Message("user", (Opaque("patch", {"hash": "abc", "files": ["a.py"], "n": 10**300, "x": None}),))
    chat.ingest([message])
    assert chat.messages()[0].message == message


@pytest.mark.parametrize("damage", ["truncated", "flipped", "directory"])
def test_a_damaged_file_is_told_and_never_taken_for_the_original(
    chat: Conversation, tmp_path: Path, damage: str
) -> None:
    chat.ingest([Message.user(lines(4000)), Message.user("after")])
    (path,) = stored_files(tmp_path)
    if damage == "truncated":
        path.write_bytes(path.read_bytes()[:10])
    elif damage == "flipped":
        path.write_bytes(b"\xff" + path.read_bytes()[1:])
    else:
        path.unlink()
        path.mkdir()
    assert chat.messages()[0].text.startswith("[LCM Raw Payload: file_")
    assert chat.messages()[1].text == "after"


def test_a_directory_that_was_there_keeps_its_mode(tmp_path: Path) -> None:
    shared = tmp_path / "shared"
    shared.mkdir()
    shared.chmod(0o1777)
    with Lossless.open(tmp_path / "lcm.db", settings=Settings(large_files_dir=str(shared))) as lcm:
        lcm.conversation("k").ingest([Message("user", (File("image/png", None, PNG),))])
    assert shared.stat().st_mode & 0o7777 == 0o1777


def test_ranges_beyond_the_end_are_empty_and_cost_nothing(chat: Conversation) -> None:
    chat.ingest([Message.user(lines(4000))])
    which = chat.files()[0].id
    assert chat.files.read(which, 0, 10**12) == lines(4000).encode()
    assert chat.files.read(which, 2**70) == b""
    assert chat.files.lines(which, 2**70) == ""


def _damage(path: Path, damage: str, outside: Path) -> None:
    """Spoil what lies under a payload's name in one way or another."""
    whole = path.read_bytes()
    if damage == "truncated":
        path.write_bytes(whole[:10])
    elif damage == "flipped":
        path.write_bytes(b"\xff" + whole[1:])
    elif damage == "link":
        outside.write_bytes(whole)
        path.unlink()
        path.symlink_to(outside)
    elif damage == "pipe":
        path.unlink()
        os.mkfifo(path)
    elif damage == "directory":
        path.unlink()
        (path / "inner").mkdir(parents=True)
    elif damage == "linked shard":
        path.parent.rename(outside)
        path.parent.symlink_to(outside)
    elif damage == "shard is a file":
        path.unlink()
        path.parent.rmdir()
        path.parent.write_bytes(b"")


DAMAGES = ["truncated", "flipped", "link", "pipe", "directory", "linked shard", "shard is a file"]


@pytest.mark.parametrize("damage", DAMAGES)
def test_the_right_bytes_replace_what_is_wrong_under_their_name(
    lcm: Lossless, chat: Conversation, tmp_path: Path, damage: str
) -> None:
    chat.ingest([Message.user(lines(4000))])
    (path,) = stored_files(tmp_path)
    _damage(path, damage, tmp_path / "outside")
    other = lcm.conversation("other")
    assert other.ingest([Message.user(lines(4000))]).stored == (1,)
    assert other.messages()[0].text == chat.messages()[0].text == lines(4000)
    assert not path.is_symlink()
    assert path.stat().st_mode & 0o777 == 0o600
    if damage in ("link", "linked shard"):
        assert (tmp_path / "outside").exists()


@pytest.mark.parametrize("event_id", ["e1", None])
@pytest.mark.parametrize("damage", ["missing", *(each for each in DAMAGES if each != "flipped")])
def test_a_known_message_that_comes_again_repairs_its_payload(
    tmp_path: Path, damage: str, event_id: str | None
) -> None:
    events: list[Event] = []
    settings = Settings(large_file_token_threshold=THRESHOLD)
    with Lossless.open(tmp_path / "lcm.db", settings=settings, on_event=events.append) as lcm:
        chat, message = lcm.conversation("k"), Message("user", (Text(lines(4000)),), event_id=event_id)
        other = Message("user", (Text(text_of(THRESHOLD * 3)),), event_id=event_id and "e0")
        chat.ingest([other, message], whole=event_id is None)
        path = tmp_path / "lcm-files" / (name := hashlib.sha256(lines(4000).encode()).hexdigest())[:2] / name
        if damage == "missing":
            path.unlink()
        else:
            _damage(path, damage, tmp_path / "outside")
        again = chat.ingest([other, message], whole=event_id is None)
        assert (again.stored, again.known) == ((), 2)
        assert chat.messages()[1].text == lines(4000)
        (repaired,) = [event for event in events if event.name == "file.repaired"]
        assert repaired.facts["files"] == [large_content.file_id(name)]
        chat.ingest([other, message], whole=event_id is None)
        assert events.count(repaired) == 1


def test_a_forgotten_payload_does_not_come_back_with_its_message(tmp_path: Path) -> None:
    with Lossless.open(tmp_path / "lcm.db", settings=Settings(large_file_token_threshold=THRESHOLD)) as lcm:
        chat, message = lcm.conversation("k"), Message("user", (Text(lines(4000)),), event_id="e1")
        chat.ingest([message, Message.user("after")])
        chat.forget(1_000_000_001, apply=True, unshared=True)
        assert chat.ingest([message]).known == 1
        assert stored_files(tmp_path) == []


@pytest.mark.parametrize("damage", DAMAGES)
def test_putting_bytes_again_repairs_the_file_they_are_named_after(tmp_path: Path, damage: str) -> None:
    files, data = Files(tmp_path / "files"), b"the bytes" * 1000
    name = hashlib.sha256(data).hexdigest()
    assert files.put(name, data)
    assert not files.put(name, data)
    _damage(tmp_path / "files" / name[:2] / name, damage, tmp_path / "outside")
    assert files.put(name, data)
    assert files.read_all(name) == data


@pytest.mark.parametrize("damage", ["truncated", "flipped"])
def test_no_range_of_a_damaged_file_is_given_out(chat: Conversation, tmp_path: Path, damage: str) -> None:
    chat.ingest([Message.user(lines(4000))])
    which = chat.files()[0].id
    assert chat.files.lines(which, 1, 1) == "line 0 of the report\n"
    (path,) = stored_files(tmp_path)
    _damage(path, damage, tmp_path / "outside")
    with pytest.raises(FileUnavailable, match="damaged"):
        chat.files.lines(which, 1, 1)
    with pytest.raises(FileUnavailable, match="damaged"):
        chat.files.read(which, 0, 5)


def test_a_file_whose_name_leads_elsewhere_does_not_exist(chat: Conversation, tmp_path: Path) -> None:
    chat.ingest([Message.user(lines(4000))])
    (path,) = stored_files(tmp_path)
    files = Files(tmp_path / "lcm-files")
    assert files.exists(path.name)
    _damage(path, "link", tmp_path / "outside")
    assert not files.exists(path.name)
