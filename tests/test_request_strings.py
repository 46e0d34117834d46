"""Whatever a request carries is counted, found, summarised, and leaves the row when it is large."""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lossless import Conversation, File, Lossless, Message, Opaque, Settings, StoredMessage, Text
from lossless.engine.compaction import summary_source as source
from lossless.engine.ingest import large_content
from lossless.engine.recall import reader
from lossless.formats import anthropic, openai_chat
from lossless.store.rows import codec
from lossless.store.store import Store
from lossless.tokens import IMAGE_TOKENS, estimate, message_tokens
from tests.formats.samples import FORMATS
from tests.sources import leaf_source

BRICKS = "The kiln of Brandenburg fires nineteen thousand bricks. "
LONG = BRICKS * 2_000
SEALED = base64.b64encode(bytes(range(256)) * 8).decode()


def document(source: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"role": "user", "content": [{"type": "document", "source": source, **more}]}


def assistant(*blocks: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"role": "assistant", "content": list(blocks), **more}


WIRES: dict[str, tuple[str, Any]] = {
    "a text document": ("anthropic", document({"type": "text", "media_type": "text/plain", "data": "@"})),
    "a content document": ("anthropic", document({"type": "content", "content": [{"type": "text", "text": "@"}]})),
    "the context of a document": (
        "anthropic",
        document({"type": "url", "url": "https://example.org/a.pdf"}, title="Report", context="@"),
    ),
    "a citation": (
        "anthropic",
        assistant({"type": "text", "text": "So.", "citations": [{"type": "char_location", "cited_text": "@"}]}),
    ),
    "a search result": (
        "anthropic",
        {
            "role": "user",
            "content": [
                {
                    "type": "tool_result",
                    "tool_use_id": "t1",
                    "content": [{"type": "search_result", "title": "T", "content": [{"type": "text", "text": "@"}]}],
                }
            ],
        },
    ),
    "a server tool's result": (
        "anthropic",
        assistant({"type": "code_execution_tool_result", "tool_use_id": "s1", "content": {"stdout": "@"}}),
    ),
    "a legacy call": (
        "openai_chat",
        {"role": "assistant", "content": None, "function_call": {"name": "search", "arguments": "@"}},
    ),
    "annotations": (
        "openai_chat",
        {
            "role": "assistant",
            "content": "So.",
            "annotations": [{"type": "url_citation", "url_citation": {"title": "@", "url": "https://example.org"}}],
        },
    ),
    "a refusal": ("openai_chat", {"role": "assistant", "content": None, "refusal": "@"}),
    "an unknown part": ("openai_chat", {"role": "user", "content": [{"type": "hologram", "caption": {"words": "@"}}]}),
    "an unknown item": ("openai_responses", {"type": "file_search_call", "id": "f1", "results": [{"text": "@"}]}),
    "annotations of an item": (
        "openai_responses",
        {
            "type": "message",
            "role": "assistant",
            "content": [
                {"type": "output_text", "text": "So.", "annotations": [{"type": "file_citation", "title": "@"}]}
            ],
        },
    ),
    "details": (
        "openclaw",
        {"role": "toolResult", "toolCallId": "c", "toolName": "n", "content": [], "details": {"diff": "@"}},
    ),
    "a shell's output": ("openclaw", {"role": "bashExecution", "command": "make", "output": "@", "exitCode": 0}),
}
each_wire = pytest.mark.parametrize("what", WIRES)


def filled(value: Any, words: str) -> Any:
    if isinstance(value, dict):
        return {key: filled(each, words) for key, each in value.items()}
    if isinstance(value, list):
        return [filled(each, words) for each in value]
    return words if value == "@" else value


def loaded(what: str, words: str) -> Message:
    name, wire = WIRES[what]
    message: Message = FORMATS[name].load(filled(wire, words))
    return message


def summarised(message: Message) -> str:
    stored = StoredMessage(1, 1, 0, b"", datetime(2026, 1, 1, tzinfo=UTC), message)
    return leaf_source([stored], UTC, ())


@each_wire
def test_whatever_is_sent_is_counted(what: str) -> None:
    tokens = message_tokens(loaded(what, LONG))
    assert estimate(LONG) <= tokens <= 1.2 * estimate(LONG) + 200


@each_wire
def test_whatever_is_sent_is_found_summarised_and_described(lcm: Lossless, chat: Conversation, what: str) -> None:
    message = loaded(what, BRICKS)
    chat.ingest([message])
    (stored,) = chat.messages()
    assert stored.message == message
    assert [hit.seq for hit in chat.grep("Brandenburg bricks", mode="full_text")] == [1]
    assert BRICKS.strip() in summarised(message)
    (row,) = lcm._store.messages.at(1, [1])
    entry = source.SourceEntry(0, *codec.spoken_by(row), codec.said_in(row))
    assert BRICKS.strip() in source.write_entries([entry], UTC, ())
    assert BRICKS.strip() in reader.words(message)


@each_wire
def test_whatever_is_large_leaves_the_row_and_comes_back(tmp_path: Path, what: str) -> None:
    message = loaded(what, LONG)
    with Lossless.open(tmp_path / "lcm.db", settings=Settings(large_file_token_threshold=1_000)) as lcm:
        chat = lcm.conversation("k")
        chat.ingest([message])
        (row,) = lcm._store.messages.at(1, [1])
        assert len(row.text) + len(row.parts or "") + len(row.meta or "") < 8_000
        assert row.tokens < 2_000
        assert chat.messages()[0].message == message
        (file,) = chat.files()
        assert file.id in row.text
        assert chat.files.read(file.id).decode() == LONG
        assert [hit.id for hit in chat.grep("nineteen thousand", scope="files")] == [file.id]


def test_a_title_and_a_context_stand_beside_an_attachment(chat: Conversation) -> None:
    source = {"type": "base64", "media_type": "application/pdf", "data": base64.b64encode(b"%PDF-1.7 \0").decode()}
    message = anthropic.load(document(source, title="Brandenburg", context="What the brickmaker mailed"))
    chat.ingest([message])
    assert chat.messages()[0].message == message
    assert chat.grep("brickmaker mailed", mode="full_text")
    assert chat.grep("Brandenburg", mode="full_text")


def test_thinking_and_sealed_text_are_counted_and_go_nowhere_else() -> None:
    details = [
        {"type": "reasoning.text", "text": LONG, "signature": None},
        {"type": "reasoning.encrypted", "data": SEALED * 10},
    ]
    message = openai_chat.load({"role": "assistant", "content": "Yes.", "reasoning_details": details})
    assert message_tokens(message) >= estimate(LONG) + len(SEALED) * 10 * 3 // 16 - 200
    assert codec.encode(message, None).text == "Yes."
    assert summarised(message).endswith("]\nYes.")
    assert reader.words(message) == "Yes."
    assert large_content.extract(message, 1_000, {}) == (message, [])


def test_what_only_a_provider_reads_costs_what_it_stands_for() -> None:
    results = [
        {"type": "web_search_result", "title": "Kilns", "url": "https://example.org", "encrypted_content": SEALED}
    ]
    block = {"type": "web_search_tool_result", "tool_use_id": "s", "content": results}
    assert len(SEALED) // 8 < message_tokens(anthropic.load(assistant(block))) < len(SEALED) // 4
    picture = {"type": "screenshot", "image_url": f"data:image/png;base64,{SEALED * 100}"}
    assert message_tokens(Message("user", (Opaque("screenshot", picture),))) < IMAGE_TOKENS + 60


def test_an_answer_that_was_spoken_has_its_words() -> None:
    said = {"id": "audio_1", "data": SEALED, "transcript": BRICKS, "expires_at": 1}
    reply = {"id": "r", "choices": [{"message": {"role": "assistant", "content": None, "audio": said}}]}
    message = openai_chat.load(reply)
    assert openai_chat.dump([message])["messages"][0]["audio"] == {"id": "audio_1"}
    assert BRICKS in codec.encode(message, None).text
    assert BRICKS.strip() in summarised(message)
    assert message_tokens(message) >= estimate(BRICKS)


def test_what_a_host_writes_about_a_reply_costs_nothing() -> None:
    about = {
        "api": "anthropic-messages",
        "provider": "anthropic",
        "model": "m",
        "usage": {"input": 5, "cost": {"x": 0.1}},
    }
    message = FORMATS["openclaw"].load(assistant({"type": "text", "text": "hello"}, **about, timestamp=1))
    assert message_tokens(message) == message_tokens(Message.assistant("hello"))
    reply = {"type": "message", "id": "m", "role": "assistant", "content": [{"type": "text", "text": "hello"}]}
    assert message_tokens(anthropic.load({**reply, "model": "m", "usage": {"input_tokens": 5}})) == message_tokens(
        Message.assistant("hello")
    )


def test_a_speaker_s_name_is_counted_and_found(chat: Conversation) -> None:
    chat.ingest([Message.user("the kiln is hot", name="Brunhilde"), Message.user("the kiln is hot")])
    named, nameless = chat.messages()
    assert named.tokens == message_tokens(named.message) > nameless.tokens
    assert [hit.seq for hit in chat.grep("Brunhilde", mode="full_text")] == [1]


def test_words_in_the_escapes_of_a_call_are_found(chat: Conversation) -> None:
    call = {"id": "c", "name": "write_file", "input": {"text": "one\nkachelofen\tzweifach"}}
    spelled = {"function": {"name": "note", "arguments": '{"who": "M\\u00fcnchhausen \\ud83d\\ude80tower"}'}, "id": "d"}
    chat.ingest([anthropic.load(assistant({"type": "tool_use", **call}))])
    chat.ingest(
        [openai_chat.load({"role": "assistant", "content": None, "tool_calls": [{"type": "function", **spelled}]})]
    )
    for word, seq in (("kachelofen", 1), ("zweifach", 1), ("Münchhausen", 2), ("tower", 2), ("write_file", 1)):
        assert [hit.seq for hit in chat.grep(word, mode="full_text")] == [seq], word


def test_stored_counts_of_before_are_found_and_put_right(lcm: Lossless, chat: Conversation) -> None:
    chat.ingest([loaded("a text document", LONG[:40_000])])
    (tokens,) = [stored.tokens for stored in chat.messages()]
    store = lcm._store
    assert isinstance(store, Store)
    with store.transaction():
        store.run("UPDATE message SET tokens = 13")
        store.run("UPDATE item SET tokens = 13")
    found = {finding.check for finding in lcm.doctor().findings}
    assert "M03" in found
    lcm.doctor.fix(["M03"], apply=True)
    assert [stored.tokens for stored in chat.messages()] == [tokens]
    assert chat.status().context_tokens == tokens


words = st.sampled_from([BRICKS, "kachelofen", "Zürich\nPfannkuchen", 'so "quoted" words', LONG[:30_000], "", "a\tb"])
values = st.recursive(
    words | st.integers(0, 99) | st.none(),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["text", "title", "data", "content", "reason", "alpha"]), inner, max_size=3)
    ),
    max_leaves=6,
)


@st.composite
def messages(draw: st.DrawFn) -> tuple[str, Message]:
    """A message of a format with anything in it where the format has a place for more."""
    what = draw(st.sampled_from(sorted(WIRES)))
    name, wire = WIRES[what]
    wire = json.loads(json.dumps(filled(wire, draw(words))))
    inner = wire["content"][0] if isinstance(wire.get("content"), list) and wire["content"] else wire
    inner[draw(st.sampled_from(["beside", "note", "$odd"]))] = draw(values)
    wire[draw(st.sampled_from(["more", "aside"]))] = draw(values)
    return name, FORMATS[name].load(wire)


def sent_strings(value: Any, key: str = "") -> Iterator[str]:
    if isinstance(value, str) and key not in ("type", "role", "id", "media_type"):
        yield value
    for name, each in value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ():
        yield from sent_strings(each, str(name))


def as_sent(name: str, message: Message) -> Any:
    module = FORMATS[name]
    return module.dump_items(message) if name == "openai_responses" else module.dump_message(message)


@settings(max_examples=150)
@given(messages())
def test_any_message_is_counted_searched_and_lightened_as_it_is_sent(wire: tuple[str, Message]) -> None:
    name, message = wire
    strings = list(sent_strings(as_sent(name, message)))
    cost = sum(map(estimate, strings))
    assert cost <= message_tokens(message) + 40
    assert message_tokens(message) <= 1.5 * cost + 120
    text = codec.encode(message, None).text
    said = summarised(message)
    for word in {word for each in strings for word in re.findall(r"[^\W\d_]{4,}", each)}:
        assert word in text
        assert word in said or word in ("https", "example", "makeExit")
    lighter, taken = large_content.extract(message, 2_000, {})
    assert large_content.restore(lighter, {each.id: each.data for each in taken}.__getitem__) == message
    assert large_content.has_large_content(message, 2_000) or not taken
    assert message_tokens(lighter) < 2_000 + 600 * (1 + len(taken))


ATTACHED: dict[str, tuple[str | None, str | bytes]] = {
    "orders.csv": ("text/csv", "order,city\n4711,Brandenburg\n4712,Potsdam\n"),
    "app.log": (None, "2026-01-01T10:00:00Z ERROR kiln door open\n" * 30),
    "plan.json": ("application/json", '{"city": "Brandenburg"}'),
    "notes.md": ("application/octet-stream", "# Kilns\n\nBrandenburg fires kiln bricks.\r\n"),
    "latin.txt": ("text/plain", "Grüße aus der Brandenburger kiln".encode("latin-1")),
}


@pytest.mark.parametrize("name", ATTACHED)
def test_text_that_is_attached_as_base64_is_text(chat: Conversation, name: str) -> None:
    mime, content = ATTACHED[name]
    data = content if isinstance(content, bytes) else content.encode()
    message = Message("user", (Text("see"), File(mime, name, base64.b64encode(data).decode())))
    chat.ingest([message])
    reference = chat.context().messages[0].text
    assert "image" not in reference.lower()
    assert f"[User file: {name} (" in reference
    assert "Exploration Summary:" in reference
    (file,) = chat.files()
    assert (file.bytes, file.lines) == (len(data), max(1, data.count(b"\n")))
    assert [hit.id for hit in chat.grep("kiln|Brandenburg", scope="files")][:1] == [file.id]
    assert data.decode("utf-8", "replace") in chat.describe(file.id).text
    assert chat.messages()[0].message == message
    assert message_tokens(message) < 1_000


def test_base64_text_in_running_text_is_text(chat: Conversation) -> None:
    data = base64.b64encode((BRICKS * 30).encode()).decode()
    chat.ingest([Message.user(f"see data:text/plain;base64,{data} there")])
    assert re.search(r"\[File: text/plain, [\d,]+ bytes, 1 line \| LCM file: file_", chat.context().messages[0].text)
    assert chat.grep("Brandenburg", scope="files")


@pytest.mark.parametrize(
    ("mime", "data", "what"),
    [
        ("image/png", b"\x89PNG\r\n\x1a\n\0\0", "image"),
        (None, b"\x89PNG\r\n\x1a\n\0\0", "image"),
        ("application/pdf", b"%PDF-1.7\n\0", "file"),
        ("audio/wav", b"RIFF\0\0\0\0WAVE", "audio"),
        ("audio/ogg", b"OggS\0\0", "audio"),
        ("application/octet-stream", bytes(range(256)), "file"),
        ("image/svg+xml", b"<svg><title>kiln</title></svg>", "image"),
    ],
)
def test_a_reference_says_what_an_attachment_is(chat: Conversation, mime: str | None, data: bytes, what: str) -> None:
    chat.ingest([Message("user", (File(mime, "x", base64.b64encode(data).decode()),))])
    assert chat.context().messages[0].text.startswith(f"[User {what}: x (")


def test_files_that_were_stored_as_unknown_bytes_are_read_as_the_text_they_are(
    lcm: Lossless, chat: Conversation
) -> None:
    data = base64.b64encode(b"order,city\n4711,Brandenburg\n").decode()
    chat.ingest([Message("user", (File("text/csv", "orders.csv", data),))])
    store = lcm._store
    assert isinstance(store, Store)
    with store.transaction():
        store.run("UPDATE file SET lines = NULL")
    (file,) = chat.files()
    assert "4711,Brandenburg" in chat.describe(file.id).text
    assert chat.grep("4711", scope="files")
