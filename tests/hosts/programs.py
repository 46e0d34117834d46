"""Agent programs without a screen: a process a turn, at home in a directory of their own, with no network but loopback."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

from tests.provider import Play, Provider

FULL = 90_000
"""Tokens that fill the window either program is told of: it compacts before it asks again."""

NOTES = "The harbour master is called Ines.\nThe ferry leaves at noon.\n"


class Program:
    """One session of a program, whose model is the stand-in."""

    def __init__(self, program: Path, home: Path, provider: Provider) -> None:
        self.program, self.home, self.provider = program, home, provider
        self.session = ""
        self.work = home / "work"
        self.work.mkdir(parents=True)
        (self.work / "notes.txt").write_text(NOTES)

    def say(self, prompt: str, *plays: Play) -> None:
        """A turn, in which the model is asked as often as there are plays."""
        asked = self.provider.calls
        self.provider.script(*plays)
        self.session = self.turn(prompt)
        assert self.provider.calls - asked == len(plays)

    def turn(self, prompt: str) -> str:
        """Let the program do it, resuming its session if it has one; the session's id."""
        raise NotImplementedError

    @property
    def transcript(self) -> Path:
        raise NotImplementedError

    def received(self) -> dict[str, str]:
        """What the model was told that its tools answered, by the call's id."""
        raise NotImplementedError

    def asked(self) -> list[str]:
        """Each request that the model received, as JSON."""
        return [json.dumps(call.body, ensure_ascii=False) for call in self.provider.requests]

    def run(self, *arguments: str, **environment: str) -> str:
        # A proxy where nobody listens: whatever is not for the stand-in gets nowhere.
        nowhere = dict.fromkeys(("HTTP_PROXY", "HTTPS_PROXY"), "http://127.0.0.1:9") | {"NO_PROXY": "127.0.0.1"}
        done = subprocess.run(
            [self.program, *arguments],
            cwd=self.work,
            env={"PATH": os.environ["PATH"], "HOME": str(self.home), **nowhere, **environment},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout


class ClaudeCode(Program):
    def turn(self, prompt: str) -> str:
        resume = ("--resume", self.session) if self.session else ()
        told = self.run(
            *("-p", prompt, "--output-format", "json", "--model", "claude-opus-5-5", *resume),
            *("--allowedTools", "Bash,Read,Agent"),
            ANTHROPIC_BASE_URL=self.provider.url,
            ANTHROPIC_API_KEY="sk-test",
            DISABLE_AUTOUPDATER="1",
            CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC="1",
            CLAUDE_CODE_AUTO_COMPACT_WINDOW="90000",
            ENABLE_TOOL_SEARCH="false",
        )
        return str(json.loads(told)["session_id"])

    @property
    def transcript(self) -> Path:
        (path,) = self.home.glob(f".claude/projects/*/{self.session}.jsonl")
        return path

    @property
    def sent(self) -> list[Path]:
        """The transcripts of those it sent to do a part of the work."""
        return list(self.transcript.with_suffix("").glob("subagents/*.jsonl"))

    def received(self) -> dict[str, str]:
        results = [block for block in self._blocks() if block["type"] == "tool_result"]
        return {block["tool_use_id"]: _words(block["content"]) for block in results}

    def told(self) -> set[str]:
        """Every text the model was sent."""
        return {block["text"].strip() for block in self._blocks() if block["type"] == "text"}

    def _blocks(self) -> list[dict[str, Any]]:
        contents = [message["content"] for call in self.provider.requests for message in call.body["messages"]]
        return [block for content in contents if isinstance(content, list) for block in content]


def _words(content: Any) -> str:
    return content if isinstance(content, str) else "\n".join(block["text"] for block in content)


class Codex(Program):
    def __init__(self, program: Path, home: Path, provider: Provider) -> None:
        super().__init__(program, home, provider)
        (home / ".codex").mkdir()
        (home / ".codex" / "config.toml").write_text(
            f"""
            model = "stand-in"
            model_provider = "stand-in"
            model_context_window = 90000
            check_for_update_on_startup = false
            analytics.enabled = false
            [model_providers.stand-in]
            name = "stand-in"
            base_url = "{provider.url}"
            env_key = "STAND_IN_KEY"
            wire_api = "responses"
            request_max_retries = 0
            stream_max_retries = 0
            """
        )

    def turn(self, prompt: str) -> str:
        resume = ("resume", self.session) if self.session else ()
        options = ("--skip-git-repo-check", "--json", "--dangerously-bypass-approvals-and-sandbox")
        told = self.run("exec", *options, *resume, prompt, STAND_IN_KEY="sk-test")
        return str(json.loads(told.partition("\n")[0])["thread_id"])

    @property
    def transcript(self) -> Path:
        (path,) = self.home.glob(f".codex/sessions/*/*/*/rollout-*-{self.session}.jsonl")
        return path

    def received(self) -> dict[str, str]:
        items = [item for call in self.provider.requests for item in call.body["input"]]
        return {item["call_id"]: item["output"] for item in items if item["type"] == "function_call_output"}
