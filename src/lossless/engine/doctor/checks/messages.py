"""Checks of messages: their numbers, token counts, parts and times. Fixes change token counts only."""

from __future__ import annotations

from collections.abc import Iterator

from lossless.engine.doctor.examination import Examination
from lossless.engine.doctor.registry import Fault, check, to_faults
from lossless.store.rows.types import SPAN, Step


@check(
    "M01",
    "error",
    "The messages of a conversation are numbered from 1, without gaps.",
    "The numbers of the messages have gaps, or the next number is wrong.",
    fix="Sets the next number after the last message. A missing message cannot be restored.",
    guarded=True,
)
def find_number_gaps(examination: Examination) -> Iterator[Fault]:
    yield from to_faults(examination.query("numbers"))


@check(
    "M02",
    "error",
    "Every message with content has a token count.",
    "{count} [message has|messages have] no token count.",
    fix="Estimates the tokens again.",
    also_fix=("S08", "C08"),
)
def find_missing_token_counts(examination: Examination) -> Iterator[Fault]:
    faults = list(to_faults(examination.query("costless")))
    costs = {identity: cost for identity, _, cost in examination.message_scan.costs} if faults else {}
    for fault in faults:
        identity = int(fault.sample.removeprefix("msg#"))
        yield fault._replace(step=_set_tokens(identity, costs[identity]) if identity in costs else None)


@check(
    "M03",
    "warn",
    "The token count of a message is within 50 % of the current estimate.",
    "{count} [message has a wrong token count|messages have wrong token counts].",
    fix="Estimates the tokens again.",
    also_fix=("S08", "C08"),
)
def find_wrong_token_counts(examination: Examination) -> Iterator[Fault]:
    for identity, tokens, cost in examination.message_scan.costs:
        if tokens > 0:
            yield _message_fault(identity)._replace(step=_set_tokens(identity, cost))


def _set_tokens(identity: int, tokens: int) -> Step:
    return Step("change", "message", {"id": identity}, {"tokens": tokens})


def _message_fault(identity: int) -> Fault:
    return Fault(identity // SPAN, f"msg#{identity}")


@check(
    "M04",
    "warn",
    "The parts of a message lie within its text.",
    "{count} [message has|messages have] parts that cannot be read.",
)
def find_unreadable_parts(examination: Examination) -> Iterator[Fault]:
    yield from map(_message_fault, examination.message_scan.unreadable)


@check(
    "M05",
    "warn",
    "An event id belongs to one message.",
    "{count} event [id belongs|ids belong] to several messages.",
)
def find_shared_event_ids(examination: Examination) -> Iterator[Fault]:
    yield from to_faults(examination.query("events"))


@check(
    "M06",
    "info",
    "No message is more than an hour older than the message before it.",
    "{count} [message is|messages are] more than an hour older than the message before.",
)
def find_backward_times(examination: Examination) -> Iterator[Fault]:
    yield from map(_message_fault, examination.message_scan.backwards)


@check(
    "M07",
    "info",
    "Every tool call has a result, and every result a call.",
    "{count} tool [call or result has|calls or results have] no counterpart.",
)
def find_unpaired_tools(examination: Examination) -> Iterator[Fault]:
    yield from (Fault(conversation, call) for conversation, call in examination.message_scan.unpaired)
