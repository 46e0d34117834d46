"""The database itself: its pages, its schema, what its rows refer to."""

from __future__ import annotations

from collections.abc import Iterator

from lossless.engine.doctor.examination import Fault, Ward
from lossless.engine.shared.drafts import drafts_left


def damage(ward: Ward) -> Iterator[Fault]:
    if ward.everything:
        yield from (Fault("D01", None, each) for each in ward.store.integrity())


def references(ward: Ward) -> Iterator[Fault]:
    if ward.everything:
        yield from (Fault("D02", None, row.what, row.step) for row in ward.store.dangling())


def schema(ward: Ward) -> Iterator[Fault]:
    if ward.everything:
        yield from (Fault("D03", None, row.what, row.step) for row in ward.store.absent())


def room(ward: Ward) -> Iterator[Fault]:
    if ward.everything:
        yield from (Fault("D04", None, "", told=each) for each in ward.store.slack())
        if left := drafts_left(ward.store, ward.files, ward.now):
            size = sum(each.bytes for each in left) / 1e6
            told = f"{len(left):,} drafts of killed backups or other writers take {size:,.1f} MB: lcm gc --apply removes them."
            yield Fault("D04", None, "", told=told)
