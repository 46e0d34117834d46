"""Every command as a person and a program see it: transcripts that are read in review, and compared from then on.

`LCM_TEST_GOLDEN=write pytest tests/cli/test_golden.py` writes them anew. What differs from run to run (ids, paths, sizes, the
present time) stands for itself in the transcripts.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from random import Random
from unittest.mock import patch

import click
import pytest
from click.testing import CliRunner
from msgspec import structs

from lossless import Lossless, Message, SummaryRequest, Text, ToolCall, ToolResult, __version__
from lossless.cli import cli
from lossless.cli.app import each_command
from tests.histories import SMALL
from tests.hosts.bundles import stand_in
from tests.transcribing import Session, assistant, user

TRANSCRIPTS = Path(__file__).parents[1] / "cases" / "golden"
KEY = "agent:main:main"
MODEL = "command:sh -c \"cat >/dev/null; echo 'Told anew, in short.'; echo 'Expand for details about: the rest'\""
HOSTILE = "\x1b[2Jred \u202egnp"

CASES: dict[str, tuple[str, ...]] = {
    "context": (
        "context",
        "context -c agent:main:main --window 400",
        "context nobody",
        "context --at 1",
        "context other --as-prompt anthropic",
        "context --window 0",
    ),
    "explain": ("explain {message} -c agent:main:main", "explain 'never said' -c agent:main:main"),
    "grep": (
        "grep 'lamp 1[0-2]' -c agent:main:main",
        "grep lamp --all --mode full_text --limit 2",
        "grep absent --all",
    ),
    "describe": (
        "describe {leaf}",
        "describe {root}",
        "describe {file} --start-line 2 --end-line 4",
        "describe sum_ffffffffffffffff",
    ),
    "expand": ("expand {leaf}", "expand {root} --max-tokens 100 --no-messages", "expand {message}", "expand lamp"),
    "ask": ("ask 'Which lamp was broken?' -c agent:main:main --model extractive",),
    "focus": (
        "focus -c agent:main:main",
        "focus 'The broken lamp' -c agent:main:main --name lamps --model extractive",
        "focus -c agent:main:main --refresh --model extractive",
        "focus --list -c agent:main:main",
        "focus zzyzx -c agent:main:main --model extractive",
        "focus lamp --list -c agent:main:main",
    ),
    "unfocus": ("focus noted -c other --model extractive", "unfocus other", "unfocus other"),
    "import": (
        "import {dir}/session.jsonl",
        "import {dir}/session.jsonl --apply",
        "import {dir}/session.jsonl --apply",
        "import {dir}/absent.jsonl",
    ),
    "bridge": ("bridge",),
    "watch": ("watch {dir}/session.jsonl --once",),
    "backfill": ("backfill {dir}/session.jsonl --key old", "backfill {dir}/session.jsonl --key old --apply"),
    "compact": (
        "compact other --model extractive",
        "compact agent:main:main --force --model extractive --window 500",
        "compact nobody",
    ),
    "worker": ("worker --once --model extractive",),
    "mcp": ("mcp --http 99999", "mcp --http 0.0.0.0:8765"),
    "hook": ("hook nobody",),
    "export": (
        "export {dir}/all.zip",
        "export {dir}/all.zip",
        "export {dir}/all.zip --replace -c other",
    ),
    "migrate": ("migrate {db} {dir}/moved.db", "migrate {db} {dir}/moved.db"),
    "forget": (
        "forget agent:main:main",
        "forget agent:main:main {message}",
        "forget agent:main:main {message} --apply",
        "forget agent:main:main msg#1",
    ),
    "rewrite": (
        "rewrite --summary {leaf} --plan --model 'MODEL'",
        "rewrite --summary {leaf} --model 'MODEL'",
        "rewrite agent:main:main --depth 1 --diff --apply --model 'MODEL'",
        "rewrite agent:main:main",
    ),
    "repair": ("repair agent:main:main --model 'MODEL'", "repair --all --kind provisional --plan --model 'MODEL'"),
    "dissolve": ("dissolve {root}", "dissolve {root} --apply", "dissolve {leaf}"),
    "transplant": (
        "transplant agent:main:main other",
        "transplant agent:main:main other --apply",
        "transplant agent:main:main other --apply",
        "transplant agent:main:main nobody",
    ),
    "merge": ("merge agent:main:main", "merge nobody"),
    "history": ("history", "history other"),
    "undo": ("undo {operation}", "undo {operation}", "undo op_ffffffffffff"),
    "doctor": ("doctor", "doctor --prove", "doctor other --check C02", "doctor --check X99"),
    "doctor fix": ("doctor fix F01", "doctor fix F01 --apply"),
    "doctor clean": ("doctor clean", "doctor clean cron_sessions --apply --archive {dir}/cleaned.zip"),
    "prompts list": ("prompts list",),
    "prompts show": ("prompts show leaf", "prompts show leef"),
    "prompts diff": ("prompts diff leaf",),
    "prompts render": ("prompts render leaf --target 100",),
    "prompts export": ("prompts export {dir}/prompts", "prompts export {dir}/prompts"),
    "prompts check": ("prompts check {dir}/prompts",),
    "install": (
        "install codex",
        "install codex --apply",
        "install codex --apply",
        "install codex --remove --apply",
        "install codx",
        "install hermes --scope project",
    ),
    "hosts": ("hosts", "install pi --apply", "hosts"),
    "status": ("status", "status other", "status --fail-on warning", "status nobody"),
    "stats": ("stats", "stats other", "stats --since yesterdy"),
    "conversations list": (
        "conversations list",
        "conversations list --limit 1",
        "conversations list --cursor xyz",
        "conversations list --role user",
    ),
    "conversations show": ("conversations show agent:main:main", "conversations show agent:main:mian"),
    "messages list": (
        "messages list agent:main:main --limit 3",
        "messages list other --include-content",
        "messages list agent:main:main --role tool --limit 2 --oldest-first",
        "messages list other --after 2026-02-30T00:00Z",
        "messages list other --limit 0",
    ),
    "messages show": ("messages show {message}", "messages show msg#9", "messages show lamp"),
    "messages tail": ("messages tail agent:main:main --count 2",),
    "messages around": (
        "messages around {message} --after 2",
        "messages around 20 -c agent:main:main --before 1 --after 1",
    ),
    "summaries list": (
        "summaries list agent:main:main --depth 1",
        "summaries list agent:main:main --limit 2 --include-content",
    ),
    "summaries show": ("summaries show {leaf}", "summaries show {root}", "summaries show sum_ffffffffffffffff"),
    "summaries tree": (
        "summaries tree agent:main:main",
        "summaries tree --root {root} --depth 1",
        "summaries tree other",
    ),
    "summaries history": ("summaries history {leaf}", "summaries history {root}"),
    "summaries diff": ("summaries diff {leaf}", "summaries diff {root}", "summaries diff {leaf} --from 9"),
    "files list": ("files list agent:main:main", "files list other"),
    "files show": ("files show {file}", "files show file_ffffffffffffffffffffffff"),
    "files cat": ("files cat {file} --lines 2:4", "files cat {file} --bytes 0:10", "files cat {file} --lines 9:2"),
    "config show": ("config show",),
    "config get": ("config get fresh_tail_count", "config get fresh_tial_count"),
    "config explain": ("config explain leaf_target_tokens",),
    "config set": (
        "config set summary_model openai/gpt-5-mini",
        "config set leaf_target_tokens -5",
        "config set nonsense 1",
        "config set --unset summary_model",
    ),
    "completion": ("completion bash", "completion tcsh"),
    "backup": ("backup {dir}/copy.zip", "backup {dir}/copy.zip", "backup {dir}/proved.zip --prove"),
    "restore": (
        "restore {dir}/absent.zip",
        "restore {dir}/kept.zip --db {dir}/second.db",
        "restore {dir}/kept.zip",
        "restore {dir}/kept.zip --replace",
        "restore {dir}/kept.zip --replace --apply",
        "restore {dir}/session.jsonl --db {dir}/third.db",
    ),
    "new": ("new agent:main:main", "new agent:main:main --apply", "new nobody"),
    "reset": ("reset agent:main:main", "reset agent:main:main --apply"),
    "pin": ("pin {message}", "pin 'Never on a Friday.' -c other"),
    "unpin": ("unpin {pin} -c agent:main:main", "unpin {pin} -c agent:main:main"),
    "pins": ("pins agent:main:main", "pins other"),
    "gc": ("gc", "gc --apply"),
    "prune": (
        "prune --before 1d",
        "prune --before soon",
        "prune --before 1d --include-active --apply --archive {dir}/pruned.zip",
    ),
    "demo": ("demo {dir}/session.jsonl --db {dir}/demo.db",),
}


class House:
    """A database with a history, and the names under which its ids are known in a transcript."""

    def __init__(self, directory: Path) -> None:
        self.directory, self.database = directory, directory / "lcm.db"
        self.ids: dict[str, str] = {}

    def environment(self, columns: int) -> dict[str, str]:
        small = {name: getattr(SMALL, name) for name in SMALL.__struct_fields__}
        default = type(SMALL)()
        changed = {name: value for name, value in small.items() if value != getattr(default, name)}
        home = {
            name: str(self.directory / "home")
            for name in ("HOME", "XDG_DATA_HOME", "XDG_CONFIG_HOME", "XDG_STATE_HOME")
        }
        return {
            **{f"LCM_{name.upper()}": str(value) for name, value in changed.items()},
            **home,
            "LCM_DATABASE_PATH": str(self.database),
            "LCM_LARGE_FILES_DIR": str(self.directory / "files"),
            "COLUMNS": str(columns),
            "TZ": "UTC",
            "LCM_OUTPUT": "text",
            "PATH": "/usr/bin:/bin",  # the agents of this machine are not part of a transcript
        }

    def line(self, case: str) -> str:
        known = {**self.ids, "dir": str(self.directory), "db": str(self.database)}
        return re.sub(r"\{(\w+)\}", lambda found: known[found[1]], case)

    def run(self, case: str, *more: str, columns: int = 100) -> str:
        words = [MODEL if word == "MODEL" else word for word in shlex.split(self.line(case))] + list(more)
        with certain(2):
            ran = CliRunner().invoke(cli, words, env=self.environment(columns), catch_exceptions=False)
        out = _indented(ran.stdout) if "--json" in more else ran.stdout
        told = [f"$ lcm {' '.join([case, *more])}", *out.splitlines()]
        told += [f"2| {line}" for line in ran.stderr.splitlines()]
        told += [f"[exits with {ran.exit_code}]"] if ran.exit_code else []
        assert "\x1b" not in ran.output, "text from a database must not reach a terminal as it is"
        return self.plain("\n".join(told))

    def plain(self, text: str) -> str:
        """What is the same every time."""
        text = text.replace(str(self.directory), "DIR").replace(__version__, "VERSION")
        text = text.replace(sys.executable, "PYTHON")
        text = re.sub(r'"installed_at": [1-9][\d.]+', '"installed_at": 1', text)
        text = re.sub(r"\([\d,]+ \w+ ago\)", "(AGO)", text)
        for day in (datetime.now(UTC) - timedelta(days=n) for n in range(20)):
            text = re.sub(rf"{day:%Y-%m-%d}[T ]\d\d:\d\d(:\d\d(\.\d+)?)?(Z|\+00:00)?", "NOW", text)
            text = re.sub(rf"{day:%Y%m%d}[-T]?\d{{6}}Z?", "NOW", text)
            text = text.replace(f"{day:%Y-%m-%d}", "DAY")
        text = re.sub(r"NOW-\d{6}\b", "NOW", text)
        text = re.sub(r'"/[^"\n]*(\n +[^"\n]+)+"', '"DIR"', text)  # a long path goes on in the next line
        text = re.sub(r"\b\d+\.\d+ s\b", "0.0 s", text)
        text = re.sub(r"\b\d+(\.\d+)? (KB|MB|GB|TB)\b", "SIZE", text)
        text = re.sub(r'"(seconds|bytes|\w+_bytes|free|scanned)": [\d.]+', r'"\1": 0', text)
        return re.sub(r"\b([0-9a-f]{64}|[0-9a-f]{16}(?=$|\s))", "DIGEST", text, flags=re.M)


@contextmanager
def certain(seed: int) -> Iterator[None]:
    """Chance is the same every time: ids are part of what is printed, and of what it costs in tokens."""
    with patch("os.urandom", Random(seed).randbytes):
        yield


def _indented(text: str) -> str:
    """JSON as a person can review it: one value, or one on each line."""
    try:
        values = [json.loads(text)]
    except json.JSONDecodeError:
        values = [json.loads(line) for line in text.splitlines()]
    return "\n".join(json.dumps(value, indent=1) for value in values)


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> House:
    house = House(tmp_path_factory.mktemp("golden"))
    now = [1_710_000_000.0]
    settings = structs.replace(SMALL, large_files_dir=str(house.directory / "files"))
    with (
        certain(1),
        Lossless.open(
            house.database, settings=settings, summarizer=told, clock=lambda: now[0], on_event=lambda event: None
        ) as lcm,
    ):
        chat = lcm.conversation(KEY, "session-1")
        for turn in range(24):
            now[0] += 60
            chat.ingest(_turn(turn))
            chat.compact(500, force=turn % 6 == 5)
        chat.ingest([Message.user("\n".join(f"log line {n}: all is well" for n in range(300)), event_id="large")])
        pin = chat.pin("The lamp in the hall is broken.")
        chat.assemble(1_200)
        deep = max(chat.summaries(), key=lambda each: each.depth)
        now[0] += 60
        done = chat.rewrite(chat.summaries()[0].id, apply=True, model=told_anew)
        now[0] += 60
        lcm.conversation("other").ingest(
            [Message.user(HOSTILE, event_id="h"), Message.assistant("Noted.", event_id="n")]
        )
        lcm.conversation("agent:main:cron:report", "run-1").ingest([Message.user("A report.", event_id="r")])
        lcm.backup(house.directory / "kept.zip")
        house.ids = {
            "leaf": chat.summaries()[0].id,
            "root": deep.id,
            "message": f"msg#{chat.messages()[0].id}",
            "file": chat.files()[0].id,
            "operation": str(done.operation),
            "pin": pin.id,
        }
    session = Session(house.directory / "session.jsonl", "session-9")
    session.says(user("Where is the ladder?"), assistant("In the cellar."))
    os.utime(session.path, (now[0], now[0]))
    return house


def told(request: SummaryRequest) -> str:
    lines = [line for line in request.source.splitlines() if line.strip() and not line.startswith("[")]
    return "\n".join([*(line[:80] for line in lines[:4]), "Expand for details about: the rest"])


def told_anew(request: SummaryRequest) -> str:
    return "A lamp, told once more."


def _turn(turn: int) -> list[Message]:
    state = f"lamp {turn}: {'broken' if turn == 7 else 'fine'}"
    call = ToolCall(f"call-{turn}", "look", f'{{"lamp": {turn}}}')
    return [
        Message.user(f"What about lamp {turn}? " + "It stands in the hall. " * 6, event_id=f"u{turn}"),
        Message("assistant", (call,), event_id=f"a{turn}"),
        Message("tool", (ToolResult(f"call-{turn}", (Text(state),)),), event_id=f"t{turn}"),
    ]


def _copied(built: House, directory: Path) -> House:
    """The same history, to be changed as one likes."""
    copy = House(directory)
    shutil.copytree(built.directory, copy.directory)
    copy.ids = built.ids
    return copy


@pytest.fixture(autouse=True)
def bundles(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stand_in(tmp_path / "package", monkeypatch)


@pytest.mark.parametrize("command", CASES)
def test_the_command_answers_as_written(command: str, built: House, tmp_path: Path) -> None:
    for_a_person, for_a_program = _copied(built, tmp_path / "text"), _copied(built, tmp_path / "json")
    told = [for_a_person.run(case) for case in CASES[command]]
    told += [for_a_program.run(case, "--json") for case in CASES[command]]
    _compare("\n\n".join(told) + "\n", command)


def _compare(told: str, command: str) -> None:
    path = TRANSCRIPTS / f"{command.replace(' ', '-')}.txt"
    if os.environ.get("LCM_TEST_GOLDEN") == "write":
        path.parent.mkdir(exist_ok=True)
        path.write_text(told)
    assert told == path.read_text()


def test_every_command_has_its_transcript() -> None:
    with click.Context(cli, info_name="lcm") as ctx:
        names = {name.removeprefix("lcm ") for name, _ in each_command(cli, ctx)}
    assert {"doctor" if name == "doctor check" else name for name in names} == set(CASES)


@pytest.mark.parametrize("command", CASES)
def test_the_command_bears_a_tiny_terminal(command: str, built: House, tmp_path: Path) -> None:
    house = _copied(built, tmp_path / "tiny")
    narrow = [house.run(case, columns=20) for case in CASES[command]]
    exits = [line for told in narrow for line in told.splitlines() if line.startswith("[exits with ")]
    written = (TRANSCRIPTS / f"{command.replace(' ', '-')}.txt").read_text().split("--json\n")[0]
    assert exits == [line for line in written.splitlines() if line.startswith("[exits with ")]
