"""Show a conversation or its context as text: every old word escaped, inside a block marked as untrusted."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from xml.sax.saxutils import escape, quoteattr

from lossless import Lossless
from lossless.engine.context.summary_xml import stands_for
from lossless.errors import NotFound
from lossless.mcp.requests import NOTICE
from lossless.model import ListedConversation, Message, StoredMessage, Summary

WINDOW = 16_000
"""Tokens of a context shown as text."""
_MOST_CHARACTERS = 40_000
_MOST_MESSAGES = 100


def conversation(lcm: Lossless, name: str | int) -> str:
    """Return the facts about a conversation and its newest messages, as many as fit."""
    about = lcm.conversations.show(name).conversation
    kept, left = list[str](), _MOST_CHARACTERS
    for each in lcm.messages(name, include_content=True, limit=_MOST_MESSAGES):
        block = _block(each.role, each.content or each.preview, each.id, each.at)
        left -= len(block)
        if left < 0 and kept:
            break
        kept.insert(0, block if left >= 0 else f"{block[:_MOST_CHARACTERS]}\n[Truncated]\n</message>")
    return "\n".join([NOTICE, *_facts(about, len(kept)), '<history trust="untrusted">', *kept, "</history>"])


def _facts(about: ListedConversation, count: int) -> Iterator[str]:
    yield f"Conversation {about.id}: {escape(about.key)}"
    if about.directory:
        yield f"Directory: {escape(about.directory)}"
    yield f"Messages: {about.messages:,}, of which the newest {count:,} follow"
    yield f"Summaries: {about.summaries:,}; lcm_grep and lcm_describe reach everything else"


def context(lcm: Lossless, name: str | int, window: int = WINDOW) -> str:
    """Return the context of a conversation as a model of that window would be shown it."""
    row = lcm._resolved(name).row
    if not row.active:
        raise NotFound("active conversation", row.key, hint="An archived one has no context.")
    found = lcm.conversation(row.key)._assembler.preview(window)
    stored = {id(item.message): item for item in found.items if isinstance(item, StoredMessage)}
    summaries = {item.id for item in found.items if isinstance(item, Summary)}
    blocks = [_shown(message, stored.get(id(message)), summaries) for message in found.messages]
    head = f"Context of conversation {row.id}: {escape(row.key)}, {len(summaries):,} summaries, {found.tokens:,} tokens"
    return "\n".join([NOTICE, head, '<context trust="untrusted">', *blocks, "</context>"])


def _shown(message: Message, stored: StoredMessage | None, summaries: set[str]) -> str:
    """Return one message of a context. A summary is XML of our own, with its text escaped, and stays as it is."""
    if stored is not None:
        return _block(stored.role, stored.text, f"msg#{stored.id}", stored.at)
    return message.text if stands_for(message) in summaries else _block(message.role, message.text)


def _block(role: str, text: str, id: str = "", at: datetime | None = None) -> str:
    named = f" id={quoteattr(id)}" if id else ""
    when = f' at="{at.isoformat(timespec="seconds")}"' if at else ""
    return f"<message{named} role={quoteattr(role)}{when}>\n{escape(text)}\n</message>"
