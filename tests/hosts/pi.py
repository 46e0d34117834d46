"""The pi coding agent, controlled over its RPC mode: one process, many turns."""

from __future__ import annotations

import json
import os
import queue
import subprocess
import threading
from pathlib import Path
from typing import IO, Any

from tests.hosts.plugins import PATIENCE
from tests.provider import Play, Provider

WINDOW = 24_000

JUMP = """
export default (pi) => pi.registerCommand("jump", {
  description: "Continue from an entry",
  handler: async (id, ctx) => { await ctx.navigateTree(id, { summarize: false }); },
});
"""
"""An extension for tests: pi's RPC mode has no command for its tree."""


class Pi:
    """One pi process, whose model is the stand-in."""

    def __init__(self, node: Path, program: Path, home: Path, provider: Provider) -> None:
        self.node, self.program, self.home, self.provider = node, program, home, provider
        self.agent, self.work = home / ".pi" / "agent", home / "work"
        self.extension = self.agent / "extensions" / "lossless"
        self.work.mkdir(parents=True)
        (self.work / "notes.txt").write_text("The ferry leaves at noon.\n")
        (self.agent / "extensions").mkdir(parents=True)
        (self.agent / "extensions" / "jump.js").write_text(JUMP)
        model = {"id": "stand-in", "name": "Stand-in", "input": ["text"], "contextWindow": WINDOW, "maxTokens": 1000}
        offered = {"baseUrl": f"{provider.url}/v1", "api": "openai-completions", "apiKey": "sk-test", "models": [model]}
        (self.agent / "models.json").write_text(json.dumps({"providers": {"stand-in": offered}}))
        (self.agent / "settings.json").write_text(json.dumps({"retry": {"baseDelayMs": 10}}))
        self.database = home / "lcm.db"
        self._process: subprocess.Popen[str] | None = None
        self._events: queue.Queue[dict[str, Any] | None] = queue.Queue()
        self.notes: list[str] = []
        """What pi showed to the user."""

    def start(self, *arguments: str) -> None:
        with (self.home / "errors.txt").open("a") as errors:
            self._start(errors, *arguments)

    def _start(self, errors: IO[str], *arguments: str) -> None:
        nowhere = dict.fromkeys(("HTTP_PROXY", "HTTPS_PROXY"), "http://127.0.0.1:9") | {"NO_PROXY": "127.0.0.1"}
        own = {"HOME": str(self.home), "PI_OFFLINE": "1", "PI_CODING_AGENT_DIR": str(self.agent)}
        self._process = subprocess.Popen(
            [self.node, self.program, "--mode", "rpc", "--provider", "stand-in", "--model", "stand-in", *arguments],
            cwd=self.work,
            env={"PATH": os.environ["PATH"], "LCM_DATABASE_PATH": str(self.database), **own, **nowhere},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
        )
        self._events = queue.Queue()
        self._reader = threading.Thread(target=self._read, args=(self._process, self._events))
        self._reader.start()

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    def stop(self) -> None:
        """End pi as a user does."""
        if self._process is None:
            return
        process, self._process = self._process, None
        assert process.stdin is not None
        process.stdin.close()
        try:
            assert process.wait(PATIENCE) == 0
        finally:
            process.kill()
            self._reader.join()

    def say(self, text: str, *plays: Play) -> None:
        """Have a turn, up to the moment at which pi waits for the user again."""
        self.begin(text, *plays)
        self.until("agent_settled")

    def begin(self, text: str, *plays: Play) -> None:
        self.provider.script(*plays)
        self.send({"type": "prompt", "message": text})

    def ask(self, **command: Any) -> dict[str, Any]:
        """Send a command, and return the data of its answer."""
        self.send(command)
        answer = self.until("response", command=command["type"])
        assert answer["success"], answer
        return answer.get("data") or {}

    def send(self, command: dict[str, Any]) -> None:
        assert self._process is not None
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(command) + "\n")
        self._process.stdin.flush()

    def until(self, kind: str, **fields: Any) -> dict[str, Any]:
        while True:
            event = self._events.get(timeout=PATIENCE)
            assert event is not None, (self.home / "errors.txt").read_text()
            if event["type"] == kind and all(event.get(name) == value for name, value in fields.items()):
                return event

    def entries(self) -> list[dict[str, Any]]:
        """Return the lines of the newest session file."""
        newest = max(self.agent.glob("sessions/*/*.jsonl"), key=lambda path: path.stat().st_mtime_ns)
        return [json.loads(line) for line in newest.read_text().splitlines()]

    def _read(self, process: subprocess.Popen[str], events: queue.Queue[dict[str, Any] | None]) -> None:
        assert process.stdout is not None
        with process.stdout as lines:
            for line in lines:
                event = json.loads(line)
                if event["type"] == "extension_ui_request" and event.get("method") == "notify":
                    self.notes.append(event["message"])
                events.put(event)
        events.put(None)
