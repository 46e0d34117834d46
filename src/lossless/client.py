"""The verbs: `Lossless` opens a database, `Conversation` is one history in it."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Self

from msgspec import structs

from lossless import config, summarizers
from lossless.config import Settings
from lossless.engine import payloads
from lossless.engine.align import Canonicalize, without_tags
from lossless.engine.compact import Flow, as_summary, compact
from lossless.engine.files import Files
from lossless.engine.guards import Guards
from lossless.engine.ingest import Intake, Skip, ingest
from lossless.engine.prompts import Templates
from lossless.engine.render import as_message
from lossless.errors import FileUnavailable, InvalidInput, NotFound, SummarizerAuth, SummarizerError
from lossless.events import Event, Hook, guarded, log
from lossless.model import (
    Compaction,
    Context,
    ConversationStatus,
    Ingested,
    Item,
    Message,
    Status,
    StoredFile,
    StoredMessage,
    Summary,
)
from lossless.patterns import any_match
from lossless.store import jsontext
from lossless.store.base import SPAN, ConversationRow, FileRow, MessageRow, Store
from lossless.store.rows import message_of, moment
from lossless.summarizers import Function, Summarizer
from lossless.version import __version__

if TYPE_CHECKING:
    from tempfile import TemporaryDirectory

# Together they fit into one entry of a PostgreSQL index.
_MOST_BYTES = {"key": 1000, "session": 1000, "owner": 200}
Clock = Callable[[], float]


class Lossless:
    """A database of conversations, for one owner. Threads and processes may share it freely."""

    def __init__(
        self,
        store: Store,
        settings: Settings,
        *,
        summarizer: str | Function | Summarizer | None = None,
        on_event: Hook = log,
        clock: Clock = time.time,
    ) -> None:
        self._store = store
        self.settings = settings
        self._scratch: TemporaryDirectory[str] | None = None
        self._files = Files(self._files_dir())
        self._on_event = guarded(on_event)
        self._named = summarizer
        self._asked: Summarizer | None = None
        self._prompts: Templates | None = None
        self._clock = clock

    @classmethod
    def open(
        cls,
        database: str | Path | None = None,
        *,
        settings: Settings | None = None,
        summarizer: str | Function | Summarizer | None = None,
        owner: str | None = None,
        read_only: bool = False,
        on_event: Hook = log,
        clock: Clock = time.time,
    ) -> Self:
        """Open a database, made if it is not there: a path, a `postgresql://` URL, or what the settings say.

        Without `settings` they are read from `lcm.toml` and the environment. `owner` is whose memory this is
        ("default" if nobody says): other owners' conversations do not exist here. `summarizer` is "provider/model",
        "command:...", "extractive" or a function of a `SummaryRequest`; otherwise the settings decide.
        """
        if not isinstance(database, str | Path | None):
            raise InvalidInput(f"{database!r} is not a database.", hint="Give a path or a postgresql:// URL.")
        if not isinstance(settings, Settings | None):
            raise InvalidInput(
                f"settings={type(settings).__name__} is not Settings.", hint="Use lossless.Settings(...)."
            )
        given = {} if database is None else {"database_path": str(database)}
        if settings is None:
            loaded = config.resolve(given)
            settings = loaded.settings
            for warning in loaded.warnings:
                guarded(on_event)(Event("config.ignored", warning, "warning"))
        elif given:
            settings = structs.replace(settings, **given)
        name = _checked("owner", "default" if owner is None else owner)
        store = _open_store(settings.database, name, read_only, guarded(on_event))
        return cls(store, settings, summarizer=summarizer, on_event=on_event, clock=clock)

    def conversation(
        self,
        key: str,
        session: str | None = None,
        *,
        canonicalize: Canonicalize | None = None,
        skip: Skip | None = None,
    ) -> Conversation:
        """The conversation under a key, the host's stable name for it. It comes into being with its first message.

        `session` is the host's id for the present run, remembered with it. For hosts that decorate what they
        send, `canonicalize(role, text)` gives the text as it counts for identity; `skip(message)` keeps what is
        no message at all (a host's own leaks) from being stored.
        """
        return Conversation(self, _checked("key", key), session, canonicalize, skip)

    def conversations(self) -> list[ConversationStatus]:
        """All conversations, the newest activity first."""
        return [_conversation_status(row) for row in self._store.conversations()]

    def status(self) -> Status:
        """What is stored, where, and since when."""
        found = self._store.conversations()
        return Status(
            version=__version__,
            database=self._store.location,
            bytes=self._store.size(),
            owner=self._store.owner,
            conversations=len(found),
            messages=sum(row.messages for row in found),
            context_tokens=sum(row.context_tokens for row in found),
            last_ingest_at=moment(max(row.updated_at for row in found)) if found else None,
        )

    def _summarizer(self) -> Summarizer:
        if self._asked is None:
            if self._named is None:
                self._asked = summarizers.configured(self.settings, on_event=self._on_event)
            else:
                self._asked = summarizers.resolve(self._named, self.settings, on_event=self._on_event)
        return self._asked

    def _templates(self) -> Templates:
        if self._prompts is None:
            self._prompts = Templates.load(self.settings.prompt_dir)
            for problem in self._prompts.problems:
                self._on_event(Event("prompts.refused", problem, "warning"))
        return self._prompts

    def __repr__(self) -> str:
        return f"Lossless({self._store.location!r}, owner={self._store.owner!r})"

    def close(self) -> None:
        """Close the database. Everything acknowledged is on disk already."""
        self._store.close()
        if self._scratch:
            self._scratch.cleanup()

    def _files_dir(self) -> Path:
        if self._store.location != ":memory:" or self.settings.large_files_dir:
            return self.settings.files_dir
        from tempfile import TemporaryDirectory

        self._scratch = TemporaryDirectory(prefix="lcm-files-")
        return Path(self._scratch.name)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class Conversation:
    """One history: every message, and the context made of it."""

    def __init__(
        self, lcm: Lossless, key: str, session: str | None, canonicalize: Canonicalize | None, skip: Skip | None
    ) -> None:
        settings = lcm.settings
        self.key = key
        self._lcm = lcm
        self._store = lcm._store
        self._files = lcm._files
        self._closed_to = _closed_to(settings, key)
        self._intake = Intake(
            key,
            None if session is None else _checked("session", session),
            settings.large_file_token_threshold,
            canonicalize or without_tags(settings.strip_injected_context_tags),
            skip,
            lcm._on_event,
            lambda: int(lcm._clock() * 1_000_000),
        )

    def __repr__(self) -> str:
        return f"Conversation({self.key!r})"

    def ingest(self, messages: Iterable[Message], *, whole: bool = False) -> Ingested:
        """Store the messages that are new, in one transaction, in order.

        A message with an `event_id` is stored once, however often it is sent. One without is always new, unless
        `whole` says that the list is the host's entire conversation: then what was sent before is recognised
        by its place. An error means that nothing of this call was stored.
        """
        if isinstance(messages, Message):
            messages = [messages]
        if not isinstance(messages, Iterable):
            raise InvalidInput(f"messages is a {type(messages).__name__}.", hint="Give a list of Messages.")
        if self._closed_to:
            event = Event(
                "ingest.disabled", f"{self._closed_to}: nothing was stored", "warning", {"conversation": self.key}
            )
            self._intake.on_event(event)
            return Ingested(skipped=len(list(messages)))
        return ingest(self._store, self._files, self._intake, messages, whole=whole)

    def messages(self, after: int = 0, limit: int | None = None) -> list[StoredMessage]:
        """The messages behind the seq `after`, oldest first, exactly as they were ingested."""
        if limit is not None and limit < 0:
            raise InvalidInput(f"limit={limit} is not a number of messages.", hint="Give 0 or more, or None for all.")
        row = self._store.conversation(self.key)
        if row is None:
            return []
        return [self._exact(row.id, each) for each in self._store.messages(row.id, after=after, limit=limit)]

    def after_turn(self, messages: Iterable[Message], window: int) -> Ingested:
        """Ingest what a turn brought, then compact if that made it worth while for a model of that window."""
        done = self.ingest(messages)
        self.compact(window)
        return done

    def compact(self, window: int, *, force: bool = False, target: int | None = None, observed: int = 0) -> Compaction:
        """Put summaries in the place of old runs, as far as it is worth it for a model of that window.

        Does nothing below the threshold, unless `force` says so; `target` asks for a number of tokens; `observed` is the
        prompt a host has measured. Nothing is ever lost: every summary leads back to its messages.
        """
        if window < 1 or (target is not None and target < 1):
            raise InvalidInput(f"window={window}, target={target}: both are numbers of tokens.", hint="Give 1 or more.")
        row = self._store.conversation(self.key)
        if row is None or self._closed_to:
            return Compaction((), 0, 0, self._closed_to or "nothing to compact")
        lcm = self._lcm
        flow = compact(
            self._store,
            row,
            lcm.settings,
            window,
            templates=lcm._templates(),
            now=lcm._clock,
            force=force,
            target=target,
            observed=observed,
        )
        summarizer = lcm._summarizer()
        guards = Guards(self._store, lcm.settings, self.key, summarizer.name, lcm._clock)
        if force:
            guards.lift()
        return _driven(flow, summarizer, guards)

    def summaries(self) -> list[Summary]:
        """Every summary of this conversation, in the order they were made."""
        row = self._store.conversation(self.key)
        return [] if row is None else [as_summary(each) for each in self._store.summaries(row.id)]

    def context(self) -> Context:
        """The ordered view: what a model is shown of this conversation, references standing for large content."""
        row = self._store.conversation(self.key)
        if row is None:
            return Context((), 0)
        items = self._store.items(row.id)
        messages = {each.seq: _stored(row.id, each) for each in self._store.context_messages(row.id)}
        chosen = [item.summary_id for item in items if item.summary_id is not None]
        summaries = {each.id: as_summary(each) for each in self._store.summaries(row.id, chosen)} if chosen else {}
        shown: list[Item] = [
            messages[item.ordinal] if item.summary_id is None else summaries[item.summary_id] for item in items
        ]
        said = tuple(as_message(item) if isinstance(item, Summary) else item.message for item in shown)
        return Context(tuple(shown), sum(item.tokens for item in items), said)

    def files(self) -> list[StoredFile]:
        """The large contents of this conversation, oldest first."""
        row = self._store.conversation(self.key)
        return [] if row is None else [_stored_file(each) for each in self._store.files(row.id)]

    def file(self, file_id: str) -> StoredFile:
        """What is known of a large content kept out of line."""
        return _stored_file(self._file(file_id))

    def read_file(self, file_id: str, start: int = 0, end: int | None = None) -> bytes:
        """The bytes of a file from `start` up to `end`."""
        return self._files.read(self._file(file_id).sha256, start, end)

    def read_lines(self, file_id: str, first: int = 1, last: int | None = None) -> str:
        """Whole lines of a file, counted from 1, `last` included."""
        return self._files.lines(self._file(file_id).sha256, first, last).decode("utf-8", "replace")

    def status(self) -> ConversationStatus:
        row = self._store.conversation(self.key)
        if row is None:
            raise NotFound("conversation", self.key, hint="It comes into being with its first message.")
        return _conversation_status(row)

    def _file(self, file_id: object) -> FileRow:
        conversation = self._store.conversation(self.key)
        known = isinstance(file_id, str) and jsontext.is_clean(file_id)
        row = self._store.file(conversation.id, str(file_id)) if conversation and known else None
        if row is None:
            raise NotFound("file", repr(file_id), hint="`files()` lists those of this conversation.")
        return row

    def _exact(self, conversation_id: int, row: MessageRow) -> StoredMessage:
        """The message as it came in, what had left the row put back."""
        stored = _stored(conversation_id, row)

        def read(file_id: str) -> bytes:
            found = self._store.file(conversation_id, file_id)
            if found is None:
                raise FileUnavailable(f"{file_id} has no row.")
            return self._files.whole(found.sha256)

        try:
            message = payloads.restore(stored.message, read)
        except FileUnavailable as error:
            # One lost payload must not make the history unreadable: the reference stays, and it is told.
            facts = {"conversation": self.key, "seq": row.seq}
            self._intake.on_event(Event("file.unavailable", str(error), "error", facts))
            return stored
        return stored if message is stored.message else _stored(conversation_id, row, message)


def _driven(flow: Flow, summarizer: Summarizer, guards: Guards) -> Compaction:
    """Run a compaction to its end, asking the summariser whatever it asks, as far as the guards let it."""
    try:
        request = next(flow)
        while True:
            try:
                guards.before_call()
                reply = summarizer.ask(request)
            except SummarizerError as error:
                if isinstance(error, SummarizerAuth):
                    guards.refused()
                request = flow.throw(error)
            else:
                guards.answered()
                request = flow.send(reply)
    except StopIteration as ended:
        done: Compaction = ended.value
        return done


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


def _conversation_status(row: ConversationRow) -> ConversationStatus:
    return ConversationStatus(
        row.id, row.key, row.active, row.messages, row.context_tokens, moment(row.created_at), moment(row.updated_at)
    )


def _stored_file(row: FileRow) -> StoredFile:
    return StoredFile(row.id, row.name, row.mime, row.bytes, row.lines, row.sha256, row.summary, moment(row.created_at))


def _closed_to(settings: Settings, key: str) -> str:
    """Why nothing of a conversation is to be stored, if so."""
    if not settings.enabled:
        return "LCM_ENABLED is false"
    if any_match(settings.ignore_session_patterns, key):
        return f"{key} matches ignore_session_patterns"
    if settings.skip_stateless_sessions and any_match(settings.stateless_session_patterns, key):
        return f"{key} matches stateless_session_patterns"
    return ""


def _checked(what: str, value: object) -> str:
    most = _MOST_BYTES[what]
    if not isinstance(value, str) or not value.strip() or not jsontext.is_clean(value) or len(value.encode()) > most:
        shown = repr(value)[:80]
        raise InvalidInput(
            f"{shown} cannot be the {what}.",
            hint=f"Give a text of 1 to {most} bytes without NUL or lone surrogates.",
        )
    return value


def _open_store(database: str, owner: str, read_only: bool, on_event: Hook) -> Store:
    if database.startswith(("postgresql://", "postgres://")):
        with suppress(ModuleNotFoundError):
            from lossless.store.postgres import PostgresStore

            return PostgresStore(database, owner=owner, read_only=read_only, on_event=on_event)
        raise InvalidInput("PostgreSQL needs its driver.", hint="Install it with: pip install 'lossless[postgres]'")
    from lossless.store.sqlite import SQLiteStore

    return SQLiteStore(database, owner=owner, read_only=read_only, on_event=on_event)
