"""`lcm bridge`: serve a host's plugin over standard streams."""

from __future__ import annotations

import click

from lossless.cli.options import Command, named_database


@click.command(cls=Command, examples=("lcm bridge",))
def bridge() -> None:
    """Serve a host's plugin: JSON-RPC on standard input and output, one document per line.

    Plugins of hosts start it; you need not. It ends when its standard input is closed. docs/reference/bridge.md describes the
    protocol.
    """
    from lossless.hosts.bridge.server import main

    main(named_database())
