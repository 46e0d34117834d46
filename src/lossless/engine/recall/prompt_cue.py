"""Find what a new prompt may be about: a few excerpts of the history, or nothing."""

from __future__ import annotations

from collections import defaultdict

from lossless.engine.recall.candidates import passage
from lossless.engine.recall.reader import Reader, of_message, render_excerpt, stamp
from lossless.model import Cue, Excerpt
from lossless.search.ranking.messages import Limits
from lossless.store.rows.types import Match

_MOST = 5
_LEAST_SHARE = 0.5
"""The share of a prompt's words, by their weight, that a message and the turns around it contain at least."""


def find_cue(reader: Reader, prompt: str, *, budget: int, visible: dict[int, int], now: int) -> Cue:
    """Return the excerpts that fit into a budget, in the order of time; empty if nothing is near enough.

    `visible` are seqs by conversation: the model sees messages from there on anyway.
    """
    found = reader.store.ranked(prompt, reader.scope, Limits(), limit=_MOST * 4, now=now).matches
    near = [
        each
        for each in found
        if each.share >= _LEAST_SHARE and each.seq < visible.get(each.conversation_id, each.seq + 1)
    ]
    chosen: list[Excerpt] = []
    for excerpt in _excerpts(reader, near[:_MOST]):
        if excerpt.tokens > budget // 2:
            excerpt = passage(excerpt, prompt, budget // 2)
        if excerpt.text.strip() and sum(each.tokens for each in chosen) + excerpt.tokens <= budget:
            chosen.append(excerpt)
    chosen.sort(key=lambda each: (stamp(each.at), each.conversation, each.seq or 0))
    text = "\n".join(map(render_excerpt, chosen))
    return Cue(text, sum(each.tokens for each in chosen), tuple(chosen))


def _excerpts(reader: Reader, matches: list[Match]) -> list[Excerpt]:
    """Return the messages, the best first."""
    seqs: defaultdict[int, list[int]] = defaultdict(list)
    for each in matches:
        seqs[each.conversation_id].append(each.seq)
    rows = {
        (conversation, row.seq): of_message(conversation, row)
        for conversation, wanted in seqs.items()
        for row in reader.store.messages.at(conversation, wanted)
    }
    places = [(each.conversation_id, each.seq) for each in matches]
    return [rows[place] for place in places if place in rows]
