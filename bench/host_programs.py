"""Turns of programs: Hermes and OpenClaw, without and with us, and the processes of ours that hosts start."""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple, Self

from host_history import WINDOW, Contest, Spent, newest, opened, texts
from lossless import Message
from stand_in import last_request

ROOT = Path(__file__).parents[1]
HERMES = "0.19.0"
IDLE = 2.0
"""Seconds between turns to warm up, in which another process compacts in the background."""
CHAT = {"key": "agent:main:main", "session": "run-1"}


class Cost(NamedTuple):
    """What a process of ours needs: seconds, one figure for each run."""

    name: str
    seconds: list[float]
    what: str


def tests() -> None:
    """Let programs be found as the tests find them."""
    if str(ROOT) not in sys.path:
        sys.path.append(str(ROOT))


# Hermes


class HermesProcess:
    """One agent of Hermes in a home of its own."""

    def __init__(self, home: Path, url: str, *, with_us: bool) -> None:
        from tests.hosts import pip

        (home / ".hermes").mkdir(parents=True)
        lines = [
            f"model: {{default: stand-in, provider: custom, base_url: {url}, api_key: sk-test, context_length: {WINDOW}}}",
            "agent: {environment_probe: false}",
            *(("plugins: {enabled: [lossless]}", "context: {engine: lossless}") if with_us else ()),
        ]
        (home / ".hermes" / "config.yaml").write_text("\n".join(lines) + "\n")
        environment = {
            "PATH": os.environ["PATH"],
            "HOME": str(home),
            "HERMES_HOME": str(home / ".hermes"),
            "TERMINAL_CWD": str(home),
            "LCM_DATABASE_PATH": str(home / "lcm.db"),
            "LCM_SUMMARY_PROVIDER": "extractive",
            "BENCH_URL": url,
            "NO_PROXY": "127.0.0.1",
            **dict.fromkeys(("HTTP_PROXY", "HTTPS_PROXY"), "http://127.0.0.1:9"),
            "LCM_SUMMARY_MAX_CALLS_PER_WINDOW": "1000000",
            "PIP_NO_INDEX": "1",
            "PIP_RETRIES": "0",
            **(pip.with_lossless(home / "lossless") if with_us else {}),
        }
        self.engine = "lossless" if with_us else "compressor"
        self.held = 0
        self._process = subprocess.Popen(
            [pip.python("hermes-agent", HERMES), str(Path(__file__).with_name("hermes_driver.py"))],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env=environment,
            cwd=home,
            text=True,
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.communicate(timeout=60)

    def begin(self, said: list[str]) -> None:
        """Start with messages of the user and of the assistant in turn."""
        roles = ("user", "assistant") * len(said)
        self._write([{"role": role, "content": text} for role, text in zip(roles, said, strict=False)])

    def turn(self, prompt: str) -> Spent:
        self._write(prompt)
        assert self._process.stdout is not None
        answer = json.loads(self._process.stdout.readline())
        assert answer["engine"] == self.engine, answer["engine"]
        self.held = answer["held"]
        return Spent(*answer["spent"])

    def _write(self, value: object) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(value) + "\n")
        self._process.stdin.flush()


@contextmanager
def hermes(folder: Path, url: str, count: int) -> Iterator[Contest]:
    """The agent class: a list that its own engine has shortened, against a list of everything that ours takes over."""
    tests()
    said = texts(count)
    with (
        HermesProcess(folder / "hermes", url, with_us=False) as plain,
        HermesProcess(folder / "hermes-lossless", url, with_us=True) as remembering,
    ):
        remembering.begin(said)
        fit = _once(lambda size: plain.begin(newest(said, size)))
        yield Contest("Hermes", plain.turn, remembering.turn, fit, lambda: time.sleep(IDLE))


# OpenClaw


@contextmanager
def openclaw(folder: Path, url: str, count: int) -> Iterator[Contest]:
    """The gateway over HTTP: a session with one long message, against our plugin with the history in its database."""
    tests()
    from tests.hosts.openclaw import KEY, OpenClaw

    class Model(NamedTuple):
        url: str

    class Plain(OpenClaw):
        def _configure(self, settings: dict[str, Any]) -> None:
            super()._configure(settings)
            del self.config["plugins"]
            (self.home / ".openclaw" / "openclaw.json").write_text(json.dumps(self.config))

    model: Any = Model(url)
    said = texts(count)
    plain, remembering = Plain(folder / "openclaw", model), OpenClaw(folder / "openclaw-lossless", model)
    _fill(remembering.database, KEY, said)

    def fit(size: int) -> None:
        plain.say("Begin.")
        own = last_request(url)  # its instructions and tools are long
        plain.say("\n".join(newest(said, size))[: max(0, size - own)])

    with plain, remembering:
        yield Contest(
            "OpenClaw",
            lambda prompt: plain.say(prompt),
            lambda prompt: remembering.say(prompt),
            _once(fit),
            lambda: time.sleep(IDLE),
        )


def _once(fit: Callable[[int], object]) -> Callable[[int], None]:
    """Return a function that does something the first time it is called."""
    left = [fit]
    return lambda size: [left.pop()(size) for _ in list(left)].clear()


def _fill(database: Path, key: str, said: list[str]) -> None:
    with opened(database) as lcm:
        chat = lcm.conversation(key)
        for start in range(0, len(said), 100):
            chat.ingest(
                (Message.assistant if number % 2 else Message.user)(text, event_id=f"e{number}")
                for number, text in enumerate(said[start : start + 100], start)
            )
            chat.compact(WINDOW)


# Our own processes


def bridge(folder: Path, count: int, turns: int, warm_up: int, *, whole: bool) -> Cost:
    """The round trip of a turn: assemble with the prompt, or with the whole list of the host, then commitTurn."""
    tests()
    from tests.hosts.bridge_process import BridgeProcess

    said = texts(count)
    database = folder / f"bridge-{whole}.db"
    _fill(database, CHAT["key"], said)
    held = [_entry(number, text) for number, text in enumerate(said)] if whole else []
    seconds = []
    with BridgeProcess(database, environment={"LCM_SUMMARY_PROVIDER": "extractive"}) as process:
        process.begin()
        for number in range(len(said), len(said) + 2 * (warm_up + turns), 2):
            turn = [_entry(number, f"Question {number}."), _entry(number + 1, f"Answer {number}.")]
            start = time.perf_counter()
            shown = process.call("assemble", conversation=CHAT, messages=[*held, turn[0]], window=WINDOW)
            process.call("commitTurn", conversation=CHAT, messages=turn, advancementKey=str(number), window=WINDOW)
            seconds.append(time.perf_counter() - start)
            assert "<summary id=" in json.dumps(shown["messages"][:2])
            held += turn if whole else []
    what = "the host sends its whole list" if whole else "the host sends the prompt"
    return Cost("bridge: assemble + commitTurn", seconds[warm_up:], f"wall; {what}")


def _entry(number: int, text: str) -> dict[str, Any]:
    at = 1_790_000_000_000 + number * 1000
    if number % 2:
        return {"role": "assistant", "content": [{"type": "text", "text": text}], "stopReason": "stop", "timestamp": at}
    return {"role": "user", "content": text, "timestamp": at}


def hook(folder: Path, count: int, runs: int) -> Iterator[Cost]:
    """Each event of a hook from start to end, after the background has read a transcript of that length."""
    tests()
    from tests.hosts.hooking import Home, Transcript, wait_until

    home = Home(folder / "hook", summary_provider="extractive")
    transcript = Transcript(home.path / "session.jsonl", cwd=str(home.path))
    said = texts(count)
    for question, answer in zip(said[::2], said[1::2], strict=True):
        transcript.turn(question, answer)
    try:
        home.hook("claude-code", "Stop", **transcript.event)

        def stored() -> bool:
            with home.open() as lcm:
                return len(lcm.conversation(transcript.key).messages(after=len(said) - 1)) == 1

        wait_until(home.database.exists)
        wait_until(stored, 120)
        events: Mapping[str, dict[str, Any]] = {
            "Stop": {},
            "UserPromptSubmit": {"prompt": "What did we decide about the gate last week?"},
            "SessionStart": {"source": "resume"},
        }
        for name, more in events.items():
            fire = partial(home.hook, "claude-code", name, **transcript.event, **more)
            seconds = []
            for number in range(runs):
                transcript.turn(f"Question {number}.", "Noted.")
                seconds.append(_cpu(fire))
            yield Cost(f"lcm hook, {name}", seconds, "CPU, start to end")
    finally:
        home.close()


def mcp(folder: Path, count: int, runs: int) -> Cost:
    """The server from its start to the end after one answer of a tool: a little more than to its first answer."""
    database = folder / "mcp.db"
    _fill(database, "claude-code:s-1", texts(count))
    about = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "bench", "version": "1"}}
    call = {"name": "lcm_grep", "arguments": {"pattern": "gate", "conversationId": 1}}
    lines = (
        {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": about},
        {"jsonrpc": "2.0", "method": "notifications/initialized"},
        {"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": call},
    )
    sent = "".join(json.dumps(line) + "\n" for line in lines)
    command = [sys.executable, "-P", "-m", "lossless", "mcp", "--db", str(database)]

    def run() -> None:
        done = subprocess.run(command, input=sent, capture_output=True, text=True, timeout=60, check=True, cwd=folder)
        answers = [json.loads(line) for line in done.stdout.splitlines()]
        assert not answers[-1]["result"].get("isError"), answers[-1]

    return Cost("lcm mcp, start and one search", [_cpu(run) for _ in range(runs)], "CPU, start to end")


def python(runs: int) -> Cost:
    """An interpreter that does nothing."""
    command = [sys.executable, "-P", "-c", "pass"]
    return Cost("python -c pass", [_cpu(lambda: subprocess.run(command, check=True)) for _ in range(runs)], "CPU")


def _cpu(call: Callable[[], object]) -> float:
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    call()
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


PROGRAMS = {"hermes": hermes, "openclaw": openclaw}
