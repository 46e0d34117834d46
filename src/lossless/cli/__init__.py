"""The command `lcm`: a command parses, calls one verb, prints."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

from lossless.version import __version__

if TYPE_CHECKING:
    from lossless.cli.app import cli

__all__ = ["cli", "main"]


def main() -> None:
    """Run the command."""
    if sys.argv[1:] == ["--version"]:  # scripts ask for it often, and it needs no other module
        sys.stdout.write(f"lcm, version {__version__}\n")
        return
    if len(sys.argv) == 3 and sys.argv[1] == "hook" and not sys.argv[2].startswith("-"):
        # A host waits for it at every event: it must not load the rest of the program.
        from lossless.hosts.hook.client import HOSTS
        from lossless.hosts.hook.client import main as hook

        if sys.argv[2] in HOSTS:
            sys.exit(hook(sys.argv[2]))
    try:
        from lossless.cli.app import cli

        cli()
    except KeyboardInterrupt:  # before the program could say anything
        sys.exit(130)


def __getattr__(name: str) -> Any:
    if name == "cli":
        from lossless.cli.app import cli

        return cli
    raise AttributeError(name)
