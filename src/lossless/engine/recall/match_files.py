"""Search large files line by line, the newest file first."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from datetime import UTC
from heapq import nlargest
from typing import NamedTuple

from lossless.engine.recall.reader import Reader, with_tokens
from lossless.engine.recall.search_request import Deadline, Finder, Page, SearchRequest, parse_request, words
from lossless.engine.shared.cursor import Position
from lossless.engine.shared.file_store import Files
from lossless.errors import FileUnavailable
from lossless.events import Event, Hook
from lossless.model import Excerpt, Hit
from lossless.request_strings import is_text_type
from lossless.search.snippets import TermFinder, snippet
from lossless.store.rows.codec import moment
from lossless.store.rows.types import FileRow

MOST_IN_A_FILE = 10
_BLOCK = 1 << 20
_ALL_LINES = 2**62
_MOST_PASSAGES, _PASSAGE = 5, 6_000


class _Candidate(NamedTuple):
    place: tuple[int, int]
    conversation: int
    row: FileRow


class _LineMatch(NamedTuple):
    """A match in a line; without a snippet, only the progress through a file."""

    line: int
    offset: int = 0
    snippet: str | None = None


def search_files(
    reader: Reader,
    finder: Finder | None,
    request: SearchRequest,
    keys: dict[int, str],
    start: Position | None,
    deadline: Deadline,
    on_event: Hook,
) -> Page:
    """Search files: lines that match a pattern, or the best lines of files with every word."""
    page, counting = Page([]), None
    for position, candidate, found in _steps(reader, finder, request, start, page, on_event):
        if found is not None:
            page.total += 1
            if len(page.hits) < request.limit:
                page.hits.append(_hit(candidate, keys, found))
                page.position = position
            else:
                counting = counting or deadline.for_counting()
        elif counting is not None:
            if counting.is_over:
                page.is_counted = False
                return page
        else:
            page.position = position
            if deadline.is_over:
                page.complete = False
                return page
    if counting is None:
        page.position = None
    return page


def _steps(
    reader: Reader, finder: Finder | None, request: SearchRequest, start: Position | None, page: Page, on_event: Hook
) -> Iterator[tuple[Position, _Candidate, _LineMatch | None]]:
    """Yield each match with the position after it, and progress without a match."""
    position: Position | None = None
    for candidate in _candidates(reader, request):
        after, count = _progress(candidate, start)
        if after == _ALL_LINES:
            continue
        if position is not None:
            yield position, candidate, None
        page.scanned += 1
        try:
            for found in _matching_lines(reader.files, candidate.row, finder or words(request.pattern), after):
                if count == MOST_IN_A_FILE:
                    break
                count += found.snippet is not None
                yield (*candidate.place, found.line, count), candidate, found if found.snippet is not None else None
        except FileUnavailable as error:
            on_event(Event("file.unavailable", str(error), "error", {"file": candidate.row.id}))
            page.unavailable += (candidate.row.id,)
        position = (*candidate.place, _ALL_LINES, count)


def find_passages(reader: Reader, question: str, deadline: Deadline) -> list[Excerpt]:
    """Return the best passage of each file with at least half of a question's words."""
    terms, request = words(question), parse_request(question, zone=UTC, mode="full_text", scope="files")
    found: list[tuple[int, _Candidate, _LineMatch]] = []
    for candidate in _candidates(reader, request) if terms else ():
        if deadline.is_over:
            break
        with suppress(FileUnavailable):  # grep and doctor report it
            held, best = _best_lines(reader.files, candidate.row, terms)
            if best and 2 * len(held) >= len(terms):
                found.append((len(held), candidate, best[0][2]))
    found.sort(key=lambda each: (each[0], each[1].place), reverse=True)
    return [_passage(reader, candidate, line) for _, candidate, line in found[:_MOST_PASSAGES]]


def _passage(reader: Reader, candidate: _Candidate, found: _LineMatch) -> Excerpt:
    """Return the text around a line of a file, in whole lines if they are short."""
    row, first = candidate.row, max(0, found.offset - _PASSAGE // 4)
    data = reader.files.read(row.sha256, first, found.offset + _PASSAGE)
    before, after = data[: found.offset - first], data[found.offset - first :]
    before = before[before.find(b"\n") + 1 :] if first else before
    after = after[: after.rfind(b"\n") + 1] or after
    text = (before + after).decode("utf-8", "ignore").strip("\n")
    return with_tokens(Excerpt(row.id, "file", candidate.conversation, text, 0, moment(row.created_at)))


def _progress(candidate: _Candidate, start: Position | None) -> tuple[int, int]:
    """Return the number of lines already searched in a file, and of the matches in them."""
    if not start or candidate.place < start[:2]:
        return 0, 0
    return (start[2], start[3]) if candidate.place == start[:2] else (_ALL_LINES, 0)


def _candidates(reader: Reader, request: SearchRequest) -> list[_Candidate]:
    """Return the text files to search, the newest first, duplicates once."""
    if request.file_ids is None:
        rows = [
            (conversation, row)
            for conversation in reader.scope
            for row in reader.store.files.of_conversation(conversation)
        ]
    else:
        rows = [reader.file(reader.named(id, "file")) for id in request.file_ids]
    found = {
        row.id: _Candidate((row.created_at, int(row.sha256[:15], 16)), conversation, row)
        for conversation, row in reversed(rows)
        if (row.lines is not None or is_text_type(row.mime)) and request.admits(row.created_at)
    }
    return sorted(found.values(), key=lambda each: each.place, reverse=True)


def _matching_lines(files: Files, row: FileRow, matcher: Finder | TermFinder, after: int) -> Iterator[_LineMatch]:
    if isinstance(matcher, Finder):
        return _pattern_lines(files, row, matcher, after)
    return (found for found in _word_lines(files, row, matcher) if found.line > after)


def _pattern_lines(files: Files, row: FileRow, finder: Finder, after: int) -> Iterator[_LineMatch]:
    for first, start, block in _blocks(files, row.sha256):
        last = first + block.removesuffix(b"\n").count(b"\n")
        if last <= after:
            continue
        if finder.may_match(_text(block)):
            for number, offset, line in _lines(first, start, block):
                if number > after and (span := finder.search(_text(line))):
                    yield _line_match(number, offset, line, span)
        yield _LineMatch(last)


def _word_lines(files: Files, row: FileRow, terms: TermFinder) -> list[_LineMatch]:
    held, best = _best_lines(files, row, terms)
    return sorted(each for _, _, each in best) if terms and len(held) == len(terms) else []


def _best_lines(files: Files, row: FileRow, terms: TermFinder) -> tuple[set[int], list[tuple[int, int, _LineMatch]]]:
    """Return the words that a file contains, and its lines with most of them."""
    held: set[int] = set()
    best: list[tuple[int, int, _LineMatch]] = []
    for first, start, block in _blocks(files, row.sha256):
        if not (in_block := terms.matching(_text(block))):
            continue
        held |= in_block
        lines = (
            (number, offset, line, terms.matching(_text(line))) for number, offset, line in _lines(first, start, block)
        )
        found = (
            (len(which), -number, _line_match(number, offset, line, terms.search(_text(line)) or (0, 0)))
            for number, offset, line, which in lines
            if which
        )
        best = nlargest(MOST_IN_A_FILE, [*best, *found])
    return held, best


def _blocks(files: Files, sha256: str) -> Iterator[tuple[int, int, bytes]]:
    """Yield blocks of about a megabyte of whole lines: line number, offset, bytes."""
    number, start, at, pieces = 1, 0, 0, list[bytes]()
    while data := files.read(sha256, at, at + _BLOCK):
        at += len(data)
        cut = data.rfind(b"\n") + 1
        if cut:
            block = b"".join([*pieces, data[:cut]])
            yield number, start, block
            number, start, pieces = number + block.count(b"\n"), start + len(block), []
        pieces.append(data[cut:])
    if rest := b"".join(pieces):
        yield number, start, rest


def _lines(number: int, start: int, block: bytes) -> Iterator[tuple[int, int, bytes]]:
    for line in block.removesuffix(b"\n").split(b"\n"):
        yield number, start, line.removesuffix(b"\r")
        number, start = number + 1, start + len(line) + 1


def _line_match(number: int, start: int, line: bytes, span: tuple[int, int]) -> _LineMatch:
    text = _text(line)
    try:
        inside = len(text[: span[0]].encode()) if line.decode() else 0
    except UnicodeDecodeError:
        inside = 0  # the byte length of a replaced character is unknown
    return _LineMatch(number, start + inside, snippet(text, *span))


def _text(data: bytes) -> str:
    return data.decode("utf-8", "replace")


def _hit(candidate: _Candidate, keys: dict[int, str], found: _LineMatch) -> Hit:
    row = candidate.row
    return Hit(
        row.id,
        "file",
        candidate.conversation,
        keys.get(candidate.conversation, ""),
        moment(row.created_at),
        found.snippet or "",
        name=row.name,
        line=found.line,
        offset=found.offset,
    )
