"""A database that was lived in: every table has rows, of two owners."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path

from msgspec import structs

from lossless import Lossless, Message, Opaque, Settings, SummaryRequest
from lossless.store.rows.types import SPAN, GrantRow, NewManifest, NewSummary, ReadRow

SMALL = Settings(
    fresh_tail_count=2,
    leaf_chunk_tokens=200,
    leaf_target_tokens=60,
    condensed_target_tokens=60,
    leaf_min_fanout=2,
    condensed_min_fanout=2,
    incremental_max_depth=-1,
    max_sweep_iterations=200,
    large_file_token_threshold=1000,
    summary_max_calls_per_window=10_000,
)


def short(request: SummaryRequest) -> str:
    line = next(line for line in request.source.splitlines() if line.strip() and not line.startswith("["))
    return f"{line[:40]}\nExpand for details about: the rest"


@contextmanager
def opened(database: str | Path, files: Path, owner: str = "default") -> Iterator[Lossless]:
    """With a clock that goes on by itself."""
    ticks = count(1_790_000_000)
    settings = structs.replace(SMALL, large_files_dir=str(files))
    with Lossless.open(
        database, settings=settings, owner=owner, summarizer=short, clock=lambda: float(next(ticks))
    ) as lcm:
        yield lcm


def lived_in(database: str | Path, files: Path, turns: int = 30) -> None:
    for owner in ("default", "another"):
        with opened(database, files, owner) as lcm:
            _live(lcm, turns)


def _live(lcm: Lossless, turns: int) -> None:
    owner, store = lcm._store.owner, lcm._store
    chat = lcm.conversation("agent:main:main", "session-1")
    chat.ingest([Message.user(f"{owner} {n}: " + "some words " * 25, event_id=f"{owner}-{n}") for n in range(turns)])
    chat.ingest([Message.user("the same event in another dress", event_id=f"{owner}-0")])
    chat.ingest(
        [Message.user("a\0b \ud83d apart \ude00", event_id="e" * 300), Message("narrator", (Opaque("x", 2**70),))]
    )
    chat.ingest([Message.user("A large one. " * 1000)])
    chat.compact(window=500, force=True)
    chat.pin("what always counts")
    chat.pin(chat.messages()[0].id)
    chat.new(retain_depth=1)
    lcm.conversation("agent:main:main", "session-2").ingest([Message.assistant("after the new beginning")])
    row = store.conversations.active("agent:main:main")
    assert row is not None
    with store.transaction():
        store.messages.add_aliases(row.id, {"another name": 3, "yet another": 3})
        store.context.bury(row.id, [row.next_seq - 1], "forgotten", 1_790_000_500_000_000)
        copied = ("conversation_id", "first_seq", "last_seq", "place", "at")
        store.tables.take(
            "transplant", copied, [(row.id, row.next_seq - 1, row.next_seq - 1, 0, 1_790_000_500_000_001)]
        )
        store.debts.record(row.id, 1_000, 10, "a model", 1_790_000_501_000_000)
        store.state.set_cursor(row.id, "transcript", {"offset": 12, "name": "数据"}, 1_790_000_502_000_000)
        store.state.set_guard("spend", [1, 2], 3)
        store.manifests.add(row.id, [NewManifest(1, 2, 3, "prefix", "reason", b"\0\xff")], 10)
        store.texts.add_vectors("a model", [(row.id * SPAN + 1, b"\x01\x80")])
        store.grants.add(GrantRow(f"grant-{owner}", row.key, "q", 100, 0, 3, 1, 2, None, (row.id,)))
        store.grants.spend(f"grant-{owner}", 0, [ReadRow("expand", "sum_x", 5, 7), ReadRow("expand", "sum_x", 5, 7)])
    summary = store.summaries.read(row.id)[0]
    fields = {
        name: getattr(summary, name) for name in summary.__struct_fields__ if name not in ("id", "revision", "origin")
    }
    assert store.summaries.revise(row.id, summary, NewSummary(**{**fields, "text": "told anew", "tokens": 2}))
    assert chat.rewrite(summary.public_id, apply=True, model=lambda request: "told once more").operation
    lcm.conversation("agent:main:sub", parent="agent:main:main").ingest([Message.user("a sub-agent's")])
    chat.reset()
    again = lcm.conversation("agent:main:main")
    again.ingest([Message.user("after the reset")])
    again.focus("what a sub-agent said", name="kept")
    again.focus("some words")
