"""Give adapters of hosts what they need beyond the verbs of a conversation.

Verbs are for programs that own their conversation. A host has a record, a list and ids of its own, and an adapter has to
recognise them.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from hashlib import sha256
from typing import TYPE_CHECKING

from msgspec import structs

from lossless.engine import sessions
from lossless.model import Message
from lossless.store.rows.codec import event_key
from lossless.store.rows.types import SPAN

if TYPE_CHECKING:
    from lossless.client.conversation import Conversation
    from lossless.model import Ingested, StoredMessage
    from lossless.store.rows.types import ConversationRow

_MOST_EARLIER = 4
"""How many conversations of a key are searched for messages that a host still has."""
_MOST_ALIKE = 200


class HostAccess:
    """A conversation as the adapter of a host uses it."""

    def __init__(self, chat: Conversation) -> None:
        self._chat = chat

    @property
    def has_messages(self) -> bool:
        """Return whether anything was stored: a conversation is created by its first message."""
        return self._chat._row() is not None

    @property
    def position(self) -> tuple[int, int] | None:
        """The id of the conversation and its next place: one of them changes when anyone stores something."""
        row = self._chat._row()
        return None if row is None else (row.id, row.next_seq)

    def last_window(self) -> int | None:
        """Return the window of the last assembly."""
        return self._chat._assembler.last_window()

    def is_ours(self, name: str) -> bool:
        """Return whether an id is that of a summary, brief, pin or reference of this conversation."""
        return self._chat._delivery.is_ours(name)

    def whole(self, stored: StoredMessage) -> Message:
        """Return a stored message as it was delivered, with its large content."""
        return self._chat._assembler.whole(stored.id // SPAN, stored.message)

    def name_known(self, live: Sequence[Message]) -> list[Message]:
        """Return the messages a host holds with the event ids of stored messages of the same role and time.

        Those of a conversation that was archived, as by `/reset`, are left out: the host may still send them.
        """
        from lossless.engine.context.live_messages import name_by_time

        named, store = list(live), self._chat._store
        for row in store.conversations.under_key(self._chat.key)[:_MOST_EARLIER]:
            newest = max(0, row.next_seq - 1 - 2 * len(live) - _MOST_ALIKE)
            before = named
            named = name_by_time(before, store.messages.times(row.id, after=newest))
            if not row.active:
                named = [new for old, new in zip(before, named, strict=True) if new is old]
        return named

    def take_history(
        self, messages: Iterable[Message], record: str | None = None, position: str | None = None
    ) -> Ingested:
        """Ingest a page of the host's own record, in order, each message with the record's id as its event id.

        Messages that the host delivered itself are recognised, also under other ids. Call it from the oldest page on. The
        `position` after the page is written with it.
        """
        from lossless.engine.ingest.heartbeats import outside
        from lossless.engine.ingest.ingest import ingest
        from lossless.model import Ingested

        written = list(messages)
        if self._chat._closed_to:
            return Ingested(skipped=len(written))
        store = self._chat._store
        earlier = self._stored_earlier([message.event_id for message in written])
        delivered, written = written, [message for message in written if message.event_id not in earlier]
        intake = structs.replace(
            self._chat._intake, stream="transcript", skip=self._chat._delivery.skips, outside=outside
        )
        with self._chat._assembler.noting() as write_notes:

            def in_transaction(row: ConversationRow) -> None:
                write_notes(row)
                if not row.transcribed:
                    store.conversations.set_transcribed(row.id)
                if record is not None and position is not None:
                    state = {"position": position}
                    store.state.set_cursor(row.id, _record_name(record), state, self._chat._intake.now())

            done = ingest(store, self._chat._files, intake, written, in_transaction=in_transaction)
        return structs.replace(done, known=done.known + len(delivered) - len(written))

    def _stored_earlier(self, names: list[str | None]) -> set[str]:
        """Return the event ids that an archived conversation of this key has: a `/reset` may not end the host's record."""
        keys = {key: name for name in names if name is not None and (key := event_key(name)) is not None}
        family = self._chat._store.conversations.under_key(self._chat.key)
        rows = [row for row in family if not row.active][:_MOST_EARLIER]
        known = (self._chat._store.messages.known_events(row.id, list(keys), aliases=True) for row in rows if keys)
        return {keys[key] for found in known for key in found}

    def history_position(self, record: str) -> str | None:
        """Return the position up to which a record of the host was stored; None at its start."""
        for row in self._chat._store.conversations.under_key(self._chat.key):
            state = self._chat._store.state.cursor(row.id, _record_name(record))
            if isinstance(state, dict) and isinstance(found := state.get("position"), str):
                return found
        return None

    def withdraw(self, seqs: Collection[int]) -> int:
        """Take messages out of the context because their host took them back; return how many. They stay stored."""
        chat = self._chat
        return sessions.withdraw(chat._store, chat.key, chat._intake.session, seqs, chat._intake.now())

    def follow(self, held: Collection[str]) -> None:
        """Withdraw the messages that a host dropped from its list, and bring back those it holds again, by their event ids."""
        chat = self._chat
        if not chat._closed_to:
            sessions.follow_host(chat._store, chat.key, chat._intake.session, held, chat._intake.now())


def _record_name(record: str) -> str:
    """Return the name of the cursor of a host's record."""
    return f"record:{sha256(record.encode('utf-8', 'surrogatepass')).hexdigest()[:32]}"
