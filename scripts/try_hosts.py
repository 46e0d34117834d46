"""Connect every agent with an installed `lcm` on an empty home, run the commands that it wrote, and disconnect them.

The commands run without a search path and without any variable but HOME, as a desktop program may start them.
"""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

FACT: Final = "The ferry leaves at noon."
SESSION: Final = "0d6f8e0a-6a2f-4f0e-9a53-3f6d7b1f2c11"
KEPT: Final = b'{\r\n  "env": {"EDITOR": "vi"}\r\n}'
"""A file of the user, with the ends of lines of another system and none at its end."""
SECONDS: Final = 60

Check = Callable[[Path, Path], list[list[str]]]


def try_hosts(lcm: Path, inside: Path, place: Path) -> None:
    """Try each host with a command whose interpreter must be `inside` a directory."""
    for name, check in CHECKS.items():
        home = place / name
        (home / ".claude").mkdir(parents=True)
        (home / ".claude" / "settings.json").write_bytes(KEPT)
        before = _files(home)
        _run([str(lcm), "install", name, "--apply"], home)
        commands = check(home, inside)
        connected = _files(home)
        _run([str(lcm), "install", name, "--apply"], home)
        expect(_files(home) == connected, f"{name}: a second `lcm install` changed something")
        for command in commands:
            own = Path(command[0])
            expect(own.is_absolute() and own.is_relative_to(inside), f"{name}: {command[0]} is not in {inside}")
        _run([str(lcm), "install", name, "--remove", "--apply"], home)
        expect(_files(home) == before, f"{name}: --remove left {sorted(set(_files(home)) ^ set(before))}")
        for socket in home.glob(".local/state/lossless/hooks/*.sock"):
            socket.unlink()  # the background process of the hooks ends
    print(f"{len(CHECKS)} hosts connected and disconnected, their commands work without activation")


def expect(holds: bool, otherwise: str) -> None:
    """End with a sentence unless something holds."""
    if not holds:
        sys.exit(otherwise)


def _claude_code(home: Path, inside: Path) -> list[list[str]]:
    settings = _json(home / ".claude" / "settings.json")
    expect(settings["env"] == {"EDITOR": "vi"}, "claude-code: a setting of the user is gone")
    server = _json(home / ".claude.json")["mcpServers"]["lcm"]
    hook = settings["hooks"]["Stop"][0]["hooks"][0]["command"]
    entries = [
        {"type": "user", "message": {"role": "user", "content": FACT}},
        {"type": "assistant", "message": {"role": "assistant", "content": [{"type": "text", "text": "Noted."}]}},
    ]
    common = {"sessionId": SESSION, "cwd": str(home), "timestamp": "2026-11-15T10:00:00.000Z", "version": "2.1.325"}
    lines = [
        {**common, "uuid": f"u{at}", "parentUuid": f"u{at - 1}" if at else None, **entry}
        for at, entry in enumerate(entries)
    ]
    transcript = home / ".claude" / "projects" / "-home" / f"{SESSION}.jsonl"
    return [_hook(hook, home, transcript, lines), _mcp([server["command"], *server["args"]], home)]


def _codex(home: Path, inside: Path) -> list[list[str]]:
    hook = _json(home / ".codex" / "hooks.json")["hooks"]["Stop"][0]["hooks"][0]["command"]
    server = tomllib.loads((home / ".codex" / "config.toml").read_text())["mcp_servers"]["lcm"]
    texts = [("user", "input_text", FACT), ("assistant", "output_text", "Noted.")]
    items = [{"type": "message", "role": role, "content": [{"type": kind, "text": text}]} for role, kind, text in texts]
    about = {"id": SESSION, "timestamp": "2026-11-15T10:00:00.000Z", "cwd": str(home), "cli_version": "0.166.0"}
    kinds = [("session_meta", about), *(("response_item", item) for item in items)]
    lines = [{"timestamp": "2026-11-15T10:00:00.000Z", "type": kind, "payload": each} for kind, each in kinds]
    day = home / ".codex" / "sessions" / "2026" / "11" / "15"
    transcript = day / f"rollout-2026-11-15T10-00-00-{SESSION}.jsonl"
    return [_hook(hook, home, transcript, lines), _mcp([server["command"], *server["args"]], home)]


def _openclaw(home: Path, inside: Path) -> list[list[str]]:
    plugins = _json(home / ".openclaw" / "openclaw.json")["plugins"]
    (plugin,) = plugins["load"]["paths"]
    expect(Path(plugin).is_relative_to(inside), f"openclaw: the plugin {plugin} is not in {inside}")
    for name in ("index.js", "bridge.js", "openclaw.plugin.json", "skills/lossless/SKILL.md"):
        expect(Path(plugin, name).is_file(), f"openclaw: {name} is missing from the plugin")
    return [_bridge(plugins["entries"]["lossless"]["config"]["command"], home)]


def _pi(home: Path, inside: Path) -> list[list[str]]:
    extension = home / ".pi" / "agent" / "extensions" / "lossless"
    expect((extension / "index.js").is_file(), "pi: the extension is missing")
    return [_bridge(_json(extension / "lossless.json")["command"], home)]


def _opencode(home: Path, inside: Path) -> list[list[str]]:
    plugins = home / ".config" / "opencode" / "plugin"
    expect((plugins / "lossless" / "bridge.js").is_file(), "opencode: the plugin is missing")
    return [_bridge(_json(plugins / "lossless.json")["command"], home)]


def _hermes(home: Path, inside: Path) -> list[list[str]]:
    text = (home / ".hermes" / "config.yaml").read_text()
    expect("engine: lossless" in text and "- lossless" in text, f"hermes: not selected in its configuration:\n{text}")
    return []  # Hermes imports lossless in its own Python


CHECKS: Final[dict[str, Check]] = {
    "claude-code": _claude_code,
    "codex": _codex,
    "openclaw": _openclaw,
    "pi": _pi,
    "opencode": _opencode,
    "hermes": _hermes,
}


def _hook(command: str, home: Path, transcript: Path, lines: list[dict[str, Any]]) -> list[str]:
    """Run a hook after a turn, as a shell does, and see that the turn is stored; return the command."""
    transcript.parent.mkdir(parents=True)
    transcript.write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    event = {"hook_event_name": "Stop", "session_id": SESSION, "transcript_path": str(transcript), "cwd": str(home)}
    words = shlex.split(command)
    _run(words, home, json.dumps(event))
    found = _run([*words[:-2], "grep", FACT, "--mode", "full_text", "--json"], home)
    expect(FACT in found, f"{command}: the turn was not stored:\n{found}")
    transcript.unlink()
    os.removedirs(transcript.parent)
    return words


def _bridge(command: list[str], home: Path) -> list[str]:
    params = {"protocols": [1], "host": {"name": "trial"}}
    return _answers([*command, "bridge"], home, params, "protocol")


def _mcp(command: list[str], home: Path) -> list[str]:
    client = {"name": "trial", "version": "1"}
    params = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": client}
    return _answers(command, home, params, "serverInfo")


def _answers(command: list[str], home: Path, params: dict[str, Any], wanted: str) -> list[str]:
    """See that a server answers `initialize`; return its command."""
    request = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": params}
    answer = json.loads(_run(command, home, f"{json.dumps(request)}\n"))
    expect(wanted in answer.get("result", {}), f"{shlex.join(command)} answered {answer}")
    return command


def _run(command: list[str], home: Path, text: str = "") -> str:
    done = subprocess.run(
        command,
        input=text,
        cwd=home,
        env={"HOME": str(home)},
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=False,
    )
    if done.returncode or done.stderr:
        sys.exit(f"{shlex.join(command)} failed ({done.returncode}):\n{done.stdout}{done.stderr}")
    return done.stdout


def _json(path: Path) -> Any:
    return json.loads(path.read_bytes())


def _files(home: Path) -> dict[str, bytes]:
    """Return what is below a home, directories included, without the database and our own records."""
    own = (home / ".local" / "share" / "lossless", home / ".local" / "state" / "lossless")
    paths = [path for path in home.rglob("*") if not any(each in (path, *path.parents) for each in own)]
    kept = [path for path in paths if not any(path in each.parents for each in own)]
    return {str(path.relative_to(home)): path.read_bytes() if path.is_file() else b"" for path in kept}
