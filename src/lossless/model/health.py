"""Results of the doctor: findings, the proof that nothing is lost, fixes, cleaning."""

from __future__ import annotations

from typing import Literal, TypeAlias, get_args

from msgspec import Struct, field

Severity: TypeAlias = Literal["info", "warn", "error", "critical"]


class Finding(Struct, frozen=True):
    """A finding of a check, in one conversation or (None) in the whole database."""

    check: str
    severity: Severity
    conversation: int | None
    count: int
    samples: tuple[str, ...]
    """The ids of up to 20 of them."""
    text: str
    fixable: bool
    fix: str
    """The command that fixes it, if there is one."""


class Health(Struct, frozen=True):
    """The findings of the doctor."""

    findings: tuple[Finding, ...]
    checked: tuple[str, ...]
    """The checks that were run."""
    seconds: float

    def at_least(self, severity: Severity) -> tuple[Finding, ...]:
        """Return the findings of at least this severity."""
        levels = get_args(Severity)
        return tuple(each for each in self.findings if levels.index(each.severity) >= levels.index(severity))


class Proof(Struct, frozen=True):
    """The proof that no message of a conversation is lost: `context`, `below`, `detached`, `outside` and `tombstones` sum up to `messages`."""

    conversation: int
    key: str
    messages: int
    items: int
    """The number of items in the context."""
    context: int
    """Messages directly in the context."""
    below: int
    """Messages below the summaries of the context."""
    detached: dict[str, int]
    """Messages that left the context, by cause."""
    outside: dict[str, int]
    """Messages that are never shown to a model, by reason."""
    tombstones: dict[str, int]
    """Messages whose text was erased, by reason."""
    missing: int
    repeated: int
    """The number of times a message is reached more than once."""
    broken: tuple[str, ...]
    """The names of the conditions that do not hold."""
    summaries: int
    witnessed: int
    """Summaries whose recorded sources are unchanged."""
    changed: tuple[str, ...]
    """Summaries whose recorded sources have changed."""

    @property
    def accounted(self) -> int:
        """The number of messages that are accounted for."""
        beside = (self.detached, self.outside, self.tombstones)
        return self.context + self.below + sum(sum(each.values()) for each in beside)

    @property
    def holds(self) -> bool:
        return self.accounted == self.messages and not (self.missing or self.repeated or self.broken or self.changed)


class FixStep(Struct, frozen=True):
    """One change to derived data."""

    check: str
    action: str
    """`change`, `add`, `remove`, `recount`, `rebuild`, `make` or `erase`."""
    table: str
    key: str
    values: str
    what: str


class Fix(Struct, frozen=True):
    """The changes of a fix, planned or applied."""

    checks: tuple[str, ...]
    """The requested checks and those that depend on them."""
    steps: tuple[FixStep, ...]
    applied: bool = False
    snapshot: str = ""
    """The copy made before: a file beside a SQLite database, a schema in PostgreSQL."""
    before: dict[str, int] = field(default_factory=dict)
    """The number of findings of each check."""
    after: dict[str, int] = field(default_factory=dict)
    refused: str = ""
    """The reason for which all changes were rolled back, if they were."""


class Junk(Struct, frozen=True):
    """Conversations that match a cleaning rule."""

    rule: str
    conversations: int
    messages: int
    examples: tuple[str, ...]


class Cleaning(Struct, frozen=True):
    """The conversations that a cleaning removes, or has removed; those of several rules count once."""

    junk: tuple[Junk, ...]
    conversations: int
    messages: int
    applied: bool = False
    archive: str = ""
    """The archive they were exported to."""
    files: int = 0
    """Files that were removed with them."""
    changed: int = 0
    """Conversations that stayed because they were changed in the meantime."""
    doubtful: int = 0
    """Files of theirs that another database may refer to; they stay."""
