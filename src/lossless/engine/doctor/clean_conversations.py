"""Remove leftover conversations: select them by rules, export them, then delete all their data."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from pathlib import Path

from msgspec import Struct

from lossless.engine.erase.prune import RemovalOptions, export_and_remove
from lossless.engine.shared.runtime import Runtime
from lossless.errors import InvalidInput
from lossless.model import Cleaning, Junk
from lossless.store.rows.types import ConversationRow
from lossless.store.store import Store

_EXAMPLES = 3
_PREVIEW = 120


class Rule(Struct, frozen=True):
    """The properties of a leftover conversation; all that are given must match."""

    name: str
    key: str
    """A regular expression that matches the whole key."""
    archived: bool = False
    """True if only archived conversations match."""
    begins: str = ""
    """The beginning of its first message."""


RULES = {
    rule.name: rule
    for rule in (
        Rule(name="archived_subagents", key=r"agent:[^:]+:subagent:.+", archived=True),
        Rule(name="cron_sessions", key=r"agent:[^:]+:cron:.+"),
        Rule(name="null_subagent_context", key=r"(?!agent:).*", archived=True, begins="[Subagent Context]"),
    )
}


def matching_conversations(store: Store, rule: Rule, rows: Iterable[ConversationRow]) -> list[ConversationRow]:
    """Return the conversations that match a rule, largest first."""
    found = [
        row
        for row in rows
        if re.fullmatch(rule.key, row.key, re.S)
        and not (rule.archived and (row.active or row.archived_at is None))
        and (not rule.begins or _first_text(store, row).startswith(rule.begins))
    ]
    return sorted(found, key=lambda row: (-row.messages, row.id))


def _first_text(store: Store, row: ConversationRow) -> str:
    return next((message.text for message in store.messages.read(row.id, limit=1)), "")


def select_rules(name: str | None) -> list[Rule]:
    """Return the rule of that name; all for None."""
    if name is not None and name not in RULES:
        raise InvalidInput(f"There is no rule {name}.", hint=f"The rules are {', '.join(RULES)}.")
    return [rule for rule in RULES.values() if name in (None, rule.name)]


def plan(store: Store, name: str | None) -> Cleaning:
    """Return the conversations that would be removed; write nothing."""
    rows = store.conversations.of_owner()
    matches = {rule.name: matching_conversations(store, rule, rows) for rule in select_rules(name)}
    distinct = {row.id: row for rows in matches.values() for row in rows}
    return Cleaning(
        tuple(_junk(store, rule, rows) for rule, rows in matches.items()),
        len(distinct),
        sum(row.messages for row in distinct.values()),
    )


def _junk(store: Store, rule: str, rows: Sequence[ConversationRow]) -> Junk:
    examples = tuple(
        f"{row.key}: {' '.join(_first_text(store, row)[:256].split())[:_PREVIEW]}" for row in rows[:_EXAMPLES]
    )
    return Junk(rule=rule, conversations=len(rows), messages=sum(row.messages for row in rows), examples=examples)


def apply(runtime: Runtime, name: str | None, archive: Path, *, without_files: bool = False) -> Cleaning:
    """Export the conversations, then remove those that have not changed meanwhile."""
    store = runtime.store
    planned = plan(store, name)
    if not planned.conversations:
        return planned
    rows = store.conversations.of_owner()
    selected = {row.id: row for rule in select_rules(name) for row in matching_conversations(store, rule, rows)}
    removal = export_and_remove(runtime, list(selected.values()), archive, RemovalOptions(without_files=without_files))
    return Cleaning(
        junk=planned.junk,
        conversations=len(removal.rows),
        messages=sum(row.messages for row in removal.rows),
        applied=True,
        archive=str(archive),
        files=len(removal.strays),
        changed=len(selected) - len(removal.rows),
        doubtful=removal.doubtful,
    )
