"""Records of what models were shown, and the pins that are always shown."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec.structs import asdict, astuple

from lossless.store.rows.types import Manifest, NewManifest, PinRow, UncoveredRow
from lossless.store.sql.columns import (
    NO_LIMIT,
    OWNED,
)
from lossless.store.sql.section import Section

_MANIFEST_COLUMNS = ", ".join(f"m.{column}" for column in (*NewManifest.__struct_fields__, "turn"))


class Manifests(Section):
    """Records of what models were shown, and the pins that are always shown."""

    def add(self, conversation_id: int, manifests: Sequence[NewManifest], keep: int) -> None:
        """Add records of assemblies; only the last `keep` stay (in a transaction)."""
        rows = self.all(
            "SELECT coalesce(max(turn), 0) FROM manifest WHERE conversation_id = :conversation",
            conversation=conversation_id,
        )
        last = rows[0][0]
        columns = ("conversation_id", "turn", *NewManifest.__struct_fields__)
        self.insert(
            "manifest",
            columns,
            [(conversation_id, turn, *astuple(each)) for turn, each in enumerate(manifests, last + 1)],
        )
        self.run(
            "DELETE FROM manifest WHERE conversation_id = :conversation AND turn <= :oldest",
            conversation=conversation_id,
            oldest=last + len(manifests) - keep,
        )

    def read(self, conversation_id: int, *, until: int | None, turn: int | None, limit: int) -> list[Manifest]:
        """Return the records up to a time or a turn, the newest first."""
        rows = self.all(
            f"SELECT {_MANIFEST_COLUMNS} FROM manifest m"
            f" WHERE m.conversation_id = :conversation AND m.at <= :until AND m.turn <= :turn AND {OWNED}"
            " ORDER BY m.turn DESC LIMIT :limit",
            conversation=conversation_id,
            until=NO_LIMIT if until is None else until,
            turn=NO_LIMIT if turn is None else turn,
            limit=limit,
            owner=self.owner,
        )
        return [Manifest(*row[:-1], turn=row[-1]) for row in rows]

    def uncovered(self, limit: int) -> list[UncoveredRow]:
        """Return the active conversations whose newest assembly left out what no summary made since covers, the worst first."""
        rows = self.all(
            "SELECT c.key, m.uncovered, m.window_tokens FROM conversation c JOIN manifest m ON m.conversation_id = c.id"
            " AND m.turn = (SELECT max(n.turn) FROM manifest n WHERE n.conversation_id = c.id)"
            " WHERE c.owner = :owner AND c.active = 1 AND m.uncovered > 0 AND NOT EXISTS"
            " (SELECT 1 FROM summary s WHERE s.conversation_id = c.id AND s.created_at > m.at)"
            " ORDER BY m.uncovered DESC, c.id LIMIT :limit",
            owner=self.owner,
            limit=limit,
        )
        return [UncoveredRow(*row) for row in rows]

    def add_pin(self, conversation_id: int, pin: PinRow) -> None:
        """Add a pin; the same id again changes nothing (in a transaction)."""
        self.run(
            "INSERT INTO pin (conversation_id, id, message_id, text, tokens, created_at) VALUES"
            " (:conversation, :id, :message_id, :text, :tokens, :created_at) ON CONFLICT DO NOTHING",
            conversation=conversation_id,
            **asdict(pin),
        )

    def remove_key_pin(self, key: str, pin_id: str) -> bool:
        """Remove a pin from every conversation of the key (in a transaction)."""
        gone = self.run(
            "DELETE FROM pin WHERE id = :id AND conversation_id IN"
            " (SELECT id FROM conversation WHERE owner = :owner AND key = :key)",
            id=pin_id,
            owner=self.owner,
            key=key,
        )
        return gone > 0

    def pins(self, conversation_id: int) -> list[PinRow]:
        """Return the pins made in one conversation, oldest first."""
        rows = self.all(
            "SELECT p.id, p.message_id, p.text, p.tokens, p.created_at FROM pin p"
            f" WHERE p.conversation_id = :conversation AND {OWNED} ORDER BY p.created_at, p.id",
            conversation=conversation_id,
            owner=self.owner,
        )
        return [PinRow(*row) for row in rows]

    def key_pins(self, key: str) -> list[PinRow]:
        """Return the pins of every conversation of the key, archived ones included: each once, oldest first."""
        rows = self.all(
            "SELECT p.id, p.message_id, p.text, p.tokens, p.created_at FROM pin p"
            " JOIN conversation c ON c.id = p.conversation_id WHERE c.owner = :owner AND c.key = :key"
            " ORDER BY p.created_at, p.id, p.conversation_id",
            owner=self.owner,
            key=key,
        )
        # The same text pinned in two sessions has one id.
        found: dict[str, PinRow] = {}
        for row in rows:
            found.setdefault(row[0], PinRow(*row))
        return list(found.values())
