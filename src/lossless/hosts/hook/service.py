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


def main(directory: str, name: str) -> None:
    """Serve the hooks of this installation until none comes any more."""
    with address.inside(directory):
        if not _is_only_one(f"{name}.lock"):
            return
        with suppress(FileNotFoundError):
            os.unlink(f"{name}.sock")
        listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        listener.bind(f"{name}.sock")
        listener.listen(64)
    path = os.path.join(directory, f"{name}.sock")
    try:
        serve(listener, path)
    finally:
        with suppress(OSError):
            os.unlink(path)


def serve(listener: socket.socket, path: str) -> None:
    """Answer hooks, and follow their transcripts in between."""
    from lossless.hosts.hook.memory import Memory

    memory, own = Memory(), os.stat(path).st_ino
    try:
        while _is_at(path, own) and (memory.is_working or time.time() - memory.busy_at < LINGER):
            if select.select([listener], [], [], _TICK)[0]:
                connection, _ = listener.accept()
                Thread(target=_answer, args=(memory, connection), daemon=True).start()
            else:
                memory.look_again()
    finally:
        memory.close()


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
        request = b""
        while data := connection.recv(65_536):
            request += data
        identity, host, event = request.split(b"\n", 2)
        if identity == address.identity().encode():
            connection.sendall(b"+" + memory.answer(host.decode(), event))


def _is_only_one(lock: str) -> bool:
    """Take the lock of this process, for as long as it lives."""
    import fcntl

    descriptor = os.open(lock, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
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
