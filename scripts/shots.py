"""Write pictures of the commands: each shows the output of a command for the demo's conversation, on 80 columns.

`make shots` writes them to docs/shots. The history is the same every time; sizes, times and paths are the machine's own,
without its directories.
"""

from __future__ import annotations

import io
import os
import re
import shlex
import shutil
import sys
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from unittest.mock import patch

import apsw
from click.testing import CliRunner
from rich._export_format import CONSOLE_SVG_FORMAT
from rich.console import Console
from rich.terminal_theme import MONOKAI
from rich.text import Text

from lossless.cli import cli
from lossless.cli.commands.demo import SETTINGS

SHOTS = Path(__file__).parent.parent / "docs" / "shots"
# No remote fonts: the reader's own monospaced font is used.
FORM = re.sub(r"@font-face \{\{.*?\}\}\s*", "", CONSOLE_SVG_FORMAT, flags=re.S).replace("Fira Code", "Menlo, Consolas")
# A summariser for `command:` that lists the messages of the user.
USERS = """\
import re, sys
for text in re.findall(r"\\| user\\]\\n(.*)", sys.stdin.read()):
    print("- user:", text if len(text) < 160 else text[:160].rsplit(" ", 1)[0] + " ...")
print("Expand for details about: what the assistant answered, what the tools printed")
"""
WIDTH = 80
LINES = 34
SESSIONS = Path(__file__).parent.parent / "tests" / "fixtures" / "transcripts"


def main() -> None:
    SHOTS.mkdir(exist_ok=True)
    with TemporaryDirectory() as directory, patch("os.urandom", Random(1).randbytes):
        home = Path(directory)
        environment = dict.fromkeys(("HOME", "XDG_DATA_HOME", "XDG_CONFIG_HOME"), directory)
        environment |= {f"LCM_{name.upper()}": str(value) for name, value in SETTINGS.items()}
        environment |= {
            "LCM_OUTPUT": "text",
            "COLUMNS": str(WIDTH),
            "TZ": "UTC",
            "LCM_DATABASE_PATH": str(home / "lcm.db"),
        }
        os.environ.update(environment)
        shot("demo", home, "demo", "--db", str(home / "lcm.db"))
        shot("help", home)
        shot("status", home, "status")
        shot("conversations", home, "conversations", "list")
        shot("grep", home, "grep", "--mode", "full_text", "address of the staging Postgres", "-L", "5")
        shot("import", home, "import", str(shutil.copytree(SESSIONS, home / "sessions")))
        shot("tree", home, "summaries", "tree")
        leaf = first_leaf(home)
        (home / "users.py").write_text(USERS)
        os.environ["LCM_SUMMARY_MODEL"] = f"command:{sys.executable} {home / 'users.py'}"
        shot("rewrite", home, "rewrite", "--summary", leaf, "--diff")
        del os.environ["LCM_SUMMARY_MODEL"]
        harm(home / "lcm.db")
        shot("doctor", home, "doctor")


def printed(*words: str) -> str:
    ran = CliRunner().invoke(cli, words, color=True)
    return ran.output


def first_leaf(home: Path) -> str:
    with apsw.Connection(str(home / "lcm.db")) as connection:
        found: str = next(connection.execute("SELECT public_id FROM summary WHERE depth = 0 ORDER BY id"))[0]
    return found


def harm(path: Path) -> None:
    """Change rows as a crash or another program might."""
    with apsw.Connection(str(path)) as connection:
        connection.execute("UPDATE item SET tokens = tokens + 50 WHERE summary_id IS NOT NULL")
        connection.execute("DELETE FROM search_summary WHERE rowid IN (SELECT id FROM summary ORDER BY id LIMIT 3)")


def shot(name: str, home: Path, *words: str) -> None:
    output = printed(*words).replace(str(home), "~").rstrip().splitlines()
    most = len(output) if name == "help" else LINES
    lines = output[:most] + ([f"... {len(output) - most} more lines"] if len(output) > most else [])
    words = tuple(word.replace(str(home), "~") for word in words)
    console = Console(record=True, width=WIDTH, file=io.StringIO(), force_terminal=True)
    console.print(Text.from_ansi("\n".join([f"\x1b[1m$ {shlex.join(['lcm', *words])}\x1b[0m", *lines])))
    title = " ".join(["lcm", *words[:1]])
    picture = console.export_svg(title=title, theme=MONOKAI, unique_id=f"lcm-{name}", code_format=FORM)
    (SHOTS / f"{name}.svg").write_text(picture)
    sys.stdout.write(f"{name}.svg\n")


if __name__ == "__main__":
    main()
