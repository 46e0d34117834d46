"""OpenCode without a screen: one server, many turns over its HTTP API."""

from __future__ import annotations

import json
import os
import re
import subprocess
import threading
import urllib.request
from pathlib import Path
from typing import Any

from tests.hosts.plugins import PATIENCE
from tests.provider import Play, Provider

WINDOW = 36_000


class OpenCode:
    """One OpenCode server, whose model is the stand-in."""

    def __init__(self, program: Path, modules: Path, home: Path, provider: Provider) -> None:
        self.program, self.home, self.provider = program, home, provider
        self.config, self.work = home / ".config" / "opencode", home / "work"
        self.plugins = self.config / "plugin"
        self.database = home / "lcm.db"
        self.work.mkdir(parents=True)
        (self.work / "notes.txt").write_text("The ferry leaves at noon.\n")
        self.config.mkdir(parents=True)
        # OpenCode installs the types of plugins beside its configuration, unless they are there.
        (self.config / "node_modules").symlink_to(modules)
        version = {"@opencode-ai/plugin": "1.18.33"}
        (self.config / "package.json").write_text(json.dumps({"dependencies": version}))
        locked = {"node_modules/@opencode-ai/plugin": {"version": "1.18.33"}, "": {"dependencies": version}}
        lock = {"name": "opencode", "lockfileVersion": 3, "requires": True, "packages": locked}
        (self.config / "package-lock.json").write_text(json.dumps(lock))
        model = {"name": "Stand-in", "tool_call": True, "limit": {"context": WINDOW, "output": 1000}}
        offered = {
            "npm": "@ai-sdk/openai-compatible",
            "options": {"baseURL": f"{provider.url}/v1", "apiKey": "sk-test"},
            "models": {"stand-in": model},
        }
        settings = {"model": "stand-in/stand-in", "small_model": "stand-in/stand-in", "autoupdate": False}
        chosen = {**settings, "share": "disabled", "permission": "allow", "provider": {"stand-in": offered}}
        (self.config / "opencode.json").write_text(json.dumps(chosen))
        self.session = ""
        self.url = ""
        self.process: subprocess.Popen[str] | None = None
        self.lines: list[str] = []
        """What the server printed for people."""

    def start(self) -> None:
        nowhere = dict.fromkeys(("HTTP_PROXY", "HTTPS_PROXY"), "http://127.0.0.1:9")
        nowhere["NO_PROXY"] = "127.0.0.1,localhost"
        off = ("AUTOUPDATE", "MODELS_FETCH", "DEFAULT_PLUGINS", "LSP_DOWNLOAD")
        own = {"HOME": str(self.home), "LCM_DATABASE_PATH": str(self.database)}
        own |= {f"OPENCODE_DISABLE_{name}": "1" for name in off}
        self.process = subprocess.Popen(
            [self.program, "serve", "--port", "0", "--hostname", "127.0.0.1"],
            cwd=self.work,
            env={"PATH": os.environ["PATH"], **own, **nowhere},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        started = threading.Event()
        self._reader = threading.Thread(target=self._read, args=(self.process, started))
        self._reader.start()
        assert started.wait(PATIENCE), self.lines

    def stop(self) -> None:
        if self.process is None:
            return
        process, self.process = self.process, None
        if self.url:
            self._post("/instance/dispose", {})
        process.terminate()
        try:
            process.wait(PATIENCE)
        finally:
            process.kill()
            self._reader.join()

    def say(self, text: str, *plays: Play) -> dict[str, Any]:
        """Have a turn, and return the last reply."""
        self.provider.script(*plays)
        return self.prompt(text)

    def prompt(self, text: str) -> dict[str, Any]:
        if not self.session:
            self.session = self._post("/session", {})["id"]
        found: dict[str, Any] = self._post(
            f"/session/{self.session}/message", {"parts": [{"type": "text", "text": text}]}
        )
        return found

    def messages(self) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = self._request("GET", f"/session/{self.session}/message")
        return found

    def post(self, path: str, body: dict[str, Any]) -> Any:
        return self._post(f"/session/{self.session}/{path}", body)

    def _post(self, path: str, body: dict[str, Any]) -> Any:
        return self._request("POST", path, body)

    def _request(self, method: str, path: str, body: dict[str, Any] | None = None) -> Any:
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self.url + path, data, {"content-type": "application/json"}, method=method)
        with urllib.request.build_opener(urllib.request.ProxyHandler({})).open(request, timeout=4 * PATIENCE) as answer:
            text = answer.read()
        return json.loads(text) if text else None

    def _read(self, process: subprocess.Popen[str], started: threading.Event) -> None:
        assert process.stdout is not None
        with process.stdout as lines:
            for line in lines:
                self.lines.append(line)
                if found := re.search(r"listening on (http://\S+)", line):
                    self.url = found[1].rstrip("/")
                    started.set()
