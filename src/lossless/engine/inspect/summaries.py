"""List summaries, show one with its sources and consumers, and compare its revisions."""

from __future__ import annotations

from collections.abc import Sequence
from difflib import unified_diff
from typing import Literal, get_args

from msgspec.structs import astuple

from lossless.engine.compaction.summarize import PROVISIONAL
from lossless.engine.inspect.lists import MOST, READ, TimeRange, moment_of, preview
from lossless.engine.shared import cursor as cursors
from lossless.engine.shared.cursor import Number
from lossless.errors import InvalidInput, NotFound
from lossless.ids import message_id
from lossless.model import Comparison, ListedSummary, Listing, Revision, ShownSummary, SummarySource
from lossless.store import jsontext
from lossless.store.rows.codec import moment
from lossless.store.rows.types import SPAN, ConversationRow, PlacedSummary, RevisionRow, SourceMessage, SummaryRow
from lossless.store.store import Store

Kind = Literal["leaf", "condensed"]
_DEEPEST = 1_000_000
_COUNTED = 1_000
_WHOLE = 2**31 - 1


def page(
    store: Store,
    row: ConversationRow,
    times: TimeRange,
    *,
    depth: int | None,
    kind: Kind | None,
    now: int,
    limit: int,
    cursor: str | None,
    content: bool,
) -> Listing[ListedSummary]:
    """List the summaries of a conversation by the time of their newest source, newest first.

    An age counts back from the time of the first page, also on the pages after it.
    """
    depths, filters = _depths(depth, kind), [row.id, depth, kind, *astuple(times)]
    if not cursor:
        below, (since, before) = None, times.bounds(now)
    else:
        key = cursors.decode_page(cursor, "summaries", filters, tuple[Number, Number, Number | None, Number | None])
        *below, since, before = key
    if not 1 <= limit <= MOST:
        raise InvalidInput(f"limit={limit} is out of range.", hint=f"Give 1 to {MOST}.")
    found = store.details.summary_page(
        row.id,
        depths=depths,
        since=since,
        before=before,
        below=(below[0], below[1]) if below else None,
        limit=limit + 1,
        length=_WHOLE if content else READ,
    )
    rows = found[:limit]
    counted = store.details.messages_below(row.id, [each.id for each in rows if each.descendants <= _COUNTED])
    entries = (listed(row.id, each, messages=counted.get(each.id), content=content) for each in rows)
    more = len(found) > limit
    return Listing(
        entries, cursors.encode_page("summaries", filters, (*_place_of(rows[-1]), since, before)) if more else None
    )


def _depths(depth: int | None, kind: Kind | None) -> tuple[int, int] | None:
    """Return the smallest and the largest depth to list; None for all."""
    if depth is not None and depth < 0:
        raise InvalidInput(f"depth={depth} is not a depth.", hint="Leaves have depth 0, condensed summaries 1 or more.")
    if kind is not None and kind not in get_args(Kind):
        raise InvalidInput(f"{kind!r} is not a kind of summary.", hint='Give "leaf" or "condensed".')
    if depth is None and kind is None:
        return None
    least, most = (0, _DEEPEST) if depth is None else (depth, depth)
    return max(least, 1 if kind == "condensed" else 0), min(most, 0 if kind == "leaf" else _DEEPEST)


def _place_of(row: SummaryRow) -> tuple[int, int]:
    return row.created_at if row.latest_at is None else row.latest_at, row.id


def listed(
    conversation_id: int, row: PlacedSummary, *, messages: int | None = None, content: bool = False
) -> ListedSummary:
    """Return the list entry of a summary."""
    return ListedSummary(
        id=row.public_id,
        conversation=conversation_id,
        kind="leaf" if row.depth == 0 else "condensed",
        depth=row.depth,
        tokens=row.tokens,
        source_tokens=row.source_tokens,
        descendants=row.descendants,
        sources=row.sources,
        consumers=row.consumers,
        earliest_at=moment_of(row.earliest_at),
        latest_at=moment_of(row.latest_at),
        created_at=moment(row.created_at),
        model=row.model,
        level=row.level,
        revision=row.revision,
        place=_place(row),
        flags=tuple(_flags(row)),
        faithful=row.faithful,
        preview=preview(row.text),
        messages=messages if messages is not None or row.depth else row.sources,
        content=row.text if content else None,
    )


def _place(row: PlacedSummary) -> str:
    if row.shown:
        return "context"
    return row.cause or ("below" if row.consumers else "nowhere")


def _flags(row: PlacedSummary) -> list[str]:
    flags = {
        "provisional": row.level in PROVISIONAL,
        "cut": row.level == "cut",
        "stale": row.stale,
        "unfaithful": row.faithful is not None and row.faithful < 1,
    }
    return [flag for flag, is_set in flags.items() if is_set]


def named(store: Store, id: str) -> tuple[ConversationRow, SummaryRow]:
    """Return a summary by its id, with its conversation."""
    found = store.summaries.named(id) if jsontext.is_clean(id) else None
    row = store.conversations.get(found[0]) if found else None
    if found is None or row is None:
        raise NotFound("summary", id, hint="`grep` and `lcm summaries list` show ids of summaries.")
    return row, found[1]


def show(store: Store, row: ConversationRow, summary: SummaryRow) -> ShownSummary:
    """Return a summary with its full text, its sources and its consumers."""
    own = store.details.placed(row.id, [summary.id], _WHOLE)[summary.id]
    links, sources = store.details.level_below(row.id, [summary.id], READ)
    below = store.details.messages_below(row.id, [summary.id]).get(summary.id, 0)
    return ShownSummary(
        key=row.key,
        summary=listed(row.id, own, messages=below, content=True),
        consumers=tuple(listed(row.id, each) for each in store.details.level_above(row.id, summary.id, READ)),
        sources=tuple(listed(row.id, sources[source]) for _, source in links if source in sources),
        messages=tuple(_source(row.id, each) for each in store.details.source_messages(row.id, summary.id, READ)),
        file_ids=tuple(jsontext.stored(summary.file_ids)),
        prompt_version=summary.prompt_version,
        origin=summary.origin,
        revisions=len(store.details.earlier(row.id, summary.id)) + 1,
    )


def _source(conversation_id: int, row: SourceMessage) -> SummarySource:
    name = message_id(conversation_id * SPAN + row.seq)
    return SummarySource(
        id=name, seq=row.seq, role=row.role, tokens=row.tokens, at=moment(row.at), preview=preview(row.text)
    )


def revisions(store: Store, row: ConversationRow, summary: SummaryRow) -> tuple[Revision, ...]:
    """Return the revisions of a summary, the current one first."""
    rows: list[SummaryRow | RevisionRow] = [summary, *store.details.earlier(row.id, summary.id)]
    made_by = store.details.revised_in(summary.id, [each.revision for each in rows])
    return tuple(
        Revision(
            number=each.revision,
            at=moment(each.created_at),
            model=each.model,
            level=each.level,
            tokens=each.tokens,
            prompt_version=each.prompt_version,
            faithful=each.faithful,
            operation=made_by.get(each.revision),
            text=each.text,
        )
        for each in rows
    )


def compare(id: str, texts: Sequence[Revision], old: int | None, new: int | None) -> Comparison:
    """Compare two revisions; by default the current one with the one before it."""
    known = {each.number: each for each in texts}
    after = _revision(known, new) if new is not None else texts[0]
    earlier = [each for each in texts if each.number < after.number]
    before = _revision(known, old) if old is not None else next(iter(earlier), None)
    if before is None:
        return Comparison(id=id, old=None, new=after.number, diff="")
    old_name, new_name = (f"{id} (revision {each.number}, {each.model})" for each in (before, after))
    lines = unified_diff(before.text.splitlines(), after.text.splitlines(), old_name, new_name, lineterm="")
    return Comparison(id=id, old=before.number, new=after.number, diff="\n".join(lines))


def _revision(known: dict[int, Revision], number: int) -> Revision:
    if number not in known:
        raise NotFound("revision", number, hint=f"The revisions are {', '.join(map(str, sorted(known)))}.")
    return known[number]
