"""Hooks as a host runs them: processes of their own, in a home of their own."""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
import time
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec

from lossless import Conversation, Lossless
from lossless.engine.shared.host_activity import HostActivity


class Home:
    """A home directory, and the hooks that run in it. The background process ends when its socket is taken away."""

    def __init__(self, path: Path, **settings: str) -> None:
        self.path = path
        path.mkdir(parents=True, exist_ok=True)
        self.database = path / ".local" / "share" / "lossless" / "lcm.db"
        self.environment = {
            "PATH": os.environ["PATH"],
            "HOME": str(path),
            **{f"LCM_{name.upper()}": value for name, value in settings.items()},
        }

    @property
    def sockets(self) -> Path:
        return self.path / ".local" / "state" / "lossless" / "hooks"

    def close(self) -> None:
        for path in self.sockets.glob("*.sock"):
            path.unlink()
        wait_until(lambda: all(map(_is_free, self.sockets.glob("*.lock"))))

    def start(self, host: str, **event: Any) -> subprocess.Popen[bytes]:
        """Start a hook for an event without waiting for it."""
        process = subprocess.Popen(
            [sys.executable, "-P", "-m", "lossless", "hook", host],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=self.environment,
            cwd=self.path,
        )
        assert process.stdin is not None
        process.stdin.write(json.dumps(event).encode())
        process.stdin.close()
        process.stdin = None
        return process

    def hook(self, host: str, name: str, **event: Any) -> str:
        """Run a hook for an event; return the text it adds to the context, or all that it prints."""
        printed = self.send(host, json.dumps({"hook_event_name": name, **event}).encode())
        output = json.loads(printed or "{}").get("hookSpecificOutput")
        if output is None:
            return printed
        assert output["hookEventName"] == name
        return str(output["additionalContext"])

    def send(self, host: str, data: bytes) -> str:
        """Run a hook with some input; return what it prints. It must succeed in silence."""
        done = subprocess.run(
            [sys.executable, "-P", "-m", "lossless", "hook", host],
            input=data,
            capture_output=True,
            env=self.environment,
            cwd=self.path,
            timeout=30,
            check=False,
        )
        assert (done.returncode, done.stderr) == (0, b"")
        return done.stdout.decode().strip()

    def open(self, **settings: object) -> Lossless:
        return Lossless.open(self.database, plugin=settings)

    def activity(self, host: str) -> HostActivity:
        path = self.path / ".local" / "state" / "lossless" / "hosts" / f"{host}.json"
        return msgspec.json.decode(path.read_bytes(), type=HostActivity)

    def services(self) -> list[int]:
        """The ids of the background processes of this home."""
        found = []
        for path in Path("/proc").glob("[0-9]*/cmdline"):
            try:
                words = path.read_bytes().split(b"\0")
            except OSError:
                continue
            if b"lossless.hosts.hook.service" in words and str(self.sockets).encode() in words:
                found.append(int(path.parent.name))
        return found


def wait_until(true: Callable[[], bool], seconds: float = 30) -> None:
    """Wait for another process, which has no way to say that it is done."""
    until = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < until, "it did not happen in time"
        time.sleep(0.02)


def _is_free(lock: Path) -> bool:
    import fcntl

    with lock.open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            return False
    return True


def cpu_of_children() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


class Transcript:
    """A session of Claude Code, written line by line."""

    def __init__(self, path: Path, session: str = "", cwd: str = "/project") -> None:
        self.path, self.cwd = path, cwd
        self.session = session or str(uuid.uuid4())
        self._last: str | None = None
        path.parent.mkdir(parents=True, exist_ok=True)

    @property
    def event(self) -> dict[str, str]:
        return {"session_id": self.session, "transcript_path": str(self.path), "cwd": self.cwd}

    def turn(self, question: str, answer: str) -> None:
        self._write("user", {"role": "user", "content": question})
        reply = {"id": f"msg_{uuid.uuid4().hex}", "type": "message", "role": "assistant", "model": "m"}
        self._write("assistant", {**reply, "content": [{"type": "text", "text": answer}], "stop_reason": "end_turn"})

    def _write(self, kind: str, message: dict[str, Any]) -> None:
        name = str(uuid.uuid4())
        at = time.strftime("%Y-%m-%dT%H:%M:%S.000Z", time.gmtime())
        line = {"type": kind, "uuid": name, "parentUuid": self._last, "sessionId": self.session, "timestamp": at}
        with self.path.open("a") as file:
            file.write(json.dumps({**line, "cwd": self.cwd, "message": message}) + "\n")
        self._last = name

    @property
    def key(self) -> str:
        return f"claude-code:{self.session}"


def texts(chat: Conversation) -> list[str]:
    return [stored.text for stored in chat.messages()]
