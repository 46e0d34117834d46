"""`lcm install` adds its entries and nothing else, and `--remove` leaves no trace."""

from __future__ import annotations

import json
import os
import re
import shlex
import stat
import subprocess
import sys
import tomllib
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from lossless.errors import InstallRefused, LosslessError, NotFound
from lossless.hosts.install import (
    HOSTS,
    Host,
    Place,
    carry_out,
    host_named,
    overview,
    prepare,
    prepare_removal,
    records,
)
from lossless.hosts.install.entries import missing
from lossless.hosts.install.plans import ConfigFile
from tests.command import fine, lcm
from tests.hosts.bundles import stand_in
from tests.hosts.install_samples import Snapshot, snapshot, texts, write_link

COMMAND = ("/opt/my venv/bin/python", "-P", "-m", "lossless")
WITH_CONFIG = [host for host in HOSTS if host.name not in ("pi", "opencode")]
COPIED = [host for host in HOSTS if host.name in ("pi", "opencode")]
NAMES = list(texts("json"))
yaml: Any = import_module("yaml")


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    stand_in(tmp_path / "package", monkeypatch)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    for name in ("CLAUDE_CONFIG_DIR", "CODEX_HOME", "HERMES_HOME", "OPENCLAW_STATE_DIR", "PI_CODING_AGENT_DIR"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(os, "fsync", lambda handle: None)  # no test here cuts the power, and disks are slow
    (tmp_path / "home").mkdir()
    return tmp_path / "home"


@pytest.fixture
def place(home: Path) -> Place:
    return Place(home=home, project=None, environment={"PATH": ""}, command=COMMAND)


def configs(host: Host, place: Place) -> tuple[ConfigFile, ...]:
    return host.plan(place).configs


def write_sample(host: Host, place: Place, name: str) -> None:
    for config in configs(host, place):
        data = texts(config.grammar)[name]
        if data is not None:
            config.path.parent.mkdir(parents=True, exist_ok=True)
            config.path.write_bytes(data)
            config.path.chmod(0o640)


def install(host: Host, place: Place) -> None:
    carry_out(prepare(host, place))


def remove(host: Host, place: Place) -> None:
    carry_out(prepare_removal(host, place))


def values(grammar: str, data: bytes) -> Any:
    """Parse a file as its host does: an independent reading of what we wrote."""
    text = data.decode("utf-8-sig")
    if grammar == "toml":
        return tomllib.loads(text)
    if grammar == "yaml":
        return yaml.safe_load(text)
    strings = re.compile(r'("(?:\\.|[^"\\])*")|//[^\n]*|/\*.*?\*/', re.S)
    plain = strings.sub(lambda found: found[1] or "", text)
    plain = re.sub(r'("(?:\\.|[^"\\])*")|,(?=\s*[}\]])', lambda found: found[1] or "", plain)
    return json.loads(plain) if plain.strip() else {}


def contains(whole: Any, part: Any) -> bool:
    """Whether a value still has everything of another: keys, items in their order, texts."""
    if isinstance(part, dict):
        return isinstance(whole, dict) and all(key in whole and contains(whole[key], part[key]) for key in part)
    if isinstance(part, list):
        rest = iter(whole)
        return all(any(contains(each, wanted) for each in rest) for wanted in part)
    return part is None or bool(whole == part)


def without_chosen(value: Any) -> Any:
    """Leave out the two choices of which there can be one only: the context engine of OpenClaw and of Hermes."""
    value = json.loads(json.dumps(value or {}))
    value.get("plugins", {}) and (value["plugins"] or {}).get("slots", {}).pop("contextEngine", None)
    (value.get("context") or {}).pop("engine", None)
    return value


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("host", WITH_CONFIG, ids=lambda host: host.name)
def test_a_configuration_gets_our_entries_keeps_its_own_and_is_restored(
    host: Host, name: str, home: Path, place: Place
) -> None:
    write_sample(host, place, name)
    before = snapshot(home)
    old = {config.path: config.path.read_bytes() if config.path.exists() else b"" for config in configs(host, place)}

    install(host, place)
    after = snapshot(home)
    for config in configs(host, place):
        data = config.path.read_bytes()
        assert missing(config.grammar, data.decode(), config.entries) == []
        assert contains(values(config.grammar, data), without_chosen(values(config.grammar, old[config.path])))
        kept = [line for line in old[config.path].decode().splitlines() if re.match(r"\s*(#|//|/\*)", line)]
        assert [line for line in data.decode().splitlines() if line in kept] == kept
        if b"\r\n" in old[config.path]:
            assert data.count(b"\n") == data.count(b"\r\n")
        assert data.startswith(b"\xef\xbb\xbf") == old[config.path].startswith(b"\xef\xbb\xbf")
    assert_ours(host, home)

    assert prepare(host, place).is_empty
    install(host, place)
    assert snapshot(home) == after

    remove(host, place)
    assert snapshot(home) == before
    assert prepare_removal(host, place).is_empty


def assert_ours(host: Host, home: Path) -> None:
    """The entries are what the host reads."""
    match host.name:
        case "claude-code":
            hooks = values("json", (home / ".claude/settings.json").read_bytes())["hooks"]
            command = hooks["SessionStart"][-1]["hooks"][0]["command"]
            assert shlex.split(command) == [*COMMAND, "hook", "claude-code"]
            servers = values("json", (home / ".claude.json").read_bytes())["mcpServers"]
            assert [servers["lcm"]["command"], *servers["lcm"]["args"]] == [*COMMAND, "mcp"]
            assert (home / ".claude/skills/lossless/SKILL.md").exists()
        case "codex":
            hooks = values("json", (home / ".codex/hooks.json").read_bytes())["hooks"]
            assert shlex.split(hooks["Stop"][-1]["hooks"][0]["command"]) == [*COMMAND, "hook", "codex"]
            server = values("toml", (home / ".codex/config.toml").read_bytes())["mcp_servers"]["lcm"]
            assert [server["command"], *server["args"]] == [*COMMAND, "mcp"]
            assert (home / ".codex/skills/lossless/SKILL.md").exists()
        case "openclaw":
            plugins = values("json", (home / ".openclaw/openclaw.json").read_bytes())["plugins"]
            assert plugins["slots"]["contextEngine"] == "lossless"
            assert Path(plugins["load"]["paths"][-1], "openclaw.plugin.json").exists()
            assert plugins["entries"]["lossless"] == {"enabled": True, "config": {"command": list(COMMAND)}}
            assert "allow" not in plugins or plugins["allow"] == ["telegram", "lossless"]
        case "hermes":
            config = values("yaml", (home / ".hermes/config.yaml").read_bytes())
            assert config["context"]["engine"] == "lossless"
            assert config["plugins"]["enabled"][-1] == "lossless"
            assert (home / ".hermes/skills/lossless/SKILL.md").exists()


def surroundings(name: str, host: Host, place: Place) -> None:
    """Prepare the directory of a host that gets files only."""
    root = host.root(place)
    plugin = next(copy for copy in host.plan(place).copies if copy.path.suffix == ".js")
    if name == "missing":
        return
    if name == "linked directory":
        (place.home / "dotfiles").mkdir()
        root.parent.mkdir(parents=True, exist_ok=True)
        root.symlink_to(place.home / "dotfiles")
        return
    root.mkdir(parents=True)
    if name == "other plugins":
        other = plugin.path.parent.parent / "other" / "index.js"
        other.parent.mkdir(parents=True)
        other.write_text("export default () => {};\r\n")
    elif name == "other skills":
        (root / "skills" / "mine").mkdir(parents=True)
        (root / "skills" / "mine" / "SKILL.md").write_text("---\nname: mine\n---")
    elif name == "settings":
        (root / "settings.json").write_text('{ // mine\n"extensions": [] }')
    elif name == "an old version by hand":
        plugin.path.parent.mkdir(parents=True)
        plugin.path.write_bytes(b"\xef\xbb\xbf// old\r\n")
        plugin.path.chmod(0o600)
    elif name == "the same by hand":
        plugin.path.parent.mkdir(parents=True)
        plugin.path.write_bytes(plugin.content)
    elif name == "a linked file":
        write_link(plugin.path, b"// elsewhere")


@pytest.mark.parametrize(
    "name",
    [
        "missing",
        "empty",
        "linked directory",
        "other plugins",
        "other skills",
        "settings",
        "an old version by hand",
        "the same by hand",
        "a linked file",
    ],
)
@pytest.mark.parametrize("host", COPIED, ids=lambda host: host.name)
def test_a_plugin_is_copied_and_removed_with_its_directories(host: Host, name: str, home: Path, place: Place) -> None:
    surroundings(name, host, place)
    before = snapshot(home)
    install(host, place)
    after = snapshot(home)
    for copy in host.plan(place).copies:
        assert copy.path.read_bytes() == copy.content
    (settings,) = configs(host, place)
    assert json.loads(settings.path.read_bytes()) == {"command": list(COMMAND)}
    assert (host.root(place) / "skills/lossless/SKILL.md").exists()

    assert prepare(host, place).is_empty
    install(host, place)
    assert snapshot(home) == after
    remove(host, place)
    assert snapshot(home) == before


@pytest.mark.parametrize("host", WITH_CONFIG, ids=lambda host: host.name)
def test_a_link_stays_a_link_and_its_target_is_changed(host: Host, home: Path, place: Place) -> None:
    targets = [write_link(config.path, texts(config.grammar)["others"] or b"") for config in configs(host, place)]
    before = snapshot(home)
    install(host, place)
    assert all(config.path.is_symlink() for config in configs(host, place))
    assert all(b"lossless" in target.read_bytes() for target in targets)
    remove(host, place)
    assert snapshot(home) == before


@pytest.mark.parametrize("host", WITH_CONFIG, ids=lambda host: host.name)
def test_a_read_only_file_is_refused_by_name_and_nothing_is_written(host: Host, home: Path, place: Place) -> None:
    write_sample(host, place, "others")
    path = configs(host, place)[-1].path
    path.chmod(0o444)
    before = snapshot(home)
    with pytest.raises(InstallRefused, match=rf"{re.escape(path.name)} is read-only"):
        install(host, place)
    assert snapshot(home) == before


@pytest.mark.parametrize("host", COPIED, ids=lambda host: host.name)
def test_a_read_only_directory_is_refused(host: Host, home: Path, place: Place) -> None:
    root = host.root(place)
    root.mkdir(parents=True)
    root.chmod(0o555)
    with pytest.raises(InstallRefused, match="is not writable"):
        install(host, place)
    root.chmod(0o755)
    assert list(root.iterdir()) == []


@pytest.mark.parametrize(
    ("host", "text", "reason"),
    [
        ("claude-code", b'{"hooks": ', "not valid JSON: line 1"),
        ("claude-code", b'{"hooks": []}', "hooks is not an object"),
        ("claude-code", b"[]", "not an object"),
        ("claude-code", b'{"a": "\xff"}', "is not UTF-8 text"),
        ("openclaw", b"{plugins: {load: {paths: 3}}}", "plugins.load.paths is not a list"),
        ("codex", b"[mcp_servers\n", "not valid TOML"),
        ("codex", b"mcp_servers = { other = { command = 'x' } }\n", "cannot be changed automatically"),
        ("hermes", b"plugins: &all\n  enabled: [a]\n", "cannot be changed automatically"),
        ("hermes", b"plugins:\n\tenabled: [a]\n", "indented with tabs"),
        ("hermes", b"a: 1\n---\nb: 2\n", "several documents"),
        ("hermes", b"plugins:\n  - a\n", "a list stands where settings are expected"),
        ("hermes", b"plugins:\n  enabled: a\n", "plugins.enabled is not a list"),
    ],
)
def test_a_file_that_cannot_be_edited_is_refused_with_its_reason(
    host: str, text: bytes, reason: str, home: Path, place: Place
) -> None:
    chosen = host_named(host)
    grammar = {"codex": "toml", "hermes": "yaml"}.get(host, "json")
    path = next(config.path for config in configs(chosen, place) if config.grammar == grammar)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(text)
    before = snapshot(home)
    with pytest.raises(InstallRefused, match=reason) as refused:
        install(chosen, place)
    assert str(path) in str(refused.value)
    assert "Nothing was changed." in str(refused.value)
    assert snapshot(home) == before


EDITS = {
    "json": (b"{", b'{\n  "added since": [1, 2], // by me\n'),
    "toml": (b"\nmodel", b"\nadded_since = [1, 2] # by me\nmodel"),
    "yaml": (b"model:", b"added_since: [1, 2] # by me\nmodel:"),
}


def edited(grammar: str, data: bytes) -> bytes:
    return data.replace(*EDITS[grammar], 1)


@pytest.mark.parametrize("name", ["others", "comments", "CRLF", "tabs", "BOM", "no newline at the end"])
@pytest.mark.parametrize("host", WITH_CONFIG, ids=lambda host: host.name)
def test_a_file_that_was_changed_since_loses_only_our_entries(host: Host, name: str, home: Path, place: Place) -> None:
    write_sample(host, place, name)
    before = {config.path: config.path.read_bytes() for config in configs(host, place)}
    install(host, place)
    for config in configs(host, place):
        config.path.write_bytes(edited(config.grammar, config.path.read_bytes()))
    prepared = prepare_removal(host, place)
    assert sum("was changed since: only the entries of lossless" in note for note in prepared.notes) == len(before)
    carry_out(prepared)
    for config in configs(host, place):
        left, wanted = config.path.read_bytes(), edited(config.grammar, before[config.path])
        assert values(config.grammar, left) == values(config.grammar, wanted)
        # A newline that was added to the last line stays; all other bytes are those of the user.
        assert left.rstrip() == wanted.rstrip()


def test_a_file_that_the_host_filled_since_is_not_deleted(home: Path, place: Place) -> None:
    host = host_named("claude-code")
    install(host, place)
    path = home / ".claude.json"
    state = json.loads(path.read_bytes())
    path.write_text(json.dumps({"numStartups": 1, **state}, indent=2))
    remove(host, place)
    assert json.loads(path.read_bytes()) == {"numStartups": 1}
    assert not (home / ".claude").exists()


def test_an_entry_that_the_user_chose_since_stays(home: Path, place: Place) -> None:
    host = host_named("openclaw")
    write_sample(host, place, "others")
    install(host, place)
    path = configs(host, place)[0].path
    path.write_bytes(path.read_bytes().replace(b'"contextEngine": "lossless"', b'"contextEngine": "another"'))
    remove(host, place)
    plugins = values("json", path.read_bytes())["plugins"]
    assert plugins["slots"]["contextEngine"] == "another"
    assert (plugins["allow"], list(plugins["entries"])) == (["telegram"], ["telegram"])


@pytest.mark.parametrize("host", COPIED, ids=lambda host: host.name)
def test_settings_of_the_user_beside_the_command_survive(host: Host, home: Path, place: Place) -> None:
    install(host, place)
    (settings,) = configs(host, place)
    mine = {"settings": {"fresh_tail_count": 8}}
    settings.path.write_text(json.dumps({"command": ["/old/python"], **mine}))
    install(host, place)
    assert json.loads(settings.path.read_bytes()) == {"command": list(COMMAND), **mine}
    remove(host, place)
    assert json.loads(settings.path.read_bytes()) == mine


@pytest.mark.parametrize("host", COPIED, ids=lambda host: host.name)
def test_a_copy_that_was_changed_since_is_kept_aside(host: Host, home: Path, place: Place) -> None:
    install(host, place)
    plugin = next(copy.path for copy in host.plan(place).copies if copy.path.suffix == ".js")
    plugin.write_text("// my own version\n")
    prepared = prepare_removal(host, place)
    (note,) = prepared.notes
    carry_out(prepared)
    assert snapshot(home) == {}
    kept = Path(note.split("kept in ")[1].rstrip("."))
    assert kept.read_text() == "// my own version\n"
    assert stat.S_IMODE(kept.stat().st_mode) == 0o600


BY_HAND: dict[str, dict[str, str]] = {
    "claude-code": {
        ".claude/settings.json": '{"hooks": {"Stop": [{"hooks": [{"type": "command", "command": "say done"},'
        ' {"type": "command", "command": "lcm hook claude-code"}]}]}}',
        ".claude.json": '{"mcpServers": {"lcm": {"command": "lcm", "args": ["mcp"], "env": {"LCM_OWNER": "me"}}}}\n',
    },
    "codex": {
        ".codex/config.toml": '[mcp_servers.lcm]\ncommand = "lcm"\nargs = [\n  "mcp",\n]\nenabled = true # yes\n',
        ".codex/hooks.json": '{"hooks": {"Stop": [{"hooks": [{"type": "command", "command": "/x/lcm hook codex"}]}]}}',
    },
    "openclaw": {
        ".openclaw/openclaw.json": "{plugins: {slots: {contextEngine: 'lossless'},"
        " entries: {lossless: {enabled: true, config: {summary_model: 'x'}}}}}",
    },
    "hermes": {
        ".hermes/config.yaml": "plugins: {enabled: [other, lossless]}\ncontext: {engine: lossless}\n",
    },
}


@pytest.mark.parametrize("host", WITH_CONFIG, ids=lambda host: host.name)
def test_entries_made_by_hand_are_brought_up_to_date_and_come_back(host: Host, home: Path, place: Place) -> None:
    for name, text in BY_HAND[host.name].items():
        path = home / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    before = snapshot(home)
    install(host, place)
    for config in configs(host, place):
        assert missing(config.grammar, config.path.read_text(), config.entries) == []
    if host.name == "claude-code":
        (group,) = values("json", (home / ".claude/settings.json").read_bytes())["hooks"]["Stop"]
        assert [shlex.split(hook["command"])[0] for hook in group["hooks"]] == ["say", COMMAND[0]]
        assert values("json", (home / ".claude.json").read_bytes())["mcpServers"]["lcm"]["env"] == {"LCM_OWNER": "me"}
    if host.name == "codex":
        assert values("toml", (home / ".codex/config.toml").read_bytes())["mcp_servers"]["lcm"]["enabled"] is True
    if host.name == "openclaw":
        entry = values("json", json5((home / ".openclaw/openclaw.json").read_text()))["plugins"]["entries"]["lossless"]
        assert entry["config"] == {"summary_model": "x", "command": list(COMMAND)}
    assert prepare(host, place).is_empty
    remove(host, place)
    assert snapshot(home) == before


def json5(text: str) -> bytes:
    """Quote the names and texts of the one sample that is JSON5."""
    return re.sub(r"(?<=[{ ])(\w+):", r'"\1":', text.replace("'", '"')).encode()


@pytest.mark.parametrize("host", WITH_CONFIG, ids=lambda host: host.name)
def test_without_a_record_only_our_entries_are_taken_out(
    host: Host, home: Path, place: Place, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_sample(host, place, "others")
    before = {config.path: values(config.grammar, config.path.read_bytes()) for config in configs(host, place)}
    install(host, place)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "another state"))
    prepared = prepare_removal(host, place)
    assert any("no record of an installation" in note for note in prepared.notes)
    carry_out(prepared)
    for config in configs(host, place):
        left = values(config.grammar, config.path.read_bytes())
        assert missing(config.grammar, config.path.read_text("utf-8"), config.entries) != []
        assert contains(left, without_chosen(before[config.path]))
    assert not list(home.rglob("SKILL.md"))


class Interrupted(BaseException):
    """The process is killed."""


def stop_at(count: int, monkeypatch: pytest.MonkeyPatch, name: str = "replace") -> None:
    """End the process in place of the n-th call of a function of the operating system."""
    calls, real = [0], getattr(os, name)

    def replace(*arguments: Any, **options: Any) -> None:
        calls[0] += 1
        if calls[0] == count:
            raise Interrupted
        real(*arguments, **options)

    monkeypatch.setattr(os, name, replace)


@pytest.mark.parametrize("host", HOSTS, ids=lambda host: host.name)
@pytest.mark.parametrize("name", ["missing", "others"])
def test_an_installation_interrupted_anywhere_can_be_removed_or_repeated(
    host: Host, name: str, home: Path, place: Place
) -> None:
    if host in WITH_CONFIG:
        write_sample(host, place, name)
    before = snapshot(home)
    install(host, place)
    complete = snapshot(home)
    remove(host, place)
    for count in range(1, 30):
        with pytest.MonkeyPatch.context() as patch:
            stop_at(count, patch)
            try:
                install(host, place)
            except Interrupted:
                pass
            else:
                break
        remove(host, place)
        assert snapshot(home) == before, count
        with pytest.MonkeyPatch.context() as patch:
            stop_at(count, patch)
            with pytest.raises(Interrupted):
                install(host, place)
        install(host, place)
        assert snapshot(home) == complete, count
        remove(host, place)
        assert snapshot(home) == before, count
    assert count > len([change for change in prepare(host, place).changes if change.is_change])


@pytest.mark.parametrize("host", HOSTS, ids=lambda host: host.name)
def test_a_removal_interrupted_anywhere_can_be_repeated(host: Host, home: Path, place: Place) -> None:
    if host in WITH_CONFIG:
        write_sample(host, place, "others")
    before = snapshot(home)
    for name in ("replace", "unlink"):
        for count in range(1, 8):
            install(host, place)
            with pytest.MonkeyPatch.context() as patch:
                stop_at(count, patch, name)
                with suppress(Interrupted):
                    remove(host, place)
            remove(host, place)
            assert snapshot(home) == before, (name, count)


def test_a_new_environment_replaces_the_old_commands(home: Path, place: Place) -> None:
    host = host_named("claude-code")
    write_sample(host, place, "comments")
    before = snapshot(home)
    install(host, place)
    moved = Place(home=home, project=None, environment={}, command=("/new/python", "-m", "lossless"))
    install(host, moved)
    text = (home / ".claude/settings.json").read_text() + (home / ".claude.json").read_text()
    assert ("/opt/my venv" in text, text.count("/new/python")) == (False, 8)
    remove(host, moved)
    assert snapshot(home) == before


def test_a_file_of_an_older_version_is_removed_by_the_next_installation(
    home: Path, place: Place, tmp_path: Path
) -> None:
    host = host_named("pi")
    extra = tmp_path / "package/bundled/integrations/pi/old.js"
    extra.write_text("// old\n")
    install(host, place)
    extra.unlink()
    install(host, place)
    assert not (home / ".pi/agent/extensions/lossless/old.js").exists()
    remove(host, place)
    assert snapshot(home) == {}


@pytest.mark.parametrize("name", ["claude-code", "codex", "pi", "opencode"])
def test_a_project_is_connected_without_the_others(name: str, home: Path, tmp_path: Path) -> None:
    host, project = host_named(name), tmp_path / "project"
    project.mkdir()
    place = Place(home=home, project=project, environment={}, command=COMMAND)
    before = snapshot(tmp_path, lambda path: "state" in path.parts)
    install(host, place)
    assert list(project.rglob("SKILL.md"))
    if name == "claude-code":  # the file that is shared with others stays as it is
        assert (project / ".claude/settings.local.json").exists()
        state = json.loads((home / ".claude.json").read_bytes())
        assert list(state["projects"]) == [str(project)]
    else:
        assert snapshot(home) == {}
    assert prepare(host, place).is_empty
    remove(host, place)
    assert snapshot(tmp_path, lambda path: "state" in path.parts) == before


@pytest.mark.parametrize("name", ["claude-code", "codex", "pi", "opencode"])
@pytest.mark.parametrize("is_file", [True, False])
def test_a_link_out_of_a_project_is_refused_and_nothing_is_written(
    name: str, is_file: bool, home: Path, tmp_path: Path
) -> None:
    host, project, elsewhere = host_named(name), tmp_path / "project", tmp_path / "elsewhere"
    place = Place(home=home, project=project, environment={}, command=COMMAND)
    elsewhere.mkdir()
    skill = next(copy.path for copy in host.plan(place).copies if copy.path.name == "SKILL.md")
    link = skill if is_file else skill.parent.parent
    link.parent.mkdir(parents=True)
    link.symlink_to(elsewhere / "notes.txt" if is_file else elsewhere)
    (elsewhere / "notes.txt").write_text("mine")
    before = snapshot(tmp_path)
    with pytest.raises(InstallRefused, match="leads out of the project"):
        prepare(host, place)
    assert snapshot(tmp_path) == before


@pytest.mark.parametrize("name", ["claude-code", "codex"])
def test_the_dry_run_says_which_permission_a_host_gets(name: str, home: Path, tmp_path: Path) -> None:
    environment = in_home(home, tmp_path)
    assert "without asking you" in " ".join(fine("install", name, **environment).split())
    assert json.loads(fine("install", name, "--json", **environment))["data"]["permissions"]
    assert "without asking you" not in fine("install", name, "--remove", **environment)


@pytest.mark.parametrize("name", ["openclaw", "hermes"])
def test_a_host_without_projects_says_so(name: str, home: Path, tmp_path: Path) -> None:
    place = Place(home=home, project=tmp_path, environment={}, command=COMMAND)
    with pytest.raises(LosslessError, match=r"configured per user, not per project\. Use --scope user\."):
        prepare(host_named(name), place)


def test_a_file_that_changes_meanwhile_is_not_overwritten(home: Path, place: Place) -> None:
    host = host_named("openclaw")
    write_sample(host, place, "others")
    prepared = prepare(host, place)
    path = configs(host, place)[0].path
    path.write_text("{}")
    with pytest.raises(InstallRefused, match="changed by another program"):
        carry_out(prepared)
    assert path.read_text() == "{}"


def test_new_files_and_backups_are_private(home: Path, place: Place, tmp_path: Path) -> None:
    host = host_named("claude-code")
    write_sample(host, place, "others")
    (home / ".claude.json").unlink()
    install(host, place)
    kept = [path for path in (tmp_path / "state").rglob("*") if path.is_file()]
    assert kept
    assert {stat.S_IMODE(path.stat().st_mode) for path in [*kept, home / ".claude.json"]} == {0o600}
    assert stat.S_IMODE((home / ".claude/settings.json").stat().st_mode) == 0o640


def test_a_plugin_that_openclaw_will_not_load_is_a_warning(home: Path, place: Place) -> None:
    path = home / ".openclaw/openclaw.json"
    path.parent.mkdir()
    path.write_text("{plugins: {enabled: false, deny: ['lossless']}}")
    first, second = prepare(host_named("openclaw"), place).warnings
    assert ("plugins.enabled is false" in first, "plugins.deny contains lossless" in second) == (True, True)


def hermes_program(home: Path, python: str) -> Place:
    """Install a program `hermes` whose first line names a Python."""
    folder = home.parent / "bin"
    folder.mkdir()
    (folder / "hermes").write_text(f"#!{python}\nprint()\n")
    (folder / "hermes").chmod(0o755)
    return Place(home=home, project=None, environment={"PATH": str(folder)}, command=COMMAND)


def test_hermes_gets_the_package_in_its_own_python(home: Path, tmp_path: Path) -> None:
    python = tmp_path / "hermes-env/bin/python3"
    packages = tmp_path / "hermes-env/lib/python3.11/site-packages"
    (packages / "pip-25.0.dist-info").mkdir(parents=True)
    python.parent.mkdir()
    calls = tmp_path / "calls"
    python.write_text(f'#!/bin/sh\necho "$@" >> {calls}\n')
    python.chmod(0o755)
    place = hermes_program(home, str(python))
    host = host_named("hermes")

    prepared = prepare(host, place)
    ((*command, what),) = prepared.programs
    assert command == [str(python), "-m", "pip", "install"]
    assert "lossless" in what or what.startswith("/")
    assert not calls.exists()
    carry_out(prepared)
    remove(host, place)
    assert calls.read_text().splitlines() == [f"-m pip install {what}", "-m pip uninstall -y lossless"]


def test_hermes_is_not_configured_when_its_package_cannot_be_installed(home: Path, tmp_path: Path) -> None:
    python = tmp_path / "hermes-env/bin/python3"
    (tmp_path / "hermes-env/lib/python3.11/site-packages/pip-25.0.dist-info").mkdir(parents=True)
    python.parent.mkdir()
    python.write_text("#!/bin/sh\necho 'No matching distribution' >&2; exit 1\n")
    python.chmod(0o755)
    with pytest.raises(InstallRefused, match="failed: No matching distribution"):
        install(host_named("hermes"), hermes_program(home, str(python)))
    assert not (home / ".hermes").exists()


def test_hermes_in_our_own_python_needs_no_package(home: Path) -> None:
    prepared = prepare(host_named("hermes"), hermes_program(home, sys.executable))
    assert (prepared.programs, prepared.warnings) == ((), ())


@pytest.mark.parametrize(
    ("name", "near"),
    [("claude", "claude-code"), ("claudecode", "claude-code"), ("codx", "codex"), ("open-code", "opencode")],
)
def test_an_unknown_host_gets_the_nearest_name(name: str, near: str) -> None:
    with pytest.raises(NotFound, match=f"There is no host {name}. Did you mean {near}?"):
        host_named(name)


def in_home(home: Path, tmp_path: Path) -> dict[str, str]:
    paths = {"HOME": home, "XDG_STATE_HOME": tmp_path / "state", "XDG_CONFIG_HOME": home / ".config"}
    return {**{name: str(path) for name, path in paths.items()}, "PATH": ""}


def test_the_command_shows_the_change_and_writes_only_with_apply(home: Path, tmp_path: Path) -> None:
    environment = in_home(home, tmp_path)
    path = home / ".codex/config.toml"
    path.parent.mkdir()
    path.write_text('api_key = "sk-123456789012345678"\n')
    before = snapshot(home)
    shown = fine("install", "codex", **environment)
    assert snapshot(home) == before
    assert "+[mcp_servers.lcm]\n" in shown
    assert f'+command = "{sys.executable}"\n' in shown
    assert "sk-1234" not in shown
    assert "create ~/.codex/skills/lossless/SKILL.md" in shown
    assert shown.endswith("Dry run: nothing was changed. --apply applies it.\n")

    done = fine("install", "codex", "--apply", **environment)
    assert "Codex is connected: 4 files written." in done
    assert "/hooks" in done
    assert fine("install", "codex", **environment) == "Codex is connected already: nothing to change.\n"
    assert "Codex is disconnected: 4 files restored." in fine("install", "codex", "--remove", "--apply", **environment)
    assert snapshot(home) == before


def test_the_command_answers_in_json(home: Path, tmp_path: Path) -> None:
    data = json.loads(fine("install", "codex", "--json", **in_home(home, tmp_path)))["data"]
    assert (data["host"], data["applied"], data["removes"]) == ("codex", False, False)
    changed = {Path(each["path"]).name: each["change"] for each in data["files"]}
    assert changed == {"SKILL.md": "create", "recall.md": "create", "hooks.json": "create", "config.toml": "create"}


def test_a_refusal_is_a_sentence_and_an_exit_code(home: Path, tmp_path: Path) -> None:
    (home / ".claude").mkdir()
    (home / ".claude/settings.json").write_text("{")
    ran = lcm("install", "claude-code", "--apply", **in_home(home, tmp_path))
    assert (ran.returncode, ran.stdout) == (1, "")
    assert "settings.json: not valid JSON: line 1: expected a name. Fix it first. Nothing was changed." in ran.stderr
    ran = lcm("install", "claud", **in_home(home, tmp_path))
    assert (ran.returncode, ran.stderr) == (3, "lcm: There is no host claud. Did you mean claude-code?\n")


def test_installations_and_removals_at_once_wait_for_each_other(home: Path, tmp_path: Path) -> None:
    environment = in_home(home, tmp_path)
    (home / ".claude.json").write_text('{"projects": {}}')
    before = snapshot(home)
    command = [sys.executable, "-P", "-m", "lossless", "install", "claude-code", "--apply"]
    for _ in range(2):
        running = [
            subprocess.Popen(
                [*command, *(["--remove"] if number % 2 else [])],
                env=environment,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.PIPE,
            )
            for number in range(4)
        ]
        assert [(process.communicate(timeout=60)[1], process.returncode) for process in running] == [(b"", 0)] * 4
    fine("install", "claude-code", "--apply", "--remove", **environment)
    assert snapshot(home) == before


def test_an_installation_that_takes_long_is_not_joined(home: Path) -> None:
    with records.exclusive(), pytest.raises(InstallRefused, match="Another"), records.exclusive(wait=0):
        raise AssertionError


def test_what_a_killed_installation_left_is_cleared(home: Path, place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    host = host_named("claude-code")
    before = snapshot(home)

    replace = os.replace

    def killed(draft: Path, place: Path) -> None:
        if home in place.parents:
            os._exit(9)
        replace(draft, place)

    if not (child := os.fork()):
        monkeypatch.setattr(os, "replace", killed)
        carry_out(prepare(host, place))
    os.waitpid(child, 0)
    assert list(home.rglob(".*.lcm-*"))
    carry_out(prepare_removal(host, place))
    assert snapshot(home) == before


@pytest.mark.parametrize("name", ["pipe", "device"])
def test_a_configuration_without_end_is_refused(name: str, home: Path, place: Place) -> None:
    path = home / ".claude" / "settings.json"
    path.parent.mkdir()
    if name == "pipe":
        os.mkfifo(path)
    else:
        path.symlink_to("/dev/zero")
    with pytest.raises(InstallRefused, match="not a regular file"):
        prepare(host_named("claude-code"), place)
    (state,) = [each for each in overview(place) if each.name == "claude-code"]
    assert state.connection == "not connected"


def test_snapshots_notice_every_difference(tmp_path: Path) -> None:
    def take() -> Snapshot:
        return snapshot(tmp_path)

    (tmp_path / "a").write_text("1")
    first = take()
    (tmp_path / "a").chmod(0o600)
    second = take()
    (tmp_path / "b").symlink_to("a")
    assert len({str(each) for each in (first, second, take())}) == 3
