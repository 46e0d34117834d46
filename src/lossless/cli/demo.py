"""`lcm demo`: the whole thing on a conversation that is too long, in a few seconds and without a key."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

import click

from lossless import Conversation, Lossless, Message, Settings, Summary
from lossless.cli.frame import Plain, answer, is_json, noted
from lossless.cli.tables import many
from lossless.config import data_dir
from lossless.errors import InvalidInput
from lossless.events import Event
from lossless.model import Compaction

if TYPE_CHECKING:
    from rich.console import Console
    from rich.tree import Tree

WINDOW = 4_000
KEY = "demo"
# A small window wants small summaries: the same proportions as the defaults have to a window of 128,000.
SETTINGS = {
    "fresh_tail_count": 12,
    "leaf_chunk_tokens": 2_400,
    "leaf_target_tokens": 240,
    "condensed_target_tokens": 400,
    "leaf_min_fanout": 6,
    "condensed_min_fanout": 3,
    "incremental_max_depth": -1,
    "max_sweep_iterations": 500,
}
_BATCH = 20


@click.command(cls=Plain)
@click.argument("transcript", required=False, type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option("--db", metavar="PATH", help="Where to put the demo's database; otherwise beside your own.")
def demo(transcript: Path | None, db: str | None) -> None:
    """Compact a long conversation and look at what a model would see of it.

    Takes the bundled one (five days of a coding agent's work), or your own TRANSCRIPT: a session of Claude Code, Codex, OpenClaw
    or pi, or a file of plain messages. Needs no model and no key. Leaves a database for the other commands.
    """
    from rich.console import Console

    as_json = is_json(otherwise=False)
    console = Console(highlight=False, quiet=as_json)
    messages, detail = _conversation(transcript)
    path = Path(db) if db else data_dir() / "demo.db"
    if db and path.exists():
        raise InvalidInput(
            f"{path} is there already.", hint="Name a new file; a demo never writes into another database."
        )
    _fresh(path)
    settings = Settings(database_path=str(path), **SETTINGS)  # type: ignore[arg-type]  # whole numbers, all of them
    try:
        with Lossless.open(settings=settings, summarizer="extractive", on_event=_told_below) as lcm:
            chat = noted(lcm).conversation(KEY)
            done = _taken_in(console, chat, messages)
            _report(console, chat, messages, done, detail, path)
            if as_json:
                answer(_data(chat, done), [])
    except KeyboardInterrupt:
        # Half a demo is of no use, and would be in the way of the next.
        _fresh(path)
        raise


def _conversation(transcript: Path | None) -> tuple[list[Message], tuple[str, str] | None]:
    if transcript is None:
        from lossless import demo as bundled

        return bundled.conversation(), bundled.DETAIL
    from lossless.engine.sync.read import recognise
    from lossless.transcripts import Tally, reader

    header = recognise(transcript)
    read = reader(header.format)
    branch = read.branch(transcript, header)
    entries = [entry for entry in read.entries(transcript, header, Tally()) if entry.thread is None]
    messages = [each.message for each in entries if each.message and (branch is None or each.id in branch)]
    if not messages:
        raise InvalidInput(f"{transcript} holds no messages.", hint="Give a session in which something was said.")
    return messages, None


def _told_below(event: Event) -> None:
    """So small a window is over it now and then; the report tells what came of it."""


def _fresh(path: Path) -> None:
    """The demo starts anew each time: what an earlier one left in its own place is taken away."""
    for suffix in ("", "-wal", "-shm"):
        old = Path(f"{path}{suffix}")
        if old.exists():
            os.unlink(old)


def _taken_in(console: Console, chat: Conversation, messages: list[Message]) -> list[Compaction]:
    from rich.progress import track

    starts = range(0, len(messages), _BATCH)
    steps = track(starts, "Turn by turn", console=console, transient=True)
    done = []
    for start in steps:
        chat.ingest(messages[start : start + _BATCH])
        done.append(chat.compact(WINDOW))
    return done


def _data(chat: Conversation, done: list[Compaction]) -> dict[str, int]:
    stored, shown = chat.messages(), chat.context()
    return {
        "messages": len(stored),
        "tokens": sum(each.tokens for each in stored),
        "window": WINDOW,
        "context_tokens": shown.tokens,
        "summaries": len(chat.summaries()),
        "compactions": sum(1 for each in done if each.summaries),
    }


def _report(
    console: Console,
    chat: Conversation,
    messages: list[Message],
    done: list[Compaction],
    detail: tuple[str, str] | None,
    path: Path,
) -> None:
    raw = sum(stored.tokens for stored in chat.messages())
    context, summaries = chat.context(), chat.summaries()
    console.print(
        f"[bold]{len(messages):,} messages, {raw:,} tokens[/bold] of history; a model with a window of {WINDOW:,}."
    )
    console.print(f"It would see [bold]{context.tokens:,} tokens[/bold]: {_shown(context.items)}.")
    made = f"{many(len(summaries), 'summary', 'summaries')} made"
    console.print(f"{made} in {many(sum(bool(each.summaries) for each in done), 'compaction')}, no model asked.\n")
    console.print(_tree(chat))
    console.print("\n[bold]What the model would see[/bold], its beginning:")
    first = next((item for item in context.items if isinstance(item, Summary)), None)
    if first:
        console.print(first.text[:1_200], markup=False, style="dim")
    if detail:
        _recall(console, chat, detail)
    console.print(
        f"\nThe database is {path}. Look at it: lcm status --db {path}, lcm summaries tree, lcm context, lcm grep",
        markup=False,
        soft_wrap=True,
    )


def _shown(items: tuple[object, ...]) -> str:
    count = sum(isinstance(item, Summary) for item in items)
    return f"{many(count, 'summary', 'summaries')} and the {many(len(items) - count, 'newest message')}"


def _tree(chat: Conversation) -> Tree:
    """The DAG: what stands in the context, and what each summary was made from."""
    from rich.text import Text
    from rich.tree import Tree

    store, row = chat._store, chat._store.conversation(chat.key)
    assert row is not None
    known = {each.id: each for each in store.summaries(row.id)}
    root = Tree("The context, oldest first")

    def add(branch: Tree, identity: int) -> None:
        seqs, sources = store.sources(row.id, identity)
        summary = known[identity]
        what = f"messages {seqs[0]}-{seqs[-1]}" if seqs else f"{len(sources)} summaries"
        size = f"{summary.source_tokens:,} -> {summary.tokens:,} tokens"
        label = Text(f"d{summary.depth} {summary.public_id}  {size}  {what}", no_wrap=True, overflow="ellipsis")
        twig = branch.add(label)
        for each in sources:
            add(twig, each)

    raw = 0
    for item in store.items(row.id):
        if item.summary_id is None:
            raw += 1
        else:
            add(root, item.summary_id)
    root.add(f"the {raw} newest messages, as they are")
    return root


def _recall(console: Console, chat: Conversation, detail: tuple[str, str]) -> None:
    question, answer = detail
    hits = chat.grep(question, mode="full_text", scope="messages", sort="relevance", limit=5)
    found = ((hit, chat.expand(hit.id).text) for hit in hits)
    hit, text = next(((hit, text) for hit, text in found if answer in text), (None, ""))
    kept = any(answer in summary.text for summary in chat.summaries())
    console.print(
        f"\n[bold]A detail that no summary tells[/bold] ({'not ' if not kept else ''}in any of them): {question}"
    )
    if hit:
        at = text.index(answer)
        around = text[max(0, at - 80) : at + len(answer) + 80]
        console.print(f"found again, word for word, in message {hit.seq}: ...{around}...", markup=False)
