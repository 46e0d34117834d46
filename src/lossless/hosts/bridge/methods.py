"""The methods that a host can call over the bridge: each is a verb of `Lossless` or `Conversation`."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from hashlib import sha256
from itertools import takewhile
from types import ModuleType
from typing import Any, Final

import msgspec
from msgspec import structs

from lossless import Conversation, Lossless
from lossless.client.host_access import HostAccess
from lossless.engine.shared.defaults import GRANT_SECONDS
from lossless.errors import InvalidInput, StoreError
from lossless.formats import anthropic, openai_chat, openai_responses, openclaw
from lossless.hosts.bridge import params
from lossless.hosts.bridge.chat_command import run_command
from lossless.hosts.bridge.resent_messages import ResentMessages
from lossless.hosts.bridge.rpc import Request
from lossless.model import INSTRUCTIONS, Compaction, Ingested, Message
from lossless.tools import tools

FORMATS: Final[Mapping[str, ModuleType]] = {
    "openclaw": openclaw,
    "anthropic": anthropic,
    "openai_chat": openai_chat,
    "openai_responses": openai_responses,
}

Method = Callable[["Methods", Request, Any], dict[str, Any]]


class Methods:
    """The methods on one open database."""

    def __init__(self, lcm: Lossless, format: str, lending: set[str | int]) -> None:
        self._lcm = lcm
        self._format = FORMATS[format]
        self._lending = lending
        self._windows: dict[str, int] = {}
        """By key: the window of the last request. Hosts name it when they assemble, and not always later."""
        self._resent = ResentMessages(openclaw.load) if self._format is openclaw else None

    def _chat(self, named: params.Named) -> Conversation:
        return self._lcm.conversation(named.key, named.session, parent=named.parent)

    def _load(self, messages: Sequence[Mapping[str, Any]], ids: Sequence[str | None] = ()) -> list[Message]:
        loaded: list[Message] = self._format.load(list(messages))
        if not ids:
            return loaded
        if len(ids) != len(loaded):
            raise InvalidInput(f"{len(ids)} ids for {len(loaded)} messages.", hint="Give one id, or null, for each.")
        return [
            message if name is None else structs.replace(message, event_id=name)
            for message, name in zip(loaded, ids, strict=True)
        ]

    @contextmanager
    def _lent(self, request: Request, lends: bool) -> Iterator[None]:
        """Use the host's model for what this request needs a model for."""
        if lends:
            self._lending.add(request.id)
        try:
            yield
        finally:
            self._lending.discard(request.id)

    def _window(self, chat: Conversation, given: int | None) -> int | None:
        if given is not None and given > 0:
            self._windows[chat.key] = given
            return given
        return self._windows.get(chat.key) or HostAccess(chat).last_window()

    # storing

    def ingest(self, request: Request, given: params.Ingest) -> dict[str, Any]:
        """Store messages."""
        return _stored(self._chat(given.conversation).ingest(self._load(given.messages, given.ids), whole=given.whole))

    def commit_turn(self, request: Request, given: params.CommitTurn) -> dict[str, Any]:
        """Store a turn once, however often its advancement key comes.

        The key is part of the event ids, which are written with the messages: there is no moment at which one is stored and
        the other is not.
        """
        chat = self._chat(given.conversation)
        turn = sha256(given.advancement_key.encode("utf-8", "surrogatepass")).hexdigest()[:32]
        ids = given.ids or (None,) * len(given.messages)
        names = [f"turn:{turn}:{place}" if name is None else name for place, name in enumerate(ids)]
        done = chat.after_turn(
            self._load(given.messages, names),
            self._window(chat, given.window),
            observed=given.observed,
            model=given.model,
        )
        is_repeated = not done.stored and done.known > 0
        return {"status": "duplicate" if is_repeated else "committed", **_stored(done)}

    def bootstrap(self, request: Request, given: params.Bootstrap) -> dict[str, Any]:
        """Store a page of the host's own record, and the position after it. Without entries: return the position."""
        ids = [entry.id for entry in given.entries]
        messages = self._load([entry.message for entry in given.entries], ids)
        access = HostAccess(self._chat(given.conversation))
        done = access.take_history(messages, given.record, given.cursor)
        return {**_stored(done), "cursor": given.record and access.history_position(given.record)}

    def transcript(self, request: Request, given: params.Transcript) -> dict[str, Any]:
        """Store what is new in the file of the host's session, and follow its active branch."""
        done = self._chat(given.conversation).bootstrap(given.path)
        return {"stored": done.imported, "known": done.known, "reason": done.reason}

    # showing

    def assemble(self, request: Request, given: params.Assemble) -> dict[str, Any]:
        """Build what the model is shown."""
        chat = self._chat(given.conversation)
        context = chat.assemble(
            self._window(chat, given.window),
            reserve=given.reserve,
            live=self._live(chat, given.messages, given.ids),
            prompt_follows=given.prompt_follows,
            guidance=given.guidance,
            model=given.model,
        )
        leading = list(takewhile(lambda message: message.role in INSTRUCTIONS, context.messages))
        shown = structs.replace(context, messages=context.messages[len(leading) :])
        written: dict[str, Any] = self._format.dump(shown)
        return {
            "messages": written.get("messages", written.get("input", [])),
            "system": "\n\n".join(message.text for message in leading),
            "tokens": context.tokens,
            "overBudget": context.over_budget,
            "uncovered": context.uncovered,
            "reason": context.reason,
        }

    def _live(
        self, chat: Conversation, messages: Sequence[Mapping[str, Any]], ids: Sequence[str | None]
    ) -> list[Message]:
        """Return the messages that the host holds, with the ids it names, else those of what it delivered."""
        if ids:
            return self._load(messages, ids)
        live = self._resent.read(chat.key, messages) if self._resent else self._load(messages)
        try:
            return HostAccess(chat).name_known(live)
        except StoreError:
            return live  # they are what is shown if the database does not answer

    # summarising

    def compact(self, request: Request, given: params.Compact) -> dict[str, Any]:
        """Compact a conversation now."""
        chat = self._chat(given.conversation)
        with self._lent(request, given.lends):
            done = chat.compact(
                self._window(chat, given.window),
                force=given.force,
                target=given.target,
                observed=given.observed,
                model=given.model,
            )
        return _compacted(done)

    def maintain(self, request: Request, given: params.Maintain) -> dict[str, Any]:
        """Do pending work: summaries that are due, those to be written again, missing vectors."""
        worker, steps, until = self._lcm.worker(), 0, time.monotonic() + given.seconds
        with self._lent(request, given.lends):
            while time.monotonic() < until and (worker.step(idle=0) or worker.embed(idle=0)):
                request.check()
                steps += 1
        return {"steps": steps}

    # sessions

    def new(self, request: Request, given: params.New) -> dict[str, Any]:
        """Empty the context, as `/new` does."""
        done = self._chat(given.conversation).new(given.retain_depth)
        return {"detached": len(done.detached), "tokensBefore": done.tokens_before, "tokensAfter": done.tokens_after}

    def reset(self, request: Request, given: params.About) -> dict[str, Any]:
        """Archive the conversation, as `/reset` does."""
        return {"archived": self._chat(given.conversation).reset()}

    def end(self, request: Request, given: params.End) -> dict[str, Any]:
        """End the host's session."""
        return {"archived": self._chat(given.conversation).end(given.reason)}

    def start_subagent(self, request: Request, given: params.StartSubagent) -> dict[str, Any]:
        """Allow a sub-agent to read its parent's conversation."""
        if given.child.key == given.conversation.key:
            raise InvalidInput(f"{given.child.key} cannot be its own sub-agent.")
        seconds = GRANT_SECONDS if given.seconds is None else given.seconds
        return {"grant": self._chat(given.conversation).grant(seconds=seconds)}

    def end_subagent(self, request: Request, given: params.EndSubagent) -> dict[str, Any]:
        """Revoke the grant of a sub-agent, and archive its conversation if its session was deleted."""
        chat = self._chat(given.child)
        revoked = given.grant is not None and chat.revoke(given.grant)
        archived = given.reason == "deleted" and chat.end("deleted")
        return {"revoked": revoked, "archived": archived}

    # asking

    def call_tool(self, request: Request, given: params.CallTool) -> dict[str, Any]:
        """Call one of the lcm_* tools."""
        kit = tools(self._chat(given.conversation), given.grant)
        with self._lent(request, given.lends):
            outcome = kit.call(given.name, given.arguments)
        return {"text": outcome.text, "details": outcome.details, "isError": outcome.is_error}

    def run_command(self, request: Request, given: params.RunCommand) -> dict[str, Any]:
        """Answer `/lcm` in a chat."""
        chat = self._chat(given.conversation)
        with self._lent(request, given.lends):
            return {"text": run_command(self._lcm, chat, given.text, self._window(chat, given.window))}

    def status(self, request: Request, given: params.GetStatus) -> dict[str, Any]:
        """Report the state of the database."""
        chat = None if given.conversation is None else self._chat(given.conversation)
        named = chat.key if chat is not None and HostAccess(chat).has_messages else None
        found: dict[str, Any] = msgspec.to_builtins(self._lcm.status(named))
        return found


METHODS: Final[Mapping[str, tuple[type[params.Params], Method]]] = {
    "ingest": (params.Ingest, Methods.ingest),
    "commitTurn": (params.CommitTurn, Methods.commit_turn),
    "bootstrap": (params.Bootstrap, Methods.bootstrap),
    "transcript": (params.Transcript, Methods.transcript),
    "assemble": (params.Assemble, Methods.assemble),
    "compact": (params.Compact, Methods.compact),
    "maintain": (params.Maintain, Methods.maintain),
    "new": (params.New, Methods.new),
    "reset": (params.About, Methods.reset),
    "end": (params.End, Methods.end),
    "subagent/start": (params.StartSubagent, Methods.start_subagent),
    "subagent/end": (params.EndSubagent, Methods.end_subagent),
    "tool/call": (params.CallTool, Methods.call_tool),
    "command/run": (params.RunCommand, Methods.run_command),
    "status": (params.GetStatus, Methods.status),
}
"""The methods by name, each with the type of its parameters; `initialize` and `shutdown` are the bridge's own."""


def _stored(done: Ingested) -> dict[str, Any]:
    return {"stored": len(done.stored), "known": done.known, "skipped": done.skipped}


def _compacted(done: Compaction) -> dict[str, Any]:
    return {
        "compacted": bool(done.summaries),
        "summaries": list(done.summaries),
        "tokensBefore": done.tokens_before,
        "tokensAfter": done.tokens_after,
        "stop": done.stop,
        "withoutModel": done.without_model,
    }
