"""Rewrite summaries: those written without a model, once there is one, and those made from them.

A flow like compaction. The shallowest come first, so that a summary is rewritten once, after all of its sources. The earlier
text is kept as a revision. A summary for which a model gave several unusable replies stays as it is; a model that cannot
be reached does not count as a try.
"""

from __future__ import annotations

from collections.abc import Callable

from lossless.config import Settings
from lossless.engine.compaction.prompts import Templates
from lossless.engine.compaction.summarize import (
    PROVISIONAL,
    SourceText,
    as_row,
    draft_summary,
    of_messages,
    of_summaries,
    summary_request,
)
from lossless.engine.compaction.sweep import CompactionState, Flow, block_reason, fit_to_window, report_length, retry_at
from lossless.errors import InvalidInput, SummarizerError
from lossless.events import Hook, ignore
from lossless.model import SummaryRequest
from lossless.store.rows.types import ConversationRow, NewSummary, SummaryRow, TextAt
from lossless.store.store import Store

MOST_TRIES = 3


def resummarize(
    store: Store,
    conversation: ConversationRow,
    settings: Settings,
    *,
    templates: Templates,
    now: Callable[[], float],
    wanted_elsewhere: Callable[[], bool],
    on_event: Hook = ignore,
) -> Flow:
    """Rewrite the unsettled summaries of a conversation, within one sweep."""
    limits, settings = fit_to_window(store, conversation, settings)
    deadline = now() + settings.sweep_deadline_ms / 1000
    state = CompactionState(store, conversation, settings, limits, templates, now, deadline, wanted_elsewhere)
    before = conversation.context_tokens
    tried: set[int] = set()
    unanswered: set[int] = set()
    while state.may_continue() and (row := _next(store, conversation.id, tried | unanswered)):
        state.passes += 1
        sources = store.operations.source_revisions(conversation.id, row.id)
        source = _source_text(store, conversation, row, settings)
        try:
            draft = yield from draft_summary(source, settings, templates)
        except SummarizerError as error:
            state.continue_without_model(error)
            unanswered.add(row.id)
            if state.without_calls:
                state.stop, state.retry_at = block_reason(error), retry_at(error, now())
                break
            continue
        # The model answered another request, so the failed ones count as tries.
        tried |= _count_tries(store, conversation.id, unanswered)
        unanswered, state.misses = set(), 0
        if draft.level in PROVISIONAL:
            tried |= _count_tries(store, conversation.id, {row.id})
        else:
            new = as_row(source, draft, templates, now())
            if _put(store, conversation.id, row, new, sources, source):
                state.made.append(row.public_id)
                report_length(conversation, row.public_id, new, settings, on_event)
    state.read_items()
    if state.stop in ("", "passes", "deadline") and (tried or unanswered):
        state.stop = "unavailable" if unanswered else "in vain"
    state.without_model = ""
    return state.done(before)


def _count_tries(store: Store, conversation_id: int, ids: set[int]) -> set[int]:
    """Count a try for each of these summaries."""
    for each in ids:
        store.summaries.note_try(conversation_id, each)
    return ids


def _next(store: Store, conversation_id: int, tried: set[int]) -> SummaryRow | None:
    """Return the next summary to rewrite, each once in a sweep."""
    rows = store.summaries.unsettled(conversation_id, tries=MOST_TRIES, limit=len(tried) + 1)
    return next((row for row in rows if row.id not in tried), None)


def _put(
    store: Store, conversation_id: int, row: SummaryRow, new: NewSummary, sources: list[TextAt], source: SourceText
) -> bool:
    """Write the new text, unless a source or the previous context in its prompt changed meanwhile."""
    with store.transaction():
        store.conversations.hold(conversation_id)
        is_same = store.operations.source_revisions(conversation_id, row.id) == sources and store.context.has_texts(
            source.revisions
        )
        return is_same and store.summaries.revise(conversation_id, row, new)


def request_of(
    store: Store, conversation: ConversationRow, row: SummaryRow, settings: Settings, templates: Templates
) -> SummaryRequest:
    """Return the request that a summary was made with: its sources, as they are written now, and its previous context."""
    settings = fit_to_window(store, conversation, settings)[1]
    if not any(store.summaries.sources(conversation.id, row.id)):
        raise InvalidInput(f"{row.public_id} has no sources any more.", hint="Its messages were removed.")
    source = _source_text(store, conversation, row, settings)
    return summary_request(source, settings, templates, aggressive=row.level == "aggressive")


def _source_text(store: Store, conversation: ConversationRow, row: SummaryRow, settings: Settings) -> SourceText:
    seqs, ids = store.summaries.sources(conversation.id, row.id)
    if row.depth == 0:
        previous = store.summaries.before(conversation.id, row.id, 0)
        return of_messages(conversation.id, store.messages.at(conversation.id, seqs), previous, settings)
    found = {each.id: each for each in store.summaries.read(conversation.id, ids)}
    previous = store.summaries.before(conversation.id, ids[0], 0) if row.depth == 1 else []
    return of_summaries([found[identity] for identity in ids], previous, settings)
