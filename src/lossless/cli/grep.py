"""`lcm grep`: find exact words in all history."""

from __future__ import annotations

import json
import sys
from typing import Any

import click
import msgspec

from lossless import Hit, Hits, Lossless
from lossless.cli.choose import choose, safe


@click.command()
@click.argument("pattern")
@click.option("-c", "--conversation", "key", metavar="KEY", help="The conversation, and earlier ones under its key.")
@click.option("--all", "everywhere", is_flag=True, help="All conversations.")
@click.option("--mode", default="regex", show_default=True, help="regex, full_text or semantic (lossless[semantic]).")
@click.option("--scope", default="both", show_default=True, help="messages, summaries, both or files.")
@click.option("--since", metavar="TIME", help="Only from this time on (ISO 8601).")
@click.option("--before", metavar="TIME", help="Only before this time.")
@click.option("--limit", type=int, default=50, show_default=True, help="At most so many of each kind, 1 to 200.")
@click.option("--sort", default="recency", show_default=True, help="recency, relevance or hybrid (not for regex).")
@click.option("--cursor", metavar="TEXT", help="Go on where a page ended.")
@click.option("--file", "file_ids", metavar="ID", multiple=True, help="Only this file, with --scope files; repeatable.")
@click.option("--db", metavar="PATH_OR_URL", help="The database; otherwise what the settings say.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def grep(
    pattern: str,
    key: str | None,
    everywhere: bool,
    db: str | None,
    as_json: bool,
    file_ids: tuple[str, ...],
    **asked: Any,
) -> None:
    """Find PATTERN in every message and summary, however old. Exits with 1 if nothing is found."""
    with Lossless.open(db, read_only=True) as lcm:
        found = (lcm if everywhere else choose(lcm, key)).grep(pattern, file_ids=file_ids or None, **asked)
    if as_json:
        told = {"hits": found, **{name: getattr(found, name) for name in _ABOUT}}
        click.echo(json.dumps({"ok": True, "command": "grep", "data": msgspec.to_builtins(told)}))
    else:
        for hit in found:
            click.echo(_line(hit, everywhere))
        for note in _notes(found):
            click.echo(note, err=True)
    sys.exit(0 if found else 1)


_ABOUT = ("next_cursor", "complete", "scanned", "unavailable", "hint")


def _line(hit: Hit, everywhere: bool) -> str:
    who = hit.role or (f"depth {hit.depth}" if hit.kind == "summary" else f"{hit.name or 'file'}:{hit.line}")
    where = f"{hit.key}  " if everywhere else ""
    return safe(f"{hit.id}  {hit.at:%Y-%m-%d %H:%M}  {where}{who}: {hit.snippet}".replace("\n", " "))


def _notes(found: Hits) -> list[str]:
    notes = [] if found else ["Nothing was found."]
    if not found.complete:
        notes.append(f"The time was up after {found.scanned:,} texts; there may be more.")
    if found.next_cursor:
        notes.append(f"Go on with --cursor {found.next_cursor}")
    if found.unavailable:
        notes.append(f"Not readable any more: {', '.join(found.unavailable)}.")
    return [*notes, found.hint] if found.hint else notes
