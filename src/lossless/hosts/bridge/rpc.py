"""Two-way JSON-RPC 2.0: one JSON document per line, over a pair of byte streams.

Each request of the other side runs on a thread of its own, so that a slow one holds up no other. While it runs, its handler may
send requests to the other side. Both sides cancel a request with the notification `cancel`.
"""

from __future__ import annotations

import json
import os
import sys
import threading
import time
import traceback
from collections.abc import Callable
from concurrent.futures import Future
from concurrent.futures import TimeoutError as NoAnswer
from contextvars import ContextVar
from itertools import count
from typing import Any, BinaryIO, NoReturn

from msgspec import Struct, field

from lossless.errors import LosslessError

PARSE_ERROR, INVALID_REQUEST, UNKNOWN_METHOD, INVALID_PARAMS, INTERNAL_ERROR = -32700, -32600, -32601, -32602, -32603
FAILED, CANCELLED = -32000, -32800
"""The JSON-RPC codes of an error of ours (its stable code is in `data.code`) and of a cancelled request."""

_MOST_DONE = 5.0
"""Seconds in which running requests may end once the other side has closed its stream: what is written is written whole."""


class RpcError(Exception):
    """An error to be sent, or one that the other side sent."""

    def __init__(self, code: int, message: str, data: dict[str, Any] | None = None) -> None:
        super().__init__(message)
        self.code, self.message, self.data = code, message, data or {}


class Cancelled(BaseException):
    """The request was cancelled. Not an Exception: no fallback may go on with the work."""


class Request(Struct, eq=False):
    """A request of the other side, as its handler sees it."""

    id: str | int
    method: str
    after: threading.Event | None = None
    """Set when the request before it, which must end first, has ended."""
    done: threading.Event = field(default_factory=threading.Event)
    cancelled: threading.Event = field(default_factory=threading.Event)
    asked: set[int] = field(default_factory=set)
    """The ids of our own requests that wait for an answer on its behalf."""
    is_last: bool = False
    """Set by its handler: the connection ends after the answer."""

    def check(self) -> None:
        """Raise if the request was cancelled."""
        if self.cancelled.is_set():
            raise Cancelled


current: ContextVar[Request | None] = ContextVar("lossless_rpc_request", default=None)
"""The request that this thread works on."""

Handler = Callable[[Request, dict[str, Any]], Any]
OrderBy = Callable[[str, dict[str, Any]], str | None]
"""Returns the name of the queue of a request (method, params): those of one queue run one after another."""


class Connection:
    """One side of a JSON-RPC connection."""

    def __init__(
        self, source: BinaryIO, target: BinaryIO, handler: Handler, order_by: OrderBy, stop: Callable[[], None]
    ) -> None:
        """Connect two streams. `stop` interrupts the thread that runs `serve`, which may wait for a line."""
        self._source, self._target, self._stop = source, target, stop
        self._handler, self._order_by = handler, order_by
        self._lock, self._numbers = threading.Lock(), count(1)
        self._requests: dict[str | int, Request] = {}
        self._answers: dict[int, Future[Any]] = {}
        self._newest: dict[str, threading.Event] = {}
        self._closed = False

    # the other side's requests

    def serve(self) -> None:
        """Answer requests until the other side closes its stream, or until `close`; then cancel what still runs."""
        try:
            while not self._closed and (line := self._source.readline()):
                if line.strip():
                    self._take(line)
        finally:
            self.close()
            until = time.monotonic() + _MOST_DONE
            for request in list(self._requests.values()):
                request.done.wait(max(0.0, until - time.monotonic()))

    def close(self) -> None:
        """Accept no more requests, and cancel those that run."""
        self._closed = True
        for request in list(self._requests.values()):
            self._cancel(request)

    def _take(self, line: bytes) -> None:
        try:
            message = json.loads(line)
        except (ValueError, RecursionError):
            self._fail(None, RpcError(PARSE_ERROR, "The line is not JSON."))
            return
        name = message.get("id") if isinstance(message, dict) else None
        if not isinstance(message, dict) or not isinstance(name, str | int | None) or isinstance(name, bool):
            self._fail(None, RpcError(INVALID_REQUEST, "A request is an object with an id, a method and params."))
        elif "method" not in message:
            self._settle(name, message)
        else:
            self._start(name, message)

    def _start(self, name: str | int | None, message: dict[str, Any]) -> None:
        method, params = message["method"], message.get("params", {})
        if not isinstance(method, str) or not isinstance(params, dict):
            self._fail(name, RpcError(INVALID_REQUEST, "method is a text, and params is an object."))
            return
        if name is None:
            named = params.get("id")
            if method == "cancel" and isinstance(named, str | int) and (found := self._requests.get(named)):
                self._cancel(found)
            return
        if name in self._requests:
            self._fail(name, RpcError(INVALID_REQUEST, "Another request with this id is running."))
            return
        request = Request(name, method)
        queue = self._order_by(method, params)
        if queue is not None:
            request.after, self._newest[queue] = self._newest.get(queue), request.done
        self._requests[name] = request
        threading.Thread(target=self._run, args=(request, params, queue), name=f"lcm-{method}", daemon=True).start()

    def _run(self, request: Request, params: dict[str, Any], queue: str | None) -> None:
        current.set(request)
        try:
            if request.after is not None:
                request.after.wait()
                request.check()
            self._send({"id": request.id, "result": self._handler(request, params)})
        except Cancelled:
            self._fail(request.id, RpcError(CANCELLED, "The request was cancelled.", {"code": "CANCELLED"}))
        except RpcError as error:
            self._fail(request.id, error)
        except LosslessError as error:
            data = {"code": error.code, "hint": error.hint}
            self._fail(request.id, RpcError(FAILED, error.message, data))
        except Exception as error:  # noqa: BLE001 - a request of a host always gets an answer
            # The text of an unexpected error may quote a message: the host's log is no place for it.
            if os.environ.get("LCM_TRACEBACK"):
                traceback.print_exc(file=sys.stderr)
            name = type(error).__name__
            hint = "This is a bug in lossless: LCM_TRACEBACK=1 prints where. Please report it."
            self._fail(request.id, RpcError(INTERNAL_ERROR, name, {"code": "INTERNAL_ERROR", "hint": hint}))
        finally:
            self._requests.pop(request.id, None)
            if queue is not None and self._newest.get(queue) is request.done:
                self._newest.pop(queue, None)
            request.done.set()
            if request.is_last:
                self._closed = True
                self._stop()

    def _cancel(self, request: Request) -> None:
        request.cancelled.set()
        for number in list(request.asked):
            self._withdraw(number)

    # our own requests

    def call(self, method: str, params: dict[str, Any], timeout: float) -> Any:
        """Send a request, and return its result.

        Raise `RpcError` if it failed, `TimeoutError` without an answer in time, and `Cancelled` if the request that it serves was
        cancelled.
        """
        request, number, answer = current.get(), next(self._numbers), Future[Any]()
        self._answers[number] = answer
        if request is not None:
            request.asked.add(number)
        try:
            if request is not None:
                request.check()
            self._send({"id": number, "method": method, "params": params})
            return answer.result(timeout)
        except NoAnswer as error:
            if answer.done():  # an answer that says so
                raise
            self.notify("cancel", {"id": number})
            raise TimeoutError(f"{method} was not answered within {timeout:g} s.") from error
        finally:
            self._answers.pop(number, None)
            if request is not None:
                request.asked.discard(number)

    def notify(self, method: str, params: dict[str, Any]) -> None:
        """Send a notification."""
        self._send({"method": method, "params": params})

    def _settle(self, number: str | int | None, message: dict[str, Any]) -> None:
        answer = self._answers.pop(number, None) if isinstance(number, int) else None
        if answer is None:  # it came too late
            return
        error = message.get("error")
        if isinstance(error, dict):
            code, data = error.get("code"), error.get("data")
            answer.set_exception(
                RpcError(
                    code if isinstance(code, int) else FAILED,
                    str(error.get("message", "")),
                    data if isinstance(data, dict) else {},
                )
            )
        else:
            answer.set_result(message.get("result"))

    def _withdraw(self, number: int) -> None:
        if answer := self._answers.pop(number, None):
            self.notify("cancel", {"id": number})
            answer.set_exception(Cancelled())

    # writing

    def _fail(self, name: str | int | None, error: RpcError) -> None:
        self._send({"id": name, "error": {"code": error.code, "message": error.message, "data": error.data}})

    def _send(self, message: dict[str, Any]) -> None:
        # ASCII only: no line separator of any kind is in a line, and lone surrogates pass.
        data = json.dumps({"jsonrpc": "2.0", **message}, separators=(",", ":")).encode() + b"\n"
        with self._lock:
            try:
                rest = memoryview(data)
                while rest:  # a stream without a buffer may take a part
                    rest = rest[self._target.write(rest) or 0 :]
                self._target.flush()
            except (OSError, ValueError):
                self._closed = True  # the other side has gone, and its stream to us ends as well


def refuse(number: int, message: str, /, **data: Any) -> NoReturn:
    """Raise an error to be sent, with our stable code in `data`."""
    raise RpcError(number, message, data)
