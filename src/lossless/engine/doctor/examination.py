"""What is examined, and what was read of it: once, however many checks ask."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import NamedTuple

from lossless.config import Loaded, Settings
from lossless.engine.doctor.graph import Graph, graph
from lossless.engine.doctor.text_scan import Heard, Read, hear, read
from lossless.engine.shared.file_store import Files
from lossless.model import Severity
from lossless.store.base import ConversationRow, FileRow, Flaw, Store
from lossless.store.base import Step as Step


class Fault(NamedTuple):
    """One thing that is not as a check wants it."""

    check: str
    conversation: int | None
    what: str
    step: Step | None = None
    severity: Severity | None = None
    """If not that of the check."""
    told: str = ""
    """If not what the check says."""


class Ward:
    """Some conversations of an owner, to be examined at one moment."""

    def __init__(
        self,
        store: Store,
        files: Files,
        settings: Settings,
        rows: Sequence[ConversationRow],
        *,
        now: int,
        everything: bool,
        closely: frozenset[str] = frozenset(),
        loaded: Loaded | None = None,
        has_model: bool = False,
    ) -> None:
        self.store, self.files, self.settings, self.rows, self.now = store, files, settings, rows, now
        self.ids = [row.id for row in rows]
        self.everything = everything
        """Whether the database as a whole is examined too, not only these conversations."""
        self.closely = closely
        """Checks that were asked for by name, and may take their time."""
        self.loaded = loaded
        self.has_model = has_model
        """Whether a model is configured: then summaries without one are not as they should be."""

    @cached_property
    def graph(self) -> Graph:
        return graph(self.store.nodes(self.ids), self.store.edges(self.ids), self.store.leaves(self.ids))

    @cached_property
    def heard(self) -> Heard:
        return hear(self.store, self.ids, self.graph.sources)

    @cached_property
    def read(self) -> Read:
        return read(self.store, self.ids)

    @cached_property
    def payloads(self) -> dict[int, list[FileRow]]:
        """The files of each conversation."""
        return {each: self.store.files(each) for each in self.ids}

    @cached_property
    def flaws(self) -> dict[int, list[Flaw]]:
        """How each conversation breaks the promise. Only those that may are asked one by one."""
        asked = self.store.suspects(self.ids) | self.graph.entangled()
        for question in ("numbers", "outside", "costs", "sums"):
            asked |= {row.conversation or 0 for row in self.store.faults(question, self.ids, self.now)}
        return {each: self.store.flaws(each) if each in asked else [] for each in self.ids}

    def found(self, check: str, *questions: str) -> list[Fault]:
        """The answers of the store to some questions, as faults of a check."""
        return [
            Fault(check, row.conversation, row.what, row.step)
            for question in questions
            for row in self.store.faults(question, self.ids, self.now)
        ]
