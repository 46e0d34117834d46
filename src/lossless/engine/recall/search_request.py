"""Pure: search requests, checked, and the pages of a search."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from datetime import timedelta, tzinfo
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, get_args

from msgspec import Struct
from msgspec.structs import replace

from lossless.engine.shared.cursor import Position
from lossless.errors import InvalidInput
from lossless.model import Hit
from lossless.search import regex
from lossless.search.regex.literals import RequiredLiteral, required_literals
from lossless.store.rows.codec import micros
from lossless.times import Time, find_age, read_time

if TYPE_CHECKING:
    from lossless.search.snippets import TermFinder

Mode: TypeAlias = Literal["regex", "full_text", "semantic"]
Scope: TypeAlias = Literal["messages", "summaries", "both", "files"]
Sort: TypeAlias = Literal["recency", "relevance", "hybrid"]
MOST_HITS = 200
MOST_AROUND = 5
_COUNTING_SECONDS = 0.25
_KINDS = {"messages": ("message",), "summaries": ("summary",), "both": ("message", "summary"), "files": ("file",)}
_SYNTAX = re.compile(r"[\\\[\](){}|*+^$]|\?(?=\S)|\.\?")
_ASKING = re.compile(
    r"\s*(?:who|whom|whose|what|when|where|which|why|how|did|do|does|is|are|was|were|can|could|will|would|should|has|have"
    r"|had|tell|list|summari[sz]e)\b",
    re.IGNORECASE,
)
_QUOTED = re.compile(r'"[^"]*"')
_PATTERN_LIKE = re.compile(r"\\[bBdDsSwW]|\.[*+?]|\S\|\S|\[[^\]\s]{2,}\]|(?:^|\s)\^\S|\S\$(?:\s|$)")


class SearchRequest(Struct, frozen=True):
    """A search and its limits. Times are in microseconds, from `since` on and before `before`."""

    pattern: str
    mode: Mode
    scope: Scope
    since: int | None
    before: int | None
    limit: int
    sort: Sort
    file_ids: tuple[str, ...] | None
    ages: tuple[int | None, int | None] = (None, None)
    """The ages in microseconds that `since` and `before` were given as, if they were."""
    include_recall: bool = False
    """Search the calls of our own recall tools and their results, too."""
    ignore_case: bool = False
    """Ignore the case of a pattern; words always do."""
    or_words: Literal["no", "unmatched", "asked"] = "no"
    """When a pattern without any syntax is searched as words: if nothing matches it, or also if it is a question."""
    around: int = 0
    """The number of messages to show before and after each message that words find."""

    @property
    def reads_as_words(self) -> bool:
        """Return whether a pattern is a question, to be searched as words at once."""
        return self.or_words == "asked" and is_question(self.pattern)

    @property
    def may_be_words(self) -> bool:
        """Return whether a pattern that matches nothing may be searched as words."""
        return self.or_words != "no" and not _SYNTAX.search(self.pattern)

    @property
    def as_words(self) -> SearchRequest:
        """Return the request as a search for words, the best first."""
        return replace(self, mode="full_text", sort="relevance", or_words="no")

    @property
    def kinds(self) -> tuple[str, ...]:
        return _KINDS[self.scope]

    @property
    def hint(self) -> str:
        """Return a hint if words look like a pattern."""
        if self.mode != "regex" and _PATTERN_LIKE.search(_QUOTED.sub(" ", self.pattern)):
            return 'These are searched as words; mode="regex" matches them as a pattern.'
        return ""

    @property
    def filters(self) -> SearchRequest:
        """Return the request without its limit, and with ages in place of the times that depend on the clock."""
        since, before = (
            None if age is not None else at for age, at in zip(self.ages, (self.since, self.before), strict=True)
        )
        return replace(self, limit=0, since=since, before=before, or_words="no", around=0)

    def admits(self, at: int) -> bool:
        return (self.since is None or self.since <= at) and (self.before is None or at < self.before)


class Finder(Struct, frozen=True):
    """A compiled pattern, and literals that every match contains."""

    pattern: regex.Pattern
    needs: tuple[RequiredLiteral, ...]

    @classmethod
    def of(cls, pattern: str, *, ignore_case: bool = False) -> Finder:
        found = regex.compile(pattern, ignore_case=ignore_case)
        return cls(found, required_literals(found.source))

    def search(self, text: str) -> tuple[int, int] | None:
        return self.pattern.search(text) if self.may_match(text) else None

    def may_match(self, text: str) -> bool:
        return all(need.is_in(text) for need in self.needs)


class Page(Struct):
    """The hits of one kind; `position` is where the next page starts, None at the end."""

    hits: list[Hit]
    position: Position | None = None
    complete: bool = True
    scanned: int = 0
    unavailable: tuple[str, ...] = ()
    after: list[Position] = []
    """The position after each hit."""
    total: int = 0
    """The number of matches from the start of the page on."""
    is_counted: bool = True
    """False if counting ended before the last match."""

    def cut(self, most: int, start: Position | None) -> None:
        """Keep the first `most` hits, and continue after them."""
        if most < len(self.hits):
            self.position = self.after[most - 1] if most else start or ()
            del self.hits[most:]


class Deadline(Struct, frozen=True):
    """The time limit of a search. A started batch is finished, so that every call makes progress."""

    now: Callable[[], float]
    until: float

    def for_counting(self) -> Deadline:
        """Return the time limit for counting further matches after a full page."""
        return Deadline(self.now, min(self.until, self.now() + _COUNTING_SECONDS))

    @property
    def is_over(self) -> bool:
        return self.now() >= self.until


def parse_request(
    pattern: Any,
    *,
    zone: tzinfo,
    mode: Any = "regex",
    or_words: Literal["no", "unmatched", "asked"] = "no",
    around: Any = 0,
    scope: Any = "both",
    since: Time = None,
    before: Time = None,
    limit: Any = 50,
    sort: Any = None,
    file_ids: Sequence[str] | None = None,
    now: float | None = None,
    include_recall: bool = False,
    ignore_case: bool | None = None,
) -> SearchRequest:
    """Check the arguments of a search; raise `InvalidInput` with the allowed values.

    Without a `sort`, words are ordered by relevance and patterns by recency. Without `ignore_case`, a pattern ignores
    case unless it has a letter in upper case.
    """
    if not isinstance(pattern, str) or not pattern.strip():
        raise InvalidInput("The pattern is empty.", hint="Pass words or a pattern.")
    for name, value, allowed in (("mode", mode, Mode), ("scope", scope, Scope), ("sort", sort or "relevance", Sort)):
        if value not in get_args(allowed):
            raise InvalidInput(f"{name}={value!r} is unknown.", hint=f"Give one of {', '.join(get_args(allowed))}.")
    if mode == "semantic":
        from lossless.search import embeddings

        embeddings.require()
    if type(limit) is not int or not 1 <= limit <= MOST_HITS:
        raise InvalidInput(f"limit={limit!r} is out of range.", hint=f"Give 1 to {MOST_HITS}; a cursor continues.")
    if type(around) is not int or not 0 <= around <= MOST_AROUND:
        raise InvalidInput(f"around={around!r} is out of range.", hint=f"Give 0 to {MOST_AROUND}.")
    if file_ids is not None and scope != "files":
        raise InvalidInput("file_ids are for files.", hint='Give scope="files" as well.')
    first, last = _micros("since", since, zone, now), _micros("before", before, zone, now)
    if first is not None and last is not None and first >= last:
        raise InvalidInput(f"since={since} is not before before={before}.", hint="Swap them, or leave one out.")
    ids = None if file_ids is None else tuple(file_ids)
    ages = (_age("since", since), _age("before", before))
    if ignore_case is None:
        ignore_case = not regex.has_upper_case(pattern) if mode == "regex" else False
    return SearchRequest(
        pattern=pattern,
        mode=mode,
        scope=scope,
        since=first,
        before=last,
        limit=limit,
        sort=sort_order(mode, sort),
        file_ids=ids,
        ages=ages,
        include_recall=include_recall,
        ignore_case=ignore_case,
        or_words=or_words if mode == "regex" else "no",
        around=around,
    )


def is_question(pattern: str) -> bool:
    """Return whether a pattern without any syntax reads like a question."""
    if len(pattern.split()) < 3 or _SYNTAX.search(pattern):
        return False
    return pattern.rstrip().endswith("?") or _ASKING.match(pattern) is not None


def sort_order(mode: Mode, sort: Sort | None) -> Sort:
    """Return the order of hits: patterns by recency, words by relevance unless `sort` is given."""
    return "recency" if mode == "regex" else sort or "relevance"


def words(pattern: str) -> TermFinder:
    """Return the words of a full-text question, to be found in a text."""
    from lossless.search.query.question import analyse
    from lossless.search.snippets import TermFinder

    return TermFinder(analyse(pattern))


def match_spans(
    pattern: str, mode: Mode, *, ignore_case: bool | None = None
) -> Callable[[str], Iterable[tuple[int, int]]]:
    """Return a function that yields where a pattern, or the words of a question, match in a text."""
    if mode != "regex":
        return words(pattern).spans
    if ignore_case is None:
        ignore_case = not regex.has_upper_case(pattern)
    return regex.compile(pattern, ignore_case=ignore_case).spans


def _micros(name: str, when: Time, zone: tzinfo, now: float | None) -> int | None:
    found = read_time(name, when, zone, now)
    return None if found is None else micros(found)


def _age(name: str, when: Time) -> int | None:
    age = find_age(name, when)
    return None if age is None else age // timedelta(microseconds=1)
