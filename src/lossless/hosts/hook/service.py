"""The background process behind `lcm hook`: one at a time for each database, ends when no event comes any more.

    python -m lossless.hosts.hook.service DIRECTORY NAME

It opens its socket first and loads the rest of the program while the first hook waits.
"""

from __future__ import annotations

import os
import select
import socket
import sys
import time
from contextlib import suppress
from threading import Thread
from typing import TYPE_CHECKING

from lossless.hosts.hook import address

if TYPE_CHECKING:
    from lossless.hosts.hook.memory import Memory

LINGER = 90.0
"""Seconds without an event or a change of a transcript after which the process ends."""
_TICK = 1.0
_PATIENCE = 2.0
_HANDOVER, _PAUSE = 4.0, 0.02
"""Seconds to wait for another process that is ending, and between two looks."""


def main(directory: str, name: str) -> None:
    """Serve the hooks of this installation until none comes any more."""
    with address.inside(directory):
        if not _is_only_one(name):
            return
        with suppress(FileNotFoundError):
            os.unlink(f"{name}.sock")
        listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        listener.bind(f"{name}.sock")
        listener.listen(256)
    serve(listener, os.path.join(directory, f"{name}.sock"))


def serve(listener: socket.socket, path: str) -> None:
    """Answer hooks, and follow their transcripts in between."""
    from lossless.hosts.hook.memory import Memory

    memory, own = Memory(), os.stat(path).st_ino
    try:
        while _is_at(path, own) and (memory.is_working or time.time() - memory.busy_at < LINGER):
            if select.select([listener], [], [], _TICK)[0]:
                _accept(memory, listener)
            else:
                memory.look_again()
    finally:
        # First the socket: a hook that comes now starts the next process, which waits for the end of this one.
        with suppress(OSError):
            os.unlink(path)
        listener.close()
        memory.close()


def _accept(memory: Memory, listener: socket.socket) -> None:
    try:
        connection, _ = listener.accept()
        Thread(target=_answer, args=(memory, connection), daemon=True).start()
    except (OSError, RuntimeError):  # too many files or threads, or the caller has gone: its hook tries again
        time.sleep(_PAUSE)


def answer_here(host: str, event: bytes) -> bytes:
    """Answer one event in this process, where there are no sockets for a background process."""
    from lossless.hosts.hook.memory import Memory

    memory = Memory()
    try:
        return memory.answer(host, event)
    finally:
        memory.close()


def _answer(memory: Memory, connection: socket.socket) -> None:
    with connection, suppress(OSError):
        connection.settimeout(_PATIENCE)
        request = bytearray()
        while data := connection.recv(1_048_576):
            request += data
        identity, _, rest = request.partition(b"\n")
        host, _, event = rest.partition(b"\n")
        if identity == address.identity().encode():
            connection.sendall(b"+" + memory.answer(host.decode(), bytes(event)))


def _is_only_one(name: str) -> bool:
    """Take the lock of this process, for as long as it lives; return False if another one answers hooks.

    One that is ending answers none, and has the lock until it has written everything.
    """
    import fcntl

    descriptor = os.open(f"{name}.lock", os.O_RDWR | os.O_CREAT, 0o600)
    until = time.monotonic() + _HANDOVER
    while True:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            if _answers(f"{name}.sock") or time.monotonic() > until:
                return False
            time.sleep(_PAUSE)
        else:
            return True


def _answers(name: str) -> bool:
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
        try:
            connection.connect(name)
        except OSError:
            return False
        return True


def _is_at(path: str, inode: int) -> bool:
    """Return whether the socket is still there: without it nobody can call."""
    try:
        return os.stat(path).st_ino == inode
    except OSError:
        return False


if __name__ == "__main__":
    main(*sys.argv[1:])
