"""Store what a host delivers, and read its transcript up to the present."""

from __future__ import annotations

import os
from collections.abc import Iterable
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import structs

from lossless.errors import InvalidInput, LosslessError
from lossless.events import Event
from lossless.ids import is_brief_of
from lossless.model import Message
from lossless.store.rows.codec import event_key

if TYPE_CHECKING:
    from lossless.client.conversation import Conversation
    from lossless.model import (
        Bootstrapped,
        Ingested,
    )
    from lossless.store.rows.types import ConversationRow


from lossless.client.arguments import checked_path

_MOST_EARLIER = 4
"""How many archived conversations of a key are searched for entries that a host's record still has."""


class Delivery:
    """The deliveries of one conversation, and its transcript."""

    def __init__(self, chat: Conversation) -> None:
        self._chat = chat

    def bootstrap(self, path: str | Path, format: str | None = None) -> Bootstrapped:
        """Read what is new in a host's transcript; see `Conversation.bootstrap`."""
        from lossless import transcripts
        from lossless.engine.ingest.heartbeats import prune
        from lossless.model import Bootstrapped

        if self._chat._closed_to:
            reason = self._chat._closed_as()
            return Bootstrapped("session excluded by pattern" if reason == "ignored session" else reason)
        where = checked_path(path)
        if format is not None:
            transcripts.reader(format)
        self.catch_up(besides=where)
        done = self.read(where, format, expected=True)
        self._chat._lcm._followed[self._chat.key] = True
        if self._chat._lcm.settings.prune_heartbeat_ok and done.conversation is not None:
            prune(self._chat._store, done.conversation, self._chat._intake.now())
        return done

    def take(
        self,
        messages: Iterable[Message],
        *,
        whole: bool = False,
        is_turn: bool = False,
    ) -> Ingested:
        """Ingest messages; a heartbeat of a turn that led to nothing stays out of the context."""
        from lossless.engine.context.summary_xml import may_stand
        from lossless.engine.ingest.heartbeats import outside
        from lossless.engine.ingest.ingest import ingest
        from lossless.model import Ingested

        if isinstance(messages, Message):
            messages = [messages]
        if not isinstance(messages, Iterable):
            raise InvalidInput(f"messages is a {type(messages).__name__}.", hint="Give a list of Messages.")
        if self._chat._closed_to:
            event = Event(
                "ingest.disabled",
                f"{self._chat._closed_to}: nothing was stored",
                "warning",
                {"conversation": self._chat.key},
            )
            self._chat._intake.on_event(event)
            return Ingested(skipped=len(list(messages)))
        said = list(messages)
        written = self.without_ours(said) if may_stand(said) else said
        # Whether a transcript is followed here is asked of the database once; a turn asks each time.
        known = self._chat._lcm._followed.get(self._chat.key)
        followed = self.catch_up() if known or known is None or is_turn else False
        intake = structs.replace(self._chat._intake, followed=followed, outside=outside if is_turn else None)
        with self._chat._assembler.noting() as in_transaction:
            done = ingest(
                self._chat._store, self._chat._files, intake, written, whole=whole, in_transaction=in_transaction
            )
        if self._chat._lcm.settings.semantic:
            self._chat._lcm._background.wake()  # what is new has no vectors yet
        return structs.replace(done, skipped=done.skipped + len(said) - len(written))

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
        intake = structs.replace(self._chat._intake, stream="transcript", skip=self.skips, outside=outside)
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

    def without_ours(self, messages: list[Message]) -> list[Message]:
        """Return the messages without those that `assemble` wrote for the model and a host sent back."""
        from lossless.engine.context.summary_xml import stands_for

        return [each for each in messages if not self.is_ours(stands_for(each))]

    def is_ours(self, name: str | None) -> bool:
        """Return whether we wrote a message for a model, by the id it stands for."""
        row = self._chat._row() if name is not None else None
        if row is None or name is None:
            return False
        if name.startswith("sum_"):
            found = self._chat._store.summaries.named(name)
            return found is not None and found[0] == row.id
        if name.startswith("pin_"):
            return any(pin.id == name for pin in self._chat._store.manifests.key_pins(row.key))
        if name.startswith("brief_"):
            return is_brief_of(row.key, name)
        return not name or self._chat._assembler.seq(row, name) is not None

    def read(self, path: Path, format: str | None = None, *, expected: bool = False) -> Bootstrapped:
        """Read a transcript from the last position."""
        from lossless.engine.sync.read import bootstrap

        settings = self._chat._lcm.settings
        intake = structs.replace(self._chat._intake, skip=self.skips, closed=self._chat._lcm._is_closed)
        budget = settings.bootstrap_budget
        return bootstrap(
            self._chat._store, self._chat._files, intake, path, format=format, budget=budget, expected=expected
        )

    def skips(self, message: Message) -> bool:
        """Return whether a message is skipped: the host leaked it, or we wrote it for a model."""
        from lossless.engine.context.summary_xml import may_stand, stands_for

        skip = self._chat._intake.skip
        return (skip is not None and skip(message)) or (may_stand([message]) and self.is_ours(stands_for(message)))

    def catch_up(self, besides: Path | None = None) -> bool:
        """Read the conversation's transcript up to now, so that what follows comes after it.

        Returns True if a transcript continues to report this conversation.
        """
        from lossless.engine.sync.read import UNREACHABLE
        from lossless.engine.sync.read_marks import newest_path

        row = self._chat._row()
        path = newest_path(self._chat._store, row) if row and row.transcribed else None
        self._chat._lcm._followed[self._chat.key] = path is not None
        if path is None:
            return False
        try:
            if besides is None or path != Path(os.path.realpath(besides)):
                return self.read(path).reason not in UNREACHABLE
        except LosslessError as error:
            # What comes next is at hand; what the transcript holds beyond it is still there the next time.
            self._chat._intake.on_event(
                Event("transcript.unavailable", str(error), "warning", {"conversation": self._chat.key})
            )
            return False
        return True


def _record_name(record: str) -> str:
    """Return the name of the cursor of a host's record."""
    return f"record:{sha256(record.encode('utf-8', 'surrogatepass')).hexdigest()[:32]}"
