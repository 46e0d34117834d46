"""Store what a host delivers, and read its transcript up to the present."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import structs

from lossless.errors import InvalidInput, LosslessError
from lossless.events import Event
from lossless.ids import is_brief_of
from lossless.model import Message

if TYPE_CHECKING:
    from lossless.client.conversation import Conversation
    from lossless.model import (
        Bootstrapped,
        Ingested,
    )


from lossless.client.arguments import checked_path


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
