"""`expand`: read the sources of a summary, or a whole message, within a budget."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Literal, TypeAlias

from msgspec import Struct, field

from lossless.engine.recall.reader import Reader, cut, of_message, of_summary, render_excerpt
from lossless.errors import InvalidInput
from lossless.model import Excerpt, Expansion, Skipped
from lossless.store.rows.types import SummaryRow
from lossless.tokens import estimate, truncate

Strategy: TypeAlias = Literal["order", "fit"]
_CURSOR = re.compile(r"(?P<id>(?:sum_|msg#)[a-z0-9_-]+)@(?P<start>\d{1,12})", re.ASCII)


class Walk(Struct):
    """The state of one walk down: what was visited, and the leaves that stayed closed."""

    reader: Reader
    messages: bool
    seen: set[str] = field(default_factory=set)
    closed: list[str] = field(default_factory=list)
    ignored: set[str] = field(default_factory=set)
    """The ids that did not fit: nothing below them is visited."""


def expand(
    reader: Reader,
    ids: str | int | Sequence[str | int],
    *,
    max_tokens: int | None = None,
    depth: int = 1,
    include_messages: bool = True,
    strategy: Strategy = "order",
    cursor: str | None = None,
) -> Expansion:
    """Expand summaries to their sources, `depth` levels down, and messages in full, within `max_tokens`.

    In "order" it ends at the first text that does not fit, and `next` continues there; a text that would fill a page on
    its own is cut into pages. With "fit" what does not fit is left out and listed with its cost.
    """
    cap = reader.settings.max_expand_tokens if max_tokens is None else max_tokens
    if cap < 1 or depth < 1:
        raise InvalidInput(f"max_tokens={max_tokens}, depth={depth}: give 1 or more.")
    if strategy not in ("order", "fit"):
        raise InvalidInput(f'"{strategy}" is not a strategy.', hint='Give "order" or "fit".')
    given = [ids] if isinstance(ids, str | int) else list(ids)
    walk = Walk(reader, include_messages)
    found = _from(way_down(walk, given, depth), cursor)
    if strategy == "fit":
        return _fitting(found, walk, cap)
    # A single message is returned whole unless the caller sets a limit.
    whole = max_tokens is None and all(reader.named(each).kind == "message" for each in given)
    return _in_order(found, walk, None if whole else cap)


def way_down(walk: Walk, ids: Sequence[str | int], depth: int) -> Iterator[Excerpt]:
    """Yield what is below the ids, in order; read lazily."""
    reader = walk.reader
    # Check every id first: a wrong one must not be reported half way.
    for named in [reader.named(each, "summary", "message") for each in ids]:
        if named.kind == "summary":
            conversation, row = reader.summary(named)
            yield from _sources(walk, conversation, row, depth)
        elif named.id not in walk.seen:
            walk.seen.add(named.id)
            conversation, message = reader.message(named)
            yield of_message(conversation, message, reader.exact(conversation, message))


def _sources(walk: Walk, conversation: int, row: SummaryRow, depth: int) -> Iterator[Excerpt]:
    """Yield the sources of a summary, each followed by its own sources down to `depth`."""
    store = walk.reader.store
    seqs, ids = store.summaries.sources(conversation, row.id)
    if seqs and not walk.messages:
        walk.closed.append(row.public_id)
        return
    for message in store.messages.at(conversation, seqs):
        excerpt = of_message(conversation, message, above=row.public_id)
        if excerpt.id not in walk.seen:
            walk.seen.add(excerpt.id)
            yield excerpt
    rows = {each.id: each for each in store.summaries.read(conversation, ids)} if ids else {}
    for below in (rows[each] for each in ids if each in rows):
        if below.public_id not in walk.seen:
            walk.seen.add(below.public_id)
            yield of_summary(conversation, below, above=row.public_id)
            if depth > 1 and below.public_id not in walk.ignored:
                yield from _sources(walk, conversation, below, depth - 1)


def _from(found: Iterator[Excerpt], cursor: str | None) -> Iterator[Excerpt]:
    """Yield the excerpts from the position of a cursor on."""
    if cursor is None:
        yield from found
        return
    place = _CURSOR.fullmatch(cursor)
    for excerpt in found:
        if place and excerpt.id == place["id"]:
            start = int(place["start"])
            yield cut(excerpt, start, excerpt.text[start:]) if start else excerpt
            yield from found
            return
    raise InvalidInput(f"{cursor[:80]!r} is not a cursor of this expansion.", hint="Give `next` of the page before.")


def _in_order(found: Iterator[Excerpt], walk: Walk, cap: int | None) -> Expansion:
    items: list[Excerpt] = []
    total = 0
    for excerpt in found:
        if cap is None or total + excerpt.tokens <= cap:
            items.append(excerpt)
            total += excerpt.tokens
            continue
        start = excerpt.start
        if not items:
            page = _page(excerpt, cap)
            items, total, start = [page], page.tokens, start + len(page.text)
            if len(page.text) == len(excerpt.text):
                continue  # its tags alone exceed the limit, and nothing of its text is left
        return Expansion(tuple(items), total, True, f"{excerpt.id}@{start}", closed=tuple(walk.closed))
    return Expansion(tuple(items), total, closed=tuple(walk.closed))


def _page(excerpt: Excerpt, cap: int) -> Excerpt:
    """Return the part of an excerpt that fits; at least one word."""
    frame = estimate(render_excerpt(cut(excerpt, excerpt.start, "")))
    budget = max(1, cap - frame - 1)
    page = cut(excerpt, excerpt.start, truncate(excerpt.text, budget) or excerpt.text[:1])
    while page.tokens > cap and budget > 1:
        # Escaping makes a text longer.
        budget = budget * cap // (page.tokens + 1) if page.tokens < 2 * cap else budget // 2
        page = cut(excerpt, excerpt.start, truncate(excerpt.text, max(1, budget)) or excerpt.text[:1])
    return page


def _fitting(found: Iterator[Excerpt], walk: Walk, cap: int) -> Expansion:
    items: list[Excerpt] = []
    skipped: list[Skipped] = []
    total = 0
    for excerpt in found:
        if total + excerpt.tokens <= cap:
            items.append(excerpt)
            total += excerpt.tokens
        else:
            walk.ignored.add(excerpt.id)
            skipped.append(Skipped(excerpt.id, excerpt.tokens))
    return Expansion(tuple(items), total, bool(skipped), skipped=tuple(skipped), closed=tuple(walk.closed))
