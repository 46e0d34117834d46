"""The gateway of OpenClaw, at home in a directory of its own, with our plugin and the stand-in as its model."""

from __future__ import annotations

import http.client
import json
import os
import signal
import socket
import subprocess
import time
from pathlib import Path
from typing import Any, Self

from tests.hosts import npm
from tests.hosts.connecting import install
from tests.provider import Provider

VERSION = "2026.9.6"
KEY = "agent:main:http1"
WINDOW = 64_000
_READY = 90.0


class OpenClaw:
    """One gateway process."""

    def __init__(self, home: Path, provider: Provider, *, settings: dict[str, Any] | None = None) -> None:
        self.home, self.provider = home, provider
        self.node = npm.node()
        self.program = npm.program("openclaw", VERSION, "openclaw/openclaw.mjs", on=self.node)
        self.database = home / "lcm.db"
        self.output = home / "gateway.log"
        self.port = _free_port()
        self._process: subprocess.Popen[bytes] | None = None
        self._configure(settings or {})

    def _configure(self, settings: dict[str, Any]) -> None:
        state = self.home / ".openclaw"
        state.mkdir(parents=True)
        (self.home / "work").mkdir()
        model = {
            "id": "stand-in",
            "name": "Stand-in",
            "reasoning": False,
            "input": ["text"],
            "cost": {"input": 0, "output": 0, "cacheRead": 0, "cacheWrite": 0},
            "contextWindow": WINDOW,
            "maxTokens": 2000,
        }
        provider = {
            "baseUrl": self.provider.url,
            "apiKey": "sk-openclaw-secret",
            "api": "openai-completions",
            "models": [model],
        }
        config = state / "openclaw.json"
        self.config: dict[str, Any] = {
            "models": {"mode": "replace", "providers": {"fake": provider}},
            "agents": {"defaults": {"model": {"primary": "fake/stand-in"}, "workspace": str(self.home / "work")}},
            "gateway": {"mode": "local", "http": {"endpoints": {"chatCompletions": {"enabled": True}}}},
        }
        config.write_text(json.dumps(self.config))
        install("openclaw", self.environment)
        self.config = json.loads(config.read_text())
        own = self.config["plugins"]["entries"]["lossless"]["config"]
        own.update({"databasePath": str(self.database), **settings})
        config.write_text(json.dumps(self.config))

    @property
    def environment(self) -> dict[str, str]:
        # A proxy where nobody listens: whatever is not for the stand-in gets nowhere.
        nowhere = dict.fromkeys(("HTTP_PROXY", "HTTPS_PROXY"), "http://127.0.0.1:9") | {"NO_PROXY": "127.0.0.1"}
        home = {"HOME": str(self.home), "OPENCLAW_STATE_DIR": str(self.home / ".openclaw")}
        quiet = {"OPENCLAW_SKIP_CHANNELS": "1", "OPENCLAW_DISABLE_BONJOUR": "1", "NO_COLOR": "1"}
        return {"PATH": f"{self.node.parent}{os.pathsep}{os.environ['PATH']}", **home, **nowhere, **quiet}

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def start(self) -> None:
        """Start the gateway, and wait until it answers."""
        arguments = (
            "gateway",
            "run",
            "--port",
            str(self.port),
            "--bind",
            "loopback",
            "--auth",
            "token",
            "--token",
            "T",
        )
        with self.output.open("ab") as output:
            self._process = subprocess.Popen(
                [self.node, self.program, *arguments],
                cwd=self.home / "work",
                env=self.environment,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        until = time.monotonic() + _READY
        while not self._answers():
            assert self._process.poll() is None, self.log()
            assert time.monotonic() < until, self.log()
            time.sleep(0.1)  # there is no event of another process to wait for

    def _answers(self) -> bool:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=2)
        try:
            connection.request("GET", "/v1/models", headers={"authorization": "Bearer T"})
            return connection.getresponse().status == 200
        except OSError:
            return False
        finally:
            connection.close()

    def stop(self, number: int = signal.SIGTERM) -> None:
        """End the gateway."""
        if self._process is not None and self._process.poll() is None:
            self._process.send_signal(number)
            try:
                self._process.wait(20)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()
        self._process = None

    def kill(self) -> None:
        """Kill the gateway, as the system does when memory runs out."""
        assert self._process is not None
        self._process.kill()
        self._process.wait()

    def say(self, text: str, *, key: str = KEY) -> str:
        """Take a turn; returns the reply."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=120)
        body = {"model": "openclaw", "messages": [{"role": "user", "content": text}]}
        headers = {"authorization": "Bearer T", "content-type": "application/json", "x-openclaw-session-key": key}
        try:
            connection.request("POST", "/v1/chat/completions", json.dumps(body), headers)
            answer = connection.getresponse()
            data = answer.read()
            assert answer.status == 200, (answer.status, data, self.log()[-3000:])
            return str(json.loads(data)["choices"][0]["message"]["content"])
        finally:
            connection.close()

    def call(self, method: str, **params: Any) -> Any:
        """Call a method of the gateway, as its own programs do."""
        address = ("--url", f"ws://127.0.0.1:{self.port}", "--token", "T")
        return json.loads(self.run("gateway", "call", method, "--params", json.dumps(params), *address, "--json"))

    def run(self, *arguments: str) -> str:
        """Run a command of OpenClaw; returns what it printed."""
        done = subprocess.run(
            [self.node, self.program, *arguments],
            cwd=self.home / "work",
            env=self.environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    def log(self) -> str:
        return self.output.read_text(errors="replace")

    def bridges(self) -> list[int]:
        """The ids of the bridge processes of this gateway."""
        assert self._process is not None
        return [pid for pid in _children(self._process.pid) if b"bridge" in _command(pid).split(b"\0")]


def _children(pid: int) -> list[int]:
    found: list[int] = []
    for task in Path(f"/proc/{pid}/task").glob("*/children"):
        try:
            children = [int(child) for child in task.read_text().split()]
        except OSError:
            continue
        for child in children:
            found += [child, *_children(child)]
    return found


def _command(pid: int) -> bytes:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return b""


def _free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])
