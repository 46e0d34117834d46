"""Where the programs that are known keep their sessions."""

from __future__ import annotations

import os
from pathlib import Path


def places() -> list[tuple[str, Path]]:
    """The directories that are there, each with the name of its program."""
    home = Path.home()
    codex = Path(os.environ.get("CODEX_HOME") or home / ".codex")
    likely = [
        ("Claude Code", home / ".claude" / "projects"),
        ("Codex", codex / "sessions"),
        *(("OpenClaw", path) for path in sorted((home / ".openclaw" / "agents").glob("*/sessions"))),
        ("pi", home / ".pi" / "agent" / "sessions"),
    ]
    return [(program, path) for program, path in likely if path.is_dir()]
