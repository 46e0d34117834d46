"""Suggest ids and keys that are close to one that does not exist, without reading all of them."""

from __future__ import annotations

import re
from collections.abc import Sequence
from difflib import SequenceMatcher, get_close_matches
from typing import cast

from lossless.ids import message_id
from lossless.model import Nearest
from lossless.store import jsontext
from lossless.store.rows.types import SPAN, ConversationRow, Named
from lossless.store.store import Store

_PREFIXES = {"summary": "sum_", "file": "file_", "operation": "op_"}
_MESSAGE = re.compile(r"(?:msg#)?([0-9]{1,18})", re.ASCII)
_LONGEST = 80
_MOST = 3
_MOST_KEYS = 2_000
_ALIKE = 0.75
_ENOUGH = 4
"""Digits that distinguish an id from most others."""


def nearest(store: Store, what: str, which: object) -> Nearest:
    """Return the names closest to `which`, of the kind `what`.

    Kinds are conversation, message, summary, file, operation, and id for any of them.
    """
    named = str(which).strip().strip("'\"")[:_LONGEST]
    if not named or not jsontext.is_clean(named):
        return Nearest()
    if what == "conversation":
        return _conversations(store, named)
    if what == "message":
        return _messages(store, named)
    if what == "id":
        return _any_id(store, named)
    return Nearest(_ids(store, cast("Named", what), named)) if what in _PREFIXES else Nearest()


def _any_id(store: Store, digits: str) -> Nearest:
    """Return the objects whose id starts with these digits."""
    found = [name for what in _PREFIXES for name in _ids(store, cast("Named", what), digits)]
    return Nearest(tuple(name for name in found if name.partition("_")[2].startswith(digits))[:_MOST])


def _conversations(store: Store, named: str) -> Nearest:
    keys = list(dict.fromkeys(row.key for row in store.conversations.of_owner()))[:_MOST_KEYS]
    folded = {key.casefold(): key for key in reversed(keys)}
    close = [folded[each] for each in get_close_matches(named.casefold(), folded, _MOST)]
    holding = [key for key in keys if named.casefold() in key.casefold()]
    return Nearest(tuple(dict.fromkeys(close + holding))[:_MOST])


def _ids(store: Store, what: Named, named: str) -> tuple[str, ...]:
    prefix = _PREFIXES[what]
    id = prefix + named.lower().removeprefix(prefix)
    beside = list(dict.fromkeys(store.details.around(what, id)))
    if id in beside:
        return (id,)
    completions = [each for each in beside if each.startswith(id) and len(id) >= len(prefix) + _ENOUGH]
    return tuple(completions or _alike(id, beside, len(prefix) + _ENOUGH))


def _alike(id: str, names: Sequence[str], enough: int) -> list[str]:
    return [
        each
        for each in names
        if (len(id) >= enough and each.startswith(id[:enough])) or SequenceMatcher(None, id, each).ratio() >= _ALIKE
    ]


def _messages(store: Store, named: str) -> Nearest:
    number = _MESSAGE.fullmatch(named)
    if number is None:
        return Nearest()
    conversation, seq = divmod(int(number[1]), SPAN)
    rows = store.conversations.of_owner()
    having = [row for row in rows if not conversation and 0 < seq < row.next_seq][:_MOST]
    names = tuple(message_id(row.id * SPAN + seq) for row in having) or _any_id(store, number[1]).names
    # The conversation that the number contains; if it contains none, the newest.
    described = [row for row in rows if row.id == conversation] or ([] if names else rows[:1])
    return Nearest(names, " ".join(map(_range, described)))


def _range(row: ConversationRow) -> str:
    if not row.messages:
        return f"{row.key} has no messages yet."
    first, last = (message_id(row.id * SPAN + seq) for seq in (1, row.messages))
    return f"The messages of {row.key} are {first} to {last}."
