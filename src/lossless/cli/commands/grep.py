"""`lcm grep`: search all messages, summaries and files."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import tzinfo
from typing import Any, Final, TypeAlias

import click
import msgspec
from msgspec import Struct

from lossless import Hit, Hits, Lossless
from lossless.cli.options import (
    Command,
    conversation_option,
    cursor_option,
    limit_option,
    named_conversation,
    open_database,
)
from lossless.cli.output import Page, answer, is_json, print_note
from lossless.cli.tables import Line, Styled, format_time, shorten, terminal_width
from lossless.model import ListedMessage

Spans: TypeAlias = Callable[[str], Iterable[tuple[int, int]]]

_MODES: Final = ("regex", "full_text", "semantic")
_SCOPES: Final = ("messages", "summaries", "both", "files")
_SORTS: Final = ("recency", "relevance", "hybrid")
_ABOUT: Final = ("total", "total_is_exact", "next_cursor", "complete", "scanned", "unavailable", "hint")
_MARGIN = 4


@click.command(
    cls=Command,
    examples=("lcm grep 'port 54\\d\\d'", "lcm grep --mode full_text 'staging database password' -L 5"),
)
@click.argument("pattern")
@conversation_option(positional=False, otherwise="all of them")
@click.option("-i", "--ignore-case", is_flag=True, help="Ignore case (default: if PATTERN has no upper-case letter).")
@click.option(
    "-C",
    "--context",
    "around",
    type=click.IntRange(0, 50),
    default=0,
    metavar="N",
    help="Show N messages before and after each match.",
)
@click.option("--mode", type=click.Choice(_MODES), default="regex", show_default=True, help="How PATTERN is read.")
@click.option(
    "--scope",
    type=click.Choice(_SCOPES),
    default="both",
    show_default=True,
    help="Texts to search; both: messages and summaries.",
)
@click.option("--since", metavar="TIME", help="Only from this time on: 2026-08-01, 90d, yesterday.")
@click.option("--until", "--before", "before", metavar="TIME", help="Only before this time.")
@click.option("--sort", type=click.Choice(_SORTS), help="Order (default: relevance; for --mode regex always recency).")
@limit_option(200)
@cursor_option
@click.option("--include-recall", is_flag=True, help="Search the agent's own lcm_* calls and their results, too.")
@click.option("--file", "file_ids", metavar="ID", multiple=True, help="Only this file, with --scope files; repeatable.")
@click.option("--all", "everywhere", is_flag=True, hidden=True, help="All conversations (the default).")
def grep(
    pattern: str, around: int, ignore_case: bool, everywhere: bool, file_ids: tuple[str, ...], **options: Any
) -> None:
    """Search every message and summary for PATTERN, in all conversations or in one. Reads only.

    PATTERN is a regular expression (RE2), with --mode full_text words or a question. -c KEY searches one conversation
    and earlier ones under its key. Exits with 1 if nothing matches.
    """
    name = named_conversation()
    if name is not None and everywhere:
        raise click.UsageError("--all searches every conversation: name one, or give --all.")
    with open_database() as lcm:
        scope = lcm if name is None else lcm.find(name)
        hits = scope.grep(pattern, ignore_case=ignore_case or None, file_ids=file_ids or None, **options)
        neighbours = _neighbours(lcm, hits, around)
        zone, is_terminal = lcm.settings.zone, sys.stdout.isatty() and not is_json()
        titles = _titles(lcm, hits) if is_terminal and name is None else {}
    spans = _spans(pattern, options["mode"], ignore_case) if is_terminal else None
    view = _View(zone=zone, with_key=name is None, titles=titles, spans=spans)
    data = {"hits": hits, **{name: getattr(hits, name) for name in _ABOUT}}
    if around:
        data["context"] = msgspec.to_builtins(neighbours)
    page = Page(options["limit"], len(hits), hits.next_cursor)
    answer(data, view.lines(hits, neighbours), page=page)
    for note in _notes(hits):
        print_note(note)
    sys.exit(0 if hits else 1)


def _neighbours(lcm: Lossless, hits: Hits, around: int) -> dict[str, Sequence[ListedMessage]]:
    """Return the messages around each message that matches."""
    found = {hit.id: hit for hit in hits if hit.kind == "message"} if around else {}
    return {
        id: lcm.messages.around(id, hit.conversation, before=around, after=around).messages for id, hit in found.items()
    }


def _titles(lcm: Lossless, hits: Hits) -> dict[int, str]:
    """Return the titles of the conversations that contain hits, by their numbers."""
    numbers = {hit.conversation for hit in hits}
    return {each.id: each.title for each in lcm.conversations() if each.id in numbers and each.title}


def _spans(pattern: str, mode: str, ignore_case: bool) -> Spans:
    from lossless.engine.recall.search_request import match_spans

    return match_spans(pattern, "regex" if mode == "regex" else "full_text", ignore_case=ignore_case or None)


class _View(Struct, frozen=True):
    """The form of hits: a line each, on a terminal a heading and the wrapped text with its matches highlighted."""

    zone: tzinfo
    with_key: bool
    titles: Mapping[int, str]
    """By the number of a conversation."""
    spans: Spans | None

    def lines(self, hits: Hits, neighbours: Mapping[str, Sequence[ListedMessage]]) -> Iterator[Line]:
        shown = {hit.id for hit in hits}
        for number, hit in enumerate(hits):
            group = neighbours.get(hit.id, ())
            if number and (self.spans or neighbours):
                yield "--" if neighbours else ""
            before = [each for each in group if each.seq < (hit.seq or 0) and each.id not in shown]
            after = [each for each in group if each.seq > (hit.seq or 0) and each.id not in shown]
            shown |= {each.id for each in (*before, *after)}
            yield from (self._neighbour(each) for each in before)
            yield from self._hit(hit)
            yield from (self._neighbour(each) for each in after)

    def _hit(self, hit: Hit) -> Iterator[Line]:
        where = hit.key if self.with_key else ""
        if self.spans is None:
            text = "  ".join(filter(None, (where, f"{_source(hit)}: {hit.snippet}"))).replace("\n", " ")
            yield Styled(f"{hit.id}  {format_time(hit.at, self.zone)}  ", "cyan"), text
            return
        facts = f"  {format_time(hit.at, self.zone)}  {_source(hit)}"
        title = f"#{hit.conversation} {self.titles.get(hit.conversation) or hit.key}" if self.with_key else ""
        space = terminal_width() - len(hit.id) - len(facts) - 2
        yield Styled(hit.id, "cyan"), Styled(f"{facts}  {shorten(title, max(8, space))}".rstrip(), dim=True)
        spans = [span for span in self.spans(hit.snippet) if span[0] < span[1]]
        for start, end in _wrap(hit.snippet, terminal_width() - _MARGIN):
            yield " " * _MARGIN, *_highlight(hit.snippet, start, end, spans)

    def _neighbour(self, message: ListedMessage) -> Line:
        start = f"{message.id}  {format_time(message.at, self.zone)}"
        if self.spans is None:
            return f"{start}  {message.role}- {message.preview}".replace("\n", " ")
        space = max(20, terminal_width() - len(start) - len(message.role) - 4)
        return Styled(f"{start}  {message.role}: {shorten(message.preview, space)}", dim=True)


def _source(hit: Hit) -> str:
    """Return who said it: a role, the depth of a summary, or the line of a file."""
    return hit.role or (f"depth {hit.depth}" if hit.kind == "summary" else f"{hit.name or 'file'}:{hit.line}")


def _wrap(text: str, width: int) -> Iterator[tuple[int, int]]:
    """Yield where each line of a text starts and ends, broken between words."""
    start = end = 0
    for word in text.split(" "):
        stop = end + len(word) + (end > start)
        if stop - start > width and end > start:
            yield start, end
            start, stop = end + 1, end + 1 + len(word)
        end = stop
    yield start, end


def _highlight(text: str, start: int, end: int, spans: Sequence[tuple[int, int]]) -> Iterator[str | Styled]:
    """Yield a part of a text, its matches styled."""
    at = start
    for first, last in spans:
        first, last = max(first, at), min(last, end)
        if first < last:
            yield text[at:first]
            yield Styled(text[first:last], "red", bold=True)
            at = last
    yield text[at:end]


def _notes(hits: Hits) -> Iterator[str]:
    if not hits:
        yield "Nothing found."
    if hits.total > len(hits):
        yield f"{len(hits):,} of {'' if hits.total_is_exact else 'at least '}{hits.total:,} matches."
    if not hits.complete:
        yield f"The time limit was reached after {hits.scanned:,} texts; there may be more matches."
    if hits.unavailable:
        yield f"Files that cannot be read any more: {', '.join(hits.unavailable)}."
    if hits.hint:
        yield hits.hint
