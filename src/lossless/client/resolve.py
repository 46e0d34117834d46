"""Find the conversation that a caller names: by its key, its number (12 or "#12"), or the beginning of its key.

Every verb that takes a conversation, in the library and on the command line, finds it here. An exact key comes first, so
a key that looks like a number stays reachable; then numbers; then the one key that begins with the name.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from msgspec import Struct

from lossless.errors import InvalidInput, NotFound
from lossless.store import jsontext

if TYPE_CHECKING:
    from lossless.engine.ingest.secrets import Redactor
    from lossless.store.rows.types import ConversationRow
    from lossless.store.store import Store

_NUMBER = re.compile(r"#?([0-9]{1,18})", re.ASCII)
_LISTED = 5
_LIST = "`lcm conversations list --all` lists them."


class Resolved(Struct, frozen=True):
    """A stored conversation, and how it was named."""

    row: ConversationRow
    """The conversation with the number; under a key the active one, else the newest."""
    by_number: bool

    def rows(self, store: Store) -> list[ConversationRow]:
        """Return every conversation that the name covers: all under a key, or the one with the number."""
        return [self.row] if self.by_number else list(store.conversations.under_key(self.row.key))


def stored_key(store: Store, key: str, redact: Redactor | None) -> str:
    """Return a key as it is stored: without secrets, unless it was stored before redaction was switched on."""
    hidden = key if redact is None else redact.identifier(key)
    return key if hidden == key or store.conversations.under_key(key) else hidden


def resolve(store: Store, name: str | int, redact: Redactor | None = None, *, active: bool = False) -> Resolved:
    """Return the conversation that a name refers to.

    With `active` a key must have an active conversation; an archived one is then named by its number. `InvalidInput`
    lists the candidates of an ambiguous prefix, and `NotFound` names the nearest key.
    """
    if isinstance(name, bool) or not isinstance(name, str | int):
        raise InvalidInput(
            f"{repr(name)[:80]} does not name a conversation.", hint='Give a key, or a number: 12 or "#12".'
        )
    found = _by_number(store, name) if isinstance(name, int) else _by_text(store, name, redact)
    if found is None:
        raise _unknown(store, name)
    if active and not found.row.active and not found.by_number:
        raise NotFound(
            "active conversation", found.row.key, hint=f"Its newest archived one is #{found.row.id}: name it so."
        )
    return found


def _by_text(store: Store, name: str, redact: Redactor | None) -> Resolved | None:
    if not jsontext.is_clean(name) or not name:
        return None
    row = next(iter(store.conversations.under_key(stored_key(store, name, redact))), None)
    if row is not None:
        return Resolved(row, by_number=False)
    number = _NUMBER.fullmatch(name.strip())
    found = _by_number(store, int(number[1])) if number else None
    return found or _by_prefix(store, name)


def _by_number(store: Store, number: int) -> Resolved | None:
    row = store.conversations.get(number) if 0 < number < 2**63 else None
    return None if row is None else Resolved(row, by_number=True)


def _by_prefix(store: Store, prefix: str) -> Resolved | None:
    keys = list(dict.fromkeys(row.key for row in store.conversations.of_owner() if row.key.startswith(prefix)))
    if len(keys) > 1:
        listed = ", ".join(keys[:_LISTED]) + (f" and {len(keys) - _LISTED:,} more" if len(keys) > _LISTED else "")
        raise InvalidInput(f"{prefix!r} is ambiguous: it begins {len(keys):,} keys.", hint=f"Give one of {listed}.")
    return Resolved(store.conversations.under_key(keys[0])[0], by_number=False) if keys else None


def _unknown(store: Store, name: str | int) -> NotFound:
    from lossless.engine.inspect.suggestions import nearest

    close = nearest(store, "conversation", name).names
    hint = f"Did you mean {' or '.join(close)}?" if close else "A conversation is created by its first message."
    return NotFound("conversation", name, hint=f"{hint} {_LIST}")
