"""Erase forgotten words and every trace of them."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Sequence
from contextlib import closing
from itertools import chain

from lossless.store import jsontext
from lossless.store.rows.types import MESSAGE, SPAN, ItemRow, Kept, NewSummary, SummaryRow
from lossless.store.sql.section import Section

# Every column that may hold words of a message, and how its row is called: a condition on an alias `c` tells whose it is.
_WORDS = (
    ("message t JOIN conversation c ON c.id = t.conversation_id", "'msg#' || t.id", ("text", "parts", "meta", "event_id")),
    ("copy t JOIN message m ON m.id = t.message_id JOIN conversation c ON c.id = m.conversation_id",
     "'a copy of msg#' || m.id", ("text", "parts", "meta")),
    ("summary t JOIN conversation c ON c.id = t.conversation_id", "t.public_id", ("text", "file_ids")),
    ("revision t JOIN summary s ON s.id = t.summary_id JOIN conversation c ON c.id = s.conversation_id",
     "'an earlier text of ' || s.public_id", ("text",)),
    ("pin t JOIN conversation c ON c.id = t.conversation_id", "t.id", ("text",)),
    ("brief t JOIN conversation c ON c.id = t.conversation_id", "t.id", ("name", "task", "text")),
    ("file t JOIN conversation c ON c.id = t.conversation_id", "t.id", ("name", "summary")),
    ("cursor t JOIN conversation c ON c.id = t.conversation_id", "'a cursor of ' || c.key", ("source", "state")),
    ("grant_read t JOIN recall_grant c ON c.id = t.grant_id", "'the ledger of ' || c.id", ("what",)),
    ("recall_grant t JOIN recall_grant c ON c.id = t.id", "t.id", ("origin", "request_id")),
    ("alias t JOIN conversation c ON c.id = t.conversation_id", "'an event id of ' || c.key", ("name",)),
    ("debt t JOIN conversation c ON c.id = t.conversation_id", "'the pending work of ' || c.key", ("failure",)),
    ("operation t JOIN conversation c ON c.id = t.conversation_id", "t.id", ("plan", "summary")),
    ("change t JOIN operation o ON o.id = t.operation_id JOIN conversation c ON c.id = o.conversation_id", "o.id", ("before",)),
    ("conversation t JOIN conversation c ON c.id = t.id", "'the title of ' || c.key", ("key", "title")),
)  # fmt: skip

_MOST = 5

_ID = re.compile(r"(?:(?:sum|file)_[0-9a-f]{16}|msg#[0-9]+|[0-9]+)")


class Erase(Section):
    """Erases forgotten words and every trace of them."""

    def random_key(self, name: str, now: int) -> str:
        """Return a random text of this owner, made on first use and kept."""
        key = self.store.state._guard_name(name)
        if not (rows := self.all("SELECT state FROM guard WHERE name = :name", name=key)):
            with self.store.transaction():
                self.run(
                    "INSERT INTO guard (name, state, updated_at) VALUES (:name, :state, :now) ON CONFLICT DO NOTHING",
                    name=key,
                    state=jsontext.dumps(os.urandom(32).hex()),
                    now=now,
                )
            rows = self.all("SELECT state FROM guard WHERE name = :name", name=key)
        return str(jsontext.loads(rows[0][0]))

    def copied_on(self) -> list[tuple[int, bytes]]:
        """Return ids and digests of messages copied from other conversations of this owner and not forgotten."""
        rows = self.all(
            f"SELECT m.id, m.digest FROM transplant t JOIN message m ON m.id >= t.conversation_id * {SPAN} + t.first_seq"
            f" AND m.id <= t.conversation_id * {SPAN} + t.last_seq JOIN conversation c ON c.id = t.conversation_id"
            " WHERE c.owner = :owner AND coalesce(m.outside, '') <> 'forgotten'",
            owner=self.owner,
        )
        return [(row[0], bytes(row[1])) for row in rows]

    def beside(self, conversation_id: int, seqs: Sequence[int]) -> tuple[int, int]:
        """Return how many vectors, and how many other texts under their event ids, these messages have."""
        ids = self.listing([conversation_id * SPAN + seq for seq in seqs])
        counts = [
            self.all(f"SELECT count(*) FROM {table} WHERE message_id IN ({self.each_of('ids', 'bigint')})", ids=ids)
            for table in ("vector", "copy")
        ]
        return counts[0][0][0], counts[1][0][0]

    def unlink(self, conversation_id: int, summary_id: int, seqs: Sequence[int]) -> None:
        """Remove these messages from the sources of a summary (in a transaction)."""
        self.run(
            f"DELETE FROM summary_message WHERE summary_id = :summary AND message_id IN ({self.each_of('ids', 'bigint')})",
            summary=summary_id,
            ids=self.listing([conversation_id * SPAN + seq for seq in seqs]),
        )

    def reword(self, conversation_id: int, old: SummaryRow, new: NewSummary) -> None:
        """Replace the text of a summary without a trace of earlier texts; the context follows (in a transaction)."""
        columns = [name for name in NewSummary.__struct_fields__ if name not in ("public_id", "depth")]
        self.run("DELETE FROM revision WHERE summary_id = :id", id=old.id)
        self.store.briefs.remove_made_from([old.public_id])
        self.run(
            f"UPDATE summary SET {', '.join(f'{name} = :{name}' for name in columns)}, revision = revision + 1,"
            " stale = 0, tries = 0 WHERE id = :id",
            id=old.id,
            **{name: getattr(new, name) for name in columns},
        )
        self._reseal(conversation_id, [old.id])
        self._weigh(conversation_id, old.id, new.tokens)
        self.store.index_summary(old.id, new.text)

    def _reseal(self, conversation_id: int, ids: Sequence[int]) -> None:
        """Update the seals of summaries that lost sources, and of all that were made from them.

        It is done in the transaction that takes the sources, so that nothing looks damaged in between.
        """
        seen: set[int] = set()  # a damaged history may lead back to itself
        while ids:
            for summary_id in ids:
                self._reseal_one(conversation_id, summary_id)
            seen.update(ids)
            ids = [each for each in self._made_from(ids) if each not in seen]

    def _reseal_one(self, conversation_id: int, summary_id: int) -> None:
        below = self._below(summary_id)
        if below and not below[0].is_message:
            # Where sources went the others move up: their order has no gaps.
            self.run("DELETE FROM summary_source WHERE summary_id = :id", id=summary_id)
            links = [(summary_id, item.summary_id, at) for at, item in enumerate(below)]
            self.insert("summary_source", ("summary_id", "source_id", "ordinal"), links)
        seal = self.store.context.seal_of(conversation_id, below) if below else None
        self.run("UPDATE summary SET source_hash = :seal WHERE id = :id", seal=seal, id=summary_id)

    def _made_from(self, ids: Sequence[int]) -> list[int]:
        rows = self.all(
            f"SELECT DISTINCT summary_id FROM summary_source WHERE source_id IN ({self.each_of('ids', 'bigint')})",
            ids=self.listing(ids),
        )
        return [row[0] for row in rows]

    def _below(self, summary_id: int) -> list[ItemRow]:
        """Return what a summary is made from now."""
        messages = self.all("SELECT message_id FROM summary_message WHERE summary_id = :id ORDER BY 1", id=summary_id)
        sources = self.all(
            "SELECT source_id FROM summary_source WHERE summary_id = :id ORDER BY ordinal", id=summary_id
        )
        return [ItemRow(each[0] % SPAN, None, 0, MESSAGE) for each in messages] or [
            ItemRow(0, each[0], 0, 0) for each in sources
        ]

    def _weigh(self, conversation_id: int, summary_id: int, tokens: int) -> None:
        """Update the tokens of a summary wherever it is counted."""
        for table in ("item", "detached"):
            self.run(f"UPDATE {table} SET tokens = :tokens WHERE summary_id = :id", tokens=tokens, id=summary_id)
        self.run(
            "UPDATE conversation SET context_tokens = (SELECT coalesce(sum(tokens), 0) FROM item"
            " WHERE conversation_id = :id) WHERE id = :id",
            id=conversation_id,
        )

    def drop_summary(self, conversation_id: int, summary_id: int) -> None:
        """Remove a summary of which nothing is left (in a transaction)."""
        self.store.tables.keep_ids("summary")
        self._weigh(conversation_id, summary_id, 0)
        named = self.all("SELECT public_id FROM summary WHERE id = :id", id=summary_id)
        self.store.briefs.remove_made_from([row[0] for row in named])
        above = self._made_from([summary_id])
        for table, column in (
            ("revision", "summary_id"),
            ("summary_source", "summary_id"),
            ("summary_source", "source_id"),
            ("item", "summary_id"),
            ("detached", "summary_id"),
            ("summary", "id"),
        ):
            self.run(f"DELETE FROM {table} WHERE {column} = :id", id=summary_id)
        self.store.operations.unindex_row("summary", summary_id)
        self._reseal(conversation_id, above)

    def clear(self, conversation_id: int, seqs: Sequence[int], *, title: bool) -> None:
        """Remove other traces of forgotten messages. A digest goes where the event id still identifies the message."""
        self.run(
            f"UPDATE message SET digest = :none WHERE id IN ({self.each_of('ids', 'bigint')}) AND event_id IS NOT NULL"
            " AND NOT EXISTS (SELECT 1 FROM conversation c WHERE c.id = :conversation AND c.transcribed = 1)",
            none=bytes(16),
            ids=self.listing([conversation_id * SPAN + seq for seq in seqs]),
            conversation=conversation_id,
        )
        self.run("UPDATE debt SET failure = NULL WHERE conversation_id = :id", id=conversation_id)
        # What was done to this conversation cannot be undone any more: the way back led through these words.
        self.run(
            "DELETE FROM change WHERE operation_id IN (SELECT id FROM operation WHERE conversation_id = :id)",
            id=conversation_id,
        )
        self.run("DELETE FROM operation WHERE conversation_id = :id", id=conversation_id)
        self._clear_ledger(conversation_id)
        if title:
            self.run("UPDATE conversation SET title = NULL WHERE id = :id", id=conversation_id)

    def remove_files(self, conversation_id: int, ids: Sequence[str]) -> None:
        """Remove rows of files, and their ids from summaries; the bytes belong to the files directory (in a transaction)."""
        self.run(
            f"DELETE FROM file WHERE conversation_id = :conversation AND id IN ({self.each_of('ids', 'text')})",
            conversation=conversation_id,
            ids=self.listing(ids),
        )
        listed = self.all(
            "SELECT id, file_ids FROM summary WHERE conversation_id = :id AND file_ids <> '[]'", id=conversation_id
        )
        for summary_id, before in listed:
            names = jsontext.stored(before)
            if not set(names).isdisjoint(ids):
                kept = jsontext.dumps([name for name in names if name not in ids])
                self.run("UPDATE summary SET file_ids = :kept WHERE id = :id", kept=kept, id=summary_id)

    def _clear_ledger(self, conversation_id: int) -> None:
        """Remove the questions from grants that reach the conversation, unless they are only ids."""
        # A grant covers the families of its conversations: whatever was ever under their keys, and sub-agents below.
        grants = (
            "SELECT g.grant_id FROM grant_conversation g JOIN conversation c ON c.id = g.conversation_id"
            " WHERE c.owner = :owner AND c.key IN (WITH RECURSIVE above (key, parent_id) AS ("
            "SELECT key, parent_id FROM conversation WHERE id = :id"
            " UNION SELECT o.key, o.parent_id FROM conversation o JOIN above a ON o.owner = :owner"
            " AND (o.id = a.parent_id OR o.key = a.key)) SELECT key FROM above)"
        )
        given = {"owner": self.owner, "id": conversation_id}
        rows = self.all(f"SELECT DISTINCT r.what FROM grant_read r WHERE r.grant_id IN ({grants})", **given)
        if texts := [what for (what,) in rows if what and not _ID.fullmatch(what)]:
            self.run(
                f"UPDATE grant_read SET what = '' WHERE what IN ({self.each_of('texts', 'text')})"
                f" AND grant_id IN ({grants})",
                texts=self.listing(texts),
                **given,
            )

    def holding(self, needles: Sequence[str]) -> dict[str, Kept]:
        """Return which of these words rows still contain, as text or as JSON writes it, and where."""
        forms = {each: sorted({each, jsontext.dumps_plain(each)[1:-1], json.dumps(each)[1:-1]}) for each in needles}
        given = {f"n{at}": form for at, form in enumerate(dict.fromkeys(chain.from_iterable(forms.values())))}
        names: dict[str, list[str]] = {}
        counts: dict[str, int] = {}
        for source, name, columns in _WORDS if needles else ():
            words = " || ' ' || ".join(f"coalesce(t.{column}, '')" for column in columns)
            found = " OR ".join(self.store.finds.format("words", f":{each}") for each in given)
            rows = self.stream(
                f"SELECT name, owner, words FROM (SELECT {name} AS name, c.owner AS owner, {words} AS words FROM {source}) q"
                f" WHERE {found}",
                **given,
            )
            seen: dict[str, int] = {}
            with closing(rows):
                for called, owner, text in rows:
                    for needle in needles:
                        if any(form in text for form in forms[needle]):
                            counts[needle] = counts.get(needle, 0) + 1
                            seen[needle] = seen.get(needle, 0) + 1
                            if owner == self.owner and seen[needle] <= _MOST:
                                names.setdefault(needle, []).append(called)
        return {needle: Kept(tuple(names.get(needle, ())), counts[needle]) for needle in needles if needle in counts}
