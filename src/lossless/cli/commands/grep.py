"""`lcm grep`: find exact words in all history."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from datetime import tzinfo
from typing import Any

import click

from lossless import Hit, Hits
from lossless.cli.options import Command, choose_conversation, conversation_option, cursor_option, open_database
from lossless.cli.output import Page, answer, print_note
from lossless.cli.tables import Line, Styled, format_time

_ABOUT = ("total", "total_is_exact", "next_cursor", "complete", "scanned", "unavailable", "hint")


@click.command(cls=Command)
@click.argument("pattern")
@conversation_option(positional=False)
@click.option("--all", "everywhere", is_flag=True, help="All conversations.")
@click.option("--mode", default="regex", show_default=True, help="regex, full_text or semantic (lossless[semantic]).")
@click.option("--scope", default="both", show_default=True, help="messages, summaries, both or files.")
@click.option("--since", metavar="TIME", help="Only from this time on: 2026-08-01, 2026-08-01T09:00Z, 90d, yesterday.")
@click.option("--before", metavar="TIME", help="Only before this time.")
@click.option("--limit", type=int, default=50, show_default=True, help="How many hits, 1 to 200.")
@click.option(
    "--sort", help="recency, relevance or hybrid (default: relevance for words; a pattern is always by recency)."
)
@cursor_option
@click.option("--file", "file_ids", metavar="ID", multiple=True, help="Only this file, with --scope files; repeatable.")
def grep(pattern: str, everywhere: bool, file_ids: tuple[str, ...], **asked: Any) -> None:
    """Find PATTERN in every message and summary of a conversation and of earlier ones under its key. Reads only.

    PATTERN is a regular expression, or with --mode full_text words. Exits with 1 if nothing is found.
    """
    with open_database() as lcm:
        found = (lcm if everywhere else choose_conversation(lcm)).grep(pattern, file_ids=file_ids or None, **asked)
        zone = lcm.settings.zone
    page = Page(asked["limit"], len(found), found.next_cursor)
    answer(
        {"hits": found, **{name: getattr(found, name) for name in _ABOUT}}, _lines(found, everywhere, zone), page=page
    )
    for note in _notes(found):
        print_note(note)
    sys.exit(0 if found else 1)


def _lines(found: Hits, everywhere: bool, zone: tzinfo) -> Iterator[Line]:
    for hit in found:
        yield Styled(f"{hit.id}  {format_time(hit.at, zone)}  ", "cyan"), _said(hit, everywhere)


def _said(hit: Hit, everywhere: bool) -> str:
    who = hit.role or (f"depth {hit.depth}" if hit.kind == "summary" else f"{hit.name or 'file'}:{hit.line}")
    where = f"{hit.key}  " if everywhere else ""
    return f"{where}{who}: {hit.snippet}".replace("\n", " ")


def _notes(found: Hits) -> list[str]:
    notes = [] if found else ["Nothing was found."]
    if found.total > len(found):
        notes.append(f"{len(found):,} of {'' if found.total_is_exact else 'at least '}{found.total:,} matches.")
    if not found.complete:
        notes.append(f"The time was up after {found.scanned:,} texts; there may be more.")
    if found.unavailable:
        notes.append(f"Not readable any more: {', '.join(found.unavailable)}.")
    return [*notes, found.hint] if found.hint else notes
