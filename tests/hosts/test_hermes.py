"""Hermes Agent, the real one: what it says is stored, what it sends is rebuilt, and a fault of ours breaks no turn."""

from __future__ import annotations

import json
import os
import re
import subprocess
from collections.abc import Callable, Sequence
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from lossless import Conversation, Lossless
from lossless.engine.shared.host_activity import HostActivity
from lossless.model import ToolCall, ToolResult
from lossless.tokens import estimate
from lossless.version import __version__
from tests.hosts import pip
from tests.hosts.connecting import install
from tests.provider import Call, Play, Provider, Use
from tests.validators import violations

pytestmark = [pytest.mark.hosts, pytest.mark.timeout(300)]

VERSION = "0.19.0"
WINDOW = 65_536
FACT = "The harbour master is called Ines."
FILLER = "The ferry leaves at noon, and the ferry is late. " * 300


class Model(Provider):
    """A stand-in that answers by what it is asked: summaries apart from turns."""

    def __init__(self, answer: Callable[[str, int], Play]) -> None:
        super().__init__()
        self.answer = answer
        self.summaries: list[Call] = []

    def take(self, call: Call) -> Play:
        with self._lock:
            if "tools" not in call.body:
                self.summaries.append(call)
                return Play(f"They spoke of the ferry. Part {len(self.summaries)}.")
            self.requests.append(call)
            return self.answer(_prompt(call), len(self.requests))._replace(used=_size(call))


def _items(call: Call) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = call.body.get("messages") or call.body["input"]
    return found


def _prompt(call: Call) -> str:
    """What the user said last, summaries aside, and how many results have come since."""
    said, results = "", 0
    for item in _items(call):
        blocks = item.get("content")
        blocks = blocks if isinstance(blocks, list) else [item | {"type": item.get("type", "text"), "text": blocks}]
        for block in blocks:
            if item.get("role") == "tool" or block["type"] in ("tool_result", "function_call_output"):
                results += 1
            elif item.get("role") == "user" and not str(block.get("text")).startswith("<"):
                said, results = str(block.get("text")), 0
    return f"{said}\n#{results}"


class Hermes:
    """One installation of Hermes with an empty home."""

    def __init__(self, python: Path, home: Path, model: Provider) -> None:
        self.python, self.home, self.model = python, home, model
        self.database = home / "lcm.db"
        self.work = home / "work"
        self.work.mkdir(parents=True)
        self.extra = pip.with_lossless(home / "lossless")
        self.config = home / ".hermes" / "config.yaml"
        self.config.parent.mkdir()
        self.configure()

    def configure(self, more: str = "") -> None:
        """Connect it with `lcm install`. The package is added by its path: Hermes is not found, and pip not run."""
        self.configure_plain(
            f"""
plugins:
  entries: {{lossless: {{settings: {{fresh_tail_count: 8}}}}}}
{more}
"""
        )
        said = install("hermes", {"PATH": os.defpath, "HOME": str(self.home)})
        assert "Hermes was not found on this machine" in said

    def configure_plain(self, more: str = "") -> None:
        """Write a configuration that knows nothing of us."""
        self.config.write_text(
            f"""
model: {{default: stand-in, provider: custom, base_url: {self.model.url}, api_key: sk-test, context_length: {WINDOW}}}
agent: {{environment_probe: false}}
{more}
"""
        )

    def environment(self) -> dict[str, str]:
        # A proxy where nobody listens: whatever is not for the stand-in gets nowhere.
        nowhere = dict.fromkeys(("HTTP_PROXY", "HTTPS_PROXY"), "http://127.0.0.1:9") | {"NO_PROXY": "127.0.0.1"}
        return {
            "PATH": os.environ["PATH"],
            "HOME": str(self.home),
            "HERMES_HOME": str(self.home / ".hermes"),
            "TERMINAL_CWD": str(self.work),
            "LCM_DATABASE_PATH": str(self.database),
            # Hermes installs optional packages when it starts: not here, and without trying again.
            "PIP_NO_INDEX": "1",
            "PIP_RETRIES": "0",
            **self.extra,
            **nowhere,
        }

    def run(self, *steps: str, resume: str = "", **agent: Any) -> dict[str, Any]:
        """Let the agent class take those turns in one process."""
        options = {"base_url": self.model.url, "provider": "custom", "enabled_toolsets": ["context_engine", "file"]}
        plan = {"agent": options | agent, "steps": steps, "resume": resume}
        driver = Path(__file__).with_name("hermes_driver.py")
        done = self._process([str(self.python), str(driver)], json.dumps(plan))
        report: dict[str, Any] = json.loads(done.splitlines()[-1])
        return report

    def command(self, *arguments: str) -> str:
        return self._process([str(self.python.with_name("hermes")), *arguments])

    def _process(self, command: Sequence[str], text: str | None = None) -> str:
        done = subprocess.run(
            command,
            cwd=self.work,
            env=self.environment(),
            input=text or "",
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    @property
    def activity(self) -> HostActivity:
        import msgspec

        (path,) = self.home.glob("**/lossless/hosts/hermes.json")
        return msgspec.json.decode(path.read_bytes(), type=HostActivity)

    def conversation(self, key: str) -> Conversation:
        return Lossless.open(self.database).conversation(key)


@pytest.fixture
def hermes_python() -> Path:
    try:
        return pip.python("hermes-agent", VERSION, "anthropic")
    except LookupError as reason:
        if os.environ.get("CI"):
            raise
        pytest.skip(f"NO HOST PROGRAM: {reason}")


def _rows(chat: Conversation) -> list[tuple[str, str]]:
    return [(stored.role, stored.text) for stored in chat.messages()]


def _reading(number: int) -> Use:
    return Use(f"call_read_{number}", "read_file", {"path": "log.txt", "offset": number * 40 + 1, "limit": 40})


def _calls(chat: Conversation) -> list[str]:
    """The ids of calls in the order they were made; each has one result."""
    parts = [part for stored in chat.messages() for part in stored.message.parts]
    calls = [part.call_id for part in parts if isinstance(part, ToolCall)]
    assert calls == [part.call_id for part in parts if isinstance(part, ToolResult)]
    return calls


def _size(call: Call) -> int:
    return estimate(json.dumps(call.body, ensure_ascii=False))


def test_a_long_conversation_is_stored_once_and_sent_bounded(hermes_python: Path, tmp_path: Path) -> None:
    rounds = count()

    def answer(prompt: str, number: int) -> Play:
        if prompt.startswith("Read the log") and (start := next(rounds) * 4) < 40:
            return Play("", uses=tuple(_reading(at) for at in range(start, start + 4)))
        if prompt == "Who is the harbour master?\n#0":
            return Play("", uses=(Use("call_recall", "lcm_grep", {"pattern": "harbour master"}),))
        return Play(f"Answer {number}. {FILLER}")

    with Model(answer) as model:
        hermes = Hermes(hermes_python, tmp_path / "home", model)
        log = "".join(f"{number}: {'ship ' * 60}\n" for number in range(1, 1601))
        (hermes.work / "log.txt").write_text(log)
        talk = [f"Question {number}. {FILLER}" for number in range(1, 9)]
        report = hermes.run(f"{FACT} {FILLER}", *talk, "Read the log.", "Who is the harbour master?")

    assert report["engine"] == "lossless"
    assert report["copy"] == ["LosslessEngine", False, True]
    assert {"lcm_grep", "lcm_describe", "lcm_expand_query"} < set(report["tools"])
    assert report["status"]["requests_rebuilt"]
    assert report["status"]["last_error"] == ""

    chat = hermes.conversation(f"hermes:{report['session']}")
    said = [(role, text.split(".")[0]) for role, text in _rows(chat) if role == "user"]
    prompts = [FACT, *talk, "Read the log.", "Who is the harbour master?"]
    assert said == [("user", each.split(".")[0]) for each in prompts]
    assert _calls(chat) == [*(f"call_read_{number}" for number in range(40)), "call_recall"]
    assert len(chat.messages()) == report["held"] == 2 * 11 + 10 + 40 + 2
    assert hermes.activity.delivered == report["held"]
    assert hermes.activity.version == VERSION
    assert hermes.activity.last_error == ""

    assert len(chat.summaries()) >= 2
    assert model.summaries
    sent = model.requests
    assert not [fault for call in sent for fault in violations("openai_chat", call.body)]
    assert max(map(_size, sent)) < WINDOW
    last = json.dumps(_items(sent[-1]))
    assert "<summary id=" in last
    assert "Question 1." not in last
    within = [call for call in sent if "call_read_39" in json.dumps(_items(call))]
    assert "call_read_0" not in re.findall(r"call_read_\d+", json.dumps(_items(within[0])))
    assert "Read the log." in json.dumps(_items(within[0]))
    (recalled,) = (item for item in _items(sent[-1]) if item.get("tool_call_id") == "call_recall")
    assert FACT in recalled["content"]


def test_a_session_goes_on_in_a_new_process_and_under_a_new_id(hermes_python: Path, tmp_path: Path) -> None:
    with Model(lambda prompt, number: Play(f"Answer {number}. {FILLER}")) as model:
        hermes = Hermes(hermes_python, tmp_path / "home", model)
        hermes.configure("compression: {in_place: false}")
        talk = [f"Question {number}. {FILLER}" for number in range(1, 8)]
        first = hermes.run(f"{FACT} {FILLER}", *talk, "/compress", "Question 8.", "Question 9.")
        second = hermes.run("Question 10.", "Question 11.", resume=first["session"])

    assert second["session"] == first["session"]
    assert first["held"] < 20  # the host's own list was shortened
    key = first["status"]["conversation"]
    assert key != f"hermes:{first['session']}"  # it has the id it began with
    assert second["status"]["conversation"] == key
    rows = _rows(hermes.conversation(key))
    numbers = [int(found[1]) for role, text in rows if role == "user" and (found := re.match(r"Question (\d+)", text))]
    assert numbers == list(range(1, 12))
    assert [role for role, _ in rows] == ["user", "assistant"] * 12
    assert not [fault for call in model.requests for fault in violations("openai_chat", call.body)]
    assert "<summary id=" in json.dumps(_items(model.requests[-1]))
    with Lossless.open(hermes.database) as lcm:
        assert [each.key for each in lcm.conversations()] == [key]


def test_a_sub_agent_has_a_conversation_below_that_of_its_parent(hermes_python: Path, tmp_path: Path) -> None:
    task = "Count the gulls at the pier."

    def answer(prompt: str, number: int) -> Play:
        if prompt.startswith(task):
            if prompt.endswith("#0"):
                return Play("", uses=(Use("call_child", "read_file", {"path": "gulls.txt"}),))
            return Play("There are nine gulls.")
        if prompt == "Send somebody to count.\n#0":
            return Play("", uses=(Use("call_send", "delegate_task", {"goal": task}),))
        if prompt == "What was counted?\n#0":
            return Play("", uses=(Use("call_recall", "lcm_grep", {"pattern": "nine gulls"}),))
        return Play(f"Answer {number}.")

    with Model(answer) as model:
        hermes = Hermes(hermes_python, tmp_path / "home", model)
        (hermes.work / "gulls.txt").write_text("gull\n" * 9)
        tools = ["context_engine", "file", "delegation"]
        steps = (FACT, "Send somebody to count.", "/wait", "What was counted?")
        report = hermes.run(*steps, enabled_toolsets=tools)

    assert report["status"]["last_error"] == ""
    key = f"hermes:{report['session']}"
    with Lossless.open(hermes.database) as lcm:
        (child,) = [each for each in lcm.conversations() if each.key != key]
        parent = lcm.conversations.show(child.id).parent
        assert parent is not None
        assert parent.key == key
        below, above = lcm.conversation(child.key), lcm.conversation(key)
        assert [role for role, _ in _rows(below)] == ["user", "assistant", "tool", "assistant"]
        assert _rows(below)[0][1].startswith(task)
        assert _rows(below)[-1] == ("assistant", "There are nine gulls.")
        assert _calls(below) == ["call_child"]
        # The parent finds what its sub-agent said, and the sub-agent nothing of its parent.
        assert not below.grep("harbour master")
        assert _calls(above) == ["call_send", "call_recall"]
    (recalled,) = (item for item in _items(model.requests[-1]) if item.get("tool_call_id") == "call_recall")
    assert "There are nine gulls." in recalled["content"]


def test_a_broken_database_breaks_no_turn_and_is_seen(hermes_python: Path, tmp_path: Path) -> None:
    with Model(lambda prompt, number: Play(f"Answer {number}. {FILLER}")) as model:
        hermes = Hermes(hermes_python, tmp_path / "home", model)
        hermes.database.write_bytes(b"not a database" * 1_000)
        talk = [f"Question {number}. {FILLER}" for number in range(1, 13)]
        broken = hermes.run(*talk)
        assert [each.split(".")[0] for each in broken["turns"]] == [f"Answer {number}" for number in range(1, 13)]
        assert broken["status"]["last_error"]
        assert not broken["status"]["requests_rebuilt"]
        assert hermes.activity.failures > 0
        assert hermes.activity.last_error == broken["status"]["last_error"][:500]
        assert max(map(_size, model.requests)) < WINDOW
        assert not [fault for call in model.requests for fault in violations("openai_chat", call.body)]

        hermes.database.unlink()
        mended = hermes.run("Question 13.", resume=broken["session"])
    assert mended["status"]["last_error"] == ""
    assert hermes.activity.failures == 0
    said = [
        text.split(".")[0]
        for role, text in _rows(hermes.conversation(mended["status"]["conversation"]))
        if role == "user"
    ]
    assert said[-1] == "Question 13"
    assert said == [f"Question {number}" for number in range(14 - len(said), 14)]


@pytest.mark.parametrize(
    ("api_mode", "format"),
    [("codex_responses", "openai_responses"), ("anthropic_messages", "anthropic")],
)
def test_requests_of_other_apis_are_rebuilt_too(
    api_mode: str, format: str, hermes_python: Path, tmp_path: Path
) -> None:
    def answer(prompt: str, number: int) -> Play:
        if "Look." in prompt and prompt.endswith("#0"):
            return Play("", uses=(_reading(0), _reading(1)))
        return Play(f"Answer {number}. {FILLER}")

    with Model(answer) as model:
        hermes = Hermes(hermes_python, tmp_path / "home", model)
        (hermes.work / "log.txt").write_text("a ship\n" * 100)
        talk = [f"Question {number}. {FILLER}" for number in range(1, 12)]
        report = hermes.run(*talk, "Look.", "Question 12.", api_mode=api_mode)
    assert report["status"]["requests_rebuilt"]
    assert report["status"]["last_prompt_tokens"] == _size(model.requests[-1])
    assert not [fault for call in model.requests for fault in violations(format, call.body)]
    last = json.dumps(_items(model.requests[-1]))
    assert "<summary id=" in last
    assert "Question 1." not in last
    assert "Look." in last
    assert max(map(_size, model.requests)) < WINDOW
    chat = hermes.conversation(report["status"]["conversation"])
    assert _calls(chat) == ["call_read_0", "call_read_1"]
    assert len(chat.messages()) == report["held"] == 2 * 13 + 3


def test_lcm_install_connects_the_command_and_remove_takes_everything_back(hermes_python: Path, tmp_path: Path) -> None:
    def answer(prompt: str, number: int) -> Play:
        if prompt.endswith("Who is the harbour master?\n#0"):
            return Play("", uses=(Use("call_recall", "lcm_grep", {"pattern": "harbour master"}),))
        return Play(f"Answer {number}.")

    program = pip.copied(hermes_python, "hermes", tmp_path / "env")
    with Model(answer) as model:
        hermes = Hermes(program.with_name("python"), tmp_path / "home", model)
        hermes.extra = {}
        hermes.configure_plain()
        before = hermes.config.read_bytes()
        here = {
            **{name: value for name, value in os.environ.items() if name.startswith("PIP_")},
            "PATH": f"{program.parent}{os.pathsep}{os.environ['PATH']}",
            "HOME": str(hermes.home),
        }
        assert not _packages(program)
        assert "pip install" in install("hermes", here)
        assert _packages(program) == [f"lossless-{__version__}.dist-info"]
        connected = hermes.config.read_bytes()
        assert "pip install" not in install("hermes", here)
        assert hermes.config.read_bytes() == connected

        hermes.command("chat", "-Q", "-q", FACT)
        with Lossless.open(hermes.database) as lcm:
            (found,) = lcm.conversations()
        session = found.key.removeprefix("hermes:")
        hermes.command("chat", "-Q", "--resume", session, "-q", "Who is the harbour master?")
    chat = hermes.conversation(found.key)
    assert [role for role, _ in _rows(chat)] == ["user", "assistant", "user", "assistant", "tool", "assistant"]
    assert _rows(chat)[0] == ("user", FACT)
    assert FACT in _rows(chat)[4][1]

    install("hermes", here, "--remove")
    assert hermes.config.read_bytes() == before
    assert not _packages(program)
    assert not (hermes.config.parent / "skills" / "lossless").exists()


def _packages(program: Path) -> list[str]:
    """What pip installed of us."""
    folders = program.parent.parent.glob("lib/python3*/site-packages")
    return [path.name for folder in folders for path in folder.glob("lossless-*")]
