"""Select the summaries of an operation, in the order of writing: each after its sources."""

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
from lossless.store.rows.codec import moment
from lossless.store.rows.types import ConversationRow
from lossless.store.store import Store
from lossless.summarizers.base import METHOD
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
    "prompt_version",
    "text",
)


class Selection(Struct, frozen=True):
    """A selection of summaries by exactly one of these fields."""

    summary: str | None = None
    depth: int | None = None
    all: bool = False
    subtree: str | None = None
    flawed: tuple[str, ...] = ()
    """Summaries with these flaws (`FLAW_KINDS`), and all summaries above them."""
    outdated: bool = False
    """With `flawed`: only those that today's version of the built-in summariser did not write."""

    def check(self) -> None:
        """Raise `InvalidInput` unless exactly one field is set."""
        named = [
            self.summary is not None,
            self.depth is not None,
            self.all,
            self.subtree is not None,
            bool(self.flawed),
        ]
        if sum(named) != 1:
            raise InvalidInput(
                "Which summaries is not clear.", hint="Give exactly one of: an id, a depth, a subtree, all."
            )
        if self.depth is not None and self.depth < 0:
            raise InvalidInput(
                f"depth={self.depth} is not a depth.", hint="Leaves have depth 0, condensed summaries 1 or more."
            )


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
    outdated: bool
    """True unless today's version of the built-in summariser wrote it."""


class Lineage(Struct):
    """All summaries of a conversation with their sources and consumers."""

    known: dict[int, _Known]
    sources: dict[int, list[int]]
    consumers: dict[int, list[int]]
    hidden: set[int]
    """Dissolved summaries: no context shows them, so they are rewritten only by name."""

    @classmethod
    def read(cls, store: Store, conversation_id: int) -> Lineage:
        """Read the summaries of a conversation from the store."""
        rows = store.tables.part("summary", conversation_id, _COLUMNS)
        known = {row[0]: _Known(*(*row[:8], flaw(row[12], *row[8:11]), row[11] != METHOD)) for row in rows}
        sources: dict[int, list[int]] = {}
        consumers: dict[int, list[int]] = {}
        for each, source in store.tables.part("summary_source", conversation_id, ("summary_id", "source_id")):
            sources.setdefault(each, []).append(source)
            consumers.setdefault(source, []).append(each)
        dissolved = {
            item.summary_id for item, cause, _ in store.context.detached(conversation_id) if cause == "dissolved"
        }
        return cls(known, sources, consumers, {each for each in dissolved if each is not None})

    def select(self, selection: Selection) -> dict[int, str]:
        """Return the selected ids, with the reason for each."""
        shown = [each for each in self.known.values() if each.id not in self.hidden]
        if selection.flawed:
            flawed = {
                each.id: each.flaw
                for each in shown
                if each.flaw in selection.flawed and (each.outdated or not selection.outdated)
            }
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
    """Return a step for each selected summary, bottom-up, with the cost of rewriting it.

    Summaries are selected, or named with the reason for each; missing ones are skipped.
    """
    lineage = Lineage.read(store, conversation.id)
    if isinstance(selection, Selection):
        selection.check()
        selected = lineage.select(selection)
    else:
        selected = {each.id: selection[each.name] for each in lineage.known.values() if each.name in selection}
    order = sorted((lineage.known[each] for each in selected), key=_order)
    messages = Counter(
        each
        for (each,) in (store.tables.part("summary_message", conversation.id, ("summary_id",)) if order else ())
        if each in selected
    )
    overhead = {depth: _overhead(depth, settings, templates) for depth in {each.depth for each in order}}
    return tuple(_step(each, selected[each.id], lineage, messages, overhead, settings) for each in order)


def stages(planned: Iterable[Step]) -> Iterator[list[Step]]:
    """Yield the steps depth by depth; within a depth they are independent."""
    by_depth: dict[int, list[Step]] = {}
    for step in planned:
        by_depth.setdefault(step.depth, []).append(step)
    for depth in sorted(by_depth):
        yield by_depth[depth]


def _step(
    known: _Known, reason: str, lineage: Lineage, messages: Counter[int], overhead: dict[int, int], settings: Settings
) -> Step:
    sources = lineage.sources.get(known.id, [])
    size = sum(lineage.known[each].tokens for each in sources if each in lineage.known)
    size = size if known.depth else known.source_tokens
    return Step(
        known.name,
        known.depth,
        len(sources) if known.depth else messages[known.id],
        known.tokens,
        size + overhead[known.depth],
        summary_lengths.target(known.depth, size, settings),
        None if known.earliest_at is None else moment(known.earliest_at),
        None if known.latest_at is None else moment(known.latest_at),
        reason,
    )


def _overhead(depth: int, settings: Settings, templates: Templates) -> int:
    """Return the tokens of a request besides its history."""
    request = prompts.preview(prompts.template_name(depth), settings, source=" ", depth=depth, templates=templates)
    return estimate(request.system) + estimate(request.prompt)


def _order(known: _Known) -> tuple[int, int, int, int]:
    since = known.created_at if known.earliest_at is None else known.earliest_at
    return known.depth, since, known.created_at, known.id


def _reached(start: Iterable[int], links: dict[int, list[int]]) -> list[int]:
    """Return everything the links lead to, the start included; each once."""
    waiting, seen = list(start), dict[int, None]()
    while waiting:
        each = waiting.pop()
        if each not in seen:
            seen[each] = None
            waiting += links.get(each, ())
    return list(seen)
