"""What is stored, page by page and one by one: nothing twice, nothing left out, nobody else's."""

from __future__ import annotations

import json
import re
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections import Counter
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from itertools import cycle
from pathlib import Path
from shutil import copytree
from typing import Any

import anyio
import msgspec
import pytest

from lossless import AsyncLossless, Lossless, Message
from lossless.engine.inspect.details import newest
from lossless.engine.inspect.lists import whereabouts
from lossless.errors import FileUnavailable, InvalidCursor, InvalidInput, InvalidTimeFilter, NotFound
from lossless.model import Listing, Whereabouts
from lossless.store.rows.types import MESSAGE, SPAN, ItemRow, PlaceRow
from tests.histories import SMALL, lived_in, opened

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)


def every(page: Callable[[str | None], Listing[Any]]) -> list[Any]:
    """All pages, one after another."""
    found, cursor = list[Any](), None
    while True:
        got = page(cursor)
        found += got
        cursor = got.next_cursor
        if cursor is None:
            return found


@pytest.fixture(scope="module")
def lived(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The directory of a database that was lived in by two owners."""
    root = tmp_path_factory.mktemp("lived")
    lived_in(root / "lcm.db", root / "files")
    return root


@pytest.fixture
def house(lived: Path) -> Iterator[Lossless]:
    with opened(lived / "lcm.db", lived / "files") as lcm:
        yield lcm


@pytest.fixture
def plain(tmp_path: Path) -> Iterator[Lossless]:
    """A hundred messages, of which ten each were said in one minute."""
    roles = cycle((Message.user, Message.assistant))
    with Lossless.open(tmp_path / "lcm.db", clock=lambda: NOON.timestamp()) as lcm:
        said = [next(roles)(f"word {n}", at=NOON - timedelta(minutes=10 - n // 10)) for n in range(100)]
        lcm.conversation("k").ingest(said)
        yield lcm


# conversations


def test_conversations_of_one_moment_neither_repeat_nor_vanish(tmp_path: Path) -> None:
    with Lossless.open(tmp_path / "lcm.db", clock=lambda: NOON.timestamp()) as lcm:
        for n in range(7):
            lcm.conversation(f"k{n}").ingest([Message.user("hello")])
        lcm.conversation("k3").reset()
        ids = [each.id for each in every(lambda cursor: lcm.conversations(active=None, limit=3, cursor=cursor))]
        assert ids == [8, 7, 6, 5, 4, 3, 2, 1]
        assert [each.key for each in every(lambda cursor: lcm.conversations(active=True, limit=2, cursor=cursor))] == [
            *("k3", "k6", "k5", "k4", "k2", "k1", "k0")
        ]
        (archived,) = lcm.conversations(active=False)
        assert (archived.id, archived.archive_cause, archived.archived_at) == (4, "manual-reset", NOON)


def test_the_figures_of_a_conversation_agree_with_its_messages(house: Lossless) -> None:
    chat = house.conversation("agent:main:main")
    found = {each.id: each for each in house.conversations(active=None)}
    assert set(found) == {row.id for row in house._store.conversations.of_owner()}
    for row in house._store.conversations.of_owner():
        listed, messages = found[row.id], house._store.messages.read(row.id)
        assert listed.messages == len(messages)
        assert listed.message_tokens == sum(each.tokens for each in messages if each.outside is None)
        assert listed.context_items == len(house._store.context.items(row.id))
        assert listed.summaries == len(house._store.summaries.read(row.id))
    assert found[chat.status().id].max_depth is None


def test_a_conversation_tells_its_depths_debts_relatives_and_pins(house: Lossless) -> None:
    current = house.conversations.show("agent:main:main")
    (old,) = current.family
    assert old.archive_cause == "manual-reset"
    assert current.continues == old.id
    found = house.conversations.show(f"#{old.id}")
    assert found.sessions == ("session-1", "session-2")
    assert sum(depth.summaries for depth in found.depths) == found.conversation.summaries > 1
    assert found.context.messages + found.context.summaries == found.conversation.context_items
    assert found.context.message_tokens + found.context.summary_tokens == found.conversation.context_tokens
    assert found.detached.keys() == {"new"}
    assert found.debt is not None
    assert (found.debt.state, found.debt.window) == ("waiting", 1_000)
    assert (found.files, len(found.pins)) == (1, 2)
    (sub,) = found.sub_agents
    above = house.conversations.show(sub.key).parent
    assert above is not None
    assert above.id == old.id


def test_a_transcript_is_told_with_how_far_it_was_read(tmp_path: Path) -> None:
    path = tmp_path / "said.jsonl"
    path.write_text(json.dumps({"role": "user", "content": "hello"}) + "\n")
    with Lossless.open(tmp_path / "lcm.db") as lcm:
        lcm.conversation("k").bootstrap(path)
        (followed,) = lcm.conversations.show("k").transcripts
    assert (followed.path, followed.offset, followed.size) == (str(path), path.stat().st_size, path.stat().st_size)


def test_every_list_takes_since_and_until(database: str, tmp_path: Path) -> None:
    clock = [NOON.timestamp()]
    settings = msgspec.structs.replace(SMALL, large_files_dir=str(tmp_path / "files"))
    with Lossless.open(database, settings=settings, clock=lambda: clock[0]) as lcm:
        for day in range(6):
            clock[0] = (NOON + timedelta(days=day)).timestamp()
            lcm.conversation(f"k{day}").ingest([Message.user("hello")])
            text = f"{day} " + "words of a large file " * 500
            lcm.conversation("large").ingest([Message.tool(text, call_id=f"c{day}", at=NOON + timedelta(days=day))])
            lcm.conversation("large").new()
        calls: list[Callable[..., Any]] = [
            lcm.conversations,
            lambda **times: lcm.files("large", **times),
            lambda **times: lcm.messages("large", **times),
            lcm.history,
            lcm.conversation("large").history,
        ]
        for call in calls:
            everything = list(call(limit=100))
            assert len(everything) >= 6, "one of each day"
            for since, until in (("4d", "2d"), (NOON + timedelta(days=1), "2026-03-04T12:00Z")):
                some = list(call(since=since, until=until, limit=100))
                assert some == [
                    each for each in everything if NOON + timedelta(days=1) <= day_of(each) < NOON + timedelta(days=3)
                ]
                assert len(some) == 2
            assert [*call(since="1d", limit=100), *call(until="1d", limit=100)] == everything
            for wrong in ({"since": "6m"}, {"until": "sometime"}, {"since": "1d", "until": "2d"}):
                with pytest.raises(InvalidTimeFilter):
                    call(**wrong)
        pages = every(lambda cursor: lcm.conversations(active=True, since="4d", until="2d", limit=1, cursor=cursor))
        assert [each.key for each in pages] == ["k2", "k1"]
        files = every(lambda cursor: lcm.files("large", since="4d", until="2d", limit=1, cursor=cursor))
        assert [each.created_at for each in files] == [NOON + timedelta(days=2), NOON + timedelta(days=1)]


def day_of(each: Any) -> datetime:
    """Return the time by which a list entry is filtered."""
    found = next(getattr(each, name) for name in ("updated_at", "at", "created_at") if hasattr(each, name))
    assert isinstance(found, datetime)
    return found


# messages


@pytest.mark.parametrize("oldest_first", [False, True])
def test_pages_of_messages_are_all_messages_once(plain: Lossless, oldest_first: bool) -> None:
    found = every(lambda cursor: plain.messages("k", oldest_first=oldest_first, limit=7, cursor=cursor))
    assert [each.seq for each in found] == [n if oldest_first else 101 - n for n in range(1, 101)]
    assert found[0].preview == ("word 0" if oldest_first else "word 99")


def test_roles_and_times_choose_messages(plain: Lossless) -> None:
    def chosen(**how: Any) -> list[int]:
        return [each.seq for each in plain.messages("k", oldest_first=True, limit=500, **how)]

    nine = NOON - timedelta(minutes=9)
    assert chosen(roles=["user"]) == list(range(1, 100, 2))
    assert chosen(roles=["user", "assistant"]) == list(range(1, 101))
    assert chosen(since=nine) == list(range(11, 101))
    assert chosen(until=nine) == list(range(1, 11))
    assert chosen(since=nine, until=nine + timedelta(minutes=1), roles=["assistant"]) == list(range(12, 21, 2))
    assert chosen(since=timedelta(minutes=1)) == list(range(91, 101))
    assert chosen(since=timedelta.max) == list(range(1, 101))


def test_an_age_stays_the_same_while_somebody_turns_pages(tmp_path: Path) -> None:
    now = [NOON.timestamp()]
    with Lossless.open(tmp_path / "lcm.db", clock=lambda: now[0]) as lcm:
        lcm.conversation("k").ingest([Message.user(f"{n}", at=NOON - timedelta(minutes=n)) for n in range(10)])
        first = lcm.messages("k", since=timedelta(minutes=5), oldest_first=True, limit=3)
        now[0] += 3_600
        rest = lcm.messages("k", since=timedelta(minutes=5), oldest_first=True, cursor=first.next_cursor)
    assert [each.seq for each in (*first, *rest)] == [1, 2, 3, 4, 5, 6]


@pytest.mark.parametrize(
    "how",
    [
        {"since": NOON, "until": NOON},
        {"since": timedelta(minutes=1), "until": NOON - timedelta(minutes=1)},
        {"since": timedelta(0)},
        {"since": "yesterdy"},
        {"until": "6m"},
    ],
)
def test_times_that_make_no_sense_are_refused(plain: Lossless, how: dict[str, Any]) -> None:
    with pytest.raises(InvalidTimeFilter):
        plain.messages("k", **how)


def test_limits_out_of_range_are_refused(plain: Lossless) -> None:
    for call in (plain.conversations, lambda **how: plain.files("k", **how)):
        for limit in (0, 501):
            with pytest.raises(InvalidInput, match="1 to 500"):
                call(limit=limit)
    with pytest.raises(InvalidInput, match="1 to 500"):
        plain.messages.tail("k", 501)


def test_every_message_is_told_where_it_is(house: Lossless) -> None:
    (old,) = house.conversations.show("agent:main:main").family
    found = house.messages(old.id, limit=500)
    states = Counter(each.where.state for each in found)
    (proof,) = house.doctor.prove(old.id)
    assert states["context"] == proof.context
    assert states["summarised"] == proof.below
    assert states["detached"] == sum(proof.detached.values())
    assert states["outside"] == sum(proof.outside.values()) == 1
    assert states["tombstone"] == sum(proof.tombstones.values()) == 1
    summarised = next(each for each in found if each.where.state == "summarised")
    assert house.describe(summarised.where.summaries[0]).message_ids


def test_a_summary_that_gave_way_to_its_sources_tells_nothing() -> None:
    leaf, top = PlaceRow(1, "sum_a", 0, True, None), PlaceRow(1, "sum_b", 1, False, "dissolved")
    assert whereabouts(None, [leaf, top]) == Whereabouts("summarised", summaries=("sum_a",))
    assert whereabouts(None, [top]).state == "nowhere"
    left = PlaceRow(1, "sum_b", 1, False, "new")
    assert whereabouts(None, [PlaceRow(1, "sum_a", 0, False, None), left]) == Whereabouts(
        "detached", "new", ("sum_a", "sum_b")
    )


def test_a_message_comes_with_its_parts_other_names_and_other_texts(house: Lossless) -> None:
    (old,) = house.conversations.show("agent:main:main").family
    first = house.messages.show(old.id * SPAN + 1)
    assert first.stored.event_id == "default-0"
    assert [copy.text for copy in first.copies] == ["the same event in another dress"]
    assert house.messages.show(3, f"#{old.id}").aliases == ("another name", "yet another")
    large = next(each for each in house.messages(old.id) if each.files)
    assert house.messages.show(large.id).files == large.files
    assert house.messages.show(large.id, whole=True).stored.text == "A large one. " * 1000
    with pytest.raises(InvalidInput, match="Name the conversation"):
        house.messages.show(3)
    for id, conversation in ((10**6, "agent:main:main"), (f"msg#{old.id * SPAN + 1}", "agent:main:sub")):
        with pytest.raises(NotFound):
            house.messages.show(id, conversation)


def test_the_tail_is_the_newest_of_the_context(plain: Lossless) -> None:
    fresh = plain.messages.tail("k")
    assert [each.seq for each in fresh.messages] == list(range(37, 101))
    assert [each.content for each in plain.messages.tail("k", 2).messages] == ["word 98", "word 99"]
    items = [ItemRow(n, None, 10, MESSAGE) for n in range(1, 6)]
    assert [item.ordinal for item in newest([*items, ItemRow(9, 7, 10, 0)], 3, None)] == [3, 4, 5]
    assert [item.ordinal for item in newest(items, 3, 25)] == [4, 5]
    assert [item.ordinal for item in newest(items, 3, 5)] == [5]


def test_neighbours_end_where_the_conversation_does(plain: Lossless) -> None:
    assert [each.seq for each in plain.messages.around(2, "k", before=5, after=1).messages] == [1, 2, 3]
    found = plain.messages.around("msg#1000000100", before=2)
    assert [each.seq for each in found.messages] == [98, 99, 100]
    assert found.messages[-1].id == found.id


def test_a_page_of_messages_costs_the_same_in_a_long_history(plain: Lossless) -> None:
    store, asked = plain._store, list[str]()
    everything: Any = store

    def look(sql: str, **parameters: Any) -> Any:
        asked.extend(row[3] for row in read("EXPLAIN QUERY PLAN " + sql, **parameters))
        return read(sql, **parameters)

    read, everything.all = everything.all, look
    plain.messages("k", cursor=plain.messages("k", limit=5).next_cursor)
    plain.messages.around(50, "k")
    plain.messages.show("msg#1000000050")
    assert any("INTEGER PRIMARY KEY (rowid>? AND rowid<?)" in step for step in asked)
    assert not [step for step in asked if step.startswith("SCAN") and not step.startswith(("SCAN u", "SCAN json_each"))]


# cursors


def forged(cursor: str | None, **changed: Any) -> str:
    assert cursor is not None
    told = json.loads(urlsafe_b64decode(cursor + "=" * (-len(cursor) % 4)))
    return urlsafe_b64encode(json.dumps({**told, **changed}).encode()).rstrip(b"=").decode()


def test_a_cursor_serves_only_the_list_it_came_from(plain: Lossless) -> None:
    cursor = plain.messages("k", limit=5).next_cursor
    assert json.loads(urlsafe_b64decode(f"{cursor}==")).keys() == {"v", "resource", "filters", "key"}
    for each in ("nonsense", "", "é", "A" * 500, forged(cursor, v=2), forged(cursor, key=[1]), forged(cursor, more=1)):
        with pytest.raises(InvalidCursor):
            plain.messages("k", cursor=each)
    with pytest.raises(InvalidCursor, match="list of messages"):
        plain.conversations(active=True, cursor=cursor)
    with pytest.raises(InvalidCursor, match="other filters"):
        plain.messages("k", roles=["user"], cursor=cursor)
    plain.conversation("another").ingest([Message.user("hello")])
    with pytest.raises(InvalidCursor, match="other filters"):
        plain.messages("another", cursor=cursor)


def test_no_cursor_leads_to_another_conversation(plain: Lossless) -> None:
    plain.conversation("another").ingest([Message.user("somebody else's")])
    cursor = plain.messages("k", limit=5).next_cursor
    found = plain.messages("k", limit=500, cursor=forged(cursor, key=[3 * SPAN, None, None]))
    assert {each.id[:5] for each in found} == {"msg#1"}
    assert not plain.messages("k", cursor=forged(cursor, key=[-SPAN, None, None]))


# files


def test_a_file_is_found_by_its_id_with_the_messages_that_speak_of_it(lived: Path, tmp_path: Path) -> None:
    copytree(lived, tmp_path, dirs_exist_ok=True)
    with opened(tmp_path / "lcm.db", tmp_path / "files") as lcm:
        (old,) = lcm.conversations.show("agent:main:main").family
        (listed,) = lcm.files(old.id)
        (large,) = (each.id for each in lcm.messages(old.id) if each.files)
        lcm.conversation("agent:main:sub").ingest([Message.assistant(f"I have read {listed.id}.")])
        found = lcm.files.show(listed.id)
        assert (found.file, found.available, found.messages) == (listed, True, (large,))
        assert [each.id for each in found.conversations] == [old.id]
        data = lcm.files.read(listed.id)
        assert data == b"A large one. " * 1000
        assert lcm.files.read(listed.id, span=(2, 7)) == b"large"
        assert lcm.files.read(listed.id, lines=(1, None)) == data
        with pytest.raises(NotFound):
            lcm.files.read(listed.id, "agent:main:sub")
        with pytest.raises(InvalidInput):
            lcm.files.read(listed.id, lines=(1, 2), span=(1, 2))
        next((tmp_path / "files").rglob(listed.sha256)).unlink()
        assert not lcm.files.show(listed.id).available
        with pytest.raises(FileUnavailable):
            lcm.files.read(listed.id)


def test_files_of_one_moment_neither_repeat_nor_vanish(tmp_path: Path) -> None:
    with Lossless.open(tmp_path / "lcm.db", clock=lambda: NOON.timestamp()) as lcm:
        lcm.conversation("k").ingest([Message.user(f"{n} and more. " * 30_000) for n in range(5)])
        found = [each.id for each in every(lambda cursor: lcm.files("k", limit=2, cursor=cursor))]
    assert len(found) == 5
    assert found == sorted(set(found), reverse=True)


# owners


def test_what_another_owner_keeps_does_not_exist(house: Lossless, lived: Path) -> None:
    with opened(lived / "lcm.db", lived / "files", "another") as theirs:
        (old,) = theirs.conversations.show("agent:main:main").family
        message = theirs.messages(old.id)[0].id
    for look in (
        lambda: house.conversations.show(old.id),
        lambda: house.conversations.show(f"#{old.id}"),
        lambda: house.messages(old.id),
        lambda: house.messages.show(message),
        lambda: house.messages.around(message),
        lambda: house.files(old.id),
        lambda: house.messages.tail(old.id),
    ):
        with pytest.raises(NotFound):
            look()
    assert old.id not in {each.id for each in house.conversations(active=None)}
    store = house._store
    assert store.lists.figures([old.id])[old.id].items == 0
    nothing: list[object] = [
        store.lists.other_texts(old.id, 1),
        store.lists.aliases(old.id, 3),
        store.lists.sub_agents(old.id),
    ]
    nothing += [store.lists.stand(old.id, [1, 2]), store.lists.depths(old.id), store.lists.departed(old.id)]
    assert not any(nothing)
    assert store.lists.file_totals(old.id) == (0, 0)


def test_both_databases_tell_the_same(house: Lossless, emptied: Callable[[], str], tmp_path: Path) -> None:
    url = emptied()
    lived_in(url, tmp_path)
    (old,) = house.conversations.show("agent:main:main").family
    (file,) = house.files(old.id)

    def told(lcm: Lossless) -> Iterator[Any]:
        yield every(lambda cursor: lcm.conversations(active=None, limit=2, cursor=cursor))
        for active in (True, False):
            yield lcm.conversations(active=active)
        for each in ("agent:main:main", "agent:main:sub", old.id):
            yield lcm.conversations.show(each)
            yield lcm.messages(each, roles=["user"], until=NOON.replace(year=2030), since=timedelta(weeks=1))
        yield every(lambda cursor: lcm.messages(old.id, limit=7, include_content=True, cursor=cursor))
        yield every(lambda cursor: lcm.files(old.id, limit=1, cursor=cursor))
        yield lcm.messages.show(3, old.id), lcm.messages.show(1, old.id), lcm.messages.around(20, old.id)
        yield lcm.messages.tail(old.id), lcm.files.show(file.id), lcm.files.read(file.id)

    def timeless(value: Any) -> Any:
        """Names of summaries, and times that a clock gave, are not the same twice."""
        said = json.dumps(msgspec.to_builtins(value), default=str)
        return re.sub(r"sum_[0-9a-f]+|20\d\d-\d\d-\d\dT[\d:.]+Z", "...", said)

    with opened(url, tmp_path) as other:
        for ours, theirs in zip(told(house), told(other), strict=True):
            assert timeless(ours) == timeless(theirs)


def test_the_same_verbs_can_be_awaited(plain: Lossless) -> None:
    async def look() -> None:
        lcm = AsyncLossless(plain)
        (conversation,) = await lcm.conversations(active=True)
        page = await lcm.messages(conversation.key, limit=1)
        assert (await lcm.messages.show(page[0].id)).stored.text == "word 99"
        assert len((await lcm.messages.around(page[0].id, before=1)).messages) == 2
        assert len((await lcm.messages.tail("k", 3)).messages) == 3
        assert (await lcm.conversations.show("k")).conversation == conversation
        assert not await lcm.files("k")
        for awaited in (lcm.files.show, lcm.files.read):
            with pytest.raises(NotFound):
                await awaited("file_1")

    anyio.run(look)
