"""grep: exact words, out of everything that was ever said."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from itertools import count
from pathlib import Path
from typing import Any

import anyio
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from lossless import AsyncLossless, Conversation, Hits, Lossless, Message, Reasoning, Settings, Text, ToolCall
from lossless.engine.recall.search_request import Mode, Scope
from lossless.errors import InvalidInput, NotFound
from lossless.events import Event
from lossless.search import regex
from tests.patterns import patterns, texts

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)


def said(*words: str, minutes: int = 1) -> list[Message]:
    """Messages a minute apart, from noon on."""
    return [Message.user(text, at=NOON + timedelta(minutes=minutes * n)) for n, text in enumerate(words)]


def snippets(hits: Hits) -> list[str]:
    return [hit.snippet for hit in hits]


def paged(chat: Conversation, pattern: str, **options: Any) -> Iterator[Hits]:
    """Page after page, as long as there is a cursor."""
    page = chat.grep(pattern, **options)
    yield page
    while page.next_cursor:
        page = chat.grep(pattern, cursor=page.next_cursor, **options)
        yield page


def archive(lcm: Lossless, key: str) -> None:
    with lcm._store.transaction():
        lcm._store.run("UPDATE conversation SET active = 0 WHERE key = :key", key=key)


def test_a_hit_tells_what_was_said_where_and_when(chat: Conversation) -> None:
    chat.ingest(said("Where is the deploy key?", "In the vault,\nunder ops/deploy."))
    (hit,) = chat.grep(r"ops/\w+")
    stored = chat.messages()[1]
    assert hit.id == f"msg#{stored.id}"
    assert (hit.kind, hit.seq, hit.role, hit.leaf) == ("message", 2, "user", None)
    assert (hit.conversation, hit.key) == (chat.status().id, chat.key)
    assert hit.at == NOON + timedelta(minutes=1)
    assert hit.snippet == "In the vault, under ops/deploy."


def test_the_newest_comes_first_by_the_time_it_was_said(chat: Conversation) -> None:
    chat.ingest([*said("key one", "key two"), Message.user("key of old", at=NOON - timedelta(days=1))])
    assert snippets(chat.grep("key")) == ["key two", "key one", "key of old"]


def test_tool_results_and_calls_are_searched_and_thinking_is_not(chat: Conversation) -> None:
    call = ToolCall("c1", "bash", '{"command": "ls needle-call"}')
    chat.ingest(
        [
            Message("assistant", (Reasoning("needle-thought"), Text("needle-text"), call)),
            Message.tool("needle-result", call_id="c1"),
        ]
    )
    assert sorted(hit.role or "" for hit in chat.grep(r"needle-\w+")) == ["assistant", "tool"]
    assert not chat.grep("needle-thought")
    assert len(chat.grep("needle-call")) == 1


def test_words_of_every_script_have_edges(chat: Conversation) -> None:
    chat.ingest(said("Где ключ?", "ключевой вопрос", "迁移 数据库 完成", "数据库2"))
    assert snippets(chat.grep(r"\bключ\b")) == ["Где ключ?"]
    assert snippets(chat.grep(r"\b数据库\b")) == ["迁移 数据库 完成"]
    assert snippets(chat.grep(r"(?i)КЛЮЧ\w+")) == ["ключевой вопрос"]


@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(patterns, st.lists(texts, min_size=1, max_size=6))
def test_what_the_database_skips_is_nothing_that_matches(lcm: Lossless, pattern: str, history: list[str]) -> None:
    chat = lcm.conversation(f"k{next(_numbers)}")
    chat.ingest(said(*history))
    plain = regex.compile(pattern)
    if not pattern.strip():
        return
    expected = [number for number, text in reversed(list(enumerate(history, 1))) if plain.search(text)]
    assert [hit.seq for hit in chat.grep(pattern)] == expected


_numbers = count()


def test_a_summary_is_found_too_and_a_message_names_its_leaf(database: str) -> None:
    small = Settings(fresh_tail_count=2, leaf_chunk_tokens=300, leaf_min_fanout=2, leaf_target_tokens=60)
    with Lossless.open(database, settings=small, summarizer=lambda _: "The needle lies in the barn.") as lcm:
        chat = lcm.conversation("k")
        chat.ingest(said(*(f"straw {n}, " + "and the needle is in the barn, " * 9 for n in range(12))))
        chat.compact(window=1_000, force=True)
        leaves = {each.id for each in chat.summaries() if each.depth == 0}
        assert leaves
        hits = chat.grep("needle", limit=200)
        assert [hit.at for hit in hits] == sorted((hit.at for hit in hits), reverse=True)
        assert {hit.id for hit in hits if hit.kind == "summary" and hit.depth == 0} == leaves
        assert {hit.leaf for hit in hits if hit.kind == "message"} == leaves | {None}
        assert {hit.kind for hit in chat.grep("needle", scope="messages")} == {"message"}
        assert {hit.kind for hit in chat.grep("needle", scope="summaries")} == {"summary"}
        alone = [hit.kind for hit in chat.grep("needle", limit=1)]
        assert alone == [hits[0].kind]
        halves = chat.grep("needle", "full_text", limit=4)
        assert [hit.kind for hit in halves] == ["message", "message", "summary", "summary"]
        for mode in ("regex", "full_text"):
            pages = list(paged(chat, "needle", mode=mode, limit=3))
            assert {len(page) for page in pages[:-1]} == {3}
            assert {page.total for page in pages} == {len(hits)}
            assert all(page.total_is_exact for page in pages)
            assert sorted(hit.id for page in pages for hit in page) == sorted(hit.id for hit in hits)
        words = chat.grep("where is the needle", "full_text", sort="relevance", limit=200)
        assert [hit.kind for hit in words] == sorted(hit.kind for hit in words)
        assert {hit.kind for hit in words} == {"message", "summary"}
        before = chat.grep("needle", before=NOON + timedelta(minutes=3), limit=200)
        assert {hit.kind for hit in before} <= {"message", "summary"}
        assert all(hit.at < NOON + timedelta(minutes=3) for hit in before)


def test_times_are_from_since_on_and_before_before(chat: Conversation) -> None:
    chat.ingest(said("key 0", "key 1", "key 2", "key 3"))
    one, three = NOON + timedelta(minutes=1), NOON + timedelta(minutes=3)
    assert snippets(chat.grep("key", since=one, before=three)) == ["key 2", "key 1"]
    assert snippets(chat.grep("key", since=one.isoformat(), before="2026-03-01T12:03:00Z")) == ["key 2", "key 1"]
    assert sorted(snippets(chat.grep("key", "full_text", since=one, before=three))) == ["key 1", "key 2"]


def test_pages_follow_each_other_while_messages_come_in(chat: Conversation) -> None:
    chat.ingest(said(*(f"key {n}" for n in range(25))))
    first = chat.grep("key", limit=10)
    assert first.next_cursor is not None
    assert len(first.next_cursor) < 80
    chat.ingest([Message.user(f"key late {n}", at=NOON + timedelta(days=1)) for n in range(5)])
    second = chat.grep("key", limit=10, cursor=first.next_cursor)
    third = chat.grep("key", limit=100, cursor=second.next_cursor)
    assert snippets(first) + snippets(second) + snippets(third) == [f"key {n}" for n in reversed(range(25))]
    assert third.next_cursor is None


@pytest.mark.parametrize("sort", ["recency", "relevance", "hybrid"])
def test_pages_of_a_question_show_each_answer_once(chat: Conversation, sort: str) -> None:
    chat.ingest(said(*(f"the deploy key number {n}" for n in range(25)), minutes=60))
    seqs = [hit.seq for page in paged(chat, "deploy key", mode="full_text", sort=sort, limit=7) for hit in page]
    assert sorted(seq or 0 for seq in seqs) == list(range(1, 26))
    if sort == "recency":
        assert seqs == list(reversed(range(1, 26)))


def test_the_messages_around_a_hit_are_shown_once_and_stay_in_their_conversation(lcm: Lossless) -> None:
    one, other = lcm.conversation("one"), lcm.conversation("other")
    one.ingest(said("before it", "the deploy key", "the deploy key again", "after it", "long after it", "far away"))
    other.ingest(said("a stranger"))
    hits = one.grep("deploy key", "full_text", around=2)
    assert {hit.seq for hit in hits} == {2, 3}
    assert sorted(each.seq for hit in hits for each in hit.around) == [1, 4, 5]
    assert {each.snippet for hit in hits for each in hit.around} == {"before it", "after it", "long after it"}
    assert not any(hit.around for hit in one.grep("deploy key", "full_text"))
    (alone,) = other.grep("stranger", "full_text", around=5)
    assert alone.around == ()


def test_hybrid_prefers_the_newer_of_equals(lcm: Lossless, chat: Conversation) -> None:
    chat.ingest(
        [
            Message.user("deploy key, deploy key", at=NOON - timedelta(days=2_000)),
            *(Message.user(f"nothing {n}", at=NOON) for n in range(5)),
            Message.user("the deploy key", at=datetime.now(UTC)),
        ]
    )
    assert [hit.seq for hit in chat.grep("deploy key", "full_text", sort="hybrid")] == [7, 1]
    relevance = chat.grep("deploy key", "full_text", sort="relevance")
    assert [hit.score for hit in relevance] == sorted((hit.score for hit in relevance), reverse=True)
    assert all(hit.score > 0 for hit in relevance)


def test_a_key_stands_for_all_that_was_ever_under_it(lcm: Lossless) -> None:
    for key in ("agent:a:main", "agent:a:cron:nightly:run1"):
        lcm.conversation(key).ingest(said("key of old"))
        archive(lcm, key)
        lcm.conversation(key).ingest([Message.user("key of today")])
    assert snippets(lcm.conversation("agent:a:main").grep("key")) == ["key of today", "key of old"]
    assert snippets(lcm.conversation("agent:a:cron:nightly:run1").grep("key")) == ["key of today"]
    assert len(lcm.grep("key")) == 4
    assert not lcm.conversation("agent:nobody").grep("key")


def test_nobody_finds_what_another_owner_said(database: str, lcm: Lossless, chat: Conversation) -> None:
    chat.ingest([Message.user("the secret word is plover " + "and so on " * 20_000)])
    cursor = lcm.grep("e", limit=1).next_cursor
    with Lossless.open(database, owner="mallory", settings=lcm.settings) as other:
        other.conversation(chat.key).ingest([Message.user("my own plover")])
        scopes: tuple[Scope, ...] = ("both", "files")
        modes: tuple[Mode, ...] = ("regex", "full_text")
        for scope in scopes:
            for mode in modes:
                for found in (
                    other.grep("plover", mode, scope),
                    other.conversation(chat.key).grep("plover", mode, scope),
                ):
                    assert snippets(found) == ([] if scope == "files" else ["my own plover"])
        (file,) = chat.files()
        with pytest.raises(NotFound):
            other.grep("plover", scope="files", file_ids=[file.id])
        if cursor:
            with pytest.raises(InvalidInput):
                other.grep("e", limit=1, cursor=cursor)


def test_when_the_time_is_up_it_says_so_and_goes_on_there(database: str) -> None:
    ticks = count()
    with Lossless.open(database, clock=lambda: float(next(ticks))) as lcm:
        chat = lcm.conversation("k")
        chat.ingest(said(*(f"message {n} {'needle' if n % 300 == 0 else 'straw'}" for n in range(900))))
        pages = list(paged(chat, "[n][e][e]", seconds=1, scope="messages"))
        assert len(pages) > 2
        assert not pages[0].complete
        assert 0 < pages[0].scanned < 900
        assert sum(page.scanned for page in pages) == 900
        assert pages[-1].complete
        assert [hit.seq for page in pages for hit in page] == [601, 301, 1]


def test_words_are_ordered_by_relevance_and_patterns_by_recency(chat: Conversation) -> None:
    plan = "We migrate the database on Friday: the database migration plan is in docs/plan.md."
    chat.ingest(said(plan, *(f"The database was slow again today, run {n}." for n in range(60))))
    best = chat.grep("database migration", "full_text")
    assert best[0].snippet == plan
    assert (len(best), best.total, best.total_is_exact) == (50, 61, True)
    newest = chat.grep("database migration", "full_text", sort="recency")
    assert newest[0].snippet.endswith("run 59.")
    assert chat.grep("database").total == 61
    assert [hit.seq for hit in chat.grep("database", limit=3)] == [61, 60, 59]


@pytest.mark.parametrize("mode", ["regex", "full_text"])
def test_the_total_counts_all_matches_within_the_times_asked_for(chat: Conversation, mode: Mode) -> None:
    chat.ingest(said(*(f"key {n}" for n in range(30)), *(f"straw {n}" for n in range(30))))
    assert [page.total for page in paged(chat, "key", mode=mode, limit=20)] == [30, 30]
    late = chat.grep("key", mode, since=NOON + timedelta(minutes=10), limit=5)
    assert (len(late), late.total, late.total_is_exact) == (5, 20, True)
    none = chat.grep("absent", mode)
    assert (none.total, none.total_is_exact) == (0, True)


def test_emoji_are_found_and_shown_in_their_place(chat: Conversation) -> None:
    chat.ingest(said("straw " * 100 + "we shipped 🎉 today", "straw"))
    (hit,) = chat.grep("🎉", "full_text")
    assert hit.snippet.endswith("we shipped 🎉 today")
    assert len(chat.grep("🎉")) == 1


def test_the_total_of_a_sentence_is_a_lower_bound_and_says_so(chat: Conversation) -> None:
    chat.ingest(said("Where is the deploy key?", "In the vault.", *(f"straw {n}" for n in range(10))))
    found = chat.grep("where is the deploy key", "full_text")
    assert not found.total_is_exact
    assert found.total >= len(found) > 1


def test_a_count_that_takes_too_long_ends_and_says_so(database: str) -> None:
    ticks = count()
    with Lossless.open(database, clock=lambda: next(ticks) / 10) as lcm:
        chat = lcm.conversation("k")
        chat.ingest(said(*(f"needle {n}" for n in range(3_000))))
        pages = [chat.grep("[n]eedle", limit=10, seconds=100)]
        pages.append(chat.grep("[n]eedle", limit=10, seconds=100, cursor=pages[0].next_cursor))
        assert [len(page) for page in pages] == [10, 10]
        assert all(page.complete and not page.total_is_exact for page in pages)
        assert all(10 < page.total < 3_000 for page in pages)
        assert [hit.seq for page in pages for hit in page] == list(range(3_000, 2_980, -1))


def test_lines_of_files_are_counted_beyond_a_page(database: str, tmp_path: Path) -> None:
    own = Settings(large_files_dir=str(tmp_path / "files"), large_file_token_threshold=1_000)
    with Lossless.open(database, settings=own, clock=lambda: 1_772_366_400.0) as lcm:
        chat = lcm.conversation("k")
        for name in "abc":
            held = f"needle {name}\n" * 4 + "straw\n" * 2_000
            chat.ingest([Message.user(f'<file name="{name}.txt">{held}</file>')])
        pages = list(paged(chat, "needle", scope="files", limit=5))
        assert [len(page) for page in pages] == [5, 5, 2]
        assert {page.total for page in pages} == {12}
        assert all(page.total_is_exact for page in pages)


def test_only_texts_that_can_match_are_read(chat: Conversation) -> None:
    chat.ingest(said(*(f"message {n} {'ERR_4711' if n == 50 else ''}" for n in range(100))))
    assert chat.grep(r"ERR_\d+").scanned == 1
    assert chat.grep(r"(?i)err_\d+").scanned == 1
    assert chat.grep(r"absent").scanned == 0
    assert chat.grep(r"\d{4}").scanned == 100


BAD = {
    "look-around": {"pattern": "(?<!x)key"},
    "back-reference": {"pattern": r"(k)\1"},
    "missing": {"pattern": "(python"},
    "empty": {"pattern": " "},
    "500": {"pattern": "x" * 501},
    "regex, full_text, semantic": {"pattern": "x", "mode": "fuzzy"},
    "messages, summaries, both, files": {"pattern": "x", "scope": "all"},
    "recency, relevance, hybrid": {"pattern": "x", "sort": "best"},
    "limit=0 .* 1 to 200": {"pattern": "x", "limit": 0},
    "limit=10000 .* 1 to 200": {"pattern": "x", "limit": 10_000},
    "limit=True": {"pattern": "x", "limit": True},
    "since='yesterdy' is not a time. Did you mean yesterday": {"pattern": "x", "since": "yesterdy"},
    "before=nan": {"pattern": "x", "before": float("nan")},
    "not before": {"pattern": "x", "since": "2026-03-02", "before": "2026-03-01"},
    "scope=": {"pattern": "x", "file_ids": ["file_1"]},
    "not a cursor": {"pattern": "x", "cursor": "nonsense!"},
    "around=6 .* 0 to 5": {"pattern": "x", "around": 6},
    "around=-1": {"pattern": "x", "around": -1},
}


@pytest.mark.parametrize("reason", BAD)
def test_what_cannot_be_asked_is_refused_with_the_reason(chat: Conversation, reason: str) -> None:
    chat.ingest(said("key"))
    with pytest.raises(InvalidInput, match=reason):
        chat.grep(**BAD[reason])  # type: ignore[arg-type]  # that is the point


@pytest.mark.parametrize("cursor", ["", "AAAA", "ключ", "a" * 500, "gaFhAQ", "krBAgaFtwA", 7])
def test_a_cursor_that_is_none_is_refused(chat: Conversation, cursor: Any) -> None:
    with pytest.raises(InvalidInput, match=r"not a cursor|another query|is not a text"):
        chat.grep("key", cursor=cursor)


def test_a_cursor_serves_no_other_question(chat: Conversation) -> None:
    chat.ingest(said("key 1", "key 2"))
    cursor = chat.grep("key", limit=1).next_cursor
    for other in ({"pattern": "lock"}, {"scope": "messages"}, {"since": NOON}, {"mode": "full_text"}):
        with pytest.raises(InvalidInput, match="another query"):
            chat.grep(**{"pattern": "key", "cursor": cursor, **other})  # type: ignore[arg-type]  # each of them
    assert len(chat.grep("key", cursor=cursor, limit=200)) == 1


QUESTIONS = [
    "what's the plan?",
    'say "hi',
    "(python",
    "foo AND",
    "memory:safe",
    "docker-compose",
    "20.04",
    "NOT NEAR(x",
    "a\0b",
    "\ud800 key",
    "***",
    "(?<!x)",
    "x" * 5_000,
]


@pytest.mark.parametrize("question", QUESTIONS, ids=lambda question: ascii(question)[:20])
def test_a_question_works_as_it_was_typed(chat: Conversation, question: str) -> None:
    chat.ingest(said("The plan: run docker-compose on Ubuntu 20.04, be memory:safe in (python), say hi to foo."))
    found = chat.grep(question, "full_text")
    assert found.complete
    assert bool(found) == (question not in ("***", "a\0b", "\ud800 key", "NOT NEAR(x", "(?<!x)", "x" * 5_000))


def test_a_question_that_looks_like_a_pattern_gets_a_hint(chat: Conversation) -> None:
    for pattern in (r"deploy\b", "foo|bar", "foo.*bar", "[abc]x", "^foo", "foo$"):
        assert "regex" in chat.grep(pattern, "full_text").hint
    for question in ("what is this?", '"foo|bar" baz', "costs $5 or so", "a [x] b"):
        assert not chat.grep(question, "full_text").hint


def test_nothing_in_a_message_reaches_a_terminal_as_a_command(chat: Conversation) -> None:
    chat.ingest(said("key \x1b]0;owned\x07 \x1b[2J \u202e done", "key a\0b \ud800 c"))
    assert snippets(chat.grep("key")) == [
        "key a\ufffdb ? c",
        r"key \x1b]0;owned\x07 \x1b[2J \u202e done",
    ]
    assert len(chat.grep("a\0b \ud800")) == 1
    assert not chat.grep(r"key\x00\x{dfff}")


def log_file(lines: int) -> str:
    return "\n".join(f"{n:06} érror {'needle' if n in (3, lines) else 'straw'} in the log" for n in range(1, lines + 1))


def file_of(text: str, name: str) -> Message:
    return Message.user(f'Look: <file name="{name}" mime="text/plain">{text}</file>')


def test_files_are_searched_to_their_last_line(chat: Conversation) -> None:
    chat.ingest([file_of(log_file(60_000), "app.log")])
    (file,) = chat.files()
    assert file.bytes > 1 << 20
    first, last = chat.grep(r"\bneedle\b", scope="files")
    assert (first.id, first.kind, first.name) == (file.id, "file", "app.log")
    assert (first.line, last.line) == (3, 60_000)
    for hit in (first, last):
        assert hit.offset is not None
        assert chat.files.read(file.id, hit.offset, hit.offset + 6) == b"needle"
        assert chat.files.lines(file.id, hit.line or 0, hit.line).strip() == hit.snippet


def test_a_file_shows_ten_lines_and_pages_go_from_file_to_file(chat: Conversation) -> None:
    for n in range(3):
        chat.ingest([file_of(f"file {n}\n" + "key and straw and more of it\n" * 20_000, f"{n}.txt")])
    everything = chat.grep("key", scope="files", limit=200)
    assert [(hit.name, hit.line) for hit in everything] == [(f"{n}.txt", 2 + k) for n in (2, 1, 0) for k in range(10)]
    pages = list(paged(chat, "key", scope="files", limit=7))
    assert [hit for page in pages for hit in page] == list(everything)
    (only,) = (file.id for file in chat.files() if file.name == "1.txt")
    assert {hit.name for hit in chat.grep("key", scope="files", file_ids=[only])} == {"1.txt"}
    with pytest.raises(NotFound):
        chat.grep("key", scope="files", file_ids=["file_0123456789abcdef"])


def test_a_question_finds_files_that_hold_all_of_its_terms(chat: Conversation) -> None:
    filler = "straw in the barn\n" * 30_000
    chat.ingest([file_of(f"the key\n{filler}a key to deploy with\n", "both"), file_of(f"a key\n{filler}", "one")])
    hits = chat.grep("deploy key", "full_text", "files")
    assert [(hit.name, hit.line) for hit in hits] == [("both", 1), ("both", 30_002)]


def test_a_file_deleted_from_the_disk_is_told_and_the_others_are_searched(database: str, tmp_path: Path) -> None:
    told: list[Event] = []
    where = Settings(large_files_dir=str(tmp_path / "files"))
    with Lossless.open(database, settings=where, on_event=told.append) as lcm:
        chat = lcm.conversation("k")
        chat.ingest(
            [file_of("key of one\n" + "straw\n" * 60_000, "one"), file_of("key of two\n" + "hay\n" * 60_000, "two")]
        )
        gone = next(file for file in chat.files() if file.name == "one")
        (tmp_path / "files" / gone.sha256[:2] / gone.sha256).unlink()
        found = chat.grep("key", scope="files")
        assert [hit.name for hit in found] == ["two"]
        assert found.unavailable == (gone.id,)
        assert [event.name for event in told] == ["file.unavailable"]


def test_files_too_are_left_when_the_time_is_up(database: str, tmp_path: Path) -> None:
    ticks = count()
    where = Settings(large_files_dir=str(tmp_path / "files"))
    with Lossless.open(database, settings=where, clock=lambda: float(next(ticks))) as lcm:
        chat = lcm.conversation("k")
        chat.ingest([file_of(log_file(80_000), "app.log"), file_of("one needle\n" + "straw\n" * 60_000, "small")])
        pages = list(paged(chat, "needle", scope="files", seconds=1))
        assert not pages[0].complete
        found = sorted((hit.name or "", hit.line) for page in pages for hit in page)
        assert found == [("app.log", 3), ("app.log", 80_000), ("small", 1)]


def test_the_same_verbs_awaited(tmp_path: Path) -> None:
    async def main() -> None:
        async with AsyncLossless.open(tmp_path / "lcm.db") as lcm:
            chat = lcm.conversation("k")
            await chat.ingest(said("the key", "the lock"))
            assert snippets(await chat.grep("key", limit=1)) == ["the key"]
            assert len(await lcm.grep("the", "full_text", "messages")) == 2

    anyio.run(main)


@pytest.mark.parametrize(
    ("pattern", "ignore_case", "seqs"),
    [
        ("deploy", None, [2, 1]),
        ("Deploy", None, [1]),
        (r"\Wkey\S", None, [2, 1]),
        ("deploy", False, [2]),
        ("Deploy", True, [2, 1]),
        ("[A-Z]eploy", None, [1]),
    ],
)
def test_a_pattern_without_upper_case_ignores_case(
    chat: Conversation, pattern: str, ignore_case: bool | None, seqs: list[int]
) -> None:
    chat.ingest(said("Deploy KEY.", "deploy key."))
    assert [hit.seq for hit in chat.grep(pattern, ignore_case=ignore_case)] == seqs


def test_a_hint_tells_that_only_the_case_differs(chat: Conversation) -> None:
    chat.ingest(said("the deploy key", "Deploy it", "Straße"))
    assert chat.grep("DEPLOY").hint == "Only the case differs: 2 matches with ignore_case (-i)."
    assert chat.grep("straße", ignore_case=False).hint == "Only the case differs: 1 match with ignore_case (-i)."
    assert chat.grep("DESTROY").hint == ""
    assert chat.grep("[0-9]+", ignore_case=False).hint == ""
    assert chat.grep("Deploy").hint == ""
    assert len(chat.grep("DEPLOY", "full_text")) == 2
