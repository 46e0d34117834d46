"""The command, run in this process: what it printed and how it ended."""

from __future__ import annotations

from pathlib import Path
from subprocess import CompletedProcess

from click.testing import CliRunner

from lossless.cli import cli


def lcm(*arguments: str | Path, **environment: str) -> CompletedProcess[str]:
    words = [str(each) for each in arguments]
    ran = CliRunner().invoke(cli, words, env=environment, catch_exceptions=False)
    return CompletedProcess(words, ran.exit_code, ran.stdout, ran.stderr)


def fine(*arguments: str | Path, **environment: str) -> str:
    """What it printed, if it went well."""
    ran = lcm(*arguments, **environment)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    return ran.stdout
