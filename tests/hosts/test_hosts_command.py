"""`lcm hosts` shows which agents are here, which are connected, and what they delivered."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from lossless.engine.shared import host_activity
from lossless.errors import NotFound
from lossless.hosts.install import Place, carry_out, host_named, overview, prepare
from lossless.hosts.install.overview import HostState
from tests.command import fine, lcm
from tests.hosts.bundles import stand_in

NAMES = ["openclaw", "hermes", "claude-code", "codex", "pi", "opencode"]


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    stand_in(tmp_path / "package", monkeypatch)
    home = tmp_path / "home"
    home.mkdir()
    (tmp_path / "bin").mkdir()
    for name, path in {"HOME": home, "XDG_STATE_HOME": tmp_path / "state", "PATH": tmp_path / "bin"}.items():
        monkeypatch.setenv(name, str(path))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(home / ".config"))
    return home


@pytest.fixture
def place(home: Path) -> Place:
    environment = {"PATH": str(home.parent / "bin"), "XDG_CONFIG_HOME": str(home / ".config")}
    return Place(home=home, project=None, environment=environment, command=(sys.executable, "-m", "lossless"))


def state(place: Place, name: str) -> HostState:
    return next(each for each in overview(place) if each.name == name)


def connect(place: Place, name: str) -> None:
    carry_out(prepare(host_named(name), place))


def add_program(home: Path, name: str, package: str, version: str) -> Path:
    """Install a program as npm does: a link in the path to a script in a package."""
    script = home.parent / "node_modules" / package / "cli.js"
    script.parent.mkdir(parents=True)
    script.write_text("#!/usr/bin/env node\n")
    script.chmod(0o755)
    (script.parent / "package.json").write_text(json.dumps({"name": package, "version": version}))
    (home.parent / "bin" / name).symlink_to(script)
    return script


def test_an_empty_machine_shows_six_hosts_and_the_first_step(home: Path) -> None:
    shown = fine("hosts").splitlines()
    assert [line.split()[0] for line in shown[1:7]] == NAMES
    assert all("not connected" in line for line in shown[1:7])
    assert shown[-1] == "No host is connected. `lcm install claude-code` shows what would change."


def test_a_program_is_found_with_its_version_and_never_started(home: Path, place: Place) -> None:
    add_program(home, "codex", "@openai/codex", "0.166.0")
    found = state(place, "codex")
    assert (found.found, found.version, found.connection) == (True, "0.166.0", "not connected")
    assert found.program == str(home.parent / "bin" / "codex")
    assert "`lcm install codex` shows what would change" in fine("hosts")


def test_a_native_program_has_the_version_of_its_path(home: Path, place: Place) -> None:
    program = home / ".local/share/claude/versions/2.1.325"
    program.parent.mkdir(parents=True)
    program.write_bytes(b"\x7fELF")
    program.chmod(0o755)
    (home.parent / "bin" / "claude").symlink_to(program)
    assert state(place, "claude-code").version == "2.1.325"


def test_hermes_is_found_in_its_own_environment(home: Path, place: Place) -> None:
    environment = home / ".hermes/hermes-agent/venv"
    (environment / "lib/python3.11/site-packages/hermes_agent-0.19.0.dist-info").mkdir(parents=True)
    (environment / "bin").mkdir()
    (environment / "bin/hermes").write_text("#!/usr/bin/python3\n")
    found = state(place, "hermes")
    assert (found.version, found.program) == ("0.19.0", str(environment / "bin/hermes"))


@pytest.mark.parametrize("name", NAMES)
def test_a_host_is_connected_until_it_is_removed(name: str, home: Path, place: Place) -> None:
    connect(place, name)
    found = state(place, name)
    assert (found.connection, found.problems) == ("connected", ())
    assert found.installed_at > 0
    fine("install", name, "--remove", "--apply")
    assert state(place, name).connection == "not connected"


def test_entries_made_by_hand_count_as_a_connection(home: Path, place: Place) -> None:
    (home / ".codex").mkdir()
    (home / ".codex/config.toml").write_text('[mcp_servers.lcm]\ncommand = "lcm"\nargs = ["mcp"]\n')
    assert state(place, "codex").connection == "by hand"


def test_a_deleted_environment_is_reported_with_its_solution(home: Path, place: Place, tmp_path: Path) -> None:
    python = tmp_path / "venv/bin/python"
    python.parent.mkdir(parents=True)
    python.touch()
    gone = Place(home=home, project=None, environment={}, command=(str(python), "-m", "lossless"))
    connect(gone, "claude-code")
    assert state(place, "claude-code").connection == "connected"
    python.unlink()
    found = state(place, "claude-code")
    assert found.connection == "broken"
    (problem,) = found.problems
    assert f"{python} is missing" in problem
    assert "`lcm install claude-code --apply` writes it again." in problem
    assert "is missing: the environment of lossless was moved or deleted" in " ".join(fine("hosts").split())
    fine("install", "claude-code", "--apply")
    assert state(place, "claude-code").connection == "connected"


@pytest.mark.parametrize(
    ("name", "file", "missing"),
    [
        ("claude-code", ".claude/settings.json", "no longer contains the hook SessionStart"),
        ("codex", ".codex/config.toml", "no longer contains mcp_servers.lcm"),
        ("openclaw", ".openclaw/openclaw.json", "no longer contains plugins.load.paths"),
        ("hermes", ".hermes/config.yaml", "no longer contains plugins.enabled"),
    ],
)
def test_an_entry_that_somebody_took_out_is_reported(
    name: str, file: str, missing: str, home: Path, place: Place
) -> None:
    connect(place, name)
    (home / file).write_text("")
    found = state(place, name)
    assert found.connection == "broken"
    assert [missing in problem for problem in found.problems] == [True]


def test_a_plugin_that_was_deleted_is_reported(home: Path, place: Place) -> None:
    connect(place, "pi")
    (home / ".pi/agent/extensions/lossless/index.js").unlink()
    (problem,) = state(place, "pi").problems
    assert "index.js is missing" in problem


def test_files_of_an_older_version_are_reported(home: Path, place: Place) -> None:
    connect(place, "pi")
    (home.parent / "package/bundled/integrations/pi/index.js").write_text("// a newer version\n")
    found = state(place, "pi")
    assert found.connection == "outdated"
    assert "`lcm install pi --apply` updates them." in found.problems[0]
    connect(place, "pi")
    assert state(place, "pi").connection == "connected"


def test_a_project_that_is_connected_is_named(home: Path, place: Place, tmp_path: Path) -> None:
    project = tmp_path / "project"
    project.mkdir()
    here = Place(home=home, project=project, environment={}, command=place.command)
    connect(here, "opencode")
    found = state(place, "opencode")
    assert (found.connection, found.projects) == ("connected", (str(project),))
    assert "connected for the project" in fine("hosts")


@pytest.mark.parametrize("columns", ["80", "160"])
def test_deliveries_events_and_failures_are_shown(home: Path, place: Place, columns: str) -> None:
    connect(place, "codex")
    host_activity.record("codex", "Stop", seconds=0.12, delivered=1_003, clock=lambda: 1_700_000_000.0)
    host_activity.record("codex", "Stop", seconds=0.12, delivered=1, clock=lambda: 1_700_000_060.0)
    host_activity.record("codex", "UserPromptSubmit", seconds=0.05, clock=lambda: 1_700_000_120.0)
    shown = fine("hosts", COLUMNS=columns)
    assert all(len(line) <= 80 for line in shown.splitlines())
    state, event = (line.split() for line in shown.splitlines() if line.startswith("codex"))
    assert state[2:] == ["connected", "1,004", "2023-11-14", "22:14"]
    assert event[1:] == ["2023-11-14", "22:13", "UserPromptSubmit", "0.05", "s", "2023-11-14", "22:15"]

    host_activity.record("codex", "Stop", error="The database is locked.", clock=lambda: 1_700_000_180.0)
    shown = fine("hosts", COLUMNS=columns)
    failure = "codex: 1 failure in a row, the last 2023-11-14 22:16 UTC: The database is locked."
    assert failure in " ".join(shown.split())


def test_a_program_that_uses_lossless_itself_is_shown(home: Path, place: Place) -> None:
    host_activity.record("langchain", "store", delivered=3, version="1.4.7", clock=lambda: 1_700_000_000.0)
    found = overview(place)
    assert [each.name for each in found] == [*NAMES, "langchain"]
    assert (found[-1].version, found[-1].connection) == ("1.4.7", "in code")
    line = next(line for line in fine("hosts").splitlines() if line.startswith("langchain"))
    assert line.split()[1:5] == ["1.4.7", "in", "code", "3"]


def test_without_a_host_those_on_this_machine_are_named(home: Path) -> None:
    (home / ".pi" / "agent").mkdir(parents=True)
    ran = lcm("install")
    assert ran.returncode == 2
    assert "Name a host: openclaw, hermes, claude-code, codex, pi, opencode." in ran.stderr
    assert "On this machine: pi. Try `lcm install pi`." in ran.stderr


def test_a_host_that_is_not_on_this_machine_is_named_as_such(home: Path) -> None:
    missing = "was not found on this machine. It uses these files once it is installed."
    assert f"pi {missing}" in fine("install", "pi")
    assert "Hermes was not found on this machine." in fine("install", "hermes")
    (home / ".codex").mkdir()
    add_program(home, "opencode", "opencode-ai", "1.18.33")
    assert missing not in fine("install", "codex") + fine("install", "opencode")


def test_a_program_can_read_it_as_json(home: Path, place: Place) -> None:
    connect(place, "codex")
    host_activity.record("codex", "Stop", seconds=0.12, delivered=3, clock=lambda: 1_700_000_000.0)
    found: list[dict[str, Any]] = json.loads(fine("hosts", "--json"))["data"]["hosts"]
    assert [each["name"] for each in found] == NAMES
    codex = found[3]
    assert (codex["connection"], codex["activity"]["delivered"]) == ("connected", 3)
    assert codex["activity"]["first_delivery"] == 1_700_000_000.0
    assert found[0]["activity"] is None


def test_a_damaged_record_is_like_none(home: Path, place: Place, tmp_path: Path) -> None:
    connect(place, "codex")
    (record,) = (tmp_path / "state").rglob("record.json")
    record.write_text("{")
    assert state(place, "codex").connection == "by hand"


def test_a_recorded_error_does_not_quote_a_conversation() -> None:
    try:
        int("my secret plan")
    except ValueError as error:
        text = host_activity.error_text(error)
    assert text.startswith("ValueError in test_hosts_command.py:")
    assert host_activity.error_text(NotFound("summary", "sum_1", hint="`lcm summaries` lists them.")).endswith(
        "lists them."
    )
    assert "No space left" in host_activity.error_text(OSError(28, "No space left on device"))
