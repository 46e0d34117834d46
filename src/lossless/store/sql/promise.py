"""The promise, checked in the database: every message exactly once, in order."""

from __future__ import annotations

from lossless.store.rows.types import SPAN, Flaw
from lossless.store.sql.section import Section

# What was copied from another conversation stands before everything else: its messages have places of their own in the order.
# `reached` holds a row for each time a message is reached from the context (away = 0) or from what was taken out of it. Sets are
# compared with EXCEPT and GROUP BY: what a planner guesses about a join of this size may be wrong by orders of magnitude.
_REACHED = """
WITH RECURSIVE
me AS MATERIALIZED (
  SELECT id, next_seq, context_tokens FROM conversation WHERE id = :conversation AND owner = :owner),
placed AS MATERIALIZED (
  SELECT i.ordinal, i.summary_id, i.tokens, i.depth, 0 AS away FROM item i JOIN me ON me.id = i.conversation_id
  UNION ALL
  SELECT d.ordinal, d.summary_id, d.tokens, d.depth, 1 FROM detached d JOIN me ON me.id = d.conversation_id
    WHERE d.cause <> 'dissolved'),
under (ordinal, root, away, id) AS (
  SELECT ordinal, summary_id, away, summary_id FROM placed WHERE summary_id IS NOT NULL
  UNION
  SELECT u.ordinal, u.root, u.away, l.source_id FROM under u JOIN summary_source l ON l.summary_id = u.id),
reached AS MATERIALIZED (
  SELECT ordinal, ordinal AS seq, away FROM placed WHERE summary_id IS NULL
  UNION ALL
  SELECT u.ordinal, l.message_id - :base, u.away FROM under u JOIN summary_message l ON l.summary_id = u.id),
copied AS MATERIALIZED (
  SELECT t.first_seq, t.last_seq, t.place - t.first_seq AS back FROM transplant t JOIN me ON me.id = t.conversation_id),
counted AS MATERIALIZED (SELECT seq, count(*) AS times FROM reached GROUP BY seq),
span AS MATERIALIZED (
  SELECT t.ordinal, min(t.seq + coalesce(c.back, 0)) AS first, max(t.seq + coalesce(c.back, 0)) AS last
    FROM reached t LEFT JOIN copied c ON t.seq BETWEEN c.first_seq AND c.last_seq WHERE t.away = 0 GROUP BY t.ordinal),
ordered AS (
  SELECT ordinal, first,
         max(last) OVER (ORDER BY ordinal ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS before FROM span)
"""

_FLAWS = {
    "gap": "SELECT count(*), CAST(NULL AS TEXT), CAST(NULL AS TEXT) FROM me,"
    " (SELECT count(*) AS many, coalesce(max(m.id), :base) - :base AS last FROM message m"
    " WHERE m.id > :base AND m.id < :end) AS f WHERE next_seq - 1 <> many OR next_seq - 1 <> last",
    "missing": "SELECT count(*), CAST(min(seq) AS TEXT), CAST(max(seq) AS TEXT) FROM (SELECT m.id - :base AS seq"
    " FROM message m WHERE m.id > :base AND m.id < :end AND m.outside IS NULL AND EXISTS (SELECT 1 FROM me)"
    " EXCEPT SELECT seq FROM counted) AS f",
    "twice": "SELECT count(*), CAST(min(seq) AS TEXT), CAST(max(seq) AS TEXT) FROM counted WHERE times > 1",
    "strange": "SELECT count(*), CAST(min(seq) AS TEXT), CAST(max(seq) AS TEXT) FROM counted, me"
    " WHERE seq < 1 OR seq >= next_seq",
    "outside": "SELECT count(*), CAST(min(p.ordinal) AS TEXT), CAST(max(p.ordinal) AS TEXT) FROM placed p JOIN message m"
    " ON m.id = :base + p.ordinal WHERE p.summary_id IS NULL AND p.away = 0 AND m.outside IS NOT NULL",
    "order": "SELECT count(*), CAST(min(ordinal) AS TEXT), CAST(max(ordinal) AS TEXT) FROM ordered"
    " WHERE first < ordinal OR before >= ordinal",
    "empty": "SELECT count(*), CAST(min(ordinal) AS TEXT), CAST(max(ordinal) AS TEXT) FROM (SELECT ordinal FROM placed"
    " WHERE away = 0 AND summary_id IS NOT NULL EXCEPT SELECT ordinal FROM span) AS f",
    "tokens": "SELECT count(*), CAST(min(p.ordinal) AS TEXT), CAST(max(p.ordinal) AS TEXT) FROM placed p"
    " LEFT JOIN message m ON p.summary_id IS NULL AND m.id = :base + p.ordinal"
    " LEFT JOIN summary s ON s.id = p.summary_id AND s.conversation_id = :conversation"
    " WHERE p.away = 0 AND coalesce(m.tokens, s.tokens) IS DISTINCT FROM p.tokens",
    "sum": "SELECT count(*), CAST(min(context_tokens) AS TEXT), CAST(NULL AS TEXT) FROM me"
    " WHERE context_tokens <> (SELECT coalesce(sum(tokens), 0) FROM placed WHERE away = 0)",
    "source": "SELECT count(*), min(s.public_id), max(s.public_id) FROM me JOIN summary s ON s.conversation_id = me.id"
    " JOIN summary_source l ON l.summary_id = s.id"
    " LEFT JOIN summary b ON b.id = l.source_id AND b.conversation_id = s.conversation_id"
    " WHERE b.id IS NULL OR b.depth >= s.depth",
}

# A source that is reached twice beneath one item is seen here only: above, each is followed once.
_FLAWS["again"] = (
    "SELECT count(*), CAST(min(source_id) AS TEXT), CAST(max(source_id) AS TEXT) FROM (SELECT l.source_id FROM under u"
    " JOIN summary_source l ON l.summary_id = u.id GROUP BY u.root, u.away, l.source_id HAVING count(*) > 1) AS a"
)

_EVERY = _REACHED + " UNION ALL ".join(
    f"SELECT '{name}' AS flaw, f.* FROM ({query}) AS f" for name, query in _FLAWS.items()
)


class Promise(Section):
    """The promise, checked in the database: every message exactly once, in order."""

    def flaws(self, conversation_id: int) -> list[Flaw]:
        """Return how a conversation breaks the promise, in one statement: one state, whatever others write."""
        base = conversation_id * SPAN
        rows = self.all(_EVERY, conversation=conversation_id, owner=self.owner, base=base, end=base + SPAN)
        return [Flaw(*row) for row in rows if row[1]]
