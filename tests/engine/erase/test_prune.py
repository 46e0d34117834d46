"""Conversations that fell silent are told, exported, and removed in batches; whatever stops it, none of their words is lost."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path

import anyio
import pytest
from msgspec import structs

from lossless import AsyncLossless, Lossless, Message, Settings
from lossless.engine.erase.prune import PruneRequest, apply, cutoff
from lossless.engine.shared.file_store import Files
from lossless.errors import ContextMoved, FileUnavailable, InvalidInput
from lossless.model import Pruning
from lossless.store.rows.types import ConversationRow, ItemRow, NewSummary
from lossless.store.sqlite.store import SQLiteStore
from tests.histories import opened

NOW = datetime(2026, 9, 21, 12, tzinfo=UTC)
LARGE = "A large one of {}, line after line.\n" * 600


@pytest.fixture
def lcm(database: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Lossless]:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    settings = Settings(large_file_token_threshold=1000)
    with Lossless.open(database, settings=settings, clock=NOW.timestamp) as lcm:
        yield lcm


def said(lcm: Lossless, key: str, *dates: str, archived: bool = True) -> None:
    """A conversation with a message of each date, and a large one of the first."""
    chat = lcm.conversation(key)
    chat.ingest([Message.user(LARGE.replace("{}", key), event_id="large", at=datetime.fromisoformat(dates[0]))])
    chat.ingest(
        [
            Message.user(f"{key} on {day}", event_id=f"{n}", at=datetime.fromisoformat(day))
            for n, day in enumerate(dates)
        ]
    )
    if archived:
        chat.end("deleted")


def keys(lcm: Lossless) -> set[str]:
    return {each.key for each in lcm.conversations()}


def some(lcm: Lossless) -> None:
    said(lcm, "older", "2024-01-01T00:00Z")
    said(lcm, "old", "2024-01-01T00:00Z", "2025-01-01T00:00Z")
    said(lcm, "active", "2023-01-01T00:00Z", archived=False)
    said(lcm, "fresh", "2023-01-01T00:00Z", "2026-09-20T00:00Z")
    # What was copied behind the newest message is older than it, and does not make the conversation old.
    said(lcm, "mixed", "2026-09-20T00:00Z", "2023-01-01T00:00Z")


def test_the_silent_ones_are_told_oldest_first_and_nothing_is_changed(lcm: Lossless) -> None:
    some(lcm)
    told = lcm.prune("6mo")
    assert [(each.key, each.messages, each.newest_at.year) for each in told.oldest] == [
        ("older", 2, 2024),
        ("old", 3, 2025),
    ]
    assert (told.conversations, told.messages, told.applied) == (2, 5, False)
    assert [each.key for each in lcm.prune("6mo", include_active=True).oldest] == ["active", "older", "old"]
    assert lcm.prune("2024-06-01").conversations == 1
    assert keys(lcm) == {"older", "old", "active", "fresh", "mixed"}


def test_they_are_exported_and_gone_and_an_import_brings_them_back(lcm: Lossless, tmp_path: Path) -> None:
    some(lcm)
    before = {each.key: each for each in lcm.conversations()}
    done = lcm.prune("6mo", apply=True, archive=tmp_path / "out.zip", vacuum=True)
    assert (done.conversations, done.messages, done.files, done.changed) == (2, 5, 2, 0)
    assert done.bytes > 20_000
    assert keys(lcm) == {"active", "fresh", "mixed"}
    assert len([path for path in lcm._files.root.rglob("*") if path.is_file()]) == 3
    assert not lcm.grep("older on")
    assert lcm.doctor().at_least("warn") == ()
    assert lcm.prune("6mo", apply=True).applied is False

    report = lcm.import_(tmp_path / "out.zip", apply=True)
    assert (report.errors, report.messages) == ((), 5)
    assert keys(lcm) == set(before)  # and nothing that had stayed came in a second time
    assert len(lcm.conversations()) == len(before)
    assert lcm.doctor().at_least("warn") == ()


def test_it_goes_batch_by_batch_and_cut_off_in_between_the_rest_is_found_again(lcm: Lossless, tmp_path: Path) -> None:
    for n in range(5):
        said(lcm, f"k{n}", f"2024-01-0{n + 1}T00:00Z")
    steps = []

    def stop(done: int, total: int) -> None:
        steps.append((done, total))
        if done == 4:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        lcm.prune("1y", apply=True, batch=2, archive=tmp_path / "first.zip", progress=stop)
    assert steps == [(2, 5), (4, 5)]
    assert keys(lcm) == {"k4"}
    with opened(tmp_path / "elsewhere.db", tmp_path / "elsewhere") as other:
        other.import_(tmp_path / "first.zip", apply=True)
        assert keys(other) == {f"k{n}" for n in range(5)}
        assert len(other.grep("line after line", limit=200)) == 5
    done = lcm.prune("1y", apply=True, batch=2, archive=tmp_path / "second.zip")
    assert done.conversations == 1
    assert keys(lcm) == set()


def test_what_is_written_to_meanwhile_stays(database: str, lcm: Lossless, tmp_path: Path) -> None:
    for n in range(3):
        said(lcm, f"k{n}", "2024-01-01T00:00Z", archived=False)

    class Meddling(Files):
        def read_all(self, sha256: str) -> bytes:
            late = datetime(2024, 1, 1, tzinfo=UTC)  # by its own time the message is as old as the others
            other.conversation("k1").ingest([Message.user("late", event_id="late", at=late)])
            return super().read_all(sha256)

    request = PruneRequest(int(NOW.timestamp() * 1_000_000), active=True)
    runtime = structs.replace(lcm._runtime, files=Meddling(lcm._files.root))
    with Lossless.open(database, settings=lcm.settings) as other:
        done = apply(runtime, request, tmp_path / "out.zip", lambda done, total: None)
    assert (done.conversations, done.changed) == (2, 1)
    assert keys(lcm) == {"k1"}
    assert lcm.conversation("k1").messages()[-1].text == "late"


class Interrupting(Files):
    """A directory that somebody uses while an archive is written."""

    meanwhile: Callable[[], object]

    def read_all(self, sha256: str) -> bytes:
        self.meanwhile()
        return super().read_all(sha256)


@pytest.mark.parametrize("what", ["another text", "a pin", "another name", "a sub-agent", "a text of a summary"])
def test_whatever_comes_after_the_export_keeps_its_conversation(
    database: str, lcm: Lossless, tmp_path: Path, what: str
) -> None:
    said(lcm, "k", "2024-01-01T00:00Z", archived=False)
    said(lcm, "gone", "2024-01-01T00:00Z")
    chat = lcm.conversation("k")
    lcm._store.context.replace(*_one_summary(lcm))

    def meanwhile() -> None:
        with Lossless.open(database, settings=lcm.settings, clock=lambda: NOW.timestamp() + 5) as other:
            host, store = other.conversation("k"), other._store
            if what == "another text":
                host.ingest([Message.user("quite another", event_id="0", at=datetime(2024, 1, 1, tzinfo=UTC))])
            elif what == "a pin":
                host.pin("Never on Fridays.")
            elif what == "another name":
                with store.transaction():
                    store.messages.add_aliases(chat.status().id, {"also": 1})
            elif what == "a sub-agent":
                with store.transaction():
                    store.conversations.start("child", None, 1, parent=chat.status().id)
            else:
                (old,) = store.summaries.read(chat.status().id)
                store.summaries.revise(chat.status().id, old, _summary("told anew"))

    files = Interrupting(lcm._files.root)
    files.meanwhile = meanwhile
    request = PruneRequest(int(NOW.timestamp() * 1_000_000), active=True)
    runtime = structs.replace(lcm._runtime, files=files)
    done = apply(runtime, request, tmp_path / "out.zip", lambda done, total: None)
    assert (done.conversations, done.changed) == (1, 1)
    assert "gone" not in keys(lcm)
    assert lcm.import_(tmp_path / "out.zip", apply=True).messages == 2  # of the one that went
    assert len(lcm._store.conversations.under_key("k")) == 1


def _summary(text: str) -> NewSummary:
    return NewSummary("sum_1", 0, text, 5, None, None, 0, 10, "[]", "a model", "normal", None, None, 1)


def _one_summary(lcm: Lossless) -> tuple[ConversationRow, list[ItemRow], NewSummary]:
    row = lcm._store.conversations.active("k")
    assert row
    return row, lcm._store.context.items(row.id)[:1], _summary("told")


def test_families_go_together_or_stay_and_come_back_as_families(lcm: Lossless, tmp_path: Path) -> None:
    for key in ("old", "alive"):
        said(lcm, key, "2024-01-01T00:00Z", archived=False)
        lcm.conversation(key).reset()
    lcm.conversation("old:child", parent="old").ingest([Message.user("Mine.", event_id="1")])
    lcm._clock = lambda: NOW.timestamp() + 40 * 86_400
    said(lcm, "alive", "2026-10-30T00:00Z", archived=False)

    def relations() -> set[tuple[str, str | None, str | None]]:
        rows = {row.id: row for row in lcm._store.conversations.of_owner()}
        names = {each: f"{row.key} {row.messages}" for each, row in rows.items()}
        return {(names[row.id], names.get(row.parent or 0), names.get(row.continues or 0)) for row in rows.values()}

    before = relations()
    assert before == {
        ("old 2", None, None),
        ("old 0", None, "old 2"),
        ("old:child 1", "old 0", None),
        ("alive 2", None, None),
        ("alive 2", None, "alive 2"),
    }
    told = lcm.prune("30d")
    assert (told.conversations, told.related) == (2, 0)
    done = lcm.prune("30d", include_active=True, apply=True, archive=tmp_path / "out.zip", batch=1)
    assert (done.conversations, done.related, keys(lcm)) == (4, 0, {"alive"})
    lcm.import_(tmp_path / "out.zip", apply=True)
    # What stayed no longer says that it continues something.
    assert relations() == before - {("alive 2", None, "alive 2")}


def test_a_sub_agents_conversation_stays_with_the_one_above_it(lcm: Lossless) -> None:
    said(lcm, "above", "2026-10-30T00:00Z", archived=False)
    lcm.conversation("above:child", parent="above").ingest([Message.user("Mine.", event_id="1")])
    lcm._clock = lambda: NOW.timestamp() + 40 * 86_400
    said(lcm, "above", "2026-10-31T00:00Z", archived=False)
    told = lcm.prune("30d", include_active=True)
    assert (told.conversations, told.related) == (0, 1)


def test_without_their_payloads_none_goes_unless_somebody_says_so(lcm: Lossless, tmp_path: Path) -> None:
    said(lcm, "old", "2024-01-01T00:00Z")
    lcm._files.root.rename(tmp_path / "away")
    archive = tmp_path / "out.zip"
    with pytest.raises(FileUnavailable, match=r"1 payloads .*\(--without-files\)"):
        lcm.prune("1y", apply=True, archive=archive)
    assert not archive.exists()
    assert keys(lcm) == {"old"}
    assert lcm.prune("1y", apply=True, archive=archive, without_files=True).conversations == 1


def test_payloads_that_another_database_may_need_stay(database: str, lcm: Lossless, tmp_path: Path) -> None:
    shared = structs.replace(lcm.settings, large_files_dir=str(tmp_path / "shared"))
    with (
        Lossless.open(database, settings=shared, clock=NOW.timestamp) as one,
        Lossless.open(tmp_path / "another.db", settings=shared, clock=NOW.timestamp) as other,
    ):
        for each in (one, other):
            said(each, "old", "2024-01-01T00:00Z")
        done = one.prune("1y", apply=True, archive=tmp_path / "out.zip")
        assert (done.conversations, done.files, done.doubtful) == (1, 0, 1)
        assert other.doctor(checks=["F01"]).findings == ()


def test_a_number_is_never_given_twice(lcm: Lossless, tmp_path: Path) -> None:
    said(lcm, "stays", "2026-09-20T00:00Z")
    said(lcm, "old", "2024-01-01T00:00Z")
    highest = lcm._store.conversations.under_key("old")[0].id
    lcm.prune("1y", apply=True, archive=tmp_path / "out.zip")
    said(lcm, "new", "2026-09-20T00:00Z")
    lcm.import_(tmp_path / "out.zip", apply=True)
    assert min(lcm._store.conversations.under_key(key)[0].id for key in ("new", "old")) > highest
    lcm.prune("1y", apply=True, archive=tmp_path / "again.zip")
    highest = lcm._store.new_ids("conversation", 1)[0]
    lcm.migrate(tmp_path / "moved.db")
    with Lossless.open(tmp_path / "moved.db", settings=Settings()) as moved:
        assert moved._store.new_ids("conversation", 1)[0] >= highest


def test_a_merge_whose_source_is_gone_cannot_be_undone(lcm: Lossless) -> None:
    store = lcm._store
    said(lcm, "k", "2024-01-01T00:00Z")
    (source,) = store.conversations.under_key("k")
    said(lcm, "k", "2026-09-20T00:00Z", archived=False)
    target = store.conversations.active("k")
    assert target
    with store.transaction():
        plan = {"target": target.id, "sources": [source.id]}
        merged = store.operations.record(target.id, "merge", 1, plan, "joined")
        store.integrity.remove_conversation(source.id)
    with pytest.raises(ContextMoved, match="was removed since"):
        lcm.undo(merged)


@pytest.mark.parametrize("database", ["sqlite"], indirect=True)
def test_empty_conversations_are_as_old_as_their_beginning(lcm: Lossless) -> None:
    lcm.conversation("k").reset()
    assert lcm.prune("2026-09-21", include_active=True).conversations == 0
    lcm._clock = lambda: NOW.timestamp() + 86_400
    assert lcm.prune("2026-09-22", include_active=True).conversations == 1


@pytest.mark.parametrize("database", ["sqlite"], indirect=True)
def test_another_owner_s_are_not_touched(database: str, lcm: Lossless, tmp_path: Path) -> None:
    with Lossless.open(database, settings=lcm.settings, owner="another", clock=NOW.timestamp) as other:
        said(other, "theirs", "2020-01-01T00:00Z")
        assert lcm.prune("1y", include_active=True).conversations == 0
        assert other.prune("1y").conversations == 1


@pytest.mark.parametrize(
    ("before", "hint"),
    [
        ("", "Write a date"),
        ("90", "Write a date"),
        ("-3d", "Write a date"),
        ("3 fortnights", "Write a date"),
        ("2026-13-01", "Write a date"),
        ("999999y", "longer ago than any time"),
        ("0d", "Write now, or 1d or more"),
        ("6m", "Write 6min or 6mo"),
        ("2030-01-01", "not in the past. Write 90d, 6mo, 1y or a past date"),
        ("now", "not in the past"),
    ],
)
def test_a_time_that_is_none_or_not_past_is_refused(before: str, hint: str) -> None:
    with pytest.raises(InvalidInput, match=hint):
        cutoff(before, NOW, UTC)


@pytest.mark.parametrize(
    ("before", "day"),
    [
        ("90d", "2026-06-23"),
        ("12w", "2026-06-29"),
        ("6 months", "2026-03-25"),
        ("1Y", "2025-09-21"),
        ("2026-01-31", "2026-01-31"),
    ],
)
def test_a_time_is_an_age_or_a_date(before: str, day: str) -> None:
    assert f"{cutoff(before, NOW, UTC):%Y-%m-%d}" == day


def test_the_last_message_is_looked_up_and_the_others_only_of_silent_ones(tmp_path: Path) -> None:
    store = SQLiteStore(tmp_path / "lcm.db")
    seen: list[str] = []

    def trace(_: object, sql: str, __: object) -> bool:
        seen.append(sql)
        return True

    store._writer.exec_trace = trace
    with store.transaction():
        store.housekeeping.idle_since(1, active=True)
        statement = next(sql for sql in seen if "AS newest" in sql)
        plan = store.all(f"EXPLAIN QUERY PLAN {statement}", owner="", active=1, before=1)
    told = [row[3] for row in plan]
    assert not [line for line in told if line.startswith("SCAN m")]
    assert [line for line in told if line.startswith("SEARCH m USING INTEGER PRIMARY KEY")]
    store.close()


def test_it_can_be_awaited(tmp_path: Path) -> None:
    async def told() -> Pruning:
        async with AsyncLossless.open(tmp_path / "lcm.db", settings=Settings()) as lcm:
            return await lcm.prune("1y")

    assert anyio.run(told).conversations == 0
