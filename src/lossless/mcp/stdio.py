"""Carry MCP over standard input and output: one JSON-RPC message per line.

Both forms of the protocol are served: clients up to 2025-11-25 begin with `initialize`; from 2026-07-28 on each request
names its version in `_meta`, and there is no session. Each request runs on a thread of its own, so that a cancellation
is read while a model writes.
"""

from __future__ import annotations

import json
import os
import sys
import threading
import traceback
from collections.abc import Iterable, Mapping
from typing import Any, BinaryIO, Final

from lossless.mcp.requests import INTERNAL_ERROR, INVALID_PARAMS, ProtocolError, Request
from lossless.mcp.server import CAPABILITIES, INFO, INSTRUCTIONS, Server
from lossless.summarizers.base import Cancelled

PARSE_ERROR, INVALID_REQUEST, UNSUPPORTED_VERSION = -32700, -32600, -32022
_HANDSHAKE: Final = ("2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25")
_STATELESS: Final = ("2026-07-28",)
_VERSION_KEY: Final = "io.modelcontextprotocol/protocolVersion"
_INFO_KEY: Final = "io.modelcontextprotocol/serverInfo"
_CACHEABLE: Final = ("server/discover", "resources/read")
_AT_ONCE: Final = 8
_PATIENCE: Final = 30.0
"""Seconds that open requests get after the client has closed its side."""


def serve(server: Server) -> None:
    """Serve the client at the other end of standard input and output until it closes them."""
    # Prints of any library, and of programs started by it, must not get into the protocol.
    received, sent = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    with open(os.devnull, "rb") as nothing:
        os.dup2(nothing.fileno(), 0)
    Connection(server, sent).run(received)


class Connection:
    """One client: its open requests, and the stream that answers go to."""

    def __init__(self, server: Server, sent: BinaryIO) -> None:
        self._server, self._sent = server, sent
        self._writing = threading.Lock()
        self._slots = threading.Semaphore(_AT_ONCE)
        self._open: list[tuple[str, Request]] = []
        """Ids and requests. A client that uses an id twice gets two answers."""
        self._idle = threading.Condition()

    def run(self, received: Iterable[bytes]) -> None:
        """Answer every line until there are no more, then end what is still open."""
        for line in received:
            if line.strip():
                self._take(line)
        with self._idle:
            if not self._idle.wait_for(lambda: not self._open, _PATIENCE):
                for _, request in self._open:
                    request.cancellation.cancel()

    def _take(self, line: bytes) -> None:
        try:
            message = json.loads(line)
        except (ValueError, RecursionError):
            self._fail(None, PARSE_ERROR, "The line is not JSON.")
            return
        if not isinstance(message, dict) or not isinstance(message.get("method"), str):
            # An answer to a request: this server makes none.
            if not (isinstance(message, dict) and ("result" in message or "error" in message)):
                self._fail(None, INVALID_REQUEST, "A message is one JSON object with a method.")
            return
        params = message.get("params")
        if "id" not in message:
            self._notified(message["method"], params)
        elif not isinstance(message["id"], str | int) or isinstance(message["id"], bool):
            self._fail(None, INVALID_REQUEST, "id is a text or a number.")
        elif not isinstance(params, dict | None):
            self._fail(message["id"], INVALID_PARAMS, "params is an object.")
        else:
            self._begin(message["id"], message["method"], params or {})

    def _notified(self, method: str, params: Any) -> None:
        if method == "notifications/cancelled" and isinstance(params, dict):
            name = _name(params.get("requestId"))
            with self._idle:
                requests = [request for each, request in self._open if each == name]
            for request in requests:
                request.cancellation.cancel()

    def _begin(self, id: str | int, method: str, params: Mapping[str, Any]) -> None:
        meta = params.get("_meta")
        request = Request(meta=meta if isinstance(meta, dict) else {})
        token = request.meta.get("progressToken")
        if isinstance(token, str | int):
            request.progress = lambda number, message: self._write(
                method="notifications/progress",
                params={"progressToken": token, "progress": number, "message": message},
            )
        with self._idle:
            self._open.append((_name(id), request))
        threading.Thread(target=self._work, args=(id, method, params, request), daemon=True).start()

    def _work(self, id: str | int, method: str, params: Mapping[str, Any], request: Request) -> None:
        try:
            with self._slots:
                request.cancellation.check()
                result = self._result(method, params, request)
                request.cancellation.check()
            self._write(id=id, result=result)
        except Cancelled:
            pass  # the client expects no answer
        except ProtocolError as error:
            self._fail(id, error.code, error.message, error.data)
        except Exception as error:  # noqa: BLE001 - a bug of ours fails one request and does not end the server
            _report(method, error)
            self._fail(id, INTERNAL_ERROR, f"{type(error).__name__}: this is a bug in lossless.")
        finally:
            with self._idle:
                self._open = [each for each in self._open if each[1] is not request]
                self._idle.notify_all()

    def _result(self, method: str, params: Mapping[str, Any], request: Request) -> dict[str, Any]:
        version = request.meta.get(_VERSION_KEY)
        if method == "initialize":
            return _handshake(params)
        if version is None:
            return self._server.answer(method, params, request)
        if version not in _STATELESS:
            raise ProtocolError(
                UNSUPPORTED_VERSION if isinstance(version, str) else INVALID_PARAMS,
                "This version of the protocol is not supported.",
                {"supported": list(_STATELESS), "requested": version},
            )
        if method == "server/discover":
            result: dict[str, Any] = {"supportedVersions": list(_STATELESS), "capabilities": CAPABILITIES}
            result |= {"instructions": INSTRUCTIONS}
        else:
            result = self._server.answer(method, params, request)
        caching = {"ttlMs": 0, "cacheScope": "private"} if method.endswith("/list") or method in _CACHEABLE else {}
        return {**result, **caching, "resultType": "complete", "_meta": {_INFO_KEY: INFO}}

    def _fail(self, id: str | int | None, code: int, message: str, data: Any = None) -> None:
        more = {} if data is None else {"data": data}
        self._write(id=id, error={"code": code, "message": message, **more})

    def _write(self, **message: Any) -> None:
        line = json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n"
        with self._writing:
            try:
                self._sent.write(line)
                self._sent.flush()
            except (OSError, ValueError):
                pass  # the client has gone; the end of its input ends the server


def _handshake(params: Mapping[str, Any]) -> dict[str, Any]:
    asked = params.get("protocolVersion")
    version = asked if asked in _HANDSHAKE else _HANDSHAKE[-1]
    return {
        "protocolVersion": version,
        "capabilities": CAPABILITIES,
        "serverInfo": INFO,
        "instructions": INSTRUCTIONS,
    }


def _report(method: str, error: Exception) -> None:
    """Print a bug on standard error: its kind alone, because its text may quote stored messages."""
    sys.stderr.write(f"lcm mcp: {method}: {type(error).__name__}. LCM_TRACEBACK=1 shows where.\n")
    if os.environ.get("LCM_TRACEBACK"):
        traceback.print_exception(error)


def _name(id: object) -> str:
    """Return the id of a request as a name: 1 and "1" are different."""
    return json.dumps(id)
