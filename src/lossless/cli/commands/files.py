"""`lcm files`: large content kept out of line: which there is, what is in it, and its exact bytes."""

from __future__ import annotations

import re
import sys
from base64 import b64encode
from collections.abc import Iterator
from datetime import tzinfo
from pathlib import Path
from typing import TYPE_CHECKING

import click

from lossless.cli.options import (
    Group,
    choose_conversation,
    conversation_option,
    cursor_option,
    limit_option,
    named_conversation,
    open_database,
)
from lossless.cli.output import Page, answer, is_json
from lossless.cli.tables import Line, Styled, escape, format_minute, format_size, plural, table, zone_heading
from lossless.errors import InvalidInput

if TYPE_CHECKING:
    from lossless.model import ShownFile, StoredFile

_RANGE = re.compile(r"([0-9]{0,18}):([0-9]{0,18})", re.ASCII)


@click.group(cls=Group)
def files() -> None:
    """Large content that is kept out of line: which there is, what is in it, and its exact bytes."""


@files.command("list")
@conversation_option()
@limit_option()
@cursor_option
def list_(limit: int, cursor: str | None) -> None:
    """List the files of a conversation, the newest first. Reads only."""
    with open_database() as lcm:
        found = lcm.list_files(named_conversation() or choose_conversation(lcm).key, limit=limit, cursor=cursor)
        zone = lcm.settings.zone
    answer({"files": found}, _rows(found, zone), page=Page(limit, len(found), found.next_cursor))


def _rows(found: tuple[StoredFile, ...], zone: tzinfo) -> Iterator[Line]:
    if not found:
        yield "There is none."
        return
    yield from table(
        ("id", "size", "lines", "kind", zone_heading("at", zone), "name"), (_row(each, zone) for each in found)
    )


def _row(each: StoredFile, zone: tzinfo) -> list[str]:
    lines = "" if each.lines is None else f"{each.lines:,}"
    return [
        each.id,
        format_size(each.bytes),
        lines,
        each.mime or "",
        format_minute(each.created_at, zone),
        each.name or "",
    ]


@files.command()
@click.argument("id")
@conversation_option(positional=False, otherwise="whichever has the file")
def show(id: str) -> None:
    """Show what the file ID (file_...) is: its kind and size, what is in it, and which messages refer to it. Reads only."""
    with open_database() as lcm:
        found = lcm.show_file(id, named_conversation())
    answer(found, _lines(found))


def _lines(found: ShownFile) -> Iterator[Line]:
    it = found.file
    yield (Styled(it.id, bold=True), f"  {it.name or 'without a name'}")
    lines = "" if it.lines is None else f", {plural(it.lines, 'line')}"
    facts = [
        ("kind", it.mime or "unknown"),
        ("size", f"{format_size(it.bytes)}{lines}"),
        ("sha256", it.sha256),
        ("came in", f"{format_minute(it.created_at)} UTC"),
        ("bytes", "" if found.available else "not where they were put: restore the files directory from a backup"),
        *(("conversation", f"#{each.id} {each.key}") for each in found.conversations),
        ("messages", " ".join(found.messages) + (" and more" if found.more else "")),
    ]
    yield from ((Styled(f"{name:<14}", dim=True), value) for name, value in facts if value)
    yield from ("", it.summary) if it.summary else ()


@files.command()
@click.argument("id")
@conversation_option(positional=False, otherwise="whichever has the file")
@click.option("--lines", "lines", metavar="A:B", help="Only the lines A to B, counted from 1; either may be left out.")
@click.option("--bytes", "span", metavar="A:B", help="Only from byte A, counted from 0, up to byte B.")
@click.option("-o", "--output", type=click.Path(dir_okay=False, path_type=Path), help="Write them to this file.")
@click.option(
    "--force", is_flag=True, help="Binary content to a terminal, too; and in the place of a file that is there."
)
def cat(id: str, lines: str | None, span: str | None, output: Path | None, force: bool) -> None:
    """Give the exact bytes of the file ID (file_...). Reads only.

    They go to standard output as they are, also into a pipe; JSON only if you say --json (then as text, or as base64). A
    terminal is shown text with control characters escaped, and nothing else unless you --force it.
    """
    with open_database() as lcm:
        data = lcm.file_bytes(id, named_conversation(), lines=_range(lines), span=_range(span, 0))
        if output is not None:
            from lossless.engine.shared.output_paths import refuse_ours

            refuse_ours(output, database=lcm.settings.database, files=lcm.settings.files_dir)
    if output is not None:
        _write(output, data, force)
        answer({"id": id, "bytes": len(data), "path": str(output)}, [f"{format_size(len(data))} in {output}"])
    elif is_json():
        answer({"id": id, "bytes": len(data), **_encoded(data)}, ())
    elif force or not sys.stdout.isatty():
        click.echo(data, nl=False)
    else:
        click.echo(escape(_text(data, id)), nl=False)


def _range(text: str | None, first: int = 1) -> tuple[int, int | None] | None:
    if text is None:
        return None
    found = _RANGE.fullmatch(text)
    if found is None:
        raise click.BadParameter(f"{text!r} is not a range. Write A:B, A: or :B.")
    return int(found[1] or first), int(found[2]) if found[2] else None


def _write(path: Path, data: bytes, force: bool) -> None:
    from lossless.config import open_private

    try:
        with open(path, "wb" if force else "xb", opener=open_private) as file:
            file.write(data)
    except FileExistsError as error:
        raise InvalidInput(f"{path} is there already.", hint="Name another file, or --force it.") from error
    except OSError as error:
        raise InvalidInput(f"{path} cannot be written: {error.strerror}.", hint="Name another file.") from error


def _encoded(data: bytes) -> dict[str, str]:
    try:
        return {"encoding": "text", "content": data.decode()}
    except UnicodeDecodeError:
        return {"encoding": "base64", "content": b64encode(data).decode()}


def _text(data: bytes, id: str) -> str:
    try:
        text = data.decode()
    except UnicodeDecodeError:
        text = "\0"
    if "\0" in text:
        raise InvalidInput(f"{id} is not text.", hint="-o PATH writes it to a file; --force shows it here.")
    return text
