"""Hand one event to the background process and print its answer. Loads almost nothing, and never fails.

    lcm hook claude-code < event.json

The process always exits with 0: a host shows or obeys any other code. What went wrong is recorded for `lcm hosts` and
`lcm status`, and nothing is printed then.
"""

from __future__ import annotations

import os
import socket
import sys
import time
from contextlib import suppress

from lossless.hosts.hook import address

HOSTS = ("claude-code", "codex")
LIMIT = 5.0
"""Seconds after which a hook gives up. What it could not do is done at the next event."""
_STOP = LIMIT + 1
_PAUSE, _TRIES = 0.01, 3
_MOST = 16_000_000
"""Bytes of an event that are used. The rest is read and dropped: a host may fail if nobody reads what it writes."""


def main(host: str) -> int:
    """Handle the event on standard input; return the exit code, which is always 0."""
    begun = time.monotonic()
    try:
        _limit_time()
        reply = ask(host, _read_event(), begun + LIMIT)
        if reply:
            os.write(1, reply + b"\n")
    except BaseException as error:  # noqa: BLE001 - the host's turn goes on, whatever happens here
        _report(host, error, time.monotonic() - begun)
    return 0


def ask(host: str, event: bytes, until: float) -> bytes:
    """Return what the background process answers; start it if it does not run."""
    if not hasattr(socket, "AF_UNIX") or not hasattr(os, "fork"):
        from lossless.hosts.hook.service import answer_here

        return answer_here(host, event)
    identity, directory = address.identity(), address.directory()
    request = b"\n".join((identity.encode(), host.encode(), event))
    for _ in range(_TRIES):
        reply = _exchange(_connect(address.name(identity), directory, until), request, until)
        if reply.startswith(b"+"):
            return reply[1:]
        # It ended just now, for lack of events: the next one is started for this event.
    raise ConnectionError("The background process ended before it answered.")


def _exchange(connection: socket.socket, request: bytes, until: float) -> bytes:
    reply = b""
    with connection, suppress(ConnectionError):
        connection.settimeout(max(0.1, until - time.monotonic()))
        connection.sendall(request)
        connection.shutdown(socket.SHUT_WR)
        while data := connection.recv(1_048_576):
            reply += data
    return reply


def _connect(name: str, directory: str, until: float) -> socket.socket:
    """Connect to the background process, started if needed."""
    child = 0
    while True:
        connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            with address.inside(directory):
                connection.connect(f"{name}.sock")
            return connection
        except (FileNotFoundError, ConnectionRefusedError):
            connection.close()
        if time.monotonic() > until:
            raise TimeoutError("The background process does not start.")
        child = child if child and _is_alive(child) else start(directory, name)
        time.sleep(_PAUSE)


def _is_alive(child: int) -> bool:
    """Return whether the background process that was started runs; raise an error if it failed.

    It ends without a failure if another one answers.
    """
    try:
        ended, status = os.waitpid(child, os.WNOHANG)
    except ChildProcessError:  # a host that ignores SIGCHLD passes that on, and then nobody knows
        return True
    if ended and status:
        raise ChildProcessError(f"The background process cannot start (exit code {os.waitstatus_to_exitcode(status)}).")
    return not ended


def start(directory: str, name: str) -> int:
    """Start the background process: in a session of its own, with none of the host's pipes. Return its id."""
    if child := os.fork():
        return child
    try:
        os.setsid()
        nowhere = os.open(os.devnull, os.O_RDWR)
        for descriptor in (0, 1, 2):
            os.dup2(nowhere, descriptor)
        os.closerange(3, 65_536)
        # -P: no module is loaded from the working directory, which is a project of anybody.
        command = [sys.executable, "-P", "-m", "lossless.hosts.hook.service", directory, name]
        os.execv(sys.executable, command)  # noqa: S606 - no shell is wanted
    finally:
        os._exit(127)


def _read_event() -> bytes:
    data = bytearray()
    while more := os.read(0, 1_048_576):
        if len(data) < _MOST:
            data += more
    return bytes(data)


def _limit_time() -> None:
    """End the process in any case, e.g. if a host never closes the pipe to it."""
    import signal

    if hasattr(signal, "setitimer"):
        signal.signal(signal.SIGALRM, lambda *_: os._exit(0))
        signal.setitimer(signal.ITIMER_REAL, _STOP)


def _report(host: str, error: BaseException, seconds: float) -> None:
    try:
        from lossless.engine.shared import host_activity

        host_activity.record(host, "hook", seconds=seconds, error=host_activity.error_text(error))
    except BaseException:  # noqa: BLE001, S110 - there is nowhere left to report it
        pass
