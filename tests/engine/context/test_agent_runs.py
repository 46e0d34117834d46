"""Whole runs of agents: whatever they look like, each request fits its window, is valid, and hides nothing that no summary covers."""

from __future__ import annotations

import base64
import json
import os
from collections.abc import Iterator
from random import Random

import pytest
from msgspec import structs

from lossless import Conversation, File, Lossless, Message, Reasoning, Settings, Summary, SummaryRequest, Text
from lossless.engine.context.summary_xml import stands_for
from lossless.events import Event
from lossless.model import Context, Part, StoredMessage, ToolCall, ToolResult
from tests.engine.compaction.test_compaction import assert_promise, leaves
from tests.engine.context.test_valid_requests import FORMATS
from tests.validators import violations

WINDOWS = (128_000, 32_000, 8_000)
MOST_BYTES = 300_000
SETTINGS = Settings(
    summary_max_calls_per_window=10**6, max_sweep_iterations=10**6, timezone="UTC", max_request_bytes=MOST_BYTES
)
RUNS = range(400) if os.environ.get("LCM_TEST_PROFILE") == "slow" else (*range(6), 30, 57, 201)
WORDS = ["error", "read", "the", "file", "of", "module", "returns", "None", "test", "fails", "because", "index", "42"]
THOUGHTS = [
    Reasoning("hm", "claude-sig", {"anthropic": {}}),
    Reasoning("hm", "gpt-sig", {"openai_responses": {"summary": []}}),
    Reasoning("hm", None, {"openai_chat": {"$field": "reasoning_content"}}),
]


def brief(request: SummaryRequest) -> str:
    """A summary at once: the first lines of its source, about as long as it is asked to be."""
    lines = [line for line in request.source.splitlines() if line and not line.startswith("[")]
    return "\n".join(lines)[: 3 * request.target_tokens] + "\nExpand for details about: the rest"


def words(random: Random, most: int) -> str:
    return " ".join(random.choices(WORDS, k=random.randint(1, max(1, most))))


def picture(random: Random) -> File:
    return File(
        "image/png", "shot.png", base64.b64encode(random.randbytes(random.choice([300, 3_000, 30_000]))).decode()
    )


class Run:
    """Invents the history of an agent, turn by turn."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self.calls = 0
        self.late: list[Message] = []

    def history(self) -> list[Message]:
        said = [message for _ in range(self.random.randint(1, 5)) for message in self.turn()]
        return [structs.replace(message, event_id=f"e{at}") for at, message in enumerate(said)]

    def turn(self) -> Iterator[Message]:
        random = self.random
        asked: list[Part] = [Text(words(random, random.choice([5, 50, 1_500])))]
        yield Message("user", (*asked, *([picture(random)] if random.random() < 0.2 else [])))
        size, thought = random.choice([20, 200, 1_000]), random.choice([*THOUGHTS, None])
        for _ in range(random.choice([0, 1, 3, 20, 60, 200])):
            yield from self.round(size, thought)
            if self.late and random.random() < 0.2:
                yield self.late.pop()
        if random.random() < 0.8:
            yield Message.assistant(words(random, 200))

    def round(self, size: int, thought: Reasoning | None) -> Iterator[Message]:
        random, count = self.random, self.random.choice([1, 1, 1, 2, 8])
        ids = [f"call_{self.calls + n}" for n in range(count)]
        self.calls += count
        calls = [ToolCall(each, "run", json.dumps({"command": words(random, size // 10)})) for each in ids]
        aborted = random.random() < 0.03
        said: list[Part] = [*([thought] if thought else []), Text(words(random, 20)), *calls]
        yield Message("assistant", tuple(said), stop="aborted" if aborted else "tool_use")
        results = [Message("tool", (self.result(each, size),)) for each in ids]
        if random.random() < 0.1:
            random.shuffle(results)
        for result in [] if aborted else results:
            fate = random.random()
            if fate < 0.03:
                self.late.append(result)
            elif fate > 0.01:
                yield result

    def result(self, call_id: str, size: int) -> ToolResult:
        shot = [picture(self.random)] if self.random.random() < 0.15 else []
        return ToolResult(call_id, (Text(words(self.random, size)), *shot), "run")


def uncovered(chat: Conversation, shown: Context) -> list[int]:
    """The seqs of stored messages that are neither shown nor below a summary that is."""
    store, row = chat._store, chat._store.conversations.active(chat.key)
    assert row is not None
    left = {each.id for each in shown.left_out if each.reason not in ("tool result", "picture", "empty")}
    seen = {item.seq for item in shown.items if isinstance(item, StoredMessage) and f"msg#{item.id}" not in left}
    names = {item.id for item in shown.items if isinstance(item, Summary)}
    for summary in store.summaries.read(row.id):
        if summary.public_id in names:
            seen |= set(leaves(store, row.id, summary.id))
    return [message.seq for message in chat.messages() if message.outside is None and message.seq not in seen]


def check(chat: Conversation, window: int) -> Context:
    """Compact, assemble, and look at everything a request has to keep to."""
    chat.compact(window, force=True)
    shown = chat.assemble(window)
    if (
        shown.over_budget
    ):  # the newest words of the user and the newest tool round alone are too long: nothing else is shown
        assert sum(1 for item in shown.items if not _is_whole(item)) <= 1
        assert (shown.uncovered > 0) == bool(uncovered(chat, shown))
    else:
        assert uncovered(chat, shown) == []
        assert shown.uncovered == 0
        assert shown.tokens <= window
    for name, module in FORMATS.items():
        request = module.dump(shown)
        assert violations(name, request) == [], name
        assert len(json.dumps(request, ensure_ascii=False).encode()) <= 1.05 * MOST_BYTES
    return shown


def _is_whole(item: object) -> bool:
    """Whether an item belongs to a tool round."""
    return isinstance(item, StoredMessage) and any(
        isinstance(part, (ToolCall, ToolResult)) for part in item.message.parts
    )


@pytest.mark.parametrize("seed", RUNS)
def test_any_run_of_an_agent_fits_every_window_and_hides_nothing(seed: int) -> None:
    with Lossless.open(":memory:", settings=SETTINGS, summarizer=brief) as lcm:
        chat, said = lcm.conversation("k"), Run(seed).history()
        chat.ingest(said)
        words = next(message.text for message in reversed(said) if message.role == "user")
        for window in WINDOWS:
            shown = check(chat, window)
            assert any(words in message.text for message in shown.messages if stands_for(message) is None)
        assert_promise(chat)


def calls(count: int, size: int = 200) -> list[Message]:
    """One message of a user, and so many calls that follow it."""
    return [
        Message.user("Fix the build, and do not touch the lock file.", event_id="u"),
        *(
            message
            for n in range(count)
            for message in (
                Message("assistant", (ToolCall(f"c{n}", "run", f'{{"n": {n}}}'),), event_id=f"c{n}"),
                Message("tool", (ToolResult(f"c{n}", (Text(f"line {n} " * size),)),), event_id=f"r{n}"),
            )
        ),
    ]


def test_what_exceeds_the_bytes_of_a_request_is_summarised_although_its_tokens_fit() -> None:
    heard: list[Event] = []
    with Lossless.open(":memory:", settings=SETTINGS, summarizer=brief, on_event=heard.append) as lcm:
        chat = lcm.conversation("k")
        # Rulers: thousands of bytes that cost a few tokens each.
        chat.ingest([Message.user(f"{n} {'=' * 12_000}", event_id=f"e{n}") for n in range(60)])
        chat.compact(128_000)
        before = chat.assemble(128_000)
        assert before.uncovered > 0
        assert before.tokens + before.uncovered < 128_000
        assert [each.name for each in heard].count("context.uncovered") == 1
        assert chat.compact(128_000).summaries
        shown = chat.assemble(128_000)
        assert (shown.uncovered, uncovered(chat, shown), shown.over_budget) == (0, [], False)
        assert_promise(chat)


@pytest.mark.parametrize("window", WINDOWS)
def test_one_message_and_six_hundred_calls_fit_every_window(database: str, window: int) -> None:
    with Lossless.open(database, settings=SETTINGS, summarizer=brief) as lcm:
        chat = lcm.conversation("k")
        chat.ingest(calls(600))
        assert chat.compact(window).summaries
        shown = check(chat, window)
        assert not shown.over_budget
        assert shown.messages[0].text == "Fix the build, and do not touch the lock file."
        assert isinstance(shown.items[1], Summary)
        assert shown.messages[-1] == chat.messages()[-1].message
        assert_promise(chat)


@pytest.mark.parametrize("window", WINDOWS)
def test_a_long_turn_fits_before_it_is_compacted(window: int) -> None:
    with Lossless.open(":memory:", settings=SETTINGS, summarizer=brief) as lcm:
        chat = lcm.conversation("k")
        chat.ingest(calls(600))
        shown = chat.assemble(window)
        assert window // 2 <= shown.tokens <= window
        assert not shown.over_budget
        assert shown.messages[0].text == "Fix the build, and do not touch the lock file."
        assert shown.messages[-1] == chat.messages()[-1].message
        assert shown.uncovered > 0


@pytest.mark.parametrize("window", [8_000, 16_000, 32_000])
def test_summaries_are_seen_however_long_the_newest_messages_are(window: int) -> None:
    with Lossless.open(":memory:", settings=SETTINGS, summarizer=brief) as lcm:
        chat = lcm.conversation("k")
        for n in range(129):
            chat.ingest([Message.user(f"Question {n}. " + "words " * 300), Message.assistant("answers " * 300)])
        shown = check(chat, window)
        assert any(isinstance(item, Summary) for item in shown.items)
        raw = [item.tokens for item in shown.items if isinstance(item, StoredMessage)]
        assert window // 4 < sum(raw) <= 5 * window // 8


def test_no_result_is_lost_between_the_summaries_and_the_tail() -> None:
    """With the settings as they are, over many compactions: rounds of three messages never match a tail of 64."""
    rounds = [
        message
        for n in range(1_200)
        for message in (
            Message("assistant", (ToolCall(f"a{n}", "run"), ToolCall(f"b{n}", "run")), event_id=f"c{n}"),
            Message("tool", (ToolResult(f"a{n}", (Text(f"first {n} " * 150),)),), event_id=f"a{n}"),
            Message("tool", (ToolResult(f"b{n}", (Text(f"second {n} " * 150),)),), event_id=f"b{n}"),
        )
    ]
    compactions = 0
    with Lossless.open(":memory:", settings=SETTINGS, summarizer=brief) as lcm:
        chat = lcm.conversation("k")
        chat.ingest([Message.user("Go on until I say stop.")])
        for start in range(0, len(rounds), 75):
            chat.ingest(rounds[start : start + 75])
            compactions += bool(chat.compact(64_000).summaries)
            shown = chat.assemble(64_000)
            assert not [each for each in shown.left_out if each.reason == "no call"]
            if compactions:
                assert uncovered(chat, shown) == []
        assert compactions > 15
        _assert_closed(chat)


def _assert_closed(chat: Conversation) -> None:
    """No leaf holds a call without its results, or a result without its call."""
    row = chat._store.conversations.active(chat.key)
    assert row is not None
    stored = {message.seq: message.message for message in chat.messages()}
    for summary in chat._store.summaries.read(row.id):
        if summary.depth == 0:
            parts = [part for seq in leaves(chat._store, row.id, summary.id) for part in stored[seq].parts]
            asked = {part.call_id for part in parts if isinstance(part, ToolCall)}
            assert asked == {part.call_id for part in parts if isinstance(part, ToolResult)}


@pytest.mark.parametrize("calls_made", range(5, 70, 8))
def test_a_result_that_comes_late_is_on_the_side_of_its_call(calls_made: int) -> None:
    said = calls(80, 100)
    said.insert(2 * calls_made + 10, said.pop(2 * calls_made))
    settings = structs.replace(SETTINGS, leaf_chunk_tokens=3_000)
    with Lossless.open(":memory:", settings=settings, summarizer=brief) as lcm:
        chat = lcm.conversation("k")
        chat.ingest(said)
        chat.compact(12_000, force=True)
        assert len(chat.summaries()) > 3
        _assert_closed(chat)
        assert uncovered(chat, chat.assemble(12_000)) == []


def test_a_result_whose_call_is_summarised_already_is_shown_as_text() -> None:
    said = calls(300, 100)
    late = said.pop(2)
    with Lossless.open(":memory:", settings=SETTINGS, summarizer=brief) as lcm:
        chat = lcm.conversation("k")
        chat.ingest(said)
        chat.compact(16_000)
        chat.ingest([late])
        shown = check(chat, 16_000)
        stored = chat.messages()[-1]
        quoted = shown.messages[-1]
        assert (quoted.role, stands_for(quoted)) == ("user", f"msg#{stored.id}")
        assert "line 0 line 0" in quoted.text
        count = len(chat.messages())
        assert chat.ingest([quoted]).stored == ()
        assert len(chat.messages()) == count


def screenshots(count: int, size: int, *, call: str = "c0") -> list[Message]:
    """One message of a user with a picture, a call for each screenshot, and its result."""
    random = Random(count)

    def shot(name: str) -> File:
        return File("image/png", name, base64.b64encode(random.randbytes(size)).decode())

    said = [Message("user", (Text("Is it like this?"), shot("mine.png")), event_id="u")]
    for n in range(count):
        said.append(Message("assistant", (ToolCall(f"{call}{n}", "screenshot"),), event_id=f"{call}c{n}"))
        result = ToolResult(f"{call}{n}", (Text(f"shot {n}"), shot(f"{n}.png")))
        said.append(Message("tool", (result,), event_id=f"{call}r{n}"))
    return said


def shown_pictures(context: Context) -> list[str]:
    parts = [part for message in context.messages for part in message.parts]
    inner = [each for part in parts for each in (part.parts if isinstance(part, ToolResult) else (part,))]
    return [part.name or "" for part in inner if isinstance(part, File)]


@pytest.mark.parametrize("stored", [True, False])
@pytest.mark.parametrize(
    ("settings", "model", "most"),
    [
        ({"max_request_bytes": 1_000_000}, None, 24),
        ({}, None, 20),
        ({"max_request_images": 5}, "anthropic/claude-x", 5),
        ({}, "anthropic/claude-x", 43),
        ({}, "gpt-x", 43),
    ],
)
def test_the_oldest_pictures_become_references_first(
    settings: dict[str, int], model: str | None, most: int, stored: bool
) -> None:
    with Lossless.open(":memory:", settings=Settings(**settings)) as lcm:  # type: ignore[arg-type]  # a few of them
        chat, said = lcm.conversation("k"), screenshots(42, 30_000)
        chat.ingest(said if stored else said[:1])
        context = chat.assemble(200_000, model=model, live=None if stored else said)
        names = shown_pictures(context)
        assert most - 8 <= len(names) <= most
        assert names[-1] == "41.png"
        assert len(json.dumps(FORMATS["anthropic"].dump(context))) <= settings.get("max_request_bytes", 30_000_000)
        assert not context.over_budget
        if stored:
            assert names[0] == "mine.png"
            assert names[1:] == [f"{n}.png" for n in range(43 - len(names), 42)]
        assert (
            "LCM file: file_" in str(context.messages)
            or "lcm_describe shows file_" in str(context.messages)
            or most == 43
        )


def test_pictures_leave_by_eights_so_that_most_requests_begin_like_the_one_before() -> None:
    changes, before = 0, ""
    with Lossless.open(":memory:") as lcm:
        chat, said = lcm.conversation("k"), screenshots(40, 300)
        chat.ingest(said[:1])
        for start in range(1, len(said), 2):
            chat.ingest(said[start : start + 2])
            wire = json.dumps(FORMATS["openai_responses"].dump(chat.assemble(200_000))["input"])[:-1]
            changes += not wire.startswith(before)
            before = wire
    assert 1 <= changes <= 3
