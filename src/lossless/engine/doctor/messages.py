"""Messages: their numbers, their costs, their parts, their times. Only what they cost is ever put right."""

from __future__ import annotations

from collections.abc import Iterator

from lossless.engine.doctor.examination import Fault, Step, Ward
from lossless.store.base import SPAN


def numbers(ward: Ward) -> Iterator[Fault]:
    yield from ward.found("M01", "numbers")


def costless(ward: Ward) -> Iterator[Fault]:
    found = ward.found("M02", "costless")
    costs = {identity: cost for identity, _, cost in ward.heard.costs} if found else {}
    for fault in found:
        identity = int(fault.what.removeprefix("msg#"))
        yield fault._replace(step=_costing(identity, costs[identity]) if identity in costs else None)


def costs(ward: Ward) -> Iterator[Fault]:
    for identity, tokens, cost in ward.heard.costs:
        if tokens > 0:
            yield Fault("M03", identity // SPAN, f"msg#{identity}", _costing(identity, cost))


def _costing(identity: int, tokens: int) -> Step:
    return Step("change", "message", {"id": identity}, {"tokens": tokens})


def parts(ward: Ward) -> Iterator[Fault]:
    yield from (Fault("M04", each // SPAN, f"msg#{each}") for each in ward.heard.unreadable)


def events(ward: Ward) -> Iterator[Fault]:
    yield from ward.found("M05", "events")


def times(ward: Ward) -> Iterator[Fault]:
    yield from (Fault("M06", each // SPAN, f"msg#{each}") for each in ward.heard.backwards)


def calls(ward: Ward) -> Iterator[Fault]:
    yield from (Fault("M07", conversation, call) for conversation, call in ward.heard.alone)
