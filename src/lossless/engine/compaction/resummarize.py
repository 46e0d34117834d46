"""Summaries made anew: those that no model wrote, once there is one, and those made from them.

A flow like that of compaction. The shallowest first, so that a summary is made anew once, after all its sources. The
earlier text is kept as a revision. A summary for which a model gives several answers that do not serve is left as it is;
a model that cannot be asked, for however long, has not tried.
"""

from __future__ import annotations

from collections.abc import Callable

from lossless.config import Settings
from lossless.engine.compaction.prompts import Templates
from lossless.engine.compaction.summarize import PROVISIONAL, Told, as_row, drafted, of_messages, of_summaries
from lossless.engine.compaction.sweep import Flow, Work, fitted, report_length, retry_at, why
from lossless.errors import SummarizerError
from lossless.events import Hook, ignore
from lossless.store.base import ConversationRow, NewSummary, SummaryRow, TextAt
from lossless.store.store import Store

MOST_TRIES = 3


def remake(
    store: Store,
    conversation: ConversationRow,
    settings: Settings,
    *,
    templates: Templates,
    now: Callable[[], float],
    wanted_elsewhere: Callable[[], bool],
    on_event: Hook = ignore,
) -> Flow:
    """Make the unsettled summaries of a conversation anew, as far as one sweep goes."""
    limits, settings = fitted(store, conversation, settings)
    deadline = now() + settings.sweep_deadline_ms / 1000
    work = Work(store, conversation, settings, limits, templates, now, deadline, wanted_elsewhere)
    before = conversation.context_tokens
    tried: set[int] = set()
    unanswered: set[int] = set()
    while work.may_go_on() and (row := _next(store, conversation.id, tried | unanswered)):
        work.passes += 1
        sources = store.operations.source_revisions(conversation.id, row.id)
        told = _told(store, conversation, row, settings)
        try:
            draft = yield from drafted(told, settings, templates)
        except SummarizerError as error:
            work.go_on_without(error)
            unanswered.add(row.id)
            if work.alone:
                work.stop, work.retry_at = why(error), retry_at(error, now())
                break
            continue
        # The model answers others: what it did not answer it cannot do.
        tried |= _noted(store, conversation.id, unanswered)
        unanswered, work.misses = set(), 0
        if draft.level in PROVISIONAL:
            tried |= _noted(store, conversation.id, {row.id})
        else:
            new = as_row(told, draft, templates, now())
            if _put(store, conversation.id, row, new, sources, told):
                work.made.append(row.public_id)
                report_length(conversation, row.public_id, new, settings, on_event)
    work.look()
    if work.stop in ("", "passes", "deadline") and (tried or unanswered):
        work.stop = "unavailable" if unanswered else "in vain"
    work.without_model = ""
    return work.done(before)


def _noted(store: Store, conversation_id: int, ids: set[int]) -> set[int]:
    """Count a try of each of these summaries."""
    for each in ids:
        store.summaries.note_try(conversation_id, each)
    return ids


def _next(store: Store, conversation_id: int, tried: set[int]) -> SummaryRow | None:
    """Return the next summary to be made anew, each tried once a sweep."""
    rows = store.summaries.unsettled(conversation_id, tries=MOST_TRIES, limit=len(tried) + 1)
    return next((row for row in rows if row.id not in tried), None)


def _put(
    store: Store, conversation_id: int, row: SummaryRow, new: NewSummary, sources: list[TextAt], told: Told
) -> bool:
    """Write the new text, unless a source or the previous context in its prompt changed meanwhile."""
    with store.transaction():
        store.conversations.hold(conversation_id)
        is_same = store.operations.source_revisions(conversation_id, row.id) == sources and store.context.has_texts(
            told.revisions
        )
        return is_same and store.summaries.revise(conversation_id, row, new)


def _told(store: Store, conversation: ConversationRow, row: SummaryRow, settings: Settings) -> Told:
    seqs, ids = store.summaries.sources(conversation.id, row.id)
    if row.depth == 0:
        previous = store.summaries.before(conversation.id, row.id, 0)
        return of_messages(conversation.id, store.messages.at(conversation.id, seqs), previous, settings)
    found = {each.id: each for each in store.summaries.read(conversation.id, ids)}
    previous = store.summaries.before(conversation.id, ids[0], 0) if row.depth == 1 else []
    return of_summaries([found[identity] for identity in ids], previous, settings)
