"""Write one summary: read its sources, call a summariser, and check the result.

The result is always shorter than its sources, whatever the summariser does: from the model, from a stricter prompt, from the
extractive summariser, or cut. Statements of a model that its sources do not support are left out of it.
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
from lossless.engine.compaction.faithful import check_claims, copies, own_words, repeats_prompt, statements, without
from lossless.engine.compaction.prompts import FOOTER, Templates
from lossless.engine.compaction.summary_source import SourceEntry
from lossless.errors import SummarizerAuth, SummarizerBlocked, SummarizerError, SummarizerUnavailable
from lossless.model import Summary, SummaryRequest
from lossless.model.summaries import LEFT_OUT
from lossless.store import jsontext, seals
from lossless.store.rows.codec import moment, said_in, spoken_by
from lossless.store.rows.types import MessageRow, NewSummary, SummaryRow, TextAt
from lossless.summarizers.base import EMBEDDED, METHOD, Reply
from lossless.tokens import estimate, truncate

CUT = "[Truncated for context management]"
PROVISIONAL = ("extractive", "cut")
"""The levels of summaries that no model wrote, or not to their end."""
_LEAST_CUT = 16
"""The least tokens of a cut source; below it no summary is written."""
_NOTHING = re.compile(
    r"(?im)^([ \t*_]*expand for details about:[*_]*)[ \t]*(?:\(?none\)?|nothing(?: else)?|n/a|-|)[ \t*_]*\.?[ \t]*$"
)
_LAST_LINES = re.compile(r"(?im)^(?:expand for details about|files):.*$")
_LEFT_OUT = "{} statements left out because they were not found in the sources"
_ONE_LEFT_OUT = "{} statement left out because it was not found in the sources"
_UNVERIFIED = re.compile(rf"(?:,[ \t]*)?{LEFT_OUT.pattern}\.?", re.I)
"""Only this module may say this: a model that copies it from its sources says it of another text."""
_ENDED = re.compile(r"[.!?…。！？][\"'”’»)\]*_`」』]*\s*$")
_BROKEN = re.compile(
    r"(?:[,;(\[–—-]|\b(?:and|or|the|a|an|of|to|with|und|oder|der|die|das|mit|y|o|el|la|de|et|ou|le|e|и|или|в|на|с))\s*$",
    re.I,
)
_LEAST_LEFT = 0.5
"""The share of a reply that must be left without the statements that were not found."""
_REST = f"{FOOTER} everything after this point"


class SourceText(Struct, frozen=True):
    """The text of a summary's sources, and the facts that the summary inherits."""

    depth: int
    text: str
    size: int
    """The tokens of the text for a summariser."""
    tokens: int
    """The tokens of the sources in the context."""
    previous: str | None
    evidence: str
    """The part of `previous` that its own sources support; unsupported claims are no evidence."""
    first_at: int | None
    last_at: int | None
    source_tokens: int
    descendants: int
    file_ids: tuple[str, ...]
    revisions: tuple[TextAt, ...] = ()
    """The texts of summaries in the prompt: a draft is discarded if one of them changed."""
    seal: str | None = None
    """The hash of the messages it was read from."""

    @property
    def can_shrink(self) -> bool:
        """True if it is long enough for a summary that is shorter."""
        return summary_lengths.can_shrink(self.depth, min(self.size, self.tokens))


class Draft(Struct, frozen=True, dict=True):
    """The text of a summary, and how it was written."""

    text: str
    model: str
    level: str
    faithful: float | None

    @cached_property
    def tokens(self) -> int:
        return estimate(self.text)


def of_messages(
    conversation_id: int, rows: Sequence[MessageRow], previous: Sequence[SummaryRow], settings: Settings
) -> SourceText:
    """Return the source text of a run of messages."""
    times = [row.created_at if row.at is None else row.at for row in rows]
    entries = [SourceEntry(at, *spoken_by(row), said_in(row)) for at, row in zip(times, rows, strict=True)]
    text = summary_source.write_entries(entries, settings.zone, settings.strip_injected_context_tags)
    tokens = sum(row.tokens for row in rows)
    files = summary_source.file_ids([row.text for row in rows])
    vouching = _join(previous), _evidence(previous)
    return SourceText(
        *(0, text, estimate(text), tokens, *vouching, min(times), max(times), tokens, 0, files),
        revisions=_texts(previous),
        seal=seals.of_messages([(row.role, row.text, row.parts, row.at) for row in rows]),
    )


def of_summaries(rows: Sequence[SummaryRow], previous: Sequence[SummaryRow], settings: Settings) -> SourceText:
    """Return the source text of a run of summaries."""
    starts = [row.earliest_at for row in rows if row.earliest_at is not None]
    ends = [row.latest_at for row in rows if row.latest_at is not None]
    known = [each for row in rows for each in jsontext.stored(row.file_ids)]
    text = summary_source.condensed_source([as_summary(row) for row in rows], settings.zone)
    return SourceText(
        max(row.depth for row in rows) + 1,
        text,
        estimate(text),
        sum(row.tokens for row in rows),
        _join(previous) if rows[0].depth == 0 else None,
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


def _join(previous: Sequence[SummaryRow]) -> str | None:
    return "\n\n".join(row.text for row in previous) or None


def _evidence(previous: Sequence[SummaryRow]) -> str:
    return _join([row for row in previous if row.faithful is None or row.faithful >= 1]) or ""


def draft_summary(
    source: SourceText, settings: Settings, templates: Templates
) -> Generator[SummaryRequest, Reply, Draft]:
    """Return the best text of a summariser, or one without it if its replies are not usable.

    Raise the `SummarizerError` of a summariser that could not be called: the caller decides whether to continue without it.
    """
    best: Draft | None = None
    for aggressive in (False, True):
        try:
            draft = yield from _ask_model(source, settings, templates, aggressive=aggressive)
        except SummarizerError:
            if best is None:
                raise
            break
        if draft is None:
            break
        if draft.text and draft.tokens < _most(source):
            if draft.level != "cut":
                return _cap(source, _with_footer(source, draft), settings)
            best = best or draft
    return _cap(source, _with_footer(source, best), settings) if best else without_model(source, settings, templates)


def _with_footer(source: SourceText, draft: Draft) -> Draft:
    """Return the draft with a last line that names what it left out."""
    if draft.level == "cut":
        begun = FOOTER in draft.text.rpartition("\n")[2]
        rest = ", everything after this point" if begun else f"\n{_REST}"
        return replace(draft, text=f"{draft.text}{rest}\n{CUT}")
    if draft.level in PROVISIONAL or not _NOTHING.search(draft.text):
        return draft
    from lossless.summarizers.extractive import left_out

    topics = left_out(source.text, source.depth, draft.text)
    text = _NOTHING.sub(lambda found: f"{found[1]} {topics}", draft.text)
    named = replace(draft, text=text)
    return named if named.tokens < _most(source) else replace(draft, text=_NOTHING.sub("", draft.text).strip())


def _most(source: SourceText) -> int:
    """Return the limit of a summary: shorter than its source, as text and in the context.

    A condensed summary may exceed the longest target, 40 % of its sources, by half: models do not count exactly.
    """
    shorter = min(source.size, source.tokens)
    if source.depth == 0:
        return shorter
    return min(shorter, summary_lengths.completion_limit(summary_lengths.most_condensed(shorter)) + 1)


def _ask_model(
    source: SourceText, settings: Settings, templates: Templates, *, aggressive: bool
) -> Generator[SummaryRequest, Reply, Draft | None]:
    """Return the draft of a summariser, without text if it is refused; None if its reply was empty or a copy."""
    request = summary_request(source, settings, templates, aggressive=aggressive)
    try:
        reply = yield request
    except (SummarizerAuth, SummarizerBlocked):
        raise
    except SummarizerError as error:
        if isinstance(error, SummarizerUnavailable) and error.outage:
            raise
        return None
    text = reply.text.strip()
    if not text:
        return None
    if reply.model == "extractive":
        return Draft(text, reply.model, "cut" if reply.cut else "extractive", None)
    whole = complete_sentences(text, cut=reply.cut)
    level = "cut" if reply.cut or len(whole) < len(text) else "aggressive" if aggressive else "normal"
    return _verified(Draft(whole, reply.model, level, None), source, request)


def _verified(draft: Draft, source: SourceText, request: SummaryRequest) -> Draft | None:
    """Return the draft without the statements that its sources do not support; without any text if it is refused.

    Refused are orders that the sources do not give, repetitions of the request, and a text of which too little is left.
    None if it is a copy of the summary before it: a model that did not read its source will not read it in a second request.
    """
    from lossless.summarizers.injections import find_injections

    text = _UNVERIFIED.sub("", draft.text)
    own = own_words(text, source.text)
    if find_injections(own, by_user=True) and not find_injections(source.text, by_user=True):
        return replace(draft, text="")
    if 2 * len(own.split()) > len(text.split()):
        if copies(text, source.text, source.previous or ""):
            return None
        if repeats_prompt(text, source.text, _instructions(request)):
            return replace(draft, text="")
    found = check_claims(text, source.text, context=source.evidence)
    kept = without(text, found.suspected)
    said = _LAST_LINES.sub("", kept).strip()
    if found.invented or not said or estimate(said) < _LEAST_LEFT * estimate(_LAST_LINES.sub("", text).strip()):
        return replace(draft, text="")
    if found.suspected:
        kept = _with_count(kept, len(found.suspected))
    score = 1 - len(found.doubted) / max(found.checked, len(found.doubted) + 1) if found.doubted else 1.0
    return replace(draft, text=kept, faithful=score)


def _instructions(request: SummaryRequest) -> str:
    """Return a request without the texts that it is about."""
    given = {line for text in (request.source, request.previous or "") for line in text.split("\n")}
    return "\n".join([request.system, *(line for line in request.prompt.split("\n") if line not in given)])


def _with_count(text: str, removed: int) -> str:
    """Return the text with a last line that says how many statements were removed from it."""
    note = (_LEFT_OUT if removed > 1 else _ONE_LEFT_OUT).format(removed)
    body, marked, topics = text.rpartition(FOOTER)
    if not marked:
        return f"{text.rstrip()}\n{FOOTER} {note}"
    first, _, rest = topics.partition("\n")
    named = "" if _NOTHING.search(f"{marked}{first}") else f"{first.strip(' .*_')}, "
    return f"{body.rstrip()}\n{FOOTER} {named}{note}" + (f"\n{rest}" if rest.strip() else "")


def summary_request(
    source: SourceText, settings: Settings, templates: Templates, *, aggressive: bool
) -> SummaryRequest:
    """Return the request for a summary of a source."""
    size = min(source.size, source.tokens) if source.depth else source.size
    wanted = summary_lengths.target(source.depth, size, settings, aggressive=aggressive)
    return prompts.request(
        source.text,
        depth=source.depth,
        target_tokens=wanted,
        max_tokens=summary_lengths.completion_limit(wanted),
        previous=source.previous,
        aggressive=aggressive,
        settings=settings,
        templates=templates,
    )


def without_model(source: SourceText, settings: Settings, templates: Templates) -> Draft:
    """Return a draft of the built-in summariser: provisional, to be rewritten by a model later."""
    from lossless.summarizers.extractive import summarize

    text = summarize(summary_request(source, settings, templates, aggressive=True)).strip()
    draft = Draft(text, "extractive", "extractive", None)
    if text and draft.tokens < _most(source):
        return _cap(source, draft, settings)
    space = min(settings.fallback_max_tokens, _most(source)) - estimate(f"{_REST}\n{CUT}") - 2
    beginning = truncate(source.text, space).strip() if space >= _LEAST_CUT else ""
    return Draft(f"{beginning}\n{_REST}\n{CUT}" if beginning else "", "extractive", "cut", None)


def _cap(source: SourceText, draft: Draft, settings: Settings) -> Draft:
    """Return the draft, cut if it exceeds the hard limit for its depth."""
    most = summary_lengths.hard_cap(
        summary_lengths.configured(source.depth, settings), settings.summary_max_overage_factor
    )
    if draft.tokens <= most:
        return draft
    space = most - estimate(f"{_REST}\n{CUT}") - 1
    beginning = complete_sentences(_NOTHING.sub("", truncate(draft.text, space)).strip(), cut=True)
    return Draft(f"{beginning}\n{_REST}\n{CUT}", draft.model, "cut", draft.faithful)


def complete_sentences(text: str, *, cut: bool) -> str:
    """Return a text without the half of a sentence at its end, if it was cut or plainly stops there."""
    head, _, last = text.rpartition("\n")
    if _LAST_LINES.match(last.strip()) or _ENDED.search(last):
        return text
    spans = statements(last)
    rest = last[: spans[-1][0]].rstrip() if len(spans) > 1 else ""
    before = [line for line in (*head.split("\n"), rest) if line.strip()]
    stops = _BROKEN.search(last) or (before and all(_ENDED.search(line) for line in before))
    return "\n".join(filter(None, (head.rstrip(), rest))) or text if cut or stops else text


def as_row(source: SourceText, draft: Draft, templates: Templates, now: float) -> NewSummary:
    """Return the draft as a row."""
    text = jsontext.cleaned(draft.text)
    return NewSummary(
        f"sum_{os.urandom(8).hex()}",
        source.depth,
        text,
        draft.tokens if text == draft.text else estimate(text),
        source.first_at,
        source.last_at,
        source.descendants,
        source.source_tokens,
        jsontext.dumps(list(source.file_ids)),
        draft.model,
        draft.level,
        METHOD if draft.level == EMBEDDED else templates.version,
        draft.faithful,
        int(now * 1_000_000),
    )


def as_summary(row: SummaryRow) -> Summary:
    """Return a summary's row as the public value."""
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
