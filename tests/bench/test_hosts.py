"""What the benchmark of hosts claims: both sides send requests of the same size, and no turn of ours is many times as long."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from tests.hosts.frameworks import needs

BENCH = Path(__file__).parents[2] / "bench" / "hosts.py"


def test_a_turn_is_compared_with_one_of_the_same_size(tmp_path: Path) -> None:
    needs("openai_agents", "agents")
    command = [sys.executable, str(BENCH), "--messages", "400", "--turns", "3", "--warm-up", "1"]
    done = subprocess.run(
        [*command, "--hosts", "openai-agents", "--fail-above", "20"],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
        cwd=tmp_path,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    (line,) = [line for line in done.stdout.splitlines() if "OpenAI Agents" in line]
    without, with_us = (int(each) for each in line.split("Agents")[1].split("ms")[0].rsplit(None, 1)[0].split("/"))
    assert 0.7 < with_us / without < 1.4, line
