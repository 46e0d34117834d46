"""`focus`: write what matters for a task, from what a search finds in the whole family of a conversation.

A generator, like `ask`: it searches, reads, *yields* one request to a model, and keeps the statements that the texts they cite
support. Without a model the best passages are quoted. A text that changed meanwhile, or was forgotten, ends the attempt:
the brief is stored only if everything it was made from is still there.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from typing import Any, TypeAlias

from msgspec import Struct

from lossless.engine.recall.brief_statements import build_request, quotations, supported, within
from lossless.engine.recall.candidates import Bucket, Candidate, find_candidates, passage, readings, take
from lossless.engine.recall.reader import Reader
from lossless.engine.recall.search_request import Deadline
from lossless.engine.shared.model_flow import ModelFlow
from lossless.errors import ContextMoved, NotFound, SummarizerError
from lossless.ids import brief_id, parse
from lossless.model import Excerpt, SummaryRequest
from lossless.store import jsontext
from lossless.store.rows.types import BURIED, SPAN, BriefRow, ConversationRow
from lossless.store.store import Store
from lossless.summarizers.base import Reply

LEAST, MOST = 500, 12_000
"""The tokens of a brief."""
KEPT = 16
"""The number of briefs that are kept for a key."""
_SHARE = 10
"""The history is so many times as long as its brief."""
_READ = 4
"""So many times the tokens of a brief are read for it, as far as one request takes them."""
_QUOTES = 8
_FILE_SECONDS = 5.0
_MOST_TRIES = 3


class FocusRequest(Struct, frozen=True):
    """The task of a brief, its name and size, and the conversation it is made in."""

    key: str
    row: ConversationRow
    task: str
    name: str
    size: int | None
    with_model: bool
    now: Callable[[], float]
    clean: Callable[[str], str]
    """Remove secrets from a text."""


class WrittenBrief(Struct, frozen=True):
    """A stored brief, and what was left out of it."""

    row: BriefRow
    dropped: int = 0
    problem: str = ""


Flow: TypeAlias = ModelFlow[WrittenBrief]


class _Draft(Struct, frozen=True):
    statements: list[str]
    read: Sequence[Excerpt]
    model: str = "extractive"
    dropped: int = 0
    problem: str = ""


def focus(reader: Reader, request: FocusRequest) -> Flow:
    """Write and store a brief; raise `NotFound` if nothing matches the task, `ContextMoved` if the history kept changing."""
    for _ in range(_MOST_TRIES):
        size = request.size or proportional_size(reader.store.briefs.message_tokens(reader.scope))
        covered = _covered(reader.store, reader.scope)
        found = _candidates(reader, request)
        draft = yield from _draft(reader, request, found, size)
        sources = [_source(reader.store, each) for each in draft.read]
        stored = _store(reader, request, draft, covered, sources)
        if stored is not None:
            return WrittenBrief(stored, draft.dropped, draft.problem)
    raise ContextMoved(
        "The history changed while the brief was written: nothing was stored.", hint="Try again in a moment."
    )


def proportional_size(tokens: int) -> int:
    """Return the size of a brief of a history of so many tokens."""
    return min(MOST, max(LEAST, tokens // _SHARE))


def _candidates(reader: Reader, request: FocusRequest) -> list[Candidate]:
    """Find what matches the task: first what the model does not see anyway."""
    now = request.now
    found = find_candidates(reader, (), request.task, Deadline(now, now() + _FILE_SECONDS))
    if not found:
        raise NotFound("history", f"for {request.task[:80]!r}", hint="Name the subject in words that were used for it.")
    items = reader.store.context.items(request.row.id)
    shown = {item.ordinal for item in items if item.is_message}
    return sorted(found, key=lambda each: each.excerpt.conversation == request.row.id and each.excerpt.seq in shown)


def _draft(
    reader: Reader, request: FocusRequest, found: Sequence[Candidate], size: int
) -> Generator[SummaryRequest, Reply, _Draft]:
    """Return the statements of a model, or quotations if there is none or its reply cannot be used."""
    problem = ""
    if request.with_model:
        budget = max(size, min(reader.settings.leaf_chunk_tokens, _READ * size))
        bucket = Bucket(request.row.id, tuple(found), budget)
        read, _ = take(readings(reader, bucket, request.task), budget, request.task, part=_QUOTES)
        try:
            reply = yield build_request(request.task, read, size)
        except SummarizerError as error:
            problem = error.message
        else:
            if reply.model == "extractive":
                problem = "No model answered."
            else:
                # A reply that was cut ends within a statement.
                text = reply.text.rpartition("\n")[0] if reply.cut else reply.text
                statements, dropped = supported(text, read)
                if statements and 2 * len(statements) >= dropped:
                    return _Draft(within(statements, size), read, reply.model, dropped)
                problem = "The statements of the model were not found in the texts that they cite."
    covering = {each.excerpt.above for each in found}  # a message says it better than the summary over it
    excerpts = (each.excerpt for each in found if each.excerpt.id not in covering)
    quoted, _ = take(excerpts, size, request.task, part=_QUOTES)
    if not quoted:
        quoted = [passage(found[0].excerpt, request.task, size)]
    statements = within(quotations(quoted), size)
    return _Draft(statements, quoted[: len(statements)], problem=problem)


def _covered(store: Store, scope: Sequence[int]) -> list[tuple[int, int]]:
    rows = [row for row in map(store.conversations.get, scope) if row]
    return [(row.id, row.next_seq) for row in rows]


def _source(store: Store, excerpt: Excerpt) -> tuple[str, str, int]:
    """Return id, version and conversation of a text. Only summaries have versions."""
    return excerpt.id, _version(store, excerpt.id) if excerpt.kind == "summary" else "", excerpt.conversation


def _version(store: Store, summary_id: str) -> str:
    found = store.summaries.named(summary_id)
    return f"{found[1].revision}.{found[1].created_at}" if found else "gone"


def _store(
    reader: Reader,
    request: FocusRequest,
    draft: _Draft,
    covered: Sequence[tuple[int, int]],
    sources: Sequence[tuple[str, str, int]],
) -> BriefRow | None:
    """Store a brief if everything it was made from is still there; return None otherwise."""
    store = reader.store
    text = jsontext.cleaned(request.clean("\n".join(draft.statements)))
    brief = BriefRow(
        conversation_id=request.row.id,
        id=brief_id(request.key, request.name),
        name=request.name,
        task=request.task,
        text=text,
        size=request.size,
        model=draft.model,
        sources=jsontext.dumps([list(each) for each in sources]),
        covered=jsontext.dumps([list(each) for each in covered]),
        active=True,
        created_at=int(request.now() * 1_000_000),
    )
    with store.transaction():
        store.hold_key(request.key)
        # Forgetting a message holds its conversation: either it finds this brief, or this finds the tombstone.
        held = {row.id for row in store.housekeeping.hold_all(sorted({request.row.id, *(each[2] for each in sources)}))}
        if request.row.id not in held or not _are_unchanged(store, draft.read, sources):
            return None
        store.briefs.put(request.key, brief, KEPT)
    return brief


def _are_unchanged(store: Store, read: Sequence[Excerpt], sources: Sequence[tuple[str, str, int]]) -> bool:
    """Return whether these texts are still what was read."""
    if any(each.kind == "summary" and each.text not in _summary_text(store, each.id) for each in read):
        return False
    return are_current(store, sources)


def _summary_text(store: Store, summary_id: str) -> str:
    found = store.summaries.named(summary_id)
    return found[1].text if found else ""


def are_current(store: Store, sources: Sequence[Sequence[Any]]) -> bool:
    """Return whether each of these texts still exists in its version: messages not forgotten, summaries not rewritten."""
    wanted: dict[int, list[int]] = {}
    for identity, version, conversation in sources:
        if identity.startswith("sum_"):
            if _version(store, identity) != version:
                return False
        elif identity.startswith("file_"):
            if store.files.get(conversation, identity) is None:
                return False
        else:
            wanted.setdefault(conversation, []).append(parse(identity).number % SPAN)
    for conversation, seqs in wanted.items():
        rows = store.messages.at(conversation, seqs)
        if {row.seq for row in rows if row.outside not in BURIED} != set(seqs):
            return False
    return True


def hidden_since(store: Store, row: ConversationRow, scope: Sequence[int], brief: BriefRow) -> tuple[int, int]:
    """Return the messages stored since a brief was made, and how many of them are not in the context any more."""
    before = {each[0]: each[1] for each in jsontext.stored(brief.covered)}
    new = {each: next_seq - before.get(each, 1) for each, next_seq in _covered(store, scope)}
    shown = sum(item.is_message and item.ordinal >= before.get(row.id, 1) for item in store.context.items(row.id))
    total = sum(max(0, count) for count in new.values())
    return total, max(0, total - shown)


def listed_sources(brief: BriefRow) -> list[tuple[str, str, int]]:
    """Return id, version and conversation of every text that a brief was made from."""
    return [(str(each[0]), str(each[1]), int(each[2])) for each in jsontext.stored(brief.sources)]
