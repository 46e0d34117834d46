"""Grants: scoped, metered by what was returned, expiring, revoked; never overdrawn, whoever reads at once."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from lossless import Lossless, Message, Settings
from lossless.engine.recall.grants import Charge, Delegate, Slots, issue
from lossless.errors import GrantRefused
from lossless.store.store import Store
from tests.conftest import OpenStore
from tests.store.test_contract import fill, row


class Clock:
    def __init__(self) -> None:
        self.now = 1_790_000_000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


def given(store: Store, clock: Clock, *conversations: int, **options: float) -> Delegate:
    max_tokens = int(options.pop("max_tokens", 100))
    grant = issue(store, conversations, max_tokens=max_tokens, now=clock(), origin="main", **options)  # type: ignore[arg-type]  # passed through
    return Delegate(store, grant.id, clock)


def reading(delegate: Delegate, tokens: int, most: int | None = None) -> int:
    """Read something that costs so many tokens; how many were allowed."""

    def work(allowed: int) -> tuple[int, list[Charge]]:
        return allowed, [Charge("sum_x", min(tokens, allowed))]

    return delegate.read("lcm_expand", most, work)


def test_what_was_not_needed_is_given_back_and_the_ledger_knows_the_rest(store: Store, clock: Clock) -> None:
    delegate = given(store, clock, fill(store, "k", row("x")))
    assert reading(delegate, 30) == 100
    assert delegate.remaining() == 70
    assert reading(delegate, 5, most=20) == 20
    assert [(each.verb, each.what, each.tokens) for each in delegate.ledger()] == [
        ("lcm_expand", "sum_x", 30),
        ("lcm_expand", "sum_x", 5),
    ]
    assert delegate.remaining() == 65


def test_a_spent_grant_gives_nothing(store: Store, clock: Clock) -> None:
    delegate = given(store, clock, fill(store, "k", row("x")))
    reading(delegate, 100)
    with pytest.raises(GrantRefused, match="exhausted"):
        reading(delegate, 1)


def test_a_reading_that_fails_costs_nothing(store: Store, clock: Clock) -> None:
    delegate = given(store, clock, fill(store, "k", row("x")))

    def work(allowed: int) -> tuple[int, list[Charge]]:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        delegate.read("lcm_expand", None, work)
    assert (delegate.remaining(), delegate.ledger()) == (100, [])


def test_it_ends_at_its_very_moment(store: Store, clock: Clock) -> None:
    delegate = given(store, clock, fill(store, "k", row("x")), seconds=300)
    clock.now += 299.9
    assert delegate.remaining() == 100
    clock.now += 0.1
    with pytest.raises(GrantRefused, match="Expansion authorization failed: it has expired"):
        reading(delegate, 1)


def test_it_expires_even_between_the_look_and_the_reservation(store: Store, clock: Clock) -> None:
    delegate = given(store, clock, fill(store, "k", row("x")), seconds=300)
    assert not store.grants.reserve(delegate.id, 1, int((clock.now + 300) * 1_000_000))
    assert store.grants.reserve(delegate.id, 1, int((clock.now + 299) * 1_000_000))


def test_revoked_means_over(store: Store, clock: Clock) -> None:
    delegate = given(store, clock, fill(store, "k", row("x")))
    assert delegate.revoke()
    with pytest.raises(GrantRefused, match="revoked"):
        delegate.scope()
    assert not store.grants.reserve(delegate.id, 1, int(clock.now * 1_000_000))
    assert not Delegate(store, "grant_nobody", clock).revoke()


def test_an_unknown_grant_and_anothers_are_the_same(open_store: OpenStore, clock: Clock) -> None:
    mine, theirs = open_store(owner="me"), open_store(owner="them")
    delegate = given(theirs, clock, fill(theirs, "k", row("x")))
    told = []
    for grant in (delegate.id, "grant_000000000000"):
        with pytest.raises(GrantRefused) as refused:
            Delegate(mine, grant, clock).scope()
        told.append(str(refused.value))
    assert told[0] == told[1]


def test_a_conversation_of_another_owner_is_no_part_of_a_grant(open_store: OpenStore, clock: Clock) -> None:
    mine, theirs = open_store(owner="me"), open_store(owner="them")
    secret = fill(theirs, "k", row("x"))
    with pytest.raises(GrantRefused, match="allows no conversation"):
        given(mine, clock, secret).scope()


def test_a_conversation_is_read_only_if_it_is_named_in_the_grant(store: Store, clock: Clock) -> None:
    first, second, third = (fill(store, key, row("x")) for key in "abc")
    delegate = given(store, clock, first, second)
    assert delegate.scope() == (first, second)
    assert delegate.scope(second) == (second,)
    with pytest.raises(GrantRefused, match="outside the delegated scope"):
        delegate.scope(third)


def test_readers_at_once_never_overdraw_it(open_store: OpenStore, clock: Clock) -> None:
    stores = [open_store() for _ in range(4)]
    delegate = given(stores[0], clock, fill(stores[0], "k", row("x")), max_tokens=50)
    taken: list[int] = []

    def read(store: Store) -> None:
        now = int(clock() * 1_000_000)
        taken.extend(3 for _ in range(10) if store.grants.reserve(delegate.id, 3, now))

    threads = [threading.Thread(target=read, args=(store,)) for store in stores]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sum(taken) == 48
    assert delegate.remaining() == 2


def test_a_grant_outlives_the_process_that_gave_it(database: str, tmp_path: Path) -> None:
    settings = Settings(large_files_dir=str(tmp_path / "files"))
    with Lossless.open(database, settings=settings) as lcm:
        chat = lcm.conversation("k")
        chat.ingest([Message.user("hello")])
        grant = chat.grant(max_tokens=50)
    with Lossless.open(database, settings=settings) as lcm:
        assert Delegate(lcm._store, grant, lcm._clock).remaining() == 50
        assert lcm.conversation("k").revoke(grant)


def test_old_grants_are_cleared_away_with_their_ledgers(store: Store, clock: Clock) -> None:
    conversation = fill(store, "k", row("x"))
    old = given(store, clock, conversation)
    reading(old, 5)
    clock.now += 31 * 86_400
    given(store, clock, conversation)
    assert store.grants.get(old.id) is None
    assert store.all("SELECT count(*) FROM grant_read") == [(0,)]


def test_the_view_of_grants_shows_one_row_each(store: Store, clock: Clock) -> None:
    first, second = (fill(store, key, row("x")) for key in "ab")
    one, two = given(store, clock, first), given(store, clock, first, second)
    reading(one, 7)
    rows = store.all(
        "SELECT grant_id, conversation_id, allowed_conversation_ids, token_cap, tokens_used, revoked_at"
        " FROM expansion_grants"
    )
    found = {
        grant: (only, [int(n) for n in str(ids).strip("[]").split(",")], *rest) for grant, only, ids, *rest in rows
    }
    assert found == {one.id: (first, [first], 100, 7, None), two.id: (None, [first, second], 100, 0, None)}


def test_one_question_at_a_time_for_each_origin() -> None:
    slots = Slots()
    with slots.hold("a") as first, slots.hold("a") as second, slots.hold("b") as other:
        assert (first, second, other) == (True, False, True)
        with slots.hold("a") as third:
            assert not third
    with pytest.raises(ZeroDivisionError), slots.hold("a") as again:
        assert again
        raise ZeroDivisionError
    with slots.hold("a") as after:
        assert after
