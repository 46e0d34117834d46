"""Rebuild the requests of Hermes with a bounded context, and shorten its own list when it asks for that."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from lossless.client import Conversation
from lossless.client.host_access import HostAccess
from lossless.errors import LosslessError
from lossless.hosts.hermes.history import Record
from lossless.hosts.hermes.memory import Memory, Session
from lossless.hosts.hermes.splice import Spliced, splice
from lossless.hosts.hermes.wires import CHAT, WIRES, Item, Wire, instructions, newest, size, without_ours
from lossless.model import Context

_WINDOW = 128_000
_REPLY = 4_096
_MOST_BESIDE = 0.6
"""The share of a window that instructions, tools and unsaved messages can take from the context."""
_OWN_SHARE = 0.75
"""The share of a window for Hermes's own messages, when ours are not to be had."""


def rewrite(memory: Memory, session: Session, api_mode: str, request: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return a request with our context in place of its old messages; None if it stays as it is."""
    wire = WIRES.get(api_mode)
    items = wire.items(request) if wire else None
    if wire is None or items is None:
        memory.say(
            f"api {api_mode}",
            f"requests of the kind {api_mode!r} are not rebuilt: Hermes sends its own list, and compress() shortens it.",
        )
        session.is_assembled = False
        return None
    beside = sum(size(request.get(key)) for key in ("system", "instructions", "tools"))
    try:
        with session.lock:
            spliced = _assembled(memory, session, wire, items, beside + _reply(request, session.window))
        session.is_assembled = True
    except Exception as error:  # noqa: BLE001 - whatever failed on our side, the host's request goes out, bounded
        memory.failed("llm_request", error)
        session.is_assembled = False
        own = _bounded(session, items, beside)
        return None if own is None else {**request, wire.key: own}
    return None if spliced.items == items else {**request, wire.key: spliced.items}


def shorten(memory: Memory, session: Session, messages: list[Record], *, force: bool) -> list[Record]:
    """Return a list for Hermes to continue with: summaries, then its newest messages."""
    window = session.window or _WINDOW
    try:
        with session.lock:
            memory.deliver(session, messages, is_final=False)
            chat = memory.chat(session)
            chat.compact(window, observed=size(messages), model=session.model, force=force)
            context = chat.assemble(window, reserve=window // 4, prompt_follows=True, model=session.model)
            items = without_ours(messages, HostAccess(chat).is_ours)
            spliced = _spliced(chat, CHAT, items, 0, context)
        shorter = _led([_fresh(each) for each in spliced.items])
    except Exception as error:  # noqa: BLE001 - the host has asked because its list does not fit: it gets a shorter one
        memory.failed("compress", error)
        shorter = [_fresh(each) for each in newest(messages, window // 2)]
    return shorter if size(shorter) < size(messages) else messages


def _assembled(memory: Memory, session: Session, wire: Wire, items: list[Item], beside: int) -> Spliced:
    chat, window = memory.chat(session), session.window or None
    items = without_ours(items, HostAccess(chat).is_ours)
    start = instructions(items, session.first)
    beside += size(items[:start])
    most = int((window or _WINDOW) * _MOST_BESIDE)
    reserve, spliced = min(beside, most), None
    for attempt in range(3):
        context = chat.assemble(window, reserve=reserve, prompt_follows=True, model=session.model)
        spliced = _spliced(chat, wire, items, start, context)
        unsaved = size(items[spliced.unsaved :])
        session.shown = context.tokens, beside + unsaved
        if attempt == 0 and unsaved and reserve < min(beside + unsaved, most):
            reserve = min(beside + unsaved, most)
        elif context.uncovered and attempt < 2:
            observed = context.tokens + context.uncovered + reserve
            chat.compact(window, observed=observed, model=session.model)
        else:
            break
    assert spliced is not None
    if not spliced.matched and beside + unsaved > _OWN_SHARE * (window or _WINDOW):
        raise LosslessError("No stored message was found in a request that is too long.")
    return spliced


def _spliced(chat: Conversation, wire: Wire, items: list[Item], start: int, context: Context) -> Spliced:
    return splice(wire, items, start, context, HostAccess(chat).whole)


def _bounded(session: Session, items: list[Item], beside: int) -> list[Item] | None:
    """Return the newest of Hermes's own messages; None if all of them fit."""
    start = instructions(items, session.first)
    space = int((session.window or _WINDOW) * _OWN_SHARE) - beside - size(items[:start])
    if size(items[start:]) <= space:
        return None
    return [*items[:start], *newest(items[start:], max(space, 1))]


def _reply(request: Mapping[str, Any], window: int) -> int:
    """Return the tokens to leave for the reply."""
    names = ("max_tokens", "max_completion_tokens", "max_output_tokens")
    asked = next((request[name] for name in names if isinstance(request.get(name), int)), _REPLY)
    return min(asked, (window or _WINDOW) // 4)


def _led(records: list[Record]) -> list[Record]:
    """Return a list in which the summaries at the start are one message: Hermes joins them otherwise."""
    end = next((at for at, each in enumerate(records) if not str(each.get("content")).startswith("<")), len(records))
    texts = [each["content"] for each in records[:end] if each.get("role") == "user"]
    if len(texts) < 2 or len(texts) < end or not all(isinstance(each, str) for each in texts):
        return records
    return [{"role": "user", "content": "\n".join(texts)}, *records[end:]]


def _fresh(record: Record) -> Record:
    """Return a copy without the mark that Hermes has written the message to its own database."""
    return {key: value for key, value in record.items() if key != "_db_persisted"}
