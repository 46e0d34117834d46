"""The verbs: `Lossless` opens a database, `Conversation` is one history in it."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from datetime import datetime
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Self

from msgspec import structs

from lossless import config, summarizers
from lossless.config import Settings
from lossless.engine import answer as answering
from lossless.engine import describe as describing
from lossless.engine import expand as expanding
from lossless.engine import grants, moving, reading
from lossless.engine import grep as grepping
from lossless.engine.align import Canonicalize
from lossless.engine.asked import Asked, Mode, Scope, Sort, check
from lossless.engine.files import Files
from lossless.engine.guards import Guards
from lossless.engine.ingest import Skip
from lossless.engine.prompts import Templates
from lossless.engine.reading import Reader
from lossless.engine.remake import MOST_TRIES
from lossless.engine.semantic import Vectors
from lossless.engine.worker import Background, Worker
from lossless.errors import InvalidInput, StoreError
from lossless.events import Event, Hook, guarded, log
from lossless.model import (
    Answer,
    Compaction,
    ConversationStatus,
    Description,
    Expansion,
    Exported,
    Hits,
    Migration,
    Status,
)
from lossless.search import embeddings
from lossless.store.base import DebtRow, NewManifest, Store
from lossless.store.rows import moment
from lossless.summarizers import Awaited, Chain, Function, Summarizer
from lossless.version import __version__

if TYPE_CHECKING:
    from tempfile import TemporaryDirectory


from lossless.client.conversation import Conversation, checked, conversation_status
from lossless.client.explorer import full_name, reach
from lossless.client.jobs import Inquiry, Job

__all__ = ["Conversation", "Inquiry", "Job", "Lossless"]

Clock = Callable[[], float]
_PATIENCE = 5.0
_MOST_DRAINED = 1_000
WINDOW = 128_000


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
        self._answering: Summarizer | None = None
        self._slots = grants.Slots()
        self._background = Background(self.worker)
        self._notes: dict[str, list[tuple[int, NewManifest]]] = {}
        self._assumed = False

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
        name = checked("owner", "default" if owner is None else owner)
        store = _open_store(settings.database, name, read_only, guarded(on_event))
        return cls(store, settings, summarizer=summarizer, on_event=on_event, clock=clock)

    def conversation(
        self,
        key: str,
        session: str | None = None,
        *,
        parent: Conversation | str | None = None,
        canonicalize: Canonicalize | None = None,
        skip: Skip | None = None,
    ) -> Conversation:
        """The conversation under a key, the host's stable name for it. It comes into being with its first message.

        `session` is the host's id for the present run, remembered with it; each run of a scheduled job
        (`agent:NAME:cron:JOB`) is a conversation of its own. `parent` is the conversation, or its key, whose sub-agent this
        is: recall from there reaches it, and not the other way round. For hosts that decorate what they send,
        `canonicalize(role, text)` gives the text as it counts for identity; `skip(message)` keeps what is no message at
        all (a host's own leaks) from being stored.
        """
        return Conversation(self, checked("key", key), session, canonicalize, skip, parent)

    def conversations(self) -> list[ConversationStatus]:
        """All conversations, the newest activity first."""
        return [conversation_status(row) for row in self._store.conversations()]

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

    def describe(
        self,
        id: str | int,
        *,
        start_line: int | None = None,
        end_line: int | None = None,
        max_tokens: int | None = None,
    ) -> Description:
        """As `Conversation.describe`, in any conversation."""
        lines = describing.Lines(start_line, end_line)
        return describing.describe(self._reader(reading.everything(self._store)), id, lines, cap=max_tokens)

    def expand(
        self,
        id: str | int | Sequence[str | int],
        max_tokens: int | None = None,
        *,
        depth: int = 1,
        include_messages: bool = True,
        strategy: expanding.Strategy = "order",
        cursor: str | None = None,
    ) -> Expansion:
        """As `Conversation.expand`, in any conversation."""
        return expanding.expand(
            self._reader(reading.everything(self._store)),
            id,
            max_tokens=max_tokens,
            depth=depth,
            include_messages=include_messages,
            strategy=strategy,
            cursor=cursor,
        )

    def ask(
        self,
        question: str,
        *,
        ids: Sequence[str | int] | None = None,
        query: str | None = None,
        max_tokens: int | None = None,
        token_cap: int | None = None,
    ) -> Answer:
        """As `Conversation.ask`, of all conversations: the three that promise most are read, and share the budget."""
        return self.inquiry(question, ids=ids, query=query, max_tokens=max_tokens, token_cap=token_cap).run()

    def inquiry(
        self,
        question: str,
        *,
        ids: Sequence[str | int] | None = None,
        query: str | None = None,
        max_tokens: int | None = None,
        token_cap: int | None = None,
        timeout_ms: int | None = None,
        scope: tuple[int, ...] | None = None,
        origin: str = "main",
        evidence_only: bool = False,
    ) -> Inquiry:
        """A question ready to be driven, about the conversations in `scope`, or about all.

        With `evidence_only` no model is asked and nothing is written: the best passages are the answer.
        """
        for name, value in (("max_tokens", max_tokens), ("token_cap", token_cap), ("timeout_ms", timeout_ms)):
            if value is not None and value < 1:
                raise InvalidInput(f"{name}={value} is too little.", hint="Give 1 or more.")
        asking = answering.Asking(
            question,
            origin,
            tuple(ids or ()),
            query,
            max_tokens,
            token_cap or self.settings.max_expand_tokens,
            scope is None,
            timeout_ms,
        )
        model = self._expander()
        reader = self._reader(reading.everything(self._store) if scope is None else scope)
        with_model = model.name != "extractive" and not evidence_only
        flow = answering.ask(reader, asking, with_model=with_model, slots=self._slots, now=self._clock)
        return Inquiry(flow, model, Guards(self._store, self.settings, f"ask:{origin}", model.name, self._clock))

    def grep(
        self,
        pattern: str,
        mode: Mode = "regex",
        scope: Scope = "both",
        *,
        since: datetime | str | None = None,
        before: datetime | str | None = None,
        limit: int = 50,
        sort: Sort = "recency",
        cursor: str | None = None,
        file_ids: Sequence[str] | None = None,
        seconds: float = grepping.SECONDS,
    ) -> Hits:
        """As `Conversation.grep`, in all conversations of this owner."""
        asked = check(
            pattern,
            mode=mode,
            scope=scope,
            since=since,
            before=before,
            limit=limit,
            sort=sort,
            file_ids=file_ids,
        )
        return self._grep(reading.everything(self._store), asked, cursor, seconds)

    def _grep(self, scope: tuple[int, ...], asked: Asked, cursor: str | None, seconds: float) -> Hits:
        return grepping.grep(
            self._reader(scope), asked, now=self._clock, on_event=self._on_event, cursor=cursor, seconds=seconds
        )

    def _reader(self, scope: tuple[int, ...]) -> Reader:
        return Reader(self._store, self._files, self.settings, scope)

    def drain(self) -> int:
        """Do what is owed to any conversation now, in this thread, idle or not; how many were worked on.

        For hosts that end with their turn. What a guard or a retry delay holds back stays owed.
        """
        worker, worked = self.worker(), 0
        while worked < _MOST_DRAINED and worker.step(idle=0):
            worked += 1
        while worker.embed(idle=0):
            pass
        return worked

    def worker(self) -> Worker:
        """A worker that drains what is owed: `step()` once, or `run(stop)` until the event `stop` is set."""
        return Worker(
            self._store,
            self._pay,
            now=self._clock,
            tries=self._tries,
            on_event=self._on_event,
            vectors=self._vectors(),
        )

    def _vectors(self) -> Vectors | None:
        if self.settings.semantic and not embeddings.is_installed():
            told = "Vectors are wanted, and the extra lossless[semantic] is not installed."
            self._on_event(Event("semantic.unavailable", told, "warning"))
            return None
        return Vectors(self._store) if self.settings.semantic and self.settings.enabled else None

    def _pay(self, debt: DebtRow, wanted_elsewhere: Callable[[], bool]) -> Compaction:
        """Compaction, if a window is owed it, then whatever has to be made anew."""

        def pause() -> bool:
            return self._background.is_closing or wanted_elsewhere()

        return self.conversation(debt.key)._pay(debt, pause)

    def _window(self, window: int | None) -> int:
        if window is None and not self._assumed:
            self._assumed = True
            told = f"No window was named; {WINDOW:,} tokens are assumed."
            self._on_event(Event("window.assumed", told, "warning"))
        return WINDOW if window is None else window

    def _tries(self) -> int:
        return 0 if self._summarizer().name == "extractive" else MOST_TRIES

    def _summarizer(self) -> Summarizer:
        if self._asked is None:
            if self._named is None:
                self._asked = summarizers.configured(self.settings, on_event=self._on_event)
            else:
                named = summarizers.resolve(self._named, self.settings, on_event=self._on_event)
                # A chain of one lets a provider rest that asked for it.
                self._asked = named if isinstance(named, Awaited) else Chain([named])
        return self._asked

    def _expander(self) -> Summarizer:
        """Who answers questions: the expansion model, and behind it, or in its place, who writes the summaries."""
        if self._answering is None:
            own, settings = self._summarizer(), self.settings
            if not settings.expansion_model:
                return own
            patience = min(settings.summary_timeout_ms, settings.delegation_timeout_ms)
            within = structs.replace(reach(self), summary_timeout_ms=patience)
            named = summarizers.resolve(full_name(settings), within, on_event=self._on_event)
            self._answering = Chain([named] if own.name == "extractive" else [named, own])
        return self._answering

    def _templates(self) -> Templates:
        if self._prompts is None:
            self._prompts = Templates.load(self.settings.prompt_dir)
            for problem in self._prompts.problems:
                self._on_event(Event("prompts.refused", problem, "warning"))
        return self._prompts

    def migrate(self, target: str | Path, *, progress: moving.Progress | None = None) -> Migration:
        """Copy everything, of all owners, into a new database of either kind, and prove that it is there.

        Let the hosts rest meanwhile: what they write after it began is not moved. If it is broken off, the same call
        goes on with it. `progress(table, done, total)` is told how far it is.
        """
        if str(target) == ":memory:":
            raise InvalidInput("A database in memory would be gone at once.", hint="Name a file or a postgresql:// URL.")
        settings = structs.replace(self.settings, database_path=str(target))
        store = _open_store(settings.database, self._store.owner, False, self._on_event)
        try:
            return moving.move(
                self._store,
                self._files,
                store,
                Files(settings.files_dir),
                now=int(self._clock() * 1_000_000),
                progress=progress or (lambda table, done, total: None),
            )
        finally:
            store.close()

    def export(
        self, path: str | Path, *, conversations: Sequence[str] | None = None, replace: bool = False
    ) -> Exported:
        """Write this owner's conversations, or those under some keys with their sub-agents', into one archive.

        It holds everything `lossless.imports` needs to put them back as they are, files included. A file that is
        there already is only replaced if you say so.
        """
        from lossless.engine.export import export

        now = moment(int(self._clock() * 1_000_000))
        return export(self._store, self._files, Path(path), conversations, replace=replace, now=now)

    def __repr__(self) -> str:
        return f"Lossless({self._store.location!r}, owner={self._store.owner!r})"

    def close(self) -> None:
        """Close the database. Everything acknowledged is on disk already; what is owed is left to the next to open it."""
        self._background.close(_PATIENCE)
        for key, notes in self._notes.items():
            if notes:
                with suppress(StoreError):  # what was shown last is told if it can be; nothing depends on it
                    self.conversation(key)._remember()
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


def _open_store(database: str, owner: str, read_only: bool, on_event: Hook) -> Store:
    if database.startswith(("postgresql://", "postgres://")):
        with suppress(ModuleNotFoundError):
            from lossless.store.postgres import PostgresStore

            return PostgresStore(database, owner=owner, read_only=read_only, on_event=on_event)
        raise InvalidInput("PostgreSQL needs its driver.", hint="Install it with: pip install 'lossless[postgres]'")
    from lossless.store.sqlite import SQLiteStore

    return SQLiteStore(database, owner=owner, read_only=read_only, on_event=on_event)
