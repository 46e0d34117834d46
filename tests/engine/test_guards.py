"""Calls are held back before they become a bill, and nothing of that is forgotten over a restart."""

from __future__ import annotations

from lossless import Lossless, Message, Settings, SummaryRequest
from lossless.engine.guards import Breaker, Spend
from lossless.errors import SummarizerAuth

MINUTE = 60.0
SETTINGS = Settings(
    fresh_tail_count=1,
    leaf_chunk_tokens=300,
    leaf_target_tokens=50,
    max_sweep_iterations=500,
    large_file_token_threshold=5000,
)


def test_twenty_four_calls_in_ten_minutes_and_then_half_an_hour_of_rest() -> None:
    spend = Spend()
    for call in range(24):
        spend = spend.called(float(call), Settings())
        assert spend.until == 0
    spend = spend.called(25.0, Settings())
    assert spend.until == 25 + 30 * MINUTE


def test_calls_that_are_old_enough_do_not_count() -> None:
    spend = Spend()
    for call in range(100):
        spend = spend.called(call * MINUTE, Settings())
    assert spend.until == 0


def test_five_refusals_in_a_row_open_the_breaker() -> None:
    breaker = Breaker()
    for _ in range(4):
        breaker = breaker.refused(0.0, Settings())
        assert breaker.until == 0
    assert breaker.refused(7.0, Settings()).until == 7 + 30 * MINUTE


def turns(count: int) -> list[Message]:
    return [Message.user(f"turn {n} " + "with some words in it " * 12) for n in range(count)]


def test_a_conversation_that_asks_too_often_stops_and_stays_stopped_after_a_restart(database: str) -> None:
    now, calls = 1_000.0, 0

    def counted(request: SummaryRequest) -> str:
        nonlocal calls
        calls += 1
        return f"turn\nExpand for details about: call {calls}"

    def compacted(force: bool = False) -> str:
        with Lossless.open(database, settings=SETTINGS, summarizer=counted, clock=lambda: now) as lcm:
            return lcm.conversation("k").compact(500, force=force).stop

    with Lossless.open(database, settings=SETTINGS) as lcm:
        lcm.conversation("k").ingest(turns(200))
    assert compacted() == "spend"
    assert calls == 24
    assert compacted() == "spend"
    assert calls == 24
    now += 31 * MINUTE
    assert compacted() == "spend"
    assert calls == 48
    compacted(force=True)
    assert calls > 48


def test_refused_credentials_open_the_breaker_and_cost_no_spending(database: str) -> None:
    now, calls = 1_000.0, 0

    def refused(request: SummaryRequest) -> str:
        nonlocal calls
        calls += 1
        raise SummarizerAuth("no")

    with Lossless.open(database, settings=SETTINGS, summarizer=refused, clock=lambda: now) as lcm:
        chat = lcm.conversation("k")
        chat.ingest(turns(50))
        assert [chat.compact(500).stop for _ in range(7)] == ["auth"] * 5 + ["breaker"] * 2
        assert calls == 5
        now += 31 * MINUTE
        assert chat.compact(500).stop == "auth"
        assert chat.compact(500, force=True).stop == "auth"
        assert chat.summaries() == []


def test_an_answer_ends_a_row_of_refusals(database: str) -> None:
    refusing = True

    def moody(request: SummaryRequest) -> str:
        if refusing:
            raise SummarizerAuth("no")
        return "turn\nExpand for details about: the rest"

    def compacted() -> str:
        with Lossless.open(database, settings=SETTINGS, summarizer=moody, clock=lambda: 1_000.0) as lcm:
            chat = lcm.conversation("k")
            chat.ingest(turns(12))
            return chat.compact(500).stop

    assert [compacted() for _ in range(4)] == ["auth"] * 4
    refusing = False
    assert compacted() not in ("auth", "breaker")
    refusing = True
    assert [compacted() for _ in range(6)] == ["auth"] * 5 + ["breaker"]


def test_the_embedded_summariser_is_not_held_back(database: str) -> None:
    with Lossless.open(database, settings=SETTINGS, summarizer="extractive") as lcm:
        chat = lcm.conversation("k")
        chat.ingest(turns(300))
        assert len(chat.compact(500).summaries) > 24
