"""Answer the requests of MCP clients: tools, resources and prompts, whichever transport carries them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from lossless.errors import InvalidInput, LosslessError, NotFound
from lossless.mcp import prompts, resources
from lossless.mcp.current import Place
from lossless.mcp.memory import Memory, Open
from lossless.mcp.requests import INTERNAL_ERROR, INVALID_PARAMS, METHOD_NOT_FOUND, NOTICE, ProtocolError, Request
from lossless.mcp.tools import Toolbox
from lossless.version import __version__

NAME: Final = "lossless"
CAPABILITIES: Final[dict[str, dict[str, Any]]] = {"tools": {}, "resources": {}, "prompts": {}}
INFO: Final = {"name": NAME, "title": "lossless", "version": __version__}
INSTRUCTIONS: Final = (
    "The memory of earlier and summarised conversations, word for word. lcm_grep finds, lcm_describe shows one thing in full, "
    f"lcm_expand_query answers what needs several texts. {NOTICE} The prompt recall_full explains more."
)


class Server:
    """The memory as an MCP server, without a transport."""

    def __init__(
        self, open_database: Open, place: Place, *, allow_write: bool = False, grant: str | None = None
    ) -> None:
        self._memory, self._place = Memory(open_database), place
        # A grant meters what its tools read; resources and prompts with history would go around it.
        history = None if grant else self._memory
        self.tools = Toolbox(self._memory, place, allow_write=allow_write, grant=grant)
        self._history = history
        self._methods: dict[str, Callable[[Mapping[str, Any], Request], dict[str, Any]]] = {
            "ping": lambda params, request: {},
            "tools/list": lambda params, request: {"tools": self.tools.list()},
            "tools/call": self._call,
            "resources/list": lambda params, request: {"resources": resources.listed(history)},
            "resources/templates/list": lambda params, request: {"resourceTemplates": resources.templates(history)},
            "resources/read": lambda params, request: resources.read(history, _text(params, "uri")),
            "prompts/list": lambda params, request: {"prompts": prompts.listed(history)},
            "prompts/get": self._prompt,
        }

    def answer(self, method: str, params: Mapping[str, Any], request: Request) -> dict[str, Any]:
        """Return the result of a request, or raise `ProtocolError`."""
        if method not in self._methods:
            raise ProtocolError(METHOD_NOT_FOUND, f"There is no method {method[:80]!r}.")
        try:
            return self._methods[method](params, request)
        except LosslessError as error:
            code = INVALID_PARAMS if isinstance(error, NotFound | InvalidInput) else INTERNAL_ERROR
            raise ProtocolError(code, f"{error.message} {error.hint}".strip()) from error

    def close(self) -> None:
        """Close the database."""
        self._memory.close()

    def _call(self, params: Mapping[str, Any], request: Request) -> dict[str, Any]:
        return self.tools.call(_text(params, "name"), _object(params, "arguments"), request)

    def _prompt(self, params: Mapping[str, Any], request: Request) -> dict[str, Any]:
        name, arguments = _text(params, "name"), _object(params, "arguments")
        return prompts.get(name, arguments, self._history, self._place, request)


def _text(params: Mapping[str, Any], name: str) -> str:
    found = params.get(name)
    if not isinstance(found, str):
        raise ProtocolError(INVALID_PARAMS, f"{name} is missing, or not a text.")
    return found


def _object(params: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    found = params.get(name)
    if not isinstance(found, Mapping | None):
        raise ProtocolError(INVALID_PARAMS, f"{name} is not an object.")
    return found or {}
