"""The lcm_* tools: an agent calls them to search, inspect and recall its history.

    from lossless.tools import tools

    kit = tools(chat)                         # three tools; with a grant, lcm_expand for lcm_expand_query
    kit = tools(chat, focus=True)             # also lcm_focus, which writes
    kit.schemas("anthropic")                  # or "openai", "mcp"
    kit.call("lcm_grep", {"pattern": "Where is the deploy key?"}).text

A call never raises for what an agent got wrong: it gets JSON with `error` and a `hint` instead. Old text comes back marked as
untrusted, and escaped, so that it cannot pass for anything else.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from msgspec import structs

from lossless.client import Conversation
from lossless.engine.recall import reader as reading
from lossless.engine.recall.describe import PageRequest, describe
from lossless.engine.recall.expand import expand
from lossless.engine.recall.grants import Charge, Delegate
from lossless.engine.recall.reader import Reader
from lossless.engine.recall.routing import route
from lossless.engine.recall.search_request import parse_request
from lossless.engine.shared.defaults import GREP_SECONDS
from lossless.errors import GrantRefused, InvalidInput, LosslessError, NotFound, StoreError
from lossless.model import Expansion
from lossless.summarizers.reply_text import well_formed
from lossless.tokens import estimate
from lossless.tools import outcomes
from lossless.tools.arguments import (
    TOOLS,
    Arguments,
    Describe,
    Expand,
    ExpandQuery,
    Focus,
    Grep,
    Style,
    converted,
    offered,
    schema,
)
from lossless.tools.outcomes import ToolOutcome

if TYPE_CHECKING:
    from lossless.aio import AsyncConversation
    from lossless.summarizers.base import Cancellation

__all__ = ["ToolOutcome", "Tools", "tools"]

_FILE_BYTES = (1_024, 512_000)
_MOST_FOUND = 50
_AROUND = 2
"""The number of messages that are shown before and after a hit."""


def tools(chat: Conversation | AsyncConversation, grant: str | None = None, *, focus: bool = False) -> Tools:
    """Return the tools of a conversation. With a `grant` they are a delegate's: bounded by it and metered.

    `focus` adds lcm_focus, with which an agent chooses the brief in its own context; a delegate never has it.
    """
    return Tools(chat if isinstance(chat, Conversation) else chat._sync, grant, focus=focus)


class Tools:
    """A set of tools for one conversation."""

    def __init__(self, chat: Conversation, grant: str | None = None, *, focus: bool = False) -> None:
        self._chat, self._lcm, self._store = chat, chat._lcm, chat._store
        self._delegate = None if grant is None else Delegate(chat._store, grant, chat._lcm._clock)
        self._blocked: set[str] = set()
        self.names = offered(delegate=self._delegate is not None, focus=focus)
        """The tools on offer."""

    def schemas(self, style: Style) -> list[dict[str, Any]]:
        """Return the tools as a provider's API or an MCP client takes them."""
        if style not in ("openai", "anthropic", "mcp"):
            raise InvalidInput(f"{style!r} is not a style of schemas.", hint='Give "openai", "anthropic" or "mcp".')
        return [schema(style, name) for name in self.names]

    def call(
        self,
        name: str,
        arguments: Mapping[str, Any] | str | None = None,
        *,
        progress: Callable[[int], None] | None = None,
        cancellation: Cancellation | None = None,
    ) -> ToolOutcome:
        """Call a tool with the arguments that an agent sent, as a mapping or as JSON text.

        lcm_expand_query calls `progress` with the number of each request to a model, and `cancellation` ends it: then it
        raises `Cancelled`.
        """
        verbs: dict[str, Callable[[Any], ToolOutcome]] = {
            "lcm_grep": self._grep,
            "lcm_describe": self._describe,
            "lcm_expand_query": partial(self._expand_query, progress=progress, cancellation=cancellation),
            "lcm_expand": self._expand,
            "lcm_focus": self._focus,
        }
        try:
            if self._chat._hidden:
                raise InvalidInput(f"{self._chat._hidden}: there is no memory to search.")
            if name not in self.names and not (self._delegate and name == "lcm_expand_query"):
                raise _unknown(name, self.names)
            outcome = verbs[name](converted(TOOLS[name], arguments))
        except StoreError:
            raise
        except LosslessError as error:
            outcome = outcomes.refusal(error)
        # No provider takes what stored text may hold: NUL and lone surrogates.
        return structs.replace(outcome, text=well_formed(outcome.text))

    async def acall(self, name: str, arguments: Mapping[str, Any] | str | None = None) -> ToolOutcome:
        """As `call`, on a worker thread: the event loop does not wait for it."""
        from anyio import to_thread

        return await to_thread.run_sync(self.call, name, arguments, abandon_on_cancel=True)

    def _reader(self, arguments: Arguments) -> Reader:
        return self._lcm._reader(self._scope(arguments))

    def _scope(self, arguments: Arguments) -> tuple[int, ...]:
        if self._delegate:
            return self._delegate.scope(arguments.conversation_id)
        if arguments.conversation_id is not None:
            return reading.only(self._store, arguments.conversation_id)
        if arguments.all_conversations:
            return reading.everything(self._store)
        scope = self._chat._family()
        if not scope:
            raise NotFound(
                "conversation", f"under {self._chat.key} yet", hint="Pass conversationId, or allConversations: true."
            )
        return scope

    def _ledger(self, asked: str) -> str:
        """Return the beginning of a question, as a ledger keeps it."""
        redact = self._lcm._redact
        return (asked if redact is None else redact.text(asked))[:80]

    def _metered(self, verb: str, what: str, work: Callable[[int | None], ToolOutcome]) -> ToolOutcome:
        """Return the outcome in at most the tokens that a grant has left, if there is one."""
        if self._delegate is None:
            return work(None)

        def reading(most: int) -> tuple[ToolOutcome, list[Charge]]:
            outcome = work(most)
            outcome = structs.replace(outcome, text=outcomes.cut(outcome.text, most))
            return outcome, [Charge(what, estimate(outcome.text))]

        return self._delegate.read(verb, None, reading)

    # grep

    def _grep(self, arguments: Grep) -> ToolOutcome:
        scope = self._scope(arguments)
        what = f"grep {self._ledger(arguments.pattern)}"
        return self._metered("lcm_grep", what, lambda most: self._found(arguments, scope, most))

    def _found(self, arguments: Grep, scope: tuple[int, ...], most: int | None) -> ToolOutcome:
        asked = parse_request(
            arguments.pattern,
            zone=self._lcm.settings.zone,
            mode=arguments.mode or "regex",
            or_words="unmatched" if arguments.mode else "asked",
            around=_AROUND,
            scope=arguments.scope,
            since=arguments.since,
            before=arguments.before,
            limit=arguments.limit,
            sort=arguments.sort,
            file_ids=arguments.file_ids or None,
            include_recall=arguments.include_recall,
            ignore_case=arguments.ignore_case,
        )
        hits = self._lcm._grep(scope, asked, arguments.cursor, GREP_SECONDS)
        where = self._where(arguments, scope)
        count = outcomes.hits_that_fit(arguments, where, hits, most)
        kept = hits[:count]
        if 0 < count < len(hits):  # the cursor must continue after the last hit shown
            hits = self._lcm._grep(scope, structs.replace(asked, limit=count), arguments.cursor, GREP_SECONDS)
        return outcomes.found(arguments, where, kept, hits)

    def _where(self, arguments: Grep, scope: tuple[int, ...]) -> str:
        if self._delegate:
            return f"granted: {', '.join(map(str, scope))}"
        if arguments.conversation_id is not None:
            return f"conversation {scope[0]}"
        if arguments.all_conversations:
            return "all conversations"
        return f"session family rooted at {scope[0]} ({len(scope)} segments)"

    # describe

    def _describe(self, arguments: Describe) -> ToolOutcome:
        reader = self._reader(arguments)
        least, most = _FILE_BYTES
        size = min(max(arguments.expand_file_max_bytes, least), most)
        cap, source = self._cap(arguments.token_cap)

        def described(most: int | None) -> ToolOutcome:
            request = PageRequest(
                arguments.start_line,
                arguments.end_line,
                arguments.offset,
                most_bytes=size,
                most_tokens=arguments.token_cap,
                most_characters=outcomes.MOST_CHARACTERS,
                all_tokens=most,
            )
            found = describe(reader, arguments.id, request, cap=cap, inline=arguments.expand_file)
            return outcomes.described(found, source)

        return self._metered("lcm_describe", self._ledger(arguments.id), described)

    def _cap(self, asked: int | None) -> tuple[int, str]:
        if self._delegate:
            left = self._delegate.remaining()
            return (min(asked, left), "request") if asked else (left, "delegated_grant_remaining")
        return (asked, "request") if asked else (self._lcm.settings.max_expand_tokens, "config_default")

    # expand, under a grant only

    def _expand(self, arguments: Expand) -> ToolOutcome:
        assert self._delegate is not None
        reader = self._reader(arguments)
        ids, messages = list(dict.fromkeys(arguments.summary_ids)), arguments.include_messages
        if arguments.query:
            found = reader.store.search_summaries(arguments.query, conversation_ids=reader.scope, limit=_MOST_FOUND)
            rows = [
                row for each in found for row in reader.store.summaries.read(each.conversation_id, [each.summary_id])
            ]
            ids, messages = [row.public_id for row in rows], False
        elif not ids:
            raise InvalidInput("Neither summaryIds nor query was given.", hint="Give one of them.")
        depth = min(max(1, arguments.max_depth), self._delegate.grant().max_depth)

        def expanded(most: int) -> tuple[Expansion, list[Charge]]:
            done = expand(
                reader,
                ids,
                max_tokens=most,
                depth=depth,
                include_messages=messages,
                strategy=arguments.strategy,
                cursor=arguments.cursor,
            )
            if done.tokens > most:
                raise GrantRefused(
                    "Too little is left of this grant's budget to read on.", hint="Answer from what was read."
                )
            return done, [Charge(item.id, item.tokens) for item in done.items]

        measured = sum(_cost(reader, each, messages) for each in ids)
        cap = self._cap(arguments.token_cap)[0]
        done = self._delegate.read("lcm_expand", cap, expanded)
        policy = route(
            "explicit_expand",
            len(ids),
            cap=max(1, cap),
            query=arguments.query or "",
            depth=depth,
            messages=messages,
            measured=measured,
        )
        return outcomes.expanded(ids, done, policy)

    # expand_query

    def _expand_query(
        self, arguments: ExpandQuery, *, progress: Callable[[int], None] | None, cancellation: Cancellation | None
    ) -> ToolOutcome:
        if not arguments.prompt:
            raise InvalidInput("The prompt is empty.", hint="Ask a question.")
        if self._delegate:
            return self._recursion(self._delegate)
        everywhere = arguments.all_conversations and arguments.conversation_id is None
        inquiry = self._lcm._inquiry(
            arguments.prompt,
            ids=tuple(dict.fromkeys(arguments.summary_ids)),
            query=arguments.query or None,
            max_tokens=arguments.max_tokens,
            token_cap=arguments.token_cap,
            timeout_ms=arguments.timeout_ms,
            scope=None if everywhere else self._scope(arguments),
            origin=self._chat.key,
            evidence_only=bool(self._chat._closed_to),
        )
        return outcomes.answered(inquiry.run(progress=progress, cancellation=cancellation))

    def _recursion(self, delegate: Delegate) -> ToolOutcome:
        """Refuse a question from a reader who works on a question."""
        grant = delegate.grant()
        reason = "idempotent_reentry" if grant.request_id in self._blocked else "depth_cap"
        self._blocked.add(grant.request_id)
        return outcomes.in_json(
            {
                "errorCode": "EXPANSION_RECURSION_BLOCKED",
                "error": "lcm_expand_query cannot be called while answering one. Use lcm_expand; what it does not reach, "
                "leave to the conversation that asked.",
                "requestId": grant.request_id,
                "expansionDepth": 1,
                "originSessionKey": grant.origin,
                "reason": reason,
            }
        )

    # focus

    def _focus(self, arguments: Focus) -> ToolOutcome:
        action = arguments.action
        if action == "clear":
            return outcomes.in_json({"cleared": self._chat.unfocus()})
        if action == "show":
            return outcomes.briefed(self._chat.focused())
        if action == "refresh":
            found = self._chat.focus(name=arguments.name, tokens=arguments.max_tokens, refresh=True)
        else:
            found = self._chat.focus(arguments.task, name=arguments.name, tokens=arguments.max_tokens)
        return outcomes.briefed(found)


def _unknown(name: str, names: Sequence[str]) -> LosslessError:
    if name == "lcm_expand":
        return InvalidInput(
            "lcm_expand is for delegates that were given a grant.",
            hint="Use lcm_expand_query, or lcm_grep and lcm_describe.",
        )
    if name == "lcm_focus":
        return InvalidInput("lcm_focus is not offered here.", hint=f"There are {', '.join(names)}.")
    return InvalidInput(f"There is no tool {name[:80]!r}.", hint=f"There are {', '.join(names)}.")


def _cost(reader: Reader, id: str, messages: bool) -> int:
    branches = describe(reader, id).branches
    return (branches[0].cost_with_messages if messages else branches[0].cost) if branches else 0
