"""The same verbs, awaited: each runs on a worker thread, so the event loop never waits for a disk or a server.

A call that is cancelled may still finish in its thread, and is stored whole or not at all: give messages their event
ids, and sending them again changes nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Any, ParamSpec, Self, TypeVar

import anyio.to_thread

from lossless.client import Conversation, Lossless
from lossless.engine.align import Canonicalize
from lossless.engine.ingest import Skip
from lossless.model import (
    Compaction,
    Context,
    ConversationStatus,
    Ingested,
    Message,
    Status,
    StoredFile,
    StoredMessage,
    Summary,
)

P = ParamSpec("P")
R = TypeVar("R")


async def _run(verb: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
    return await anyio.to_thread.run_sync(partial(verb, *args, **kwargs))


class AsyncLossless:
    """`Lossless` for asyncio and trio."""

    def __init__(self, lcm: Lossless) -> None:
        self._lcm = lcm
        self.settings = lcm.settings

    @classmethod
    def open(cls, database: str | Path | None = None, **options: Any) -> _Opening:
        """As `Lossless.open`; `async with AsyncLossless.open(...) as lcm:` or `lcm = await AsyncLossless.open(...)`."""
        return _Opening(cls, database, options)

    def conversation(
        self,
        key: str,
        session: str | None = None,
        *,
        canonicalize: Canonicalize | None = None,
        skip: Skip | None = None,
    ) -> AsyncConversation:
        return AsyncConversation(self._lcm.conversation(key, session, canonicalize=canonicalize, skip=skip))

    async def conversations(self) -> list[ConversationStatus]:
        return await _run(self._lcm.conversations)

    async def status(self) -> Status:
        return await _run(self._lcm.status)

    async def close(self) -> None:
        await _run(self._lcm.close)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with anyio.CancelScope(shield=True):
            await self.close()


class _Opening:
    """An `AsyncLossless` about to be opened: awaited, or entered."""

    def __init__(self, kind: type[AsyncLossless], database: str | Path | None, options: dict[str, Any]) -> None:
        self._open = partial(Lossless.open, database, **options)
        self._kind = kind
        self._opened: AsyncLossless | None = None

    def __await__(self) -> Generator[Any, None, AsyncLossless]:
        return self._now().__await__()

    async def _now(self) -> AsyncLossless:
        return self._kind(await _run(self._open))

    async def __aenter__(self) -> AsyncLossless:
        self._opened = await self._now()
        return self._opened

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._opened:
            await self._opened.__aexit__(kind, error, trace)


class AsyncConversation:
    """`Conversation` for asyncio and trio."""

    def __init__(self, chat: Conversation) -> None:
        self._chat = chat
        self.key = chat.key

    async def ingest(self, messages: Iterable[Message], *, whole: bool = False) -> Ingested:
        return await _run(self._chat.ingest, messages, whole=whole)

    async def messages(self, after: int = 0, limit: int | None = None) -> list[StoredMessage]:
        return await _run(self._chat.messages, after, limit)

    async def after_turn(self, messages: Iterable[Message], window: int) -> Ingested:
        return await _run(self._chat.after_turn, messages, window)

    async def compact(
        self, window: int, *, force: bool = False, target: int | None = None, observed: int = 0
    ) -> Compaction:
        return await _run(self._chat.compact, window, force=force, target=target, observed=observed)

    async def summaries(self) -> list[Summary]:
        return await _run(self._chat.summaries)

    async def context(self) -> Context:
        return await _run(self._chat.context)

    async def files(self) -> list[StoredFile]:
        return await _run(self._chat.files)

    async def file(self, file_id: str) -> StoredFile:
        return await _run(self._chat.file, file_id)

    async def read_file(self, file_id: str, start: int = 0, end: int | None = None) -> bytes:
        return await _run(self._chat.read_file, file_id, start, end)

    async def read_lines(self, file_id: str, first: int = 1, last: int | None = None) -> str:
        return await _run(self._chat.read_lines, file_id, first, last)

    async def status(self) -> ConversationStatus:
        return await _run(self._chat.status)
