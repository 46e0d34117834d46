"""`lcm mcp`: serve the memory to clients of the Model Context Protocol."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import click

from lossless import Lossless
from lossless.cli.options import Command, conversation_option, named_conversation, open_database
from lossless.cli.output import get_option
from lossless.errors import InvalidInput
from lossless.events import Event

if TYPE_CHECKING:
    from lossless.mcp.server import Server


@click.command(
    cls=Command,
    examples=("lcm mcp", "lcm mcp --http 8765"),
)
@click.option("--http", metavar="[HOST:]PORT", help="Serve streamable HTTP at /mcp (default: stdin and stdout).")
@click.option("--allow-write", is_flag=True, help="Also offer tools that store messages and compact.")
@click.option("--grant", metavar="ID", help="Serve a sub-agent: read only what this grant allows.")
@conversation_option(positional=False, otherwise="the client's session, else the newest of this directory")
def mcp(http: str | None, allow_write: bool, grant: str | None) -> None:
    """Serve this memory to any MCP client: Claude Desktop, Cursor, VS Code and others start it themselves.

    A call that names no conversation is about the client's session. It comes from the call itself (Codex), from the
    environment (Claude Code, LCM_CONVERSATION) or is the newest session of the working directory. A missing database
    is an answer, not an end: the server reads it once it is there.
    """
    from lossless.mcp.current import Place
    from lossless.mcp.server import Server

    context, quiet = click.get_current_context(), bool(get_option("quiet"))

    def report(event: Event) -> None:
        if not quiet and event.level in ("warning", "error"):
            click.echo(f"lcm mcp: {event.message}", err=True)

    def open_(read_only: bool) -> Lossless:
        with context.scope(cleanup=False):  # each request has a thread of its own
            return open_database(read_only=read_only, create=allow_write, on_event=report)

    place = Place(named_conversation(), os.environ, os.getcwd())
    server = Server(open_, place, allow_write=allow_write, grant=grant)
    try:
        if http is None:
            from lossless.mcp import stdio

            stdio.serve(server)
        else:
            _serve_http(server, http)
    finally:
        server.close()


def _serve_http(server: Server, where: str) -> None:
    try:
        from lossless.mcp import http
    except ModuleNotFoundError as error:
        raise InvalidInput(
            "HTTP needs the MCP SDK.",
            hint="Install it with: pip install 'lossless[mcp]'. Without --http it is not needed.",
        ) from error
    http.serve(server, *http.address(where), os.environ.get("LCM_MCP_TOKEN"))
