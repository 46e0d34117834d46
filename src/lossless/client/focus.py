"""The briefs of a conversation: written, shown, taken away, listed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import structs

from lossless.client.model_work import Briefing, Focusing, Ready
from lossless.errors import InvalidInput, NotFound
from lossless.ids import brief_id
from lossless.model import Brief
from lossless.store import jsontext
from lossless.store.rows.codec import moment
from lossless.tokens import estimate

if TYPE_CHECKING:
    from lossless.client.conversation import Conversation
    from lossless.engine.recall.brief import WrittenBrief
    from lossless.store.rows.types import BriefRow, ConversationRow

_MOST_TASK = 400
"""Tokens of a task: it is searched for, and shown with its brief."""
_MOST_NAME = 80
_NONE = "`lcm focus TASK` writes one; `lcm focus --list` lists those that are kept."


class Focus:
    """The briefs of one conversation."""

    def __init__(self, chat: Conversation) -> None:
        self._chat, self._store = chat, chat._store

    def prepare(self, task: str | None, *, name: str | None, tokens: int | None, refresh: bool) -> Focusing:
        """Prepare a brief; see `Conversation.focus`."""
        from lossless.engine.recall.brief import LEAST, MOST

        self._chat._refuse_if_closed()
        if tokens is not None and not LEAST <= tokens <= MOST:
            raise InvalidInput(f"tokens={tokens} is not the size of a brief.", hint=f"Give {LEAST} to {MOST:,}.")
        named = None if name is None else self._checked("name", name, _MOST_NAME)
        if task is not None:
            if refresh:
                raise InvalidInput("A new task has nothing to refresh.", hint="Give a task, or refresh=True.")
            return self._write(self._checked("task", task, _MOST_TASK), named or "", tokens)
        known = self._known(named, refresh)
        return self._refreshed(known, tokens) if refresh else self._shown(known)

    def stop(self) -> bool:
        """Take the brief away; see `Conversation.unfocus`."""
        self._chat._refuse_if_closed()
        with self._store.transaction():
            self._store.hold_key(self._chat.key)
            return self._store.briefs.activate(self._chat.key, None) > 0

    def active(self) -> Brief | None:
        """Return the active brief; see `Conversation.focused`."""
        brief = self._active_row()
        return None if brief is None else self._described(brief)

    def all(self) -> list[Brief]:
        """List the briefs; see `Conversation.briefs`."""
        return [self._described(each) for each in self._store.briefs.under_key(self._chat.key)]

    def _active_row(self) -> BriefRow | None:
        from lossless.engine.context.load import active_brief

        row = self._chat._row()
        return None if row is None else active_brief(self._store, row)

    def _known(self, name: str | None, refresh: bool) -> BriefRow:
        """Return the brief of a name, or the active one."""
        if name is None and not refresh:
            raise InvalidInput("There is neither a task nor a name.", hint="Say what the task is.")
        wanted = None if name is None else brief_id(self._chat.key, name)
        found = [each for each in self._store.briefs.under_key(self._chat.key) if each.id == wanted]
        brief = self._active_row() if name is None else next(iter(found), None)
        if brief is None:
            raise NotFound("brief", "that is active" if name is None else repr(name), hint=_NONE)
        return brief

    def _checked(self, what: str, text: str, most: int) -> str:
        redact = self._chat._lcm._redact
        cleaned = jsontext.cleaned(text if redact is None else redact.text(text)).strip()
        if not cleaned or estimate(cleaned) > most:
            raise InvalidInput(f"{text[:80]!r} cannot be the {what}.", hint=f"Give a text of 1 to {most} tokens.")
        return cleaned

    def _write(self, task: str, name: str, tokens: int | None) -> Focusing:
        from lossless.engine.recall import brief as briefing
        from lossless.engine.shared.call_limits import Guards

        chat, lcm = self._chat, self._chat._lcm
        row = chat._row()
        if row is None:
            raise NotFound("history", f"under {chat.key} yet", hint="A conversation is created by its first message.")
        model, redact = lcm._models.expander(), lcm._redact
        request = briefing.FocusRequest(
            key=chat.key,
            row=row,
            task=task,
            name=name,
            size=tokens,
            with_model=model.name != "extractive",
            now=lcm._clock,
            clean=(lambda text: text) if redact is None else redact.text,
        )
        guards = Guards(self._store, lcm.settings, f"ask:{chat.key}", model.name, lcm._clock)
        return Briefing(briefing.focus(chat._reader(), request), model, guards, self._written)

    def _shown(self, brief: BriefRow) -> Focusing:
        """Show a brief that is kept."""
        with self._store.transaction():
            self._store.hold_key(self._chat.key)
            self._store.briefs.activate(self._chat.key, brief.id)
        return Ready(self._described(structs.replace(brief, active=True)))

    def _refreshed(self, brief: BriefRow, tokens: int | None) -> Focusing:
        """Rewrite a brief unless it is current: its bytes stay the same as long as nothing changed."""
        found = self._described(brief)
        is_provisional = brief.model == "extractive" and self._chat._lcm._models.expander().name != "extractive"
        if found.new_messages or found.stale or is_provisional or tokens not in (None, brief.size):
            return self._write(brief.task, brief.name, tokens or brief.size)
        return Ready(found) if brief.active else self._shown(brief)

    def _written(self, done: WrittenBrief) -> Brief:
        return structs.replace(self._described(done.row), dropped=done.dropped, problem=done.problem)

    def _described(self, brief: BriefRow) -> Brief:
        from lossless.engine.recall.brief import are_current, hidden_since, listed_sources

        row: ConversationRow | None = self._chat._row()
        new, hidden = (0, 0) if row is None else hidden_since(self._store, row, self._chat._family(), brief)
        sources = listed_sources(brief)
        return described(brief, new, bool(hidden) or not are_current(self._store, sources))


def described(brief: BriefRow, new_messages: int = 0, stale: bool = False) -> Brief:
    """Return a brief's row as the public value."""
    from lossless.engine.context.load import brief_texts
    from lossless.engine.context.summary_xml import as_brief
    from lossless.engine.recall.brief import listed_sources

    shown = as_brief(*brief_texts(brief), 1 << 30)
    return Brief(
        id=brief.id,
        task=brief.task,
        text=brief.text,
        tokens=shown[1] if shown else 0,
        sources=tuple(each[0] for each in listed_sources(brief)),
        model=brief.model,
        created_at=moment(brief.created_at),
        name=brief.name,
        active=brief.active,
        new_messages=new_messages,
        stale=stale,
    )
