"""One summary: what its sources say, what a summariser makes of that, and what is kept of it.

A text shorter than its sources comes out, whatever the summariser does: from the model, from a stricter prompt, from the
extractive summariser, or cut.
"""

from __future__ import annotations

import os
import re
from collections.abc import Generator, Sequence
from functools import cached_property

from msgspec import Struct
from msgspec.structs import replace

from lossless.config import Settings
from lossless.engine.compaction import prompts, summary_lengths, summary_source
from lossless.engine.compaction.faithful import Faithfulness, check_own, own_words, without
from lossless.engine.compaction.prompts import FOOTER, Templates
from lossless.engine.compaction.summary_source import Entry
from lossless.errors import SummarizerAuth, SummarizerBlocked, SummarizerError, SummarizerUnavailable
from lossless.model import Summary, SummaryRequest
from lossless.store import jsontext, seals
from lossless.store.base import MessageRow, NewSummary, SummaryRow, TextAt
from lossless.store.rows import moment, said_in, spoken_by
from lossless.summarizers.base import Reply
from lossless.tokens import estimate, truncate

CUT = "[Truncated for context management]"
PROVISIONAL = ("extractive", "cut")
"""The levels of summaries that no model wrote, or not to their end."""
_LEAST_CUT = 16
"""Less than this of a source says nothing: then there is no summary."""
_MOST_ROUNDS = 3
"""How often suspected claims are looked for in what is left of a text."""
_NOTHING = re.compile(
    r"(?im)^([ \t*_]*expand for details about:[*_]*)[ \t]*(?:\(?none\)?|nothing(?: else)?|n/a|-|)[ \t*_]*\.?[ \t]*$"
)
_LAST_LINES = re.compile(r"(?im)^(?:expand for details about|files):.*$")
_UNVERIFIED = "statements left out because they were not found in the sources"
_REST = f"{FOOTER} everything after this point"


class Told(Struct, frozen=True):
    """What the sources of a summary say, and what a summary of them has to carry."""

    depth: int
    text: str
    size: int
    """What the text costs a summariser."""
    tokens: int
    """What the sources cost in the context."""
    previous: str | None
    evidence: str
    """What of that its own sources bear out: an invention must not vouch for the next one."""
    first_at: int | None
    last_at: int | None
    source_tokens: int
    descendants: int
    file_ids: tuple[str, ...]
    revisions: tuple[TextAt, ...] = ()
    """Which texts of summaries the prompt holds, sources and previous context: a draft is void once one of them changed."""
    seal: str | None = None
    """The witness of the messages it was read from."""


class Draft(Struct, frozen=True, dict=True):
    """A summary's text, and how it came about."""

    text: str
    model: str
    level: str
    faithful: float | None

    @cached_property
    def tokens(self) -> int:
        return estimate(self.text)


def of_messages(
    conversation_id: int, rows: Sequence[MessageRow], previous: Sequence[SummaryRow], settings: Settings
) -> Told:
    """Return what a run of messages says."""
    times = [row.created_at if row.at is None else row.at for row in rows]
    entries = [Entry(at, *spoken_by(row), said_in(row)) for at, row in zip(times, rows, strict=True)]
    text = summary_source.written(entries, settings.zone, settings.strip_injected_context_tags)
    tokens = sum(row.tokens for row in rows)
    files = summary_source.file_ids([row.text for row in rows])
    vouching = _joined(previous), _evidence(previous)
    return Told(
        *(0, text, estimate(text), tokens, *vouching, min(times), max(times), tokens, 0, files),
        revisions=_texts(previous),
        seal=seals.of_messages([(row.role, row.text, row.parts, row.at) for row in rows]),
    )


def of_summaries(rows: Sequence[SummaryRow], previous: Sequence[SummaryRow], settings: Settings) -> Told:
    """Return what a run of summaries says."""
    starts = [row.earliest_at for row in rows if row.earliest_at is not None]
    ends = [row.latest_at for row in rows if row.latest_at is not None]
    known = [each for row in rows for each in jsontext.stored(row.file_ids)]
    text = summary_source.condensed_source([as_summary(row) for row in rows], settings.zone)
    return Told(
        max(row.depth for row in rows) + 1,
        text,
        estimate(text),
        sum(row.tokens for row in rows),
        _joined(previous) if rows[0].depth == 0 else None,
        _evidence(previous),
        min(starts, default=None),
        max(ends, default=None),
        sum(row.source_tokens for row in rows),
        sum(row.descendants + 1 for row in rows),
        tuple(dict.fromkeys([*known, *summary_source.file_ids([row.text for row in rows])])),
        _texts([*previous, *rows]),
    )


def _texts(rows: Sequence[SummaryRow]) -> tuple[TextAt, ...]:
    return tuple((row.id, row.revision, row.created_at) for row in rows)


def _joined(previous: Sequence[SummaryRow]) -> str | None:
    return "\n\n".join(row.text for row in previous) or None


def _evidence(previous: Sequence[SummaryRow]) -> str:
    return _joined([row for row in previous if row.faithful is None or row.faithful >= 1]) or ""


def drafted(told: Told, settings: Settings, templates: Templates) -> Generator[SummaryRequest, Reply, Draft]:
    """Return the best text a summariser gives, or one without it where its answers do not serve.

    Raises the `SummarizerError` of a summariser that could not be asked: whether to do without it is the caller's choice.
    """
    best: Draft | None = None
    for aggressive in (False, True):
        try:
            draft = yield from _asked(told, settings, templates, aggressive=aggressive)
        except SummarizerError:
            if best is None:
                raise
            break
        if draft is None:
            break
        if draft.tokens < _most(told):
            if draft.level != "cut" and (draft.faithful is None or draft.faithful >= 1):
                return _capped(told, _footed(told, draft), settings)
            best = max(draft, best or draft, key=_worth)
    if best and (best.faithful or 0) < 1:
        best = _without_suspects(told, best)
    return _capped(told, _footed(told, best), settings) if best else without_model(told, settings, templates)


def _worth(draft: Draft) -> tuple[bool, float]:
    return draft.level != "cut", draft.faithful or 0


def _without_suspects(told: Told, draft: Draft) -> Draft | None:
    """Return the draft without its suspected claims; None if it is mostly made of them."""
    text = draft.text
    for _ in range(_MOST_ROUNDS):
        found = _checked(text, told)
        if found is None:
            return None
        if found.passed:
            break
        text = without(text, found.unsupported)
    else:
        return None
    said = _LAST_LINES.sub("", text).strip()
    if not said or 2 * estimate(said) < estimate(_LAST_LINES.sub("", draft.text)):
        return None
    body, marked, topics = text.rpartition(FOOTER)
    named = "" if _NOTHING.search(f"{marked}{topics}") else topics.strip(" .")
    line = f"{FOOTER} {named}, {_UNVERIFIED}" if marked and named else f"{FOOTER} {_UNVERIFIED}"
    whole = replace(draft, text=f"{(body if marked else text).rstrip()}\n{line}", faithful=1.0)
    return whole if whole.tokens < _most(told) else None


def _footed(told: Told, draft: Draft) -> Draft:
    """Return the draft with a last line that names what it left out: a shorter text never says everything."""
    if draft.level == "cut":
        begun = FOOTER in draft.text.rpartition("\n")[2]
        rest = ", everything after this point" if begun else f"\n{_REST}"
        return replace(draft, text=f"{draft.text}{rest}\n{CUT}")
    if draft.level in PROVISIONAL or not _NOTHING.search(draft.text):
        return draft
    from lossless.summarizers.extractive import left_out

    topics = left_out(told.text, told.depth, draft.text)
    text = _NOTHING.sub(lambda found: f"{found[1]} {topics}", draft.text)
    named = replace(draft, text=text)
    return named if named.tokens < _most(told) else replace(draft, text=_NOTHING.sub("", draft.text).strip())


def _most(told: Told) -> int:
    """Return a summary has to be shorter than what it stands for, as it is written and as it counts in the context."""
    return min(told.size, told.tokens)


def _asked(
    told: Told, settings: Settings, templates: Templates, *, aggressive: bool
) -> Generator[SummaryRequest, Reply, Draft | None]:
    """Return what a summariser makes of it; None when it was asked and gave nothing."""
    try:
        reply = yield _request(told, settings, templates, aggressive=aggressive)
    except (SummarizerAuth, SummarizerBlocked):
        raise
    except SummarizerError as error:
        if isinstance(error, SummarizerUnavailable) and error.outage:
            raise
        return None
    text = reply.text.strip()
    if not text:
        return None
    provisional = reply.model == "extractive"
    score = None if provisional else _support(text, told)
    if reply.cut:
        return Draft(text, reply.model, "cut", score)
    level = "extractive" if provisional else "aggressive" if aggressive else "normal"
    return Draft(text, reply.model, level, score)


def _support(text: str, told: Told) -> float:
    """Return how far the sources bear a text out: not at all when it orders its reader about and they do not."""
    found = _checked(text, told)
    return found.score if found else 0.0


def _checked(text: str, told: Told) -> Faithfulness | None:
    """Look the claims of a text up in its sources; None if it orders its reader about and they do not."""
    from lossless.summarizers.injections import find_injections

    own = own_words(text, told.text)
    if find_injections(own, by_user=True) and not find_injections(told.text, by_user=True):
        return None
    return check_own(own, told.text, context=told.evidence)


def _request(told: Told, settings: Settings, templates: Templates, *, aggressive: bool) -> SummaryRequest:
    wanted = summary_lengths.target(told.depth, told.size, settings, aggressive=aggressive)
    return prompts.request(
        told.text,
        depth=told.depth,
        target_tokens=wanted,
        max_tokens=summary_lengths.completion_limit(wanted),
        previous=told.previous,
        aggressive=aggressive,
        settings=settings,
        templates=templates,
    )


def without_model(told: Told, settings: Settings, templates: Templates) -> Draft:
    """Return a text made by the embedded summariser: provisional, to be re-made by a model later."""
    from lossless.summarizers.extractive import summarize

    text = summarize(_request(told, settings, templates, aggressive=True)).strip()
    draft = Draft(text, "extractive", "extractive", None)
    if text and draft.tokens < _most(told):
        return _capped(told, draft, settings)
    room = min(settings.fallback_max_tokens, _most(told)) - estimate(f"{_REST}\n{CUT}") - 2
    kept = truncate(told.text, room).strip() if room >= _LEAST_CUT else ""
    return Draft(f"{kept}\n{_REST}\n{CUT}" if kept else "", "extractive", "cut", None)


def _capped(told: Told, draft: Draft, settings: Settings) -> Draft:
    """Return the draft, cut where it exceeds what a summary of its depth may cost."""
    most = summary_lengths.hard_cap(
        summary_lengths.configured(told.depth, settings), settings.summary_max_overage_factor
    )
    if draft.tokens <= most:
        return draft
    kept = _NOTHING.sub("", truncate(draft.text, most - estimate(f"{_REST}\n{CUT}") - 1)).strip()
    return Draft(f"{kept}\n{_REST}\n{CUT}", draft.model, "cut", draft.faithful)


def as_row(told: Told, draft: Draft, templates: Templates, now: float) -> NewSummary:
    """Return the draft as a row of its own."""
    text = jsontext.cleaned(draft.text)
    return NewSummary(
        f"sum_{os.urandom(8).hex()}",
        told.depth,
        text,
        draft.tokens if text == draft.text else estimate(text),
        told.first_at,
        told.last_at,
        told.descendants,
        told.source_tokens,
        jsontext.dumps(list(told.file_ids)),
        draft.model,
        draft.level,
        templates.version,
        draft.faithful,
        int(now * 1_000_000),
    )


def as_summary(row: SummaryRow) -> Summary:
    """Return a summary's row as the value callers see."""
    return Summary(
        row.public_id,
        row.depth,
        row.text,
        row.tokens,
        None if row.earliest_at is None else moment(row.earliest_at),
        None if row.latest_at is None else moment(row.latest_at),
        row.descendants,
        row.source_tokens,
        row.model,
        row.level,
        row.revision,
        row.origin,
        row.faithful,
    )
