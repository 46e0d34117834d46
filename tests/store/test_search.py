"""What a full-text search promises, on SQLite and on a real PostgreSQL."""

from __future__ import annotations

import json

import pytest

from lossless.search.ranking.messages import Limits
from lossless.store import migrate
from lossless.store.rows.types import MESSAGE, SPAN, ItemRow, NewMessage, NewSummary
from lossless.store.store import Store
from tests.conftest import OpenStore

NOW = 1_790_000_000_000_000
HOUR = 3_600_000_000
FILLER = ("the weather was fine", "lunch is at noon", "see you tomorrow then", "nothing else to report", "all good")


def row(text: str, *, role: str = "user", at: int | None = None, name: str | None = None) -> NewMessage:
    meta = None if name is None else json.dumps({"name": name})
    return NewMessage(role, text, None, meta, len(text) // 4 + 1, text.encode()[:16].ljust(16), at, NOW, None, None)


def fill(store: Store, key: str, *rows: NewMessage) -> int:
    with store.transaction():
        conversation = store.conversations.lock(key, None, NOW)
        store.messages.append(conversation, rows, NOW)
    return conversation.id


def found(store: Store, question: str, **scope: object) -> list[int]:
    return [match.seq for match in store.search(question, **scope)]  # type: ignore[arg-type]  # passed through


def apart(*rows: NewMessage) -> list[NewMessage]:
    """The rows with so much small talk between them that none flows to another."""
    return [each for one in rows for each in (one, *map(row, FILLER))]


def test_a_question_as_typed_finds_its_answer_first(store: Store) -> None:
    fill(store, "k", *apart(row("the boat is in the harbour"), row("we painted the old boat green"), row("green tea")))
    assert found(store, "What colour was it that they painted the boat?")[0] == 7


def test_an_answer_beside_the_words_of_the_question_is_found(store: Store) -> None:
    fill(store, "k", *map(row, FILLER), row("which dentist did you choose?"), row("Doctor Abel", role="assistant"))
    assert 7 in found(store, "What is the name of the dentist?")
    assert found(store, "dentist") == [6]
    assert found(store, "dentist choose") == [6]


def test_irregular_forms_are_found_by_each_other(store: Store) -> None:
    fill(store, "k", *apart(row("she went to Lisbon"), row("the children slept")))
    assert found(store, "go") == [1]
    assert found(store, "sleeping child")[0] == 7


def test_the_speaker_that_is_named_comes_first(store: Store) -> None:
    fill(store, "k", *apart(row("my garden has roses", name="Anna"), row("my garden has roses", name="Bela")))
    assert found(store, "What does Anna grow in the garden?")[0] == 1
    assert found(store, "What does Bela grow in the garden?")[0] == 7


def test_the_first_person_is_the_user(store: Store) -> None:
    fill(store, "k", *apart(row("keys in the drawer"), row("keys in the drawer", role="assistant")))
    assert found(store, "Where did I put the keys?")[0] == 1


def test_the_time_that_is_named_comes_first(store: Store) -> None:
    days = (0, 90 * 24 * HOUR, 200 * 24 * HOUR)
    fill(store, "k", *apart(*(row("the server broke", at=day) for day in days)))
    assert found(store, "Why did the server break on 1 April 1970?")[0] == 7


DAY = 24 * HOUR
BEGIN = 1_735_689_600_000_000  # 2025-01-01


def diary(store: Store) -> None:
    """A year in which Ana and Ben say something on every day, all of it with the same words."""
    fill(
        store,
        "k",
        *(
            row(
                f"the report of {'Ana' if n % 2 else 'Ben'}\n{'Ana' if n % 2 else 'Ben'}",
                at=BEGIN + n // 2 * DAY,
                name="Ana" if n % 2 else "Ben",
            )
            for n in range(1_460)
        ),
    )


def test_a_month_that_is_named_takes_part_in_choosing_what_is_compared(store: Store) -> None:
    diary(store)
    hits = found(store, "What did Ana report in March 2025?")
    times = [(seq - 1) // 2 for seq in hits]
    assert all(59 <= day < 97 for day in times)  # March and a week
    assert all((seq - 1) % 2 for seq in hits[:10])  # of Ana


def test_a_time_that_is_relative_is_counted_back_from_the_clock(store: Store) -> None:
    diary(store)
    seqs = found(store, "What was in the report of yesterday?", now=BEGIN + 100 * DAY)
    assert {(seq - 1) // 2 for seq in seqs[:2]} == {99}
    seqs = found(store, "What was in the report three days ago?", now=BEGIN + 100 * DAY)
    assert {(seq - 1) // 2 for seq in seqs[:2]} == {97}


def test_a_time_may_be_counted_from_an_event(store: Store) -> None:
    days = [row("we packed a suitcase", at=BEGIN + n * DAY) for n in range(40)]
    days[30] = row("our trip to Rome begins", at=BEGIN + 30 * DAY)
    fill(store, "k", *days)
    assert 29 in found(store, "What did we pack two days before the trip to Rome?")[:3]


def test_what_you_told_me_was_said_by_the_assistant(store: Store) -> None:
    fill(store, "k", *apart(row("keys in the drawer"), row("keys in the drawer", role="assistant")))
    assert found(store, "Where did you tell me the keys are?")[0] == 7


@pytest.mark.parametrize("question", ["the deploy key of a server", "deploy key", "key", "What is the deploy key for?"])
def test_a_longer_list_begins_with_the_shorter_one_and_holds_every_match_once(store: Store, question: str) -> None:
    fill(store, "k", *(row(f"server {n} has a deploy key" + " and more" * (n % 7)) for n in range(700)))
    longest = found(store, question, limit=10_000)
    assert sorted(longest) == list(range(1, 701))
    for limit in (1, 20, 100, 600):
        assert found(store, question, limit=limit) == longest[:limit]
    assert store.ranked(question, None, Limits(), limit=5).total == 700


def test_a_question_about_many_messages_is_answered_from_many_sessions(store: Store) -> None:
    long_talk = [row("we adopted a dog and the dog is fine", at=BEGIN + n) for n in range(30)]
    visits = [row("we saw a dog", at=BEGIN + (n + 2) * DAY) for n in range(8)]
    fill(store, "k", *long_talk, *visits)
    assert {31, 32, 33, 34, 35, 36, 37, 38} <= set(found(store, "How many times was there a dog?", limit=20))


def test_the_turn_after_a_question_with_the_words_is_its_answer(store: Store) -> None:
    fill(store, "k", *map(row, FILLER), row("which dentist did you choose?"), row("Doctor Abel", role="assistant"))
    assert found(store, "What is the name of the dentist that they chose?")[0] == 7


def test_a_standing_instruction_comes_before_other_messages_with_its_words(store: Store) -> None:
    wish, other = "Always use metric units when I ask for a recipe", "We spoke of metric units and of a recipe there"
    fill(store, "k", *apart(row(wish), row(other), row(other, role="assistant")))
    assert found(store, "Which units should be used for the recipe?")[0] == 1


def test_very_common_words_are_weighed_down_but_never_dropped(store: Store) -> None:
    fill(store, "k", *(row(f"deploy number {n}") for n in range(30)), row("deploy the comet"))
    assert found(store, "deploy comet")[0] == 31
    assert len(found(store, "deploy", limit=200)) == 31


def test_a_question_of_stop_words_is_asked_as_it_is(store: Store) -> None:
    fill(store, "k", row("to be or not to be"), row("green tea"))
    assert found(store, "to be or not to be")[0] == 1


def test_when_nobody_said_the_words_that_matter_the_others_are_asked(store: Store) -> None:
    fill(store, "k", row("connect it"))
    assert found(store, "nothing like it there") == [1]


@pytest.mark.parametrize(
    ("part", "whole", "text"),
    [
        ("compose", "docker-compose", "run docker-compose up"),
        ("04", "20.04", "ubuntu 20.04 lts"),
        ("safe", "memory:safe", "it is memory:safe now"),
        ("store", "src/lossless/store.py", "edit src/lossless/store.py first"),
        ("timeout", "read_timeout_ms", "set read_timeout_ms to 30"),
        ("user", "getUserName", "call getUserName again"),
        ("parser", "XMLParser", "the XMLParser fails"),
    ],
)
def test_identifiers_are_found_by_their_parts_and_as_a_whole(store: Store, part: str, whole: str, text: str) -> None:
    fill(store, "k", *apart(row("words of no use"), row(text)))
    assert found(store, part) == [7]
    for asked in (whole, whole.lower(), f'"{whole}"', f"what about {whole}?"):
        assert found(store, asked)[0] == 7


def test_a_whole_identifier_comes_before_its_scattered_parts(store: Store) -> None:
    fill(store, "k", *apart(row("compose a letter about the docker"), row("docker-compose"), row("a docker here")))
    assert found(store, "docker-compose")[0] == 7


@pytest.mark.parametrize("question", ["数", "数据", "数据库", "昨天数据库迁移了吗"])
def test_cjk_is_found_at_any_length(store: Store, question: str) -> None:
    fill(store, "k", *apart(row("昨天我们迁移了数据库。"), row("このサーバーの設定")))
    assert found(store, question)[0] == 1


def test_a_phrase_wants_its_words_side_by_side(store: Store) -> None:
    fill(store, "k", *apart(row("the red car"), row("car of red paint"), row("call getUserName now")))
    assert found(store, '"red car"') == [1]
    assert found(store, '"getUserName now"') == [13]
    assert set(found(store, '"red car" paint')) == {1, 7}


@pytest.mark.parametrize(
    ("question", "seqs"),
    [
        ("🎉", [1]),
        ("party 🎉", [1, 13]),
        ('"shipped 🎉"', [1]),
        ("👍", [7]),
        ("👍🏽", [7]),
        ("❤️", [13]),
        ("👩", [19]),
        ("🇩🇪", [25]),
        ("🇫🇷", []),
        ("🦄", []),
    ],
)
def test_emoji_are_found(store: Store, question: str, seqs: list[int]) -> None:
    said = ("We shipped 🎉 at last", "fine👍🏽thanks", "a party with ❤", "the 👩‍👩‍👧 came", "from 🇩🇪 with care")
    fill(store, "k", *apart(*map(row, said)))
    assert sorted(found(store, question)) == seqs
    assert store.ranked(question, None, Limits(), limit=1).total == len(seqs)
    assert store.check_search() == []


def test_an_older_database_learns_emoji_when_it_is_opened(open_store: OpenStore, database: str) -> None:
    dialect = "postgres" if database.startswith("postgresql") else "sqlite"
    old = open_store(scripts=migrate.until(dialect, 10))
    conversation = fill(old, "k", row("We shipped 🎉 at last"))
    with old.transaction():
        old.unindex([conversation * SPAN + 1])
    old.close()
    new = open_store()
    assert found(new, "🎉") == [1]
    assert new.check_search() == []


def test_the_newest_of_equals_comes_first_and_every_time(store: Store) -> None:
    fill(store, "k", *apart(*(row("heartbeat ok") for _ in range(60))))
    newest = [n * 6 + 1 for n in range(59, 39, -1)]
    for question in ("heartbeat", '"heartbeat ok"', "heartbeat ok"):
        assert found(store, question) == newest
        assert found(store, question) == newest


def test_another_owners_messages_are_never_found_nor_counted(open_store: OpenStore) -> None:
    mine, theirs = open_store(owner="me"), open_store(owner="them")
    first = fill(mine, "a", row("my secret boat"))
    other = fill(theirs, "b", row("their secret boat"), row("the boat again"))
    last = fill(mine, "c", row("a boat of mine"))
    for question in ("boat", "secret boat", "Where is the secret boat?"):
        assert {match.conversation_id for match in mine.search(question)} == {first, last}
        assert {match.conversation_id for match in theirs.search(question)} == {other}
        assert mine.search(question, conversation_ids=[other]) == []


def test_scope_keeps_to_the_conversations_that_are_named(store: Store) -> None:
    one, two, three = (fill(store, key, row("the needle is in here"), row("so it is")) for key in ("a", "b", "c"))
    for question in ("needle", "here needle", "Where is the needle?"):
        assert {match.conversation_id for match in store.search(question)} == {one, two, three}
        within = store.search(question, conversation_ids=[three, one])
        assert {match.conversation_id for match in within} == {one, three}
        assert store.search(question, conversation_ids=[]) == []
        assert store.search(question, conversation_ids=[999]) == []


@pytest.mark.parametrize("question", ["boat", "red boat", "Where is the red boat?"])
def test_time_and_role_are_limits(store: Store, question: str) -> None:
    fill(
        store,
        "k",
        row("a red boat", at=1 * HOUR),
        row("a red boat", at=2 * HOUR, role="assistant"),
        row("a red boat", at=3 * HOUR, role="tool"),
        row("a red boat"),
    )
    assert sorted(found(store, question, since=2 * HOUR)) == [2, 3, 4]
    assert sorted(found(store, question, before=3 * HOUR)) == [1, 2]
    assert found(store, question, since=2 * HOUR, before=3 * HOUR) == [2]
    assert found(store, question, since=NOW) == [4]
    assert sorted(found(store, question, roles=["assistant", "tool"])) == [2, 3]
    assert found(store, question, roles=[]) == []
    assert found(store, question, roles=["tool"], before=2 * HOUR) == []


def test_a_limit_does_not_hide_the_answer_to_a_question_outside_it(store: Store) -> None:
    fill(store, "k", *map(row, FILLER), row("which dentist did you choose?"), row("Doctor Abel", role="assistant"))
    assert found(store, "What is the name of the dentist?", roles=["assistant"]) == [7]


def test_limits_come_before_the_best_are_chosen(store: Store) -> None:
    noise = [row("red boat red boat", at=HOUR) for _ in range(300)]
    fill(store, "k", row("once there was a boat", at=2 * HOUR), *noise)
    for question in ("boat", "red boat", "What was the red boat?"):
        assert found(store, question, since=2 * HOUR) == [1]


@pytest.mark.parametrize(
    "question",
    [
        '" OR "',
        "a" * 100_000,
        '"' * 501,
        "boat) OR (x",
        "boat NEAR/2 x",
        "^boat",
        "{text}: boat",
        "\ud800 boat \0",
        "-boat",
        " ".join(("go", "see", "eat", "take", "give")[n % 5] + f" w{n}" for n in range(500)),
    ],
)
def test_hostile_questions_are_only_questions(store: Store, question: str) -> None:
    fill(store, "k", row("the boat"))
    assert found(store, question) == ([1] if "boat" in question else [])
    assert store.search_summaries(question) == []


def summary(text: str) -> NewSummary:
    return NewSummary(f"sum_{abs(hash(text)):x}", 0, text, 9, None, None, 1, 9, "[]", "m", "normal", None, None, NOW)


def test_summaries_are_searched_by_their_words_for_their_owner_only(open_store: OpenStore) -> None:
    mine, theirs = open_store(owner="me"), open_store(owner="them")
    made = []
    for store, key, text in (
        (mine, "a", "We painted the boat."),
        (mine, "b", "Boat, boat, boat."),
        (theirs, "c", "A boat."),
    ):
        fill(store, key, row("one"))
        conversation = store.conversations.active(key)
        assert conversation is not None
        item = store.context.replace(conversation, [ItemRow(1, None, 1, MESSAGE - 1)], summary(text))
        made.append((conversation.id, item.summary_id))
    hits = mine.search_summaries("What about the boat?")
    assert {(hit.conversation_id, hit.summary_id) for hit in hits} == set(made[:2])
    assert hits[0].score >= hits[1].score
    assert [hit.summary_id for hit in mine.search_summaries("painting")] == [made[0][1]]
    assert len(mine.search_summaries("boat", limit=1)) == 1
    assert mine.search_summaries("boat", conversation_ids=[made[2][0]]) == []
    assert mine.search_summaries("?") == mine.search_summaries("boat", conversation_ids=[]) == []
