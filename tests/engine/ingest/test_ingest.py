"""What goes in comes out: once, in order, unchanged."""

from __future__ import annotations

import functools
import json
import math
import re
from collections.abc import Callable
from contextlib import AbstractContextManager
from datetime import UTC, datetime, timedelta, timezone
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from lossless import Conversation, File, Lossless, Message, Opaque, Reasoning, Settings, Text, ToolCall, ToolResult
from lossless.errors import InvalidInput, NotFound
from lossless.events import Event
from lossless.formats import openclaw
from tests.fixtures import PI_SESSION


def texts(chat: Conversation) -> list[str]:
    return [message.text for message in chat.messages()]


def as_javascript(value: object) -> str:
    """JSON as the program that wrote the session writes it: small numbers without an exponent."""
    match value:
        case dict():
            return "{" + ",".join(f"{as_javascript(key)}:{as_javascript(each)}" for key, each in value.items()) + "}"
        case list():
            return "[" + ",".join(map(as_javascript, value)) + "]"
        case float() if abs(value) >= 1e-6:
            return f"{Decimal(repr(value)):f}"
        case _:
            return json.dumps(value, ensure_ascii=False)


def test_a_real_session_comes_back_byte_for_byte(chat: Conversation) -> None:
    lines = PI_SESSION.read_text(encoding="utf-8").split("\n")
    entries = [json.loads(line) for line in lines if line]
    wire = [entry["message"] for entry in entries if entry["type"] == "message"]
    done = chat.ingest(openclaw.load(wire))
    assert len(done.stored) == len(wire) == 914
    back = iter(openclaw.dump_message(stored.message) for stored in chat.messages())
    written = [
        as_javascript({**entry, "message": next(back)} if entry["type"] == "message" else entry) for entry in entries
    ]
    assert written == [line for line in lines if line]
    assert chat.ingest(openclaw.load(wire), whole=True).stored == ()


@pytest.mark.parametrize(
    "message",
    [
        Message.user("lone \ud800 surrogate"),
        Message.user("\udfff"),
        Message.user("a\0b"),
        Message.user(""),
        Message.user("x" * 5_000_000),
        Message.tool("y\n" * 2_500_000, call_id="c"),
        Message("user", tuple(Text(f"part {n}") for n in range(10_000))),
        Message("assistant", (ToolCall("c", "n", '{"a": NaN, "b": %s}' % ("9" * 300)),)),
        Message("assistant", (ToolCall("c", "n", "not json at all {"),)),
        Message("user", (Opaque("x", {"big": 10**300, "inf": math.inf}),)),
        Message.user("future", at=datetime(9999, 12, 31, 23, 59, 59, 999_999, tzinfo=UTC)),
        Message.user("ancient", at=datetime(1, 1, 1, tzinfo=UTC)),
        Message.user("before 1970", at=datetime(1969, 12, 31, 23, 59, 59, 1, tzinfo=UTC)),
        Message.user("micro", at=datetime(2026, 11, 15, 12, 0, 0, 123_457, tzinfo=UTC)),
        Message("narrator", (Text("unknown role"),)),
        Message("r\ud800le\0", (Text("hostile role"),)),
        Message("assistant", (), stop="error"),
        Message("user", (), extra={"openclaw": {"nested": [None, True, 1.5, "x"]}}),
        Message.user("named", name="Zoë \ud83d"),
        Message("assistant", (Reasoning("thinking", "sig"), Text("said"))),
        Message("tool", (ToolResult("a", (Text("1"),)), ToolResult("b", (Text("2"),), is_error=True))),
    ],
    ids=lambda message: message.text[:12].encode("ascii", "replace").decode() or message.role[:4],
)
def test_hostile_content_comes_back_unchanged(chat: Conversation, message: Message) -> None:
    assert len(chat.ingest([message]).stored) == 1
    assert chat.messages()[0].message == message


def test_times_are_told_in_utc_whatever_zone_they_came_in(chat: Conversation) -> None:
    zone = timezone(timedelta(hours=5, minutes=30))
    chat.ingest(
        [
            Message.user("a", at=datetime(2026, 1, 1, 12, tzinfo=zone)),
            Message.user("b", at="2026-01-01 06:30:00"),
            Message.user("c", at=1767249000.0),
            Message("user", (Text("d"),), datetime(2026, 1, 1, 6, 30)),
        ]
    )
    assert {str(m.at) for m in chat.messages()} == {"2026-01-01 06:30:00+00:00"}


def test_an_empty_call_stores_nothing_and_creates_nothing(lcm: Lossless) -> None:
    assert lcm.conversation("k").ingest([]).stored == ()
    assert list(lcm.conversations()) == []
    assert lcm.conversation("k").messages() == []
    assert lcm.conversation("k").context().items == ()


def test_one_message_need_not_be_a_list(chat: Conversation) -> None:
    assert chat.ingest(Message.user("hi")).stored == (1,)  # type: ignore[arg-type]  # a kindness, not in the signature


def test_what_is_no_message_is_refused_by_its_place(chat: Conversation) -> None:
    with pytest.raises(InvalidInput, match=r"messages\[1\] is a dict") as refused:
        chat.ingest([Message.user("a"), {"role": "user"}])  # type: ignore[list-item]  # that is the point
    assert refused.value.code == "INVALID_INPUT"
    assert chat.messages() == []


class _Odd:
    """Something that no database can hold."""


def _circular() -> list[object]:
    found: list[object] = ["needle"]
    found.append(found)
    return found


INVALID: dict[str, tuple[Any, ...]] = {
    "a set": ((Opaque("x", {"needle", "thread"}),),),
    "an object": ((Text("needle"), Opaque("x", {"a": _Odd()})),),
    "circular": ((Opaque("x", _circular()),),),
    "too deep": (
        (Text("needle"), Opaque("x", functools.reduce(lambda inner, _: [inner], range(5000), list[object]()))),
    ),
    "a huge number": ((Text("needle"), Opaque("x", 10**5000)),),
    "a number for a text": ((Text("needle"), Text(7)),),  # type: ignore[arg-type]  # that is the point
    "a number for an id": ((Text("needle"), ToolCall(7, "f")),),  # type: ignore[arg-type]  # that is the point
    "a text for parts": ("needle",),
    "no parts": (None, None, "needle"),
    "a dict for a part": (({"type": "text", "text": "needle"},),),
    "bytes for a part": ((Text("needle"), b"\xff\0"),),
    "a time that is none": ((Text("needle"),), "yesterday"),
    "a file with such an extra": ((Text("needle"), File("image/png", "a", "iVBO", extra={"k": {1}})),),
    "an extra that is none": ((Text("needle"),), None, None, None, None, [1, {2}]),
    "a stop that is none": ((Text("needle"),), None, None, None, {1}),
}


@pytest.mark.parametrize("verb", ["ingest", "whole", "after_turn"])
@pytest.mark.parametrize("fields", INVALID.values(), ids=INVALID)
def test_an_invalid_message_is_stored_and_reported_and_so_are_the_others(
    database: str, tmp_path: Path, verb: str, fields: tuple[Any, ...]
) -> None:
    told: list[Event] = []
    settings = Settings(large_files_dir=str(tmp_path / "files"))
    with Lossless.open(database, settings=settings, on_event=told.append) as lcm:
        chat = lcm.conversation("k")
        batch = [Message.user("before"), Message("user", *fields), Message.user("after")]
        options: dict[str, Any] = {"window": 100_000} if verb == "after_turn" else {"whole": verb == "whole"}
        take = functools.partial(chat.after_turn if verb == "after_turn" else chat.ingest, **options)
        assert take(batch).stored == (1, 2, 3)
        assert [event.name for event in told] == ["ingest.invalid"]
        assert "'user'" in told[0].message
        assert [texts(chat)[0], texts(chat)[2]] == ["before", "after"]
        stored = chat.messages()[1].message
        assert "needle" in repr(stored)
        assert chat.assemble(100_000).messages
        if verb == "whole":
            assert take([*batch, Message.user("and on")]).stored == (4,)


def test_an_invalid_message_is_known_by_its_event_id(chat: Conversation) -> None:
    batch = [Message.user("a", event_id="1"), Message("user", (Opaque("x", {1, 2}),), event_id="2")]
    assert chat.ingest(batch).stored == (1, 2)
    assert chat.ingest(batch).known == 2
    odd = Message("user", (Text("b"),), event_id=3)  # type: ignore[arg-type]  # that is the point
    assert chat.ingest([odd]).stored == (3,)
    assert chat.ingest([odd]).known == 1


@pytest.mark.parametrize("key", ["", "  ", "a\0b", "\ud800", "k" * 1001, None, 7])
def test_a_key_that_is_none_is_refused(lcm: Lossless, key: object) -> None:
    with pytest.raises(InvalidInput, match="cannot be the key"):
        lcm.conversation(key)  # type: ignore[arg-type]  # that is the point


def test_messages_after_a_seq(chat: Conversation) -> None:
    chat.ingest([Message.user(str(n)) for n in range(10)])
    assert [m.text for m in chat.messages(after=7)] == ["7", "8", "9"]
    assert [m.seq for m in chat.messages(limit=2)] == [1, 2]
    assert chat.messages(limit=0) == []
    with pytest.raises(InvalidInput):
        chat.messages(limit=-1)


def test_the_context_is_every_message_that_a_model_may_see(chat: Conversation) -> None:
    chat.ingest([Message.user("a"), Message("ghost", (Text("b"),)), Message.assistant("c")])
    context = chat.context()
    assert [m.text for m in context.messages] == ["a", "c"]
    assert context.tokens == sum(item.tokens for item in context.items) > 0
    assert texts(chat) == ["a", "b", "c"]


def test_a_whole_conversation_sent_each_turn_is_stored_once(chat: Conversation) -> None:
    history: list[Message] = []
    for turn in range(30):
        history += [Message.user("ok"), Message.assistant(f"done {turn % 3}")]
        done = chat.ingest(history, whole=True)
        assert (len(done.stored), done.known) == (2, len(history) - 2)
    assert texts(chat) == [m.text for m in history]


def test_a_host_that_changes_its_system_prompt_each_turn_floods_nothing(chat: Conversation) -> None:
    history: list[Message] = []
    for turn in range(30):
        history += [Message.user(f"question {turn}"), Message.assistant("ok")]
        done = chat.ingest([Message.system(f"It is day {turn}."), *history], whole=True)
        assert len(done.stored) == 3
    assert [text for text in texts(chat) if "day" not in text] == [m.text for m in history]


def test_live_messages_and_a_later_whole_conversation_agree(chat: Conversation) -> None:
    chat.ingest([Message.user("a"), Message.assistant("b")])
    chat.ingest([Message.user("c")])
    assert chat.ingest([Message.user(t) if t != "b" else Message.assistant(t) for t in "abcd"], whole=True).stored == (
        4,
    )
    chat.ingest([Message.assistant("e")])
    whole = [Message.assistant(t) if t in "be" else Message.user(t) for t in "abcdef"]
    assert chat.ingest(whole, whole=True).stored == (6,)
    assert texts(chat) == list("abcdef")


@pytest.mark.parametrize(
    ("settings", "key"),
    [
        (Settings(enabled=False), "k"),
        (Settings(ignore_session_patterns=("agent:*:cron:**",)), "agent:main:cron:nightly"),
        (Settings(stateless_session_patterns=("sub:**",)), "sub:x"),
    ],
)
def test_switched_off_it_stores_nothing_and_says_so(database: str, settings: Settings, key: str) -> None:
    told: list[Event] = []
    with Lossless.open(database, settings=settings, on_event=told.append) as lcm:
        assert lcm.conversation(key).ingest([Message.user("a")]).skipped == 1
        assert list(lcm.conversations()) == []
    assert [event.name for event in told] == ["ingest.disabled"]


def test_patterns_leave_other_conversations_alone(database: str) -> None:
    settings = Settings(stateless_session_patterns=("sub:**",), skip_stateless_sessions=False)
    with Lossless.open(database, settings=settings) as lcm:
        assert lcm.conversation("sub:x").ingest([Message.user("a")]).stored == (1,)


def test_a_hook_that_fails_does_not_make_a_stored_call_fail(database: str, caplog: pytest.LogCaptureFixture) -> None:
    def hook(event: Event) -> None:
        raise ZeroDivisionError

    with Lossless.open(database, on_event=hook) as lcm:
        chat = lcm.conversation("k")
        chat.ingest([Message.user("a", event_id="1")])
        assert chat.ingest([Message.user("b", event_id="1"), Message.user("c")]).stored == (2,)
    assert "the on_event hook failed on ingest.copies" in caplog.text


@pytest.mark.parametrize(
    ("message", "reason"),
    [
        (Message("user", "hi"), "Expected `array`, got `str`"),  # type: ignore[arg-type]  # that is the point
        (Message("user", (Text(None),)), "Expected `str`, got `null`"),  # type: ignore[arg-type]
        (Message.user("x", event_id=5), r"at `\$.event_id`"),  # type: ignore[arg-type]
        (Message("user", (Text("x"),), "today"), r"at `\$.at`"),  # type: ignore[arg-type]
    ],
)
def test_what_is_wrong_with_the_types_of_a_message_is_reported_by_name(
    database: str, message: Message, reason: str
) -> None:
    told: list[Event] = []
    with Lossless.open(database, on_event=told.append) as lcm:
        done = lcm.conversation("k").ingest([message])
    assert (done.stored, done.invalid) == ((1,), 1)
    assert re.search(reason, told[0].message)


@pytest.mark.parametrize("argument", [5, b"x", object()])
def test_a_database_that_is_no_path_is_refused(argument: object) -> None:
    with pytest.raises(InvalidInput, match="is not a database"):
        Lossless.open(argument)  # type: ignore[arg-type]  # that is the point


def test_status_counts_what_is_there(lcm: Lossless) -> None:
    assert lcm.status().last_ingest_at is None
    with pytest.raises(NotFound):
        lcm.conversation("k").status()
    lcm.conversation("k").ingest([Message.user("a"), Message("ghost", (Text("b"),))])
    lcm.conversation("l").ingest([Message.user("c")])
    status = lcm.status()
    assert (status.conversations, status.messages) == (2, 3)
    assert status.bytes > 0
    assert status.last_ingest_at is not None
    assert [c.key for c in lcm.conversations()] == ["l", "k"]
    assert lcm.conversation("k").status().messages == 2


def test_owners_share_a_database_and_nothing_else(database: str, lcm: Lossless) -> None:
    lcm.conversation("k").ingest([Message.user("mine", event_id="e")])
    with Lossless.open(database, owner="them") as other:
        assert other.conversation("k").messages() == []
        assert other.conversation("k").ingest([Message.user("theirs", event_id="e")]).stored == (1,)
        assert other.status().messages == 1
    assert texts(lcm.conversation("k")) == ["mine"]


def test_the_clock_can_be_given(database: str) -> None:
    with Lossless.open(database, clock=lambda: 1_000_000_000.5) as lcm:
        lcm.conversation("k").ingest([Message.user("a")])
        assert str(lcm.conversation("k").messages()[0].created_at) == "2001-09-09 01:46:40.500000+00:00"


class Fault(Exception):
    """Injected."""


def test_a_fault_at_every_statement_stores_all_or_nothing(lcm: Lossless, monkeypatch: pytest.MonkeyPatch) -> None:
    batch = [Message.user("a", event_id="1"), Message("user", (File(None, None, "QUJD"),)), Message.user("c")]
    store = lcm._store
    for number in range(100):
        chat = lcm.conversation(f"k{number}")
        chat.ingest([Message.user("before")])
        left = number

        def failing(verb: Callable[..., object]) -> Callable[..., object]:
            def fails(*arguments: object, **named: object) -> object:
                nonlocal left
                left -= 1
                if left == -1:
                    raise Fault
                return verb(*arguments, **named)

            return fails

        with monkeypatch.context() as patch:
            for name in ("run", "insert", "index", "remember_events", "all"):
                patch.setattr(store, name, failing(getattr(store, name)))
            try:
                chat.ingest(batch, whole=True)
                failed = False
            except Fault:
                failed = True
        assert [m.message for m in chat.messages()] == [Message.user("before"), *([] if failed else batch)]
        assert len(chat.ingest(batch).stored) == (3 if failed else 2)
        if not failed:
            break
    assert number > 8
    assert store.check_search() == []


def test_an_empty_event_id_is_none(chat: Conversation) -> None:
    chat.ingest([Message.user("a", event_id=""), Message.user("b", event_id="")])
    assert [(m.text, m.event_id) for m in chat.messages()] == [("a", ""), ("b", "")]


def test_a_tool_result_before_its_call_is_stored_where_it_came(chat: Conversation) -> None:
    late = Message("assistant", (ToolCall("c1", "read", "{}"),))
    chat.ingest([Message.tool("early", call_id="c1"), late])
    assert [m.role for m in chat.messages()] == ["tool", "assistant"]
    assert len(chat.context().items) == 2


def test_a_setting_that_does_nothing_here_is_told(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    told: list[Event] = []
    monkeypatch.setenv("LCM_TRANSCRIPT_GC_ENABLED", "true")
    Lossless.open(tmp_path / "lcm.db", on_event=told.append).close()
    assert [event.name for event in told] == ["config.ignored"]
    assert "LCM_TRANSCRIPT_GC_ENABLED" in told[0].message


def test_thinking_that_a_host_strips_later_floods_nothing(chat: Conversation) -> None:
    history: list[Message] = []
    for turn in range(5):
        history = [Message(m.role, tuple(p for p in m.parts if not isinstance(p, Reasoning))) for m in history]
        reply = Message("assistant", (Reasoning(f"thought {turn}", "sig"), Text(f"a{turn}")))
        history += [Message.user(f"q{turn}"), reply]
        chat.ingest(history, whole=True)
    assert texts(chat) == [f"{letter}{turn}" for turn in range(5) for letter in "qa"]


def test_a_short_delivery_between_two_whole_ones_floods_nothing(chat: Conversation) -> None:
    history = [Message.system("s"), *(Message.user(f"m{n}") for n in range(300))]
    chat.ingest(history, whole=True)
    assert chat.ingest(history[:1], whole=True).stored == ()
    assert chat.ingest([*history, Message.user("new")], whole=True).stored == (302,)


@pytest.mark.parametrize("sessions", [("one", "two"), (None, None)])
def test_two_views_of_one_conversation_take_turns(lcm: Lossless, sessions: tuple[str | None, str | None]) -> None:
    first, second = (lcm.conversation("k", session) for session in sessions)
    long = [Message.user(f"m{n}") for n in range(200)]
    short = [Message.user(f"s{n}") for n in range(3)]
    for turn in range(10):
        first.ingest(long, whole=True)
        second.ingest(short, whole=True)
        long = [*long, Message.user(f"more {turn}")]
        short = [*short, Message.user(f"short {turn}")]
    # Told apart by their sessions nothing is doubled; without, a single message in doubt may be kept twice.
    assert len(texts(first)) - (200 + 3 + 9 + 9) <= (0 if sessions[0] else 3)


def test_a_message_named_by_its_id_does_not_answer_for_a_nameless_one(chat: Conversation) -> None:
    chat.ingest([Message.user("ok", event_id="1")])
    assert chat.ingest([Message.user("ok", event_id="1"), Message.user("ok")], whole=True).stored == (2,)


def test_one_id_for_three_messages_in_one_batch(chat: Conversation) -> None:
    probe = chat._lcm.conversation("probe")
    probe.ingest([Message.user("a", event_id="X")])
    probe.ingest([Message.assistant("b", event_id="X")])
    derived = probe.messages()[1].event_id
    again = [Message.assistant("b", event_id="X"), Message.assistant("b", event_id=derived)]
    assert chat.ingest([Message.user("a", event_id="X"), *again]).stored == (1, 2)
    assert len({m.event_id for m in chat.messages()}) == 2


def test_a_delivery_overtaken_by_another_is_prepared_again(chat: Conversation, monkeypatch: pytest.MonkeyPatch) -> None:
    large = "line of a large file\n" * 20_000
    history = [Message.user(large), Message.user("b")]
    chat.ingest(history, whole=True)
    store = chat._lcm._store
    other = chat._lcm.conversation(chat.key)
    transaction = store.transaction
    overtaking = [Message.user(letter) for letter in "xyz"]

    def overtaken() -> AbstractContextManager[None]:
        monkeypatch.setattr(store, "transaction", transaction)
        other.ingest(overtaking, whole=True)
        return transaction()

    monkeypatch.setattr(store, "transaction", overtaken)
    chat.ingest([*history, Message.user("c")], whole=True)
    assert texts(chat)[:2] == [large, "b"]
    assert texts(chat)[-1] == "c"


@pytest.mark.parametrize("at", ["0001-01-01T00:00:00+01:00", "9999-12-31T23:59:59-05:00"])
def test_a_moment_beyond_the_years_of_utc_comes_back(chat: Conversation, at: str) -> None:
    message = Message("user", (Text("x"),), datetime.fromisoformat(at))
    chat.ingest([message, Message.tool("y z " * 50_000, call_id="c")])
    assert chat.messages()[0].message == message
    assert len(chat.context().items) == 2


MARKS = [{"cuts": 5}, {"part": {}}, {"cuts": []}, "mine", None, {"cuts": [[0, 1, "file_x", "text"]]}]


@pytest.mark.parametrize("mark", MARKS)
def test_a_hosts_own_key_of_our_name_comes_back(chat: Conversation, mark: object) -> None:
    extra = {"lossless": mark, "lossless:host": 1, "openclaw": {}}
    large = f"<file>{'line of a large file ' * 20_000}</file>"
    messages = [
        Message("user", (Text("x", extra),)),
        Message("user", (Text(large, extra), File("image/png", None, "QUJD", None, extra))),
        Message("tool", (ToolResult("c", (Text("x", extra),), extra=extra),)),
    ]
    chat.ingest(messages)
    assert [m.message for m in chat.messages()] == messages


def test_what_the_context_shows_can_be_ingested_again(chat: Conversation) -> None:
    chat.ingest([Message.user("line of a large file\n" * 20_000)])
    (shown,) = chat.context().messages
    chat.ingest([shown])
    assert chat.messages()[1].message == shown
    assert chat.messages()[1].text.startswith("[LCM Raw Payload")


def test_halves_of_a_character_stay_apart(chat: Conversation) -> None:
    halves = "\ud83d" + "\ude00"
    chat.ingest([Message.user(halves), Message.user("a\0" + halves)])
    assert texts(chat) == [halves, "a\0" + halves]


@pytest.mark.parametrize(("after", "limit"), [(0, 2**63), (2**70, 5), (-5, 3)])
def test_any_page_can_be_asked_for(chat: Conversation, after: int, limit: int) -> None:
    chat.ingest([Message.user("a")])
    assert len(chat.messages(after=after, limit=limit)) == (0 if after > 0 else 1)
