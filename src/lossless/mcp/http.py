"""Carry MCP over streamable HTTP, with the official SDK: loopback only, unless a token protects it."""

from __future__ import annotations

import hmac
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

import mcp_types as types
import uvicorn
from anyio import from_thread, get_cancelled_exc_class, to_thread
from mcp.server.context import ServerRequestContext
from mcp.server.lowlevel import Server as Protocol
from mcp.shared.exceptions import MCPError
from pydantic import BaseModel

from lossless.errors import InvalidInput
from lossless.mcp.requests import ProtocolError, Request
from lossless.mcp.server import INFO, INSTRUCTIONS, NAME, Server

PATH = "/mcp"
_LOOPBACK = ("127.0.0.1", "localhost", "::1")
_Context = ServerRequestContext[Any, Any]
_Scope = MutableMapping[str, Any]
_Receive = Callable[[], Awaitable[_Scope]]
_Send = Callable[[_Scope], Awaitable[None]]
_App = Callable[[_Scope, _Receive, _Send], Awaitable[None]]


def address(text: str) -> tuple[str, int]:
    """Return host and port of `[HOST:]PORT`; the host is 127.0.0.1 by default."""
    host, _, port = text.rpartition(":")
    host = host.strip("[]") or _LOOPBACK[0]
    if not (port.isascii() and port.isdecimal() and int(port) < 65536):
        raise InvalidInput(f"{text!r} is not an address.", hint="Write PORT or HOST:PORT, e.g. 8765.")
    return host, int(port)


def serve(server: Server, host: str, port: int, token: str | None) -> None:
    """Serve clients over HTTP until the process is ended."""
    if host not in _LOOPBACK and not token:
        raise InvalidInput(
            f"{host} can be reached from other machines, and anybody could read this memory.",
            hint="Set LCM_MCP_TOKEN to a secret that clients send as a bearer token, or use 127.0.0.1.",
        )
    app: _App = _protocol(server).streamable_http_app(streamable_http_path=PATH, stateless_http=True, host=host)
    if token:
        app = _Protected(app, token)
    # uvicorn prints the address, with the port that the system chose for 0.
    uvicorn.run(app, host=host, port=port, log_level="info", access_log=False, ws="none")


class _Protected:
    """An application that passes on requests with the right token."""

    def __init__(self, app: _App, token: str) -> None:
        self._app, self._right = app, f"Bearer {token}".encode()

    async def __call__(self, scope: _Scope, receive: _Receive, send: _Send) -> None:
        if scope["type"] == "http":
            given = dict(scope["headers"]).get(b"authorization", b"")
            if not hmac.compare_digest(given, self._right):
                head = [(b"www-authenticate", b"Bearer")]
                await send({"type": "http.response.start", "status": 401, "headers": head})
                await send({"type": "http.response.body", "body": b""})
                return
        await self._app(scope, receive, send)


def _protocol(server: Server) -> Protocol[Any]:
    """Return the SDK's server, whose answers are ours."""

    def answers(result: type[BaseModel]) -> Any:
        async def handle(context: _Context, params: BaseModel | None) -> BaseModel:
            return result.model_validate(await _answer(server, context))

        return handle

    return Protocol(
        NAME,
        version=INFO["version"],
        title=INFO["title"],
        instructions=INSTRUCTIONS,
        on_list_tools=answers(types.ListToolsResult),
        on_call_tool=answers(types.CallToolResult),
        on_list_resources=answers(types.ListResourcesResult),
        on_list_resource_templates=answers(types.ListResourceTemplatesResult),
        on_read_resource=answers(types.ReadResourceResult),
        on_list_prompts=answers(types.ListPromptsResult),
        on_get_prompt=answers(types.GetPromptResult),
    )


async def _answer(server: Server, context: _Context) -> dict[str, Any]:
    """Answer one request on a worker thread. If the client cancels it or hangs up, the work ends as well."""
    params = dict(context.params or {})
    meta = params.get("_meta")
    request = Request(meta=meta if isinstance(meta, dict) else {})

    def report(number: float, message: str) -> None:
        from_thread.run(context.session.report_progress, number, None, message)

    request.progress = report
    try:
        return await to_thread.run_sync(server.answer, context.method, params, request, abandon_on_cancel=True)
    except ProtocolError as error:
        raise MCPError(code=error.code, message=error.message, data=error.data) from error
    except get_cancelled_exc_class():
        request.cancellation.cancel()
        raise
