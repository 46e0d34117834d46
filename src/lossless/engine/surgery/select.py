"""Which summaries an operation is about, in the order in which they are made: each after its sources."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator

from msgspec import Struct

from lossless.config import Settings
from lossless.engine.compaction import prompts, summary_lengths
from lossless.engine.compaction.prompts import Templates
from lossless.engine.surgery.flaws import flaw
from lossless.errors import InvalidInput, NotFound
from lossless.model import Step
from lossless.store.base import ConversationRow
from lossless.store.rows import moment
from lossless.store.store import Store
from lossless.tokens import estimate

_COLUMNS = (
    "id",
    "public_id",
    "depth",
    "tokens",
    "earliest_at",
    "latest_at",
    "created_at",
    "source_tokens",
    "level",
    "model",
    "faithful",
    "text",
)


class Selection(Struct, frozen=True):
    """Which summaries are meant: exactly one of these says it."""

    summary: str | None = None
    depth: int | None = None
    all: bool = False
    subtree: str | None = None
    flawed: tuple[str, ...] = ()
    """Those that something is wrong with (see `marks.KINDS`), and whatever was made from them."""

    def refuse_unclear(self) -> None:
        named = [
            self.summary is not None,
            self.depth is not None,
            self.all,
            self.subtree is not None,
            bool(self.flawed),
        ]
        if sum(named) != 1:
            raise InvalidInput(
                "Say which summaries: one by its id, all of a depth, a subtree, or all.", hint="Exactly one of them."
            )
        if self.depth is not None and self.depth < 0:
            raise InvalidInput(f"depth={self.depth} is not a depth.", hint="Leaves have 0, what is made of them 1.")


class _Known(Struct, frozen=True, gc=False):
    """A summary without its text."""

    id: int
    name: str
    depth: int
    tokens: int
    earliest_at: int | None
    latest_at: int | None
    created_at: int
    source_tokens: int
    flaw: str


class Lineage(Struct):
    """All summaries of a conversation, and which was made from which."""

    known: dict[int, _Known]
    sources: dict[int, list[int]]
    consumers: dict[int, list[int]]
    hidden: set[int]
    """Those that were dissolved: nobody reads them, so they are only made anew by name."""

    @classmethod
    def read(cls, store: Store, conversation_id: int) -> Lineage:
        rows = store.tables.part("summary", conversation_id, _COLUMNS)
        known = {row[0]: _Known(*(*row[:8], flaw(row[11], *row[8:11]))) for row in rows}
        sources: dict[int, list[int]] = {}
        consumers: dict[int, list[int]] = {}
        for each, source in store.tables.part("summary_source", conversation_id, ("summary_id", "source_id")):
            sources.setdefault(each, []).append(source)
            consumers.setdefault(source, []).append(each)
        gone = {item.summary_id for item, cause, _ in store.context.detached(conversation_id) if cause == "dissolved"}
        return cls(known, sources, consumers, {each for each in gone if each is not None})

    def chosen(self, selection: Selection) -> dict[int, str]:
        """The ids that are meant, and why each."""
        shown = [each for each in self.known.values() if each.id not in self.hidden]
        if selection.flawed:
            flawed = {each.id: each.flaw for each in shown if each.flaw in selection.flawed}
            above = _reached(flawed, self.consumers)
            return {each: "follows" for each in above if each not in self.hidden} | flawed
        if selection.subtree is not None:
            return dict.fromkeys(_reached([self._named(selection.subtree)], self.sources), "chosen")
        if selection.summary is not None:
            return {self._named(selection.summary): "chosen"}
        return {each.id: "chosen" for each in shown if selection.all or each.depth == selection.depth}

    def _named(self, name: str) -> int:
        found = next((each.id for each in self.known.values() if each.name == name), None)
        if found is None:
            raise NotFound("summary", name, hint="`lcm summaries list` lists those of a conversation.")
        return found


def steps(
    store: Store,
    conversation: ConversationRow,
    selection: Selection | dict[str, str],
    settings: Settings,
    templates: Templates,
) -> tuple[Step, ...]:
    """The summaries that are meant, bottom-up, each with what it takes to make it anew.

    They are selected, or named with the reason for each; what is not there any more is passed over.
    """
    lineage = Lineage.read(store, conversation.id)
    if isinstance(selection, Selection):
        selection.refuse_unclear()
        chosen = lineage.chosen(selection)
    else:
        chosen = {each.id: selection[each.name] for each in lineage.known.values() if each.name in selection}
    order = sorted((lineage.known[each] for each in chosen), key=_order)
    said = Counter(
        each
        for (each,) in (store.tables.part("summary_message", conversation.id, ("summary_id",)) if order else ())
        if each in chosen
    )
    around = {depth: _around(depth, settings, templates) for depth in {each.depth for each in order}}
    return tuple(_step(each, chosen[each.id], lineage, said, around, settings) for each in order)


def stages(planned: Iterable[Step]) -> Iterator[list[Step]]:
    """The steps of one depth after the other: within a depth none needs another."""
    by_depth: dict[int, list[Step]] = {}
    for step in planned:
        by_depth.setdefault(step.depth, []).append(step)
    for depth in sorted(by_depth):
        yield by_depth[depth]


def _step(
    known: _Known, reason: str, lineage: Lineage, said: Counter[int], around: dict[int, int], settings: Settings
) -> Step:
    sources = lineage.sources.get(known.id, [])
    size = sum(lineage.known[each].tokens for each in sources if each in lineage.known)
    size = size if known.depth else known.source_tokens
    return Step(
        known.name,
        known.depth,
        len(sources) if known.depth else said[known.id],
        known.tokens,
        size + around[known.depth],
        summary_lengths.target(known.depth, size, settings),
        None if known.earliest_at is None else moment(known.earliest_at),
        None if known.latest_at is None else moment(known.latest_at),
        reason,
    )


def _around(depth: int, settings: Settings, templates: Templates) -> int:
    """What a request costs beside the history in it."""
    asked = prompts.preview(prompts.template_name(depth), settings, source=" ", depth=depth, templates=templates)
    return estimate(asked.system) + estimate(asked.prompt)


def _order(known: _Known) -> tuple[int, int, int, int]:
    since = known.created_at if known.earliest_at is None else known.earliest_at
    return known.depth, since, known.created_at, known.id


def _reached(start: Iterable[int], links: dict[int, list[int]]) -> list[int]:
    """Whatever the links lead to, the start included; each once."""
    waiting, seen = list(start), dict[int, None]()
    while waiting:
        each = waiting.pop()
        if each not in seen:
            seen[each] = None
            waiting += links.get(each, ())
    return list(seen)
