"""`ask`: one question, answered from what was really said.

A generator, like compaction: it finds candidates, reads as much of them as the budget allows, *yields* a request to a
model, and checks every id and quote of the reply against what it had read. Without a model the excerpts themselves are
the result. It never makes up an answer: what goes wrong is told with a code.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import contextmanager
from typing import NoReturn, TypeAlias

from msgspec import Struct, field, structs

from lossless.engine.recall import grants
from lossless.engine.recall.answer_prompt import request
from lossless.engine.recall.candidates import Bucket, buckets, find, readings, take
from lossless.engine.recall.citations import Said, check, parse_reply
from lossless.engine.recall.expand import expand
from lossless.engine.recall.grants import Charge, Delegate, Slots
from lossless.engine.recall.reader import Reader, of_summary
from lossless.engine.recall.search_request import Watch
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
"""How long files are searched for the words of a question."""
_FIRST_READING = 2 / 3
"""How much of the budget is read before the model is asked; the rest is for what it asks for."""


class Asking(Struct, frozen=True):
    """A question, where to look for its answer, and what it may cost."""

    question: str
    origin: str
    ids: tuple[str | int, ...] = ()
    query: str | None = None
    max_tokens: int | None = None
    """How long the answer may be, or all the evidence together."""
    budget: int = 4_000
    everywhere: bool = False
    timeout_ms: int | None = None

    @property
    def answer_tokens(self) -> int:
        return ANSWER_TOKENS if self.max_tokens is None else self.max_tokens


class Failed(Exception):
    """A question that one bucket could not answer; never leaves this module."""

    def __init__(self, code: str, phase: str, message: str) -> None:
        super().__init__(message)
        self.code, self.phase = code, phase


class Work(Struct):
    """One question being answered."""

    reader: Reader
    asking: Asking
    now: Callable[[], float]
    work_until: float
    until: float
    breakdown: list[Share] = field(default_factory=list)
    answers: list[tuple[int, str]] = field(default_factory=list)
    evidence: list[Evidence] = field(default_factory=list)
    dropped: list[str] = field(default_factory=list)
    model: str = ""


class Bounded(Struct):
    """What one bucket's answer is made of: the reads so far, under a grant."""

    delegate: Delegate
    bucket: Bucket
    read: list[Excerpt] = field(default_factory=list)

    @property
    def opened(self) -> tuple[str, ...]:
        found = (each.id if each.kind == "summary" else each.above for each in self.read)
        return tuple(dict.fromkeys(each for each in found if each))


def deadlines(start: float, delegation_ms: int, timeout_ms: int | None) -> tuple[float, float]:
    """Until when work may go on, and until when everything has to be over, cleaning up included."""
    allowed = min(MOST_MS, delegation_ms + HEADROOM_MS if timeout_ms is None else timeout_ms)
    working = allowed - min(HEADROOM_MS, allowed // 2)
    return start + min(delegation_ms, working) / 1000, start + allowed / 1000


def ask(reader: Reader, asking: Asking, *, with_model: bool, slots: Slots, now: Callable[[], float]) -> Flow:
    """Answer a question. An id that cannot be read raises `NotFound`; every other trouble is told in the answer."""
    if not asking.question.strip():
        raise InvalidInput("The question is empty.", hint="Say what you want to know.")
    query = asking.query if asking.query is not None else "" if asking.ids else asking.question
    work_until, until = deadlines(now(), reader.settings.delegation_timeout_ms, asking.timeout_ms)
    candidates = find(reader, asking.ids, query, Watch(now, now() + min(_FILE_SECONDS, (work_until - now()) / 4)))
    if not candidates:
        return _nothing(asking, with_model)
    chosen, left_out = (
        buckets(candidates, asking.budget)
        if asking.everywhere
        else ([Bucket(reader.scope[0], tuple(candidates), asking.budget)], [])
    )
    if not with_model:
        return _excerpts(reader, asking, chosen, bool(left_out))
    with slots.hold(asking.origin) as free:
        if not free:
            return _busy()
        work = Work(reader, asking, now, work_until, until)
        for bucket in chosen:
            written = yield from _share(work, bucket)
            if written == "extractive":
                # The chain of models ended in the one that is none.
                return _excerpts(reader, asking, chosen, bool(left_out))
        for bucket in left_out:
            why = "bucket limit" if bucket.budget or len(chosen) < asking.budget else "token budget exhausted"
            work.breakdown.append(Share(bucket.conversation, "skipped", summary_ids=bucket.summary_ids, error=why))
        return _merged(work, _excerpts(reader, asking, chosen, True))


def _nothing(asking: Asking, with_model: bool) -> Answer:
    if asking.everywhere:
        return Answer("", truncated=True, error="Nothing in any conversation matches the question.")
    return Answer(NOTHING if with_model else "")


def _busy() -> Answer:
    return Answer(
        "",
        truncated=True,
        error="Another question of this conversation is being answered. Wait for it, or use lcm_grep and lcm_describe.",
        error_code="EXPANSION_CONCURRENCY_BLOCKED",
    )


def _excerpts(reader: Reader, asking: Asking, chosen: Sequence[Bucket], partial: bool) -> Answer:
    """No model: the best passages, word for word."""
    found: list[Excerpt] = []
    for bucket in chosen:
        budget = min(bucket.budget, asking.max_tokens or bucket.budget)
        taken, more = take(readings(reader, bucket, asking.question), budget, asking.question, part=4)
        found += taken
        partial = partial or more
    opened = {each.id if each.kind == "summary" else each.above for each in found} - {None}
    return Answer(
        "",
        tuple(Evidence(each.id, each.text, each.at, each.seq, each.conversation) for each in found),
        tuple(each.id for each in found),
        conversations=tuple(sorted({each.conversation for each in found})),
        expanded=len(opened),
        source_tokens=sum(each.tokens for each in found),
        truncated=partial,
    )


def _share(work: Work, bucket: Bucket) -> Generator[SummaryRequest, Reply, str]:
    """What one bucket has to say, added to the work; who wrote it."""
    started = work.now()
    try:
        _in_time(work, "spawn")
        with _granted(work, bucket) as bounded:
            said, model = yield from _answered(work, bounded)
            if model == "extractive":
                return model
            _accept(work, bounded, said)
            work.model = model
    except Failed as failure:
        elapsed = int((work.now() - started) * 1000)
        work.breakdown.append(
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
    return work.model


@contextmanager
def _granted(work: Work, bucket: Bucket) -> Iterator[Bounded]:
    """A grant for this bucket, revoked whatever happens."""
    store, asking = work.reader.store, work.asking
    seconds = max(1.0, work.until - work.now())
    scope = (bucket.conversation,) if asking.everywhere else work.reader.scope
    given = grants.issue(store, scope, max_tokens=bucket.budget, now=work.now(), origin=asking.origin, seconds=seconds)
    delegate = Delegate(store, given.id, work.now)
    try:
        yield Bounded(delegate, bucket)
    finally:
        delegate.revoke()


def _answered(work: Work, bounded: Bounded) -> Generator[SummaryRequest, Reply, tuple[Said, str]]:
    """Read, ask, and read what the model asks for, a few times at most."""
    asking = work.asking
    found = readings(_confined(work, bounded), bounded.bucket, asking.question)
    _read(work, bounded, found, int(bounded.bucket.budget * _FIRST_READING))
    for rounds_left in reversed(range(MOST_ROUNDS)):
        room = bounded.delegate.remaining() if rounds_left else 0
        reply = yield from _asked(work, request(asking.question, bounded.read, asking.answer_tokens, room))
        if reply.model == "extractive":
            return Said(), reply.model
        said = _parsed(reply)
        if said.more and room and _read_more(work, bounded, said.more):
            continue
        if said.answer.strip():
            return said, reply.model
        break
    _fail("REPLY_INVALID", "parse_reply", "The model gave no answer.")


def _confined(work: Work, bounded: Bounded) -> Reader:
    """The reader of a bucket: what was asked about, as far as the grant allows it."""
    asked = (bounded.bucket.conversation,) if work.asking.everywhere else work.reader.scope
    allowed = set(bounded.delegate.scope())
    return structs.replace(work.reader, scope=tuple(each for each in asked if each in allowed))


def _read(work: Work, bounded: Bounded, found: Iterator[Excerpt], most: int) -> bool:
    """Read under the grant; whether anything new came of it."""
    known = {each.id for each in bounded.read}

    def reading(budget: int) -> tuple[list[Excerpt], list[Charge]]:
        new = (each for each in found if each.id not in known)
        taken, _ = take(new, budget, work.asking.question, part=3)
        return taken, [Charge(each.id, each.tokens) for each in taken]

    try:
        taken = bounded.delegate.read("expand", most, reading)
    except GrantRefused:
        return False
    bounded.read += taken
    return bool(taken)


def _read_more(work: Work, bounded: Bounded, ids: Sequence[str]) -> bool:
    """What the model asks for, as far as the grant allows it; other ids do not exist for it."""
    reader = _confined(work, bounded)

    def found() -> Iterator[Excerpt]:
        for each in ids[:_MOST_MORE]:
            try:
                named = reader.named(each, "summary", "message")
                if named.kind == "summary":
                    yield of_summary(*reader.summary(named))
                yield from expand(reader, each, max_tokens=bounded.bucket.budget, strategy="fit").items
            except (InvalidInput, NotFound):
                continue

    return _read(work, bounded, found(), bounded.bucket.budget)


def _asked(work: Work, question: SummaryRequest) -> Generator[SummaryRequest, Reply, Reply]:
    _in_time(work, "wait")
    started = work.now()
    question = structs.replace(question, timeout=max(1.0, work.work_until - started))
    try:
        reply = yield question
    except (SummarizerAuth, SummarizerBlocked) as error:
        _fail("SPAWN_FAILED", "spawn", error.message)
    except SummarizerError as error:
        settings = work.reader.settings
        longest = question.within(min(settings.summary_timeout_ms, settings.delegation_timeout_ms) / 1000)
        late = work.now() >= work.work_until or work.now() - started >= longest
        _fail("TIMEOUT" if late else "WAIT_FAILED", "wait", error.message)
    if not reply.text.strip():
        _fail("REPLY_MISSING", "read_reply", "The model sent an empty reply.")
    return reply


def _parsed(reply: Reply) -> Said:
    try:
        return parse_reply(reply.text)
    except ValueError as error:
        _fail("REPLY_INVALID", "parse_reply", str(error))


def _in_time(work: Work, phase: str) -> None:
    if work.now() >= work.work_until:
        _fail("TIMEOUT", phase, "There is no time left for this question.")


def _fail(code: str, phase: str, message: str) -> NoReturn:
    raise Failed(code, phase, message)


def _accept(work: Work, bounded: Bounded, said: Said) -> None:
    """The answer of a bucket, its citations checked. One that cites nothing but inventions is none."""
    checked = check(said, bounded.read)
    if checked.dropped and not checked.cited_ids:
        _fail("REPLY_INVALID", "parse_reply", f"The answer cites only what was not read: {', '.join(checked.dropped)}.")
    answer = truncate(said.answer.strip(), work.asking.answer_tokens)
    work.answers.append((bounded.bucket.conversation, answer))
    work.evidence += checked.evidence
    work.dropped += checked.dropped
    work.breakdown.append(
        Share(
            bounded.bucket.conversation,
            "success",
            len(bounded.opened),
            checked.cited_ids,
            sum(each.tokens for each in bounded.delegate.ledger()),
            said.truncated or estimate(said.answer.strip()) > work.asking.answer_tokens,
        )
    )


def _merged(work: Work, otherwise: Answer) -> Answer:
    """The answers as one; where there is none, what went wrong, and the evidence that was found all the same."""
    good = [share for share in work.breakdown if share.status == "success"]
    rest = [share for share in work.breakdown if share.status != "success"]
    if not good:
        first = rest[0]
        return structs.replace(
            otherwise,
            cited_ids=(),
            truncated=True,
            breakdown=tuple(rest),
            error=first.error,
            error_code=first.error_code,
        )
    return Answer(
        work.answers[0][1] if len(work.breakdown) == 1 else _joined(work.answers, rest),
        tuple(work.evidence),
        tuple(dict.fromkeys(each for share in good for each in share.cited_ids)),
        tuple(dict.fromkeys(work.dropped)),
        tuple(sorted({share.conversation for share in good})),
        sum(share.expanded for share in good),
        sum(share.source_tokens for share in good),
        bool(rest) or any(share.truncated for share in good),
        tuple(work.breakdown),
        work.model,
    )


def _joined(answers: Sequence[tuple[int, str]], rest: Sequence[Share]) -> str:
    """Answers from several conversations, each under its own, and what is missing."""
    parts = [f"Answers from {len(answers)} of {len(answers) + len(rest)} conversations:"]
    parts += [f"Conversation {conversation}:\n{answer}" for conversation, answer in answers]
    if rest:
        told = "; ".join(f"{share.conversation} ({share.status}: {share.error})" for share in rest)
        parts.append(f"Not covered: {told}.")
    return "\n\n".join(parts)
