"""Recognize the messages that a host which sends its whole list each time has sent before."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from lossless.engine.ingest.without_ids import continues, new_part
from lossless.engine.sessions import begun_after
from lossless.store.rows.types import ConversationRow
from lossless.store.store import Store

DIGEST_BYTES = 8
"""Bytes of each digest that the cursor remembers."""
_WHOLE = "whole"


def find_resent(
    store: Store, conversation: ConversationRow, session: str | None, digests: Sequence[bytes], named: set[int]
) -> tuple[set[int], dict[str, Any]]:
    """Return the messages (by index) that a host which always sends everything has sent before, and the new cursor.

    The cursor remembers its last delivery, so that only messages stored since then are read. If that explains little, as when
    the host sent something short in between, everything its list may hold is compared once: what was said since the last /new,
    or all if the host kept its list then. Stored messages that the delivery names by event id (`named`, by seq) are left out.
    """
    digests = [each[:DIGEST_BYTES] for each in digests]
    cursor = _read_cursor(store, conversation, session)
    last, since = _last_digests(cursor), cursor["seq"]
    start = _list_start(store, conversation, cursor, digests)
    if since <= start:  # what was delivered before a /new is not in the host's list any more
        last, since = [], start
    new = set(new_part([*last, *_stored_since(store, conversation, since, named)], digests))
    if 2 * len(new) > len(digests) and since > start:
        new = min(new, set(new_part(_stored_since(store, conversation, start, named), digests)), key=len)
    return set(range(len(digests))) - new, {"sent": b"".join(digests).hex(), "from": start}


def list_start(
    store: Store, conversation: ConversationRow, session: str | None, digests: Callable[[], Sequence[bytes]]
) -> int:
    """Return the seq after which the host's own list starts: 0, or the last message before a /new."""
    if not begun_after(store, conversation):
        return 0
    shortened = [each[:DIGEST_BYTES] for each in digests()]
    return _list_start(store, conversation, _read_cursor(store, conversation, session), shortened)


def _list_start(store: Store, conversation: ConversationRow, cursor: dict[str, Any], digests: Sequence[bytes]) -> int:
    begun = begun_after(store, conversation)
    if cursor["seq"] > begun:
        return int(cursor.get("from", begun))
    if begun and not _kept_list(store, conversation, _last_digests(cursor), digests):
        return begun
    return int(cursor.get("from", 0))


def _kept_list(store: Store, conversation: ConversationRow, last: Sequence[bytes], digests: Sequence[bytes]) -> bool:
    """Return whether the first list after a /new still holds the messages from before it."""
    if last:
        return digests[: len(last)] == last or continues(last, digests)
    if len(digests) < conversation.next_seq - 1:
        return False
    return continues([each[:DIGEST_BYTES] for each in store.messages.digests(conversation.id)], digests)


def _stored_since(store: Store, conversation: ConversationRow, seq: int, named: set[int]) -> list[bytes]:
    if seq >= conversation.next_seq - 1:
        return []
    found = enumerate(store.messages.digests(conversation.id, after=seq), seq + 1)
    return [stored[:DIGEST_BYTES] for at, stored in found if at not in named]


def list_cursor(session: str | None) -> str:
    """Return the name of the cursor that remembers the last list of a session."""
    return f"{_WHOLE}:{session}" if session else _WHOLE


def _read_cursor(store: Store, conversation: ConversationRow, session: str | None) -> dict[str, Any]:
    """Return the cursor that remembers the last list a session delivered."""
    return store.state.cursor(conversation.id, list_cursor(session)) or {"sent": "", "seq": 0}


def _last_digests(cursor: dict[str, Any]) -> list[bytes]:
    sent = bytes.fromhex(cursor["sent"])
    return [sent[at : at + DIGEST_BYTES] for at in range(0, len(sent), DIGEST_BYTES)]
