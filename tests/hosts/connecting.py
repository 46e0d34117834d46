"""Connect a program to `lcm hook`, as its settings say it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from tests.hosts.hooking import Home
from tests.hosts.programs import Codex, Program

EVENTS = (
    *("SessionStart", "UserPromptSubmit", "Stop", "SubagentStop"),
    *("PreCompact", "PostCompact", "SessionEnd"),
)


@contextmanager
def connected(program: Program, host: str, **settings: object) -> Iterator[Home]:
    """Write the hooks into the settings of a program, and those of lossless beside them."""
    path = program.home / ".config" / "lossless" / "lcm.toml"
    path.parent.mkdir(parents=True)
    path.write_text("".join(f"{name} = {json.dumps(value)}\n" for name, value in settings.items()))
    install(host, {"PATH": os.environ["PATH"], "HOME": str(program.home)})
    if isinstance(program, Codex):
        trust(program)
    home = Home(program.home)
    try:
        yield home
    finally:
        home.close()


def install(host: str, environment: Mapping[str, str], *options: str) -> str:
    """Connect a program as its user does; return what is printed."""
    command = [sys.executable, "-P", "-m", "lossless", "install", host, "--apply", *options]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=240, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def trust(codex: Codex) -> None:
    """Trust every hook, as its user would in the list of `/hooks`: Codex runs no other."""
    server = subprocess.Popen(
        [codex.program, "app-server"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env={"PATH": os.environ["PATH"], "HOME": str(codex.home), "HTTPS_PROXY": "http://127.0.0.1:9"},
        cwd=codex.work,
        text=True,
    )
    with server:
        assert server.stdin is not None
        assert server.stdout is not None

        def call(number: int, method: str, params: Any) -> Any:
            assert server.stdin is not None
            assert server.stdout is not None
            server.stdin.write(json.dumps({"id": number, "method": method, "params": params}) + "\n")
            server.stdin.flush()
            answers = map(json.loads, server.stdout)
            return next(each["result"] for each in answers if each.get("id") == number)

        call(1, "initialize", {"clientInfo": {"name": "lossless", "version": "1"}})
        server.stdin.write(json.dumps({"method": "initialized"}) + "\n")
        (found,) = call(2, "hooks/list", {"cwds": [str(codex.work)]})["data"]
        hashes = {each["key"]: {"trusted_hash": each["currentHash"]} for each in found["hooks"]}
        assert len(hashes) == len(EVENTS)
        edit = {"keyPath": "hooks.state", "value": hashes, "mergeStrategy": "upsert"}
        call(3, "config/batchWrite", {"edits": [edit]})
        server.terminate()
