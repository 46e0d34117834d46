"""Summarize without a model, by quoting.

Every sentence of the summary is a quotation of the source. It takes the sentences with most facts for their length,
spreads them over the time of the source, avoids repetition, and names what it left out. Deterministic and offline.

The format, which it also reads when summaries are condensed (`…` for omissions, `·` between lines):

    Goal: We move the service from MariaDB to PostgreSQL.
    2026-02-17 (PST)
    15:37 user: We keep SQLite. … Never deploy on Fridays.
    15:41 tool bash: 2 failed, 118 passed
    Open: [2026-02-17 15:44 | user] Which region do we use?
    Files: src/app.py (edited), notes.md (read)
    Expand for details about: bash x12, retries of the worker, prices

A summary of summaries is shorter: without times of day, and without clauses that say nothing. It begins with the goal
and the standing rules in the user's words, and ends with the next step:

    Goal: We move the service from MariaDB to PostgreSQL.
    Rule: Never deploy on Fridays.
    2026-02-17 - 02-21 (PST)
    user: We keep SQLite. … The budget is 400 euros.
    Next: Ana switches the reads on Monday.
"""

from __future__ import annotations

from collections.abc import Sequence

from lossless.model import SummaryRequest
from lossless.summarizers.extractive import topics
from lossless.summarizers.extractive.goals import GUIDES, mark_goal, mark_next
from lossless.summarizers.extractive.key_phrases import KeyPhrases
from lossless.summarizers.extractive.layout import dated_lines, open_line, timed_lines
from lossless.summarizers.extractive.passages import ParsedSource
from lossless.summarizers.extractive.profiles import CHAT, SUMMARIES, WORK, Profile
from lossless.summarizers.extractive.questions import mark_questions
from lossless.summarizers.extractive.ranking import rank_passages
from lossless.summarizers.extractive.reader import read_source
from lossless.summarizers.extractive.rules import mark_rules
from lossless.summarizers.extractive.shorten import shorten
from lossless.summarizers.extractive.statements import link_statements
from lossless.summarizers.extractive.weights import WeightedPassage, lower_vague, weigh
from lossless.summarizers.extractive.words import split_words
from lossless.tokens import estimate, truncate

FILES = "Files: "
EXPAND = "Expand for details about: "
_FILES_SHARE = 0.08
_USUAL = 500
"""The length for which the share of the footer is set; that of a longer summary grows more slowly."""
_MOST_TOOLS = 3
_MOST_NAMED = 5
_WORDING = "the exact wording"


def summarize(request: SummaryRequest) -> str:
    """Summarize `request.source` by quotations, at most `request.target_tokens` long.

    It ends with a `Files:` line and a line of omitted topics, and is shorter than its source wherever these fit.
    """
    parsed = read_source(request.source, request.depth)
    limit = max(1, min(request.target_tokens, estimate(request.source) - 1))
    profile = _profile(parsed, request.depth)
    weighted = _weigh(parsed, profile, limit)
    mark_goal(weighted, is_beginning=not request.depth and not request.previous)
    if request.depth:
        mark_next(weighted)
        for each in weighted:
            if each.passage.place.role != "tool":
                each.passage.text = shorten(each.passage.text, each.facts)
    known = {word.lower() for word in split_words(request.previous or "")}
    order = list(rank_passages(weighted, known, limit, profile))
    draft = _Draft(parsed, weighted, request, limit, profile)
    fits, exceeds = 0, len(order) + 1
    while exceeds - fits > 1:
        middle = (fits + exceeds) // 2
        if estimate(draft.text(order[:middle])) <= limit:
            fits = middle
        else:
            exceeds = middle
    return draft.text(order[:fits])


def left_out(source: str, depth: int, summary: str) -> str:
    """Name topics of a source that its summary does not mention."""
    parsed = read_source(source, depth)
    phrases = KeyPhrases(parsed, _weigh(parsed, _profile(parsed, depth), estimate(summary)))
    missing = phrases.missing_in([[word.lower() for word in split_words(summary)]], set())
    return ", ".join(missing[:_MOST_NAMED]) or _WORDING


def _profile(parsed: ParsedSource, depth: int) -> Profile:
    """Return the weights for a source: of summaries, of an agent with tools, or of people who only talk."""
    if depth:
        return SUMMARIES
    return WORK if parsed.calls or any(each.place.role == "tool" for each in parsed.passages) else CHAT


def _weigh(parsed: ParsedSource, profile: Profile, limit: int) -> list[WeightedPassage]:
    weighted = weigh(parsed, profile)
    mark_questions(weighted, profile, max(1, limit // profile.tokens_of_open))
    mark_rules(weighted, profile)
    link_statements(weighted)
    lower_vague(weighted, profile)
    return weighted


class _Draft:
    """A summary of any selection of passages."""

    def __init__(
        self,
        parsed: ParsedSource,
        weighted: Sequence[WeightedPassage],
        request: SummaryRequest,
        limit: int,
        profile: Profile,
    ) -> None:
        self._limit = limit
        self._deep = request.depth > 0
        self._count = len(weighted)
        self._files = _listing(FILES, topics.list_files(parsed, request.source), limit, _FILES_SHARE)
        self._tools = topics.list_tools(parsed)[:_MOST_TOOLS]
        self._phrases = KeyPhrases(parsed, weighted)
        self._footer_share = profile.footer * (_USUAL / limit) ** 0.5

    def text(self, chosen: Sequence[WeightedPassage]) -> str:
        ordered = sorted(chosen, key=lambda each: each.passage.at)
        rules = [each for each in ordered if each.rule and self._deep]
        opened = [each for each in ordered if each.open]
        apart = {each.passage.at for each in (*rules, *opened)}
        rest = [each for each in ordered if each.passage.at not in apart and each.passage.kind not in GUIDES]
        lines = [
            *_marked("Goal", [each for each in ordered if each.passage.kind == "goal"]),
            *_marked("Rule", rules),
            *(dated_lines(rest, self._limit) if self._deep else timed_lines([each.passage for each in rest])),
            *_marked("Next", [each for each in ordered if each.passage.kind == "next"]),
            *(open_line(each.passage, timed=not self._deep) for each in opened),
        ]
        return "\n".join([*lines, self._files, self._expand(ordered)])

    def _expand(self, chosen: Sequence[WeightedPassage]) -> str:
        kept = {each.passage.at for each in chosen}
        items = [*self._tools, *self._phrases.missing_in([each.words for each in chosen], kept)]
        if not items and (len(chosen) < self._count or not self._count):
            items = [_WORDING]
        return _listing(EXPAND, items, self._limit, self._footer_share)


def _marked(label: str, chosen: Sequence[WeightedPassage]) -> list[str]:
    return [f"{label}: {each.passage.text}" for each in chosen]


def _listing(frame: str, items: Sequence[str], limit: int, share: float) -> str:
    """Join as many items as their share of the summary allows, at least the beginning of the first."""
    line, cost = "", 0
    for item in items:
        cost += estimate(item) + 1
        if cost > share * limit:
            break
        line = f"{line}, {item}" if line else item
    if items and not line:
        line = truncate(items[0], max(3, min(12, limit // 8)))
    return f"{frame}{line.strip() or 'none'}"
