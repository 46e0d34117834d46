"""Whatever a provider does, whatever a window is like: compaction goes on or says why not, and its calls are counted."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pytest
from msgspec import structs

from lossless import Conversation, Lossless, Message, Settings, Summary, SummaryRequest
from lossless.events import Event
from tests.engine.compaction.test_compaction import SMALL, WINDOW, assert_promise, open_small, short, turns
from tests.engine.test_worker import Clock, Counting, open_at
from tests.provider import PLAYS, Play, Provider

UNAUTHORISED = PLAYS["talks about 401"].text


def launch(count: int) -> list[Message]:
    """Turns in which what the stand-in says by default, and what it says of a 401, is true."""
    told = f"Anna moved the launch to 3 May. {UNAUTHORISED} What does the budget say, and who tells the others?"
    return [Message.user(f"Turn {n}: {told}") for n in range(count)]


def open_named(database: str, provider: Provider, model: str, **changes: object) -> Lossless:
    """With a model of a provider, at the stand-in's address."""
    settings = structs.replace(SMALL, summary_model=model, summary_base_url=provider.url, **changes)
    return Lossless.open(database, settings=settings)


def scores(chat: Conversation) -> list[float | None]:
    """How far each summary is supported by its sources."""
    row = chat._store.conversations.active(chat.key)
    assert row is not None
    return [each.faithful for each in chat._store.summaries.read(row.id)]


@pytest.fixture(params=["anthropic", "openai"])
def kind(request: pytest.FixtureRequest, credentials: None) -> str:
    return str(request.param)


class Behaviour(NamedTuple):
    """What comes of three runs of messages when a provider behaves like this."""

    script: tuple[str, ...]
    calls: int
    levels: tuple[str, ...]
    score: float | None
    """How far the sources support what the model wrote."""
    stop: str = "compacted"


BARE = ("extractive",) * 3
BEHAVIOURS = {
    "ok": Behaviour(("ok",), 3, ("normal",) * 3, 1),
    "empty": Behaviour(("empty",), 6, BARE, None),
    "echo of its input": Behaviour(("echo",), 6, BARE, None),
    "only reasoning": Behaviour(("only reasoning",), 6, BARE, None),
    "12,000 tokens": Behaviour(("12,000 tokens",), 6, BARE, None),
    "invalid UTF-8": Behaviour(("invalid UTF-8",), 2, BARE, None),
    # What it wrote before is no summary of the next messages.
    "another language": Behaviour(("another language",), 3, ("normal", "extractive", "extractive"), 1),
    "hostile instructions": Behaviour(("hostile instructions",), 6, BARE, None),
    "hang": Behaviour(("hang",), 2, BARE, None),
    "429 with Retry-After": Behaviour(("429",), 1, BARE, None),
    "500 then ok": Behaviour(("500", "ok"), 3, ("extractive", "normal", "normal"), 1),
    "cut in the middle": Behaviour(("cut in the middle",), 2, BARE, None),
    "401": Behaviour(("401",), 1, BARE, None),
    "talks about 401": Behaviour(("talks about 401",), 3, ("normal",) * 3, 1),
}


@pytest.mark.parametrize("behaviour", BEHAVIOURS.values(), ids=BEHAVIOURS)
def test_compaction_under_each_behaviour_of_a_provider(
    database: str, provider: Provider, kind: str, behaviour: Behaviour
) -> None:
    provider.script(*behaviour.script)
    timeout = 1_000 if "hang" in behaviour.script else 10_000
    with open_named(database, provider, f"{kind}/stand-in", summary_timeout_ms=timeout) as lcm:
        chat = lcm.conversation("k")
        chat.ingest(launch(28))
        done = chat.compact(WINDOW)
        assert_promise(chat)
        assert (done.stop, provider.calls) == (behaviour.stop, behaviour.calls)
        assert tuple(summary.level for summary in chat.summaries()) == behaviour.levels
        for summary, score in zip(chat.summaries(), scores(chat), strict=True):
            written = summary.level in ("normal", "aggressive")
            assert summary.model == (f"{kind}/stand-in-2026-01-01" if written else "extractive")
            assert score == (behaviour.score if written else None)
            assert summary.tokens <= SMALL.leaf_target_tokens * SMALL.summary_max_overage_factor
            assert "Let me think" not in summary.text
        assert done.tokens_after < (done.tokens_before / 2 if behaviour.levels else done.tokens_before + 1)


@pytest.mark.parametrize("play", ["ok", "another language", "talks about 401", "hostile instructions"])
def test_what_no_source_says_is_asked_for_again_and_never_stored(
    database: str, provider: Provider, kind: str, play: str
) -> None:
    provider.script(play)
    with open_named(database, provider, f"{kind}/stand-in") as lcm:
        chat = lcm.conversation("k")
        chat.ingest(turns(16))
        done = chat.compact(WINDOW)
        assert len(done.summaries) == len(chat.summaries()) > 1
        assert provider.calls == 2 * len(done.summaries)
        assert {(each.level, each.suspected) for each in chat.summaries()} == {("extractive", "")}
        assert PLAYS[play].text not in str(chat.assemble(WINDOW).messages)
        assert_promise(chat)


def test_a_worker_leaves_a_provider_in_peace_for_as_long_as_it_asks(
    database: str, provider: Provider, kind: str
) -> None:
    clock = Clock()
    provider.script("429")
    named = {"summary_model": f"{kind}/stand-in", "summary_base_url": provider.url}
    with open_at(database, clock, None, **named) as lcm:
        chat = lcm.conversation("k")
        chat.after_turn(launch(17), window=WINDOW)
        clock.now += 3
        assert lcm.worker().step()
        assert chat.summaries() == []
        clock.now += 6
        assert not lcm.worker().step()
        assert provider.calls == 1
        assert_promise(chat)


def test_a_text_that_no_source_bears_out_stands_as_history_and_cannot_pass_for_more(
    database: str, provider: Provider, kind: str
) -> None:
    provider.script("hostile instructions")
    with open_named(database, provider, f"{kind}/stand-in") as lcm:
        chat = lcm.conversation("k")
        chat.ingest(launch(28))
        chat.compact(WINDOW)
        for item, message in zip(chat.context().items, chat.context().messages, strict=True):
            if isinstance(item, Summary):
                assert 'trust="untrusted"' in message.text
                assert message.role == "user"


def test_a_prompt_with_an_error_in_it_is_refused_by_its_line_and_the_built_in_one_serves(
    database: str, tmp_path: Path
) -> None:
    prompts = tmp_path / "prompts"
    prompts.mkdir()
    (prompts / "leaf.txt").write_text("Summarise.\n{% if depth %}\n{{ conversation_segment }}\n{% endif")
    asked: list[SummaryRequest] = []
    told: list[Event] = []

    def noting(request: SummaryRequest) -> str:
        asked.append(request)
        return short(request)

    settings = structs.replace(SMALL, prompt_dir=str(prompts))
    with Lossless.open(database, settings=settings, summarizer=noting, on_event=told.append) as lcm:
        chat = lcm.conversation("k")
        chat.ingest(turns(40))
        assert chat.compact(WINDOW).summaries
        assert_promise(chat)
    assert [event.name for event in told] == ["prompts.refused"]
    assert f"{prompts / 'leaf.txt'}, line 4: " in told[0].message
    assert all("<conversation_segment>" in request.prompt for request in asked if request.depth == 0)


def test_a_window_smaller_than_the_tail_is_compacted_up_to_the_newest_messages(database: str) -> None:
    with open_small(database, Counting(), fresh_tail_count=64) as lcm:
        chat = lcm.conversation("k")
        chat.ingest(turns(30))
        assert chat.compact(200).summaries
        chat.ingest(turns(60, 30))
        assert chat.compact(200).summaries
        assert not isinstance(chat.context().items[-1], Summary)
        assert chat.context().tokens < 400
        assert_promise(chat)


@pytest.mark.parametrize("before", [0, 1, 3])
@pytest.mark.parametrize("summarizer", [short, "extractive"])
def test_a_message_larger_than_the_window_is_summarised_wherever_it_stands(
    database: str, before: int, summarizer: str | Callable[[SummaryRequest], str]
) -> None:
    with open_small(database, summarizer) as lcm:
        chat = lcm.conversation("k")
        chat.ingest([*turns(before), Message.user("enormous words " * 2000), *turns(10, before)])
        assert chat.compact(WINDOW).tokens_after < WINDOW
        assert_promise(chat)


def test_a_newest_message_larger_than_the_window_is_told_and_stays_whole(database: str) -> None:
    model = Counting()
    with open_small(database, model) as lcm:
        chat = lcm.conversation("k")
        enormous = Message.user("enormous words " * 2000)
        chat.ingest([*turns(2), enormous])
        assert [chat.compact(WINDOW).stop for _ in range(3)] == ["exhausted"] * 3
        assert chat.context().messages[-1] == enormous
        assert model.calls <= 1
        assert_promise(chat)


LIFE = structs.replace(
    SMALL, compaction_trigger="both", incremental_max_depth=1, proactive_threshold_compaction_mode="inline"
)


class Scripted:
    """A summariser that says which of its calls wrote a text, and writes it as long as a test needs."""

    def __init__(self, words: int) -> None:
        self.asked: list[SummaryRequest] = []
        self._words = words

    def __call__(self, request: SummaryRequest) -> str:
        self.asked.append(request)
        return "words of the answer " * self._words + "\nExpand for details about: the rest"


class Life:
    """A conversation turn by turn, and what each turn made."""

    def __init__(self, database: str, model: Scripted, **changes: object) -> None:
        settings = structs.replace(LIFE, **changes)
        self.lcm = Lossless.open(database, settings=settings, summarizer=model, on_event=lambda event: None)
        self.chat, self.turn = self.lcm.conversation("k"), 0

    def live(self, window: int) -> list[Summary]:
        known = {summary.id for summary in self.chat.summaries()}
        self.chat.after_turn(turns(1, self.turn), window=window)
        self.turn += 1
        assert_promise(self.chat)
        return [summary for summary in self.chat.summaries() if summary.id not in known]

    def until(self, depth: int, window: int, most: int = 60) -> list[Summary]:
        """Turns until a summary of that depth is made; what the last turn made."""
        for _ in range(most):
            made = self.live(window)
            if any(summary.depth == depth for summary in made):
                return made
        raise AssertionError(f"no summary of depth {depth} in {most} turns")


ROOMY = 1_000_000


def test_a_leaf_is_made_after_the_turn_that_brings_a_full_chunk_before_the_tail(database: str) -> None:
    model = Scripted(8)
    life = Life(database, model)
    with life.lcm:
        (leaf,) = life.until(0, ROOMY)
        outside = life.chat.messages()[: -LIFE.fresh_tail_count]
        chunk = leaf.source_tokens
        assert chunk <= LIFE.leaf_chunk_tokens <= sum(message.tokens for message in outside)
        assert sum(message.tokens for message in outside[:-2]) < LIFE.leaf_chunk_tokens  # no turn earlier
        assert (leaf.depth, leaf.kind, model.asked[0].previous) == (0, "leaf", None)
        assert "Question 0" in model.asked[0].source
        assert " | user]" in model.asked[0].source
        shown = life.chat.context().items
        assert shown[0] == leaf
        assert len(shown[1:]) >= LIFE.fresh_tail_count
        assert not any(isinstance(item, Summary) for item in shown[1:])
        assert life.live(ROOMY) == []
        life.until(0, ROOMY)
        assert model.asked[1].previous == leaf.text  # the next one goes on where it ended
        assert "Question 0" not in model.asked[1].source


def test_leaves_are_condensed_after_a_turn_once_there_are_enough_and_no_deeper_than_set(database: str) -> None:
    model = Scripted(10)
    life = Life(database, model)
    with life.lcm:
        leaf, condensed = life.until(1, ROOMY)
        assert (leaf.depth, condensed.depth, condensed.kind) == (0, 1, "condensed")
        assert condensed.descendants >= LIFE.leaf_min_fanout
        assert life.chat.context().items[0] == condensed
        assert model.asked[-1].depth == 1
        assert leaf.text in model.asked[-1].source
        for _ in range(60):
            assert len(life.live(ROOMY)) <= 2
        assert {summary.depth for summary in life.chat.summaries()} == {0, 1}
        assert life.chat.status().context_tokens < ROOMY * LIFE.context_threshold


def test_over_the_threshold_a_sweep_takes_all_that_is_raw_and_then_condenses_deeper(database: str) -> None:
    model = Scripted(20)
    life = Life(database, model)
    with life.lcm:
        for _ in range(70):
            life.live(ROOMY)
        before = life.chat.status().context_tokens
        assert {summary.depth for summary in life.chat.summaries()} == {0, 1}
        made = life.live(before)
        raw = [item for item in life.chat.context().items if not isinstance(item, Summary)]
        assert sum(item.tokens for item in raw[: -LIFE.fresh_tail_count]) < LIFE.leaf_chunk_tokens // 2
        assert life.chat.status().context_tokens < before * LIFE.context_threshold
        assert max(summary.depth for summary in life.chat.summaries()) == 2
        assert [summary.depth for summary in made] == sorted(summary.depth for summary in made)


def test_a_budget_is_reached_by_sweeps_and_a_model_that_fails_breaks_no_turn(database: str) -> None:
    failing = 0

    class Failing(Scripted):
        def __call__(self, request: SummaryRequest) -> str:
            nonlocal failing
            failing += 1
            if failing % 3 == 0:
                raise RuntimeError("the model is ill")
            return super().__call__(request)

    life = Life(database, Failing(10))
    with life.lcm:
        for _ in range(80):
            life.live(ROOMY)
        assert failing >= 6
        assert {summary.level for summary in life.chat.summaries()} == {"normal", "extractive"}
        tokens = life.chat.status().context_tokens
        done = life.chat.compact(ROOMY, target=3 * tokens // 5)
        assert done.tokens_after <= 3 * tokens // 5
        assert_promise(life.chat)


def test_every_summary_is_normal_aggressive_or_made_without_the_model(database: str) -> None:
    def stubborn(request: SummaryRequest) -> str:
        return short(request) if request.aggressive else request.source * 2

    def hopeless(request: SummaryRequest) -> str:
        return request.source * 2

    for model, level in ((short, "normal"), (stubborn, "aggressive"), (hopeless, "extractive")):
        with open_small(database, model, compaction_trigger="both") as lcm:
            chat = lcm.conversation(level)
            chat.ingest(turns(30))
            chat.compact(WINDOW)
            assert {summary.level for summary in chat.summaries()} == {level}
            assert_promise(chat)


def tiny(n: int) -> list[Message]:
    return [
        Message.user(f"and number {n}, what of it, please?", event_id=f"u{n}"),
        Message.assistant(f"number {n} is done as well", event_id=f"a{n}"),
    ]


class Waiting(NamedTuple):
    """A context over its target with nothing left to compact, turn after turn."""

    window: int
    turn: Callable[[int], list[Message]] = tiny
    target: int | None = None
    echo: bool = False


WAITING = {
    "a tail over the threshold": Waiting(400),
    "a target out of reach": Waiting(100_000, target=1),
    "a target out of reach in a small window": Waiting(400, target=1),
    "an echo": Waiting(400, echo=True),
    "an echo and a target out of reach": Waiting(400, echo=True, target=1),
}


@pytest.mark.parametrize("mode", ["inline", "deferred"])
@pytest.mark.parametrize("case", WAITING.values(), ids=WAITING)
def test_fifty_turns_with_nothing_to_gain_cost_a_few_calls(database: str, case: Waiting, mode: str) -> None:
    clock, calls = Clock(), 0

    def counted(request: SummaryRequest) -> str:
        nonlocal calls
        calls += 1
        return request.source if case.echo else short(request)

    def live(lcm: Lossless, n: int) -> None:
        chat = lcm.conversation("k")
        clock.now += 60
        if case.target is None:
            chat.after_turn(case.turn(n), window=case.window)
            clock.now += 5
            if mode == "deferred":
                lcm.drain()
        else:
            chat.ingest(case.turn(n))
            chat.compact(case.window, target=case.target)

    settings = structs.replace(Settings(), proactive_threshold_compaction_mode=mode)
    for half in (range(25), range(25, 50)):
        with Lossless.open(
            database, settings=settings, summarizer=counted, clock=clock, on_event=lambda event: None
        ) as lcm:
            lcm._background.wake = lambda: None  # type: ignore[method-assign]  # drained here
            for n in half:
                live(lcm, n)
            assert_promise(lcm.conversation("k"))
            assert lcm.conversation("k").status().context_tokens > 0.75 * min(case.window, case.target or case.window)
    assert calls <= (6 if case.echo else 3)


def test_a_suspected_claim_is_left_out_before_a_summary_is_stored(database: str, provider: Provider, kind: str) -> None:
    """And a text that is mostly invented gives way to one made of quotations."""
    right = "Anna moved the launch to 3 May."
    wrong = "Gerhard Zimmermann approved 918,273 euros on 14 July 1987."
    provider.script(Play(text=f"{right} {right}\n- {wrong}\n- {right}\nFiles: none\nExpand for details about: none"))
    with open_named(database, provider, f"{kind}/stand-in") as lcm:
        chat = lcm.conversation("k")
        chat.ingest(launch(28))
        chat.compact(WINDOW)
        assert {summary.level for summary in chat.summaries()} == {"normal"}
        assert provider.calls == len(chat.summaries())
        for summary in chat.summaries():
            assert right in summary.text
            assert "Zimmermann" not in summary.text
            assert "918,273" not in summary.text
            last = summary.text.splitlines()[-1]
            assert last.endswith("1 statement left out because it was not found in the sources")
        assert scores(chat) == [1.0] * 3
        assert not any(summary.suspected for summary in chat.summaries())
        provider.script(Play(text=f"{wrong} {wrong}\nFiles: none\nExpand for details about: none"))
        other = lcm.conversation("other")
        other.ingest(launch(28))
        other.compact(WINDOW)
        assert {summary.level for summary in other.summaries()} == {"extractive"}
        assert "Zimmermann" not in str(other.assemble(WINDOW).messages)


def test_a_summary_never_says_that_nothing_was_left_out(database: str, provider: Provider, kind: str) -> None:
    provider.script(Play(text="Anna moved the launch to 3 May.\nFiles: none\nExpand for details about: none"))
    with open_named(database, provider, f"{kind}/stand-in") as lcm:
        chat = lcm.conversation("k")
        chat.ingest(launch(28))
        chat.compact(WINDOW)
        for summary in chat.summaries():
            (last,) = [line for line in summary.text.splitlines() if line.startswith("Expand for details about:")]
            assert summary.level == "normal"
            assert len(last.removeprefix("Expand for details about:").strip(" .")) > 4
            assert "none" not in last
