"""Read a list that a host sends again in each turn: only the messages that were not in it the last time."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from hashlib import blake2b
from typing import Any

import msgspec

from lossless.errors import InvalidInput
from lossless.model import Message

_MOST_LISTS = 8


class ResentMessages:
    """The last list of each conversation as it was read. For formats in which each message is read by itself."""

    def __init__(self, load: Callable[[list[Mapping[str, Any]]], list[Message]]) -> None:
        self._load = load
        self._lists: dict[str, dict[bytes, Message]] = {}

    def read(self, key: str, messages: Sequence[Mapping[str, Any]]) -> list[Message]:
        """Return the messages of a list."""
        try:
            marks = [blake2b(msgspec.json.encode(each), digest_size=16).digest() for each in messages]
        except (TypeError, ValueError, OverflowError):  # half of a character, or a number that JSON readers do not take
            return self._load(list(messages))
        last = self._lists.pop(key, {})
        fresh = {mark: each for mark, each in zip(marks, messages, strict=True) if mark not in last}
        try:
            known = last | dict(zip(fresh, self._load(list(fresh.values())), strict=True))
        except InvalidInput:
            return self._load(list(messages))  # its error names the place in this list
        self._lists[key] = {mark: known[mark] for mark in marks}
        while len(self._lists) > _MOST_LISTS:
            self._lists.pop(next(iter(self._lists)), None)
        return [known[mark] for mark in marks]
