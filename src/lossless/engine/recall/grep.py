"""`grep`: find patterns, or texts that answer a question, in the whole history.

Texts are searched from the newest on, in batches. When the time limit is reached, the newest matches are returned, and a
cursor continues after them. The database skips texts that a pattern cannot match.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from itertools import groupby

from msgspec.structs import astuple, replace

from lossless.engine.recall.match_files import search_files
from lossless.engine.recall.match_text import match_pattern, match_words
from lossless.engine.recall.reader import Reader
from lossless.engine.recall.search_request import Deadline, Finder, Page, SearchRequest
from lossless.engine.shared import cursor as cursors
from lossless.engine.shared.cursor import Position
from lossless.engine.shared.defaults import GREP_SECONDS
from lossless.errors import InvalidCursor
from lossless.events import Hook
from lossless.model import Hit, Hits
from lossless.search.query.question import analyse
from lossless.store.rows.types import TextKind

_BY_WORDS = (
    'This reads like a question: it was searched as words, the best first; mode="regex" matches it as a pattern.'
)
_UNMATCHED = "No text matches this as a pattern. These contain some of its words, the best first."
_HINT_SECONDS = 1.0
"""The time limit for finding out that only the case of a pattern differs."""


def grep(
    reader: Reader,
    request: SearchRequest,
    *,
    now: Callable[[], float],
    on_event: Hook,
    cursor: str | None = None,
    seconds: float = GREP_SECONDS,
) -> Hits:
    """Search the conversations of a reader; return up to `limit` hits in the requested order.

    A pattern may be searched as words if the request allows it; `mode` and `hint` of the result say so.
    """
    if request.reads_as_words or (request.may_be_words and cursor and not _continues(reader, request, cursor)):
        return _as_words(reader, request, now, on_event, cursor, seconds)
    found = _search(reader, request, now=now, on_event=on_event, cursor=cursor, seconds=seconds)
    if request.may_be_words and found.total == 0 and found.complete and cursor is None:
        by_words = _as_words(reader, request, now, on_event, None, seconds)
        return by_words if by_words else found
    return found


def _as_words(
    reader: Reader,
    request: SearchRequest,
    now: Callable[[], float],
    on_event: Hook,
    cursor: str | None,
    seconds: float,
) -> Hits:
    found = _search(reader, request.as_words, now=now, on_event=on_event, cursor=cursor, seconds=seconds)
    found.hint = _BY_WORDS if request.reads_as_words else _UNMATCHED
    return found


def _continues(reader: Reader, request: SearchRequest, cursor: str) -> bool:
    """Return whether a cursor continues the search for a pattern, rather than for its words."""
    try:
        cursors.decode(cursor, _question(reader, request.as_words))
    except InvalidCursor:
        return True
    return False


def _search(
    reader: Reader,
    request: SearchRequest,
    *,
    now: Callable[[], float],
    on_event: Hook,
    cursor: str | None = None,
    seconds: float = GREP_SECONDS,
) -> Hits:
    """Search as the request says.

    Ordered by relevance, messages come before summaries: their scores cannot be compared. If not all of them
    fit, each kind gets half.
    """
    finder = Finder.of(request.pattern, ignore_case=request.ignore_case) if request.mode == "regex" else None
    question = _question(reader, request)
    starts, seen = dict[str, Position | None].fromkeys(request.kinds), 0
    if cursor is not None:
        positions, seen = cursors.decode(cursor, question)
        starts = {**positions}
    keys = {row.id: row.key for row in reader.store.conversations.of_owner()}
    deadline = Deadline(now, now() + seconds)

    def page(kind: str, start: Position | None) -> Page:
        if kind == "file":
            return search_files(reader, finder, request, keys, start, deadline, on_event)
        which: TextKind = "message" if kind == "message" else "summary"
        if finder is not None:
            return match_pattern(reader, which, finder, request, keys, start, deadline)
        return match_words(reader, which, request, keys, start, int(now() * 1_000_000))

    pages = {kind: page(kind, start) for kind, start in starts.items()}
    for kind, most in _shares(request, pages).items():
        pages[kind].cut(most, starts[kind])
    hits = [hit for found in pages.values() for hit in found.hits]
    if request.sort == "recency" and len(pages) > 1:
        hits.sort(key=lambda hit: hit.at, reverse=True)
    next_positions = {kind: found.position for kind, found in pages.items() if found.position is not None}
    total, is_exact = _total(request, pages, seen)
    hint = request.hint
    if finder is not None and not request.ignore_case and total == 0 and is_exact:
        hint = _case_hint(reader, request, now=now, seconds=min(_HINT_SECONDS, deadline.until - now()))
    hits = _with_leaves(reader, hits)
    if request.around and request.mode != "regex":
        from lossless.engine.recall.neighbours import add_neighbours

        hits = add_neighbours(reader, hits, request.around)
    return Hits(
        hits,
        next_cursor=cursors.encode(next_positions, question, seen + len(hits)),
        complete=all(found.complete for found in pages.values()),
        scanned=sum(found.scanned for found in pages.values()),
        unavailable=tuple(id for found in pages.values() for id in found.unavailable),
        hint=hint,
        total=total,
        total_is_exact=is_exact,
        mode=request.mode,
    )


def _case_hint(reader: Reader, request: SearchRequest, *, now: Callable[[], float], seconds: float) -> str:
    """Return a hint if a pattern that matched nothing matches when case is ignored."""
    if request.pattern.lower() == request.pattern.upper():
        return ""
    found = _search(reader, replace(request, ignore_case=True), now=now, on_event=lambda event: None, seconds=seconds)
    if not found.total:
        return ""
    count = f"{'' if found.total_is_exact else 'at least '}{found.total:,} {'match' if found.total == 1 else 'matches'}"
    return f"Only the case differs: {count} with ignore_case (-i)."


def _shares(request: SearchRequest, pages: Mapping[str, Page]) -> dict[str, int]:
    """Return the number of hits to show of each kind, `limit` in total."""
    if request.sort == "recency":
        newest = sorted(
            ((hit.at, kind) for kind, page in pages.items() for hit in page.hits),
            key=lambda each: each[0],
            reverse=True,
        )
        return {**dict.fromkeys(pages, 0), **Counter(kind for _, kind in newest[: request.limit])}
    found = {kind: len(page.hits) for kind, page in pages.items()}
    messages, summaries = found.get("message", 0), found.get("summary", 0)
    summaries_shown = min(summaries, max(request.limit // 2, request.limit - messages))
    return {
        **found,
        **(
            {"message": min(messages, request.limit - summaries_shown), "summary": summaries_shown}
            if len(found) == 2
            else {}
        ),
    }


def _total(request: SearchRequest, pages: Mapping[str, Page], seen: int) -> tuple[int, bool]:
    """Return the number of matches, and True if it is exact rather than a lower bound."""
    if request.mode == "regex" or request.scope == "files":
        is_exact = all(page.complete and page.is_counted for page in pages.values())
        return seen + sum(page.total for page in pages.values()), is_exact
    found = seen + sum(page.total for page in pages.values())
    return found, request.mode == "full_text" and not analyse(request.pattern).reach


def _question(reader: Reader, request: SearchRequest) -> list[object]:
    """Return the values that a cursor is bound to: all but the limit, and the oldest conversation."""
    return [reader.store.owner, min(reader.scope, default=0), *astuple(request.filters)]


def _with_leaves(reader: Reader, hits: Sequence[Hit]) -> list[Hit]:
    leaves: dict[str, str] = {}
    messages = sorted((hit for hit in hits if hit.seq is not None), key=lambda hit: hit.conversation)
    for conversation, group in groupby(messages, key=lambda hit: hit.conversation):
        ids = {hit.seq: hit.id for hit in group if hit.seq is not None}
        over = reader.store.summaries.leaves_over(conversation, list(ids))
        leaves |= {ids[seq]: leaf for seq, leaf in over.items()}
    return [replace(hit, leaf=leaves[hit.id]) if hit.id in leaves else hit for hit in hits]
