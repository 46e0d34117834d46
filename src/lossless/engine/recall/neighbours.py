"""Show hits with the messages around them: an answer with its question, a question with its answer."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec.structs import replace

from lossless.engine.recall.reader import Reader
from lossless.ids import message_id
from lossless.model import Hit, NearMessage
from lossless.search.snippets import beginning
from lossless.store.rows.codec import moment
from lossless.store.rows.types import SPAN, TextRow


def add_neighbours(reader: Reader, hits: Sequence[Hit], around: int) -> list[Hit]:
    """Return the hits with up to `around` messages before and after each message.

    A message that is a hit itself, or stands beside a better one, is not repeated.
    """
    shown = {_row_id(hit) for hit in hits if hit.seq is not None}
    wanted: dict[str, list[int]] = {}
    for hit in hits:
        if hit.seq is not None:
            steps = range(max(1, hit.seq - around), hit.seq + around + 1)
            wanted[hit.id] = [each for step in steps if (each := hit.conversation * SPAN + step) not in shown]
            shown.update(wanted[hit.id])
    ids = [each for group in wanted.values() for each in group]
    rows = {row.id: row for row in reader.store.texts.read("message", ids)} if ids else {}
    return [
        replace(
            hit,
            around=tuple(_neighbour(rows[each]) for each in wanted[hit.id] if each in rows and rows[each].text.strip()),
        )
        if hit.id in wanted
        else hit
        for hit in hits
    ]


def _row_id(hit: Hit) -> int:
    return hit.conversation * SPAN + (hit.seq or 0)


def _neighbour(row: TextRow) -> NearMessage:
    return NearMessage(message_id(row.id), row.id % SPAN, row.role or "", moment(row.at), beginning(row.text))
