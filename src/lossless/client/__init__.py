"""The verbs: `Lossless` opens a database, `Conversation` is one history in it."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from datetime import datetime
from functools import partial
from hashlib import sha256
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Self

from msgspec import Struct, structs

from lossless import config, summarizers
from lossless.config import Settings
from lossless.engine import answer as answering
from lossless.engine import describe as describing
from lossless.engine import expand as expanding
from lossless.engine import grants, payloads, plan, reading, view
from lossless.engine import grep as grepping
from lossless.engine.align import Canonicalize, without_tags
from lossless.engine.asked import Asked, Mode, Scope, Sort, check
from lossless.engine.compact import Flow, advance, compact
from lossless.engine.draft import as_summary
from lossless.engine.explain import explain
from lossless.engine.files import Files
from lossless.engine.guards import Guards
from lossless.engine.ingest import Intake, Skip, ingest
from lossless.engine.live import bounded
from lossless.engine.prompts import Templates
from lossless.engine.reading import Reader
from lossless.engine.remake import MOST_TRIES, remake
from lossless.engine.render import as_pin, stands_for
from lossless.engine.show import Guidance, Showing, show
from lossless.engine.worker import Background, Worker
from lossless.errors import FileUnavailable, InvalidInput, LosslessError, NotFound, StoreError
from lossless.events import Event, Hook, guarded, log
from lossless.model import (
    Answer,
    Compaction,
    Context,
    ConversationStatus,
    Description,
    Expansion,
    Explanation,
    Hits,
    Ingested,
    Message,
    Pin,
    Status,
    StoredFile,
    StoredMessage,
    Summary,
    SummaryRequest,
    instant,
)
from lossless.patterns import any_match
from lossless.store import jsontext
from lossless.store.base import SPAN, ConversationRow, DebtRow, FileRow, MessageRow, NewManifest, PinRow, Store
from lossless.store.rows import message_of, micros, moment
from lossless.summarizers import Awaited, Chain, Function, Summarizer
from lossless.tokens import message_tokens
from lossless.version import __version__

if TYPE_CHECKING:
    from tempfile import TemporaryDirectory

    from lossless.engine.explore import Explore

# Together they fit into one entry of a PostgreSQL index.
_MOST_BYTES = {"key": 1000, "session": 1000, "owner": 200}
Clock = Callable[[], float]
_PATIENCE = 5.0
_MOST_DRAINED = 1_000
_MOST_NOTES = 32
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
        self._notes: dict[str, list[NewManifest]] = {}
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
    ) -> Inquiry:
        """A question ready to be driven, about the conversations in `scope`, or about all."""
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
        flow = answering.ask(reader, asking, with_model=model.name != "extractive", slots=self._slots, now=self._clock)
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
        return worked

    def worker(self) -> Worker:
        """A worker that drains what is owed: `step()` once, or `run(stop)` until the event `stop` is set."""
        return Worker(self._store, self._pay, now=self._clock, tries=self._tries, on_event=self._on_event)

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
            reach = structs.replace(_reach(self), summary_timeout_ms=patience)
            named = summarizers.resolve(_full_name(settings), reach, on_event=self._on_event)
            self._answering = Chain([named] if own.name == "extractive" else [named, own])
        return self._answering

    def _templates(self) -> Templates:
        if self._prompts is None:
            self._prompts = Templates.load(self.settings.prompt_dir)
            for problem in self._prompts.problems:
                self._on_event(Event("prompts.refused", problem, "warning"))
        return self._prompts

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
            _explorer(lcm, key),
            self._note,
        )
        self._notes = lcm._notes.setdefault(key, [])

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
        said = list(messages)
        written = [message for message in said if not self._is_ours(message)]
        done = ingest(self._store, self._files, self._intake, written, whole=whole)
        return structs.replace(done, skipped=done.skipped + len(said) - len(written))

    def _is_ours(self, message: object) -> bool:
        """Whether a host sends back what `assemble` made for the model: that is nobody's message."""
        name = stands_for(message) if isinstance(message, Message) else None
        row = self._store.conversation(self.key) if name is not None else None
        if row is None or name is None:
            return False
        if name.startswith("sum_"):
            return self._store.summary_id(row.id, name) is not None
        if name.startswith("pin_"):
            return any(pin.id == name for pin in self._store.pins(row.id))
        return not name or self._seq(row, name) is not None

    def messages(self, after: int = 0, limit: int | None = None) -> list[StoredMessage]:
        """The messages behind the seq `after`, oldest first, exactly as they were ingested."""
        if limit is not None and limit < 0:
            raise InvalidInput(f"limit={limit} is not a number of messages.", hint="Give 0 or more, or None for all.")
        row = self._store.conversation(self.key)
        if row is None:
            return []
        return [self._exact(row.id, each) for each in self._store.messages(row.id, after=after, limit=limit)]

    def after_turn(
        self, messages: Iterable[Message], window: int, *, observed: int = 0, model: str | None = None
    ) -> Ingested:
        """Ingest what a turn brought; then compact if it is worth while for a model of that window, or have it done.

        By default (`proactive_threshold_compaction_mode` = "deferred") it is owed, and done in the background once the
        conversation is idle: no turn waits for a summary. `observed` is the prompt the host measured, `model` the
        host's model, for rules that name one.
        """
        _refuse_sizes(window, observed=observed)
        done = self.ingest(messages)
        if self._closed_to:
            return done
        if self._lcm.settings.proactive_threshold_compaction_mode == "deferred":
            self._owe(window, observed, model)
            return done
        try:
            self.compact(window, observed=observed, model=model)
        except LosslessError as error:
            # The turn is stored, and that is what the caller has to know.
            event = Event("compaction.failed", str(error), "error", {"conversation": self.key})
            self._intake.on_event(event)
            self._owe(window, observed, model)
        return done

    def _owe(self, window: int, observed: int, model: str | None) -> None:
        lcm, row = self._lcm, self._store.conversation(self.key)
        if row is None or not self._is_due(row, window, observed, model):
            return
        debt, overhead = self._store.debt(row.id), max(0, observed - row.context_tokens)
        known = debt is not None and debt.pending and (debt.window_tokens, debt.model) == (window, model)
        if debt is None or not known or debt.overhead < overhead:
            with self._store.transaction():
                self._store.owe(row.id, window, overhead, model, int(lcm._clock() * 1_000_000))
        lcm._background.wake()

    def _may_be_due(self, row: ConversationRow, window: int, observed: int, model: str | None) -> bool:
        """Whether a turn may have made compaction worth while, as far as the row tells."""
        settings = self._lcm.settings
        limits = plan.limits(settings, window, key=self.key, model=model)
        return settings.compaction_trigger != "threshold" or max(row.context_tokens, observed) > limits.threshold

    def _is_due(self, row: ConversationRow, window: int, observed: int, model: str | None) -> bool:
        settings = self._lcm.settings
        if settings.compaction_trigger == "threshold":
            return self._may_be_due(row, window, observed, model)
        limits = plan.limits(settings, window, key=self.key, model=model)
        return plan.is_due(self._store.items(row.id), limits, settings, observed)

    def compact(
        self,
        window: int,
        *,
        force: bool = False,
        target: int | None = None,
        observed: int = 0,
        model: str | None = None,
    ) -> Compaction:
        """Put summaries in the place of old runs, as far as it is worth it for a model of that window.

        Does nothing below the threshold, unless `force` says so; `target` asks for a number of tokens; `observed` is the
        prompt a host has measured, `model` the host's model. Nothing is ever lost: every summary leads back to its
        messages.
        """
        _refuse_sizes(window, target=target, observed=observed)
        job = self.job(window, force=force, target=target, observed=observed, model=model)
        return job if isinstance(job, Compaction) else job.run()

    def job(
        self,
        window: int,
        *,
        force: bool = False,
        target: int | None = None,
        observed: int = 0,
        model: str | None = None,
        pause: Callable[[], bool] | None = None,
    ) -> Job | Compaction:
        """A compaction ready to be driven, or what came of it where there is nothing to do."""
        row = self._store.conversation(self.key)
        if row is None or self._closed_to:
            return Compaction((), 0, 0, self._closed_to or "nothing to compact")
        lcm, tokens = self._lcm, row.context_tokens
        if not force and target is None and not self._may_be_due(row, window, observed, model):
            # Most turns end here: what the row says is enough, and nothing else is read for it.
            return Compaction((), tokens, tokens, "below threshold")
        summarizer, guards = self._asks()
        if force:
            guards.lift()
        elif target is None and guards.is_exhausted(row.next_seq, window):
            return Compaction((), tokens, tokens, "exhausted")
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
            model=model,
            wanted_elsewhere=pause or _never,
            patient=pause is not None,
        )
        return Job(flow, summarizer, guards, row, window, self._intake.on_event)

    def _asks(self) -> tuple[Summarizer, Guards]:
        lcm = self._lcm
        summarizer = lcm._summarizer()
        return summarizer, Guards(self._store, lcm.settings, self.key, summarizer.name, lcm._clock)

    def _pay(self, debt: DebtRow, pause: Callable[[], bool]) -> Compaction:
        """Compact, if a window is owed it; else make anew what no model wrote."""
        row = self._store.conversation(self.key)
        if debt.window_tokens:
            observed = row.context_tokens + debt.overhead if row and debt.overhead else 0
            job = self.job(debt.window_tokens, observed=observed, model=debt.model, pause=pause)
            return job if isinstance(job, Compaction) else job.run()
        lcm = self._lcm
        if row is None or not lcm._tries():
            return Compaction((), 0, 0, "nothing to compact")
        summarizer, guards = self._asks()
        anew = remake(
            self._store, row, lcm.settings, templates=lcm._templates(), now=lcm._clock, wanted_elsewhere=pause
        )
        return Job(anew, summarizer, guards, row, debt.window_tokens, self._intake.on_event).run()

    def summaries(self) -> list[Summary]:
        """Every summary of this conversation, in the order they were made."""
        row = self._store.conversation(self.key)
        return [] if row is None else [as_summary(each) for each in self._store.summaries(row.id)]

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
        """What a model of that window is shown: pins, summaries, then the newest messages, valid for every provider.

        `reserve` is what the host keeps for its own prompt and the reply. `live` are the messages the host holds: those not
        stored yet come last, and all of them, bounded, serve when nothing stored can. `guidance` adds a system message that
        tells the model how to look things up. Nothing is raised for lack of room: see `over_budget` and `left_out`.
        """
        window, lcm = self._lcm._window(window), self._lcm
        _refuse_sizes(window)
        limits = plan.limits(lcm.settings, window, key=self.key, model=model)
        room = limits.budget - reserve
        if room < 1:
            raise InvalidInput(f"reserve={reserve} leaves nothing of {limits.budget}.", hint="Reserve less.")
        try:
            row = None if self._closed_to else self._store.conversation(self.key)
            if row is None:
                why = self._closed_to or "nothing is stored"
                return bounded(live or (), room, why, prompt_follows=prompt_follows)
            context, note = show(
                self._store, row, self._showing(row, limits, room, guidance, live, prompt_follows), self._intake.now
            )
        except StoreError as error:
            if live is None:
                raise
            self._intake.on_event(Event("assemble.live", str(error), "error", {"conversation": self.key}))
            return bounded(live, room, "the database does not answer", prompt_follows=prompt_follows)
        self._notes.append(note)
        if len(self._notes) >= _MOST_NOTES:
            self._remember()
        return context

    def _showing(
        self,
        row: ConversationRow,
        limits: plan.Limits,
        room: int,
        guidance: Guidance = "none",
        live: Sequence[Message] | None = None,
        prompt_follows: bool = False,
    ) -> Showing:
        zone, canonicalize = self._lcm.settings.zone, self._intake.canonicalize
        return Showing(limits, room, zone, canonicalize, partial(self._whole, row.id), guidance, live, prompt_follows)

    def _remember(self) -> None:
        """Write down what was shown. Mostly it goes along with the next ingest, so that a turn has one transaction."""
        row = self._store.conversation(self.key) if self._notes and not self._store.read_only else None
        if row is not None:
            with self._store.transaction():
                self._note(row)

    def _note(self, row: ConversationRow) -> None:
        notes = list(self._notes)
        if notes:
            self._store.add_manifests(row.id, notes, view.KEPT)
            del self._notes[: len(notes)]

    def context(self, at: datetime | str | int | None = None) -> Context:
        """The whole ordered view, whatever its size; or what a model was shown at a past time, or at a turn's number.

        Of the past the last 1,000 assemblies are known. References stand for large content.
        """
        row = self._store.conversation(self.key)
        if row is None:
            return Context((), 0)
        zone = self._lcm.settings.zone
        if at is None:
            shown = view.entries(self._store, row.id, self._store.items(row.id), zone)
            tokens, reason = row.context_tokens, "stored"
        else:
            self._remember()
            turn = at if isinstance(at, int) else None
            until = None if isinstance(at, int) else micros(_moment(at))
            found = self._store.manifests(row.id, until=until, turn=turn, limit=1)
            if not found:
                raise NotFound("assembly", str(at), hint="Nothing was assembled then, or more than 1,000 turns ago.")
            shown = view.shown_then(self._store, row.id, found[0], zone)
            tokens, reason = (
                found[0].tokens,
                f"turn {found[0].turn}, {moment(found[0].at).isoformat(timespec='seconds')}",
            )
        items = tuple(entry.item for entry in shown if entry.item is not None)
        return Context(items, tokens, tuple(entry.message for entry in shown), reason=reason)

    def explain(self, what: str | int, *, window: int | None = None) -> Explanation:
        """Why a message is, or is not, in the context: the message of that id, or the newest that holds that text."""
        row = self._store.conversation(self.key)
        seq = None if row is None else self._seq(row, what)
        if row is None or seq is None:
            raise NotFound("message", str(what), hint="Give its id (msg#...), or words that stand in it.")
        limits = plan.limits(self._lcm.settings, self._lcm._window(window), key=self.key)
        how = self._showing(row, limits, limits.budget)
        found = explain(self._store, row, seq, show(self._store, row, how, self._intake.now)[0])
        if found is None:
            raise NotFound("message", str(what), hint="Give its id (msg#...), or words that stand in it.")
        return found

    def _seq(self, row: ConversationRow, what: str | int) -> int | None:
        """The message that an id or a text means, as its seq."""
        named = re.fullmatch(r"(?:msg#)?(\d+)", str(what).strip())
        if named:
            conversation, seq = divmod(int(named[1]), SPAN)
            return seq if conversation == row.id and 0 < seq < row.next_seq else None
        hits = self.grep(re.escape(str(what).strip()), scope="messages", limit=1) if str(what).strip() else ()
        own = [hit.seq for hit in hits if hit.conversation == row.id]
        return own[0] if own else None

    def pin(self, what: str | int) -> Pin:
        """Have a model always see something, before everything else: a message by its id, or a text of your own."""
        row = self._store.conversation(self.key)
        if row is None or not str(what).strip():
            raise InvalidInput("There is nothing to pin.", hint="Give a text, or the id of a message (msg#...).")
        text, message_id = str(what), None
        if isinstance(what, int) or re.fullmatch(r"msg#\d+", what.strip()):
            seq = self._seq(row, what)
            rows = self._store.messages_at(row.id, [seq]) if seq is not None else []
            if not rows:
                raise NotFound("message", str(what), hint="`grep` finds messages and their ids.")
            text, message_id = rows[0].text, row.id * SPAN + rows[0].seq
        text = jsontext.cleaned(text)
        name = f"pin_{sha256(text.encode()).hexdigest()[:8]}"
        pinned = PinRow(name, message_id, text, message_tokens(as_pin(name, text)), self._intake.now())
        with self._store.transaction():
            self._store.add_pin(row.id, pinned)
        return Pin(name, text, pinned.tokens, message_id)

    def unpin(self, pin_id: str) -> None:
        """Take a pin away."""
        row = self._store.conversation(self.key)
        gone = False
        if row is not None:
            with self._store.transaction():
                gone = self._store.remove_pin(row.id, str(pin_id))
        if not gone:
            raise NotFound("pin", str(pin_id), hint="`pins()` lists them.")

    def pins(self) -> list[Pin]:
        """What is pinned, oldest first."""
        row = self._store.conversation(self.key)
        found = [] if row is None else self._store.pins(row.id)
        return [Pin(each.id, each.text, each.tokens, each.message_id) for each in found]

    def describe(
        self,
        id: str | int,
        *,
        start_line: int | None = None,
        end_line: int | None = None,
        max_tokens: int | None = None,
    ) -> Description:
        """What a summary, a message (`msg#...` or its number) or a file is; also a reference copied from a message.

        A summary comes with everything below it and what reading that costs, told by whether it fits into `max_tokens`.
        Of a file 32 KiB are shown, from `start_line` on; `end_line` is included. An id that is not of this conversation,
        or of an earlier one under the same key, is an id that does not exist.
        """
        lines = describing.Lines(start_line, end_line)
        return describing.describe(self._reader(), id, lines, cap=max_tokens)

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
        """Climb down: a summary to its sources, `depth` steps of them, a message to all of its words.

        `max_tokens` (`max_expand_tokens` of the settings, for summaries) bounds what comes back. In "order" `next` is the
        cursor that goes on where it stopped; "fit" leaves out what does not fit, and lists it with its cost.
        """
        return expanding.expand(
            self._reader(),
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
        all_conversations: bool = False,
    ) -> Answer:
        """Answer a question from what was said: from summaries that are named, or from what a search finds.

        `query` says where to look, if not the question itself; `token_cap` is how much may be read, `max_tokens` how long
        the answer may be. Every id it cites was read for it. Without a model the answer is empty, and the
        evidence holds the best passages. What goes wrong is in `error` and `error_code`.
        """
        inquiry = self.inquiry(
            question,
            ids=ids,
            query=query,
            max_tokens=max_tokens,
            token_cap=token_cap,
            all_conversations=all_conversations,
        )
        return inquiry.run()

    def inquiry(
        self,
        question: str,
        *,
        ids: Sequence[str | int] | None = None,
        query: str | None = None,
        max_tokens: int | None = None,
        token_cap: int | None = None,
        all_conversations: bool = False,
    ) -> Inquiry:
        """A question ready to be driven."""
        return self._lcm.inquiry(
            question,
            ids=ids,
            query=query,
            max_tokens=max_tokens,
            token_cap=token_cap,
            scope=None if all_conversations else reading.family(self._store, self.key),
            origin=self.key,
        )

    def grant(
        self, *, max_tokens: int | None = None, seconds: float = grants.SECONDS, conversations: Sequence[int] = ()
    ) -> str:
        """Leave for somebody else, a sub-agent say, to read this conversation and its earlier ones; its id.

        `conversations` names others in their place. It ends after some seconds, once `max_tokens` were read
        (`max_expand_tokens` of the settings), or with `revoke`. See `lossless.tools`.
        """
        given = grants.issue(
            self._store,
            conversations or reading.family(self._store, self.key),
            max_tokens=self._lcm.settings.max_expand_tokens if max_tokens is None else max_tokens,
            now=self._lcm._clock(),
            origin=self.key,
            seconds=seconds,
        )
        return given.id

    def revoke(self, grant_id: str) -> bool:
        """End a grant; False if there is none of that id."""
        return grants.Delegate(self._store, grant_id, self._lcm._clock).revoke()

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
        """Find words in everything ever said here, or in an earlier conversation under the same key.

        "regex" matches a pattern (RE2, in linear time) against every text, the newest first, and misses none;
        "full_text" finds what answers a question as typed. `scope` is "messages", "summaries", "both" or "files" (whole
        files, `file_ids` alone if given, ten lines of each at most); `limit` (1 to 200) counts each kind. Times are from
        `since` on and before `before`. After `seconds` it ends with `complete` False; `next_cursor` goes on there.
        """
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
        return self._lcm._grep(reading.family(self._store, self.key), asked, cursor, seconds)

    def _reader(self) -> Reader:
        return self._lcm._reader(reading.family(self._store, self.key))

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
        message = self._whole(conversation_id, stored.message)
        return stored if message is stored.message else _stored(conversation_id, row, message)

    def _whole(self, conversation_id: int, message: Message) -> Message:
        def read(file_id: str) -> bytes:
            found = self._store.file(conversation_id, file_id)
            if found is None:
                raise FileUnavailable(f"{file_id} has no row.")
            return self._files.whole(found.sha256)

        try:
            return payloads.restore(message, read)
        except FileUnavailable as error:
            # One lost payload must not make the history unreadable: the reference stays, and it is told.
            self._intake.on_event(Event("file.unavailable", str(error), "error", {"conversation": self.key}))
            return message


class Job(Struct):
    """A flow and whom it asks: driven here, or by whoever awaits."""

    flow: Flow
    summarizer: Summarizer
    guards: Guards
    row: ConversationRow
    window: int
    on_event: Hook

    def run(self) -> Compaction:
        step = advance(self.flow)
        while isinstance(step, SummaryRequest):
            step = advance(self.flow, self.guards.asked(self.summarizer, step))
        return self.ended(step)

    def ended(self, done: Compaction) -> Compaction:
        done, is_news = self.guards.ended(done, self.row.next_seq, self.window)
        if is_news:
            told = (
                f"{self.row.key}: {done.tokens_after:,} tokens are left and nothing more can be summarised. "
                "Begin anew with new() or reset(), or name a larger window."
            )
            self.on_event(Event("compaction.exhausted", told, "warning", {"conversation": self.row.key}))
        return done


class Inquiry(Struct):
    """A question and whom it asks: driven here, or by whoever awaits."""

    flow: answering.Flow
    summarizer: Summarizer
    guards: Guards

    def run(self) -> Answer:
        step = answering.advance(self.flow)
        while isinstance(step, SummaryRequest):
            step = answering.advance(self.flow, self.guards.asked(self.summarizer, step))
        return step


def _moment(at: datetime | str) -> datetime:
    try:
        found = instant(at)
    except (ValueError, TypeError):
        found = None
    if found is None:
        raise InvalidInput(f"at={at!r} is not a time.", hint="Give a datetime, ISO 8601, or the number of a turn.")
    return found


def _never() -> bool:
    return False


def _refuse_sizes(window: int, *, target: int | None = None, observed: int = 0) -> None:
    if window < 1 or (target is not None and target < 1):
        raise InvalidInput(f"window={window}, target={target}: both are numbers of tokens.", hint="Give 1 or more.")
    if observed < 0:
        raise InvalidInput(f"observed={observed} is not a number of tokens.", hint="Give 0 if it is not known.")


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


def _explorer(lcm: Lossless, key: str) -> Explore | None:
    """What tells of large prose: the model that the settings name, if they do."""
    settings = lcm.settings
    provider, model = settings.large_file_summary_provider, settings.large_file_summary_model
    if not (provider and model):
        return None
    from lossless.engine.explore.model import ModelExplorer
    from lossless.summarizers.anthropic import Anthropic
    from lossless.summarizers.openai import OpenAI

    name, reach = f"{provider}/{model}", _reach(lcm)

    def ask(request: SummaryRequest) -> str:
        found = summarizers.resolve(name, reach, on_event=lcm._on_event)
        if not isinstance(found, Anthropic | OpenAI):
            return found.ask(request).text
        # Not `ask`, which tries again for an empty or unfinished text: somebody's message is waiting for this one.
        answer = found._send(request, request.max_tokens)
        return "" if answer.cut else answer.reply.text

    guards = Guards(lcm._store, settings, f"large-file:{key}", name, lcm._clock)
    return ModelExplorer(name, ask, guards, settings, lcm._on_event)


def _reach(lcm: Lossless) -> Settings:
    """The settings for another model than that of the summaries."""
    writer = lcm.settings.summary_model or (lcm._named if isinstance(lcm._named, str) else None)
    # The address is that of the summary model; without one it is nobody's.
    return structs.replace(lcm.settings, **({"summary_model": writer} if writer else {"summary_base_url": None}))


def _full_name(settings: Settings) -> str:
    """The expansion model with its provider."""
    model, provider = settings.expansion_model or "", settings.expansion_provider
    complete = "/" in model or model.startswith("command:") or model == "extractive"
    return model if complete or not provider else f"{provider}/{model}"


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
