"""Build the context of a conversation, remember what was shown, and explain it."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from datetime import datetime
from functools import partial
from hashlib import sha256
from typing import TYPE_CHECKING, Any

from msgspec import structs, to_builtins

from lossless.engine import sessions
from lossless.errors import FileUnavailable, InvalidInput, NotFound, StoreError
from lossless.events import Event
from lossless.model import INSTRUCTIONS, Context, Hits, Message, Pin, StoredMessage
from lossless.store import jsontext
from lossless.store.rows.codec import message_of, micros, moment
from lossless.store.rows.types import SPAN, PinRow
from lossless.times import read_time
from lossless.tokens import message_tokens

if TYPE_CHECKING:
    from lossless.client.conversation import Conversation
    from lossless.engine.compaction import plan
    from lossless.engine.context import provider_rejections
    from lossless.engine.context.build import BuildOptions, Guidance
    from lossless.engine.ingest.ingest import InTransaction
    from lossless.formats.fit import Caps
    from lossless.model import (
        Explanation,
        Rejection,
    )
    from lossless.store.rows.types import ConversationRow, MessageRow


from lossless.client.compactor import refuse_sizes

_MOST_NOTES = 32
_MOST_WORDS = 200
_MOST_ALIKE = 200


class Assembler:
    """The contexts of one conversation: built, remembered, explained."""

    def __init__(self, chat: Conversation) -> None:
        self._chat = chat

    def assemble(
        self,
        window: int | None = None,
        *,
        reserve: int = 0,
        live: Sequence[Message] | None = None,
        prompt_follows: bool = False,
        guidance: Guidance = "none",
        model: str | None = None,
    ) -> Context:
        """Build the context for a model; see `Conversation.assemble`."""
        from lossless.engine.compaction import plan
        from lossless.engine.context import provider_rejections
        from lossless.engine.context.build import build_context, without_rejected
        from lossless.engine.context.live_messages import fit_live

        window, lcm = self._chat._lcm._window(window), self._chat._lcm
        refuse_sizes(window)
        _refuse_foreign(live or ())
        limits = plan.limits(lcm.settings, window, key=self._chat.key, model=model)
        most = limits.budget
        if most - reserve < 1:
            raise InvalidInput(f"reserve={reserve} leaves nothing of {most}.", hint="Reserve less.")
        space = most - reserve
        try:
            factor = self._chat._compactor.factor(model)
            if factor != 1:
                space = max(1, int(space / factor))
                limits = plan.limits(lcm.settings, window, key=self._chat.key, model=model, factor=factor)
            live = self.held_messages(live)
            row = None if self._chat._hidden else self._chat._row()
            if row is None:
                why = self._chat._closed_to or "nothing is stored"
                taken = self.known_rejections() if live and not self._chat._hidden else provider_rejections.Rejections()
                held = without_rejected(live or (), taken, self._chat._intake.canonicalize)
                self._chat._shown = fit_live(held, space, why, prompt_follows=prompt_follows, caps=self.caps(model))
                return self._chat._shown
            context, note = build_context(
                self._chat._store,
                row,
                self.showing(row, limits, most, space, guidance, live, prompt_follows, model),
                self._chat._intake.now,
            )
        except Exception as error:  # whatever failed on our side, a host that holds its messages gets a request
            if live is None:
                raise
            why = f"{type(error).__name__}: {error}"
            why = "the database does not answer" if isinstance(error, StoreError) else why
            facts = {"conversation": self._chat.key, "error": type(error).__name__}
            self._chat._intake.on_event(Event("assemble.live", str(error) or type(error).__name__, "error", facts))
            return fit_live(live, space, why, prompt_follows=prompt_follows, caps=self.caps(model))
        lcm._measured[self._chat.key] = (model, context.tokens)
        self.watch_coverage(row, context, window, reserve, model)
        if not (self._chat._store.read_only or self._chat._closed_to):
            self._chat._notes.append((row.id, note))
        if len(self._chat._notes) >= _MOST_NOTES:
            with suppress(StoreError):  # they are written along with the next ingest
                self.remember()
        self._chat._shown = context if model is None else structs.replace(context, model=model)
        return self._chat._shown

    def preview(self, window: int) -> Context:
        """Build the context for a model of that window without recording it, for people and agents that look at it."""
        from lossless.engine.context.build import build_context

        row = None if self._chat._hidden else self._chat._row()
        if row is None:
            return Context((), 0)
        limits = self._chat._compactor.limits(window, None)
        how = self.showing(row, limits, window, limits.budget)
        return build_context(self._chat._store, row, how, self._chat._intake.now)[0]

    def report_rejection(self, error: object, *, request: Mapping[str, Any] | None = None) -> Rejection:
        """Leave out what a provider refused; see `Conversation.report_rejection`."""
        from lossless.engine.context import provider_rejections

        self._chat._refuse_if_closed()
        complaint = provider_rejections.parse_error(error, request)
        context = self._chat._shown or self.assemble(self.last_window())
        found = provider_rejections.locate(complaint, self.sent(context), context.messages)
        with self._chat._store.transaction():
            known = self.known_rejections(hold=True)
            new = provider_rejections.add_rejected(known, found)
            if new == known and found.located:
                # It is left out already and refused all the same: then the whole message is.
                found = structs.replace(
                    found, parts=tuple((name, "message") for name, _ in found.parts), kind="message"
                )
                new = provider_rejections.add_rejected(known, found)
            changed = new != known
            if changed:
                self._chat._store.state.set_guard(self.rejected, to_builtins(new), self._chat._intake.now())
        done = provider_rejections.report_rejection(found, changed=changed)
        self._chat._intake.on_event(
            Event("context.rejected", done.text, "warning", {"conversation": self._chat.key, "kind": done.kind})
        )
        return done

    def context(self, at: datetime | str | int | None = None) -> Context:
        """Return the entire context, or a past one; see `Conversation.context`."""
        from lossless.engine.context import load

        row = self._chat._row()
        if row is None:
            return Context((), 0)
        zone = self._chat._lcm.settings.zone
        if at is None:
            shown = load.entries(self._chat._store, row.id, self._chat._store.context.items(row.id), zone)
            tokens, reason = row.context_tokens, "stored"
        else:
            self.remember()
            turn = at if isinstance(at, int) else None
            then = None if isinstance(at, int) else read_time("at", at, zone, self._chat._lcm._clock())
            until = None if then is None else micros(then)
            found = self._chat._store.manifests.read(row.id, until=until, turn=turn, limit=1)
            if not found:
                raise NotFound("assembly", str(at), hint="Nothing was assembled then, or more than 1,000 turns ago.")
            shown, removed = load.manifest_entries(self._chat._store, row.id, found[0], zone)
            tokens = found[0].tokens
            reason = f"turn {found[0].turn}, {moment(found[0].at).isoformat(timespec='seconds')}"
            if removed:
                reason += f"; {removed:,} summaries shown then were removed since"
        items = tuple(entry.item for entry in shown if entry.item is not None)
        return Context(items, tokens, tuple(entry.message for entry in shown), reason=reason)

    def explain(self, what: str | int, *, window: int | None = None, model: str | None = None) -> Explanation:
        """Explain the place of a message; see `Conversation.explain`."""
        from lossless.engine.context.build import build_context
        from lossless.engine.context.explain import explain, note_duplicates

        row = self._chat._row()
        meant, more = ([], False) if row is None else self.meant(row, what, limit=_MOST_ALIKE)
        if row is None or not meant:
            raise NotFound("message", str(what), hint="Give its id (msg#...), or words that stand in it.")
        window, model = self._chat._lcm._window(window), model or self.last_model(row)
        limits = self._chat._compactor.limits(window, model)
        how = self.showing(row, limits, window, limits.budget, model=model)
        found = explain(
            self._chat._store, row, meant[0], build_context(self._chat._store, row, how, self._chat._intake.now)[0]
        )
        if found is None:
            raise NotFound("message", str(what), hint="Give its id (msg#...), or words that stand in it.")
        return note_duplicates(found, len(meant), more)

    def pin(self, what: str | int) -> Pin:
        """Pin a message or a text; see `Conversation.pin`."""
        from lossless.engine.context.summary_xml import as_pin

        self._chat._refuse_if_closed()
        row = self._chat._row() or next(iter(self._chat._store.conversations.under_key(self._chat.key)), None)
        if row is None or not str(what).strip():
            raise InvalidInput("There is nothing to pin.", hint="Give a text, or the id of a message (msg#...).")
        text, message_id = str(what), None
        if isinstance(what, int) or re.fullmatch(r"msg#[0-9]{1,19}", what.strip()):
            seq = self.seq(row, what)
            rows = self._chat._store.messages.at(row.id, [seq]) if seq is not None else []
            if not rows:
                raise NotFound("message", str(what), hint="`grep` finds messages and their ids.")
            text, message_id = rows[0].text, row.id * SPAN + rows[0].seq
        text = jsontext.cleaned(text if self._chat._lcm._redact is None else self._chat._lcm._redact.text(text))
        name = f"pin_{sha256(text.encode()).hexdigest()[:8]}"
        pinned = PinRow(name, message_id, text, message_tokens(as_pin(name, text)), self._chat._intake.now())
        with self._chat._store.transaction():
            self._chat._store.manifests.add_pin(row.id, pinned)
        return Pin(name, text, pinned.tokens, message_id)

    @property
    def rejected(self) -> str:
        """The name under which refused parts are stored."""
        return f"rejected:{self._chat.key}"

    def known_rejections(self, *, hold: bool = False) -> provider_rejections.Rejections:
        """Return the parts that providers refused."""
        from lossless.engine.context import provider_rejections

        return provider_rejections.decode_rejections(self._chat._store.state.guard(self.rejected, hold=hold))

    def last_model(self, row: ConversationRow) -> str | None:
        """Return the model that the host named last."""
        return self._chat._store.figures.windows([row.id]).get(row.id, (0, None))[1]

    def last_window(self) -> int | None:
        """Return the window of the last assembly."""
        row = self._chat._row()
        found = [] if row is None else self._chat._store.manifests.read(row.id, until=None, turn=None, limit=1)
        return found[0].window_tokens if found else None

    def sent(self, context: Context) -> list[provider_rejections.SentMessage]:
        """Return the messages of a context: those not stored yet, then the stored ones."""
        from lossless.engine.context import provider_rejections
        from lossless.engine.context.summary_xml import stands_for
        from lossless.engine.ingest.message_digest import digest

        items = [item for item in context.items if isinstance(item, StoredMessage)]
        known = {id(item.message) for item in items}
        live = [
            provider_rejections.SentMessage(
                "live message", digest(message, self._chat._intake.canonicalize).hex(), (message,)
            )
            for message in context.messages
            if id(message) not in known and message.role not in INSTRUCTIONS and stands_for(message) is None
        ]
        stored = [
            provider_rejections.SentMessage(
                f"msg#{item.id}", item.digest.hex(), (item.message, self.whole(item.id // SPAN, item.message))
            )
            for item in items
        ]
        return list({each.digest: each for each in (*live, *stored)}.values())

    def held_messages(self, live: Sequence[Message] | None) -> Sequence[Message] | None:
        """Return the messages a host holds, each once, less those it skips, as they will be stored."""
        from lossless.engine.context.live_messages import drop_repeated
        from lossless.engine.ingest.message_digest import same_event

        if live is None:
            return None
        messages = [message for message in live if not (self._chat._intake.skip and self._chat._intake.skip(message))]
        if self._chat._intake.redact:
            # They are known by their stored form, and no prompt changes once they are stored.
            messages = [self._chat._intake.cleaned(message) for message in messages]
        return drop_repeated(messages, same_event)

    def watch_coverage(
        self, row: ConversationRow, context: Context, window: int, reserve: int, model: str | None
    ) -> None:
        """Report, once, that a request leaves out what no summary covers, and have it compacted in the background."""
        from lossless.engine.worker import IDLE

        waiting = self._chat._lcm._uncovered
        if not context.uncovered:
            waiting.pop(self._chat.key, None)
            self._chat._lcm._dense.pop(self._chat.key, None)
            return
        if self._chat.key not in waiting:
            text = (
                f"{context.uncovered:,} tokens are neither shown to the model nor covered by a summary: "
                f"the context holds {row.context_tokens:,}, and {window - reserve:,} fit. Compaction is behind."
            )
            facts = {"conversation": self._chat.key, "tokens": context.uncovered, "window": window}
            self._chat._intake.on_event(Event("context.uncovered", text, "warning", facts))
        # Pins, guidance, live messages and the frames of summaries take space besides what the context holds.
        overhead = max(0, context.tokens + context.uncovered + reserve - row.context_tokens)
        if context.tokens + context.uncovered + reserve <= window / self._chat._compactor.factor(model):
            # Not the tokens of these messages are too many for a request, but their bytes.
            self._chat._lcm._dense[self._chat.key] = context.tokens
        waiting[self._chat.key] = overhead
        with suppress(StoreError):  # a request is not refused for it: the next one asks again
            if self._chat._store.read_only or self._chat._closed_to:
                return
            # A host that compacts within its turns does so after this one; any other may only ever assemble.
            deferred = self._chat._lcm.settings.proactive_threshold_compaction_mode == "deferred"
            if deferred or self._chat._store.debts.get(row.id) is not None:
                # In a moment: the host may be about to compact by itself.
                self._chat._compactor.schedule(window, row.context_tokens + overhead, model, after=IDLE)

    def showing(
        self,
        row: ConversationRow,
        limits: plan.Limits,
        window: int,
        space: int,
        guidance: Guidance = "none",
        live: Sequence[Message] | None = None,
        prompt_follows: bool = False,
        model: str | None = None,
    ) -> BuildOptions:
        from lossless.engine.context.build import BuildOptions

        return BuildOptions(
            limits,
            window,
            space,
            self._chat._lcm.settings.zone,
            self._chat._intake.canonicalize,
            partial(self.whole, row.id),
            partial(self.size, row.id),
            self.caps(model),
            guidance,
            live,
            prompt_follows,
            self._chat._intake.session,
            self.known_rejections(),
        )

    def caps(self, model: str | None) -> Caps:
        """Return the limits of one request in bytes and pictures."""
        from lossless.formats.fit import caps

        settings = self._chat._lcm.settings
        return caps(model, settings.max_request_bytes, settings.max_request_images)

    def size(self, conversation_id: int, file_ids: Sequence[str]) -> int:
        """Return the bytes of some files."""
        found = (self._chat._store.files.get(conversation_id, each) for each in file_ids)
        return sum(row.bytes for row in found if row is not None)

    def remember(self) -> None:
        """Write the pending manifests. Usually the next ingest does it, so that a turn has one transaction."""
        row = self._chat._row() if self._chat._notes else None
        if row is not None:
            with self.noting() as in_transaction, self._chat._store.transaction():
                in_transaction(self._chat._store.conversations.hold(row.id))

    @contextmanager
    def noting(self) -> Iterator[InTransaction]:
        """Yield a function that writes the pending manifests; after a failure they are kept for the next time."""
        from lossless.engine.context import load

        notes = self._chat._notes[:]
        del self._chat._notes[: len(notes)]

        def write(row: ConversationRow) -> None:
            # A manifest of a conversation that was archived meanwhile does not belong to the next one.
            if own := [note for conversation_id, note in notes if conversation_id == row.id]:
                self._chat._store.manifests.add(row.id, own, load.KEPT)
            if self._chat._parent:
                sessions.attach_to_parent(self._chat._store, row, *self._chat._parent)

        try:
            yield write
        except BaseException:
            self._chat._notes[:0] = notes
            raise

    def seq(self, row: ConversationRow, what: str | int) -> int | None:
        """Return the seq of the message that an id or a text refers to."""
        return next(iter(self.meant(row, what)[0]), None)

    def meant(self, row: ConversationRow, what: str | int, limit: int = 1) -> tuple[list[int], bool]:
        """Return the seqs of the messages that an id or a text refers to, newest first, and whether there are more."""
        named = re.fullmatch(r"(?:msg#)?([0-9]{1,19})", str(what).strip())
        if named:
            conversation, seq = divmod(int(named[1]), SPAN)
            return [seq] if conversation == row.id and 0 < seq < row.next_seq else [], False
        words = str(what).strip()[:_MOST_WORDS]
        hits = Hits()
        if words:
            hits = self._chat.grep(
                re.escape(words), scope="messages", limit=limit, ignore_case=False, include_recall=True
            )
        own = [hit.seq for hit in hits if hit.conversation == row.id and hit.seq is not None]
        return own, len(own) == limit and hits.next_cursor is not None

    def exact(self, conversation_id: int, row: MessageRow) -> StoredMessage:
        """Return a message as it was delivered, with its large content restored."""
        stored = _stored(conversation_id, row)
        message = self.whole(conversation_id, stored.message)
        return stored if message is stored.message else _stored(conversation_id, row, message)

    def whole(self, conversation_id: int, message: Message, chosen: Sequence[int] | None = None) -> Message:
        """Return a message with its large content restored: all of it, or the chosen pieces."""
        from lossless.engine.ingest import large_content

        def read(file_id: str) -> bytes:
            found = self._chat._store.files.get(conversation_id, file_id)
            if found is None:
                raise FileUnavailable(f"{file_id} has no row.")
            return self._chat._files.read_all(found.sha256)

        try:
            return (
                large_content.restore(message, read)
                if chosen is None
                else large_content.restore_pieces(message, read, chosen)
            )
        except FileUnavailable as error:
            # One lost payload must not make the history unreadable: the reference stays, and an event reports it.
            self._chat._intake.on_event(
                Event("file.unavailable", str(error), "error", {"conversation": self._chat.key})
            )
            return message


def _refuse_foreign(messages: Iterable[object]) -> None:
    """Refuse a list that contains something else than Messages."""
    for each in messages:
        if not isinstance(each, Message):
            hint = "Give Messages: lossless.formats makes them of what a host holds."
            raise InvalidInput(f"live contains {repr(each)[:80]}.", hint=hint)


def _stored(conversation_id: int, row: MessageRow, message: Message | None = None) -> StoredMessage:
    return StoredMessage(
        conversation_id * SPAN + row.seq,
        row.seq,
        row.tokens,
        row.digest,
        moment(row.created_at),
        message or message_of(row),
        row.outside,
    )
