"""Deferred work: a turn leaves one debt, an idle moment pays it, and no worker's death loses it."""

from __future__ import annotations

import subprocess
import sys
import threading
from datetime import UTC, datetime
from itertools import pairwise

import pytest
from msgspec import structs

from lossless import Lossless, Message, SummaryRequest
from lossless.engine.worker import retry_later, settlement
from lossless.errors import InvalidInput, StoreUnavailable, SummarizerUnavailable
from lossless.events import Event
from lossless.model import Compaction, CompactionStop
from lossless.store.rows.types import DebtRow
from lossless.tokens import estimate
from tests.engine.compaction.test_compaction import SMALL, WINDOW, assert_promise, expanded, short, turns

NOW = 1_800_000_000.0


class Clock:
    def __init__(self) -> None:
        self.now = NOW

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


class Counting:
    """A summariser that counts its calls."""

    def __init__(self) -> None:
        self.calls = 0

    def __call__(self, request: SummaryRequest) -> str:
        self.calls += 1
        return short(request)


def open_at(database: str, clock: Clock, summarizer: object = "extractive", **changes: object) -> Lossless:
    lcm = Lossless.open(database, settings=structs.replace(SMALL, **changes), summarizer=summarizer, clock=clock)  # type: ignore[arg-type]  # a summariser of either kind
    lcm._background.wake = lambda: None  # type: ignore[method-assign]  # these tests step the worker themselves
    return lcm


def a_debt(**changes: object) -> DebtRow:
    debt = DebtRow(1, "k", True, 1000, 0, None, 0, 0, 0, "w", 60, None, None, None, 1)
    return structs.replace(debt, **changes)


@pytest.mark.parametrize(
    ("attempts", "compacting", "rewriting"),
    [(0, 5, 5), (1, 10, 10), (2, 20, 20), (3, 30, 40), (4, 30, 60), (50, 30, 60), (5_000, 30, 60)],
)
@pytest.mark.parametrize("window", [1_000, 0])
def test_what_failed_is_tried_again_ever_more_rarely(
    attempts: int, compacting: int, rewriting: int, window: int
) -> None:
    minutes = compacting if window else rewriting
    after = retry_later(a_debt(attempts=attempts, window_tokens=window), NOW)
    assert (after.pending, after.attempts, after.next_at) == (True, attempts + 1, NOW + 60 * minutes)


@pytest.mark.parametrize(
    ("stop", "made", "pending", "attempts", "delay"),
    [
        ("compacted", 3, False, 0, None),
        ("below threshold", 0, False, 0, None),
        ("exhausted", 0, False, 0, None),
        ("passes", 12, True, 0, 0),  # progress is never punished
        ("deadline", 1, True, 0, 0),
        ("deadline", 0, True, 3, 20 * 60),  # a stall is
        ("yielded", 0, True, 0, 0),
        ("moved", 0, True, 0, 0),
        ("auth", 0, True, 3, 20 * 60),
        ("unavailable", 0, True, 3, 20 * 60),
    ],
)
def test_how_a_debt_is_settled(
    stop: CompactionStop, made: int, pending: bool, attempts: int, delay: float | None
) -> None:
    done = Compaction(("sum_x",) * made, 100, 50, stop)
    after = settlement(a_debt(attempts=2), done, NOW)
    assert (after.pending, after.attempts) == (pending, attempts)
    assert delay is None or after.next_at == NOW + delay


def test_a_guard_that_names_its_end_is_waited_for() -> None:
    until = datetime.fromtimestamp(NOW + 1800, UTC)
    after = settlement(a_debt(attempts=1), Compaction((), 100, 100, "spend", until), NOW)
    assert (after.pending, after.attempts, after.next_at) == (True, 1, NOW + 1800)


def test_a_turn_makes_no_call_and_leaves_one_debt(database: str, clock: Clock) -> None:
    model = Counting()
    with open_at(database, clock, model) as lcm:
        chat = lcm.conversation("k")
        for n in range(12):
            chat.after_turn(turns(1, n), window=WINDOW)
        assert model.calls == 0
        assert 0.75 * WINDOW < chat.status().context_tokens < WINDOW
        assert lcm._store.all("SELECT count(*) FROM debt") == [(1,)]
        assert not lcm.worker().step()  # the host is not idle yet
        clock.now += 2
        assert lcm.worker().step()
        assert model.calls > 0
        assert chat.status().context_tokens < 0.75 * WINDOW
        assert_promise(chat)
        assert not lcm.worker().step()


def test_a_host_that_never_pauses_is_compacted_once_its_context_is_over_its_budget(database: str, clock: Clock) -> None:
    """Sixty turns, a third of a second apart, and a worker that looks after each."""
    model, hidden = Counting(), list[int]()
    with open_at(database, clock, model) as lcm:
        chat, worker = lcm.conversation("k"), lcm.worker()
        for n in range(60):
            chat.after_turn(turns(3, 3 * n), window=4 * WINDOW)
            clock.now += 0.3
            is_over = chat.status().context_tokens > 4 * WINDOW
            assert worker.step() or not is_over
            hidden.append(chat.assemble(4 * WINDOW).uncovered)
        assert model.calls > 0
        # Frames and stand-ins are known once something was assembled: what they push out is covered after the next turn.
        assert not any(all(both) for both in pairwise(hidden))
        assert_promise(chat)


def test_what_the_host_keeps_for_itself_counts_against_the_budget(database: str, clock: Clock) -> None:
    with open_at(database, clock, short) as lcm:
        chat = lcm.conversation("k")
        chat.after_turn(turns(12), window=WINDOW)
        assert 0.75 * WINDOW < chat.status().context_tokens < WINDOW
        assert not lcm.worker().step()
        assert chat.assemble(WINDOW, reserve=500).uncovered > 0
        assert lcm.worker().step()
        assert chat.assemble(WINDOW, reserve=500).uncovered == 0


def test_a_ceiling_on_the_budget_counts_too(database: str, clock: Clock) -> None:
    with open_at(database, clock, short, max_assembly_token_budget=1_000) as lcm:
        chat = lcm.conversation("k")
        chat.after_turn(turns(20), window=100_000)
        assert lcm.worker().step()


def test_below_the_threshold_nothing_is_owed(database: str, clock: Clock) -> None:
    with open_at(database, clock) as lcm:
        lcm.conversation("k").after_turn(turns(2), window=100_000)
        assert not lcm._store.debts.any_pending()
        lcm.conversation("k").after_turn(turns(1, 2), window=100_000, observed=90_000)
        assert lcm._store.debts.any_pending()


def test_the_leaf_trigger_owes_too(database: str, clock: Clock) -> None:
    with open_at(database, clock, short, compaction_trigger="leaf") as lcm:
        chat = lcm.conversation("k")
        chat.after_turn(turns(20), window=1_000_000)
        assert lcm.drain() >= 1
        assert len(chat.summaries()) == 1
        assert_promise(chat)


def test_the_thread_in_the_process_pays_by_itself(database: str) -> None:
    asked = threading.Event()

    def noting(request: SummaryRequest) -> str:
        asked.set()
        return short(request)

    started = 1_800_000_000.0
    # Time in which every look at the clock is three seconds after the last: the host is idle at once.
    ticks = iter(range(10**9))
    with Lossless.open(database, settings=SMALL, summarizer=noting, clock=lambda: started + 3.0 * next(ticks)) as lcm:
        lcm.conversation("k").after_turn(turns(40), window=WINDOW)
        assert asked.wait(20)
    with Lossless.open(database, settings=SMALL, summarizer=short) as lcm:
        lcm.drain()
        assert_promise(lcm.conversation("k"))
        assert lcm.conversation("k").summaries()


def test_closing_leaves_what_is_owed_to_the_next(database: str, clock: Clock) -> None:
    with open_at(database, clock, short) as lcm:
        lcm.conversation("k").after_turn(turns(40), window=WINDOW)
    with open_at(database, clock, short) as lcm:
        assert lcm.drain() == 1
        assert lcm.conversation("k").status().context_tokens < WINDOW


def test_a_host_that_comes_back_is_not_kept_waiting(database: str, clock: Clock) -> None:
    with open_at(database, clock) as lcm:
        chat = lcm.conversation("k")
        chat.after_turn(turns(12), window=WINDOW)
        assert 0.75 * WINDOW < chat.status().context_tokens < WINDOW
        clock.now += 3
        calls = 0

        def interrupted(request: SummaryRequest) -> str:
            nonlocal calls
            calls += 1
            chat.ingest(turns(1, 100 + calls))
            return short(request)

        with open_at(database, clock, interrupted) as other:
            assert other.worker().step()
            debt = other._store.debts.get(1)
            assert debt is not None
            assert (calls, debt.pending, debt.stop, debt.attempts) == (1, True, "yielded", 0)
            assert not other.worker().step()
        assert_promise(chat)


def test_two_workers_never_pay_the_same_debt(database: str, clock: Clock) -> None:
    with open_at(database, clock) as first, open_at(database, clock) as second:
        first.conversation("k").after_turn(turns(40), window=WINDOW)
        clock.now += 3
        ask = {"now": int(clock.now * 1e6), "idle_before": int(clock.now * 1e6), "tries": 0}
        held = first._store.debts.claim("a", lease_until=int((clock.now + 60) * 1e6), **ask)
        assert held is not None
        assert held.worker == "a"
        assert not second.worker().step()
        assert first._store.debts.renew(held, int((clock.now + 120) * 1e6))
        clock.now += 119
        assert not second.worker().step()
        clock.now += 2  # the worker was killed: its lease runs out
        assert second.worker().step()
        assert not first._store.debts.renew(held, int((clock.now + 120) * 1e6))


def test_many_workers_share_many_debts(database: str, clock: Clock) -> None:
    with open_at(database, clock) as lcm:
        for n in range(6):
            lcm.conversation(f"k{n}").after_turn(turns(40), window=WINDOW)
        clock.now += 3
        paid: list[int] = []
        others = [open_at(database, clock) for _ in range(3)]
        threads = [threading.Thread(target=lambda other=other: paid.append(other.drain())) for other in others]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        for other in others:
            other.close()
        assert sum(paid) == 6
        assert not lcm._store.debts.any_pending()
        for n in range(6):
            assert_promise(lcm.conversation(f"k{n}"))


def test_what_was_owed_anew_meanwhile_stays_owed(database: str, clock: Clock) -> None:
    with open_at(database, clock) as lcm:
        chat = lcm.conversation("k")
        chat.after_turn(turns(40), window=WINDOW)
        clock.now += 3

        def again(request: SummaryRequest) -> str:
            chat.after_turn([], window=WINDOW // 2)
            return short(request)

        with open_at(database, clock, again) as other:
            other.worker().step()
        debt = lcm._store.debts.get(1)
        assert debt is not None
        assert (debt.pending, debt.window_tokens) == (True, WINDOW // 2)


def test_a_worker_that_fails_says_so_and_comes_back_later(database: str, clock: Clock) -> None:
    told: list[Event] = []
    with open_at(database, clock) as lcm:
        lcm.conversation("k").after_turn(turns(40), window=WINDOW)
        clock.now += 3

        def broken(debt: DebtRow, wanted: object) -> Compaction:
            raise StoreUnavailable("the disk is gone")

        worker = lcm.worker()
        worker._drain, worker._on_event = broken, told.append
        assert worker.step()
        assert [event.name for event in told] == ["worker.failed"]
        debt = lcm._store.debts.get(1)
        assert debt is not None
        assert (debt.pending, debt.attempts, debt.failure) == (True, 1, "the disk is gone")
        assert not lcm.worker().step()
        clock.now += 301
        assert lcm.worker().step()
        assert not lcm._store.debts.any_pending()


def test_a_model_that_asks_for_a_pause_gets_it(database: str, clock: Clock) -> None:
    calls = 0

    def busy(request: SummaryRequest) -> str:
        nonlocal calls
        calls += 1
        if calls == 1:
            raise SummarizerUnavailable("429", retry_after=7)
        return short(request)

    with open_at(database, clock, busy) as lcm:
        chat = lcm.conversation("k")
        chat.after_turn(turns(12), window=WINDOW)
        assert WINDOW * 0.75 < chat.status().context_tokens < WINDOW
        clock.now += 3
        lcm.worker().step()
        debt = lcm._store.debts.get(1)
        assert debt is not None
        assert (debt.pending, debt.stop, calls) == (True, "rate limit", 1)
        assert chat.summaries() == []  # not written without a model for the sake of seven seconds
        clock.now += 6
        assert not lcm.worker().step()


def test_summaries_for_a_small_window_are_rewritten_as_short_as_they_were_made(database: str, clock: Clock) -> None:
    asked: list[tuple[bool, int]] = []

    def listening(request: SummaryRequest) -> str:
        asked.append((request.depth > 0, request.target_tokens))
        if request.depth:
            assert request.target_tokens <= min(512, 0.4 * estimate(request.source))
        return short(request)

    lengths = {"leaf_chunk_tokens": 2_000, "leaf_target_tokens": 1_200, "condensed_target_tokens": 2_000}
    with open_at(database, clock, **lengths) as lcm:
        chat = lcm.conversation("k")
        chat.ingest(turns(300))
        chat.compact(4_000, force=True)
        chat.assemble(4_000)
        chat.ingest([Message.user("go on")])
        assert {summary.depth > 0 for summary in chat.summaries()} == {False, True}
    clock.now += 3
    with open_at(database, clock, listening, max_sweep_iterations=1000, **lengths) as lcm:
        while lcm.worker().step():
            clock.now += 1
        made = len(asked)
        lcm.conversation("k").rewrite(all=True, apply=True)
    assert len(asked) > made > 0
    assert {is_condensed for is_condensed, _ in asked} == {True, False}
    assert max(each for is_condensed, each in asked if not is_condensed) == 250


def test_summaries_no_model_wrote_are_made_anew_and_only_what_was_made_from_them(database: str, clock: Clock) -> None:
    with open_at(database, clock) as lcm:
        chat = lcm.conversation("k")
        chat.ingest(turns(120))
        chat.compact(WINDOW)
        before = {summary.id: summary for summary in chat.summaries()}
        assert {summary.level for summary in before.values()} <= {"extractive", "cut"}
        assert max(summary.depth for summary in before.values()) >= 1
        raw = [message.text for message in chat.messages()]
    clock.now += 3
    model = Counting()
    with open_at(database, clock, model, max_sweep_iterations=1000) as lcm:
        chat = lcm.conversation("k")
        while lcm.worker().step():
            clock.now += 1
        after = chat.summaries()
        assert [summary.id for summary in after] == list(before)
        assert {(summary.level, summary.revision) for summary in after} == {("normal", 2)}
        assert {summary.model for summary in after} == {"Counting"}
        assert model.calls == len(before)  # each once, after its sources
        assert lcm._store.all("SELECT count(*) FROM revision") == [(len(before),)]
        assert [message.text for message in chat.messages()] == raw
        assert_promise(chat)
        assert not lcm.worker().step()
        # One that is made anew later leaves only its consumers stale.
        leaf = next(summary for summary in after if summary.depth == 0)
        row = next(row for row in lcm._store.summaries.read(1) if row.public_id == leaf.id)
        new = structs.replace(row, text="another text", tokens=3)
        assert lcm._store.summaries.revise(1, row, new)
        assert not lcm._store.summaries.revise(1, row, new)
        consumers = {row.public_id for row in lcm._store.summaries.unsettled(1, tries=3, limit=100)}
        known = {row.id: row.public_id for row in lcm._store.summaries.read(1)}
        made_from = {
            known[each.id]
            for each in lcm._store.summaries.read(1)
            if row.id in lcm._store.summaries.sources(1, each.id)[1]
        }
        assert consumers == made_from
        calls = model.calls
        while lcm.worker().step():
            clock.now += 1
        assert 0 <= model.calls - calls <= max(summary.depth for summary in after)
        assert_promise(chat)


def test_a_summary_that_a_model_fails_at_is_left_after_three_tries(database: str, clock: Clock) -> None:
    with open_at(database, clock) as lcm:
        chat = lcm.conversation("k")
        chat.ingest(turns(20))
        chat.compact(WINDOW)
        count, texts = len(chat.summaries()), [summary.text for summary in chat.summaries()]
    calls = 0

    def empty(request: SummaryRequest) -> str:
        nonlocal calls
        calls += 1
        return ""

    with open_at(database, clock, empty) as lcm:
        for _ in range(200):
            clock.now += 3600
            lcm.worker().step()
        assert calls == 3 * count
        assert [summary.text for summary in lcm.conversation("k").summaries()] == texts


def test_an_outage_of_any_length_leaves_no_hole_and_its_summaries_are_re_made(database: str, clock: Clock) -> None:
    is_down, calls = True, 0
    events: list[Event] = []

    def model(request: SummaryRequest) -> str:
        nonlocal calls
        calls += 1
        if is_down:
            raise SummarizerUnavailable("down")
        return short(request)

    with Lossless.open(database, settings=SMALL, summarizer=model, clock=clock, on_event=events.append) as lcm:
        lcm._background.wake = lambda: None  # type: ignore[method-assign]  # the worker is stepped here
        chat = lcm.conversation("k")
        chat.after_turn(turns(40), window=WINDOW)
        for _ in range(100):
            clock.now += 1800
            lcm.worker().step()
        assert chat.status().context_tokens < WINDOW
        assert {summary.level for summary in chat.summaries()} == {"extractive"}
        assert len(lcm._store.summaries.unsettled(1, tries=1, limit=100)) == len(chat.summaries())  # nothing was tried
        assert calls <= 2 * 101
        is_down = False
        clock.now += 1800
        lcm.drain()
        assert {summary.level for summary in chat.summaries()} == {"normal"}
        assert_promise(chat)
    told = [event.name for event in events if event.name.startswith("summarizer.")]
    assert told == ["summarizer.replaced", "summarizer.back"]


def test_what_a_model_does_not_answer_while_it_answers_others_is_a_try_and_holds_nothing_up(
    database: str, clock: Clock
) -> None:
    with open_at(database, clock) as lcm:
        chat = lcm.conversation("k")
        chat.ingest(turns(40))
        chat.compact(WINDOW)
        poison = "Question 0: "

    def picky(request: SummaryRequest) -> str:
        if poison in request.source:
            raise SummarizerUnavailable("down")
        return short(request)

    with open_at(database, clock, picky) as lcm:
        chat = lcm.conversation("k")
        for _ in range(20):
            clock.now += 3600
            lcm.drain()
        assert [summary.level for summary in chat.summaries() if summary.depth == 0].count("extractive") == 1
        assert not lcm._store.summaries.unsettled(1, tries=1, limit=100)


@pytest.mark.parametrize("pause", [1e9, float("inf"), float("nan"), -5.0])
def test_no_pause_a_provider_asks_for_is_longer_than_an_hour(database: str, clock: Clock, pause: float) -> None:
    calls = 0

    def busy(request: SummaryRequest) -> str:
        nonlocal calls
        calls += 1
        if calls == 1:
            raise SummarizerUnavailable("429", retry_after=pause)
        return short(request)

    with open_at(database, clock, busy) as lcm:
        chat = lcm.conversation("k")
        chat.after_turn(turns(12), window=WINDOW)
        clock.now += 3
        lcm.drain()
        clock.now += 3601
        lcm.drain()
        assert {summary.level for summary in chat.summaries()} == {"normal"}


def test_what_a_clock_that_was_a_year_ahead_wrote_holds_nothing_up(database: str, clock: Clock) -> None:
    year = 365 * 86_400
    clock.now += year
    with open_at(database, clock, short) as lcm:
        lcm.conversation("k").after_turn(turns(40), window=WINDOW)
        now = int(clock.now * 1e6)
        debt = lcm._store.debts.claim("killed", now=now, idle_before=now, lease_until=now + 60_000_000, tries=0)
        assert debt is not None
        lcm._store.debts.settle(
            debt, pending=True, attempts=3, next_at=now + 60_000_000, stop="unavailable", failure=None
        )
        held = lcm._store.debts.claim(
            "killed", now=now + 60_000_000, idle_before=now, lease_until=now + 120_000_000, tries=0
        )
        assert held is not None
    clock.now -= year
    with open_at(database, clock, short) as lcm:
        assert lcm.status().running == 0
        assert lcm.worker().step()
        assert lcm.conversation("k").status().context_tokens < WINDOW
        assert not lcm._store.debts.any_pending()


def test_inline_compaction_happens_in_the_turn(database: str, clock: Clock) -> None:
    with open_at(database, clock, short, proactive_threshold_compaction_mode="inline") as lcm:
        chat = lcm.conversation("k")
        chat.after_turn(turns(40), window=WINDOW)
        assert chat.status().context_tokens < WINDOW
        assert not lcm._store.debts.any_pending()


def test_a_turn_that_is_stored_is_never_reported_as_failed(database: str, clock: Clock) -> None:
    def misconfigured(request: SummaryRequest) -> str:
        raise InvalidInput("the summariser is not what it seems")

    told: list[Event] = []
    settings = structs.replace(SMALL, proactive_threshold_compaction_mode="inline")
    with Lossless.open(database, settings=settings, summarizer=misconfigured, clock=clock, on_event=told.append) as lcm:
        lcm._background.wake = lambda: None  # type: ignore[method-assign]  # nobody pays here
        done = lcm.conversation("k").after_turn(turns(40), window=WINDOW)
        assert len(done.stored) == 80
        assert [event.name for event in told] == ["compaction.failed"]
        assert lcm._store.debts.any_pending()


@pytest.mark.parametrize(("window", "observed"), [(0, 0), (100, -1)])
def test_sizes_that_are_none_are_refused_before_anything_is_stored(
    database: str, clock: Clock, window: int, observed: int
) -> None:
    with open_at(database, clock) as lcm, pytest.raises(InvalidInput):
        lcm.conversation("k").after_turn(turns(1), window, observed=observed)
    with open_at(database, clock) as lcm:
        assert lcm.conversation("k").messages() == []


KILLED = """
import os, signal, sys
from lossless import Lossless
from tests.engine.compaction.test_compaction import SMALL, WINDOW, short

calls = 0

def dying(request):
    global calls
    calls += 1
    print(request.source, flush=True) if request.depth == 0 else None
    if calls == 3:
        os.kill(os.getpid(), signal.SIGKILL)
    return short(request)

with Lossless.open(sys.argv[1], settings=SMALL, summarizer=dying) as lcm:
    if sys.argv[2] == "worker":
        lcm.drain()
    else:
        lcm.conversation("k").compact(WINDOW)
"""


@pytest.mark.parametrize("how", ["compact", "worker"])
def test_a_sweep_killed_during_its_third_call_and_started_again(database: str, how: str) -> None:
    with Lossless.open(database, settings=SMALL, summarizer=short) as lcm:
        lcm._background.wake = lambda: None  # type: ignore[method-assign]  # the other process pays
        lcm.conversation("k").after_turn(turns(60), window=WINDOW)
        raw = [message.message for message in lcm.conversation("k").messages()]
    ran = subprocess.run([sys.executable, "-c", KILLED, database, how], capture_output=True, text=True, timeout=60)
    assert ran.returncode == -9, ran.stderr
    sources = [ran.stdout[: ran.stdout.rfind("[20")]]
    clock = Clock()
    clock.now = 4_000_000_000.0  # the killed worker's lease is over

    def noting(request: SummaryRequest) -> str:
        sources.append(request.source)
        return short(request)

    with Lossless.open(database, settings=SMALL, summarizer=noting, clock=clock) as lcm:
        chat = lcm.conversation("k")
        kept = chat.summaries()
        assert len(kept) == 2
        assert_promise(chat)
        before = expanded(chat)
        lcm.drain() if how == "worker" else chat.compact(WINDOW)
        assert [message.message for message in chat.messages()] == raw
        assert expanded(chat) == before
        again = chat.summaries()
        assert again[:2] == kept  # what was committed is not made again
        assert all(summary.level == "normal" and summary.model for summary in again)
        seqs = [seq for row in lcm._store.summaries.read(1) for seq in lcm._store.summaries.sources(1, row.id)[0]]
        assert len(seqs) == len(set(seqs))  # no message under two leaves
        assert not lcm._store.debts.any_pending() or how == "compact"


def test_the_settings_of_today_count_not_those_of_the_debt(database: str, clock: Clock) -> None:
    with open_at(database, clock, short) as lcm:
        lcm.conversation("k").after_turn(turns(12), window=WINDOW)
        assert lcm._store.debts.any_pending()
    with open_at(database, clock, short, context_threshold=1.0) as lcm:
        assert lcm.drain() == 1
        assert lcm.conversation("k").summaries() == []
        assert not lcm._store.debts.any_pending()


def test_a_turn_that_comes_while_its_debt_is_paid_is_owed_again_and_at_once(database: str, clock: Clock) -> None:
    with open_at(database, clock, short) as lcm:
        chat = lcm.conversation("k")
        chat.after_turn(turns(40), window=WINDOW)
        clock.now += 3
        ask = {"now": int(clock.now * 1e6), "idle_before": int(clock.now * 1e6), "tries": 0}
        held = lcm._store.debts.claim("a", lease_until=int((clock.now + 60) * 1e6), **ask)
        assert held is not None
        chat.after_turn(turns(40, 100), window=WINDOW)  # the worker has read its items already
        later_at = int((clock.now + 300) * 1e6)
        lcm._store.debts.settle(held, pending=False, attempts=0, next_at=later_at, stop="compacted", failure=None)
        debt = lcm._store.debts.get(1)
        assert debt is not None
        assert (debt.pending, debt.next_at) == (True, 0)
        clock.now += 3
        assert lcm.worker().step()


def test_summaries_to_be_made_anew_never_displace_a_compaction(database: str, clock: Clock) -> None:
    with open_at(database, clock) as lcm:
        chat = lcm.conversation("k")
        chat.ingest(turns(40))
        chat.compact(WINDOW)
        with lcm._store.transaction():
            lcm._store.debts.record(1, 200_000, 0, None, 1)
            lcm._store.debts._reopen(1, 2)  # what `claim` does after its look
        debt = lcm._store.debts.get(1)
        assert debt is not None
        assert debt.window_tokens == 200_000


def test_a_source_that_changed_meanwhile_is_not_condensed_from_its_old_text(database: str, clock: Clock) -> None:
    with open_at(database, clock, short) as lcm:
        chat = lcm.conversation("k")
        chat.ingest(turns(60))
        chat.compact(4 * WINDOW)

        def slow(request: SummaryRequest) -> str:
            if request.depth:
                row = next(row for row in lcm._store.summaries.read(1) if row.depth == request.depth - 1)
                lcm._store.summaries.revise(1, row, structs.replace(row, text="made anew", tokens=row.tokens + 7))
            return short(request)

        with open_at(database, clock, slow, condensed_min_fanout_hard=2) as other:
            assert other.conversation("k").compact(WINDOW, target=1).stop == "moved"
        assert_promise(chat)


def test_guards_of_owners_never_meet(database: str) -> None:
    with Lossless.open(database, owner="x") as one, Lossless.open(database, owner="x:spend:foo") as two:
        with one._store.transaction():
            one._store.state.set_guard("foo:spend:bar", {"until": 1}, 0)
        assert two._store.state.guard("bar") is None
