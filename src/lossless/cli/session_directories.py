"""The directories in which known programs keep their sessions."""

from __future__ import annotations

import os
import shlex
from pathlib import Path


def session_directories() -> list[tuple[str, Path]]:
    """Return the directories that exist, each with the name of its program."""
    home = Path.home()
    codex = Path(os.environ.get("CODEX_HOME") or home / ".codex")
    likely = [
        ("Claude Code", home / ".claude" / "projects"),
        ("Codex", codex / "sessions"),
        *(("OpenClaw", path) for path in sorted((home / ".openclaw" / "agents").glob("*/sessions"))),
        ("pi", home / ".pi" / "agent" / "sessions"),
    ]
    return [(program, path) for program, path in likely if path.is_dir()]


def short_path(path: str | Path) -> str:
    """Return a path with the home directory as `~`."""
    home, text = str(Path.home()), str(path)
    return f"~{text[len(home) :]}" if text.startswith(f"{home}/") else text


def shell_path(path: str | Path) -> str:
    """Return a path as a shell reads it, with the home directory as `~`."""
    short = short_path(path)
    return f"~/{shlex.quote(short[2:])}" if short.startswith("~/") else shlex.quote(short)
