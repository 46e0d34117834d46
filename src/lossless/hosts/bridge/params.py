"""The parameters of the bridge's methods. An unknown name is refused, so nothing is passed on by mistake."""

from __future__ import annotations

from typing import Any, Literal

from msgspec import Struct, field

from lossless.engine.context.build import Guidance


class Params(Struct, rename="camel", forbid_unknown_fields=True):
    """Parameters as camelCase JSON."""


class Host(Params):
    """The program that runs the bridge."""

    name: str
    version: str = ""


class Initialize(Params):
    protocols: tuple[int, ...]
    """The versions of the protocol that the host speaks."""
    host: Host
    settings: dict[str, Any] = field(default_factory=dict)
    format: str = "openclaw"
    lends: str | None = None
    """The name of the model that the host lends; None if it lends none."""


class Named(Params):
    """A conversation."""

    key: str
    session: str | None = None
    parent: str | None = None


class About(Params):
    """The parameters of a method on one conversation."""

    conversation: Named


class Ingest(About):
    messages: list[dict[str, Any]]
    ids: tuple[str | None, ...] = ()
    """The host's ids of the messages, in the same order."""
    whole: bool = False


class CommitTurn(About):
    messages: list[dict[str, Any]]
    advancement_key: str
    ids: tuple[str | None, ...] = ()
    window: int | None = None
    observed: int = 0
    model: str | None = None


class Assemble(About):
    messages: list[dict[str, Any]]
    ids: tuple[str | None, ...] = ()
    window: int | None = None
    reserve: int = 0
    model: str | None = None
    guidance: Guidance = "none"
    prompt_follows: bool = False


class Compact(About):
    window: int | None = None
    target: int | None = None
    observed: int = 0
    force: bool = False
    model: str | None = None
    lends: bool = False


class Maintain(About):
    seconds: float = 120.0
    lends: bool = False


class Entry(Params):
    """A message of the host's own record."""

    id: str
    message: dict[str, Any]


class Bootstrap(About):
    entries: list[Entry]
    record: str | None = None
    """The host's name of its record, e.g. of a transcript."""
    cursor: str | None = None
    """The position in the record after these entries, as the host names it."""


class Transcript(About):
    path: str
    """A file that the host appends to."""


class New(About):
    retain_depth: int | None = None


class End(About):
    reason: str = ""


class StartSubagent(About):
    child: Named
    seconds: float | None = None


class EndSubagent(Params):
    child: Named
    grant: str | None = None
    reason: Literal["completed", "deleted", "released", "swept", "failed", ""] = ""


class CallTool(About):
    name: str
    arguments: dict[str, Any] = field(default_factory=dict)
    grant: str | None = None
    lends: bool = False


class RunCommand(About):
    text: str = ""
    window: int | None = None
    lends: bool = False


class GetStatus(Params):
    conversation: Named | None = None
