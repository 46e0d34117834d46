"""The verbs of one conversation."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from datetime import datetime
from functools import partial
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Unpack

from msgspec import structs, to_builtins

from lossless.client.arguments import checks_arguments
from lossless.client.jobs import Compacting, Inquiry, Job, Ready, runs
from lossless.config import Settings
from lossless.engine import sessions
from lossless.engine.shared.defaults import FLAW_KINDS, GRANT_SECONDS, GREP_SECONDS
from lossless.errors import FileUnavailable, InvalidInput, LosslessError, NotFound, StoreError
from lossless.events import Event
from lossless.model import INSTRUCTIONS, Compaction, Context, Hits, Message, Pin, StoredMessage
from lossless.patterns import any_match
from lossless.store import jsontext
from lossless.store.base import SPAN, PinRow
from lossless.store.rows import message_of, micros, moment
from lossless.times import Time, read_time
from lossless.tokens import message_tokens, reported

if TYPE_CHECKING:
    from lossless.client.files import ConversationFiles
    from lossless.client.lossless import Lossless
    from lossless.client.surgery import Rewrite, RewriteOptions, Rewriting
    from lossless.engine.compaction import plan
    from lossless.engine.context import rejections
    from lossless.engine.context.build import BuildOptions, Guidance
    from lossless.engine.ingest.identity import Canonicalize
    from lossless.engine.ingest.ingest import InTransaction
    from lossless.engine.ingest.intake import Skip
    from lossless.engine.recall import expand as expanding
    from lossless.engine.recall.reader import Reader
    from lossless.engine.recall.search_request import Mode, Scope, Sort
    from lossless.engine.shared.call_limits import Guards
    from lossless.engine.surgery.select import Selection
    from lossless.formats.fit import Caps
    from lossless.model import (
        Bootstrapped,
        ConversationStatus,
        Description,
        Detached,
        Expansion,
        Explanation,
        Forgotten,
        Ingested,
        Operation,
        Outcome,
        Rejection,
        Renewed,
        Summary,
    )
    from lossless.store.base import ConversationRow, DebtRow, MessageRow, SummaryRow
    from lossless.summarizers import Summarizer

# Together they fit into one entry of a PostgreSQL index.
_MOST_BYTES = {"key": 1000, "session": 1000, "owner": 200}
_MOST_NOTES = 32
_MOST_WORDS = 200
_MOST_ALIKE = 200
_BYTES_PER_TOKEN = 8
"""How many bytes of a request a token of text takes, with the frame of its message: seldom more, in any language."""
_FRESH = 5.0
"""For how many seconds a corrected estimate is used before it is read again, as other processes may have written it."""


@checks_arguments
class Conversation:
    """One history: every message, and the context made of it."""

    def __init__(
        self,
        lcm: Lossless,
        key: str,
        session: str | None,
        canonicalize: Canonicalize | None,
        skip: Skip | None,
        parent: Conversation | str | None = None,
    ) -> None:
        from lossless.client.explorer import explorer
        from lossless.engine.ingest.identity import without_tags
        from lossless.engine.ingest.intake import Intake

        settings = lcm.settings
        self.key = key
        self._lcm = lcm
        self._store = lcm._store
        self._files = lcm._files
        self._hidden = _hidden(settings, key)
        self._closed_to = self._hidden or _stateless(settings, key)
        self._parent = _parent(key, lcm._stored_key(checked("key", parent)) if isinstance(parent, str) else parent)
        self._intake = Intake(
            key,
            None if session is None else checked("session", session),
            settings.large_file_token_threshold,
            canonicalize or without_tags(settings.strip_injected_context_tags),
            skip,
            lcm._on_event,
            lambda: int(lcm._clock() * 1_000_000),
            explorer(lcm, key),
            redact=lcm._redact,
        )
        self._notes = lcm._notes.setdefault(key, [])
        self._shown: Context | None = None

    def __repr__(self) -> str:
        return f"Conversation({self.key!r})"

    def _row(self) -> ConversationRow | None:
        return sessions.current(self._store, self.key, self._intake.session)

    def _family(self) -> tuple[int, ...]:
        from lossless.engine.recall import reader

        return reader.family(self._store, self.key, self._intake.session)

    def new(self, retain_depth: int | None = None, *, dry_run: bool = False) -> Renewed:
        """Empty the context, as hosts do for `/new`: messages leave it, and summaries below `retain_depth`.

        `retain_depth` is by default `new_session_retain_depth` of the settings: 0 keeps every summary, -1 everything. Nothing is
        deleted: `detached()` lists what left, and search and recall reach it as before. With `dry_run` it only reports what would
        leave. The newest system message stays until a newer one arrives.

        >>> chat.new(dry_run=True).tokens_before > 0
        True
        """
        from lossless.model import Renewed

        depth = self._lcm.settings.new_session_retain_depth if retain_depth is None else retain_depth
        if depth < -1:
            raise InvalidInput(f"retain_depth={depth} is not a depth.", hint="Give -1, to keep everything, or more.")
        if self._is_closed():
            return Renewed((), 0, 0)
        if dry_run:
            return self._leaving(depth)
        self._catch_up()
        self._remember()
        return sessions.renew(self._store, self.key, self._intake.session, depth, self._intake.now())

    def _leaving(self, retain_depth: int) -> Renewed:
        """Return what `/new` would take out of the context as it is stored now."""
        from lossless.model import Renewed

        row = self._row()
        if row is None:
            return Renewed((), 0, 0)
        items = sessions.leaving(
            self._store.context.items(row.id), retain_depth, self._store.context.newest_system(row.id)
        )
        named = sessions.named_items(self._store, row.id, [(item, "new", self._intake.now()) for item in items])
        return Renewed(named, row.context_tokens, row.context_tokens - sum(item.tokens for item in items))

    def reset(self) -> bool:
        """Archive the conversation and start a fresh one under its key, as hosts do for `/reset`.

        Returns False if the current one is empty, and so fresh already. Recall still reaches what was archived.

        >>> chat.reset()
        True
        """
        if self._is_closed():
            return False
        self._catch_up()
        self._remember()
        return sessions.reset(self._store, self.key, self._intake.session, self._intake.now())

    def end(self, reason: str = "") -> bool:
        """End the host's session. Returns True if the conversation was archived with it.

        It continues after "new", "restart", "shutdown", "unknown" and without a reason; "deleted" archives it; any other reason
        archives it and starts a fresh one.

        >>> chat.end("shutdown")
        False
        """
        if sessions.keeps_conversation(reason) or self._is_closed():
            return False
        self._catch_up()
        self._remember()
        return sessions.end(self._store, self.key, self._intake.session, reason, self._intake.now())

    def detached(self) -> tuple[Detached, ...]:
        """List what left the context, in order: no model is shown it, and search and recall reach it as before.

        >>> chat.detached()
        ()
        """
        row = self._row()
        return () if row is None else sessions.detached(self._store, row)

    def _is_closed(self) -> bool:
        """Return whether nothing of this conversation may be changed, and report it if so."""
        if self._closed_to:
            text = f"{self._closed_to}: nothing was changed"
            self._intake.on_event(Event("session.disabled", text, "warning", {"conversation": self.key}))
        return bool(self._closed_to)

    def _refuse_if_closed(self) -> None:
        if self._closed_to:
            raise InvalidInput(f"{self._closed_to}: nothing is written.", hint="Another key, or other settings, may.")

    def ingest(self, messages: Iterable[Message], *, whole: bool = False) -> Ingested:
        """Store the messages that are new, in one transaction, in order.

        A message with an `event_id` is stored once, however often it is sent. One without is always new, unless `whole` says that
        the list is the host's entire conversation: then messages sent before are recognised by their place. An error means that
        nothing of this call was stored.

        >>> len(chat.ingest([Message.user("Where is the deploy key?", event_id="m1")]).stored)
        1
        >>> chat.ingest([Message.user("Where is the deploy key?", event_id="m1")]).known
        1
        """
        return self._take(messages, whole=whole)

    def _take(
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
        if self._closed_to:
            event = Event(
                "ingest.disabled", f"{self._closed_to}: nothing was stored", "warning", {"conversation": self.key}
            )
            self._intake.on_event(event)
            return Ingested(skipped=len(list(messages)))
        said = list(messages)
        written = self._without_ours(said) if may_stand(said) else said
        # Whether a transcript is followed here is asked of the database once; a turn asks each time.
        known = self._lcm._followed.get(self.key)
        followed = self._catch_up() if known or known is None or is_turn else False
        intake = structs.replace(self._intake, followed=followed, outside=outside if is_turn else None)
        with self._noting() as in_transaction:
            done = ingest(self._store, self._files, intake, written, whole=whole, in_transaction=in_transaction)
        if self._lcm.settings.semantic:
            self._lcm._background.wake()  # what is new has no vectors yet
        return structs.replace(done, skipped=done.skipped + len(said) - len(written))

    def _without_ours(self, messages: list[Message]) -> list[Message]:
        """Return the messages without those that `assemble` wrote for the model and a host sent back."""
        from lossless.engine.context.summary_xml import stands_for

        return [each for each in messages if not self._is_ours(stands_for(each))]

    def _is_ours(self, name: str | None) -> bool:
        row = self._row() if name is not None else None
        if row is None or name is None:
            return False
        if name.startswith("sum_"):
            found = self._store.summaries.named(name)
            return found is not None and found[0] == row.id
        if name.startswith("pin_"):
            return any(pin.id == name for pin in self._store.manifests.key_pins(row.key))
        return not name or self._seq(row, name) is not None

    def bootstrap(self, path: str | Path, format: str | None = None) -> Bootstrapped:
        """Read what is new in a host's transcript: OpenClaw or pi, Claude Code, Codex, or a file of plain messages.

        Call it as often as you like: an unchanged file is not opened, and one that grew is read from its old end. Messages that
        the host delivers itself are recognised. `format` names the kind of file where its content does not.

        >>> chat.bootstrap("session.jsonl").reason
        'transcript missing'
        """
        from lossless import transcripts
        from lossless.engine.ingest.heartbeats import prune
        from lossless.model import Bootstrapped

        if self._closed_to:
            reason = self._closed_as()
            return Bootstrapped("session excluded by pattern" if reason == "ignored session" else reason)
        where = checked_path(path)
        if format is not None:
            transcripts.reader(format)
        self._catch_up(besides=where)
        done = self._read(where, format, expected=True)
        self._lcm._followed[self.key] = True
        if self._lcm.settings.prune_heartbeat_ok and done.conversation is not None:
            prune(self._store, done.conversation, self._intake.now())
        return done

    def _read(self, path: Path, format: str | None = None, *, expected: bool = False) -> Bootstrapped:
        from lossless.engine.sync.read import bootstrap

        settings = self._lcm.settings
        intake = structs.replace(self._intake, skip=self._skips, closed=self._lcm._is_closed)
        budget = settings.bootstrap_budget
        return bootstrap(self._store, self._files, intake, path, format=format, budget=budget, expected=expected)

    def _closed_as(self) -> Literal["", "disabled", "ignored session", "stateless session"]:
        """Return the name of the setting that keeps the conversation from being written; empty if none does."""
        if not self._closed_to:
            return ""
        if not self._lcm.settings.enabled:
            return "disabled"
        return "ignored session" if self._hidden else "stateless session"

    def _skips(self, message: Message) -> bool:
        """Return whether a message is skipped: the host leaked it, or we wrote it for a model."""
        from lossless.engine.context.summary_xml import may_stand, stands_for

        skip = self._intake.skip
        return (skip is not None and skip(message)) or (may_stand([message]) and self._is_ours(stands_for(message)))

    def _catch_up(self, besides: Path | None = None) -> bool:
        """Read the conversation's transcript up to now, so that what follows comes after it.

        Returns True if a transcript continues to report this conversation.
        """
        from lossless.engine.sync.read import UNREACHABLE
        from lossless.engine.sync.read_marks import newest_path

        row = self._row()
        path = newest_path(self._store, row) if row and row.transcribed else None
        self._lcm._followed[self.key] = path is not None
        if path is None:
            return False
        try:
            if besides is None or path != Path(os.path.realpath(besides)):
                return self._read(path).reason not in UNREACHABLE
        except LosslessError as error:
            # What comes next is at hand; what the transcript holds beyond it is still there the next time.
            self._intake.on_event(Event("transcript.unavailable", str(error), "warning", {"conversation": self.key}))
            return False
        return True

    def messages(self, after: int = 0, limit: int | None = None) -> list[StoredMessage]:
        """Return the messages after the place `after`, oldest first, exactly as they were ingested.

        >>> chat.messages(limit=1)[0].role
        'user'
        """
        if limit is not None and limit < 0:
            raise InvalidInput(f"limit={limit} is not a number of messages.", hint="Give 0 or more, or None for all.")
        row = self._row()
        if row is None:
            return []
        return [self._exact(row.id, each) for each in self._store.messages.read(row.id, after=after, limit=limit)]

    def after_turn(
        self,
        messages: Iterable[Message],
        window: int | None = None,
        *,
        observed: int = 0,
        model: str | None = None,
        usage: object = None,
    ) -> Ingested:
        """Store the messages of a turn, then compact if a model of that window needs it, now or in the background.

        By default (`proactive_threshold_compaction_mode` = "deferred") compaction is done in the background once the conversation
        is idle: no turn waits for a summary. Without a `window` 128,000 tokens are assumed, with one warning. `observed` is the
        size of the prompt as the host measured it, `model` the host's model, for rules that name one. `usage` is what the provider
        reported for the request made from the last `assemble` (an SDK's object or a dict, of Anthropic or OpenAI): it serves as
        `observed`, and corrects the estimates for that model.

        >>> done = chat.after_turn([Message.assistant("In the vault.")], window=200_000)
        """
        window = self._lcm._window(window)
        _refuse_sizes(window, observed=observed)
        counted = 0 if usage is None else reported(usage)
        if usage is not None and not counted:
            text = "The usage of a turn has no count of prompt tokens; estimates are not corrected by it"
            self._intake.on_event(Event("usage.unknown", text, "warning", {"conversation": self.key}))
        done = self._take(messages, is_turn=True)
        if self._closed_to:
            return done
        if counted:
            self._learn(counted, model)
        measured, observed = observed or counted, self._estimated(observed or counted, model)
        if self._lcm.settings.proactive_threshold_compaction_mode == "deferred":
            self._schedule(window, observed, model)
            return done
        try:
            self.compact(window, observed=measured, model=model)
        except LosslessError as error:
            # The turn is stored, and that is what the caller has to know.
            event = Event("compaction.failed", str(error), "error", {"conversation": self.key})
            self._intake.on_event(event)
            self._schedule(window, observed, model)
        return done

    def _learn(self, counted: int, model: str | None) -> None:
        """Compare what a provider counted with our estimate of the prompt that was assembled last."""
        from lossless.engine.shared import calibration

        shown = self._lcm._measured.pop(self.key, None)
        if shown is None or shown[0] != model or self._store.read_only:
            return
        try:
            name = calibration.name(model, self.key)
            kept = calibration.observe(self._store, name, shown[1], counted, self._intake.now())
        except StoreError as error:
            # The turn is stored, and the next one brings another count.
            self._intake.on_event(Event("usage.lost", str(error), "warning", {"conversation": self.key}))
            return
        self._lcm._factors[name] = kept.factor, time.monotonic()

    def _factor(self, model: str | None, *, fresh: bool = False) -> float:
        """Return how many tokens a model counts for one of ours; `fresh`, as others had it a few seconds ago at most."""
        from lossless.engine.shared import calibration

        known, name = self._lcm._factors, calibration.name(model, self.key)
        if name not in known or (fresh and time.monotonic() - known[name][1] > _FRESH):
            known[name] = calibration.read(self._store, name).factor, time.monotonic()
        return known[name][0]

    def _estimated(self, counted: int, model: str | None) -> int:
        """Return what a prompt of so many tokens of a model costs by our estimate."""
        return round(counted / self._factor(model)) if counted else 0

    def _limits(self, window: int, model: str | None) -> plan.Limits:
        """Return the limits that compaction holds the conversation to."""
        from lossless.engine.compaction import plan

        return plan.limits(
            self._lcm.settings,
            window,
            key=self.key,
            model=model,
            factor=self._factor(model),
            most=self._most(model),
        )

    def _most(self, model: str | None) -> int:
        """Return the tokens that fit into the bytes of a request: of ordinary text, or of what the last one had to leave out."""
        ordinary = self._caps(model).bytes // _BYTES_PER_TOKEN
        return min(ordinary, self._lcm._dense.get(self.key, ordinary))

    def _schedule(self, window: int, observed: int, model: str | None, *, after: float = 0) -> None:
        lcm, row = self._lcm, self._row()
        if row is None or not row.active:
            return
        debt, overhead = self._store.debts.get(row.id), max(0, observed - row.context_tokens)
        # What was settled for another window says nothing about this one: it is checked again, once.
        is_moved = debt is not None and not debt.pending and debt.window_tokens not in (0, window)
        if not is_moved and not self._is_due(row, window, observed, model):
            return
        if debt is None or not _covers(debt, window, overhead, model):
            with self._store.transaction():
                self._store.debts.record(row.id, window, overhead, model, int(lcm._clock() * 1_000_000))
        if after:
            lcm._background.start(after=after)
        else:
            lcm._background.wake()

    def _may_be_due(self, row: ConversationRow, window: int, observed: int, model: str | None) -> bool:
        """Return whether compaction may be due after a turn, as far as the row shows."""
        settings = self._lcm.settings
        return (
            settings.compaction_trigger != "threshold"
            or max(row.context_tokens, observed) > self._limits(window, model).threshold
        )

    def _is_due(self, row: ConversationRow, window: int, observed: int, model: str | None) -> bool:
        from lossless.engine.compaction import plan

        settings = self._lcm.settings
        if settings.compaction_trigger == "threshold":
            return self._may_be_due(row, window, observed, model)
        limits = self._limits(window, model)
        return plan.is_due(self._store.context.items(row.id), limits, settings, observed)

    @runs
    def compact(
        self,
        window: int | None = None,
        *,
        force: bool = False,
        target: int | None = None,
        observed: int = 0,
        model: str | None = None,
        whole: bool = False,
    ) -> Compacting:
        """Replace old runs of the context with summaries, as far as a model of that window needs it.

        Does nothing below the threshold, unless `force`; `target` is a number of tokens, and no more is compacted than that takes;
        `observed` is the size of the prompt as the host measured it, `model` the host's model. Nothing is ever lost: every summary
        leads back to its messages. With `force` or `whole` it continues until nothing more is gained, however long that takes;
        otherwise it ends after one sweep.

        >>> chat.compact(window=200_000).stop
        'below threshold'
        """
        return self._compaction(window, force=force, target=target, observed=observed, model=model, whole=whole)

    def _compaction(
        self,
        window: int | None = None,
        *,
        force: bool = False,
        target: int | None = None,
        observed: int = 0,
        model: str | None = None,
        whole: bool = False,
        pause: Callable[[], bool] | None = None,
    ) -> Compacting:
        """Prepare a compaction; where there is nothing to do, its result."""
        from lossless.engine.compaction.sweep import compact
        from lossless.engine.shared.model_flow import never

        window = self._lcm._window(window)
        _refuse_sizes(window, target=target, observed=observed)
        factor = self._factor(model, fresh=True)
        # What a debt remembers is in tokens of ours already.
        observed = self._estimated(observed, model) if pause is None else observed
        row = self._row()
        if row is None or not row.active or self._closed_to:
            return Ready(Compaction((), 0, 0, self._closed_as() or "nothing to compact"))
        lcm, tokens = self._lcm, row.context_tokens
        if self.key in lcm._uncovered:
            # What the host keeps for itself leaves less space than its window: what did not fit has to be covered.
            observed = max(observed, tokens + lcm._uncovered[self.key])
        if not force and target is None and not self._may_be_due(row, window, observed, model):
            # Most turns end here: what the row says is enough, and nothing else is read for it.
            return Ready(Compaction((), tokens, tokens, "below threshold"))
        summarizer, guards = self._asks(in_background=pause is not None)
        if force:
            guards.reset()
        elif target is None and guards.is_exhausted(row.next_seq, window):
            return Ready(Compaction((), tokens, tokens, "exhausted"))
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
            factor=factor,
            most=self._most(model),
            wanted_elsewhere=pause or never,
            patient=pause is not None,
            whole=whole,
            on_event=self._intake.on_event,
        )
        return Job(flow, summarizer, guards, row, window, self._intake.on_event, lcm._note_writer)

    def _asks(self, *, in_background: bool = False) -> tuple[Summarizer, Guards]:
        from lossless.engine.shared.call_limits import Guards
        from lossless.summarizers.base import Unusable

        lcm = self._lcm
        try:
            summarizer = lcm._summarizer()
        except InvalidInput as error:
            if not in_background:
                raise
            # No user is there to fix the settings, and old messages must not be hidden until one is.
            summarizer = Unusable(str(error))
        return summarizer, Guards(self._store, lcm.settings, self.key, summarizer.name, lcm._clock)

    def _pay(self, debt: DebtRow, pause: Callable[[], bool]) -> Compaction:
        """Compact, if that is pending for a window; otherwise rewrite provisional summaries."""
        from lossless.engine.compaction.resummarize import resummarize

        row = self._row()
        if debt.window_tokens:
            observed = row.context_tokens + debt.overhead if row and debt.overhead else 0
            return self._compaction(debt.window_tokens, observed=observed, model=debt.model, pause=pause).run()
        lcm = self._lcm
        if row is None or self._closed_to or not lcm._tries():
            return Compaction((), 0, 0, self._closed_as() or "nothing to compact")
        summarizer, guards = self._asks()
        flow = resummarize(
            self._store,
            row,
            lcm.settings,
            templates=lcm._templates(),
            now=lcm._clock,
            wanted_elsewhere=pause,
            on_event=self._intake.on_event,
        )
        return Job(flow, summarizer, guards, row, 0, self._intake.on_event, lcm._note_writer).run()

    @runs
    def rewrite(
        self,
        summary: str | None = None,
        *,
        depth: int | None = None,
        all: bool = False,
        subtree: str | None = None,
        **how: Unpack[Rewriting],
    ) -> Rewrite:
        """Rewrite summaries with the current prompts and model: one, all of a depth, one with all below it, or all.

        The deepest sources come first, and summaries made from them see the new texts. By default it returns a plan with its cost;
        with `dry_run=True` a model is asked and nothing is written; with `apply=True` each text replaces the old one, which is
        kept. `model`, `prompt_dir`, `timestamps=False` and `timezone` change the request, of which up to four run at once;
        `started(applied)` and `progress(step)` are called on the way. If the model fails, what was written stays, and
        `Lossless.resume` continues.

        >>> chat.rewrite(summary).status
        'planned'
        """
        from lossless.client.surgery import rewrite_options
        from lossless.engine.surgery.select import Selection

        return self._rewrite("rewrite", Selection(summary, depth, all, subtree), rewrite_options(how))

    @runs
    def repair(self, kinds: Sequence[str] = FLAW_KINDS, **how: Unpack[Rewriting]) -> Rewrite:
        """Rewrite flawed summaries and the summaries made from them, with the options of `rewrite`.

        `kinds` are "empty", "provisional" (written without a model), "marked" (it says so itself, as in other systems),
        "truncated" and "unfaithful" (it contains claims not found in its sources).

        >>> chat.repair(["provisional"]).status
        'planned'
        """
        from lossless.client.surgery import rewrite_options
        from lossless.engine.surgery.flaws import known_kinds
        from lossless.engine.surgery.select import Selection

        return self._rewrite("repair", Selection(flawed=known_kinds(kinds)), rewrite_options(how))

    def _rewrite(
        self,
        kind: Literal["rewrite", "repair"],
        selection: Selection,
        how: RewriteOptions,
        row: ConversationRow | None = None,
    ) -> Rewrite:
        """Prepare the rewriting of summaries; where no model is to be asked, its result."""
        from lossless.client.surgery import prepare_rewrite

        if how.apply:
            self._refuse_if_closed()
        named = selection.summary or selection.subtree
        row = row or (self._row() if named is None else self._holding(named)[0])
        if row is None:
            raise NotFound("conversation", self.key, hint="A conversation is created by its first message.")
        return prepare_rewrite(self._lcm, row, kind, selection, how)

    def dissolve(self, id: str, *, apply: bool = False, purge: bool = False) -> Outcome:
        """Replace a condensed summary in the context with its sources.

        Without `apply` it returns the plan with its cost. The summary is kept beside the context; `purge` removes it, unless
        another was made from it. `Lossless.undo` reverts either.

        >>> plan = chat.dissolve(condensed).plan
        """
        from lossless.engine.surgery import dissolve as dissolving
        from lossless.model import Outcome

        row, summary = self._holding(id)
        if not apply:
            return Outcome(dissolving.plan(self._store, row, summary, purge=purge), "planned")
        self._refuse_if_closed()
        return dissolving.dissolve(self._store, row, summary, purge=purge, now=self._intake.now())

    def history(self, limit: int = 50, *, since: Time = None, until: Time = None) -> list[Operation]:
        """List the operations on old data of this conversation, newest first.

        Times are from `since` on and before `until`.

        >>> chat.history(limit=1)[0].kind
        'compact'
        """
        from lossless.engine.surgery import history as past

        times, now = self._lcm._times(since, until)
        first, last = times.bounds(now)
        row = self._row()
        return [] if row is None else past.history(self._store, self._family(), limit, since=first, before=last)

    def _holding(self, summary_id: str) -> tuple[ConversationRow, SummaryRow]:
        """Return a summary of this conversation, or of an earlier one under its key, and the conversation it belongs to."""
        found = self._store.summaries.named(summary_id) if jsontext.is_clean(summary_id) else None
        row = self._store.conversations.get(found[0]) if found and found[0] in self._family() else None
        if found is None or row is None:
            raise NotFound("summary", summary_id, hint="`lcm summaries list` lists those of a conversation.")
        return row, found[1]

    def summaries(self) -> list[Summary]:
        """Return every summary of this conversation, in the order they were written.

        >>> chat.summaries()[0].depth
        0
        """
        from lossless.engine.compaction.summarize import as_summary

        row = self._row()
        return [] if row is None else [as_summary(each) for each in self._store.summaries.read(row.id)]

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
        """Build the context for a model of that window: pins, summaries, then the newest messages.

        The result is valid for every provider. `reserve` is what the host keeps for its own prompt and the reply. `live` are the
        messages the host holds: those not stored yet come last, and all of them, bounded, serve when nothing stored can. `model` is
        the model that is asked: its earlier counts (`after_turn(usage=...)`) correct the budget. `guidance` ("short" or "full")
        adds a system message about the recall tools. Nothing is raised for lack of space: see `over_budget` and `left_out`.

        >>> context = chat.assemble(window=200_000)
        >>> context.over_budget
        False
        """
        from lossless.engine.compaction import plan
        from lossless.engine.context import rejections
        from lossless.engine.context.build import build_context, without_rejected
        from lossless.engine.context.live_messages import fit_live

        window, lcm = self._lcm._window(window), self._lcm
        _refuse_sizes(window)
        _refuse_foreign(live or ())
        limits = plan.limits(lcm.settings, window, key=self.key, model=model)
        most = limits.budget
        if most - reserve < 1:
            raise InvalidInput(f"reserve={reserve} leaves nothing of {most}.", hint="Reserve less.")
        space = most - reserve
        try:
            factor = self._factor(model)
            if factor != 1:
                space = max(1, int(space / factor))
                limits = plan.limits(lcm.settings, window, key=self.key, model=model, factor=factor)
            live = self._held_messages(live)
            row = None if self._hidden else self._row()
            if row is None:
                why = self._closed_to or "nothing is stored"
                taken = self._rejections() if live and not self._hidden else rejections.Rejections()
                held = without_rejected(live or (), taken, self._intake.canonicalize)
                self._shown = fit_live(held, space, why, prompt_follows=prompt_follows, caps=self._caps(model))
                return self._shown
            context, note = build_context(
                self._store,
                row,
                self._showing(row, limits, most, space, guidance, live, prompt_follows, model),
                self._intake.now,
            )
        except Exception as error:  # whatever failed on our side, a host that holds its messages gets a request
            if live is None:
                raise
            why = f"{type(error).__name__}: {error}"
            why = "the database does not answer" if isinstance(error, StoreError) else why
            facts = {"conversation": self.key, "error": type(error).__name__}
            self._intake.on_event(Event("assemble.live", str(error) or type(error).__name__, "error", facts))
            return fit_live(live, space, why, prompt_follows=prompt_follows, caps=self._caps(model))
        lcm._measured[self.key] = (model, context.tokens)
        self._watch_coverage(row, context, window, reserve, model)
        if not (self._store.read_only or self._closed_to):
            self._notes.append((row.id, note))
        if len(self._notes) >= _MOST_NOTES:
            with suppress(StoreError):  # they are written along with the next ingest
                self._remember()
        self._shown = context if model is None else structs.replace(context, model=model)
        return self._shown

    def report_rejection(self, error: object, *, request: Mapping[str, Any] | None = None) -> Rejection:
        """Leave what a provider refused (an error 400) out of the next requests; it stays stored.

        `error` is the SDK's exception, the body of the provider's answer, or its text. The part it names is looked up in the
        request that the exception carries, in `request` (what you sent), or in the last context of this object. If the error does
        not locate the thinking, picture or file that it refuses, all of that kind are left out.

        >>> done = chat.report_rejection("400 invalid_request_error: messages.0: image is too large")
        """
        from lossless.engine.context import rejections

        self._refuse_if_closed()
        complaint = rejections.parse_error(error, request)
        context = self._shown or self.assemble(self._last_window())
        found = rejections.locate(complaint, self._sent(context), context.messages)
        with self._store.transaction():
            known = self._rejections(hold=True)
            new = rejections.add_rejected(known, found)
            if new == known and found.located:
                # It is left out already and refused all the same: then the whole message is.
                found = structs.replace(
                    found, parts=tuple((name, "message") for name, _ in found.parts), kind="message"
                )
                new = rejections.add_rejected(known, found)
            changed = new != known
            if changed:
                self._store.state.set_guard(self._rejected, to_builtins(new), self._intake.now())
        done = rejections.report_rejection(found, changed=changed)
        self._intake.on_event(
            Event("context.rejected", done.text, "warning", {"conversation": self.key, "kind": done.kind})
        )
        return done

    @property
    def _rejected(self) -> str:
        return f"rejected:{self.key}"

    def _rejections(self, *, hold: bool = False) -> rejections.Rejections:
        from lossless.engine.context import rejections

        return rejections.decode_rejections(self._store.state.guard(self._rejected, hold=hold))

    def _last_model(self, row: ConversationRow) -> str | None:
        return self._store.figures.windows([row.id]).get(row.id, (0, None))[1]

    def _last_window(self) -> int | None:
        row = self._row()
        found = [] if row is None else self._store.manifests.read(row.id, until=None, turn=None, limit=1)
        return found[0].window_tokens if found else None

    def _sent(self, context: Context) -> list[rejections.SentMessage]:
        """Return the messages of a context: those not stored yet, then the stored ones."""
        from lossless.engine.context import rejections
        from lossless.engine.context.summary_xml import stands_for
        from lossless.engine.ingest.identity import digest

        items = [item for item in context.items if isinstance(item, StoredMessage)]
        known = {id(item.message) for item in items}
        live = [
            rejections.SentMessage("live message", digest(message, self._intake.canonicalize).hex(), (message,))
            for message in context.messages
            if id(message) not in known and message.role not in INSTRUCTIONS and stands_for(message) is None
        ]
        stored = [
            rejections.SentMessage(
                f"msg#{item.id}", item.digest.hex(), (item.message, self._whole(item.id // SPAN, item.message))
            )
            for item in items
        ]
        return list({each.digest: each for each in (*live, *stored)}.values())

    def _held_messages(self, live: Sequence[Message] | None) -> Sequence[Message] | None:
        """Return the messages a host holds, each once, less those it skips, as they will be stored."""
        from lossless.engine.context.live_messages import drop_repeated
        from lossless.engine.ingest.identity import same_event

        if live is None:
            return None
        messages = [message for message in live if not (self._intake.skip and self._intake.skip(message))]
        if self._intake.redact:
            # They are known by their stored form, and no prompt changes once they are stored.
            messages = [self._intake.cleaned(message) for message in messages]
        return drop_repeated(messages, same_event)

    def _watch_coverage(
        self, row: ConversationRow, context: Context, window: int, reserve: int, model: str | None
    ) -> None:
        """Report, once, that a request leaves out what no summary covers, and have it compacted in the background."""
        from lossless.engine.worker import IDLE

        waiting = self._lcm._uncovered
        if not context.uncovered:
            waiting.pop(self.key, None)
            self._lcm._dense.pop(self.key, None)
            return
        if self.key not in waiting:
            text = (
                f"{context.uncovered:,} tokens are neither shown to the model nor covered by a summary: "
                f"the context holds {row.context_tokens:,}, and {window - reserve:,} fit. Compaction is behind."
            )
            facts = {"conversation": self.key, "tokens": context.uncovered, "window": window}
            self._intake.on_event(Event("context.uncovered", text, "warning", facts))
        # Pins, guidance, live messages and the frames of summaries take space besides what the context holds.
        overhead = max(0, context.tokens + context.uncovered + reserve - row.context_tokens)
        if context.tokens + context.uncovered + reserve <= window / self._factor(model):
            # Not the tokens of these messages are too many for a request, but their bytes.
            self._lcm._dense[self.key] = context.tokens
        waiting[self.key] = overhead
        with suppress(StoreError):  # a request is not refused for it: the next one asks again
            if self._store.read_only or self._closed_to:
                return
            # A host that compacts within its turns does so after this one; any other may only ever assemble.
            deferred = self._lcm.settings.proactive_threshold_compaction_mode == "deferred"
            if deferred or self._store.debts.get(row.id) is not None:
                # In a moment: the host may be about to compact by itself.
                self._schedule(window, row.context_tokens + overhead, model, after=IDLE)

    def _showing(
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
            self._lcm.settings.zone,
            self._intake.canonicalize,
            partial(self._whole, row.id),
            partial(self._size, row.id),
            self._caps(model),
            guidance,
            live,
            prompt_follows,
            self._intake.session,
            self._rejections(),
        )

    def _caps(self, model: str | None) -> Caps:
        from lossless.formats.fit import caps

        settings = self._lcm.settings
        return caps(model, settings.max_request_bytes, settings.max_request_images)

    def _size(self, conversation_id: int, file_ids: Sequence[str]) -> int:
        found = (self._store.files.get(conversation_id, each) for each in file_ids)
        return sum(row.bytes for row in found if row is not None)

    def _remember(self) -> None:
        """Write the pending manifests. Usually the next ingest does it, so that a turn has one transaction."""
        row = self._row() if self._notes else None
        if row is not None:
            with self._noting() as in_transaction, self._store.transaction():
                in_transaction(self._store.conversations.hold(row.id))

    @contextmanager
    def _noting(self) -> Iterator[InTransaction]:
        """Yield a function that writes the pending manifests; after a failure they are kept for the next time."""
        from lossless.engine.context import load

        notes = self._notes[:]
        del self._notes[: len(notes)]

        def write(row: ConversationRow) -> None:
            # A manifest of a conversation that was archived meanwhile does not belong to the next one.
            if own := [note for conversation_id, note in notes if conversation_id == row.id]:
                self._store.manifests.add(row.id, own, load.KEPT)
            if self._parent:
                sessions.attach_to_parent(self._store, row, *self._parent)

        try:
            yield write
        except BaseException:
            self._notes[:0] = notes
            raise

    def context(self, at: datetime | str | int | None = None) -> Context:
        """Return the entire context, whatever its size; or the one shown at a past time, or at a turn's number.

        The last 1,000 assemblies are remembered. References stand for large content.

        >>> items = chat.context().items
        """
        from lossless.engine.context import load

        row = self._row()
        if row is None:
            return Context((), 0)
        zone = self._lcm.settings.zone
        if at is None:
            shown = load.entries(self._store, row.id, self._store.context.items(row.id), zone)
            tokens, reason = row.context_tokens, "stored"
        else:
            self._remember()
            turn = at if isinstance(at, int) else None
            then = None if isinstance(at, int) else read_time("at", at, zone, self._lcm._clock())
            until = None if then is None else micros(then)
            found = self._store.manifests.read(row.id, until=until, turn=turn, limit=1)
            if not found:
                raise NotFound("assembly", str(at), hint="Nothing was assembled then, or more than 1,000 turns ago.")
            shown, removed = load.manifest_entries(self._store, row.id, found[0], zone)
            tokens = found[0].tokens
            reason = f"turn {found[0].turn}, {moment(found[0].at).isoformat(timespec='seconds')}"
            if removed:
                reason += f"; {removed:,} summaries shown then were removed since"
        items = tuple(entry.item for entry in shown if entry.item is not None)
        return Context(items, tokens, tuple(entry.message for entry in shown), reason=reason)

    def explain(self, what: str | int, *, window: int | None = None, model: str | None = None) -> Explanation:
        """Explain why a message is, or is not, in the context: the message of that id, or the newest with that text.

        `model` is the model that is shown the context, by default the last one its host named: its earlier counts correct the
        budget, as in `assemble`.

        >>> chat.explain(message).state
        'summarised'
        """
        from lossless.engine.context.build import build_context
        from lossless.engine.context.explain import explain, note_duplicates

        row = self._row()
        meant, more = ([], False) if row is None else self._meant(row, what, limit=_MOST_ALIKE)
        if row is None or not meant:
            raise NotFound("message", str(what), hint="Give its id (msg#...), or words that stand in it.")
        window, model = self._lcm._window(window), model or self._last_model(row)
        limits = self._limits(window, model)
        how = self._showing(row, limits, window, limits.budget, model=model)
        found = explain(self._store, row, meant[0], build_context(self._store, row, how, self._intake.now)[0])
        if found is None:
            raise NotFound("message", str(what), hint="Give its id (msg#...), or words that stand in it.")
        return note_duplicates(found, len(meant), more)

    def _seq(self, row: ConversationRow, what: str | int) -> int | None:
        """Return the seq of the message that an id or a text refers to."""
        return next(iter(self._meant(row, what)[0]), None)

    def _meant(self, row: ConversationRow, what: str | int, limit: int = 1) -> tuple[list[int], bool]:
        """Return the seqs of the messages that an id or a text refers to, newest first, and whether there are more."""
        named = re.fullmatch(r"(?:msg#)?([0-9]{1,19})", str(what).strip())
        if named:
            conversation, seq = divmod(int(named[1]), SPAN)
            return [seq] if conversation == row.id and 0 < seq < row.next_seq else [], False
        words = str(what).strip()[:_MOST_WORDS]
        hits = Hits()
        if words:
            hits = self.grep(re.escape(words), scope="messages", limit=limit, ignore_case=False, include_recall=True)
        own = [hit.seq for hit in hits if hit.conversation == row.id and hit.seq is not None]
        return own, len(own) == limit and hits.next_cursor is not None

    def pin(self, what: str | int) -> Pin:
        """Show a model something in every request, before everything else: a message by its id, or a text of your own.

        It is shown word for word as the operator's own, in every session of this key, until `unpin`.

        >>> pin = chat.pin("Never push to main.")
        """
        from lossless.engine.context.summary_xml import as_pin

        self._refuse_if_closed()
        row = self._row() or next(iter(self._store.conversations.under_key(self.key)), None)
        if row is None or not str(what).strip():
            raise InvalidInput("There is nothing to pin.", hint="Give a text, or the id of a message (msg#...).")
        text, message_id = str(what), None
        if isinstance(what, int) or re.fullmatch(r"msg#[0-9]{1,19}", what.strip()):
            seq = self._seq(row, what)
            rows = self._store.messages.at(row.id, [seq]) if seq is not None else []
            if not rows:
                raise NotFound("message", str(what), hint="`grep` finds messages and their ids.")
            text, message_id = rows[0].text, row.id * SPAN + rows[0].seq
        text = jsontext.cleaned(text if self._lcm._redact is None else self._lcm._redact.text(text))
        name = f"pin_{sha256(text.encode()).hexdigest()[:8]}"
        pinned = PinRow(name, message_id, text, message_tokens(as_pin(name, text)), self._intake.now())
        with self._store.transaction():
            self._store.manifests.add_pin(row.id, pinned)
        return Pin(name, text, pinned.tokens, message_id)

    def unpin(self, pin_id: str) -> None:
        """Remove a pin, from every session of this key.

        >>> chat.unpin(chat.pin("Never push to main.").id)
        """
        self._refuse_if_closed()
        gone = False
        if jsontext.is_clean(str(pin_id)):
            with self._store.transaction():
                gone = self._store.manifests.remove_key_pin(self.key, str(pin_id))
        if not gone:
            raise NotFound("pin", str(pin_id), hint="`lcm pins` lists them.")

    def forget(
        self,
        what: str | int,
        *,
        until: str | int | None = None,
        apply: bool = False,
        backups: bool = False,
        unshared: bool = False,
    ) -> Forgotten:
        """Erase a message for good, or all from it up to `until`: its words, and everything derived from them.

        Without `apply` it returns the plan. Only the places of the messages stay, so that a host that sends them again does not
        bring them back. Summaries made from them are rewritten from what is left. It cannot be undone, and no snapshot is taken;
        `backups` also removes the copies of the database that were kept before it was changed, and the backups and archives beside
        it. Files in a directory that other databases may use stay, and `beyond` names them, unless `unshared` says that none does.

        >>> chat.forget(message).messages
        1
        """
        from lossless.engine.erase import forget as forgetting

        target = forgetting.span(self._store, self._family(), what, until)
        return self._lcm._forget([target], apply, backups, unshared)

    def pins(self) -> list[Pin]:
        """List the pins of every session of this key, oldest first.

        >>> chat.pins()
        []
        """
        return [
            Pin(each.id, each.text, each.tokens, each.message_id) for each in self._store.manifests.key_pins(self.key)
        ]

    def describe(
        self,
        id: str | int,
        *,
        start_line: int | None = None,
        end_line: int | None = None,
        offset: int | None = None,
        max_tokens: int | None = None,
    ) -> Description:
        """Describe a summary, a message (`msg#...` or its number) or a file; also a reference copied from a message.

        A summary comes with everything below it, and whether reading that fits into `max_tokens`. The text is shown from
        `start_line` (or from the byte `offset`) up to `end_line`: as much as `max_tokens` allows, and 32 KiB of a file. `page` says
        which part that is and where the next one starts. Only ids of this conversation, of an earlier one under the same key and
        of its sub-agents exist.

        >>> chat.describe(summary).kind
        'summary'
        """
        from lossless.engine.recall import describe as describing

        wanted = describing.PageRequest(start_line, end_line, offset, most_tokens=max_tokens)
        return describing.describe(self._reader(), id, wanted, cap=max_tokens)

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
        """Return the text below a summary, `depth` levels of sources, or the full text of a message.

        `max_tokens` (`max_expand_tokens` of the settings, for summaries) bounds the result. With the strategy "order", `next` is
        the cursor that continues where it stopped; "fit" skips what does not fit, and lists it with its cost.

        >>> [item.kind for item in chat.expand(message).items]
        ['message']
        """
        from lossless.engine.recall import expand as expanding

        return expanding.expand(
            self._reader(),
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
        all_conversations: bool = False,
    ) -> Inquiry:
        """Answer a question from the history: from the summaries in `ids`, or from what a search finds.

        `query` is searched for instead of the question; `token_cap` bounds what is read, `max_tokens` the answer. Every id it cites
        was read for it. Without a model the answer is empty, and the evidence contains the best passages. `error` and `error_code`
        report a failure.

        >>> chat.ask("Where is the deploy key?").answer  # without a model
        ''
        """
        if self._hidden:
            raise InvalidInput(f"{self._hidden}: there is no memory to ask.")
        return self._lcm._inquiry(
            question,
            ids=ids,
            query=query,
            max_tokens=max_tokens,
            token_cap=token_cap,
            scope=None if all_conversations else self._family(),
            origin=self.key,
            evidence_only=bool(self._closed_to),
        )

    def grant(
        self, *, max_tokens: int | None = None, seconds: float = GRANT_SECONDS, conversations: Sequence[str | int] = ()
    ) -> str:
        """Allow a sub-agent to read this conversation, its earlier ones and its sub-agents'; returns the id of the grant.

        `conversations` names others instead. It expires after some seconds, once `max_tokens` were read (`max_expand_tokens` of
        the settings), or with `revoke`. See `lossless.tools`.

        >>> grant = chat.grant(max_tokens=4_000, seconds=60)
        """
        from lossless.engine.recall import grants

        self._refuse_if_closed()
        given = grants.issue(
            self._store,
            [self._lcm._resolved(each).row.id for each in conversations] or self._family(),
            max_tokens=self._lcm.settings.max_expand_tokens if max_tokens is None else max_tokens,
            now=self._lcm._clock(),
            origin=self.key,
            seconds=seconds,
        )
        return given.id

    def revoke(self, grant_id: str) -> bool:
        """Revoke a grant; returns False if no grant has that id.

        >>> chat.revoke(chat.grant())
        True
        """
        from lossless.engine.recall import grants

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
        sort: Sort | None = None,
        cursor: str | None = None,
        file_ids: Sequence[str] | None = None,
        ignore_case: bool | None = None,
        include_recall: bool = False,
        seconds: float = GREP_SECONDS,
    ) -> Hits:
        """Search everything ever said here, or in an earlier conversation under the same key.

        "regex" matches a pattern (RE2, in linear time) against every text, newest first, and misses none; "full_text" finds what
        answers a question as typed, "semantic" (with `lossless[semantic]`) also other wordings of it. `scope` is "messages",
        "summaries", "both" or "files" (entire files, only `file_ids` if given, ten lines of each at most). Words are ordered by
        relevance unless `sort` is "recency" or "hybrid". `limit` (1 to 200) bounds the hits, `total` counts all matches. Times are
        from `since` on and before `before`. A pattern in lower case ignores case, unless `ignore_case` says otherwise. The agent's
        own lookups are left out, unless `include_recall`. After `seconds` it ends with `complete` False; `next_cursor` continues.

        >>> [hit.id for hit in chat.grep("question 7")][:1]
        ['msg#1000000015']
        """
        from lossless.engine.recall.search_request import parse_request

        asked = parse_request(
            pattern,
            zone=self._lcm.settings.zone,
            now=self._lcm._clock(),
            mode=mode,
            scope=scope,
            since=since,
            before=before,
            limit=limit,
            sort=sort,
            file_ids=file_ids,
            include_recall=include_recall,
            ignore_case=ignore_case,
        )
        return self._lcm._grep(self._family(), asked, cursor, seconds)

    def _reader(self) -> Reader:
        return self._lcm._reader(self._family())

    @property
    def files(self) -> ConversationFiles:
        """The large contents of this conversation: `files()` lists them; also `show`, `read` and `lines`."""
        from lossless.client.files import ConversationFiles

        return ConversationFiles(self)

    def status(self) -> ConversationStatus:
        """Return the size and the times of this conversation.

        >>> chat.status().active
        True
        """
        return conversation_status(self._known())

    def _known(self) -> ConversationRow:
        row = self._row()
        if row is None:
            raise NotFound("conversation", self.key, hint="A conversation is created by its first message.")
        return row

    def _exact(self, conversation_id: int, row: MessageRow) -> StoredMessage:
        """Return a message as it was delivered, with its large content restored."""
        stored = _stored(conversation_id, row)
        message = self._whole(conversation_id, stored.message)
        return stored if message is stored.message else _stored(conversation_id, row, message)

    def _whole(self, conversation_id: int, message: Message, chosen: Sequence[int] | None = None) -> Message:
        """Return a message with its large content restored: all of it, or the chosen pieces."""
        from lossless.engine.ingest import large_content

        def read(file_id: str) -> bytes:
            found = self._store.files.get(conversation_id, file_id)
            if found is None:
                raise FileUnavailable(f"{file_id} has no row.")
            return self._files.read_all(found.sha256)

        try:
            return (
                large_content.restore(message, read)
                if chosen is None
                else large_content.restore_pieces(message, read, chosen)
            )
        except FileUnavailable as error:
            # One lost payload must not make the history unreadable: the reference stays, and an event reports it.
            self._intake.on_event(Event("file.unavailable", str(error), "error", {"conversation": self.key}))
            return message


def _covers(debt: DebtRow, window: int, overhead: int, model: str | None) -> bool:
    """Return whether pending work covers this turn. Work that has begun may not have seen it."""
    same = (debt.window_tokens, debt.model) == (window, model) and debt.overhead >= overhead
    return debt.pending and debt.worker is None and same


def _refuse_sizes(window: int, *, target: int | None = None, observed: int = 0) -> None:
    if window < 1 or (target is not None and target < 1):
        raise InvalidInput(f"window={window}, target={target}: both are numbers of tokens.", hint="Give 1 or more.")
    if observed < 0:
        raise InvalidInput(f"observed={observed} is not a number of tokens.", hint="Give 0 if it is not known.")


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


def conversation_status(row: ConversationRow) -> ConversationStatus:
    from lossless.model import ConversationStatus

    return ConversationStatus(
        row.id, row.key, row.active, row.messages, row.context_tokens, moment(row.created_at), moment(row.updated_at)
    )


def _hidden(settings: Settings, key: str) -> str:
    """Return the reason for which a conversation is neither written nor shown, or an empty text."""
    if not settings.enabled:
        return "LCM_ENABLED is false"
    if any_match(settings.ignore_session_patterns, key):
        return f"{key} matches ignore_session_patterns"
    return ""


def _stateless(settings: Settings, key: str) -> str:
    """Return the reason for which a conversation is not written, or an empty text."""
    if settings.skip_stateless_sessions and any_match(settings.stateless_session_patterns, key):
        return f"{key} matches stateless_session_patterns"
    return ""


def _parent(key: str, parent: Conversation | str | None) -> tuple[str, str | None] | None:
    """Return the key and the session of the conversation that started this one."""
    if parent is None:
        return None
    found = (parent.key, parent._intake.session) if isinstance(parent, Conversation) else (checked("key", parent), None)
    if found[0] == key:
        raise InvalidInput(f"{key} cannot be its own sub-agent.", hint="Give the sub-agent a key of its own.")
    return found


def checked_path(path: object) -> Path:
    """Return a path, its home directory filled in; `InvalidInput` for what cannot be one."""
    try:
        found = Path(path).expanduser()  # type: ignore[arg-type]  # what is no path is refused below
        if b"\0" in os.fsencode(found):
            raise ValueError("it contains a NUL")
    except (TypeError, ValueError, RuntimeError) as error:
        raise InvalidInput(
            f"{repr(path)[:200]} is not a path: {error}.", hint="Give the path of a file or a directory."
        ) from error
    return found


def checked(what: str, value: object) -> str:
    most = _MOST_BYTES[what]
    if not isinstance(value, str) or not value.strip() or not jsontext.is_clean(value) or len(value.encode()) > most:
        shown = repr(value)[:80]
        raise InvalidInput(
            f"{shown} cannot be the {what}.",
            hint=f"Give a text of 1 to {most} bytes without NUL or lone surrogates.",
        )
    return value
