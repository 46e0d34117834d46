"""Results of the doctor: findings, the proof that nothing is lost, fixes, cleaning."""

from __future__ import annotations

from typing import Literal, TypeAlias, get_args

from msgspec import Struct, field

Severity: TypeAlias = Literal["info", "warn", "error", "critical"]


class Finding(Struct, frozen=True):
    """What a check found, in one conversation or (None) in the database as a whole."""

    check: str
    severity: Severity
    conversation: int | None
    count: int
    samples: tuple[str, ...]
    """Up to 20 of them, by their ids."""
    text: str
    fixable: bool
    fix: str
    """The command that puts it right, if one can."""


class Health(Struct, frozen=True):
    """What a doctor found."""

    findings: tuple[Finding, ...]
    checked: tuple[str, ...]
    """The checks that were made."""
    seconds: float

    def at_least(self, severity: Severity) -> tuple[Finding, ...]:
        """The findings that are as bad as that, or worse."""
        levels = get_args(Severity)
        return tuple(each for each in self.findings if levels.index(each.severity) >= levels.index(severity))


class Proof(Struct, frozen=True):
    """Where every message of a conversation is. `context`, `below`, `detached`, `outside` and `tombstones` add up to `messages`."""

    conversation: int
    key: str
    messages: int
    items: int
    """How many items the context has."""
    context: int
    """Messages that stand in the context themselves."""
    below: int
    """Messages below the summaries of the context."""
    detached: dict[str, int]
    """Messages that were taken out of the context, by cause."""
    outside: dict[str, int]
    """Messages that no model is to see, by reason."""
    tombstones: dict[str, int]
    """Messages whose words are gone for good, by reason: only their places are left."""
    missing: int
    repeated: int
    """How many times a message is reached beyond the first."""
    broken: tuple[str, ...]
    """What of the promise does not hold, by name."""
    summaries: int
    witnessed: int
    """Summaries of which it was recorded what they were made from, and that is unchanged."""
    changed: tuple[str, ...]
    """Summaries of which it is not."""

    @property
    def accounted(self) -> int:
        """How many messages are somewhere."""
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
    """What a fix changes, or has changed."""

    checks: tuple[str, ...]
    """What was asked for, and what follows from it."""
    steps: tuple[FixStep, ...]
    applied: bool = False
    snapshot: str = ""
    """The copy that was kept: a file beside a SQLite database, a schema in PostgreSQL."""
    before: dict[str, int] = field(default_factory=dict)
    """How many faults each check found."""
    after: dict[str, int] = field(default_factory=dict)
    refused: str = ""
    """Why all of it was taken back, if it was."""


class Junk(Struct, frozen=True):
    """Conversations that a rule says nobody needs."""

    rule: str
    conversations: int
    messages: int
    examples: tuple[str, ...]


class Cleaning(Struct, frozen=True):
    """What a cleaning removes, or has removed; what several rules find counts once."""

    junk: tuple[Junk, ...]
    conversations: int
    messages: int
    applied: bool = False
    archive: str = ""
    """Where it was exported to before."""
    files: int = 0
    """Files that went with them."""
    changed: int = 0
    """How many stayed, because they were written to meanwhile."""
    doubtful: int = 0
    """Payloads of theirs that perhaps another database refers to: they stay."""
