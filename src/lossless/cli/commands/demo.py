"""`lcm demo`: compact a conversation that is too long, without a key."""

from __future__ import annotations

import os
import re
import sys
import textwrap
from collections.abc import Iterator, Sequence
from pathlib import Path

import click

from lossless import Compaction, Context, Conversation, Lossless, Message, Settings, Summary
from lossless.cli.options import Plain
from lossless.cli.output import answer, remember_database
from lossless.cli.session_directories import shell_path
from lossless.cli.tables import Line, Styled, plural, terminal_width
from lossless.config import data_dir
from lossless.errors import InvalidInput
from lossless.events import Event

WINDOW = 4_000
KEY = "demo"
# A small window needs small summaries: the same proportions as the defaults have to a window of 128,000.
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
_EXCERPT_LINES = 4
_MOST_SHOWN = 3
"""The summaries that are listed: the demo fits a screen."""
_DAY = re.compile(r"\d{4}-\d\d-\d\d( \(.*\))?$")
_SENTENCE = re.compile(r"""[.!?…]["'`*)\]]*$""")


@click.command(cls=Plain, examples=("lcm demo", "lcm demo session.jsonl --db demo.db"))
@click.argument("transcript", required=False, type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option("--db", metavar="PATH", help="New file for the demo's database (default: demo.db beside your own).")
def demo(transcript: Path | None, db: str | None) -> None:
    """Compact a long conversation and show what a model would see of it.

    Takes the bundled one (five days of a coding agent's work), or your own TRANSCRIPT: a session of Claude Code, Codex,
    OpenClaw or pi, or a file of plain messages. Needs no model and no key. Leaves a database for the other commands.
    """
    messages, detail = _conversation(transcript)
    path = Path(db) if db else data_dir() / "demo.db"
    if db and path.exists():
        raise InvalidInput(
            f"{path} exists already.", hint="Name a new file; a demo never writes into another database."
        )
    _remove(path)
    settings = Settings(database_path=str(path), **SETTINGS)  # type: ignore[arg-type]  # whole numbers, all of them
    try:
        with Lossless.open(settings=settings, summarizer="extractive", on_event=_ignore) as lcm:
            chat = remember_database(lcm).conversation(KEY)
            results = _compact(chat, messages)
            name = transcript.name if transcript else "five days of a coding agent's work"
            answer(_data(chat, results), _lines(chat, name, detail, path))
    except KeyboardInterrupt:
        # Half a demo is of no use, and would be in the way of the next.
        _remove(path)
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


def _ignore(event: Event) -> None:
    """Ignore an event: so small a window is exceeded now and then, and the report contains the result."""


def _remove(path: Path) -> None:
    """Delete the database of an earlier demo."""
    for suffix in ("", "-wal", "-shm"):
        old = Path(f"{path}{suffix}")
        if old.exists():
            os.unlink(old)


def _compact(chat: Conversation, messages: Sequence[Message]) -> list[Compaction]:
    """Ingest the messages and compact after each turn, with a progress bar on a terminal."""
    from rich.console import Console
    from rich.progress import track

    console = Console(stderr=True, quiet=not sys.stderr.isatty())
    results = []
    for start in track(range(0, len(messages), _BATCH), "Turn by turn", console=console, transient=True):
        chat.ingest(messages[start : start + _BATCH])
        results.append(chat.compact(WINDOW))
    return results


def _data(chat: Conversation, results: Sequence[Compaction]) -> dict[str, int]:
    stored, shown = chat.messages(), chat.context()
    return {
        "messages": len(stored),
        "tokens": sum(each.tokens for each in stored),
        "window": WINDOW,
        "context_tokens": shown.tokens,
        "summaries": len(chat.summaries()),
        "compactions": sum(1 for each in results if each.summaries),
    }


def _lines(chat: Conversation, name: str, detail: tuple[str, str] | None, path: Path) -> Iterator[Line]:
    stored, context = chat.messages(), chat.context()
    tokens = sum(each.tokens for each in stored)
    yield Styled(f"{plural(len(stored), 'message')}, {plural(tokens, 'token')}", bold=True), f": {name}."
    yield from _context(context)
    summaries = [item for item in context.items if isinstance(item, Summary)]
    if summaries:
        yield ""
        yield "The oldest summary starts with:"
        yield from (Styled(f"  {line}", dim=True) for line in _excerpt(summaries[0].text))
    if detail:
        yield ""
        yield from _recall(chat, *detail)
    yield ""
    yield "Nothing was deleted. Try:"
    database = shell_path(path)
    first = "grep 'chunk 037'" if detail else "messages"
    for command in (first, "summaries tree", "context"):
        yield Styled(f"  lcm {command} --db {database}", "cyan")


def _context(context: Context) -> Iterator[Line]:
    """Describe what a model sees: each summary, and the newest messages."""
    summaries = [item for item in context.items if isinstance(item, Summary)]
    yield f"A model with a window of {WINDOW:,} tokens gets {context.tokens:,} of them:"
    for each in summaries[:_MOST_SHOWN]:
        days = dict.fromkeys(f"{at:%Y-%m-%d}" for at in (each.earliest_at, each.latest_at) if at)
        yield f"  d{each.depth} {each.id}  {each.source_tokens:,} -> {each.tokens:,} tokens  {' to '.join(days)}"
    if len(summaries) > _MOST_SHOWN:
        yield f"  and {plural(len(summaries) - _MOST_SHOWN, 'newer summary', 'newer summaries')}"
    yield f"  the {plural(len(context.items) - len(summaries), 'newest message')}, as they are"


def _excerpt(text: str) -> list[str]:
    """Return the beginning of a text, folded to the terminal, up to the end of a sentence."""
    shown: list[str] = []
    complete = 0
    for line in text.splitlines():
        folded = textwrap.wrap(line, max(20, min(terminal_width(), 100) - 2), break_on_hyphens=False) or [""]
        if len(shown) + len(folded) > _EXCERPT_LINES:
            break
        shown += folded
        if _SENTENCE.search(line):
            complete = len(shown)
    while shown and not complete and _DAY.match(shown[-1]):
        shown.pop()
    return shown[:complete] or shown or [textwrap.shorten(text, 200, placeholder=" ...")]


def _recall(chat: Conversation, question: str, answer: str) -> Iterator[Line]:
    """Find a detail again that no summary contains."""
    hits = chat.grep(question, mode="full_text", scope="messages", sort="relevance", limit=5)
    texts = ((hit, chat.expand(hit.id).text) for hit in hits)
    found = next(((hit, text) for hit, text in texts if answer in text), None)
    where = "one of the" if any(answer in summary.text for summary in chat.summaries()) else "none of the"
    yield f"A detail that is in {where} summaries:"
    yield f"  {question}"
    if found:
        hit, text = found
        line = next(line for line in text.splitlines() if answer in line)
        yield "Found in ", Styled(hit.id, "cyan"), ":"
        yield Styled(f"  {line.strip()}", "green")
