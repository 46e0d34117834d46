"""Calls are held back before they become a bill, and nothing of that is forgotten over a restart."""

from __future__ import annotations

from msgspec import structs

from lossless import Lossless, Message, Settings, SummaryRequest
from lossless.engine.shared.call_limits import Breaker, Daily, Spend
from lossless.errors import SummarizerAuth
from lossless.model import StoredMessage
from tests.provider import Provider

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
        spend = spend.with_call(float(call), Settings())
        assert spend.until == 0
    spend = spend.with_call(25.0, Settings())
    assert spend.until == 25 + 30 * MINUTE


def test_calls_that_are_old_enough_do_not_count() -> None:
    spend = Spend()
    for call in range(100):
        spend = spend.with_call(call * MINUTE, Settings())
    assert spend.until == 0


def test_five_refusals_in_a_row_open_the_breaker() -> None:
    breaker = Breaker()
    for _ in range(4):
        breaker = breaker.with_refusal(0.0, Settings())
        assert breaker.until == 0
    assert breaker.with_refusal(7.0, Settings()).until == 7 + 30 * MINUTE


def turns(count: int) -> list[Message]:
    return [Message.user(f"turn {n} " + "with some words in it " * 12) for n in range(count)]


def test_a_conversation_that_asks_too_often_goes_on_without_a_model_also_after_a_restart(database: str) -> None:
    now, calls = 1_000.0, 0

    def counted(request: SummaryRequest) -> str:
        nonlocal calls
        calls += 1
        return f"turn\nExpand for details about: call {calls}"

    def compacted(force: bool = False) -> str:
        with Lossless.open(database, settings=SETTINGS, summarizer=counted, clock=lambda: now) as lcm:
            chat = lcm.conversation("k")
            chat.ingest(turns(200))
            done = chat.compact(500, force=force)
            # Nothing older than the tail is left uncovered.
            assert sum(isinstance(item, StoredMessage) for item in chat.context().items) == 1
            return done.without_model

    assert (compacted(), calls) == ("spend", 24)
    assert (compacted(), calls) == ("spend", 24)
    now += 31 * MINUTE
    assert (compacted(), calls) == ("spend", 48)
    assert (compacted(force=True), calls) == ("spend", 72)


def test_refused_credentials_open_the_breaker_and_cost_no_spending(database: str) -> None:
    now, calls = 1_000.0, 0

    def refused(request: SummaryRequest) -> str:
        nonlocal calls
        calls += 1
        raise SummarizerAuth("no")

    with Lossless.open(database, settings=SETTINGS, summarizer=refused, clock=lambda: now) as lcm:
        chat = lcm.conversation("k")

        def compacted(force: bool = False) -> str:
            chat.ingest(turns(50))
            return chat.compact(500, force=force).without_model

        assert [compacted() for _ in range(7)] == ["auth"] * 5 + ["breaker"] * 2
        assert calls == 5
        now += 31 * MINUTE
        assert compacted() == "auth"
        assert compacted(force=True) == "auth"
        assert {summary.level for summary in chat.summaries()} <= {"extractive", "cut"}
        assert lcm.status().calls.calls == 0


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
            return chat.compact(500).without_model

    assert [compacted() for _ in range(4)] == ["auth"] * 4
    refusing = False
    assert compacted() == ""
    refusing = True
    assert [compacted() for _ in range(6)] == ["auth"] * 5 + ["breaker"]


def test_what_a_clock_that_was_ahead_left_behind_does_not_count() -> None:
    year, now = 365 * 24 * 60 * MINUTE, 1_000.0
    assert not Spend(until=now + year).is_held(now, Settings())
    assert Spend(until=now + 29 * MINUTE).is_held(now, Settings())
    assert Spend((now + year,) * 24).with_call(now, Settings()).calls == (now,)
    assert not Breaker(until=now + year).is_open(now, Settings())
    assert Breaker(until=now + 29 * MINUTE).is_open(now, Settings())
    assert Daily({int((now + year) // 3600): 500}).total(now) == 0


def test_a_day_has_a_limit_that_moves_on_hour_by_hour() -> None:
    hour, day = 3600.0, Daily()
    for at in (0.0, 1.0, 5 * hour):
        assert day.full_until(at, 3) == 0
        day = day.with_call(at)
    assert day.total(6 * hour) == 3
    assert day.full_until(6 * hour, 3) == 24 * hour
    assert day.full_until(24 * hour, 3) == 0
    assert day.full_until(6 * hour, None) == 0
    assert day.full_until(6 * hour, 1) == 29 * hour


def test_the_limit_of_a_day_is_for_all_conversations_and_owners_and_force_does_not_lift_it(database: str) -> None:
    calls = 0

    def counted(request: SummaryRequest) -> str:
        nonlocal calls
        calls += 1
        return f"turn\nExpand for details about: call {calls}"

    settings = structs.replace(SETTINGS, max_calls_per_day=5)
    done = []
    for owner, key in (("a", "one"), ("a", "two"), ("b", "three")):
        with Lossless.open(database, settings=settings, summarizer=counted, owner=owner, clock=lambda: 1_000.0) as lcm:
            chat = lcm.conversation(key)
            chat.ingest(turns(12))
            done.append(chat.compact(500, force=True).without_model)
            shown = lcm.status()
    assert (calls, done) == (5, ["", "daily limit", "daily limit"])
    assert (shown.calls.today, shown.calls.most_a_day) == (5, 5)
    assert any("max_calls_per_day" in reason.text for reason in shown.reasons)


def test_what_is_counted_are_requests_on_the_wire(database: str, provider: Provider, credentials: None) -> None:
    """Two requests for one summary are two; what a guard stops or what has no key is none."""
    settings = structs.replace(
        SETTINGS, summary_model="openai/gpt-4o", summary_base_url=provider.url, max_calls_per_day=3
    )
    provider.script("empty")
    with Lossless.open(database, settings=settings, clock=lambda: 1_000.0) as lcm:
        chat = lcm.conversation("k")
        chat.ingest(turns(30))
        chat.compact(500)
        assert provider.calls == 3
        assert lcm.status().calls.today == 3
        chat.ingest(turns(30))
        chat.compact(500)
        assert (provider.calls, lcm.status().calls.today) == (3, 3)


def test_the_embedded_summariser_is_not_held_back(database: str) -> None:
    with Lossless.open(database, settings=SETTINGS, summarizer="extractive") as lcm:
        chat = lcm.conversation("k")
        chat.ingest(turns(300))
        assert len(chat.compact(500).summaries) > 24
