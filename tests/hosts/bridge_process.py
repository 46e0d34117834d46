"""The bridge as a process, and a host that talks to it line by line."""

from __future__ import annotations

import json
import os
import queue
import re
import subprocess
import sys
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Self

from lossless import Lossless

PATIENCE = 30.0
CHAT = {"key": "agent:main:main", "session": "run-1"}
SMALL = {"freshTailCount": 4, "leafChunkTokens": 2000, "leafMinFanout": 2, "contextThreshold": 0.3}
WINDOW = 4000
FACT = re.compile(r"Fact \d+ is delta")
SUMMARY = {"result": {"text": "The user stated one fact after another, and each was confirmed.", "model": "host/small"}}


class BridgeProcess:
    """A host's side of the connection. `lend` answers requests for the model."""

    def __init__(
        self,
        database: Path | str,
        *,
        environment: dict[str, str] | None = None,
        program: Sequence[str] = ("-m", "lossless"),
    ) -> None:
        self.lend: Callable[[dict[str, Any]], dict[str, Any] | None] = lambda params: None
        self.notes: queue.Queue[dict[str, Any]] = queue.Queue()
        self.asked: queue.Queue[dict[str, Any]] = queue.Queue()
        self._answers: dict[int | None, queue.Queue[dict[str, Any]]] = {}
        self._lock, self._number = threading.Lock(), 0
        self.process = subprocess.Popen(
            [sys.executable, *program, "bridge", "--db", str(database)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=os.environ | (environment or {}),
        )
        self._reader = threading.Thread(target=self._read)
        self._reader.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        assert self.process.stdin
        assert self.process.stderr
        self.process.stdin.close()
        self.process.wait(PATIENCE)
        self._reader.join(PATIENCE)
        self.stderr = self.process.stderr.read().decode()
        self.process.stderr.close()

    def _read(self) -> None:
        assert self.process.stdout
        with self.process.stdout as lines:
            for line in lines:
                message = json.loads(line)
                assert message["jsonrpc"] == "2.0"
                if "method" not in message:
                    self._answers.setdefault(message["id"], queue.Queue()).put(message)
                elif "id" not in message:
                    self.notes.put(message)
                else:
                    self.asked.put(message)
                    if (result := self.lend(message["params"])) is not None:
                        self.write({"id": message["id"], **result})

    def write(self, message: dict[str, Any] | bytes) -> None:
        line = message if isinstance(message, bytes) else json.dumps({"jsonrpc": "2.0", **message}).encode()
        assert self.process.stdin
        with self._lock:
            self.process.stdin.write(line + b"\n")
            self.process.stdin.flush()

    def send(self, method: str, params: dict[str, Any]) -> int:
        """Send a request; returns its id."""
        with self._lock:
            self._number += 1
            number = self._number
        self._answers.setdefault(number, queue.Queue())
        self.write({"id": number, "method": method, "params": params})
        return number

    def answer(self, number: int | None) -> dict[str, Any]:
        """Wait for the answer to a request; None for one without an id."""
        return self._answers.setdefault(number, queue.Queue()).get(timeout=PATIENCE)

    def call(self, method: str, **params: Any) -> Any:
        """Return the result of a request."""
        answer = self.answer(self.send(method, params))
        assert "error" not in answer, answer["error"]
        return answer["result"]

    def refused(self, method: str, **params: Any) -> dict[str, Any]:
        """Return the error of a request."""
        error: dict[str, Any] = self.answer(self.send(method, params))["error"]
        return error

    def begin(self, **more: Any) -> Any:
        """Initialize, as a host of tests."""
        return self.call("initialize", **{"protocols": [1], "host": {"name": "testhost", "version": "1"}, **more})


def turn(number: int, *, words: int = 60) -> list[dict[str, Any]]:
    at = 1_790_000_000_000 + number * 1000
    reply = [{"type": "text", "text": f"Confirmed {number}. " + "gamma " * words}]
    return [
        {"role": "user", "content": f"Fact {number} is delta. " + "alpha beta " * words, "timestamp": at},
        {"role": "assistant", "content": reply, "stopReason": "stop", "timestamp": at + 500},
    ]


def commit(bridge: BridgeProcess, number: int, **more: Any) -> Any:
    return bridge.call(
        "commitTurn",
        **{
            "conversation": CHAT,
            "messages": turn(number),
            "advancementKey": f"turn-{number}",
            "window": WINDOW,
            **more,
        },
    )


def summarised(params: dict[str, Any]) -> dict[str, Any]:
    """Answer a request for a summary with the newest facts of its source: a copy of the summary before would be refused."""
    facts = FACT.findall(params["prompt"])[-6:]
    return {"result": {"text": f"{', '.join(facts)}: each was confirmed.", "model": "host/small"}}


def texts(database: Path | str, key: str = CHAT["key"]) -> list[str]:
    with Lossless.open(database) as lcm:
        return [stored.text.split(".")[0] for stored in lcm.conversation(key).messages()]


def facts(count: int) -> list[str]:
    return [text for number in range(count) for text in (f"Fact {number} is delta", f"Confirmed {number}")]
