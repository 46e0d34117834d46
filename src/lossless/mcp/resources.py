"""Resources: conversations, contexts, summaries and files by their address, and the pages of the skill."""

from __future__ import annotations

import re
from typing import Any, Final
from urllib.parse import parse_qs, quote, unquote, urlsplit

from lossless.errors import InvalidInput, LosslessError, NotFound
from lossless.hosts import bundled
from lossless.mcp import views
from lossless.mcp.memory import Memory
from lossless.mcp.requests import INVALID_PARAMS, ProtocolError, clean
from lossless.tools import tools

TEMPLATES: Final = (
    (
        "conversation",
        "lcm://conversation/{id}",
        "Conversation",
        "The newest messages of a conversation, by number or key.",
    ),
    ("context", "lcm://context/{id}", "Context", "The context of a conversation as a model is shown it."),
    ("summary", "lcm://summary/{id}", "Summary", "A summary, with everything it was made from."),
    ("file", "lcm://file/{id}{?lines}", "File", "Large content kept apart; lines is a range such as 10-40."),
)
_LISTED = 20
_LINES = re.compile(r"(\d{1,9})(?:-(\d{1,9}))?", re.ASCII)
_PAGE = re.compile(r"(?:SKILL|references/[a-z-]+)\.md")
_MARKDOWN, _PLAIN = "text/markdown", "text/plain"


def templates(memory: Memory | None) -> list[dict[str, Any]]:
    """Return the templates of addresses; none for a client that reads no history by address."""
    if memory is None:
        return []
    return [
        {"name": name, "uriTemplate": template, "title": title, "description": about, "mimeType": _PLAIN}
        for name, template, title, about in TEMPLATES
    ]


def listed(memory: Memory | None) -> list[dict[str, Any]]:
    """Return the newest conversations and the pages of the skill. Without a database there are only the pages."""
    return [*map(clean, _conversations(memory) if memory else ()), *_pages()]


def _conversations(memory: Memory) -> list[dict[str, Any]]:
    try:
        rows = memory().conversations(active=True, limit=_LISTED)
    except LosslessError:
        return []
    return [
        {
            "name": f"conversation-{row.id}",
            "title": row.key,
            "uri": f"lcm://conversation/{row.id}",
            "description": f"{row.messages:,} messages",
            "mimeType": _PLAIN,
        }
        for row in rows
    ]


def _pages() -> list[dict[str, Any]]:
    root = bundled.path("skill")
    pages = sorted(path.relative_to(root).as_posix() for path in root.rglob("*.md"))
    return [
        {"name": page, "title": f"How to use lossless: {page}", "uri": f"lcm://skill/{page}", "mimeType": _MARKDOWN}
        for page in pages
        if _PAGE.fullmatch(page)
    ]


def read(memory: Memory | None, uri: str) -> dict[str, Any]:
    """Return the content at an address."""
    try:
        parts = urlsplit(uri)
    except ValueError:  # e.g. a bracket without its other half
        raise _unknown(uri) from None
    kind, name = parts.netloc, unquote(parts.path.removeprefix("/"))
    if parts.scheme != "lcm" or not name:
        raise _unknown(uri)
    if kind == "skill":
        return _content(uri, _page(uri, name), _MARKDOWN)
    if memory is None:
        raise ProtocolError(INVALID_PARAMS, "This server reads history only with its tools, under a grant.")
    try:
        return _content(uri, _text(memory, kind, name, parse_qs(parts.query), uri), _PLAIN)
    except (NotFound, InvalidInput) as error:
        raise ProtocolError(INVALID_PARAMS, f"{error.message} {error.hint}".strip()) from error


def _text(memory: Memory, kind: str, name: str, query: dict[str, list[str]], uri: str) -> str:
    if kind == "conversation":
        return views.conversation(memory(), name)
    if kind == "context":
        return views.context(memory(), name)
    if kind in ("summary", "file"):
        return _described(memory, name, query)
    raise _unknown(uri)


def _described(memory: Memory, name: str, query: dict[str, list[str]]) -> str:
    arguments: dict[str, Any] = {"id": name, "allConversations": True}
    if lines := query.get("lines"):
        found = _LINES.fullmatch(lines[0])
        if found is None:
            raise InvalidInput(f"lines={lines[0]!r} is not a range of lines.", hint="Write lines=10-40.")
        arguments |= {"startLine": int(found[1]), "endLine": int(found[2] or found[1])}
    outcome = tools(memory().conversation("mcp")).call("lcm_describe", arguments)
    if outcome.is_error:
        raise InvalidInput(outcome.details["error"], hint=outcome.details.get("hint", ""))
    return outcome.text


def _page(uri: str, name: str) -> str:
    path = bundled.path("skill") / name
    if not _PAGE.fullmatch(name) or not path.is_file():
        raise _unknown(uri)
    return path.read_text(encoding="utf-8")


def _content(uri: str, text: str, kind: str) -> dict[str, Any]:
    return {"contents": [{"uri": uri, "mimeType": kind, "text": clean(text)}]}


def _unknown(uri: str) -> ProtocolError:
    known = ", ".join(template for _, template, _, _ in TEMPLATES)
    return ProtocolError(INVALID_PARAMS, f"There is no resource {quote(uri[:200], safe=':/#?=&')}. There are {known}.")
