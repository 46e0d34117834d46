from __future__ import annotations

import asyncio
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.hosts import npm
from tests.hosts.bridge_process import BridgeProcess
from tests.hosts.programs import ClaudeCode, Codex
from tests.provider import Provider


def found(package: str, version: str, path: str) -> Path:
    try:
        return npm.program(package, version, path)
    except LookupError as reason:
        if os.environ.get("CI"):
            raise
        pytest.skip(f"NO HOST PROGRAM: {reason}")


@pytest.fixture
def claude(provider: Provider, tmp_path: Path) -> ClaudeCode:
    program = found("@anthropic-ai/claude-code", "2.1.325", "@anthropic-ai/claude-code-*/claude")
    return ClaudeCode(program, tmp_path / "home", provider)


@pytest.fixture
def codex(provider: Provider, tmp_path: Path) -> Codex:
    program = found("@openai/codex", "0.166.0", "@openai/codex-*/vendor/*/bin/codex")
    return Codex(program, tmp_path / "home", provider)


@pytest.fixture
def own_loop() -> Iterator[None]:
    """A loop for functions that run without one, which use the thread's, whatever another test left there."""
    loop = asyncio.new_event_loop()
    asyncio.set_event_loop(loop)
    yield
    asyncio.set_event_loop(None)
    loop.close()


@pytest.fixture
def database(tmp_path: Path) -> Path:
    return tmp_path / "lcm.db"


@pytest.fixture
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    return tmp_path / "state"


@pytest.fixture
def bridge(database: Path, state: Path) -> Iterator[BridgeProcess]:
    with BridgeProcess(database) as process:
        yield process
