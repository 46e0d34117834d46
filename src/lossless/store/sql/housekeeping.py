"""Find and remove rows and copies that are not needed any more."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from contextlib import suppress
from datetime import UTC, datetime

from lossless.store.rows.types import SPAN, ConversationRow, KeptCopy, OverRows
from lossless.store.sql.columns import (
    CONVERSATION_COLUMNS,
    conversation_row,
)
from lossless.store.sql.section import Section

_HOUR, _DAY = 3_600_000_000, 86_400_000_000

_NEWEST = (
    f"coalesce((SELECT coalesce(m.at, m.created_at) FROM message m WHERE m.id = c.id * {SPAN} + c.next_seq - 1),"
    " c.created_at)"
)

# The last message is looked at first: it is one row. What a transplant copied has later ids and earlier times, so the others count too.
_SILENT = (
    f"{_NEWEST} < :before AND NOT EXISTS (SELECT 1 FROM message m WHERE m.id > c.id * {SPAN}"
    f" AND m.id < (c.id + 1) * {SPAN} AND coalesce(m.at, m.created_at) >= :before)"
)

_MINE = "conversation_id IN (SELECT c.id FROM conversation c WHERE c.owner = :owner{})"

_OVER = {
    "grants": (
        "recall_grant",
        "DELETE FROM {}",
        f"owner = :owner AND coalesce(revoked_at, expires_at) < :now - {_DAY}",
    ),
    "manifests": ("manifest", "DELETE FROM {}", f"at < :now - {90 * _DAY} AND {_MINE.format(' AND c.active = 0')}"),
    # Work stays pending when its worker has stopped.
    "leases": (
        "debt",
        "UPDATE {} SET worker = NULL, lease_until = NULL",
        f"worker IS NOT NULL AND lease_until < :now - {_HOUR} AND {_MINE.format('')}",
    ),
}

_STAMP = re.compile(r"_(\d{8})_(\d{6})_\d+(?:_0)?\Z")

_VERSION = re.compile(r"_v(\d+)\Z")

_OWN = "t.conversation_id = c.id"

_TALLIED = (
    ("count(*)", "copy", f"t.message_id > c.id * {SPAN} AND t.message_id < (c.id + 1) * {SPAN}"),
    ("count(*)", "alias", _OWN),
    ("count(*)", "file", _OWN),
    ("count(*)", "detached", _OWN),
    # What goes and comes again has another time.
    ("count(*) + coalesce(max(t.created_at), 0)", "pin", _OWN),
    ("count(*) + coalesce(max(t.created_at), 0)", "brief", _OWN),
    ("count(*) + coalesce(max(t.updated_at), 0)", "cursor", _OWN),
    ("count(*) + coalesce(max(t.last_at), 0)", "session", _OWN),
    ("CAST(coalesce(sum(t.revision), 0) AS BIGINT)", "summary", _OWN),
)
"""What may come to a conversation without a trace in its row, and how it is noticed."""


class Housekeeping(Section):
    """Finds and removes rows and copies that are not needed any more."""

    @property
    def _is_file(self) -> bool:
        return self.store.dialect == "sqlite" and self.store.location != ":memory:"

    def idle_since(self, before: int, *, active: bool) -> list[tuple[ConversationRow, int]]:
        """Return conversations without a message since a time, with the time of their last message, or of their beginning.

        The oldest come first. Without `active` only archived ones are meant.
        """
        rows = self.all(
            f"SELECT {CONVERSATION_COLUMNS}, {_NEWEST} AS newest FROM conversation c"
            f" WHERE c.owner = :owner AND c.active <= :active AND {_SILENT} ORDER BY newest, c.id",
            owner=self.owner,
            active=int(active),
            before=before,
        )
        return [(conversation_row(row[:-1]), row[-1]) for row in rows]

    def hold_all(self, ids: Sequence[int]) -> list[ConversationRow]:
        """Return those of these conversations that exist, held against other writers (in a transaction)."""
        rows = self.all(
            f"SELECT {CONVERSATION_COLUMNS} FROM conversation c WHERE c.owner = :owner"
            f" AND c.id IN ({self.each_of('ids', 'bigint')}) ORDER BY c.id{self.store.for_update}",
            owner=self.owner,
            ids=self.listing(ids),
        )
        return [conversation_row(row) for row in rows]

    def tallies(self, ids: Sequence[int]) -> dict[int, tuple[int, ...]]:
        """Count what belongs to each of these conversations outside its row: another count means that something was added."""
        counted = ", ".join(f"(SELECT {what} FROM {table} t WHERE {which})" for what, table, which in _TALLIED)
        rows = self.all(
            f"SELECT c.id, {counted} FROM conversation c WHERE c.owner = :owner"
            f" AND c.id IN ({self.each_of('ids', 'bigint')})",
            owner=self.owner,
            ids=self.listing(ids),
        )
        return {row[0]: row[1:] for row in rows}

    def referring(self, ids: Sequence[int]) -> list[tuple[int, int]]:
        """Return pairs of conversations: one that refers to one of these, and that one."""
        rows = self.all(
            f"SELECT c.id, c.parent_id FROM conversation c WHERE c.parent_id IN ({self.each_of('ids', 'bigint')})",
            ids=self.listing(ids),
        )
        return [(row[0], row[1]) for row in rows]

    def expired(self, now: int) -> OverRows:
        """Count what `clear_expired` would remove."""
        return OverRows(
            **{
                name: self.all(f"SELECT count(*) FROM {table} WHERE {which}", owner=self.owner, now=now)[0][0]
                for name, (table, _, which) in _OVER.items()
            }
        )

    def clear_expired(self, now: int) -> OverRows:
        """Remove expired rows: no message, no summary, no pending work."""
        with self.store.transaction():
            gone = {
                name: self.run(f"{what.format(table)} WHERE {which}", owner=self.owner, now=now)
                for name, (table, what, which) in _OVER.items()
            }
        return OverRows(**gone)

    def used_files(self, names: Sequence[str]) -> set[str]:
        """Return those of these contents (SHA-256) that a row of any owner refers to."""
        rows = self.all(
            f"SELECT DISTINCT sha256 FROM file WHERE sha256 IN ({self.each_of('names', 'text')})",
            names=self.listing(names),
        )
        return {row[0] for row in rows}

    def copies_kept(self) -> list[KeptCopy]:
        """Return the copies that `kept_copies` names."""
        return [
            self._kept_file(name) if self._is_file else self._kept_schema(name) for name in self.store.kept_copies()
        ]

    def _kept_file(self, path: str) -> KeptCopy:
        found = os.stat(path)
        return KeptCopy(path, int(found.st_mtime * 1_000_000), found.st_size)

    def _kept_schema(self, name: str) -> KeptCopy:
        size = self.all(
            "SELECT CAST(coalesce(sum(pg_total_relation_size(t.oid)), 0) AS BIGINT) FROM pg_class t"
            " JOIN pg_namespace n ON n.oid = t.relnamespace WHERE n.nspname = :name AND t.relkind = 'r'",
            name=name,
        )[0][0]
        return KeptCopy(name, self._kept_at(name), size)

    def _kept_at(self, name: str) -> int | None:
        """Return the time of a copied schema: its name contains it, or the migration it was made for does."""
        at: datetime | None = None
        if stamp := _STAMP.search(name):
            at = datetime.strptime("".join(stamp.groups()), "%Y%m%d%H%M%S").replace(tzinfo=UTC)
        elif version := _VERSION.search(name):
            rows = self.all("SELECT applied_at FROM migration WHERE version = :version", version=int(version[1]))
            at = rows[0][0] if rows else None
        return None if at is None else int(at.timestamp() * 1_000_000)

    def drop_copy(self, name: str) -> None:
        """Remove one of the copies that were kept."""
        if name not in self.store.kept_copies():
            return
        if self._is_file:
            with suppress(FileNotFoundError):
                os.unlink(name)
        else:
            with self.store.transaction():
                self.run(f"DROP SCHEMA {name} CASCADE")

    def spare(self) -> int:
        """Return the bytes on disk that the database does not need and can release."""
        if self.store.dialect != "sqlite":
            return 0
        pages, free, page = (
            int(self.all(f"PRAGMA {name}")[0][0]) for name in ("page_count", "freelist_count", "page_size")
        )
        # What waits in the log of writes takes its place in the file when the log is emptied.
        return max(0, self.store.size() - (pages - free) * page)
