"""`lcm bridge`: a host in another language uses lossless over its standard streams.

This module starts and ends the process and negotiates the protocol; `methods` has what a host can ask for.
"""

from __future__ import annotations

import os
import re
import signal
import sys
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, nullcontext, suppress
from typing import Any, BinaryIO, TypeVar

import msgspec

from lossless import Lossless, __version__, config
from lossless.config.settings import all_spellings
from lossless.engine.shared import host_activity
from lossless.errors import ConfigError, LosslessError, StoreMoved
from lossless.events import Event
from lossless.hosts.bridge.lent_model import LentModel, with_host
from lossless.hosts.bridge.methods import FORMATS, METHODS, Methods
from lossless.hosts.bridge.params import Initialize, Params
from lossless.hosts.bridge.rpc import FAILED, INVALID_PARAMS, UNKNOWN_METHOD, Connection, Request, RpcError, refuse
from lossless.hosts.bridge.versions import notes
from lossless.hosts.turn_wait import TurnWait
from lossless.tools.arguments import READING, schema

PROTOCOLS = (1,)
"""The versions of the protocol that this program speaks."""

_SECRET = re.compile(r"(?i)api_?key(?!_?(?:env|cmd|openclaw)\b)|secret|passw|token\b|authorization|credential|bearer")
_IN_ORDER = frozenset({"ingest", "commitTurn", "assemble", "bootstrap", "transcript", "new", "reset", "end"})
"""Methods that run one after another in each conversation, in the order they came."""
_IN_TURN = _IN_ORDER | {"initialize", "subagent/start", "subagent/end"}
"""Methods that the turn of a host waits for."""
_REPORTED = frozenset({"warning", "error"})

P = TypeVar("P", bound=Params)


class Bridge:
    """One host's connection to a database."""

    def __init__(self, source: BinaryIO, target: BinaryIO, database: str | None = None) -> None:
        self._database = database
        self._connection = Connection(source, target, self._handle, _queue, _interrupt_reading)
        self._lcm: Lossless | None = None
        self._methods: Methods | None = None
        self._host = "bridge"
        self._version = ""
        self._wait = TurnWait()

    def run(self) -> None:
        """Serve until the host closes the stream or asks for the end; then close the database."""
        try:
            self._connection.serve()
        finally:
            if self._lcm is not None:
                self._lcm.close()

    def _handle(self, request: Request, params: dict[str, Any]) -> Any:
        start, method = time.monotonic(), request.method
        try:
            with self._wait.limited() if method in _IN_TURN else nullcontext():
                result = self._answer(request, params)
        except LosslessError as error:
            self._record(method, start, error=f"{error.code}: {error.message}")
            if isinstance(error, StoreMoved):
                request.is_last = True  # the host starts another bridge, which opens what is there now
            raise
        except RpcError as error:
            self._record(method, start, error=f"{error.data.get('code', error.code)}: {error.message}")
            raise
        except Exception as error:
            self._record(method, start, error=type(error).__name__)
            raise
        if method in ("commitTurn", "ingest", "bootstrap", "transcript"):
            self._record(method, start, delivered=result["stored"])
        elif method in ("initialize", "assemble", "compact", "maintain"):
            self._record(method, start)
        return result

    def _answer(self, request: Request, params: dict[str, Any]) -> Any:
        if request.method == "initialize":
            return self._initialize(converted(Initialize, params))
        if request.method == "shutdown":
            request.is_last = True
            return {}
        found = METHODS.get(request.method)
        if found is None:
            refuse(UNKNOWN_METHOD, f"There is no method {request.method[:80]!r}.", code="UNKNOWN_METHOD")
        if self._methods is None:
            refuse(FAILED, "initialize comes first.", code="NOT_INITIALIZED")
        kind, method = found
        return method(self._methods, request, converted(kind, params))

    def _initialize(self, given: Initialize) -> dict[str, Any]:
        if self._lcm is None:
            self._host, self._version = given.host.name, given.host.version
        common = set(PROTOCOLS).intersection(given.protocols)
        if not common:
            ours = ", ".join(map(str, PROTOCOLS))
            refuse(
                FAILED,
                f"lossless {__version__} speaks version {ours} of the protocol, and the plugin another.",
                code="PROTOCOL_UNSUPPORTED",
                hint="Install the plugin and lossless in matching versions: `lcm install` does.",
                protocols=list(PROTOCOLS),
            )
        if self._lcm is not None:
            refuse(FAILED, "The bridge is initialized already.", code="ALREADY_INITIALIZED")
        if given.format not in FORMATS:
            known = ", ".join(FORMATS)
            refuse(
                INVALID_PARAMS, f"{given.format[:80]!r} is not a format.", code="INVALID_INPUT", hint=f"Use {known}."
            )
        _refuse_secrets(given.settings, given.host.name)
        lcm = self._open(given)
        return {
            "protocol": max(common),
            "server": {"name": "lossless", "version": __version__},
            "database": lcm.location,
            "enabled": lcm.settings.enabled,
            "notes": notes(self._host, self._version),
            "tools": [schema("mcp", name) for name in READING],
        }

    def _open(self, given: Initialize) -> Lossless:
        """Open the database. A failure leaves the bridge as it was: the host may try again."""
        lending: set[str | int] = set()
        chain = None
        if given.lends:
            settings = config.load(plugin=given.settings, plugin_name=given.host.name)
            lent = LentModel(
                self._connection, given.lends, lending, settings.summary_model, settings.summary_timeout_ms / 1000
            )
            chain = with_host(settings, lent, self._report)
        lcm = Lossless.open(
            self._database,
            plugin=given.settings,
            plugin_name=given.host.name,
            summarizer=chain,
            on_event=self._report,
        )
        # A host that lends its model does pending work in `maintain`, with that model.
        lcm._background.is_enabled = chain is None
        self._methods, self._lcm = Methods(lcm, given.format, lending), lcm
        return lcm

    def _report(self, event: Event) -> None:
        """Send an event that people should see to the host's log."""
        if event.level in _REPORTED:
            self._connection.notify("event", {"name": event.name, "level": event.level, "message": event.message})

    def _record(self, method: str, start: float, *, delivered: int = 0, error: str = "") -> None:
        host_activity.record(
            self._host,
            method,
            seconds=time.monotonic() - start,
            delivered=delivered,
            error=error,
            database=self._lcm.location if self._lcm else "",
            version=self._version,
        )


def converted(kind: type[P], params: Mapping[str, Any]) -> P:
    """Convert the parameters of a method. An error names the wrong one, never a value."""
    try:
        return msgspec.convert(params, kind)
    except msgspec.ValidationError as error:
        refuse(INVALID_PARAMS, str(error), code="INVALID_INPUT")


def _refuse_secrets(settings: Mapping[str, Any], host: str) -> None:
    """Raise if the settings contain what looks like a secret: a host's keys must not come here."""
    for name, value in settings.items():
        if name not in all_spellings() and _SECRET.search(name):
            raise ConfigError(
                f"{host}: {name[:80]} looks like a secret of the host.",
                hint="Settings name the environment variable of a key, never the key.",
            )
        tables = value if isinstance(value, list) else [value]
        for table in tables:
            if isinstance(table, Mapping):
                _refuse_secrets({str(key): inner for key, inner in table.items()}, host)


def _queue(method: str, params: Mapping[str, Any]) -> str | None:
    """Return the key of the conversation, for methods that must not overtake each other there."""
    named = params.get("conversation")
    key = named.get("key") if isinstance(named, Mapping) else None
    return key if method in _IN_ORDER and isinstance(key, str) else None


def main(database: str | None = None) -> None:
    """Run the bridge on the standard streams of this process."""
    with _stdout() as target, _ending(), suppress(SystemExit):
        Bridge(sys.stdin.buffer, target, database).run()


@contextmanager
def _stdout() -> Iterator[BinaryIO]:
    """Yield the protocol's stream; meanwhile whatever else prints goes to standard error."""
    sys.stdout.flush()
    kept = os.dup(1)
    os.dup2(2, 1)
    try:
        # Not buffered: what is left to write once the host has gone must not be an error at exit.
        with open(kept, "wb", buffering=0, closefd=False) as target:
            yield target
    finally:
        os.dup2(kept, 1)
        os.close(kept)


@contextmanager
def _ending() -> Iterator[None]:
    """End on SIGTERM with everything closed; on Linux, also when the parent dies."""

    def end(number: int, frame: object) -> None:
        raise SystemExit

    before = signal.signal(signal.SIGTERM, end)
    _end_with_parent(signal.SIGTERM)
    try:
        yield
    finally:
        _end_with_parent(0)
        signal.signal(signal.SIGTERM, before)


def _interrupt_reading() -> None:
    """End as SIGTERM does: the main thread waits for a line. Windows has no such signal, so the host closes the stream."""
    if hasattr(signal, "pthread_kill"):
        signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGTERM)


def _end_with_parent(number: int) -> None:
    """Have Linux send a signal when the parent dies. Elsewhere only the end of standard input says so."""
    if not sys.platform.startswith("linux"):
        return
    import ctypes

    parent = os.getppid()
    with suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(1, int(number), 0, 0, 0)  # PR_SET_PDEATHSIG
    if number and os.getppid() != parent:  # it died meanwhile
        raise SystemExit
