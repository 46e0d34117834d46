"""Pictures of the commands for the README: each is what the command prints, on the demo's conversation.

`make shots` writes them to docs/shots. The history is the same every time; sizes, times and paths are the machine's own,
less its directories.
"""

from __future__ import annotations

import io
import os
import re
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
# No fonts from elsewhere: a picture of a terminal in whatever the reader has.
FORM = re.sub(r"@font-face \{\{.*?\}\}\s*", "", CONSOLE_SVG_FORMAT, flags=re.S).replace("Fira Code", "Menlo, Consolas")
# A summariser of one's own, as `command:` takes it: what the user said, and nothing else.
USERS = """\
import re, sys
for said in re.findall(r"\\| user\\]\\n(.*)", sys.stdin.read()):
    print("- user:", said if len(said) < 160 else said[:160].rsplit(" ", 1)[0] + " ...")
print("Expand for details about: what the assistant answered, what the tools printed")
"""
WIDTH = 108
LINES = 34


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
        printed("demo", "--db", str(home / "lcm.db"))
        shot("status", home, "status")
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
    """What a crash of another program, or a curious hand, may leave behind."""
    with apsw.Connection(str(path)) as connection:
        connection.execute("UPDATE item SET tokens = tokens + 50 WHERE summary_id IS NOT NULL")
        connection.execute("DELETE FROM search_summary WHERE rowid IN (SELECT id FROM summary ORDER BY id LIMIT 3)")


def shot(name: str, home: Path, *words: str) -> None:
    told = printed(*words).replace(str(home), "~").rstrip().splitlines()
    lines = told[:LINES] + ([f"... {len(told) - LINES} more lines"] if len(told) > LINES else [])
    console = Console(record=True, width=WIDTH, file=io.StringIO(), force_terminal=True)
    console.print(Text.from_ansi("\n".join([f"\x1b[1m$ lcm {' '.join(words)}\x1b[0m", *lines])))
    title = f"lcm {words[0]}"
    picture = console.export_svg(title=title, theme=MONOKAI, unique_id=f"lcm-{name}", code_format=FORM)
    (SHOTS / f"{name}.svg").write_text(picture)
    sys.stdout.write(f"{name}.svg\n")


if __name__ == "__main__":
    main()
