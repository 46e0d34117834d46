"""`lcm files`: list large content that is stored as files, show one, and print its bytes."""

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
from lossless.cli.since_until import chosen_times, time_options
from lossless.cli.tables import (
    Line,
    Styled,
    escape,
    fact_lines,
    format_minute,
    format_size,
    plural,
    table,
    zone_heading,
)
from lossless.errors import InvalidInput

if TYPE_CHECKING:
    from lossless.model import ShownFile, StoredFile

_RANGE = re.compile(r"([0-9]{0,18}):([0-9]{0,18})", re.ASCII)
_OWN = "the one with the file"


@click.group(cls=Group, examples=("lcm files demo", "lcm files cat file_0123456789abcdef01234567 --lines 1:20"))
def files() -> None:
    """List large content that is stored as files, show one, and print its bytes."""


@files.command("list", examples=("lcm files list demo", "lcm files list -c demo --since yesterday"))
@conversation_option()
@time_options
@limit_option()
@cursor_option
def list_(limit: int, cursor: str | None) -> None:
    """List the files of a conversation, the newest first."""
    times = chosen_times()
    with open_database() as lcm:
        listed = lcm.files(
            named_conversation() or choose_conversation(lcm).key,
            since=times.since,
            until=times.until,
            limit=limit,
            cursor=cursor,
        )
        zone = lcm.settings.zone
    page = Page(limit=limit, returned=len(listed), next_cursor=listed.next_cursor)
    answer({"files": listed}, _rows(listed, zone), page=page)


def _rows(listed: tuple[StoredFile, ...], zone: tzinfo) -> Iterator[Line]:
    if not listed:
        yield "No files."
        return
    heads = ("id", "size", "lines", "kind", zone_heading("at", zone), "name")
    yield from table(heads, (_row(each, zone) for each in listed), least=("kind", "lines", "name", "at"))


def _row(each: StoredFile, zone: tzinfo) -> list[str]:
    lines = "" if each.lines is None else f"{each.lines:,}"
    at = format_minute(each.created_at, zone)
    return [each.id, format_size(each.bytes), lines, each.mime or "", at, each.name or ""]


@files.command(
    examples=("lcm files show file_0123456789abcdef01234567", "lcm files show file_0123456789abcdef01234567 --json"),
)
@click.argument("id")
@conversation_option(positional=False, otherwise=_OWN)
def show(id: str) -> None:
    """Show the kind, size and content of the file ID (file_...), and the messages that refer to it."""
    with open_database() as lcm:
        shown = lcm.files.show(id, named_conversation())
    answer(shown, _lines(shown))


def _lines(shown: ShownFile) -> Iterator[Line]:
    own = shown.file
    yield (Styled(own.id, bold=True), f"  {own.name or 'without a name'}")
    lines = "" if own.lines is None else f", {plural(own.lines, 'line')}"
    facts = [
        ("kind", own.mime or "unknown"),
        ("size", f"{format_size(own.bytes)}{lines}"),
        ("sha256", own.sha256),
        ("stored", f"{format_minute(own.created_at)} UTC"),
        ("bytes", "" if shown.available else "missing: restore the files directory from a backup"),
        *(("conversation", f"#{each.id} {each.key}") for each in shown.conversations),
        ("messages", " ".join(shown.messages) + (" and more" if shown.more else "")),
    ]
    for name, value in facts:
        if value:
            yield from fact_lines(name, value)
    yield from ("", own.summary) if own.summary else ()


@files.command(
    examples=(
        "lcm files cat file_0123456789abcdef01234567 --lines 1:20",
        "lcm files cat file_0123456789abcdef01234567 -o report.txt",
    ),
)
@click.argument("id")
@conversation_option(positional=False, otherwise=_OWN)
@click.option("--lines", "lines", metavar="A:B", help="Only lines A to B, counted from 1; either may be left out.")
@click.option("--bytes", "span", metavar="A:B", help="Only from byte A, counted from 0, up to byte B.")
@click.option("-o", "--output", type=click.Path(dir_okay=False, path_type=Path), help="Write to this file.")
@click.option("--force", is_flag=True, help="Print binary content to a terminal; overwrite an existing file.")
def cat(id: str, lines: str | None, span: str | None, output: Path | None, force: bool) -> None:
    """Print the exact bytes of the file ID (file_...).

    A terminal gets text with control characters escaped, and binary content only with --force. A pipe gets the bytes
    as they are. With --json they are text, or base64.
    """
    with open_database() as lcm:
        data = lcm.files.read(id, named_conversation(), lines=_range(lines), span=_range(span, 0))
        if output is not None:
            from lossless.engine.shared.output_paths import refuse_ours

            refuse_ours(output, database=lcm.settings.database, files=lcm.settings.files_dir)
    if output is not None:
        _write(output, data, force)
        answer({"id": id, "bytes": len(data), "path": str(output)}, [f"{format_size(len(data))} in {output}"])
    elif is_json():
        answer({"id": id, "bytes": len(data), **_encode(data)}, ())
    elif force or not sys.stdout.isatty():
        click.echo(data, nl=False)
    else:
        click.echo(escape(_decode(data, id)), nl=False)


def _range(text: str | None, first: int = 1) -> tuple[int, int | None] | None:
    if text is None:
        return None
    match = _RANGE.fullmatch(text)
    if match is None:
        raise click.BadParameter(f"{text!r} is not a range. Write A:B, A: or :B.")
    return int(match[1] or first), int(match[2]) if match[2] else None


def _write(path: Path, data: bytes, force: bool) -> None:
    from lossless.config import open_private

    try:
        with open(path, "wb" if force else "xb", opener=open_private) as file:
            file.write(data)
    except FileExistsError as error:
        raise InvalidInput(f"{path} exists already.", hint="Name another file, or use --force.") from error
    except OSError as error:
        raise InvalidInput(f"{path} cannot be written: {error.strerror}.", hint="Name another file.") from error


def _encode(data: bytes) -> dict[str, str]:
    try:
        return {"encoding": "text", "content": data.decode()}
    except UnicodeDecodeError:
        return {"encoding": "base64", "content": b64encode(data).decode()}


def _decode(data: bytes, id: str) -> str:
    try:
        text = data.decode()
    except UnicodeDecodeError:
        text = "\0"
    if "\0" in text:
        raise InvalidInput(f"{id} is not text.", hint="-o PATH writes it to a file; --force shows it here.")
    return text
