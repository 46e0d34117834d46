"""The verbs of one conversation."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Unpack

from lossless.client.arguments import checked, checks_arguments, hidden, stateless
from lossless.client.model_work import Compacting, Focusing, Inquiry, runs
from lossless.engine import sessions
from lossless.engine.shared.defaults import FLAW_KINDS, GRANT_SECONDS, GREP_SECONDS
from lossless.errors import InvalidInput, NotFound
from lossless.events import Event
from lossless.model import Context, Hits, Message, Pin, StoredMessage
from lossless.store import jsontext
from lossless.store.rows.codec import moment
from lossless.times import Time

if TYPE_CHECKING:
    from lossless.client.assembler import Assembler
    from lossless.client.compactor import Compactor
    from lossless.client.delivery import Delivery
    from lossless.client.files import ConversationFiles
    from lossless.client.focus import Focus
    from lossless.client.lossless import Lossless
    from lossless.client.surgery import Rewrite, RewriteOptions, Rewriting
    from lossless.engine.context.build import Guidance
    from lossless.engine.ingest.intake import Skip
    from lossless.engine.ingest.message_digest import Canonicalize
    from lossless.engine.recall import expand as expanding
    from lossless.engine.recall.reader import Reader
    from lossless.engine.recall.search_request import Mode, Scope, Sort
    from lossless.engine.surgery.select import Selection
    from lossless.model import (
        Bootstrapped,
        Brief,
        ConversationStatus,
        Cue,
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
    from lossless.store.rows.types import ConversationRow, SummaryRow
    from lossless.store.store import Store

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
        from lossless.client.file_describer import explorer
        from lossless.engine.ingest.intake import Intake
        from lossless.engine.ingest.message_digest import without_tags

        settings = lcm.settings
        self.key = key
        self._lcm = lcm
        self._files = lcm._files
        self._hidden = hidden(settings, key)
        self._closed_to = self._hidden or stateless(settings, key)
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

    @property
    def _store(self) -> Store:
        return self._lcm._store  # another one, if the file was replaced and opened again

    @property
    def _delivery(self) -> Delivery:
        from lossless.client.delivery import Delivery

        return Delivery(self)

    @property
    def _compactor(self) -> Compactor:
        from lossless.client.compactor import Compactor

        return Compactor(self)

    @property
    def _assembler(self) -> Assembler:
        from lossless.client.assembler import Assembler

        return Assembler(self)

    @property
    def _focus(self) -> Focus:
        from lossless.client.focus import Focus

        return Focus(self)

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
        self._delivery.catch_up()
        self._assembler.remember()
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
        self._delivery.catch_up()
        self._assembler.remember()
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
        self._delivery.catch_up()
        self._assembler.remember()
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
        return self._delivery.take(messages, whole=whole)

    def bootstrap(self, path: str | Path, format: str | None = None) -> Bootstrapped:
        """Read what is new in a host's transcript: OpenClaw or pi, Claude Code, Codex, or a file of plain messages.

        Call it as often as you like: an unchanged file is not opened, and one that grew is read from its old end. Messages that
        the host delivers itself are recognised. `format` names the kind of file where its content does not.

        >>> chat.bootstrap("session.jsonl").reason
        'transcript missing'
        """
        return self._delivery.bootstrap(path, format)

    def _closed_as(self) -> Literal["", "disabled", "ignored session", "stateless session"]:
        """Return the name of the setting that keeps the conversation from being written; empty if none does."""
        if not self._closed_to:
            return ""
        if not self._lcm.settings.enabled:
            return "disabled"
        return "ignored session" if self._hidden else "stateless session"

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
        return [
            self._assembler.exact(row.id, each) for each in self._store.messages.read(row.id, after=after, limit=limit)
        ]

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
        return self._compactor.after_turn(messages, window, observed=observed, model=model, usage=usage)

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
        return self._compactor.compaction(
            window, force=force, target=target, observed=observed, model=model, whole=whole
        )

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
        from lossless.engine.surgery import undo as past

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
        return self._assembler.assemble(
            window, reserve=reserve, live=live, prompt_follows=prompt_follows, guidance=guidance, model=model
        )

    def report_rejection(self, error: object, *, request: Mapping[str, Any] | None = None) -> Rejection:
        """Leave what a provider refused (an error 400) out of the next requests; it stays stored.

        `error` is the SDK's exception, the body of the provider's answer, or its text. The part it names is looked up in the
        request that the exception carries, in `request` (what you sent), or in the last context of this object. If the error does
        not locate the thinking, picture or file that it refuses, all of that kind are left out.

        >>> done = chat.report_rejection("400 invalid_request_error: messages.0: image is too large")
        """
        return self._assembler.report_rejection(error, request=request)

    def context(self, at: datetime | str | int | None = None) -> Context:
        """Return the entire context, whatever its size; or the one shown at a past time, or at a turn's number.

        The last 1,000 assemblies are remembered. References stand for large content.

        >>> items = chat.context().items
        """
        return self._assembler.context(at)

    def explain(self, what: str | int, *, window: int | None = None, model: str | None = None) -> Explanation:
        """Explain why a message is, or is not, in the context: the message of that id, or the newest with that text.

        `model` is the model that is shown the context, by default the last one its host named: its earlier counts correct the
        budget, as in `assemble`.

        >>> chat.explain(message).state
        'summarised'
        """
        return self._assembler.explain(what, window=window, model=model)

    def pin(self, what: str | int) -> Pin:
        """Show a model something in every request, before everything else: a message by its id, or a text of your own.

        It is shown word for word as the operator's own, in every session of this key, until `unpin`.

        >>> pin = chat.pin("Never push to main.")
        """
        return self._assembler.pin(what)

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

    @runs
    def focus(
        self,
        task: str | None = None,
        *,
        name: str | None = None,
        tokens: int | None = None,
        refresh: bool = False,
    ) -> Focusing:
        """Show a model what matters for a task, found in the entire history, until `unfocus`.

        The brief follows the summaries in every request. A model writes it, and only statements that their sources support stay;
        without a model it contains the best passages, word for word. `tokens` (500 to 12,000) is its size, by default a tenth of
        the history's. A brief with a `name` is kept beside others: `focus(name=...)` shows it again. `refresh` rewrites the active
        or the named one if anything was stored or changed since; otherwise it stays as it is.

        >>> chat.focus("Find the deploy key.").model  # without a model: quotations
        'extractive'
        """
        return self._focus.prepare(task, name=name, tokens=tokens, refresh=refresh)

    def unfocus(self) -> bool:
        """Stop showing the brief to models; returns False if none was shown. It is kept: see `briefs`.

        >>> chat.unfocus()
        False
        """
        return self._focus.stop()

    def focused(self) -> Brief | None:
        """Return the brief that is shown to models, and whether it is stale; None if there is none.

        >>> chat.focused() is None
        True
        """
        return self._focus.active()

    def briefs(self) -> list[Brief]:
        """List the briefs of this key, the newest first; at most one is active.

        >>> chat.briefs()
        []
        """
        return self._focus.all()

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
        around: int = 0,
        seconds: float = GREP_SECONDS,
    ) -> Hits:
        """Search everything ever said here, or in an earlier conversation under the same key.

        "regex" matches a pattern (RE2, in linear time) against every text, newest first, and misses none; "full_text" finds what
        answers a question as typed, "semantic" (with `lossless[semantic]`) also other wordings of it. `scope` is "messages",
        "summaries", "both" or "files" (entire files, only `file_ids` if given, ten lines of each at most). Words are ordered by
        relevance unless `sort` is "recency" or "hybrid". `limit` (1 to 200) bounds the hits, `total` counts all matches. Times are
        from `since` on and before `before`. A pattern in lower case ignores case, unless `ignore_case` says otherwise. The agent's
        own lookups are left out, unless `include_recall`. Messages that words find carry `around` messages before and after them.
        After `seconds` it ends with `complete` False; `next_cursor` continues.

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
            around=around,
        )
        return self._lcm._grep(self._family(), asked, cursor, seconds)

    def cue(self, prompt: str, max_tokens: int = 600) -> Cue:
        """Return excerpts of the history that a new prompt may be about, for a host that shows them to its model.

        It is empty when nothing is near enough. The newest messages (`fresh_tail_count`) are left out: the model sees them.

        >>> bool(chat.cue("What is the weather like?"))
        False
        """
        from lossless.engine.recall.prompt_cue import find_cue
        from lossless.model import Cue

        if self._hidden or not prompt.strip():
            return Cue("", 0)
        if max_tokens < 1:
            raise InvalidInput(f"max_tokens={max_tokens} is too little.", hint="Give 1 or more.")
        row = self._row()
        visible = {} if row is None else {row.id: row.messages - self._lcm.settings.fresh_tail_count + 1}
        now = int(self._lcm._clock() * 1_000_000)
        return find_cue(self._reader(), prompt, budget=max_tokens, visible=visible, now=now)

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


def conversation_status(row: ConversationRow) -> ConversationStatus:
    from lossless.model import ConversationStatus

    return ConversationStatus(
        row.id, row.key, row.active, row.messages, row.context_tokens, moment(row.created_at), moment(row.updated_at)
    )


def _parent(key: str, parent: Conversation | str | None) -> tuple[str, str | None] | None:
    """Return the key and the session of the conversation that started this one."""
    if parent is None:
        return None
    found = (parent.key, parent._intake.session) if isinstance(parent, Conversation) else (checked("key", parent), None)
    if found[0] == key:
        raise InvalidInput(f"{key} cannot be its own sub-agent.", hint="Give the sub-agent a key of its own.")
    return found
