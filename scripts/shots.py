"""Draw pictures of commands for the docs: what each prints on a terminal of 80 columns.

`make shots` writes them to docs/shots. The history is the same every time: the conversation of `lcm demo`, also as
sessions of Claude Code and pi. Sizes, times and paths are those of the machine, without its directories.
"""

from __future__ import annotations

import io
import json
import os
import pty
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import apsw
from rich._export_format import CONSOLE_SVG_FORMAT
from rich.console import Console
from rich.terminal_theme import MONOKAI
from rich.text import Text

from lossless import demo
from lossless.cli.commands.demo import SETTINGS
from lossless.model import Message
from lossless.model import Text as Words

SHOTS = Path(__file__).parent.parent / "docs" / "shots"
# No fonts from elsewhere: a picture of a terminal in whatever the reader has.
FORM = re.sub(r"@font-face \{\{.*?\}\}\s*", "", CONSOLE_SVG_FORMAT, flags=re.S).replace("Fira Code", "Menlo, Consolas")
# A summariser of one's own, as `command:` takes it: what the user said, and nothing else.
USERS = """\
import re, sys
for said in re.findall(r"\\| user\\]\\n(.*)", sys.stdin.read()):
    print("- user:", said if len(said) < 160 else said[:160].rsplit(" ", 1)[0] + " ...")
print("Expand for details about: what the assistant answered, what the tools printed")
"""
WIDTH = 80
LINES = 23
SESSIONS = ("2f6c1d0a", "7b90e3c4", "c5a81f66", "e01d7792")


def main() -> None:
    SHOTS.mkdir(exist_ok=True)
    with TemporaryDirectory() as directory:
        home = Path(directory)
        environment = dict.fromkeys(("HOME", "XDG_DATA_HOME", "XDG_CONFIG_HOME"), directory)
        environment |= {f"LCM_{name.upper()}": str(value) for name, value in SETTINGS.items()}
        environment |= {"LCM_OUTPUT": "text", "LCM_PAGER": "cat", "COLUMNS": str(WIDTH), "TZ": "UTC"}
        environment |= {"TERM": "xterm-256color", "NO_COLOR": "", "LCM_SUMMARY_MODEL": "extractive"}
        os.environ.update(environment)
        write_sessions(home)
        shot("help", home)
        model = {"LCM_SUMMARY_MODEL": "anthropic/claude-haiku-4-5", "ANTHROPIC_API_KEY": "none: nothing is sent"}
        shot("import", home, "import", "--apply", **model, LCM_CONTEXT_THRESHOLD="0.4")
        printed("compact", "--all", "--window", "4000")
        shot("conversations", home, "conversations")
        shot("grep", home, "grep", "-L", "4", "rollback")
        shot("demo", home, "demo")
        os.environ["LCM_DATABASE_PATH"] = str(home / "lossless" / "demo.db")
        shot("status", home, "status")
        shot("tree", home, "summaries", "tree")
        leaf = first_leaf(home)
        (home / "users.py").write_text(USERS)
        os.environ["LCM_SUMMARY_MODEL"] = f"command:{sys.executable} {home / 'users.py'}"
        shot("rewrite", home, "rewrite", "--summary", leaf, "--diff")
        os.environ["LCM_SUMMARY_MODEL"] = "extractive"
        harm(home / "lossless" / "demo.db")
        shot("doctor", home, "doctor")


def write_sessions(home: Path) -> None:
    """Write the conversation of the demo as sessions that an import finds: a day each, the last one by pi."""
    messages = demo.conversation()
    days = sorted({message.at.date() for message in messages if message.at})
    projects = home / ".claude" / "projects" / "-home-ines-berthbook"
    projects.mkdir(parents=True)
    for day, session in zip(days, SESSIONS, strict=False):
        said = [each for each in messages if each.at and each.at.date() == day]
        write_claude_code(projects / f"{session}-5d1e-4c0b-9a37-0f3b2c6d8e11.jsonl", said)
    lines = demo.TRANSCRIPT.read_text(encoding="utf-8").splitlines()
    pi = home / ".pi" / "agent" / "sessions"
    pi.mkdir(parents=True)
    (pi / "berthbook.jsonl").write_text("\n".join(lines) + "\n", encoding="utf-8")


def write_claude_code(path: Path, messages: list[Message]) -> None:
    """Write messages as a session of Claude Code; tools are left out."""
    parent, lines = None, []
    for number, message in enumerate(messages):
        text = "\n".join(part.text for part in message.parts if isinstance(part, Words))
        if not text or message.role not in ("user", "assistant"):
            continue
        uuid = f"{path.stem[:8]}-0000-4000-8000-{number:012d}"
        entry = {"type": message.role, "uuid": uuid, "parentUuid": parent, "sessionId": path.stem, "cwd": "/home/ines"}
        at = message.at.isoformat().replace("+00:00", "Z") if message.at else None
        content = {"role": message.role, "content": [{"type": "text", "text": text}]}
        lines.append(json.dumps({**entry, "timestamp": at, "message": content}))
        parent = uuid
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")


def printed(*words: str, **variables: str) -> str:
    """Return what the command prints on a terminal; its progress bars are left out."""
    ours, theirs = pty.openpty()
    command = [sys.executable, "-m", "lossless", *words]
    with subprocess.Popen(command, stdout=theirs, stderr=subprocess.PIPE, env={**os.environ, **variables}) as running:
        os.close(theirs)
        shown = b"".join(read(ours))
        assert running.stderr is not None
        notes = running.stderr.read()
    os.close(ours)
    return (shown + notes).decode().replace("\r\n", "\n")


def read(terminal: int) -> Iterator[bytes]:
    """Yield what is printed on a terminal until its other end is closed."""
    while True:
        try:
            piece = os.read(terminal, 1 << 16)
        except OSError:  # Linux reports the closed end so
            return
        if not piece:
            return
        yield piece


def first_leaf(home: Path) -> str:
    with apsw.Connection(str(home / "lossless" / "demo.db")) as connection:
        found: str = next(connection.execute("SELECT public_id FROM summary WHERE depth = 0 ORDER BY id"))[0]
    return found


def harm(path: Path) -> None:
    """Damage a database as a crash of another program may."""
    with apsw.Connection(str(path)) as connection:
        connection.execute("UPDATE item SET tokens = tokens + 50 WHERE summary_id IS NOT NULL")
        connection.execute("DELETE FROM search_summary WHERE rowid IN (SELECT id FROM summary ORDER BY id LIMIT 3)")


def shot(name: str, home: Path, *words: str, **variables: str) -> None:
    """Draw what a command prints, up to the height of a terminal."""
    text = printed(*words, **variables).replace(str(home), "~").rstrip()
    lines = text.splitlines()
    lines = lines[:LINES] + ([f"... {len(lines) - LINES} more lines"] if len(lines) > LINES else [])
    console = Console(record=True, width=WIDTH, file=io.StringIO(), force_terminal=True)
    console.print(Text.from_ansi("\n".join([f"\x1b[1m$ {shlex.join(('lcm', *words))}\x1b[0m", *lines])))
    title = " ".join(("lcm", *words[:1]))
    picture = console.export_svg(title=title, theme=MONOKAI, unique_id=f"lcm-{name}", code_format=FORM)
    (SHOTS / f"{name}.svg").write_text(picture)
    sys.stdout.write(f"{name}.svg\n")


if __name__ == "__main__":
    main()
