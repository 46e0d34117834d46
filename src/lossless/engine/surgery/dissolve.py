"""Dissolve a condensed summary: its sources return to their places in the context."""

from __future__ import annotations

from collections.abc import Iterator

from msgspec.structs import replace

from lossless.engine.shared.promise import promise_violations
from lossless.errors import ContextMoved, InvalidInput, StoreCorrupt
from lossless.model import Outcome, Plan, Step
from lossless.store.rows.codec import moment
from lossless.store.rows.types import MESSAGE, USER_MESSAGE, ConversationRow, ItemRow, SummaryRow, Touched
from lossless.store.store import Store


def plan(store: Store, conversation: ConversationRow, summary: SummaryRow, *, purge: bool) -> Plan:
    """Return the plan: the sources that replace the summary, their tokens, and what forbids a purge."""
    item = _item(store, conversation, summary)
    sources = source_items(store, conversation.id, summary, item) if item else []
    rows = {row.id: row for row in store.summaries.read(conversation.id, [each.summary_id or 0 for each in sources])}
    steps = tuple(_step(store, conversation.id, rows[each.summary_id or 0]) for each in sources)
    gained = sum(each.tokens for each in sources) - (item.tokens if item else 0)
    before = conversation.context_tokens
    review = _referring(store, conversation, summary) if purge else ()
    return Plan(
        kind="dissolve",
        conversation=conversation.key,
        steps=steps,
        model="",
        cost=None,
        tokens_before=before,
        tokens_after=before + gained,
        review=review,
    )


def dissolve(store: Store, conversation: ConversationRow, summary: SummaryRow, *, purge: bool, now: int) -> Outcome:
    """Dissolve the summary in one transaction, and prove the result."""
    planned = plan(store, conversation, summary, purge=purge)
    if planned.review:
        raise InvalidInput(" ".join(planned.review), hint="Nothing was changed. Without purge, it is only dissolved.")
    item = _item(store, conversation, summary)
    sources = source_items(store, conversation.id, summary, item) if item else []
    ordinals = {each.ordinal for each in [*sources, *([item] if item else []), *_beside(store, conversation, summary)]}
    touched = Touched(
        conversation_id=conversation.id,
        summaries=(summary.id,) if purge else (),
        links=purge,
        ordinals=tuple(sorted(ordinals)),
    )
    verbs = " and ".join(["dissolved"] * bool(item) + ["purged"] * purge)
    replaced = f"{len(sources):,} {'source replaces' if len(sources) == 1 else 'sources replace'} it"
    text = f"{summary.public_id} {verbs}: {replaced}"
    details = {"summary": summary.public_id, "purge": purge}
    with store.transaction():
        store.conversations.hold(conversation.id)
        flaws = promise_violations(store, conversation.id)
        operation = store.operations.record(conversation.id, "dissolve", now, details, text, "planned")
        with store.operations.recording(operation, touched):
            if item and not store.operations.unfold(conversation.id, item, sources, now):
                raise ContextMoved(f"{summary.public_id} is no longer in the context.", hint="Nothing was changed.")
            if purge:
                store.operations.purge(conversation.id, summary.id)
        store.operations.set_operation(operation, "applied", text)
        if promise_violations(store, conversation.id) != flaws:
            raise StoreCorrupt(f"{summary.public_id} cannot be dissolved without loss.", hint="Nothing was changed.")
    return Outcome(
        plan=planned,
        status="applied",
        steps=tuple(replace(step, state="written") for step in planned.steps),
        operation=operation,
    )


def _item(store: Store, conversation: ConversationRow, summary: SummaryRow) -> ItemRow | None:
    """Return its context item; None if it is already dissolved and can only be purged."""
    if summary.depth == 0:
        raise InvalidInput(
            f"{summary.public_id} is a leaf: its sources are messages.",
            hint="Only condensed summaries can be dissolved.",
        )
    found = next((item for item in store.context.items(conversation.id) if item.summary_id == summary.id), None)
    if found is None and not _beside(store, conversation, summary):
        raise InvalidInput(
            f"{summary.public_id} is not in the context of {conversation.key}.",
            hint="Dissolve the summary above it first.",
        )
    return found


def _beside(store: Store, conversation: ConversationRow, summary: SummaryRow) -> list[ItemRow]:
    left = store.context.detached(conversation.id)
    return [item for item, cause, _ in left if item.summary_id == summary.id and cause == "dissolved"]


def source_items(store: Store, conversation_id: int, summary: SummaryRow, item: ItemRow) -> list[ItemRow]:
    """Return its sources as items, each at the first ordinal of its own run."""
    seqs, ids = store.summaries.sources(conversation_id, summary.id)
    if seqs:
        return [
            ItemRow(
                ordinal=row.seq,
                summary_id=None,
                tokens=row.tokens,
                depth=USER_MESSAGE if row.role == "user" else MESSAGE,
            )
            for row in store.messages.at(conversation_id, seqs)
            if row.outside is None
        ]
    rows = {row.id: row for row in store.summaries.read(conversation_id, ids)}
    copied = store.imported.transplants(conversation_id)

    def place(summary_id: int) -> int:
        seq = min(_seqs(store, conversation_id, summary_id))
        back = (each.place - each.first_seq for each in copied if each.first_seq <= seq <= each.last_seq)
        return seq + next(back, 0)

    if not ids:
        raise InvalidInput(f"{summary.public_id} has no sources.", hint="Nothing could replace it.")
    # The first source takes the place of the summary, which may be before the first of its messages.
    ordinals = [item.ordinal, *(place(each) for each in ids[1:])]
    return [
        ItemRow(ordinal=ordinal, summary_id=each, tokens=rows[each].tokens, depth=rows[each].depth)
        for ordinal, each in zip(ordinals, ids, strict=True)
    ]


def _seqs(store: Store, conversation_id: int, summary_id: int) -> Iterator[int]:
    """Yield the seqs of the first messages below a summary."""
    waiting = [summary_id]
    while waiting:
        seqs, ids = store.summaries.sources(conversation_id, waiting.pop())
        yield from seqs[:1]
        waiting += ids[:1]


def _step(store: Store, conversation_id: int, row: SummaryRow) -> Step:
    seqs, ids = store.summaries.sources(conversation_id, row.id)
    first, last = (None if at is None else moment(at) for at in (row.earliest_at, row.latest_at))
    return Step(
        row.public_id, row.depth, len(seqs) + len(ids), row.tokens, 0, 0, first, last, reason="returns", old=row.text
    )


def _referring(store: Store, conversation: ConversationRow, summary: SummaryRow) -> tuple[str, ...]:
    """Return a sentence for each summary made from this one."""
    names = store.summaries.consumers(conversation.id, summary.id)
    return tuple(f"{name} was made from {summary.public_id}." for name in names)
