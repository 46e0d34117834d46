"""`ask`: answer one question from the stored history.

A generator, like compaction: it finds candidates, reads as much of them as the budget allows, *yields* a request to a
model, and checks every id and quote of the reply against what it had read. Without a model the excerpts themselves are
the result. It never makes up an answer: a failure is reported with a code.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import contextmanager
from typing import NoReturn, TypeAlias

from msgspec import Struct, field, structs

from lossless.engine.recall import grants
from lossless.engine.recall.answer_prompt import build_request
from lossless.engine.recall.candidates import Bucket, find_candidates, make_buckets, readings, reasons, take
from lossless.engine.recall.citations import ModelReply, check_citations, parse_reply
from lossless.engine.recall.expand import expand
from lossless.engine.recall.grants import Charge, Delegate, Slots
from lossless.engine.recall.reader import Reader, of_summary
from lossless.engine.recall.search_request import Deadline
from lossless.engine.shared.model_flow import ModelFlow
from lossless.errors import (
    GrantRefused,
    InvalidInput,
    NotFound,
    SummarizerAuth,
    SummarizerBlocked,
    SummarizerError,
)
from lossless.model import Answer, Evidence, Excerpt, Share, SummaryRequest
from lossless.summarizers.base import Reply
from lossless.tokens import estimate, truncate

Flow: TypeAlias = ModelFlow[Answer]

ANSWER_TOKENS = 2_000
MOST_ROUNDS = 3
HEADROOM_MS, MOST_MS = 30_000, 600_000
NOTHING = "Nothing in this history matches the question."
_PREFIX = "DELEGATED_EXPANSION_"
_MOST_MORE = 8
_FILE_SECONDS = 5.0
"""The time limit for searching files for the words of a question."""
_FIRST_READING = 2 / 3
"""The share of the budget that is read before the model is called; the rest is for what it requests."""


class AskRequest(Struct, frozen=True):
    """A question, the place to search for its answer, and its limits."""

    question: str
    origin: str
    ids: tuple[str | int, ...] = ()
    query: str | None = None
    max_tokens: int | None = None
    """The limit of the answer, or of all evidence together."""
    budget: int = 4_000
    everywhere: bool = False
    timeout_ms: int | None = None

    @property
    def answer_tokens(self) -> int:
        return ANSWER_TOKENS if self.max_tokens is None else self.max_tokens


class BucketFailed(Exception):
    """A question that one bucket could not answer; caught in this module."""

    def __init__(self, code: str, phase: str, message: str) -> None:
        super().__init__(message)
        self.code, self.phase = code, phase


class AnswerState(Struct):
    """The state of one question while it is answered."""

    reader: Reader
    ask_request: AskRequest
    now: Callable[[], float]
    work_until: float
    until: float
    breakdown: list[Share] = field(default_factory=list)
    answers: list[tuple[int, str]] = field(default_factory=list)
    evidence: list[Evidence] = field(default_factory=list)
    dropped: list[str] = field(default_factory=list)
    model: str = ""


class BucketReads(Struct):
    """The excerpts of one bucket read so far, under a grant."""

    delegate: Delegate
    bucket: Bucket
    read: list[Excerpt] = field(default_factory=list)

    @property
    def opened(self) -> tuple[str, ...]:
        found = (each.id if each.kind == "summary" else each.above for each in self.read)
        return tuple(dict.fromkeys(each for each in found if each))


def deadlines(start: float, delegation_ms: int, timeout_ms: int | None) -> tuple[float, float]:
    """Return the time at which work ends, and the time at which everything ends, cleanup included."""
    allowed = min(MOST_MS, delegation_ms + HEADROOM_MS if timeout_ms is None else timeout_ms)
    working = allowed - min(HEADROOM_MS, allowed // 2)
    return start + min(delegation_ms, working) / 1000, start + allowed / 1000


def ask(reader: Reader, ask_request: AskRequest, *, with_model: bool, slots: Slots, now: Callable[[], float]) -> Flow:
    """Answer a question. Raise `NotFound` for an unknown id; report every other problem in the answer."""
    if not ask_request.question.strip():
        raise InvalidInput("The question is empty.", hint="Pass a question.")
    query = ask_request.query if ask_request.query is not None else "" if ask_request.ids else ask_request.question
    work_until, until = deadlines(now(), reader.settings.delegation_timeout_ms, ask_request.timeout_ms)
    candidates = find_candidates(
        reader, ask_request.ids, query, Deadline(now, now() + min(_FILE_SECONDS, (work_until - now()) / 4))
    )
    if not candidates:
        return _nothing(ask_request, with_model)
    chosen, left_out = (
        make_buckets(candidates, ask_request.budget)
        if ask_request.everywhere
        else ([Bucket(reader.scope[0], tuple(candidates), ask_request.budget)], [])
    )
    if not with_model:
        return _excerpts(reader, ask_request, chosen, bool(left_out))
    with slots.hold(ask_request.origin) as free:
        if not free:
            return _busy()
        state = AnswerState(reader, ask_request, now, work_until, until)
        for bucket in chosen:
            written = yield from _share(state, bucket)
            if written == "extractive":
                # The last summariser of the chain, which calls no model, answered.
                return _excerpts(reader, ask_request, chosen, bool(left_out))
        for bucket in left_out:
            why = "bucket limit" if bucket.budget or len(chosen) < ask_request.budget else "token budget exhausted"
            state.breakdown.append(Share(bucket.conversation, "skipped", summary_ids=bucket.summary_ids, error=why))
        return _merge(state, _excerpts(reader, ask_request, chosen, True))


def _nothing(ask_request: AskRequest, with_model: bool) -> Answer:
    if ask_request.everywhere:
        return Answer("", truncated=True, error="Nothing in any conversation matches the question.")
    return Answer(NOTHING if with_model else "")


def _busy() -> Answer:
    return Answer(
        "",
        truncated=True,
        error="Another question of this conversation is being answered. Wait for it, or use lcm_grep and lcm_describe.",
        error_code="EXPANSION_CONCURRENCY_BLOCKED",
    )


def _excerpts(reader: Reader, ask_request: AskRequest, chosen: Sequence[Bucket], partial: bool) -> Answer:
    """Return an answer without a model: the best passages, word for word, in the order of time."""
    found: list[Excerpt] = []
    for bucket in chosen:
        budget = min(bucket.budget, ask_request.max_tokens or bucket.budget)
        taken, more = take(readings(reader, bucket, ask_request.question), budget, ask_request.question, part=4)
        found += taken
        partial = partial or more
    best_first = tuple(each.id for each in found)
    found.sort(key=_by_time)
    opened = {each.id if each.kind == "summary" else each.above for each in found} - {None}
    why = reasons(
        ask_request.query or ask_request.question,
        {each.excerpt.id for bucket in chosen for each in bucket.candidates if each.explicit},
    )
    return Answer(
        "",
        tuple(Evidence(each.id, each.text, each.at, each.seq, each.conversation, why(each)) for each in found),
        best_first,
        conversations=tuple(sorted({each.conversation for each in found})),
        expanded=len(opened),
        source_tokens=sum(each.tokens for each in found),
        truncated=partial,
    )


def _by_time(excerpt: Excerpt) -> tuple[bool, float, int, int]:
    at = excerpt.at
    return at is None, at.timestamp() if at else 0.0, excerpt.conversation, excerpt.seq or 0


def _share(state: AnswerState, bucket: Bucket) -> Generator[SummaryRequest, Reply, str]:
    """Add the answer of one bucket to the state; return the name of the model that wrote it."""
    started = state.now()
    try:
        _check_time(state, "spawn")
        with _issue_grant(state, bucket) as reads:
            model_reply, model = yield from _ask_model(state, reads)
            if model == "extractive":
                return model
            _accept(state, reads, model_reply)
            state.model = model
    except BucketFailed as failure:
        elapsed = int((state.now() - started) * 1000)
        state.breakdown.append(
            Share(
                bucket.conversation,
                "failed",
                truncated=True,
                summary_ids=bucket.summary_ids,
                phase=failure.phase,
                elapsed_ms=elapsed,
                error_code=_PREFIX + failure.code,
                error=str(failure),
            )
        )
    return state.model


@contextmanager
def _issue_grant(state: AnswerState, bucket: Bucket) -> Iterator[BucketReads]:
    """Issue a grant for a bucket, and revoke it at the end."""
    store, ask_request = state.reader.store, state.ask_request
    seconds = max(1.0, state.until - state.now())
    scope = (bucket.conversation,) if ask_request.everywhere else state.reader.scope
    given = grants.issue(
        store, scope, max_tokens=bucket.budget, now=state.now(), origin=ask_request.origin, seconds=seconds
    )
    delegate = Delegate(store, given.id, state.now)
    try:
        yield BucketReads(delegate, bucket)
    finally:
        delegate.revoke()


def _ask_model(state: AnswerState, reads: BucketReads) -> Generator[SummaryRequest, Reply, tuple[ModelReply, str]]:
    """Read, call the model, and read what it requests, up to `MOST_ROUNDS` times."""
    ask_request = state.ask_request
    found = readings(_limit_reader(state, reads), reads.bucket, ask_request.question)
    _read(state, reads, found, int(reads.bucket.budget * _FIRST_READING))
    for rounds_left in reversed(range(MOST_ROUNDS)):
        tokens_left = reads.delegate.remaining() if rounds_left else 0
        reply = yield from _call_model(
            state, build_request(ask_request.question, reads.read, ask_request.answer_tokens, tokens_left)
        )
        if reply.model == "extractive":
            return ModelReply(), reply.model
        model_reply = _parse(reply)
        if model_reply.more and tokens_left and _read_more(state, reads, model_reply.more):
            continue
        if model_reply.answer.strip():
            return model_reply, reply.model
        break
    _fail("REPLY_INVALID", "parse_reply", "The model gave no answer.")


def _limit_reader(state: AnswerState, reads: BucketReads) -> Reader:
    """Return a reader of the bucket's conversations, limited to those that the grant allows."""
    asked = (reads.bucket.conversation,) if state.ask_request.everywhere else state.reader.scope
    allowed = set(reads.delegate.scope())
    return structs.replace(state.reader, scope=tuple(each for each in asked if each in allowed))


def _read(state: AnswerState, reads: BucketReads, found: Iterator[Excerpt], most: int) -> bool:
    """Read excerpts under the grant; return True if any of them is new."""
    known = {each.id for each in reads.read}

    def reading(budget: int) -> tuple[list[Excerpt], list[Charge]]:
        new = (each for each in found if each.id not in known)
        taken, _ = take(new, budget, state.ask_request.question, part=3)
        return taken, [Charge(each.id, each.tokens) for each in taken]

    try:
        taken = reads.delegate.read("expand", most, reading)
    except GrantRefused:
        return False
    reads.read += taken
    return bool(taken)


def _read_more(state: AnswerState, reads: BucketReads, ids: Sequence[str]) -> bool:
    """Read the ids that the model requested; skip those outside the grant."""
    reader = _limit_reader(state, reads)

    def found() -> Iterator[Excerpt]:
        for each in ids[:_MOST_MORE]:
            try:
                named = reader.named(each, "summary", "message")
                if named.kind == "summary":
                    yield of_summary(*reader.summary(named))
                yield from expand(reader, each, max_tokens=reads.bucket.budget, strategy="fit").items
            except (InvalidInput, NotFound):
                continue

    return _read(state, reads, found(), reads.bucket.budget)


def _call_model(state: AnswerState, question: SummaryRequest) -> Generator[SummaryRequest, Reply, Reply]:
    _check_time(state, "wait")
    started = state.now()
    question = structs.replace(question, timeout=max(1.0, state.work_until - started))
    try:
        reply = yield question
    except (SummarizerAuth, SummarizerBlocked) as error:
        _fail("SPAWN_FAILED", "spawn", error.message)
    except SummarizerError as error:
        settings = state.reader.settings
        longest = question.within(min(settings.summary_timeout_ms, settings.delegation_timeout_ms) / 1000)
        late = state.now() >= state.work_until or state.now() - started >= longest
        _fail("TIMEOUT" if late else "WAIT_FAILED", "wait", error.message)
    if not reply.text.strip():
        _fail("REPLY_MISSING", "read_reply", "The model sent an empty reply.")
    return reply


def _parse(reply: Reply) -> ModelReply:
    try:
        return parse_reply(reply.text)
    except ValueError as error:
        _fail("REPLY_INVALID", "parse_reply", str(error))


def _check_time(state: AnswerState, phase: str) -> None:
    if state.now() >= state.work_until:
        _fail("TIMEOUT", phase, "There is no time left for this question.")


def _fail(code: str, phase: str, message: str) -> NoReturn:
    raise BucketFailed(code, phase, message)


def _accept(state: AnswerState, reads: BucketReads, model_reply: ModelReply) -> None:
    """Check the citations of an answer and add it to the state. Fail if every citation is invented."""
    checked = check_citations(model_reply, reads.read)
    if checked.dropped and not checked.cited_ids:
        _fail("REPLY_INVALID", "parse_reply", f"The answer cites only what was not read: {', '.join(checked.dropped)}.")
    answer = truncate(model_reply.answer.strip(), state.ask_request.answer_tokens)
    state.answers.append((reads.bucket.conversation, answer))
    state.evidence += checked.evidence
    state.dropped += checked.dropped
    state.breakdown.append(
        Share(
            reads.bucket.conversation,
            "success",
            len(reads.opened),
            checked.cited_ids,
            sum(each.tokens for each in reads.delegate.ledger()),
            model_reply.truncated or estimate(model_reply.answer.strip()) > state.ask_request.answer_tokens,
        )
    )


def _merge(state: AnswerState, fallback: Answer) -> Answer:
    """Merge the answers of all buckets; without any, return the first error and the evidence."""
    good = [share for share in state.breakdown if share.status == "success"]
    rest = [share for share in state.breakdown if share.status != "success"]
    if not good:
        first = rest[0]
        return structs.replace(
            fallback,
            cited_ids=(),
            truncated=True,
            breakdown=tuple(rest),
            error=first.error,
            error_code=first.error_code,
        )
    return Answer(
        state.answers[0][1] if len(state.breakdown) == 1 else _join(state.answers, rest),
        tuple(state.evidence),
        tuple(dict.fromkeys(each for share in good for each in share.cited_ids)),
        tuple(dict.fromkeys(state.dropped)),
        tuple(sorted({share.conversation for share in good})),
        sum(share.expanded for share in good),
        sum(share.source_tokens for share in good),
        bool(rest) or any(share.truncated for share in good),
        tuple(state.breakdown),
        state.model,
    )


def _join(answers: Sequence[tuple[int, str]], rest: Sequence[Share]) -> str:
    """Join the answers of several conversations, and name those without one."""
    parts = [f"Answers from {len(answers)} of {len(answers) + len(rest)} conversations:"]
    parts += [f"Conversation {conversation}:\n{answer}" for conversation, answer in answers]
    if rest:
        missing = "; ".join(f"{share.conversation} ({share.status}: {share.error})" for share in rest)
        parts.append(f"Not covered: {missing}.")
    return "\n\n".join(parts)
