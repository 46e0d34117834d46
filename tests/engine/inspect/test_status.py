"""The status says what is, and a stop of ingestion is never silent."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Callable
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import apsw
import pytest
from msgspec import structs

from lossless import Conversation, Lossless, Message, Settings
from lossless.engine.inspect.stats import spread
from lossless.engine.inspect.verdict import judge, span
from lossless.engine.shared.call_limits import Guards
from lossless.events import Event
from lossless.model import Debt, LaggingTranscript, Status, TranscriptLag
from lossless.store.rows.types import SPAN
from tests.client.test_behaviours import launch
from tests.engine.compaction.test_compaction import SMALL, WINDOW, short, turns
from tests.engine.doctor.damage import inside
from tests.engine.test_worker import NOW, Clock, Counting, open_at
from tests.provider import Provider
from tests.transcribing import Session, assistant, user
from tests.transcripts.files import SESSION, put, reply, text

WRITTEN = datetime(2026, 11, 15, tzinfo=UTC).timestamp()
"""When every line of a session says it was written."""


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def followed(clock: Clock, tmp_path: Path) -> Any:
    """A conversation, and the session it is read from, read five minutes before anything more is written."""
    session = Session(tmp_path / "s1.jsonl")
    session.says(user("Where is the key?"), assistant("In the vault."))
    clock.now = WRITTEN - 300
    with open_at(str(tmp_path / "lcm.db"), clock) as lcm:
        chat = lcm.conversation("agent:main:main")
        chat.bootstrap(session.path)
        yield lcm, chat, session


def touch(session: Session, at: float) -> None:
    os.utime(session.path, (at, at))


def test_a_transcript_that_moves_on_unread_is_degraded_after_a_minute_and_well_again_once_read(
    followed: tuple[Lossless, Conversation, Session], clock: Clock
) -> None:
    lcm, chat, session = followed
    size = session.path.stat().st_size
    assert lcm.status().verdict == "ok"
    session.says(user("And the door?"))
    touch(session, WRITTEN)
    clock.now = WRITTEN + 59
    found = lcm.status()
    assert (found.verdict, found.following.behind, found.reasons) == ("ok", 0, ())
    assert found.following.bytes == session.path.stat().st_size - size
    clock.now = WRITTEN + 60
    found = lcm.status()
    (reason,) = found.reasons
    assert (found.verdict, reason.what, found.following.behind) == ("degraded", "behind", 1)
    assert reason.text == f"{session.path} has {found.following.bytes} bytes not read for 60 s; last read 6 min ago."
    assert reason.command == f"lcm import {session.path} --key {chat.key} --apply"
    chat.bootstrap(session.path)
    assert (lcm.status().verdict, lcm.status().following.bytes) == ("ok", 0)


@pytest.mark.parametrize(("since", "verdict"), [(5, "ok"), (59, "ok"), (60, "degraded")])
def test_a_transcript_that_is_written_to_all_the_time_is_as_late_as_its_first_line_that_was_not_read(
    followed: tuple[Lossless, Conversation, Session], clock: Clock, since: int, verdict: str
) -> None:
    lcm, _, session = followed
    session.says(user("One"), user("Two"))
    clock.now = WRITTEN + since
    touch(session, clock.now - 1)
    assert lcm.status().verdict == verdict


def test_a_transcript_that_is_gone_is_told(followed: tuple[Lossless, Conversation, Session], clock: Clock) -> None:
    lcm, _, session = followed
    session.says(user("More"))
    touch(session, clock.now)
    lcm.conversation("agent:main:main").bootstrap(session.path)
    session.path.rename(session.path.with_suffix(".away"))
    clock.now += 3600
    found = lcm.status()
    assert (found.verdict, found.following.missing, found.following.lagging[0].path) == (
        "warning",
        1,
        str(session.path),
    )
    assert "is missing; last written 60 min ago" in found.reasons[0].text
    clock.now += 2 * 86_400
    found = lcm.status()
    assert (found.verdict, found.following.missing) == ("quiet", 1), "a host may put away what is old"


def test_of_those_that_are_gone_the_one_is_named_that_should_be_there(clock: Clock, tmp_path: Path) -> None:
    a, b, c = (Session(tmp_path / f"{name}.jsonl", name) for name in "abc")
    with open_at(str(tmp_path / "lcm.db"), clock) as lcm:
        for session, key, written in ((a, "k", NOW - 100), (b, "k", NOW - 90), (c, "l", NOW - 7_200)):
            session.says(user(session.session))
            touch(session, written)
            lcm.conversation(key).bootstrap(session.path)
            clock.now += 1
        a.path.unlink()
        c.path.unlink()
        found = lcm.status()
        assert (found.following.missing, found.following.vanished) == (2, 1)
        assert found.reasons[0].text.startswith(f"{c.path} is missing"), "k has gone on in b"


def test_a_session_in_which_nothing_is_said_yet_is_not_behind_and_what_comes_is_read_once(
    clock: Clock, tmp_path: Path
) -> None:
    session = Session(tmp_path / "s1.jsonl")
    clock.now = WRITTEN + 10
    with open_at(str(tmp_path / "lcm.db"), clock) as lcm:
        chat = lcm.conversation("agent:main:main")
        assert chat.bootstrap(session.path).reason == "no leaf-path messages in session"
        clock.now = WRITTEN + 7_202
        assert (lcm.status().verdict, lcm.status().following.bytes) == ("empty", 0)
        session.write([session.entry(user("Where is the key?")) | {"timestamp": "2026-11-15T02:00:00Z"}])
        touch(session, clock.now)
        found = lcm.status().following
        assert (found.behind, found.bytes > 0) == (0, True), "two seconds are no delay"
        clock.now += 60
        assert lcm.status().verdict == "degraded"
        assert [chat.bootstrap(session.path).imported for _ in range(2)] == [1, 0]
        assert (lcm.status().verdict, len(chat.messages())) == ("ok", 1)


def test_a_transcript_that_is_replaced_by_a_header_is_not_behind_and_what_comes_is_read_once(
    followed: tuple[Lossless, Conversation, Session], clock: Clock
) -> None:
    lcm, chat, session = followed
    Session(session.path, "s2")
    touch(session, clock.now)
    clock.now += 3_600
    assert lcm.status().verdict == "degraded"
    chat.bootstrap(session.path)
    assert lcm.status().verdict == "ok"
    Session(session.path, "s2").says(user("And the door?"))
    assert [chat.bootstrap(session.path).imported for _ in range(2)] == [1, 0]
    assert [each.text for each in chat.messages()] == ["And the door?"], "the file was replaced: it is a new epoch"
    assert lcm.status().verdict == "ok"


def test_a_look_at_a_header_does_not_come_between_a_new_and_what_follows_it(
    followed: tuple[Lossless, Conversation, Session], clock: Clock
) -> None:
    _, chat, session = followed
    clock.now += 10
    chat.new()
    clock.now += 10
    Session(session.path, "s2")
    chat.bootstrap(session.path)
    Session(session.path, "s2").says(user("And the door?"))
    assert chat.bootstrap(session.path).imported == 1
    assert [each.text for each in chat.messages()] == ["Where is the key?", "In the vault.", "And the door?"]


def test_a_first_word_that_may_still_grow_is_read_when_it_does_not(clock: Clock, tmp_path: Path) -> None:
    before = {"type": "queue-operation", "operation": "enqueue", "sessionId": SESSION}
    with open_at(str(tmp_path / "lcm.db"), clock) as lcm:
        chat = lcm.conversation("k")
        for lines in ([before], [before, reply("a", None, "msg_1", text("Done."), stop=None)]):
            path = put(tmp_path / "x.jsonl", *lines)
            os.utime(path, (clock.now, clock.now))
            assert chat.bootstrap(path).reason == "no leaf-path messages in session"
        clock.now += 61
        assert lcm.status().following.behind == 1
        assert [chat.bootstrap(path).imported for _ in range(2)] == [1, 0]
        assert lcm.status().following.bytes == 0


def test_a_file_is_as_late_as_the_latest_of_those_who_read_it_and_are_to(tmp_path: Path, clock: Clock) -> None:
    path, session = str(tmp_path / "lcm.db"), Session(tmp_path / "s1.jsonl")
    session.says(user("one"))
    with open_at(path, clock) as lcm:
        for key in ("mine", "other"):
            lcm.conversation(key).bootstrap(session.path)
        session.says(user("two"))
        touch(session, NOW)
        clock.now += 1
        lcm.conversation("other").bootstrap(session.path)
        clock.now += 7_200
        found = lcm.status().following
        assert (found.transcripts, found.looked_at, found.behind) == (1, 1, 1)
        assert [each.key for each in found.lagging] == ["mine"]
    for pattern, followed, behind in (("other", 1, 1), ("mine", 1, 0), ("*", 0, 0)):
        with open_at(path, clock, ignore_session_patterns=(pattern,)) as lcm:
            found = lcm.status().following
            assert (found.transcripts, found.looked_at, found.behind) == (followed, followed, behind)


@pytest.mark.parametrize(
    ("lines", "verdict"),
    [
        pytest.param([{"type": "snapshot"}], "ok", id="none tells a time: the file does"),
        pytest.param(
            [{"type": "snapshot"}, {"timestamp": "2026-11-15T00:00:00Z"}], "degraded", id="the second tells one"
        ),
        pytest.param([{"type": "snapshot", "long": "x" * 1_100_000}], "degraded", id="too much to be searched"),
    ],
)
def test_a_line_that_tells_no_time_makes_nobody_late(
    followed: tuple[Lossless, Conversation, Session], clock: Clock, lines: list[object], verdict: str
) -> None:
    lcm, _, session = followed
    session.write(lines)
    clock.now = WRITTEN + 10_800
    touch(session, clock.now - 2)
    assert lcm.status().verdict == verdict


def test_another_file_of_the_same_size_was_not_read_and_one_that_was_only_touched_was(
    followed: tuple[Lossless, Conversation, Session], clock: Clock
) -> None:
    lcm, _, session = followed
    size = session.path.stat().st_size
    touch(session, clock.now)
    clock.now += 600
    assert lcm.status().verdict == "ok"
    Session(session.path, "s2").says(user("Where is the cat?"), assistant("In the attic."))
    touch(session, clock.now)
    clock.now += 60
    found = lcm.status()
    assert (found.verdict, found.following.bytes) == ("degraded", size)


def test_a_time_that_is_still_to_come_hides_no_delay(
    followed: tuple[Lossless, Conversation, Session], clock: Clock
) -> None:
    lcm, _, session = followed
    Session(session.path, "s2").says(user("Short."))
    touch(session, clock.now + 30 * 86_400)
    clock.now += 3_600
    assert "not read for 60 min; last read 60 min ago" in lcm.status().reasons[0].text


def test_a_transcript_that_cannot_be_looked_at_is_told(
    followed: tuple[Lossless, Conversation, Session],
) -> None:
    lcm, _, session = followed
    session.path.unlink()
    session.path.symlink_to(session.path)
    (reason,) = lcm.status().reasons
    assert (reason.severity, reason.text) == ("degraded", f"{session.path} cannot be read; last read 0 s ago.")


def test_the_worst_transcripts_are_named_and_the_rest_counted(lcm: Lossless, tmp_path: Path) -> None:
    lcm._clock = lambda: NOW
    for number in range(6):
        session = Session(tmp_path / f"s{number}.jsonl", f"s{number}")
        session.says(user(f"{number}"))
        lcm.conversation(f"k{number}").bootstrap(session.path)
        session.says(user("more"))
        os.utime(session.path, (NOW - 100 * number, NOW - 100 * number))
    found = lcm.status().following
    assert (found.transcripts, found.behind) == (6, 5)
    assert [Path(each.path).name for each in found.lagging] == ["s5.jsonl", "s4.jsonl", "s3.jsonl"]
    assert "Also 4 others." in lcm.status().reasons[0].text
    alone = lcm.status("k1").conversation
    assert alone is not None
    assert [each.key for each in alone.following.lagging] == ["k1"]


def test_a_provider_that_limits_the_rate_is_told_with_what_is_owed_and_when_it_is_tried_again(
    tmp_path: Path, provider: Provider, credentials: None, clock: Clock
) -> None:
    provider.script("429")
    model = {"summary_model": "anthropic/stand-in", "summary_base_url": provider.url}
    with open_at(str(tmp_path / "lcm.db"), clock, None, **model) as lcm:
        lcm.conversation("k").after_turn(launch(17), window=WINDOW)
        assert (lcm.status().verdict, lcm.status().pending) == ("ok", 1), "what is owed for a moment is no trouble"
        clock.now += 3
        lcm.worker().step()
        found = lcm.status("k")
        owed = next(each for each in found.reasons if each.what == "pending")
        assert (owed.severity, found.pending, found.failed, found.calls.calls) == ("warning", 1, 1, 1)
        assert "Compaction of k is pending since 2027-01-15 08:00:00 UTC: the provider asked for a pause" in owed.text
        assert owed.text.endswith("next attempt 2027-01-15 08:00:10 UTC.")
        assert found.conversation is not None
        debt = found.conversation.debt
        assert debt is not None
        assert (debt.state, debt.stop, debt.next_at) == (
            "waiting",
            "rate limit",
            datetime(2027, 1, 15, 8, 0, 10, tzinfo=UTC),
        )
        provider.script("ok")
        clock.now += 700
        lcm._models._asked = None  # the provider's rest is over by its own clock, too
        while lcm.worker().step():
            pass
        assert not [each for each in lcm.status().reasons if each.what == "pending"]


def test_what_nobody_works_on_is_told_after_a_quarter_of_an_hour(tmp_path: Path, clock: Clock) -> None:
    with open_at(str(tmp_path / "lcm.db"), clock) as lcm:
        lcm.conversation("k").after_turn(turns(12), window=WINDOW)
        clock.now += 899
        assert lcm.status().verdict == "ok"
        clock.now += 1
        (reason,) = lcm.status().reasons
        assert (reason.what, reason.command) == ("unattended", "lcm worker")


def test_work_that_fails_is_told_with_its_failure(tmp_path: Path, clock: Clock) -> None:
    with open_at(str(tmp_path / "lcm.db"), clock) as lcm:
        lcm.conversation("k").after_turn(turns(12), window=WINDOW)
        debt = lcm._store.debts.claim(
            "w", now=int(NOW * 1e6), idle_before=int(NOW * 1e6), lease_until=int(NOW * 1e6) + 60, tries=0
        )
        assert debt is not None
        assert lcm.status().running == 1
        lcm._store.debts.settle(
            debt, pending=True, attempts=1, next_at=int((NOW + 300) * 1e6), stop="failed", failure="the disk is gone"
        )
        (reason,) = lcm.status().reasons
        assert (reason.severity, reason.what) == ("warning", "failed")
        assert "it failed (the disk is gone); next attempt 2027-01-15 08:05:00 UTC" in reason.text


def test_refused_credentials_and_too_many_calls_are_told_until_when(tmp_path: Path, clock: Clock) -> None:
    with open_at(str(tmp_path / "lcm.db"), clock) as lcm:
        lcm.conversation("k").ingest(turns(1))
        guards = Guards(lcm._store, lcm.settings, "k", "openai/gpt", clock)
        guards.note_refusal()
        assert [(each.severity, each.what) for each in lcm.status().reasons] == [("warning", "credentials")]
        for _ in range(4):
            guards.note_refusal()
        spent = {"calls": [], "until": NOW + 60}
        with lcm._store.transaction():
            lcm._store.state.set_guard("spend:k", spent, 0)
        found = lcm.status()
        assert found.verdict == "degraded"
        assert [each.text for each in found.reasons] == [
            "openai/gpt refused the credentials too often; no calls until 2027-01-15 08:30:00 UTC. Check its key.",
            "k made too many calls to a model; no more calls until 2027-01-15 08:01:00 UTC.",
        ]
        clock.now += 3600
        assert lcm.status().verdict == "ok"


def test_a_full_disk_is_told_before_it_refuses_and_while_it_does(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def room(free: int) -> Callable[[object], object]:
        return lambda path: shutil._ntuple_diskusage(10**12, 10**12 - free, free)

    with Lossless.open(tmp_path / "lcm.db") as lcm:
        lcm.conversation("k").ingest(turns(1))
        monkeypatch.setattr(shutil, "disk_usage", room(64_000_000))
        assert lcm.status().verdict == "ok"
        monkeypatch.setattr(shutil, "disk_usage", room(63_999_999))
        (reason,) = lcm.status().reasons
        assert (reason.severity, reason.what) == ("degraded", "full")
        assert reason.text.startswith("The disk is nearly full: 64 MB free for ")


def test_a_database_that_cannot_be_written_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with Lossless.open(tmp_path / "lcm.db") as lcm:
        lcm.conversation("k").ingest(turns(1))
        monkeypatch.setattr(os, "access", lambda path, mode: mode == os.R_OK)
        (reason,) = lcm.status().reasons
        assert (reason.severity, reason.what) == ("degraded", "read-only")
        assert "is not writable: nothing can be stored" in reason.text


def test_nothing_is_well_by_default(tmp_path: Path, clock: Clock) -> None:
    with open_at(str(tmp_path / "lcm.db"), clock) as lcm:
        assert lcm.status().verdict == "empty"
        lcm.conversation("k").ingest([Message.user("hello")])
        clock.now += 86_399
        assert lcm.status().verdict == "ok"
        clock.now += 1
        assert lcm.status().verdict == "quiet"
        assert any("live agents" in each for each in lcm.status().not_assessed)


def test_silence_is_told_unless_a_transcript_that_is_read_was_written_to_lately(
    followed: tuple[Lossless, Conversation, Session], clock: Clock
) -> None:
    lcm, chat, session = followed
    lcm.conversation("live").ingest([Message.user("hello")])
    clock.now += 60 * 86_400
    assert lcm.status().verdict == "quiet", "an old transcript vouches for nobody"
    session.write([{"type": "custom", "customType": "idle"}])
    touch(session, clock.now - 3_600)
    assert lcm.status().verdict == "degraded"
    chat.bootstrap(session.path)
    assert lcm.status().verdict == "ok", "what the host writes is read, and it holds no message"
    clock.now += 86_400
    assert lcm.status().verdict == "quiet"


def test_to_forget_or_to_copy_a_message_is_no_ingest(database: str, tmp_path: Path, clock: Clock) -> None:
    with open_at(database, clock, large_files_dir=str(tmp_path / "files")) as lcm:
        old, chat = lcm.conversation("old"), lcm.conversation("k")
        old.ingest(turns(20))
        old.compact(10 * WINDOW, force=True)
        clock.now += 3_600
        chat.ingest([Message.user("hello"), Message.user("secret")])
        came = lcm.status().last_ingest_at
        assert came == datetime.fromtimestamp(NOW + 3_600, UTC)
        clock.now += 30 * 86_400
        assert lcm.transplant("old", "k", apply=True).messages
        chat.forget(chat.messages()[1].id, apply=True)
        assert (lcm.status().verdict, lcm.status().last_ingest_at) == ("quiet", came)
        chat.ingest([Message.user("again")])
        assert lcm.status().last_ingest_at == datetime.fromtimestamp(clock.now, UTC)


@pytest.mark.parametrize("ask", [Lossless.status, Lossless.stats])
def test_figures_are_of_one_moment(
    database: str, clock: Clock, monkeypatch: pytest.MonkeyPatch, ask: Callable[[Lossless], Any]
) -> None:
    with open_at(database, clock) as lcm, open_at(database, clock) as other:
        chat = lcm.conversation("k")
        chat.ingest(turns(20))
        said = sum(each.tokens for each in chat.messages())
        depths = lcm._store.figures.depth_rows

        def meanwhile(*given: Any, **asked: Any) -> Any:
            other.conversation("k").compact(WINDOW)
            return depths(*given, **asked)

        monkeypatch.setattr(lcm._store.figures, "depth_rows", meanwhile)
        held = ask(lcm).holdings
        assert (held.message_tokens, held.source_tokens) == (said, 0)


def test_a_reader_waits_for_nobody_who_writes(tmp_path: Path) -> None:
    """In the journal that is written ahead, even who locks all others out locks out no reader."""
    path = str(tmp_path / "lcm.db")
    with Lossless.open(path) as lcm:
        lcm.conversation("k").ingest([Message.user("hello")])
        with closing(apsw.Connection(path)) as writer:
            writer.execute("BEGIN EXCLUSIVE")
            started = time.monotonic()
            assert lcm.status().verdict == "ok"
            with Lossless.open(path, read_only=True) as late:
                assert (late.status().messages, late.stats().conversations) == (1, 1)
            assert time.monotonic() - started < 5


def test_the_figures_add_up_and_source_tokens_are_those_below_leaves(database: str, clock: Clock) -> None:
    with open_at(database, clock) as lcm:
        chat = lcm.conversation("k")
        chat.ingest(turns(120))
        chat.compact(WINDOW)
        lcm.conversation("raw").ingest(turns(3))
        held = lcm.status().holdings
        summaries = chat.summaries()
        leaves = [each for each in summaries if each.depth == 0]
        assert held.source_tokens == sum(each.source_tokens for each in leaves)
        said = sum(each.tokens for each in chat.messages()) + sum(
            each.tokens for each in lcm.conversation("raw").messages()
        )
        assert held.message_tokens == said
        assert held.coverage == held.source_tokens / said
        assert [each.depth for each in held.depths] == sorted({each.depth for each in summaries})
        assert sum(each.tokens for each in held.depths) == sum(each.tokens for each in summaries)
        assert held.health.provisional + held.health.cut == len(summaries)
        assert held.context_items == len(chat.context().items) + 6
        own = lcm.status("k").conversation
        assert own is not None
        shown = [each for each in chat.context().items if each in summaries]
        assert own.holdings.ratio == max(1, round(sum(each.source_tokens for each in shown) / chat.context().tokens))
        assert (own.holdings.messages, own.holdings.message_tokens) == (
            240,
            sum(each.tokens for each in chat.messages()),
        )
        alone = lcm.status("raw").conversation
        assert alone is not None
        assert (alone.holdings.ratio, alone.holdings.coverage, alone.budget) == (None, 0.0, 128_000)
        chat.new(retain_depth=0)
        assert lcm.status().holdings.message_tokens == said, "what was set aside is still stored"


def test_another_owners_memory_is_none_of_ours(database: str) -> None:
    with Lossless.open(database) as lcm, Lossless.open(database, owner="else") as other:
        other.conversation("k").ingest(turns(5))
        with other._store.transaction():
            other._store.state.set_guard("breaker:m", {"failures": 3, "until": 0}, 0)
        found = lcm.status()
        assert (found.verdict, found.messages, found.holdings.message_tokens, found.calls.holds) == ("empty", 0, 0, ())
        assert lcm.stats().roles == ()


def test_a_context_that_outgrows_its_budget_is_told(tmp_path: Path) -> None:
    settings = Settings(max_assembly_token_budget=1_000)
    with Lossless.open(tmp_path / "lcm.db", settings=settings) as lcm:
        chat = lcm.conversation("k")
        text = Message.user("word " * 600)
        chat.ingest([text])
        (reason,) = lcm.status("k").reasons
        assert (reason.severity, reason.what) == ("warning", "crowded")
        chat.ingest([text])
        (reason,) = lcm.status("k").reasons
        assert (reason.severity, reason.command) == ("degraded", "lcm compact k --window 1000")
        assert [each.what for each in lcm.status().reasons] == ["uncompacted"]


def test_what_was_imported_and_never_compacted_is_reported(tmp_path: Path) -> None:
    with Lossless.open(tmp_path / "lcm.db") as lcm:
        lcm.conversation("k").ingest([Message.user("word " * 10_000) for _ in range(20)])
        (reason,) = lcm.status().reasons
        assert (reason.severity, reason.what, reason.command) == ("warning", "uncompacted", "lcm compact k")
        assert [(each.check, each.severity) for each in lcm.doctor().at_least("warn")] == [("C06", "warn")]


def test_a_context_is_judge_by_the_window_that_its_host_named_last(tmp_path: Path) -> None:
    with Lossless.open(tmp_path / "lcm.db") as lcm:
        chat = lcm.conversation("k")
        chat.ingest([Message.user("word " * 600) for _ in range(40)])
        chat.assemble(9_000)
        chat.ingest([Message.user("hello")])
        (reason,) = lcm.status().reasons
        assert (reason.severity, reason.what, reason.command) == ("degraded", "crowded", "lcm compact k --window 9000")
        assert [each.check for each in lcm.doctor().at_least("warn")] == ["C06"]
        chat.assemble(200_000)
        chat.ingest([Message.user("hello")])
        assert lcm.status().verdict == "ok"
        assert lcm.doctor().at_least("warn") == ()


def test_summaries_that_were_cut_or_written_without_the_model_are_a_warning(tmp_path: Path) -> None:
    path = tmp_path / "lcm.db"
    small = Settings(leaf_chunk_tokens=1_000, leaf_target_tokens=200, fresh_tail_count=4)
    with Lossless.open(path, summarizer="extractive", settings=small) as lcm:
        chat = lcm.conversation("k")
        chat.ingest(turns(120))
        chat.compact(WINDOW, force=True)
        assert lcm.status().verdict == "ok", "no model is configured: it cannot be otherwise"
        with lcm._store.transaction():
            inside(lcm).run("UPDATE summary SET level = 'cut' WHERE id = (SELECT min(id) FROM summary)")
        assert [each.what for each in lcm.status().reasons] == ["cut"]
        assert [each.check for each in lcm.doctor().at_least("warn")] == ["S17"]
    with Lossless.open(path, summarizer=lambda request: "words") as lcm:
        assert [each.what for each in lcm.status().reasons] == ["cut", "provisional"]
        assert {each.check for each in lcm.doctor().at_least("warn")} == {"S17"}


def test_a_context_that_was_too_large_for_a_window_is_not_too_large_for_the_next_one(
    database: str, clock: Clock
) -> None:
    with open_at(database, clock) as lcm:
        chat, long = lcm.conversation("k"), "lorem ipsum " * 300
        chat.after_turn([Message.user(long), Message.assistant(long)], window=1_000)
        clock.now += 60
        lcm.drain()
        assert [each.what for each in lcm.status().reasons] == ["crowded"]
        chat.after_turn([Message.user("hello")], window=200_000)
        assert lcm.status().verdict == "ok"
        clock.now += 60
        lcm.drain()
        debt = lcm._store.debts.get(1)
        assert debt is not None
        assert (debt.pending, debt.window_tokens) == (False, 200_000)
        chat.after_turn([Message.user("again")], window=200_000)
        assert lcm._store.debts.get(1) == debt, "nothing is written for a window that stays"


def test_what_is_neither_shown_nor_covered_is_an_event_and_degraded_until_it_is_compacted(
    database: str, clock: Clock
) -> None:
    events: list[Event] = []
    settings = structs.replace(SMALL, proactive_threshold_compaction_mode="inline")
    with Lossless.open(database, settings=settings, summarizer=short, clock=clock, on_event=events.append) as lcm:
        chat = lcm.conversation("my chat")
        chat.ingest(turns(60))
        hidden = [chat.assemble(8_000, reserve=5_000).uncovered for _ in range(3)]
        assert hidden[0] > 1_000
        assert [each.name for each in events] == ["context.uncovered"]
        assert events[0].facts["tokens"] == hidden[0]
        chat.ingest(turns(1, 60))
        found = lcm.status()
        reason = next(each for each in found.reasons if each.what == "uncovered")
        assert (found.verdict, reason.severity) == ("degraded", "degraded")
        assert f"{hidden[0]:,} tokens of my chat" in reason.text
        assert reason.command == "lcm compact 'my chat' --window 8000"
        clock.now += 1
        chat.compact(8_000)
        assert not [each for each in lcm.status().reasons if each.what == "uncovered"]
        assert chat.assemble(8_000, reserve=5_000).uncovered == 0
        chat.ingest(turns(40, 100))
        chat.assemble(8_000, reserve=5_000)
        assert [each.name for each in events].count("context.uncovered") == 2


def test_every_reason_is_told_the_worst_first() -> None:
    now = datetime(2026, 5, 1, tzinfo=UTC)
    old = now - timedelta(days=3)
    behind = LaggingTranscript("/t/a b.jsonl", "k", "behind", 2_000_000, 7_300.0, old, now)
    facts = Status("1", "db", 1, "o", 1, 1, 1, old, following=TranscriptLag(2, 2, behind=1, bytes=9, lagging=(behind,)))
    debts = [Debt("k", "waiting", old), Debt("m", "waiting", old, "auth", window=10), Debt("n", "waiting", old, "auth")]
    found = judge(facts, debts, now)
    assert [(each.severity, each.what) for each in found.reasons] == [
        ("degraded", "behind"),
        ("degraded", "credentials"),
        ("warning", "unattended"),
    ]
    assert found.reasons[0].command == "lcm import '/t/a b.jsonl' --key k --apply"
    assert "for 2 h; last read 3 days ago" in found.reasons[0].text
    assert found.reasons[1].text.endswith("the provider refused the credentials, and 1 other.")


@pytest.mark.parametrize(
    ("seconds", "told"),
    [(0, "0 s"), (119, "119 s"), (120, "2 min"), (7_199, "119 min"), (7_200, "2 h"), (172_800, "2 days")],
)
def test_a_length_of_time_is_told_roughly(seconds: float, told: str) -> None:
    assert span(seconds) == told


def test_stats_tell_what_was_stored_shown_and_spent(database: str, clock: Clock) -> None:
    model = Counting()
    with open_at(database, clock, model) as lcm:
        chat = lcm.conversation("k")
        chat.ingest([*turns(60), Message.assistant("Yes.")])
        whole = sum(each.tokens for each in chat.messages())
        chat.compact(WINDOW)
        shown = chat.assemble(WINDOW).tokens
        clock.now += 86_400
        chat.ingest([Message.user("tomorrow")])
        found = lcm.stats()
        assert found.step == found.days_step == 1
        assert {each.role: each.messages for each in found.roles} == {"user": 61, "assistant": 61}
        assert sum(each.tokens for each in found.roles) == found.holdings.message_tokens
        assert [each.messages for each in found.days[-2:]] == [121, 1]
        assert (found.turns.turns, found.turns.shown_tokens, found.turns.whole_tokens) == (1, shown, whole)
        assert found.turns.saved_tokens == whole - shown > 0
        (spent,) = found.models
        assert (spent.model, spent.texts, spent.cost, found.cost) == ("Counting", model.calls, None, None)
        assert spent.tokens_read >= found.holdings.source_tokens
        late = lcm.stats("k", since=datetime.fromtimestamp(NOW + 3600, UTC))
        assert ([each.messages for each in late.roles], late.models, late.turns.turns) == ([1], (), 0)


def test_money_is_told_where_a_price_is_known(tmp_path: Path, clock: Clock) -> None:
    with open_at(str(tmp_path / "lcm.db"), clock) as lcm:
        chat = lcm.conversation("k")
        chat.ingest(turns(60))
        chat.compact(WINDOW)
        assert lcm.stats().cost == 0.0, "no model was asked"
        store = lcm._store
        with store.transaction():
            store.run("UPDATE summary SET model = 'anthropic/claude-haiku-4-5'")
        (spent,) = lcm.stats().models
        assert spent.cost == round((spent.tokens_read + 5 * spent.tokens_written) / 1_000_000, 6)


def test_messages_are_counted_all_or_evenly_spread() -> None:
    few = [(1, 1, 3), (2, 1, 0), (3, 5, 6)]
    assert spread(few) == (1, [SPAN + 1, SPAN + 2, SPAN + 3, 3 * SPAN + 5, 3 * SPAN + 6])
    step, ids = spread([(number, 1, 1_000) for number in range(1, 201)], most=10_000)
    assert (step, len(ids), len(set(ids))) == (20, 10_000, 10_000)
    assert all(1 <= each % SPAN <= 1_000 for each in ids)
    assert all(40 <= sum(each // SPAN == number for each in ids) <= 60 for number in (1, 100, 200))


def test_a_large_history_is_estimated(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, clock: Clock) -> None:
    monkeypatch.setattr("lossless.engine.inspect.stats.spread.__defaults__", (100,))
    with open_at(str(tmp_path / "lcm.db"), clock) as lcm:
        lcm.conversation("k").ingest(
            structs.replace(
                Message.user(f"message {number}"), at=datetime.fromtimestamp(NOW - 3600 * (400 - number), UTC)
            )
            for number in range(400)
        )
        found = lcm.stats()
        assert (found.step, found.roles[0].messages) == (4, 400)
        assert found.days_step == 4
        assert sum(each.messages for each in found.days) == pytest.approx(14 * 24 - 16, rel=0.1)


def test_what_is_switched_off_is_told_and_what_is_not_to_be_read_is_not_late(
    tmp_path: Path,
) -> None:
    path, session = str(tmp_path / "lcm.db"), Session(tmp_path / "s1.jsonl")
    session.says(user("one"))
    with Lossless.open(path) as lcm:
        lcm.conversation("agent:main:main").bootstrap(session.path)
    session.says(user("two"))
    with Lossless.open(path, settings=Settings(enabled=False), read_only=True) as lcm:
        found = lcm.status()
        assert [(each.severity, each.what) for each in found.reasons] == [("warning", "disabled")]
    ignored = Settings(ignore_session_patterns=("agent:main:*",))
    with Lossless.open(path, settings=ignored, read_only=True) as lcm:
        assert lcm.status().following.behind == 0
    with Lossless.open(path, read_only=True) as lcm:
        assert lcm.status().following.behind == 1
