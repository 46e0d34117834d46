"""Candidates for the answer to a question: named ids, search hits, and the order to read them in."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from itertools import chain

from msgspec import Struct

from lossless.engine.recall.expand import Walk, way_down
from lossless.engine.recall.match_files import find_passages
from lossless.engine.recall.reader import Reader, cut, of_message, of_summary
from lossless.engine.recall.search_request import Deadline
from lossless.model import Excerpt
from lossless.search.query.question import analyse
from lossless.search.snippets import TermFinder
from lossless.store.rows.codec import micros
from lossless.store.rows.types import MessageRow
from lossless.tokens import estimate, truncate

MOST_BUCKETS = 3
_MOST_HITS, _MOST_SUMMARIES = 60, 20
_BEST_MESSAGES = 5
_DEEPEST = 10
_LEAST_SPACE = 40
_MOST_MISSES = 25
_MOST_PLACES = 500
_MOST_WORDS = 8


class Candidate(Struct, frozen=True):
    """A summary or message that may contain the answer."""

    excerpt: Excerpt
    explicit: bool = False
    row_id: int = 0
    """The row id of a summary; 0 for a message."""

    @property
    def summary_id(self) -> str | None:
        return self.excerpt.id if self.excerpt.kind == "summary" else self.excerpt.above


class Bucket(Struct, frozen=True):
    """The candidates of one conversation, or of one family of them, that share one request."""

    conversation: int
    candidates: tuple[Candidate, ...]
    budget: int

    @property
    def summary_ids(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(each.summary_id for each in self.candidates if each.summary_id))


def find_candidates(reader: Reader, ids: Sequence[str | int], query: str, deadline: Deadline) -> list[Candidate]:
    """Find everything that may contain the answer: named ids first, then hits, the best first.

    Messages, files and summaries are searched; files only until the deadline.

    An id that cannot be read raises `NotFound`.
    """
    found = [_named(reader, each) for each in ids]
    if query.strip() and reader.scope:
        messages = _messages(reader, query)
        # Words of a file may be far apart: files rank after the best messages, and before the rest.
        found += messages[:_BEST_MESSAGES]
        found += [Candidate(each) for each in find_passages(reader, query, deadline)]
        found += messages[_BEST_MESSAGES:]
        found += _summaries(reader, query)
    merged: dict[str, Candidate] = {}
    for each in found:
        merged.setdefault(each.excerpt.id, each)
    return list(merged.values())


def _named(reader: Reader, id: str | int) -> Candidate:
    named = reader.named(id, "summary", "message")
    if named.kind == "summary":
        conversation, row = reader.summary(named)
        return Candidate(of_summary(conversation, row), explicit=True, row_id=row.id)
    conversation, message = reader.message(named)
    return Candidate(_with_leaves(reader, conversation, [message])[0], explicit=True)


def _messages(reader: Reader, query: str) -> list[Candidate]:
    matches = reader.store.search(query, conversation_ids=reader.scope, limit=_MOST_HITS)
    return [Candidate(each) for each in _excerpts(reader, [(match.conversation_id, match.seq) for match in matches])]


def _excerpts(reader: Reader, places: Sequence[tuple[int, int]]) -> list[Excerpt]:
    """Return the messages at these places, in their order."""
    wanted: defaultdict[int, list[int]] = defaultdict(list)
    for conversation, seq in places:
        wanted[conversation].append(seq)
    found = {
        (conversation, excerpt.seq): excerpt
        for conversation, seqs in wanted.items()
        for excerpt in _with_leaves(reader, conversation, reader.store.messages.at(conversation, seqs))
    }
    return [found[place] for place in places if place in found]


def _with_leaves(reader: Reader, conversation: int, rows: Sequence[MessageRow]) -> list[Excerpt]:
    leaves = reader.store.summaries.leaves_over(conversation, [row.seq for row in rows])
    return [of_message(conversation, row, above=leaves.get(row.seq)) for row in rows]


def _summaries(reader: Reader, query: str) -> list[Candidate]:
    matches = reader.store.search_summaries(query, conversation_ids=reader.scope, limit=_MOST_SUMMARIES)
    return [
        Candidate(of_summary(match.conversation_id, row), row_id=row.id)
        for match in matches
        for row in reader.store.summaries.read(match.conversation_id, [match.summary_id])
    ]


def make_buckets(candidates: Sequence[Candidate], budget: int) -> tuple[list[Bucket], list[Bucket]]:
    """Group candidates by conversation; return those to read, each with its budget, and the others."""
    grouped: defaultdict[int, list[Candidate]] = defaultdict(list)
    for each in candidates:
        grouped[each.excerpt.conversation].append(each)
    ranked = sorted(grouped.items(), key=lambda found: _rank(found[0], found[1]))
    count = min(MOST_BUCKETS, len(ranked), budget)
    shares = [budget // count + (place < budget % count) for place in range(count)] if count else []
    made = [
        Bucket(conversation, tuple(found), share)
        for (conversation, found), share in zip(ranked, [*shares, *[0] * (len(ranked) - count)], strict=True)
    ]
    return made[:count], made[count:]


def _rank(conversation: int, found: Sequence[Candidate]) -> tuple[int, int, int, int, int]:
    newest = max((micros(each.excerpt.at) for each in found if each.excerpt.at), default=0)
    explicit = sum(each.explicit for each in found)
    return -explicit, -len(found), -newest, -sum(each.excerpt.kind == "message" for each in found), conversation


def readings(reader: Reader, bucket: Bucket, question: str) -> Iterator[Excerpt]:
    """Yield the excerpts to read, the most promising first, each once."""
    named = [each for each in bucket.candidates if each.explicit and each.excerpt.kind == "summary"]
    yield from _once(
        chain(
            (each.excerpt for each in named),
            chain.from_iterable(_hits_below(reader, each, question) for each in named),
            (each.excerpt for each in bucket.candidates if not (each.explicit and each.row_id)),
            chain.from_iterable(_below(reader, each) for each in bucket.candidates if each.row_id),
        )
    )


def _once(excerpts: Iterable[Excerpt]) -> Iterator[Excerpt]:
    seen: set[str] = set()
    for each in excerpts:
        if each.id not in seen:
            seen.add(each.id)
            yield each


def _below(reader: Reader, candidate: Candidate) -> Iterator[Excerpt]:
    return way_down(Walk(reader, True), [candidate.excerpt.id], _DEEPEST)


def _hits_below(reader: Reader, candidate: Candidate, question: str) -> list[Excerpt]:
    """Search the messages below a summary."""
    conversation = candidate.excerpt.conversation
    links = reader.store.summaries.links_below(conversation, candidate.row_id)
    ids = {candidate.row_id, *(source for _, source in links)}
    leaves = {branch.public_id for branch in reader.store.summaries.branches(conversation, sorted(ids)).values()}
    matches = reader.store.search(question, conversation_ids=[conversation], limit=4 * _MOST_HITS)
    found = _excerpts(reader, [(conversation, match.seq) for match in matches])
    return [excerpt for excerpt in found if excerpt.above in leaves]


def take(excerpts: Iterable[Excerpt], budget: int, question: str, *, part: int) -> tuple[list[Excerpt], bool]:
    """Return the excerpts that fit into the budget, and True if any did not fit."""
    taken: list[Excerpt] = []
    left, misses = budget, 0
    for excerpt in excerpts:
        space = min(left, max(_LEAST_SPACE, budget // part))
        if excerpt.tokens > space:
            excerpt = passage(excerpt, question, space)
        if excerpt.tokens <= left and excerpt.text.strip():
            taken.append(excerpt)
            left -= excerpt.tokens
        else:
            misses += 1
        if left < _LEAST_SPACE or misses > _MOST_MISSES:
            return taken, True
    return taken, misses > 0


def reasons(question: str, named: Collection[str]) -> Callable[[Excerpt], str]:
    """Return a function that tells why an excerpt was chosen: it was named, contains words, or stands beside such a text."""
    asked = analyse(question)
    finder = TermFinder(asked)

    def reason(excerpt: Excerpt) -> str:
        if excerpt.id in named:
            return "named in the request"
        found = [asked.terms[number].forms[0] for number in sorted(finder.matching(excerpt.text))]
        if found:
            return f"contains: {', '.join(found[:_MOST_WORDS])}"
        return (
            "below a named summary"
            if excerpt.above in named
            else "next to a match, or of the time or speaker asked for"
        )

    return reason


def passage(excerpt: Excerpt, question: str, space: int) -> Excerpt:
    """Cut an excerpt to the passage with most words of the question."""
    text, frame = excerpt.text, estimate(excerpt.text)
    space = max(1, space - (excerpt.tokens - frame) - 1)
    size = max(1, len(text) * space // max(1, frame))
    start = _best_start(text, question, size)
    part = truncate(text[start : start + size], space)
    end = max(part.rfind(" "), part.rfind("\n"))
    if 2 * end > len(part) and start + len(part) < len(text):
        part = part[:end]
    return cut(excerpt, start, part)


def _best_start(text: str, question: str, size: int) -> int:
    """Return the offset after which the most different words of the question follow."""
    lower = text.lower()
    if len(lower) != len(text):  # a few letters change their length with their case
        lower = text
    words = {form.split()[0][:6] for term in analyse(question).terms for form in term.forms[:3]}
    places = sorted((at, word) for word in words for at in _places(lower, word))
    best, most = 0, 0
    for nth, (at, _) in enumerate(places):
        within = {word for place, word in places[nth : nth + _MOST_PLACES] if place < at + size * 3 // 4}
        if len(within) > most:
            best, most = at, len(within)
    # Start a little earlier, at the beginning of a line or a sentence.
    earliest = max(0, best - size // 4)
    begins = [lower.rfind(mark, earliest, best) + len(mark) for mark in ("\n", ". ") if mark in lower[earliest:best]]
    return max(begins, default=earliest if best else 0)


def _places(text: str, word: str) -> Iterator[int]:
    at = text.find(word)
    while at >= 0:
        yield at
        # In a long text, skip some of the places.
        at = text.find(word, at + max(1, len(text) // _MOST_PLACES))
