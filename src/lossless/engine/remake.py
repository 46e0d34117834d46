"""Summaries made anew: those that no model wrote, once there is one, and those made from them.

A flow like that of compaction. The shallowest first, so that a summary is made anew once, after all its sources. The
earlier text is kept as a revision; a summary that a model fails at several times is left as it is.
"""

from __future__ import annotations

from collections.abc import Callable

from lossless.config import Settings
from lossless.engine import plan
from lossless.engine.compact import Flow, Work, asked
from lossless.engine.draft import PROVISIONAL, Told, as_row, of_messages, of_summaries
from lossless.engine.prompts import Templates
from lossless.store.base import ConversationRow, NewSummary, Store, SummaryRow, TextAt

MOST_TRIES = 3


def remake(
    store: Store,
    conversation: ConversationRow,
    settings: Settings,
    *,
    templates: Templates,
    now: Callable[[], float],
    wanted_elsewhere: Callable[[], bool],
) -> Flow:
    """Make the unsettled summaries of a conversation anew, as far as one sweep goes."""
    limits = plan.limits(settings, max(1, conversation.context_tokens))
    deadline = now() + settings.sweep_deadline_ms / 1000
    work = Work(store, conversation, settings, limits, templates, now, deadline, wanted_elsewhere, patient=True)
    before = conversation.context_tokens
    tried: set[int] = set()
    while work.may_go_on() and (row := _next(store, conversation.id, tried)):
        work.passes += 1
        sources = store.source_revisions(conversation.id, row.id)
        told = _told(store, conversation, row, settings)
        draft = yield from asked(work, told)
        if draft is None:
            break
        if draft.level in PROVISIONAL:
            tried.add(row.id)
            store.note_try(conversation.id, row.id)
        elif _put(store, conversation.id, row, as_row(told, draft, templates, now()), sources, told):
            work.made.append(row.public_id)
    work.look()
    if tried and work.stop in ("", "passes", "deadline"):
        work.stop = "in vain"
    return work.done(before)


def _next(store: Store, conversation_id: int, tried: set[int]) -> SummaryRow | None:
    """The next summary to be made anew, each tried once a sweep."""
    rows = store.unsettled(conversation_id, tries=MOST_TRIES, limit=len(tried) + 1)
    return next((row for row in rows if row.id not in tried), None)


def _put(
    store: Store, conversation_id: int, row: SummaryRow, new: NewSummary, sources: list[TextAt], told: Told
) -> bool:
    """Write the new text, unless a source or the previous context in its prompt changed meanwhile."""
    with store.transaction():
        store.hold(conversation_id)
        is_same = store.source_revisions(conversation_id, row.id) == sources and store.has_texts(told.revisions)
        return is_same and store.revise(conversation_id, row, new)


def _told(store: Store, conversation: ConversationRow, row: SummaryRow, settings: Settings) -> Told:
    seqs, ids = store.sources(conversation.id, row.id)
    if row.depth == 0:
        previous = store.before(conversation.id, row.id, 0)
        return of_messages(conversation.id, store.messages_at(conversation.id, seqs), previous, settings)
    found = {each.id: each for each in store.summaries(conversation.id, ids)}
    previous = store.before(conversation.id, ids[0], 0) if row.depth == 1 else []
    return of_summaries([found[identity] for identity in ids], previous, settings)
