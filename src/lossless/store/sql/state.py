"""Small JSON values: read positions of sources, and guards."""

from __future__ import annotations

from typing import Any

from lossless.store import jsontext
from lossless.store.sql.columns import (
    OWNED,
)
from lossless.store.sql.section import Section


class State(Section):
    """Small JSON values: read positions of sources, and guards."""

    def newest_cursor(self, conversation_id: int, prefix: str) -> tuple[str, Any] | None:
        """Return source and state of the cursor that was set last, of those whose source has a prefix."""
        rows = self.all(
            "SELECT k.source, k.state FROM cursor k WHERE k.conversation_id = :conversation"
            f" AND substr(k.source, 1, :size) = :prefix AND {OWNED} ORDER BY k.updated_at DESC, k.source LIMIT 1",
            conversation=conversation_id,
            size=len(prefix),
            prefix=prefix,
            owner=self.owner,
        )
        return (rows[0][0], jsontext.loads(rows[0][1])) if rows else None

    def cursors(
        self, prefix: str, conversation_id: int | None = None, *, containing: str = ""
    ) -> list[tuple[int, str, Any]]:
        """Return conversation, source and state of every cursor whose source has a prefix, of all conversations or of one.

        Only those whose state contains a text somewhere, if it is given.
        """
        among = "" if conversation_id is None else " AND k.conversation_id = :conversation"
        among += " AND replace(k.state, :containing, '') <> k.state" if containing else ""
        rows = self.all(
            "SELECT k.conversation_id, k.source, k.state FROM cursor k JOIN conversation c ON c.id = k.conversation_id"
            f" WHERE c.owner = :owner AND substr(k.source, 1, :size) = :prefix{among} ORDER BY 1, 2",
            owner=self.owner,
            conversation=conversation_id,
            size=len(prefix),
            prefix=prefix,
            containing=containing,
        )
        return [(row[0], row[1], jsontext.loads(row[2])) for row in rows]

    def cursor(self, conversation_id: int, source: str) -> Any | None:
        """Return how far a source was read: the JSON value last set, or None."""
        rows = self.all(
            f"SELECT state FROM cursor WHERE conversation_id = :conversation AND source = :source AND {OWNED}",
            conversation=conversation_id,
            source=source,
            owner=self.owner,
        )
        return jsontext.stored(rows[0][0]) if rows else None

    def set_cursor(self, conversation_id: int, source: str, state: Any, now: int) -> None:
        self.run(
            "INSERT INTO cursor (conversation_id, source, state, updated_at) VALUES (:conversation, :source, :state, :now)"
            " ON CONFLICT (conversation_id, source) DO UPDATE SET state = excluded.state, updated_at = excluded.updated_at",
            conversation=conversation_id,
            source=source,
            state=jsontext.dumps(state),
            now=now,
        )

    def guard(self, name: str, *, hold: bool = False, shared: bool = False) -> Any | None:
        """Return the JSON value of a guard, or None; with `hold`, locked until the end of the transaction.

        A `shared` one is the same for all owners.
        """
        lock = self.store.for_update if hold else ""
        named = self._guard_name(name, shared=shared)
        rows = self.all(f"SELECT state FROM guard WHERE name = :name{lock}", name=named)
        return jsontext.stored(rows[0][0]) if rows else None

    def _guard_name(self, name: str, *, shared: bool = False) -> str:
        owner = "" if shared else self.owner
        return f"{len(owner)}:{owner}:{name}"  # no owner's name can be taken for a part of another's

    def set_guard(self, name: str, state: Any, now: int, *, shared: bool = False) -> None:
        """Set the JSON value of a guard (in a transaction)."""
        self.run(
            "INSERT INTO guard (name, state, updated_at) VALUES (:name, :state, :now) ON CONFLICT (name)"
            " DO UPDATE SET state = excluded.state, updated_at = excluded.updated_at",
            name=self._guard_name(name, shared=shared),
            state=jsontext.dumps(state),
            now=now,
        )
