"""Calls of our own recall tools and their results: marked when they are stored, left out of searches."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache
from itertools import groupby

from lossless.store import jsontext
from lossless.store.recall_calls import CallHistory, MessageWords, encode_spans, index_words, may_be_result
from lossless.store.rows.codec import links_in
from lossless.store.rows.types import SPAN
from lossless.store.sql.section import Section

SCHEMA_VERSION = 14
"""The version of the schema that marks them."""
NO_RECALL = "NOT EXISTS (SELECT 1 FROM recall_call r WHERE r.message_id = {} AND r.spans IS NULL)"
"""The condition that a message is more than recall calls and their results."""


class RecallCalls(Section):
    """The marks of messages that contain recall calls or their results."""

    _are_marked = False

    @property
    def are_marked(self) -> bool:
        """False in a database of an older version, which does not tell recall from other messages."""
        if not self._are_marked:
            self._are_marked = self.store.version() >= SCHEMA_VERSION
        return self._are_marked

    def index(self, messages: Sequence[MessageWords]) -> None:
        """In a transaction: mark new messages, ascending by id, and add their words to the search index."""
        marks: dict[int, str | None] = {}
        if self._may_contain_recall(messages):
            marks = self._find(messages)
            self._write(marks)
        self.store.index(index_words([(identity, text) for identity, text, _ in messages], marks))

    def _may_contain_recall(self, messages: Sequence[MessageWords]) -> bool:
        """Return False if none of the messages names a recall tool or could be the result of an earlier call."""
        parts = [each for _, _, each in messages if each is not None]
        if any("lcm_" in each for each in parts):
            return self.are_marked
        if not any(may_be_result(each) for each in parts) or not self.are_marked:
            return False
        return self._has_any(messages[0][0] // SPAN * SPAN, messages[-1][0])

    def _has_any(self, base: int, before: int) -> bool:
        marked = "SELECT 1 FROM recall_call WHERE message_id > :base AND message_id < :before LIMIT 1"
        return bool(self.all(marked, base=base, before=before))

    def mark_all(self) -> None:
        """In a transaction: find the recall calls of all conversations again."""
        self.run("DELETE FROM recall_call")
        calling = f"SELECT m.conversation_id FROM message m WHERE {self.store.finds.format('m.parts', ':name')}"
        last = 0
        while rows := self.all(
            "SELECT m.id, m.text, m.parts FROM message m WHERE m.id > :last AND m.parts IS NOT NULL"
            f" AND m.conversation_id IN ({calling}) ORDER BY m.id LIMIT 1000",
            name="lcm_",
            last=last,
        ):
            self._write(self._find((row[0], row[1], row[2]) for row in rows))
            last = rows[-1][0]

    def remove(self, ids: Sequence[int]) -> None:
        """In a transaction: remove the marks of messages that have no words any more."""
        if self.are_marked:
            self.run(
                f"DELETE FROM recall_call WHERE message_id IN ({self.each_of('ids', 'bigint')})",
                ids=self.listing(ids),
            )

    def between(self, first: int, last: int) -> dict[int, str | None]:
        """Return the marks of messages from one id to another."""
        if not self.are_marked:
            return {}
        rows = self.all(
            "SELECT message_id, spans FROM recall_call WHERE message_id BETWEEN :first AND :last",
            first=first,
            last=last,
        )
        return {row[0]: row[1] for row in rows}

    def _find(self, messages: Iterable[MessageWords]) -> dict[int, str | None]:
        """Return the marks of the messages that contain recall, by id."""
        marks: dict[int, str | None] = {}
        for conversation_id, group in groupby(messages, key=lambda each: each[0] // SPAN):
            calls: CallHistory | None = None
            for identity, text, parts in group:
                if parts is None:
                    continue
                if calls is None:
                    calls = CallHistory(self._stored_calls(conversation_id, identity))
                has_recall, spans = calls.find(text, parts)
                if has_recall:
                    marks[identity] = encode_spans(spans)
        return marks

    def _stored_calls(self, conversation_id: int, before: int) -> Callable[[str], bool]:
        """Return a function that tells from its id whether a stored call before a message is a recall call."""
        given = {"base": conversation_id * SPAN, "before": before}

        @cache
        def has_any() -> bool:
            return self._has_any(**given)

        def is_recall(call_id: str) -> bool:
            if not has_any():
                return False
            call = jsontext.dumps_plain(call_id)
            has_call = self.store.finds.format("m.parts", ":call")
            newest = self.all(
                "SELECT max(m.id) FROM recall_call r JOIN message m ON m.id = r.message_id"
                f" WHERE r.message_id > :base AND r.message_id < :before AND {has_call}",
                call=call,
                **given,
            )[0][0]
            if newest is None:
                return False
            # Some hosts count their calls from one in every turn: the newest call of an id is the one that counts.
            later = self.all(
                f"SELECT m.parts FROM message m WHERE m.id > :newest AND m.id < :before AND {has_call}",
                newest=newest,
                call=call,
                before=before,
            )
            return not any(call_id in links_in(parts)[0] for (parts,) in later)

        return is_recall

    def _write(self, marks: Mapping[int, str | None]) -> None:
        for identity, spans in marks.items():
            self.run(
                "INSERT INTO recall_call (message_id, spans) VALUES (:id, :spans)"
                " ON CONFLICT (message_id) DO UPDATE SET spans = excluded.spans",
                id=identity,
                spans=spans,
            )
