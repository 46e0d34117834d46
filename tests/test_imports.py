"""`import lossless` costs next to nothing and loads nothing that one may not need."""

from __future__ import annotations

import os
import resource
import subprocess
import sys
from pathlib import Path

import lossless

OPTIONAL = [
    "anthropic",
    "openai",
    "psycopg",
    "psycopg_pool",
    "textual",
    "mcp",
    "fastapi",
    "numpy",
    "wordllama",
    "jinja2",
    "rich",
    "anyio",
    "apsw",
    "re2",
    "click",
    "httpx2",
]
LIMIT_MS = 60


def python(code: str, **environment: str) -> str:
    command = [sys.executable, "-c", code]
    return subprocess.run(command, capture_output=True, text=True, check=True, env={**os.environ, **environment}).stdout


def test_importing_loads_no_optional_package() -> None:
    names = "from lossless import Lossless, Message, Settings; import lossless.formats.anthropic"
    assert python(f"import sys; {names}; print([m for m in {OPTIONAL!r} if m in sys.modules])").strip() == "[]"


def cpu_ms(code: str, cache: Path) -> float:
    """CPU time of an interpreter that runs the code, byte code cached as after an installation."""
    environment = {"PYTHONPYCACHEPREFIX": str(cache), "PYTHONDONTWRITEBYTECODE": ""}
    spent = []
    for _ in range(8):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        python(code, **environment)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        spent.append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
    return min(spent) * 1000


def test_importing_costs_at_most_sixty_milliseconds_of_cpu(tmp_path: Path) -> None:
    bare = cpu_ms("pass", tmp_path)
    assert cpu_ms("import lossless", tmp_path) - bare <= LIMIT_MS


def test_every_public_name_is_there() -> None:
    for name in lossless.__all__:
        assert getattr(lossless, name) is not None
    assert "nonsense" not in dir(lossless)


def modules(code: str) -> int:
    """Return how many modules of lossless are loaded after the code ran."""
    count = "import sys; print(sum(name.split('.')[0] == 'lossless' for name in sys.modules), file=sys.stderr)"
    command = [sys.executable, "-c", f"import atexit; atexit.register(lambda: exec({count!r}))\n{code}"]
    return int(subprocess.run(command, capture_output=True, text=True, check=True).stderr.split()[-1])


def command(*words: str) -> str:
    return f"import sys; sys.argv = {['lcm', *words]!r}; from lossless.cli import main; main()"


def test_a_verb_loads_only_the_modules_it_needs(tmp_path: Path) -> None:
    path = str(tmp_path / "lcm.db")
    with lossless.Lossless.open(path) as lcm:
        lcm.conversation("k").ingest([lossless.Message.user("The key lies in the blue safe.")])
    for code, most in (
        ("import lossless", 3),
        ("import lossless.client", 50),
        (command("--version"), 6),
        (command("grep", "blue", "--db", path), 90),
        (command("grep", "--mode", "full_text", "blue safe", "--db", path), 95),
    ):
        assert modules(code) <= most, code
