"""List, show and read the large contents that are kept out of line."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lossless.client.arguments import checks_arguments
from lossless.engine.inspect import details, lists
from lossless.engine.inspect.lists import stored_file
from lossless.errors import NotFound
from lossless.model import Listing, ShownFile, StoredFile
from lossless.store import jsontext
from lossless.store.rows.types import FileRow
from lossless.times import Time

if TYPE_CHECKING:
    from lossless.client.conversation import Conversation
    from lossless.client.lossless import Lossless


@checks_arguments
class StoredFiles:
    """The large contents of any conversation: called, it lists them."""

    def __init__(self, lcm: Lossless) -> None:
        self._lcm = lcm

    def __call__(
        self,
        conversation: str | int,
        *,
        since: Time = None,
        until: Time = None,
        limit: int = 50,
        cursor: str | None = None,
    ) -> Listing[StoredFile]:
        """List the large contents of a conversation by the time they were stored, newest first.

        >>> files = lcm.files("agent:main:main", since="7d")
        """
        times, now = self._lcm._times(since, until)
        with self._lcm._store.snapshot():
            row = self._lcm._resolved(conversation).row
            return lists.files(self._lcm._store, row, times, now=now, limit=limit, cursor=cursor)

    def show(self, id: str, conversation: str | int | None = None) -> ShownFile:
        """Show a file: its facts, the conversations that have it, and the messages that refer to it.

        >>> lcm.files.show(file).available
        True
        """
        with self._lcm._store.snapshot():
            return details.file(self._lcm._store, self._lcm._files, id, self._lcm._row_of(conversation))

    def read(
        self,
        id: str,
        conversation: str | int | None = None,
        *,
        lines: tuple[int, int | None] | None = None,
        span: tuple[int, int | None] | None = None,
    ) -> bytes:
        """Return the exact bytes of a file: all, some lines, or a range of bytes.

        `lines` counts from 1, the last included; `span` counts from 0, the end excluded. Raises `FileUnavailable` if the bytes are
        missing or changed.

        >>> first = lcm.files.read(file, lines=(1, 2))
        """
        row = details.holders(self._lcm._store, id, self._lcm._row_of(conversation))[0][1]
        return details.content(self._lcm._files, row, lines, span)


@checks_arguments
class ConversationFiles:
    """The large contents of one conversation: called, it lists them."""

    def __init__(self, chat: Conversation) -> None:
        self._chat = chat

    def __call__(self) -> list[StoredFile]:
        """List the large contents of this conversation, oldest first.

        >>> [each.id for each in chat.files()] == [file]
        True
        """
        row = self._chat._row()
        return [] if row is None else [stored_file(each) for each in self._chat._store.files.of_conversation(row.id)]

    def show(self, id: str) -> StoredFile:
        """Return the facts of a large content.

        >>> chat.files.show(file).lines
        20000
        """
        return stored_file(self._file(id))

    def read(self, id: str, start: int = 0, end: int | None = None) -> bytes:
        """Return the bytes of a file from `start` up to `end`.

        >>> chat.files.read(file, 0, 4)
        b'line'
        """
        return self._chat._files.read(self._file(id).sha256, start, end)

    def lines(self, id: str, first: int = 1, last: int | None = None) -> str:
        """Return complete lines of a file, counted from 1, `last` included.

        >>> chat.files.lines(file, 2, 2)
        'line of a log\\n'
        """
        return self._chat._files.lines(self._file(id).sha256, first, last).decode("utf-8", "replace")

    def _file(self, id: str) -> FileRow:
        conversation = self._chat._row()
        known = conversation is not None and jsontext.is_clean(id)
        row = self._chat._store.files.get(conversation.id, id) if conversation and known else None
        if row is None:
            raise NotFound("file", repr(id), hint="`files()` lists those of this conversation.")
        return row
