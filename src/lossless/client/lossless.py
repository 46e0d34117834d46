"""The verbs: `Lossless` opens a database, `Conversation` is one history in it."""

from __future__ import annotations

import os
import shutil
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import datetime
from functools import cached_property
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Self, Unpack
from weakref import finalize

from msgspec import structs

from lossless import config
from lossless.config import Loaded, Settings
from lossless.engine.shared.defaults import FLAW_KINDS, GREP_SECONDS
from lossless.errors import ConfigError, InvalidInput, NotFound, StoreError, StoreUnavailable
from lossless.events import Event, Hook, guarded, log
from lossless.ids import parse
from lossless.store.rows.codec import micros, moment
from lossless.store.rows.types import SPAN
from lossless.times import Time, read_time

if TYPE_CHECKING:
    from lossless.client.conversations import Conversations
    from lossless.client.doctor import Doctor
    from lossless.client.files import StoredFiles
    from lossless.client.messages import Messages
    from lossless.client.models import Models
    from lossless.client.resolve import Resolved
    from lossless.client.summaries import Summaries
    from lossless.client.surgery import Rewrite, RewriteOptions, Rewriting
    from lossless.engine.backup import copy_database
    from lossless.engine.erase import forget as forgetting
    from lossless.engine.erase import prune as pruning
    from lossless.engine.import_history import run
    from lossless.engine.import_history.import_context import ImportContext
    from lossless.engine.import_history.watch import Watch
    from lossless.engine.ingest.intake import Intake, Skip
    from lossless.engine.ingest.message_digest import Canonicalize
    from lossless.engine.ingest.secrets import Redactor
    from lossless.engine.inspect import lists
    from lossless.engine.recall import expand as expanding
    from lossless.engine.recall.reader import Reader
    from lossless.engine.recall.search_request import Mode, Scope, SearchRequest, Sort
    from lossless.engine.recall.semantic import Vectors
    from lossless.engine.shared.file_store import Files
    from lossless.engine.shared.runtime import Runtime
    from lossless.engine.worker import Worker
    from lossless.imports.base import Source
    from lossless.model import (
        Backfill,
        Backup,
        Compaction,
        Description,
        Expansion,
        Exported,
        Forgotten,
        Garbage,
        Hits,
        ImportReport,
        Migration,
        Nearest,
        Operation,
        Outcome,
        Pruning,
        Restored,
        Stats,
        Status,
        Transplant,
    )
    from lossless.store.rows.types import ConversationRow, DebtRow, NewManifest
    from lossless.store.store import Store
    from lossless.summarizers import Function, Summarizer


from lossless.client.arguments import checked, checked_path, checks_arguments
from lossless.client.conversation import Conversation
from lossless.client.model_work import Inquiry, Ready, Repairs, runs

Clock = Callable[[], float]
_PATIENCE = 5.0
_MOST_DRAINED = 1_000
WINDOW = 128_000


@checks_arguments
class Lossless:
    """A database of conversations of one owner. Threads and processes may share it freely.

    A forked child opens the database again: it may not use what its parent opened.
    """

    def __init__(
        self,
        store: Store,
        settings: Settings,
        *,
        summarizer: str | Function | Summarizer | None = None,
        on_event: Hook = log,
        clock: Clock = time.time,
    ) -> None:
        from lossless.engine.recall import grants
        from lossless.engine.worker import Background

        self._store = store
        self.settings = settings
        self._scratch: finalize[[str, int], Lossless] | None = None
        self._files = self._payloads()
        self._on_event = guarded(on_event)
        self._named = summarizer
        self._clock = clock
        self._slots = grants.Slots()
        self._background = Background(self.worker)
        self._notes: dict[str, list[tuple[int, NewManifest]]] = {}
        self._measured: dict[str, tuple[str | None, int]] = {}
        """By key: the model and the tokens of what was assembled last."""
        self._factors: dict[str, tuple[float, float]] = {}  # by model or key, with the time they were read
        """By name: how many tokens a model counts for one of ours, as far as it was asked."""
        self._uncovered: dict[str, int] = {}
        """By key, for each conversation whose newest request left out what no summary covers: the tokens besides its context."""
        self._dense: dict[str, int] = {}
        """By key, where it left that out for its bytes: the tokens that fit."""
        self._assumed = False
        self._redact = self._redactor()
        self._loaded: Loaded | None = None
        self._followed: dict[str, bool] = {}
        self._reopening = threading.Lock()

    @classmethod
    def open(
        cls,
        database: str | Path | None = None,
        *,
        settings: Settings | None = None,
        plugin: Mapping[str, object] | None = None,
        plugin_name: str = "plugin",
        summarizer: str | Function | Summarizer | None = None,
        owner: str | None = None,
        read_only: bool = False,
        on_event: Hook = log,
        clock: Clock = time.time,
    ) -> Self:
        """Open a database, created if it is missing: a path, a `postgresql://` URL, or the one the settings name.

        Without `settings` they are read from `lcm.toml`, `plugin` (the configuration of a host plugin, named `plugin_name` where
        the source of a value is shown) and the environment; a later one overrides an earlier one. `owner` is the user whose memory
        this is (by default "default"): conversations of other owners do not exist here. `summarizer` is "provider/model",
        "command:...", "extractive" or a function of a `SummaryRequest`; by default the settings decide.

        >>> with Lossless.open("agent.db", summarizer="extractive") as lcm:
        ...     chat = lcm.conversation("agent:main:main")
        """
        if not isinstance(database, str | Path | None):
            raise InvalidInput(f"{database!r} is not a database.", hint="Give a path or a postgresql:// URL.")
        if not isinstance(settings, Settings | None):
            raise InvalidInput(
                f"settings={type(settings).__name__} is not Settings.", hint="Use lossless.Settings(...)."
            )
        if settings is not None and plugin:
            raise InvalidInput(
                "settings and plugin exclude each other: settings are complete as they are.",
                hint="Give plugin alone, or merge it yourself with lossless.config.resolve(plugin=...).",
            )
        given = {} if database is None else {"database_path": str(database)}
        loaded = None
        if settings is None:
            loaded = config.resolve(given, plugin=plugin, plugin_name=plugin_name)
            settings = loaded.settings
            for warning in loaded.warnings:
                guarded(on_event)(Event("config.ignored", warning, "warning"))
        elif given:
            settings = structs.replace(settings, **given)
        adapted = loaded.adapted if loaded else [f"{name}: {why}" for name, why in config.adaptations(settings)]
        for note in adapted:
            guarded(on_event)(Event("config.adapted", note, "warning"))
        name = checked("owner", "default" if owner is None else owner)
        store = _connect(settings.database, name, read_only, guarded(on_event))
        _refuse_unfinished(store)
        opened = cls(store, settings, summarizer=summarizer, on_event=on_event, clock=clock)
        opened._loaded = loaded
        if settings.enabled and not read_only:
            opened._models.report_keys()
        return opened

    def conversation(
        self,
        key: str,
        session: str | None = None,
        *,
        parent: Conversation | str | None = None,
        canonicalize: Canonicalize | None = None,
        skip: Skip | None = None,
    ) -> Conversation:
        """Return the conversation under a key, the host's stable name for it.

        A conversation is created by its first message. `session` is the host's id of the present run and is remembered; each run
        of a scheduled job (`agent:NAME:cron:JOB`) is a conversation of its own. `parent` is the conversation, or its key, that
        started this one as a sub-agent: recall from there reaches it, and not the other way round. For hosts that decorate what
        they send, `canonicalize(role, text)` returns the text that decides identity; a message for which `skip(message)` is true
        is not stored.

        >>> chat = lcm.conversation("agent:main:main", session="run-7")
        """
        if session is not None and self._redact:
            session = self._redact.identifier(checked("session", session))
        return Conversation(self, self._stored_key(checked("key", key)), session, canonicalize, skip, parent)

    def find(self, name: str | int) -> Conversation:
        """Return the stored conversation that a name refers to.

        A name is its key, its number (12 or "#12"), the beginning of its key if no other key begins so, or the id of one of its
        messages (`msg#...`) or summaries (`sum_...`). `conversation` takes a key as it is, also a new one.

        >>> lcm.find("#1").key
        'agent:main:main'
        >>> lcm.find("agent:ma").key
        'agent:main:main'
        """
        from lossless.client.resolve import resolve
        from lossless.engine.inspect import summaries as viewing

        if isinstance(name, str) and name.startswith("msg#") and not self._store.conversations.under_key(name):
            reference = parse(name)
            row = self._store.conversations.get(reference.number // SPAN)
            if row is None:
                raise NotFound("message", reference.id, hint="`grep` finds messages and their ids.")
        elif isinstance(name, str) and name.startswith("sum_") and not self._store.conversations.under_key(name):
            row = viewing.named(self._store, name)[0]
        else:
            found = resolve(self._store, name, self._redact)
            row = found.row
            if found.by_number and not row.active:
                raise InvalidInput(
                    f"#{row.id} is archived.",
                    hint="`lcm conversations show`, `messages`, `summaries` and `transplant` reach it.",
                )
        return self.conversation(row.key)

    @cached_property
    def _models(self) -> Models:
        """The models of this database."""
        from lossless.client.models import Models

        return Models(self, self._named)

    def _resolved(self, name: str | int, *, active: bool = False) -> Resolved:
        from lossless.client.resolve import resolve

        return resolve(self._store, name, self._redact, active=active)

    def _times(self, since: Time, until: Time) -> tuple[lists.TimeRange, int]:
        """Return the times of a list, and the current time from which ages count."""
        from lossless.engine.inspect import lists

        now = self._clock()
        return lists.read_range(since, until, self.settings.zone, now), int(now * 1_000_000)

    def _row_of(self, name: str | int | None) -> ConversationRow | None:
        """Return the row of a conversation that may be named."""
        return None if name is None else self._resolved(name).row

    def _nearest(self, what: str, which: object) -> Nearest:
        """Return the names closest to one that does not exist.

        `what` is "conversation", "message", "summary", "file", "operation", or "id" for any of the last three.
        """
        from lossless.engine.inspect.suggestions import nearest

        return nearest(self._store, what, which)

    def _stored_key(self, key: str) -> str:
        from lossless.client.resolve import stored_key

        return stored_key(self._store, key, self._redact)

    @property
    def conversations(self) -> Conversations:
        """The conversations of this owner: `conversations()` lists them, `conversations.show(name)` shows one."""
        from lossless.client.conversations import Conversations

        return Conversations(self)

    @property
    def messages(self) -> Messages:
        """The messages of any conversation: `messages(name)` lists them; also `show`, `tail` and `around`."""
        from lossless.client.messages import Messages

        return Messages(self)

    @property
    def summaries(self) -> Summaries:
        """The summaries of any conversation: `summaries(name)` lists them; also `show`, `tree`, `revisions`, `compare`."""
        from lossless.client.summaries import Summaries

        return Summaries(self)

    @property
    def files(self) -> StoredFiles:
        """The large contents of any conversation: `files(name)` lists them; also `show` and `read`."""
        from lossless.client.files import StoredFiles

        return StoredFiles(self)

    @property
    def doctor(self) -> Doctor:
        """The checks of the database: `doctor()` runs them; also `prove`, `fix` and `clean`."""
        from lossless.client.doctor import Doctor

        return Doctor(self)

    @property
    def location(self) -> str:
        """Return the path of the database, or its URL without the password."""
        return self._store.location

    def status(self, conversation: str | int | None = None) -> Status:
        """Report the stored amounts, pending work and problems: a verdict with its reasons.

        Adds the figures of one conversation if it is named. Reads no message, and of transcripts only their size and time.

        >>> lcm.status().verdict in ("ok", "quiet", "empty", "warning", "degraded")
        True
        """
        from lossless.engine.inspect.status import StatusRequest, status

        with self._store.snapshot():
            request = StatusRequest(
                now=self._clock(),
                is_closed=self._is_closed,
                has_model=self._models.has_model(),
                missing=self._models.missing_keys(),
                conversation=self._row_of(conversation),
            )
            return status(self._runtime, request)

    def stats(self, conversation: str | int | None = None, since: datetime | str | None = None) -> Stats:
        """Count the tokens stored, summarised, shown and spent: of one conversation, or of all.

        The counts are by role, depth, model and day. `since` leaves out what is older. In a large database roles, days and turns
        are estimates: `step` is the number of messages that each counted one stands for.

        >>> stats = lcm.stats(since="30d")
        """
        from lossless.engine.inspect.stats import stats

        whole, start = conversation is None, read_time("since", since, self.settings.zone, self._clock())
        with self._store.snapshot():
            rows = self._store.conversations.of_owner() if conversation is None else [self._resolved(conversation).row]
            return stats(self._store, rows, whole=whole, since=start, now=self._clock())

    def describe(
        self,
        id: str | int,
        *,
        start_line: int | None = None,
        end_line: int | None = None,
        offset: int | None = None,
        max_tokens: int | None = None,
    ) -> Description:
        """Describe a summary, a message or a file of any conversation; see `Conversation.describe`.

        >>> print(lcm.describe(message).text)  # doctest: +ELLIPSIS
        LCM_MESSAGE ...
        """
        from lossless.engine.recall import describe as describing
        from lossless.engine.recall import reader as reading

        wanted = describing.PageRequest(start_line, end_line, offset, most_tokens=max_tokens)
        return describing.describe(self._reader(reading.everything(self._store)), id, wanted, cap=max_tokens)

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
        """Return the text below summaries and messages of any conversation; see `Conversation.expand`.

        >>> text = lcm.expand(summary, max_tokens=500).text
        """
        from lossless.engine.recall import expand as expanding
        from lossless.engine.recall import reader as reading

        return expanding.expand(
            self._reader(reading.everything(self._store)),
            id,
            max_tokens=max_tokens,
            depth=depth,
            include_messages=include_messages,
            strategy=strategy,
            cursor=cursor,
        )

    @runs
    def ask(
        self,
        question: str,
        *,
        ids: Sequence[str | int] | None = None,
        query: str | None = None,
        max_tokens: int | None = None,
        token_cap: int | None = None,
    ) -> Inquiry:
        """Answer a question from all conversations; see `Conversation.ask`.

        The three most promising conversations are read and share the budget.

        >>> passages = lcm.ask("Where is the deploy key?").evidence  # without a model: the best passages
        """
        return self._inquiry(question, ids=ids, query=query, max_tokens=max_tokens, token_cap=token_cap)

    def _inquiry(
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
        """Prepare a question about the conversations in `scope`, or about all.

        With `evidence_only` no model is asked and nothing is written: the best passages are the answer.
        """
        from lossless.engine.recall import answer as answering
        from lossless.engine.recall import reader as reading
        from lossless.engine.shared.call_limits import Guards

        for name, value in (("max_tokens", max_tokens), ("token_cap", token_cap), ("timeout_ms", timeout_ms)):
            if value is not None and value < 1:
                raise InvalidInput(f"{name}={value} is too little.", hint="Give 1 or more.")
        asking = answering.AskRequest(
            question,
            origin,
            tuple(ids or ()),
            query,
            max_tokens,
            token_cap or self.settings.max_expand_tokens,
            scope is None,
            timeout_ms,
        )
        model = self._models.expander()
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
        sort: Sort | None = None,
        cursor: str | None = None,
        file_ids: Sequence[str] | None = None,
        ignore_case: bool | None = None,
        include_recall: bool = False,
        around: int = 0,
        seconds: float = GREP_SECONDS,
    ) -> Hits:
        """Search all conversations of this owner; see `Conversation.grep`.

        >>> hits = lcm.grep("question", mode="full_text", limit=5)
        """
        from lossless.engine.recall import reader as reading
        from lossless.engine.recall.search_request import parse_request

        asked = parse_request(
            pattern,
            zone=self.settings.zone,
            now=self._clock(),
            mode=mode,
            scope=scope,
            since=since,
            before=before,
            limit=limit,
            sort=sort,
            file_ids=file_ids,
            include_recall=include_recall,
            ignore_case=ignore_case,
            around=around,
        )
        return self._grep(reading.everything(self._store), asked, cursor, seconds)

    def _grep(self, scope: tuple[int, ...], asked: SearchRequest, cursor: str | None, seconds: float) -> Hits:
        from lossless.engine.recall import grep as grepping

        return grepping.grep(
            self._reader(scope), asked, now=self._clock, on_event=self._on_event, cursor=cursor, seconds=seconds
        )

    def _reader(self, scope: tuple[int, ...]) -> Reader:
        from lossless.engine.recall.reader import Reader

        return Reader(self._store, self._files, self.settings, scope)

    def drain(self) -> int:
        """Do all pending work now, in this thread, and return the number of conversations worked on.

        For hosts that end with their turn. Work that a limit or a retry delay holds back stays pending.

        >>> worked = lcm.drain()
        """
        worker, worked = self.worker(), 0
        while worked < _MOST_DRAINED and worker.step(idle=0):
            worked += 1
        while worker.embed(idle=0):
            pass
        return worked

    def worker(self) -> Worker:
        """Return a worker for pending work: `step()` does one piece, `run(stop)` works until the event `stop` is set.

        >>> worked = lcm.worker().step(idle=0)
        """
        from lossless.engine.worker import Worker

        return Worker(self._runtime, self._pay, tries=self._models.tries, vectors=self._vectors())

    def _vectors(self) -> Vectors | None:
        from lossless.engine.recall.semantic import Vectors
        from lossless.search import embeddings

        if self.settings.semantic and not embeddings.is_installed():
            text = "Semantic search is switched on, and the extra lossless[semantic] is not installed."
            self._on_event(Event("semantic.unavailable", text, "warning"))
            return None
        return Vectors(self._store) if self.settings.semantic and self.settings.enabled else None

    def _pay(self, debt: DebtRow, wanted_elsewhere: Callable[[], bool]) -> Compaction:
        """Compact a conversation, if that is pending for a window; otherwise rewrite its provisional summaries."""

        def pause() -> bool:
            return self._background.is_closing or wanted_elsewhere()

        return self.conversation(debt.key)._compactor.pay(debt, pause)

    def _window(self, window: int | None) -> int:
        if window is None and not self._assumed:
            self._assumed = True
            text = f"No window was named; {WINDOW:,} tokens are assumed."
            self._on_event(Event("window.assumed", text, "warning"))
        return WINDOW if window is None else window

    def migrate(self, target: str | Path, *, progress: copy_database.Progress | None = None) -> Migration:
        """Copy everything, of all owners, into a new database of either kind, and prove that it arrived.

        Pause the hosts meanwhile: what they write after it began is not copied. After an interruption the same call continues.
        `progress(table, done, total)` is called while it works.

        >>> lcm.migrate("copy.db").tables[0].name
        'conversation'
        """
        from lossless.engine.backup import copy_database
        from lossless.engine.shared.file_store import Files
        from lossless.engine.shared.files_dir import files_dir

        if str(target) == ":memory:":
            raise InvalidInput(
                "A database in memory would be gone at once.", hint="Name a file or a postgresql:// URL."
            )
        settings = structs.replace(self.settings, database_path=str(target))
        store = _connect(settings.database, self._store.owner, False, self._on_event)
        try:
            return copy_database.move(
                self._store,
                self._files,
                store,
                Files(files_dir(store, settings)),
                now=int(self._clock() * 1_000_000),
                progress=progress or (lambda table, done, total: None),
            )
        finally:
            store.close()

    def backup(self, path: str | Path | None = None, *, rolling: str | None = None, prove: bool = False) -> Backup:
        """Copy everything, of all owners and with its files, into one file, while others go on writing.

        It is written beside the database unless you name a file or a directory, and replaces nothing but the earlier backup of the
        same `rolling` label. It is opened and read to its end before it gets its name; with `prove` every message in it is
        accounted for as well: see `flaws`.

        >>> backup = lcm.backup("nightly.zip")
        """
        from lossless.client.backups import backup

        def open_store(database: str, read_only: bool) -> Store:
            return _connect(database, self._store.owner, read_only, self._on_event)

        return backup(self, path, rolling, prove, moment(self._now()), open_store)

    @classmethod
    def restore(
        cls,
        backup: str | Path,
        database: str | Path | None = None,
        *,
        replace: bool = False,
        apply: bool = False,
        reimport: bool = True,
        settings: Settings | None = None,
        on_event: Hook = log,
        clock: Clock = time.time,
    ) -> Restored:
        """Restore a backup to a database that is missing, or replace one; checked first, complete or not at all.

        An existing database is replaced only with `replace` and `apply` (without `apply` the report says what would be done), only
        if no program has it open, and is kept beside it. Transcripts that grew since the backup are listed: hosts continue reading
        them. With `reimport=False` what they contain by now is skipped for good.

        >>> backup = lcm.backup("nightly.zip")
        >>> Lossless.restore("nightly.zip", "restored.db").applied
        True
        """
        from lossless.client.backups import leave_out, restore

        given = {} if database is None else {"database_path": str(database)}
        settings = config.resolve(given).settings if settings is None else structs.replace(settings, **given)

        def open_store(name: str, read_only: bool) -> Store:
            return _connect(name, "default", read_only, guarded(on_event))

        done = restore(backup, settings, replace, apply, moment(int(clock() * 1_000_000)), open_store)
        return done if reimport or not done.applied else leave_out(cls, done, settings, clock(), open_store)

    def export(
        self, path: str | Path, *, conversations: Sequence[str | int] | None = None, replace: bool = False
    ) -> Exported:
        """Write the conversations of this owner into one archive: all, or some with their sub-agents'.

        It contains everything `import_` needs to restore them as they are, files included. An existing file is replaced only with
        `replace`.

        >>> lcm.export("archive.zip", conversations=["agent:main:main"]).conversations
        1
        """
        from lossless.engine.backup.export_archive import export

        now = moment(int(self._clock() * 1_000_000))
        ids = None if conversations is None else self._families(conversations)
        return export(self._store, self._files, Path(path), ids=ids, replace=replace, now=now)

    def _families(self, names: Sequence[str | int]) -> list[int]:
        """Return the ids of some conversations: by key with everything below them, by number alone."""
        if isinstance(names, str | int):
            raise InvalidInput(f"conversations={names!r} is not a list of keys.", hint="Give conversations=[key, ...].")
        found = [self._resolved(name) for name in names]
        rows = [[each.row] if each.by_number else self._store.conversations.family(each.row.key) for each in found]
        return sorted({row.id for family in rows for row in family})

    def import_(
        self,
        paths: str | Path | Iterable[str | Path],
        *,
        apply: bool = False,
        key: str | None = None,
        since: datetime | str | None = None,
        limit: int | None = None,
        files_dir: str | Path | None = None,
        trust_pins: bool = False,
        progress: run.Progress | None = None,
    ) -> ImportReport:
        """Import histories: transcripts, databases of other systems, archives; files, or directories of them.

        Without `apply` nothing is written, and the report says what would be. Calling it again is safe: what is stored already is
        not read again, and an interrupted import continues. `key` is for a single transcript: otherwise each names its conversation
        itself. `since` skips older files, `limit` bounds their number; `files_dir` is the directory of large files of a database,
        by default beside it. Pins of a database or an archive are imported only with `trust_pins`, since a pin speaks to models
        with your authority. `progress(path, done, total)` is called with the bytes read.

        >>> report = lcm.import_([], since="30d")
        """
        from lossless.engine.import_history import run

        if limit is not None and limit < 1:
            raise InvalidInput(f"limit={limit} is too little.", hint="Give 1 or more.")
        given = [paths] if isinstance(paths, str | Path) or not isinstance(paths, Iterable) else list(paths)
        report = run.run(
            self._import_context(files_dir, trust_pins),
            [checked_path(each) for each in given],
            apply=apply,
            key=None if key is None else self._stored_key(checked("key", key)),
            since=read_time("since", since, self.settings.zone, self._clock()),
            limit=limit,
            progress=progress or (lambda path, done, total: None),
        )
        if apply and self.settings.semantic:
            self._background.wake()
        return report

    def watch(self, paths: str | Path | Iterable[str | Path]) -> Watch:
        """Follow the transcripts in some directories: each `step()` reads what is new in them.

        >>> watch = lcm.watch(".")
        """
        from lossless.engine.import_history.watch import Watch

        given = [paths] if isinstance(paths, str | Path) or not isinstance(paths, Iterable) else list(paths)
        return Watch(self._import_context(), [checked_path(each) for each in given])

    def _import_context(self, files_dir: str | Path | None = None, trust_pins: bool = False) -> ImportContext:
        from lossless.engine.import_history.import_context import ImportContext
        from lossless.engine.ingest.message_digest import without_tags

        def source(path: Path) -> Source:
            from lossless.imports import recognise

            found = recognise(path, files_dir=files_dir)
            if self._redact is None:
                return found
            from lossless.engine.import_history.redacted import RedactedSource

            return RedactedSource(found, self._redact, without_tags(self.settings.strip_injected_context_tags))

        def intake(key: str, session: str | None) -> Intake:
            chat = self.conversation(key, session)
            return structs.replace(chat._intake, skip=chat._delivery.skips)

        return ImportContext(
            runtime=self._runtime,
            intake=intake,
            refusal=lambda key: self.conversation(key)._closed_to,
            open=source,
            trust_pins=trust_pins,
        )

    def backfill(
        self,
        paths: str | Path | Iterable[str | Path] = (),
        *,
        apply: bool = False,
        key: str | None = None,
        title: str | None = None,
        recompact: bool = False,
        single_root: bool = False,
        tail: int | None = None,
        transplant_to: str | None = None,
        progress: Callable[[str, int, int], None] | None = None,
    ) -> tuple[Backfill, ...]:
        """Import transcripts and compact each conversation until no run before the newest `tail` messages is left.

        Without `apply` nothing is written, and the plan says what would be done and what it costs. Known messages are not imported
        again, with `recompact` none are; an interrupted run continues. `single_root` leaves one summary of everything, and no tail.
        `transplant_to` copies the result before everything in another conversation. `progress(key, made, about)` is called with
        the summaries made and the number expected.

        >>> plans = lcm.backfill(recompact=True, key="agent:main:main")
        """
        from lossless.client.backfill import BackfillRequest, backfill

        kept = (0 if single_root else self.settings.fresh_tail_count) if tail is None else tail
        if kept < 0 or (single_root and kept):
            raise InvalidInput(f"tail={kept} is not a tail.", hint="Give 0 or more; a single root leaves none.")
        given = [paths] if isinstance(paths, str | Path) or not isinstance(paths, Iterable) else list(paths)
        report = progress or (lambda name, done, total: None)
        request = BackfillRequest(
            key=key,
            title=title,
            recompact=recompact,
            single_root=single_root,
            tail=kept,
            transplant_to=transplant_to,
            apply=apply,
            progress=report,
        )
        return backfill(self, [checked_path(each) for each in given], request)

    def transplant(
        self, source: str | int, target: str | int, *, apply: bool = False, dedupe: bool = False
    ) -> Transplant:
        """Copy the summaries in the context of a conversation, and everything below them, to the start of another.

        Without `apply` it returns the plan. The source does not change. Content that the target has already is refused, unless
        `dedupe` skips it.

        >>> lcm.transplant("agent:main:main", "other").applied
        False
        """
        from lossless.engine.surgery import transplant as grafting

        first, second = self._resolved(source, active=True).row, self._resolved(target, active=True).row
        if not apply:
            return grafting.plan(self._store, first.id, second.id, dedupe=dedupe)
        self.conversation(second.key)._refuse_if_closed()
        return grafting.transplant(self._store, first.id, second.id, now=int(self._clock() * 1_000_000), dedupe=dedupe)

    def _is_closed(self, key: str) -> bool:
        return bool(self.conversation(key)._closed_to)

    @runs
    def repair(self, kinds: Sequence[str] = FLAW_KINDS, **how: Unpack[Rewriting]) -> Repairs:
        """Rewrite flawed summaries in every conversation, archived ones included; see `Conversation.repair`.

        >>> plans = lcm.repair(["provisional"])
        """
        from lossless.client.surgery import rewrite_options
        from lossless.engine.surgery.flaws import known_kinds

        return Repairs(self._repairs(known_kinds(kinds), rewrite_options(how)))

    def _repairs(self, kinds: tuple[str, ...], how: RewriteOptions) -> Iterator[Rewrite]:
        """Yield the repair of each conversation that has something to repair."""
        from lossless.engine.surgery.select import Selection

        selection = Selection(flawed=kinds)
        for row in self._store.conversations.of_owner():
            chat, only = self.conversation(row.key), structs.replace(how, apply=False, dry_run=False)
            planned = chat._rewrite("repair", selection, only, row)
            if isinstance(planned, Ready) and planned.value.plan.steps:
                yield chat._rewrite("repair", selection, how, row) if how.apply or how.dry_run else planned

    def merge(self, conversation: str | int, *, apply: bool = False) -> Outcome:
        """Join conversations that a host's rollover split under one key: the earlier ones come before the active one.

        Without `apply` it returns the plan. Objections are listed in `plan.review`, and then nothing is done. Deliberate resets are
        never merged.

        >>> lcm.merge("agent:main:main").plan.review
        ()
        """
        from lossless.engine.surgery import merge_conversations as merging
        from lossless.model import Outcome

        key = self._resolved(conversation).row.key
        if not apply:
            return Outcome(merging.plan(self._store, key), "planned")
        return merging.merge(self._store, key, int(self._clock() * 1_000_000))

    def history(
        self,
        conversation: str | int | None = None,
        limit: int = 50,
        *,
        since: Time = None,
        until: Time = None,
    ) -> list[Operation]:
        """List the operations on old data, newest first: of all conversations, or of one.

        Times are from `since` on and before `until`.

        >>> lcm.history(limit=1)[0].kind
        'compact'
        """
        from lossless.engine.recall import reader as reading
        from lossless.engine.surgery import undo as past

        times, now = self._times(since, until)
        first, last = times.bounds(now)
        family = None
        if conversation is not None:
            found = self._resolved(conversation)
            family = (found.row.id,) if found.by_number else reading.family(self._store, found.row.key, None)
        return past.history(self._store, family, limit, since=first, before=last)

    def undo(self, operation_id: str) -> Operation:
        """Undo an operation: every row it touched is restored.

        Raises `ContextMoved`, and changes nothing, if one of them was changed since.

        >>> lcm.undo(lcm.history(limit=1)[0].id).status
        'undone'
        """
        from lossless.engine.surgery import undo as past

        return past.undo(self._store, operation_id, int(self._clock() * 1_000_000))

    @runs
    def resume(self, operation_id: str, **how: Unpack[Rewriting]) -> Rewrite:
        """Continue a rewrite or a repair that ended early, with the options of `rewrite`.

        >>> for operation in lcm.history():
        ...     if operation.status == "partly":
        ...         done = lcm.resume(operation.id)
        """
        from lossless.client.surgery import resume, rewrite_options

        return resume(self, operation_id, rewrite_options(how))

    def _archive(self, path: str | Path | None, kind: str) -> Path:
        """Return the path of the archive that conversations are exported to before they are removed."""
        from lossless.engine.erase import prune as pruning

        if path:
            return Path(path)
        beside = pruning.archive_path(self._runtime, kind)
        config.make_directory(beside.parent)
        return beside

    def prune(
        self,
        before: datetime | str,
        *,
        include_active: bool = False,
        apply: bool = False,
        archive: str | Path | None = None,
        batch: int = 100,
        vacuum: bool = False,
        without_files: bool = False,
        progress: pruning.Progress | None = None,
    ) -> Pruning:
        """Remove conversations without a message since `before`: a time, or an age such as "90d", "6mo", "1y".

        Only archived ones, unless `include_active`, and only together with their sub-agents'. Without `apply` it returns the plan.
        They are exported first, into `archive` or a file beside the database, and removed `batch` by `batch`; what is written to
        meanwhile stays. If one of their files cannot be read none is removed, unless `without_files`. `import_` restores the
        archive. `vacuum` then rewrites the database, which gives the space back to the disk. `progress(done, total)` is called
        after each batch.

        >>> lcm.prune("90d").conversations
        0
        """
        from lossless.engine.erase import gc as collecting
        from lossless.engine.erase import prune as pruning

        if batch < 1:
            raise InvalidInput(f"batch={batch} is too little.", hint="Give 1 or more.")
        request = pruning.PruneRequest(
            before=micros(pruning.cutoff(before, self._runtime.now_utc(), self.settings.zone)),
            active=include_active,
            batch=batch,
            without_files=without_files,
        )
        if not apply:
            return pruning.plan(self._store, request)
        if vacuum:
            collecting.check_free_space(self._store)
        report = progress or (lambda done, total: None)
        done = pruning.apply(self._runtime, request, self._archive(archive, "pruned"), report)
        if not vacuum or not done.applied:
            return done
        before_size = self._store.size()
        self._store.scrub()
        return structs.replace(done, bytes=done.bytes + max(0, before_size - self._store.size()))

    def gc(
        self,
        *,
        apply: bool = False,
        keep_copies: int | None = None,
        unshared: bool = False,
        vacuum: bool = False,
    ) -> Garbage:
        """Remove unused data, never a message or a summary. Without `apply` it returns the plan.

        That is: files without a row, abandoned drafts, expired grants and leases, old records of what archived conversations
        showed; with `keep_copies`, copies of the database older than so many days. Files in a directory that is not named after
        the database are removed only with `unshared`, which says that no other database uses it. `vacuum` rewrites the database:
        it takes as much free space as the database has, and locks the tables of a server one by one.

        >>> garbage = lcm.gc()
        """
        from lossless.engine.erase import gc as collecting

        if keep_copies is not None and keep_copies < 0:
            raise InvalidInput(f"keep_copies={keep_copies} is not a number of days.", hint="Give 0 or more.")
        if vacuum:
            collecting.check_free_space(self._store)
        found = collecting.find_unused(self._runtime, keep_copies=keep_copies, unshared=unshared)
        if not apply:
            return collecting.report(found)
        return collecting.collect(self._runtime, found, vacuum=vacuum)

    def forget(
        self, conversation: str | int, *, apply: bool = False, backups: bool = False, unshared: bool = False
    ) -> Forgotten:
        """Erase everything ever said under a key, or in the conversation with a number; see `Conversation.forget`.

        Without `apply` it returns the plan. Conversations of sub-agents are not included.

        >>> lcm.forget("agent:main:main").applied
        False
        """
        rows = self._resolved(conversation).rows(self._store)
        return self._forget([(row, None) for row in rows], apply, backups, unshared)

    def _forget(
        self, targets: Sequence[forgetting.Target], apply: bool, backups: bool, unshared: bool = False
    ) -> Forgotten:
        from lossless.engine.erase import forget as forgetting

        request = forgetting.ForgetRequest(
            targets=targets, templates=self._models.templates, apply=apply, backups=backups, unshared=unshared
        )
        return forgetting.forget(self._runtime, request)

    def __repr__(self) -> str:
        return f"Lossless({self._store.location!r}, owner={self._store.owner!r})"

    def close(self) -> None:
        """Close the database. Everything acknowledged is on disk; pending work is left to the next program that opens it.

        >>> lcm.close()
        """
        self._background.close(_PATIENCE)
        for key, notes in self._notes.items():
            if notes:
                with suppress(StoreError):  # the last manifests are optional: nothing depends on them
                    self.conversation(key)._assembler.remember()
        self._store.close()
        if self._scratch:
            self._scratch()

    def _open_again(self, moved: Store) -> None:
        """Open what is now at the path of a database whose file was deleted, moved or replaced. Conversations continue there.

        Only programs that cannot ask their user do this: after it a missing history is no error any more.
        """
        from lossless.engine.worker import Background

        with self._reopening:
            if self._store is not moved:
                return  # another thread was here first
            self._store = _connect(moved.location, moved.owner, moved.read_only, self._on_event)
            working, self._background = self._background, Background(self.worker)
            self._background.is_enabled = working.is_enabled
            for known in (self._measured, self._factors, self._uncovered, self._dense, self._followed):
                known.clear()
            for notes in self._notes.values():
                notes.clear()
        working.close(0)
        with suppress(StoreError):
            moved.close()

    def _redactor(self) -> Redactor | None:
        """Return the redactor that removes secrets from what is stored, if the settings ask for it."""
        if not self.settings.redact:
            return None
        from lossless.engine.ingest.secrets import Redactor

        def key() -> bytes:
            # A reader stores nothing that needs a key later.
            store = self._store
            return os.urandom(32) if store.read_only else store.erase.random_key("redact", self._now()).encode()

        try:
            return Redactor(self.settings.redact, key)
        except InvalidInput as error:
            raise ConfigError(f"redact: {error.message}", hint="`lcm config show` tells where it is set.") from error

    @property
    def _runtime(self) -> Runtime:
        """The environment that engine functions work in."""
        from lossless.engine.shared.runtime import Runtime

        return Runtime(
            store=self._store,
            files=self._files,
            settings=self.settings,
            clock=self._clock,
            on_event=self._on_event,
        )

    def _now(self) -> int:
        return int(self._clock() * 1_000_000)

    def _payloads(self) -> Files:
        from lossless.engine.shared.file_store import Files
        from lossless.engine.shared.files_dir import files_dir

        if self._store.location != ":memory:" or self.settings.large_files_dir:
            return Files(files_dir(self._store, self.settings))
        from tempfile import mkdtemp

        directory = mkdtemp(prefix="lcm-files-")
        self._scratch = finalize(self, _remove_scratch, directory, os.getpid())
        return Files(Path(directory), scratch=True)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def _connect(database: str, owner: str, read_only: bool, on_event: Hook) -> Store:
    """Open the store of a database by its path or URL."""
    if config.is_server(database):
        with suppress(ModuleNotFoundError):
            from lossless.store.postgres.store import PostgresStore

            return PostgresStore(database, owner=owner, read_only=read_only, on_event=on_event)
        raise InvalidInput("PostgreSQL needs its driver.", hint="Install it with: pip install 'lossless[postgres]'")
    from lossless.store.sqlite.store import SQLiteStore

    return SQLiteStore(database, owner=owner, read_only=read_only, on_event=on_event)


def _refuse_unfinished(store: Store) -> None:
    """Close a database into which a migration did not finish, and raise an error."""
    try:
        source = store.tables.moving_in()
    except StoreError:
        return  # the next read reports the damage
    if source is not None:
        store.close()
        raise StoreUnavailable(
            f"{store.location} is unfinished: a migration into it was interrupted, or is running.",
            hint="Run the same `lcm migrate` to continue it; or remove it.",
        )


def _remove_scratch(directory: str, process: int) -> None:
    """Remove a directory that was made for a database in memory; not in a child, where it is its parent's."""
    if os.getpid() == process:
        shutil.rmtree(directory, ignore_errors=True)
