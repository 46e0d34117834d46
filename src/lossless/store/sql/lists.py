"""Pages of conversations, messages and files."""

from __future__ import annotations

from collections.abc import Sequence

from lossless.store import jsontext
from lossless.store.rows.types import (
    SPAN,
    ConversationRow,
    CopyRow,
    Figures,
    FileRow,
    MessageRow,
    OpeningRow,
    PlaceRow,
)
from lossless.store.sql.columns import (
    CONVERSATION_COLUMNS,
    FILE_COLUMNS,
    MESSAGE_COLUMNS,
    OWNED,
    Row,
    conversation_row,
    message_row,
)
from lossless.store.sql.section import Section

_SAID = "coalesce(m.at, m.created_at)"
_SEARCHED = 32
"""The first messages among which user texts are looked for."""
_CANDIDATES = 3
"""User texts of a conversation: some are written by its host."""
_OPENING = 600
"""Characters of each."""
_FILE = ", ".join(f"f.{column}" for column in FILE_COLUMNS.split(", "))


class Lists(Section):
    """Pages of conversations, messages and files."""

    def conversation_page(
        self,
        *,
        active: bool | None,
        below: tuple[int, int] | None,
        limit: int,
        since: int | None = None,
        before: int | None = None,
    ) -> list[ConversationRow]:
        """Return conversations in these times, the newest activity first: those after a time and an id, active, archived or all."""
        conditions = [
            ("updated_at >= :since", since is not None),
            ("updated_at < :before", before is not None),
            ("active = :active", active is not None),
            ("(updated_at, id) < (:at, :id)", below is not None),
        ]
        rows = self.all(
            f"SELECT {CONVERSATION_COLUMNS} FROM conversation WHERE owner = :owner"
            + "".join(f" AND {condition}" for condition, is_asked in conditions if is_asked)
            + " ORDER BY updated_at DESC, id DESC LIMIT :limit",
            owner=self.owner,
            active=int(bool(active)),
            since=since,
            before=before,
            at=below[0] if below else None,
            id=below[1] if below else None,
            limit=limit,
        )
        return [conversation_row(row) for row in rows]

    def figures(self, ids: Sequence[int]) -> dict[int, Figures]:
        owned = "SELECT c.id FROM conversation c WHERE c.owner = :owner AND c.id"
        chosen = f"IN ({owned} IN ({self.each_of('ids', 'bigint')}))"
        known = {"owner": self.owner, "ids": self.listing(ids)}
        views = self.all(
            "SELECT i.conversation_id, count(*), count(i.summary_id),"
            " CAST(sum(CASE WHEN i.summary_id IS NULL THEN i.tokens ELSE 0 END) AS bigint),"
            " CAST(sum(coalesce(s.source_tokens, i.tokens)) AS bigint) FROM item i LEFT JOIN summary s ON s.id = i.summary_id"
            f" WHERE i.conversation_id {chosen} GROUP BY 1",
            **known,
        )
        beside = self.all(
            "SELECT d.conversation_id, CAST(sum(coalesce(s.source_tokens, d.tokens)) AS bigint) FROM detached d"
            f" LEFT JOIN summary s ON s.id = d.summary_id WHERE d.cause <> 'dissolved' AND d.conversation_id {chosen} GROUP BY 1",
            **known,
        )
        made = self.all(
            f"SELECT s.conversation_id, count(*), max(s.depth) FROM summary s WHERE s.conversation_id {chosen} GROUP BY 1",
            **known,
        )
        seen, made_of = {row[0]: row[1:] for row in views}, {row[0]: row[1:] for row in made}
        left = {row[0]: row[1] for row in beside}
        return {each: _figures(seen.get(each), left.get(each, 0), made_of.get(each)) for each in ids}

    def openings(self, ids: Sequence[int], cursor_prefix: str) -> dict[int, OpeningRow]:
        """Return the first and last time, first user texts and newest cursor of each, in one query."""
        # Single rows by their id, and a few at the start: never a whole conversation.
        time = f"(SELECT {_SAID} FROM message m WHERE m.id = c.id * {SPAN} + "
        text = (
            f"(SELECT substr(m.text, 1, {_OPENING}) FROM message m WHERE m.id > c.id * {SPAN}"
            f" AND m.id <= c.id * {SPAN} + {_SEARCHED} AND m.role = 'user' AND m.text <> ''"
            " AND coalesce(m.outside, '') NOT IN ('poll', 'forgotten', 'heartbeat')"
            " AND coalesce(m.parts, '') NOT LIKE :results ORDER BY m.id LIMIT 1 OFFSET "
        )
        texts = ", ".join(f"{text}{at})" for at in range(_CANDIDATES))
        rows = self.all(
            f"SELECT c.id, {time}1), {time}c.next_seq - 1),"
            " (SELECT k.state FROM cursor k WHERE k.conversation_id = c.id AND substr(k.source, 1, :size) = :prefix"
            f" ORDER BY k.updated_at DESC, k.source LIMIT 1), {texts} FROM conversation c"
            f" WHERE c.owner = :owner AND c.id IN ({self.each_of('ids', 'bigint')})",
            owner=self.owner,
            ids=self.listing(ids),
            size=len(cursor_prefix),
            prefix=cursor_prefix,
            results='%"tool_result"%',
        )
        return {
            row[0]: OpeningRow(
                first_at=row[1],
                last_at=row[2],
                texts=tuple(each for each in row[4:] if each),
                mark=None if row[3] is None else jsontext.loads(row[3]),
            )
            for row in rows
        }

    def depths(self, conversation_id: int) -> list[tuple[int, int, int, int]]:
        """Return for each depth the number of summaries, their tokens, and those of the messages below them."""
        rows = self.all(
            "SELECT s.depth, count(*), CAST(sum(s.tokens) AS bigint), CAST(sum(s.source_tokens) AS bigint) FROM summary s"
            f" WHERE s.conversation_id = :conversation AND {OWNED} GROUP BY 1 ORDER BY 1",
            conversation=conversation_id,
            owner=self.owner,
        )
        return [(row[0], row[1], row[2], row[3]) for row in rows]

    def departed(self, conversation_id: int) -> dict[str, int]:
        """Count the items that left the context, by cause."""
        rows = self.all(
            f"SELECT d.cause, count(*) FROM detached d WHERE d.conversation_id = :conversation AND {OWNED}"
            " GROUP BY 1 ORDER BY 1",
            conversation=conversation_id,
            owner=self.owner,
        )
        return {row[0]: row[1] for row in rows}

    def sub_agents(self, conversation_id: int) -> list[ConversationRow]:
        """Return the conversations of its direct sub-agents; active ones first, then the newest."""
        # Joined to nothing, so that SQLite looks for them by their parent and not through all of an owner's.
        rows = self.all(
            f"SELECT {CONVERSATION_COLUMNS} FROM conversation WHERE parent_id = :id AND owner || '' = :owner"
            " ORDER BY active DESC, id DESC",
            id=conversation_id,
            owner=self.owner,
        )
        return [conversation_row(row) for row in rows]

    def message_page(
        self,
        conversation_id: int,
        *,
        beyond: int | None,
        newest_first: bool,
        roles: Sequence[str],
        since: int | None,
        before: int | None,
        limit: int,
    ) -> list[MessageRow]:
        """Return messages by seq, or the newest first, those beyond a seq; optionally of some roles and times."""
        base = conversation_id * SPAN
        first, last = base, base + SPAN
        if beyond is not None:
            # Whatever a cursor says, the ids of other conversations are out of reach.
            edge = base + max(0, min(beyond, SPAN))
            first, last = (base, edge) if newest_first else (edge, last)
        named = {f"role{at}": role for at, role in enumerate(roles)}
        conditions = [
            (f"m.role IN ({', '.join(f':{name}' for name in named)})", bool(roles)),
            (f"{_SAID} >= :since", since is not None),
            (f"{_SAID} < :before", before is not None),
        ]
        rows = self.all(
            f"SELECT {MESSAGE_COLUMNS} FROM message m WHERE m.id > :first AND m.id < :last AND {OWNED}"
            + "".join(f" AND {condition}" for condition, is_asked in conditions if is_asked)
            + f" ORDER BY m.id{' DESC' if newest_first else ''} LIMIT :limit",
            first=first,
            last=last,
            conversation=conversation_id,
            owner=self.owner,
            since=since,
            before=before,
            limit=limit,
            **named,
        )
        return [message_row(row, base) for row in rows]

    def stand(self, conversation_id: int, seqs: Sequence[int]) -> list[PlaceRow]:
        """Return the positions of these messages and of every summary that covers them, by seq, the deepest summary last."""
        base = conversation_id * SPAN
        known = {"conversation": conversation_id, "owner": self.owner}
        among = f"IN ({self.each_of('seqs', 'bigint')})"
        themselves = self.all(
            "SELECT i.ordinal, NULL, -1, 1, NULL FROM item i WHERE i.conversation_id = :conversation"
            f" AND i.summary_id IS NULL AND i.ordinal {among} AND {OWNED} UNION ALL"
            " SELECT d.ordinal, NULL, -1, 0, d.cause FROM detached d WHERE d.conversation_id = :conversation"
            f" AND d.summary_id IS NULL AND d.ordinal {among} AND {OWNED}",
            **known,
            seqs=self.listing(seqs),
        )
        # The plus keeps SQLite from going through all summaries of the conversation for a few of them. UNION and not UNION
        # ALL: a damaged history that leads back to itself must end all the same.
        rows = self.all(
            "WITH RECURSIVE up (id, seq) AS (SELECT l.summary_id, l.message_id - :base FROM summary_message l"
            f" WHERE l.message_id {among} AND {OWNED} UNION"
            " SELECT l.summary_id, u.seq FROM up u JOIN summary_source l ON l.source_id = u.id)"
            " SELECT u.seq, s.public_id, s.depth, (SELECT count(*) FROM item i WHERE i.summary_id = u.id),"
            " (SELECT min(d.cause) FROM detached d WHERE d.summary_id = u.id)"
            " FROM up u JOIN summary s ON s.id = u.id AND +s.conversation_id = :conversation ORDER BY 1, 3, s.id",
            **known,
            base=base,
            seqs=self.listing([base + seq for seq in seqs]),
        )
        return [
            PlaceRow(seq, name, depth, bool(shown), cause) for seq, name, depth, shown, cause in (*themselves, *rows)
        ]

    def aliases(self, conversation_id: int, seq: int) -> list[str]:
        """Return further event ids of a message."""
        rows = self.all(
            f"SELECT a.name FROM alias a WHERE a.conversation_id = :conversation AND a.seq = :seq AND {OWNED} ORDER BY 1",
            conversation=conversation_id,
            seq=seq,
            owner=self.owner,
        )
        return [row[0] for row in rows]

    def other_texts(self, conversation_id: int, seq: int) -> list[CopyRow]:
        """Return other texts delivered under a message's event id, oldest first."""
        rows = self.all(
            "SELECT o.text, o.parts, o.meta, o.at, o.created_at FROM copy o WHERE o.message_id = :message"
            f" AND {OWNED} ORDER BY o.created_at, o.digest",
            message=conversation_id * SPAN + seq,
            conversation=conversation_id,
            owner=self.owner,
        )
        return [CopyRow(*row) for row in rows]

    def file_page(
        self,
        conversation_id: int,
        *,
        below: tuple[int, str] | None,
        limit: int,
        since: int | None = None,
        before: int | None = None,
    ) -> list[FileRow]:
        """Return the payloads of a conversation in these times, the newest first: those after a time and an id."""
        after = "" if below is None else " AND (f.created_at, f.id) < (:at, :id)"
        after += "" if since is None else " AND f.created_at >= :since"
        after += "" if before is None else " AND f.created_at < :before"
        rows = self.all(
            f"SELECT {_FILE} FROM file f WHERE f.conversation_id = :conversation AND {OWNED}{after}"
            " ORDER BY f.created_at DESC, f.id DESC LIMIT :limit",
            conversation=conversation_id,
            owner=self.owner,
            at=below[0] if below else None,
            id=below[1] if below else None,
            since=since,
            before=before,
            limit=limit,
        )
        return [FileRow(*row) for row in rows]

    def file_totals(self, conversation_id: int) -> tuple[int, int]:
        """Return how many payloads a conversation has, and their bytes."""
        rows = self.all(
            "SELECT count(*), CAST(coalesce(sum(f.bytes), 0) AS bigint) FROM file f"
            f" WHERE f.conversation_id = :conversation AND {OWNED}",
            conversation=conversation_id,
            owner=self.owner,
        )
        return rows[0][0], rows[0][1]

    def files_named(self, file_id: str) -> list[tuple[int, FileRow]]:
        """Return the conversations that have a payload, the newest activity first, and their rows of it."""
        rows = self.all(
            f"SELECT f.conversation_id, {_FILE} FROM conversation c JOIN file f ON f.conversation_id = c.id AND f.id = :id"
            " WHERE c.owner = :owner ORDER BY c.updated_at DESC, c.id DESC",
            id=file_id,
            owner=self.owner,
        )
        return [(row[0], FileRow(*row[1:])) for row in rows]


def _figures(view: Row | None, beside: int, made: Row | None) -> Figures:
    items, shown, raw, rows = view or (0, 0, 0, 0)
    summaries, depth = made or (0, None)
    return Figures(items, shown, raw, rows + beside, summaries, depth)
