"""`lcm status`: one honest screen."""

from __future__ import annotations

import json
from pathlib import Path

import click
import msgspec

from lossless import Lossless, __version__, config
from lossless.model import Status


@click.command()
@click.option("--db", metavar="PATH_OR_URL", help="The database; otherwise what the settings say.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def status(db: str | None, as_json: bool) -> None:
    """What is stored, where, and since when. Reads only."""
    found = _status(db)
    if as_json:
        click.echo(json.dumps({"ok": True, "command": "status", "data": msgspec.to_builtins(found)}))
    else:
        click.echo("\n".join(f"{name:<15}{value}" for name, value in _lines(found)))


def _status(db: str | None) -> Status:
    settings = config.load()
    if db is None and config.is_file(settings.database) and not Path(settings.database).exists():
        # Before the first message there is nothing to open, and looking must not make it.
        return Status(__version__, settings.database, 0, "default", 0, 0, 0, None)
    with Lossless.open(db, read_only=True) as lcm:
        return lcm.status()


def _lines(found: Status) -> list[tuple[str, str]]:
    return [
        ("lossless", found.version),
        ("database", f"{found.database} ({f'{found.bytes / 1e6:.1f} MB' if found.bytes else 'not there yet'})"),
        ("owner", found.owner),
        ("conversations", f"{found.conversations:,}"),
        ("messages", f"{found.messages:,}"),
        ("in context", f"{found.context_tokens:,} tokens"),
        ("last ingest", f"{found.last_ingest_at:%Y-%m-%d %H:%M:%S} UTC" if found.last_ingest_at else "never"),
    ]
