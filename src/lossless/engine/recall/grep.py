"""`grep`: find exact words, or what answers a question, in all that was ever said.

Texts are looked at from the newest on, a few at a time: what was found when the time is up is the newest there is, and a
cursor goes on behind it. A database skips the texts that a pattern cannot match.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from itertools import groupby

from msgspec.structs import astuple, replace

from lossless.engine.recall.match_files import in_files
from lossless.engine.recall.match_text import answering, count, matching
from lossless.engine.recall.reader import Reader
from lossless.engine.recall.search_request import Asked, Finder, Page, Watch
from lossless.engine.shared import cursor as cursors
from lossless.engine.shared.cursor import Position
from lossless.engine.shared.defaults import GREP_SECONDS
from lossless.events import Hook
from lossless.model import Hit, Hits
from lossless.search.query.question import analyse
from lossless.store.base import TextKind


def grep(
    reader: Reader,
    asked: Asked,
    *,
    now: Callable[[], float],
    on_event: Hook,
    cursor: str | None = None,
    seconds: float = GREP_SECONDS,
) -> Hits:
    """What a reader finds, up to `limit` hits in the order that was asked for.

    Ordered by relevance, messages come before summaries: their scores say nothing about each other. Where there is not room
    for all of them, each kind gets half.
    """
    finder = Finder.of(asked.pattern, ignore_case=asked.ignore_case) if asked.mode == "regex" else None
    question = _question(reader, asked)
    started, seen = dict[str, Position | None].fromkeys(asked.kinds), 0
    if cursor is not None:
        positions, seen = cursors.decode(cursor, question)
        started = {**positions}
    keys = {row.id: row.key for row in reader.store.conversations.of_owner()}
    watch = Watch(now, now() + seconds)

    def page(kind: str, start: Position | None) -> Page:
        if kind == "file":
            return in_files(reader, finder, asked, keys, start, watch, on_event)
        which: TextKind = "message" if kind == "message" else "summary"
        if finder is not None:
            return matching(reader, which, finder, asked, keys, start, watch)
        return answering(reader, which, asked, keys, start, int(now() * 1_000_000))

    pages = {kind: page(kind, start) for kind, start in started.items()}
    for kind, most in _shares(asked, pages).items():
        pages[kind].cut(most, started[kind])
    hits = [hit for found in pages.values() for hit in found.hits]
    if asked.sort == "recency" and len(pages) > 1:
        hits.sort(key=lambda hit: hit.at, reverse=True)
    going_on = {kind: found.position for kind, found in pages.items() if found.position is not None}
    total, is_exact = _total(reader, asked, pages, seen)
    hint = asked.hint
    if finder is not None and not asked.ignore_case and total == 0 and is_exact:
        hint = _case_hint(reader, asked, now=now, seconds=watch.until - now())
    return Hits(
        _with_leaves(reader, hits),
        next_cursor=cursors.encode(going_on, question, seen + len(hits)),
        complete=all(found.complete for found in pages.values()),
        scanned=sum(found.scanned for found in pages.values()),
        unavailable=tuple(id for found in pages.values() for id in found.unavailable),
        hint=hint,
        total=total,
        total_is_exact=is_exact,
    )


def _case_hint(reader: Reader, asked: Asked, *, now: Callable[[], float], seconds: float) -> str:
    """Return a hint if a pattern that matched nothing matches when case is ignored."""
    if asked.pattern.lower() == asked.pattern.upper():
        return ""
    found = grep(reader, replace(asked, ignore_case=True), now=now, on_event=lambda event: None, seconds=seconds)
    if not found.total:
        return ""
    count = f"{'' if found.total_is_exact else 'at least '}{found.total:,} {'match' if found.total == 1 else 'matches'}"
    return f"Only the case differs: {count} with ignore_case (-i)."


def _shares(asked: Asked, pages: Mapping[str, Page]) -> dict[str, int]:
    """How many hits of each kind are shown, `limit` of them in all."""
    if asked.sort == "recency":
        newest = sorted(
            ((hit.at, kind) for kind, page in pages.items() for hit in page.hits),
            key=lambda each: each[0],
            reverse=True,
        )
        return {**dict.fromkeys(pages, 0), **Counter(kind for _, kind in newest[: asked.limit])}
    found = {kind: len(page.hits) for kind, page in pages.items()}
    messages, summaries = found.get("message", 0), found.get("summary", 0)
    kept = min(summaries, max(asked.limit // 2, asked.limit - messages))
    return {**found, **({"message": min(messages, asked.limit - kept), "summary": kept} if len(found) == 2 else {})}


def _total(reader: Reader, asked: Asked, pages: Mapping[str, Page], seen: int) -> tuple[int, bool]:
    """How many matches there are in all, and whether that is exact and not the least there are."""
    if asked.mode == "regex" or asked.scope == "files":
        is_exact = all(page.complete and page.is_counted for page in pages.values())
        return seen + sum(page.total for page in pages.values()), is_exact
    held = sum(count(reader, asked, kind) for kind in asked.kinds)
    found = seen + sum(page.total for page in pages.values())
    return max(held, found), asked.mode == "full_text" and not analyse(asked.pattern).reach


def _question(reader: Reader, asked: Asked) -> list[object]:
    """What a cursor is bound to: everything but the limit, and the oldest conversation, which a family keeps."""
    return [reader.store.owner, min(reader.scope, default=0), *astuple(asked.filters)]


def _with_leaves(reader: Reader, hits: Sequence[Hit]) -> list[Hit]:
    leaves: dict[str, str] = {}
    messages = sorted((hit for hit in hits if hit.seq is not None), key=lambda hit: hit.conversation)
    for conversation, group in groupby(messages, key=lambda hit: hit.conversation):
        ids = {hit.seq: hit.id for hit in group if hit.seq is not None}
        over = reader.store.summaries.leaves_over(conversation, list(ids))
        leaves |= {ids[seq]: leaf for seq, leaf in over.items()}
    return [replace(hit, leaf=leaves[hit.id]) if hit.id in leaves else hit for hit in hits]
