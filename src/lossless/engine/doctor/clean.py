"""Whole conversations that nobody needs: found by rules, exported, then removed with all that belongs to them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from pathlib import Path

from msgspec import Struct

from lossless.engine.erase.prune import RemovalOptions, take_out
from lossless.engine.shared.runtime import Runtime
from lossless.errors import InvalidInput
from lossless.model import Cleaning, Junk
from lossless.store.base import ConversationRow, Store

_EXAMPLES = 3
_PREVIEW = 120


class Rule(Struct, frozen=True):
    """What makes a conversation junk: all that is given has to be true of it."""

    name: str
    holds: str
    key: str
    """A regular expression for the whole key."""
    archived: bool = False
    """Only if it is archived."""
    begins: str = ""
    """How its first message begins."""


RULES = {
    rule.name: rule
    for rule in (
        Rule("archived_subagents", "archived, of a sub-agent", r"agent:[^:]+:subagent:.+", archived=True),
        Rule("cron_sessions", "of a scheduled job, also the latest run", r"agent:[^:]+:cron:.+"),
        Rule(
            "null_subagent_context",
            "archived, under no agent's key, and begun as a sub-agent",
            r"(?!agent:).*",
            archived=True,
            begins="[Subagent Context]",
        ),
    )
}


def junk(store: Store, rule: Rule, rows: Iterable[ConversationRow]) -> list[ConversationRow]:
    """Those of these conversations that a rule is true of, the largest first."""
    found = [
        row
        for row in rows
        if re.fullmatch(rule.key, row.key, re.S)
        and not (rule.archived and (row.active or row.archived_at is None))
        and (not rule.begins or _opening(store, row).startswith(rule.begins))
    ]
    return sorted(found, key=lambda row: (-row.messages, row.id))


def _opening(store: Store, row: ConversationRow) -> str:
    return next((message.text for message in store.messages(row.id, limit=1)), "")


def chosen(name: str | None) -> list[Rule]:
    if name is not None and name not in RULES:
        raise InvalidInput(f"There is no rule {name}.", hint=f"There are {', '.join(RULES)}.")
    return [rule for rule in RULES.values() if name in (None, rule.name)]


def plan(store: Store, name: str | None) -> Cleaning:
    """What would be removed; nothing is written."""
    rows = store.conversations()
    found = {rule.name: junk(store, rule, rows) for rule in chosen(name)}
    distinct = {row.id: row for rows in found.values() for row in rows}
    return Cleaning(
        tuple(_told(store, rule, rows) for rule, rows in found.items()),
        len(distinct),
        sum(row.messages for row in distinct.values()),
    )


def _told(store: Store, name: str, rows: Sequence[ConversationRow]) -> Junk:
    examples = tuple(
        f"{row.key}: {' '.join(_opening(store, row)[:256].split())[:_PREVIEW]}" for row in rows[:_EXAMPLES]
    )
    return Junk(name, len(rows), sum(row.messages for row in rows), examples)


def apply(runtime: Runtime, name: str | None, archive: Path, *, without_files: bool = False) -> Cleaning:
    """Export them, then remove them. What was written to meanwhile stays."""
    store, told = runtime.store, plan(runtime.store, name)
    if not told.conversations:
        return told
    wanted = {row.id: row for rule in chosen(name) for row in junk(store, rule, store.conversations())}
    done = take_out(runtime, list(wanted.values()), archive, RemovalOptions(without_files=without_files))
    return Cleaning(
        told.junk,
        len(done.rows),
        sum(row.messages for row in done.rows),
        True,
        str(archive),
        len(done.strays),
        len(wanted) - len(done.rows),
        done.doubtful,
    )
