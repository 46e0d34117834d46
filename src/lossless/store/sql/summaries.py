"""Summaries: their sources, their consumers, their earlier texts."""

from __future__ import annotations

from collections.abc import Sequence

from lossless.store.rows.types import SPAN, BranchRow, NewSummary, SummaryRow
from lossless.store.sql.columns import (
    OWNED,
    SUMMARY_COLUMNS,
    UNSETTLED,
)
from lossless.store.sql.section import Section

_BRANCH_COLUMNS = ", ".join(f"s.{column}" for column in BranchRow.__struct_fields__)


class Summaries(Section):
    """Summaries: their sources, their consumers, their earlier texts."""

    def read(self, conversation_id: int, ids: Sequence[int] | None = None) -> list[SummaryRow]:
        """Return these summaries, or all of a conversation, in the order they were made."""
        # The plus keeps SQLite from going through all summaries of the conversation for a few of them.
        chosen = "s." if ids is None else f"s.id IN ({self.each_of('ids', 'bigint')}) AND +s."
        rows = self.all(
            f"SELECT {SUMMARY_COLUMNS} FROM summary s WHERE {chosen}conversation_id = :conversation AND {OWNED}"
            " ORDER BY s.id",
            conversation=conversation_id,
            ids=self.listing(ids or ()),
            owner=self.owner,
        )
        return [SummaryRow(*row) for row in rows]

    def sources(self, conversation_id: int, summary_id: int) -> tuple[list[int], list[int]]:
        """Return the sources of a summary: the seqs of messages, or the ids of summaries, in order."""
        messages = self.all(
            f"SELECT l.message_id FROM summary_message l WHERE l.summary_id = :id AND {OWNED} ORDER BY 1",
            id=summary_id,
            conversation=conversation_id,
            owner=self.owner,
        )
        summaries = self.all(
            f"SELECT l.source_id FROM summary_source l WHERE l.summary_id = :id AND {OWNED} ORDER BY l.ordinal",
            id=summary_id,
            conversation=conversation_id,
            owner=self.owner,
        )
        return [row[0] % SPAN for row in messages], [row[0] for row in summaries]

    def source_ids(self, conversation_id: int, ids: Sequence[int]) -> dict[int, list[str]]:
        """Return the public ids of the summaries that each of these was made from, in order."""
        rows = self.all(
            "SELECT l.summary_id, s.public_id FROM summary_source l JOIN summary s ON s.id = l.source_id"
            f" WHERE l.summary_id IN ({self.each_of('ids', 'bigint')}) AND s.conversation_id = :conversation AND {OWNED}"
            " ORDER BY l.summary_id, l.ordinal",
            ids=self.listing(ids),
            conversation=conversation_id,
            owner=self.owner,
        )
        found: dict[int, list[str]] = {}
        for summary_id, public_id in rows:
            found.setdefault(summary_id, []).append(public_id)
        return found

    def revisions(self, conversation_id: int, ids: Sequence[int]) -> dict[tuple[int, int], str]:
        """Return the earlier texts of these summaries, by id and revision."""
        rows = self.all(
            "SELECT r.summary_id, r.revision, r.text FROM revision r JOIN summary s ON s.id = r.summary_id"
            f" WHERE r.summary_id IN ({self.each_of('ids', 'bigint')}) AND s.conversation_id = :conversation AND {OWNED}",
            ids=self.listing(ids),
            conversation=conversation_id,
            owner=self.owner,
        )
        return {(summary_id, revision): text for summary_id, revision, text in rows}

    def unsettled(self, conversation_id: int, *, tries: int, limit: int) -> list[SummaryRow]:
        """Return summaries to rewrite (no model wrote them, or a source changed), the shallowest and oldest first."""
        rows = self.all(
            f"SELECT {SUMMARY_COLUMNS} FROM summary s WHERE s.conversation_id = :conversation AND {UNSETTLED}"
            f" AND s.tries < :tries AND {OWNED} ORDER BY s.depth, s.id LIMIT :limit",
            conversation=conversation_id,
            tries=tries,
            limit=limit,
            owner=self.owner,
        )
        return [SummaryRow(*row) for row in rows]

    def before(self, conversation_id: int, summary_id: int, depth: int) -> list[SummaryRow]:
        """Return the last two summaries of a depth made before this one, the older first."""
        rows = self.all(
            f"SELECT {SUMMARY_COLUMNS} FROM summary s WHERE s.conversation_id = :conversation AND s.depth = :depth"
            f" AND s.id < :id AND {OWNED} ORDER BY s.id DESC LIMIT 2",
            conversation=conversation_id,
            depth=depth,
            id=summary_id,
            owner=self.owner,
        )
        return [SummaryRow(*row) for row in reversed(rows)]

    def revise(self, conversation_id: int, old: SummaryRow, new: NewSummary) -> bool:
        """Replace the text of a summary, in one transaction: the old one is kept, its consumers are stale, the context follows.

        False if the summary is no longer what `old` says.
        """
        with self.store.transaction():
            # Held first, as `replace` does: two that write the same context never wait for each other.
            self.all(
                f"SELECT id FROM conversation WHERE id = :conversation{self.store.for_update}",
                conversation=conversation_id,
            )
            changed = self.run(
                "UPDATE summary SET text = :text, tokens = :tokens, model = :model, level = :level,"
                " prompt_version = :prompt_version, faithful = :faithful, created_at = :created_at,"
                " revision = revision + 1, stale = 0, tries = 0"
                f" WHERE id = :id AND conversation_id = :conversation AND revision = :revision AND created_at = :made_at AND {OWNED}",
                id=old.id,
                conversation=conversation_id,
                revision=old.revision,
                made_at=old.created_at,
                owner=self.owner,
                text=new.text,
                tokens=new.tokens,
                model=new.model,
                level=new.level,
                prompt_version=new.prompt_version,
                faithful=new.faithful,
                created_at=new.created_at,
            )
            if not changed:
                return False
            self._keep_revision(old)
            self.run(
                "UPDATE summary SET stale = 1, tries = 0 WHERE id IN"
                " (SELECT summary_id FROM summary_source WHERE source_id = :id)",
                id=old.id,
            )
            shown = self.run("UPDATE item SET tokens = :tokens WHERE summary_id = :id", tokens=new.tokens, id=old.id)
            if shown:
                self.run(
                    "UPDATE conversation SET context_tokens = context_tokens + :change WHERE id = :id",
                    change=new.tokens - old.tokens,
                    id=conversation_id,
                )
            self.run("UPDATE detached SET tokens = :tokens WHERE summary_id = :id", tokens=new.tokens, id=old.id)
            self.store.index_summary(old.id, new.text)
        return True

    def _keep_revision(self, old: SummaryRow) -> None:
        columns = ("text", "tokens", "model", "level", "prompt_version", "faithful", "created_at")
        values = tuple(getattr(old, column) for column in columns)
        self.insert("revision", ("summary_id", "revision", *columns), [(old.id, old.revision, *values)])

    def note_try(self, conversation_id: int, summary_id: int) -> None:
        """Count a failed attempt to rewrite a summary."""
        with self.store.transaction():
            self.run(
                f"UPDATE summary SET tries = tries + 1 WHERE id = :id AND conversation_id = :conversation AND {OWNED}",
                id=summary_id,
                conversation=conversation_id,
                owner=self.owner,
            )

    def named(self, public_id: str) -> tuple[int, SummaryRow] | None:
        """Return a summary of this owner by its public id, and the conversation it belongs to."""
        rows = self.all(
            f"SELECT c.id, {SUMMARY_COLUMNS} FROM summary s JOIN conversation c ON c.id = s.conversation_id"
            " WHERE s.public_id = :id AND c.owner = :owner",
            id=public_id,
            owner=self.owner,
        )
        return (rows[0][0], SummaryRow(*rows[0][1:])) if rows else None

    def consumers(self, conversation_id: int, summary_id: int) -> list[str]:
        """Return the public ids of the summaries made from this one, in the order they were made."""
        rows = self.all(
            "SELECT s.public_id FROM summary_source l JOIN summary s ON s.id = l.summary_id"
            f" WHERE l.source_id = :id AND s.conversation_id = :conversation AND {OWNED} ORDER BY s.id",
            id=summary_id,
            conversation=conversation_id,
            owner=self.owner,
        )
        return [row[0] for row in rows]

    def links_below(self, conversation_id: int, summary_id: int) -> list[tuple[int, int]]:
        """Return the links between summaries from this one down: pairs of ids, sources in order."""
        # UNION and not UNION ALL: a damaged history that leads back to itself must end all the same.
        rows = self.all(
            "WITH RECURSIVE below (id) AS (SELECT s.id FROM summary s WHERE s.id = :id AND s.conversation_id = :conversation"
            f" AND {OWNED} UNION SELECT l.source_id FROM summary_source l JOIN below b ON b.id = l.summary_id)"
            " SELECT l.summary_id, l.source_id FROM summary_source l JOIN below b ON b.id = l.summary_id"
            " ORDER BY l.summary_id, l.ordinal",
            id=summary_id,
            conversation=conversation_id,
            owner=self.owner,
        )
        return [(row[0], row[1]) for row in rows]

    def branches(self, conversation_id: int, ids: Sequence[int]) -> dict[int, BranchRow]:
        rows = self.all(
            f"SELECT {_BRANCH_COLUMNS} FROM summary s WHERE s.conversation_id = :conversation"
            f" AND s.id IN ({self.each_of('ids', 'bigint')}) AND {OWNED}",
            conversation=conversation_id,
            ids=self.listing(ids),
            owner=self.owner,
        )
        return {row[0]: BranchRow(*row) for row in rows}

    def leaves_over(self, conversation_id: int, seqs: Sequence[int]) -> dict[int, str]:
        """Return the public id of the leaf of each of these messages that has one."""
        base = conversation_id * SPAN
        rows = self.all(
            "SELECT l.message_id, s.public_id FROM summary_message l JOIN summary s ON s.id = l.summary_id"
            f" WHERE l.message_id IN ({self.each_of('ids', 'bigint')}) AND s.conversation_id = :conversation"
            f" AND {OWNED} ORDER BY s.id DESC",
            ids=self.listing([base + seq for seq in seqs]),
            conversation=conversation_id,
            owner=self.owner,
        )
        return {row[0] - base: row[1] for row in rows}
