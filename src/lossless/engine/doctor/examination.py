"""The data that checks look at: each part is read once, by the first check that needs it."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

from lossless.config import Loaded, Settings
from lossless.engine.doctor.graph import Graph, build_graph
from lossless.engine.doctor.text_scan import MessageScan, SummaryScan, scan_messages, scan_summaries
from lossless.engine.shared.file_store import Files
from lossless.store.rows.types import ConversationRow, FaultRow, FileRow, Flaw
from lossless.store.store import Store


class Examination:
    """Conversations of one owner as they are at one time."""

    def __init__(
        self,
        store: Store,
        files: Files,
        settings: Settings,
        rows: Sequence[ConversationRow],
        *,
        now: int,
        whole_database: bool,
        thorough: frozenset[str] = frozenset(),
        loaded: Loaded | None = None,
        has_model: bool = False,
    ) -> None:
        self.store, self.files, self.settings, self.rows, self.now = store, files, settings, rows, now
        self.ids = [row.id for row in rows]
        self.whole_database = whole_database
        """True when the database itself is examined, not only these conversations."""
        self.thorough = thorough
        """Checks that the caller named; they may run longer."""
        self.loaded = loaded
        self.has_model = has_model
        """True when a model is configured: summaries written without one are then faults."""

    @cached_property
    def graph(self) -> Graph:
        """The summaries of these conversations and their sources."""
        return build_graph(
            self.store.integrity.nodes(self.ids),
            self.store.integrity.edges(self.ids),
            self.store.integrity.leaves(self.ids),
        )

    @cached_property
    def message_scan(self) -> MessageScan:
        """The result of reading every message once."""
        return scan_messages(self.store, self.ids, self.graph.sources)

    @cached_property
    def summary_scan(self) -> SummaryScan:
        """The result of reading every summary once."""
        return scan_summaries(self.store, self.ids)

    @cached_property
    def file_rows(self) -> dict[int, list[FileRow]]:
        """The files of each conversation."""
        return {each: self.store.files.of_conversation(each) for each in self.ids}

    @cached_property
    def flaws(self) -> dict[int, list[Flaw]]:
        """The violations of the promise in each conversation; only suspects are queried one by one."""
        suspects = self.store.integrity.suspects(self.ids) | self.graph.entangled()
        for query in ("numbers", "outside", "costs", "sums"):
            suspects |= {row.conversation or 0 for row in self.store.integrity.faults(query, self.ids, self.now)}
        return {each: self.store.promise.flaws(each) if each in suspects else [] for each in self.ids}

    def query(self, *names: str) -> list[FaultRow]:
        """Return the rows that these integrity queries of the store select."""
        return [row for name in names for row in self.store.integrity.faults(name, self.ids, self.now)]
