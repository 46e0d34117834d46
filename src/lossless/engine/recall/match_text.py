"""Search messages and summaries by pattern or by words."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import islice

from lossless.engine.recall.reader import Reader
from lossless.engine.recall.search_request import Deadline, Finder, Page, SearchRequest, words
from lossless.engine.shared.cursor import Position
from lossless.ids import message_id
from lossless.model import Hit
from lossless.search.snippets import snippet
from lossless.store.rows.codec import moment
from lossless.store.rows.types import SPAN, TextKind, TextRow

_FIRST_PLACES, _PLACES = 1_000, 100_000
"""The number of places in the first query and in later ones: each query costs a scan of all texts."""
_TEXTS = 256
_CANDIDATES = 1_000
_HOUR = 3_600_000_000
_AGEING = 0.001

Keys = Mapping[int, str]


def match_pattern(
    reader: Reader,
    kind: TextKind,
    finder: Finder,
    request: SearchRequest,
    keys: Keys,
    start: Position | None,
    deadline: Deadline,
) -> Page:
    """Return the texts that a pattern matches, the newest first."""
    page, counting = Page([]), None
    for places, is_last in _batches(reader, kind, finder, request, start):
        texts = {
            row.id: row
            for row in reader.store.texts.read(kind, [id for _, id in places], include_recall=request.include_recall)
        }
        for at, id in places:
            span = finder.pattern.search(texts[id].text) if id in texts else None
            page.scanned += 1
            page.total += span is not None
            if span and len(page.hits) < request.limit:
                page.hits.append(_hit(kind, texts[id], keys, snippet(texts[id].text, *span)))
                page.after.append((at, id))
        is_full = page.total > request.limit
        if is_full:
            page.position, counting = page.after[-1], counting or deadline.for_counting()
        if is_last:
            break
        if counting and counting.is_over:
            page.is_counted = False
            break
        if deadline.is_over:
            page.complete, page.position = False, places[-1]
            break
    return page


def _batches(
    reader: Reader, kind: TextKind, finder: Finder, request: SearchRequest, start: Position | None
) -> Iterator[tuple[Sequence[tuple[int, int]], bool]]:
    """Yield batches of places, the newest first, and True with the last."""
    below, most = (start[0], start[1]) if start else None, _FIRST_PLACES
    while True:
        found = reader.store.texts.places(
            kind,
            reader.scope,
            holding=[(need.any_of, need.folded) for need in finder.needs],
            since=request.since,
            before=request.before,
            below=below,
            include_recall=request.include_recall,
            limit=most,
        )
        for first in range(0, len(found), _TEXTS):
            batch = found[first : first + _TEXTS]
            yield batch, len(found) < most and first + _TEXTS >= len(found)
        if len(found) < most:
            return
        below, most = found[-1], _PLACES


def match_words(
    reader: Reader, kind: TextKind, request: SearchRequest, keys: Keys, start: Position | None, now: int
) -> Page:
    """Return the texts that answer a question, in the requested order.

    By recency and in the hybrid order, the best thousand are ordered so; the others follow by relevance.
    """
    shown, last = start or (0, 0)
    scores, total = _scores(reader, kind, request, shown + request.limit + 1, now)
    ordered = _ordered(reader, kind, request, scores, now)
    # New messages may have changed the positions: continue after the last hit that was shown.
    first = ordered.index(last) + 1 if last in ordered else shown
    ids = ordered[first : first + request.limit]
    texts = {row.id: row for row in reader.store.texts.read(kind, ids, include_recall=request.include_recall)}
    find = words(request.pattern).search
    hits = [
        _hit(kind, texts[id], keys, snippet(texts[id].text, *(find(texts[id].text) or (0, 0))), scores[id])
        for id in ids
        if id in texts
    ]
    after: list[Position] = [(first + nth, id) for nth, id in enumerate(ids, 1)]
    more = len(ordered) > first + len(ids)
    return Page(
        hits, after[-1] if more else None, scanned=len(ids), after=after, total=max(total, len(ordered)) - first
    )


def _scores(
    reader: Reader, kind: TextKind, request: SearchRequest, wanted: int, now: int
) -> tuple[dict[int, float], int]:
    """Return texts with their scores, the best first, at least as many as are wanted, and the number that match."""
    from lossless.search.ranking.messages import Limits

    if request.mode == "semantic" or request.sort != "relevance" or kind == "summary":
        wanted = max(wanted, _CANDIDATES)
    if kind == "summary":
        return _summary_scores(reader, request, wanted)
    found = reader.store.ranked(
        request.pattern,
        reader.scope,
        Limits(request.since, request.before, include_recall=request.include_recall),
        limit=wanted,
        now=now,
        by_words=request.sort == "recency",
    )
    scores = {each.conversation_id * SPAN + each.seq: each.score for each in found.matches}
    if request.mode != "semantic":
        return scores, found.total
    from lossless.engine.recall.semantic import fuse_scores

    first = dict(islice(scores.items(), _CANDIDATES))
    fused = fuse_scores(reader, request, first)
    least = min(fused.values(), default=1.0)
    rest = [id for id in scores if id not in fused]
    return {**fused, **{id: least / (2 + place) for place, id in enumerate(rest)}}, found.total


def _summary_scores(reader: Reader, request: SearchRequest, wanted: int) -> tuple[dict[int, float], int]:
    found = reader.store.search_summaries(request.pattern, conversation_ids=reader.scope, limit=wanted)
    total = reader.store.count_summaries(request.pattern, reader.scope, since=request.since, before=request.before)
    return {each.summary_id: each.score for each in found}, total


def _ordered(
    reader: Reader, kind: TextKind, request: SearchRequest, scores: Mapping[int, float], now: int
) -> list[int]:
    best = list(scores)[:_CANDIDATES] if request.sort != "relevance" else list(scores)
    newest_first = reader.store.texts.places(
        kind,
        reader.scope,
        among=list(scores),
        since=request.since,
        before=request.before,
        include_recall=request.include_recall,
        limit=len(scores),
    )
    times = {id: at for at, id in newest_first}
    if request.sort == "recency":
        among = set(best)
        return [*(id for id in times if id in among), *(id for id in scores if id in times and id not in among)]

    def rank(id: int) -> float:
        hours = max(0, now - times[id]) / _HOUR if request.sort == "hybrid" else 0.0
        return scores[id] / (1 + hours * _AGEING)

    first = sorted((id for id in best if id in times), key=rank, reverse=True)
    return [*first, *(id for id in list(scores)[len(best) :] if id in times)]


def _hit(kind: TextKind, row: TextRow, keys: Keys, shown: str, score: float = 0.0) -> Hit:
    key = keys.get(row.conversation_id, "")
    if kind == "message":
        id, seq = message_id(row.id), row.id % SPAN
        return Hit(id, kind, row.conversation_id, key, moment(row.at), shown, score, seq, row.role)
    return Hit(row.public_id or "", kind, row.conversation_id, key, moment(row.at), shown, score, depth=row.depth)
