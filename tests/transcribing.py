"""A host that writes a transcript, as pi and OpenClaw do: a header, then entries that name the one before them."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from lossless import Message
from lossless.formats import openclaw
from lossless.store.store import Store

EPOCH = 1_794_700_000_007
"""Milliseconds: when the first message is said. A second passes with each."""


class Session:
    """One transcript file. `named=False` writes the older, linear kind without entry ids."""

    def __init__(self, path: Path, session: str = "s1", *, named: bool = True, parent: str | None = None) -> None:
        self.path = path
        self.session = session
        self.named = named
        self.leaf: str | None = None
        self.said: list[tuple[str, dict[str, Any]]] = []
        """The ids and messages of what was said, in the order it was."""
        self.count = 0
        header = {"type": "session", "version": 3, "id": session, "timestamp": "2026-11-15T00:00:00.000Z", "cwd": "/p"}
        if parent is not None:
            header["parentSession"] = parent
        self.write([header], "w")

    def write(self, lines: Iterable[object], mode: str = "a") -> None:
        with self.path.open(mode) as file:
            file.writelines(json.dumps(line) + "\n" for line in lines)
        age(self.path)

    def entry(self, message: dict[str, Any], *, id: str | None = None, at: int | None = None) -> dict[str, Any]:
        """The next entry, as it would be written."""
        self.count += 1
        when = EPOCH + 1000 * (self.count if at is None else at)
        name = id or f"{self.session}-{self.count}"
        message = {**message, "timestamp": when}
        line: dict[str, Any] = {"type": "message", "timestamp": "2026-11-15T00:00:00.000Z", "message": message}
        if self.named:
            line |= {"id": name, "parentId": self.leaf}
            self.leaf = name
        self.said.append((name, message))
        return line

    def says(self, *messages: dict[str, Any]) -> list[Message]:
        """Write messages, and give them as the host would deliver them itself: without an id, with their time."""
        before = len(self.said)
        self.write([self.entry(message) for message in messages])
        return self.live(before)

    def live(self, start: int = 0, *, named: bool = False) -> list[Message]:
        return [
            replace(openclaw.load(message), event_id=name if named else None) for name, message in self.said[start:]
        ]

    def texts(self) -> list[str]:
        return [text_of(message) for _, message in self.said]


def user(text: str) -> dict[str, Any]:
    return {"role": "user", "content": [{"type": "text", "text": text}]}


def assistant(text: str, **more: Any) -> dict[str, Any]:
    return {"role": "assistant", "content": [{"type": "text", "text": text}], "stopReason": "stop", **more}


def result(call: str, text: str) -> dict[str, Any]:
    return {
        "role": "toolResult",
        "toolCallId": call,
        "toolName": "read",
        "content": [{"type": "text", "text": text}],
        "isError": False,
    }


def text_of(message: dict[str, Any]) -> str:
    return "\n".join(part["text"] for part in message["content"] if part["type"] == "text")


_clock = iter(range(1, 1_000_000_000))


def age(path: Path) -> None:
    """Another time for each write, long ago: what a file system's clock would tell is no matter of a test's."""
    when = 1_700_000_000 + next(_clock)
    os.utime(path, (when, when))


class Died(BaseException):
    """The process ends here."""


@contextmanager
def dying(store: Store, after: int) -> Iterator[None]:
    """The process dies at the statement after so many."""
    left = after

    def failing(verb: Callable[..., object]) -> Callable[..., object]:
        def fails(*arguments: object, **named: object) -> object:
            nonlocal left
            left -= 1
            if left == -1:
                raise Died
            return verb(*arguments, **named)

        return fails

    with pytest.MonkeyPatch.context() as patch:
        for name in ("run", "insert", "index", "remember_events", "all"):
            patch.setattr(store, name, failing(getattr(store, name)))
        yield
