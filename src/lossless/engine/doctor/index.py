"""What is derived from the words so that they are found again."""

from __future__ import annotations

from collections.abc import Iterator

from lossless.engine.doctor.examination import Fault, Step, Ward


def search(ward: Ward) -> Iterator[Fault]:
    if not ward.everything:
        return
    found = [Fault("X01", None, row.what, row.step) for row in ward.store.unsearchable()]
    yield from found
    if "X01" in ward.closely and not found and not ward.store.read_only:
        # Word by word, which takes as long as to make the index anew.
        for told in ward.store.check_search():
            yield Fault("X01", None, "", Step("rebuild", "search"), None, told)


def events(ward: Ward) -> Iterator[Fault]:
    if ward.everything:
        yield from (Fault("X03", row.conversation, row.what, row.step) for row in ward.store.forgotten_events())
