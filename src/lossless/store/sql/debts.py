"""Pending compactions: recorded, claimed by a worker, settled."""

from __future__ import annotations

from msgspec.structs import replace

from lossless.errors import LONGEST_PAUSE
from lossless.model.summaries import DebtStop
from lossless.store.rows.types import DebtRow
from lossless.store.sql.columns import (
    NO_LIMIT,
    UNSETTLED,
    Row,
)
from lossless.store.sql.section import Section

_DEBT_COLUMNS = ", ".join(f"d.{column}" for column in DebtRow.__struct_fields__).replace("d.key", "c.key")

# No time of ours lies further ahead than the longest pause: it is from a clock that was wrong, and does not count.
_FREE = (
    "(d.next_at <= :now OR d.next_at > :far)"
    " AND (d.lease_until IS NULL OR d.lease_until <= :now OR d.lease_until > :far)"
)

_IDLE = "(c.updated_at <= :idle OR c.updated_at > :far)"


def _far(now: int) -> int:
    return now + int((LONGEST_PAUSE + 60) * 1_000_000)


_FULL = (
    "(d.window_tokens > 0 AND (c.context_tokens + d.overhead > d.window_tokens"
    " OR c.context_tokens + d.overhead > :budget))"
)


class Debts(Section):
    """Pending compactions: recorded, claimed by a worker, settled."""

    def record(self, conversation_id: int, window: int, overhead: int, model: str | None, now: int) -> None:
        """Record that compaction is pending for a window; one record per conversation, the newest wins (in a transaction)."""
        self.run(
            "INSERT INTO debt (conversation_id, pending, window_tokens, overhead, model, requested_at)"
            " VALUES (:conversation, 1, :window, :overhead, :model, :now) ON CONFLICT (conversation_id) DO UPDATE SET"
            " attempts = CASE debt.pending WHEN 1 THEN debt.attempts ELSE 0 END,"
            " next_at = CASE debt.pending WHEN 1 THEN debt.next_at ELSE 0 END,"
            " requested_at = CASE debt.pending WHEN 1 THEN debt.requested_at ELSE excluded.requested_at END,"
            " pending = 1, window_tokens = excluded.window_tokens, overhead = excluded.overhead, model = excluded.model,"
            " revision = debt.revision + 1",
            conversation=conversation_id,
            window=window,
            overhead=overhead,
            model=model,
            now=now,
        )

    def get(self, conversation_id: int) -> DebtRow | None:
        rows = self.all(
            f"SELECT {_DEBT_COLUMNS} FROM debt d JOIN conversation c ON c.id = d.conversation_id"
            " WHERE d.conversation_id = :conversation AND c.owner = :owner",
            conversation=conversation_id,
            owner=self.owner,
        )
        return _debt(rows[0]) if rows else None

    def any_pending(self) -> bool:
        """Tell whether any work of this owner is pending."""
        rows = self.all(
            "SELECT 1 FROM debt d JOIN conversation c ON c.id = d.conversation_id"
            " WHERE c.owner = :owner AND c.active = 1 AND d.pending = 1 LIMIT 1",
            owner=self.owner,
        )
        return bool(rows)

    def claim(
        self, worker: str, *, now: int, idle_before: int, lease_until: int, tries: int, budget: int | None = None
    ) -> DebtRow | None:
        """Claim the oldest pending work until the lease ends: of a conversation without an
        ingest since `idle_before`. With `tries`, summaries to rewrite that failed less often count as pending work, too."""
        most = NO_LIMIT if budget is None else budget
        found = self._payable(now, idle_before, most)
        unsettled = [] if found or not tries else self._with_unsettled(now, idle_before, tries)
        if not (found or unsettled):
            return None  # seen without holding anything: looking for work must not keep writers waiting
        with self.store.transaction():
            for conversation_id in unsettled:
                self._reopen(conversation_id, now)
            found = self._payable(now, idle_before, most, self.store.skip_locked)
            if not found:
                return None
            self.run(
                "UPDATE debt SET worker = :worker, lease_until = :until WHERE conversation_id = :conversation",
                worker=worker,
                until=lease_until,
                conversation=found[0].conversation_id,
            )
        return replace(found[0], worker=worker, lease_until=lease_until)

    def _reopen(self, conversation_id: int, now: int) -> None:
        """Make summaries pending for rewriting, unless compaction is pending by now, which comes first."""
        self.run(
            "INSERT INTO debt (conversation_id, pending, window_tokens, overhead, requested_at)"
            " VALUES (:conversation, 1, 0, 0, :now) ON CONFLICT (conversation_id) DO UPDATE SET"
            " pending = 1, window_tokens = 0, overhead = 0, attempts = 0, next_at = 0,"
            " requested_at = excluded.requested_at, revision = debt.revision + 1 WHERE debt.pending = 0",
            conversation=conversation_id,
            now=now,
        )

    def _payable(self, now: int, idle_before: int, budget: int, lock: str = "") -> list[DebtRow]:
        """Return the next pending work: of an idle conversation, or of one whose context does not fit any more."""
        rows = self.all(
            f"SELECT {_DEBT_COLUMNS} FROM debt d JOIN conversation c ON c.id = d.conversation_id"
            f" WHERE c.owner = :owner AND c.active = 1 AND ({_IDLE} OR {_FULL}) AND d.pending = 1 AND {_FREE}"
            f" ORDER BY d.window_tokens = 0, d.requested_at LIMIT 1{lock}",
            owner=self.owner,
            idle=idle_before,
            now=now,
            far=_far(now),
            budget=budget,
        )
        return [_debt(row) for row in rows]

    def _with_unsettled(self, now: int, idle_before: int, tries: int) -> list[int]:
        """Return a conversation with summaries to rewrite and no pending work, if there is one."""
        rows = self.all(
            "SELECT c.id FROM conversation c LEFT JOIN debt d ON d.conversation_id = c.id"
            f" WHERE c.owner = :owner AND c.active = 1 AND {_IDLE} AND coalesce(d.pending, 0) = 0"
            f" AND (d.conversation_id IS NULL OR {_FREE}) AND EXISTS"
            f" (SELECT 1 FROM summary s WHERE s.conversation_id = c.id AND {UNSETTLED} AND s.tries < :tries) LIMIT 1",
            owner=self.owner,
            idle=idle_before,
            now=now,
            far=_far(now),
            tries=tries,
        )
        return [row[0] for row in rows]

    def renew(self, debt: DebtRow, lease_until: int) -> bool:
        """Extend a lease; False if it is no longer this worker's."""
        with self.store.transaction():
            held = self.run(
                "UPDATE debt SET lease_until = :until WHERE conversation_id = :conversation AND worker = :worker",
                until=lease_until,
                conversation=debt.conversation_id,
                worker=debt.worker,
            )
        return held > 0

    def settle(
        self, debt: DebtRow, *, pending: bool, attempts: int, next_at: int, stop: DebtStop, failure: str | None
    ) -> None:
        """Give claimed work back. If it was recorded again meanwhile it stays pending."""
        with self.store.transaction():
            self.run(
                "UPDATE debt SET worker = NULL, lease_until = NULL, attempts = :attempts, stop = :stop,"
                # Work recorded meanwhile does not wait for the work that was done.
                " next_at = CASE WHEN revision <> :revision AND :pending = 0 THEN 0 ELSE :next_at END, failure = :failure,"
                " stop_seq = (SELECT next_seq FROM conversation WHERE id = debt.conversation_id),"
                " pending = CASE revision WHEN :revision THEN :pending ELSE pending END"
                " WHERE conversation_id = :conversation AND worker = :worker",
                conversation=debt.conversation_id,
                worker=debt.worker,
                revision=debt.revision,
                pending=int(pending),
                attempts=attempts,
                next_at=next_at,
                stop=stop,
                failure=failure,
            )


def _debt(row: Row) -> DebtRow:
    conversation_id, key, pending, *rest = row
    return DebtRow(conversation_id, key, bool(pending), *rest)
