"""Conversations: their keys, sessions, owners, titles and archive."""

from __future__ import annotations

from typing import Any

from lossless.errors import NotFound
from lossless.session_patterns import is_scheduled
from lossless.store.rows.types import (
    ConversationRow,
)
from lossless.store.sql.columns import (
    ACTIVE,
    CONVERSATION_COLUMNS,
    OWNED,
    conversation_row,
)
from lossless.store.sql.section import Section


class Conversations(Section):
    """Conversations: their keys, sessions, owners, titles and archive."""

    def get(self, conversation_id: int) -> ConversationRow | None:
        rows = self.all(
            f"SELECT {CONVERSATION_COLUMNS} FROM conversation WHERE id = :id AND owner = :owner",
            id=conversation_id,
            owner=self.owner,
        )
        return conversation_row(rows[0]) if rows else None

    def lock(self, key: str, session: str | None, now: int) -> ConversationRow:
        """Return the active conversation under a key, created if needed, held against other writers (in a transaction).

        Each session of a scheduled job (`is_scheduled`) is a conversation of its own, and finds its own again, archived
        or not; a new one archives the one before.
        """
        if session is not None and is_scheduled(key):
            return self._lock_run(key, session, now)
        return self._lock_active(key, session, now)

    def _lock_run(self, key: str, session: str, now: int) -> ConversationRow:
        """Lock the conversation of a run of a scheduled job; a late message of an old run goes to that one."""
        # Rows alone do not do: two processes that start runs would lock an old one and the active one in either order.
        self.store.hold_key(key)
        run = self.with_session(key, session)
        if run is not None:
            return self.hold(run.id)
        active = self._lock_active(key, None, now)
        if active.session is None:
            self._know_by(active.id, session, now)
            return active
        return self.start(key, session, now, continues=active.id, parent=active.parent, cause="cron-rotation")

    def _lock_active(self, key: str, session: str | None, now: int) -> ConversationRow:
        found = self._held_active(key)
        while found is None:
            # The one that loses the race to create it finds the winner's row.
            self._insert(key, session, now)
            found = self._held_active(key)
        if session is not None and found.session != session:
            self._know_by(found.id, session, now)
        return found

    def _held_active(self, key: str) -> ConversationRow | None:
        rows = self.all(ACTIVE + self.store.for_update, owner=self.owner, key=key)
        return conversation_row(rows[0]) if rows else None

    def _know_by(self, conversation_id: int, session: str, now: int) -> None:
        self._set("session", conversation_id, session)
        self._note_session(conversation_id, session, now)

    def _note_session(self, conversation_id: int, session: str, now: int) -> None:
        self.run(
            "INSERT INTO session (conversation_id, session, first_at, last_at) VALUES (:id, :session, :now, :now)"
            " ON CONFLICT (conversation_id, session) DO UPDATE SET last_at = excluded.last_at",
            id=conversation_id,
            session=session,
            now=now,
        )

    def _insert(
        self,
        key: str,
        session: str | None,
        now: int,
        *,
        continues: int | None = None,
        parent: int | None = None,
        archived_for: str | None = None,
        active: bool = True,
    ) -> int | None:
        """Insert a conversation and return its id; None if there is an active one already."""
        rows = self.all(
            "INSERT INTO conversation (id, owner, key, active, session, continues, parent_id, archive_cause, archived_at,"
            " created_at, updated_at) VALUES (:id, :owner, :key, :active, :session, :continues, :parent, :cause, :archived,"
            " :now, :now) ON CONFLICT DO NOTHING RETURNING id",
            id=self.store.new_ids("conversation", 1)[0],
            owner=self.owner,
            key=key,
            active=int(active),
            session=session,
            continues=continues,
            parent=parent,
            cause=archived_for,
            archived=None if active else now,
            now=now,
        )
        if rows and session is not None:
            self._note_session(rows[0][0], session, now)
        return rows[0][0] if rows else None

    def with_session(self, key: str, session: str) -> ConversationRow | None:
        """Return the conversation under a key that has had this session."""
        rows = self.all(
            f"SELECT {CONVERSATION_COLUMNS} FROM conversation WHERE owner = :owner AND key = :key AND id IN"
            " (SELECT conversation_id FROM session WHERE session.session = :session) ORDER BY active DESC, id DESC LIMIT 1",
            owner=self.owner,
            key=key,
            session=session,
        )
        return conversation_row(rows[0]) if rows else None

    def of_session(self, session: str) -> ConversationRow | None:
        """Return the conversation that a host's session belongs to, whatever its key; not that of a sub-agent."""
        rows = self.all(
            f"SELECT {CONVERSATION_COLUMNS} FROM conversation WHERE owner = :owner AND parent_id IS NULL AND id IN"
            " (SELECT conversation_id FROM session WHERE session.session = :session)"
            " ORDER BY active DESC, updated_at DESC, id DESC LIMIT 1",
            owner=self.owner,
            session=session,
        )
        return conversation_row(rows[0]) if rows else None

    def start(
        self,
        key: str,
        session: str | None,
        now: int,
        *,
        continues: int | None = None,
        parent: int | None = None,
        active: bool = True,
        cause: str | None = None,
    ) -> ConversationRow:
        """Start a conversation under a key, held; the active one is archived first, for a cause (in a transaction).

        With `active=False` the fresh one is archived from the beginning, for this cause, and no other is touched.
        """
        fresh = None
        while fresh is None:
            if active and (present := self._held_active(key)):
                self.archive(present.id, cause, now)
            archived_for = None if active else cause
            fresh = self._insert(
                key, session, now, continues=continues, parent=parent, archived_for=archived_for, active=active
            )
        return self.hold(fresh)

    def archive(self, conversation_id: int, cause: str | None, now: int) -> bool:
        """Archive a conversation; False if it was not active (in a transaction)."""
        archived = self.run(
            "UPDATE conversation SET active = 0, archive_cause = :cause, archived_at = :now"
            " WHERE id = :id AND owner = :owner AND active = 1",
            cause=cause,
            now=now,
            id=conversation_id,
            owner=self.owner,
        )
        return archived > 0

    def set_parent(self, conversation_id: int, parent_id: int | None) -> None:
        """Set the conversation whose sub-agent this is (in a transaction)."""
        self._set("parent_id", conversation_id, parent_id)

    def set_title(self, conversation_id: int, title: str | None) -> None:
        """Set the title (in a transaction)."""
        self._set("title", conversation_id, title)

    def set_renewed(self, conversation_id: int, now: int | None) -> None:
        """Set when its context was last started again (in a transaction)."""
        self._set("renewed_at", conversation_id, now)

    def set_transcribed(self, conversation_id: int) -> None:
        """Note that a transcript is read into it (in a transaction)."""
        self._set("transcribed", conversation_id, 1)

    def _set(self, column: str, conversation_id: int, value: Any) -> None:
        self.run(
            f"UPDATE conversation SET {column} = :value WHERE id = :id AND owner = :owner",
            value=value,
            id=conversation_id,
            owner=self.owner,
        )

    def sessions(self, conversation_id: int) -> list[str]:
        """Return every session id of a conversation, oldest first."""
        rows = self.all(
            f"SELECT s.session FROM session s WHERE s.conversation_id = :conversation AND {OWNED}"
            " ORDER BY s.first_at, s.session",
            conversation=conversation_id,
            owner=self.owner,
        )
        return [row[0] for row in rows]

    def family(self, key: str) -> list[ConversationRow]:
        """Return every conversation ever under a key, the active one first, then the newest; then those of sub-agents
        below any of them."""
        # UNION and not UNION ALL: parents that lead back to themselves must end all the same.
        rows = self.all(
            "WITH RECURSIVE below (id) AS (SELECT id FROM conversation WHERE owner = :owner AND key = :key UNION"
            # Joined to nothing, so that SQLite looks for them by their parent and not through all of an owner's.
            " SELECT c.id FROM conversation c JOIN below b ON c.parent_id = b.id WHERE c.owner || '' = :owner)"
            f" SELECT {CONVERSATION_COLUMNS} FROM conversation WHERE id IN (SELECT id FROM below)"
            " ORDER BY CASE key WHEN :key THEN 0 ELSE 1 END, active DESC, id DESC",
            owner=self.owner,
            key=key,
        )
        return [conversation_row(row) for row in rows]

    def under_key(self, key: str) -> list[ConversationRow]:
        """Return every conversation ever under a key, the active one first, then the newest."""
        rows = self.all(
            f"SELECT {CONVERSATION_COLUMNS} FROM conversation WHERE owner = :owner AND key = :key ORDER BY active DESC, id DESC",
            owner=self.owner,
            key=key,
        )
        return [conversation_row(row) for row in rows]

    def reactivate(self, conversation_id: int, cause: str, now: int) -> None:
        """Make an archived conversation the active one of its key; the active one is archived for the cause (in a transaction)."""
        row = self.hold(conversation_id)
        if (present := self._held_active(row.key)) is not None:
            self.archive(present.id, cause, now)
        self.run(
            "UPDATE conversation SET active = 1, archive_cause = NULL, archived_at = NULL WHERE id = :id",
            id=conversation_id,
        )

    def active(self, key: str) -> ConversationRow | None:
        """Return the active conversation under a key."""
        rows = self.all(ACTIVE, owner=self.owner, key=key)
        return conversation_row(rows[0]) if rows else None

    def of_owner(self) -> list[ConversationRow]:
        """Return all conversations of this owner, the newest activity first."""
        rows = self.all(
            f"SELECT {CONVERSATION_COLUMNS} FROM conversation WHERE owner = :owner ORDER BY updated_at DESC, id DESC",
            owner=self.owner,
        )
        return [conversation_row(row) for row in rows]

    def hold(self, conversation_id: int) -> ConversationRow:
        """Return a conversation, held against other writers; `NotFound` if it is not this owner's (in a transaction)."""
        rows = self.all(
            f"SELECT {CONVERSATION_COLUMNS} FROM conversation WHERE id = :id AND owner = :owner{self.store.for_update}",
            id=conversation_id,
            owner=self.owner,
        )
        if not rows:
            raise NotFound("conversation", conversation_id)
        return conversation_row(rows[0])
