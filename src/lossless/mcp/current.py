"""Find the conversation that a call is about, when it does not name one.

MCP has no sessions that a tool could see. Claude Code names its session in the environment of the server, Codex in the
`_meta` of each call; for other clients the newest session of the working directory is the best guess.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from typing import Any

from msgspec import Struct

from lossless import Conversation, Lossless
from lossless.engine.sync.read_marks import newest_in
from lossless.errors import NotFound
from lossless.store import jsontext
from lossless.store.rows.types import ConversationRow

META_KEY = "lossless/conversation"
_META_SESSIONS = ("threadId", "sessionId", "session_id", "thread_id")
_CODEX_TURN = "x-codex-turn-metadata"
_ENVIRONMENT = ("LCM_CONVERSATION", "CLAUDE_CODE_SESSION_ID")
_KEYS = ("claude-code:", "codex:", "openclaw:")
_LONGEST = 1000


class Place(Struct, frozen=True):
    """Facts that a server process has about the session it serves."""

    conversation: str | None = None
    """The conversation that the command line names."""
    environment: Mapping[str, str] = os.environ
    directory: str = ""
    """The working directory."""


def find_current(lcm: Lossless, place: Place, meta: Mapping[str, Any], *, guess: bool = True) -> Conversation:
    """Return the conversation of a call: by its `_meta`, the environment, or the newest session of the directory.

    Without `guess` the directory does not count: nothing is written to a conversation that nobody named.
    """
    for name in _names(place, meta):
        if row := _named(lcm, name):
            return lcm.conversation(row.key)
    for directory in _directories(place, meta) if guess else ():
        if row := newest_in(lcm._store, directory):
            return lcm.conversation(row.key)
    raise NotFound(
        "conversation",
        "of this session",
        hint="Pass conversationId (a number), or allConversations: true. `lcm conversations` lists them; "
        "`lcm mcp --conversation KEY` sets one for a server.",
    )


def _names(place: Place, meta: Mapping[str, Any]) -> Iterator[str]:
    """Yield the names of the session, the most certain first."""
    turn = _turn(meta)
    found = [
        meta.get(META_KEY),
        *(meta.get(each) for each in _META_SESSIONS),
        *(turn.get(each) for each in _META_SESSIONS),
        place.conversation,
        *(place.environment.get(each) for each in _ENVIRONMENT),
    ]
    for name in found:
        if isinstance(name, str | int) and not isinstance(name, bool) and 0 < len(str(name)) <= _LONGEST:
            yield str(name)


def _directories(place: Place, meta: Mapping[str, Any]) -> Iterator[str]:
    for found in (_turn(meta).get("cwd"), place.environment.get("CLAUDE_PROJECT_DIR"), place.directory):
        if isinstance(found, str) and found and jsontext.is_clean(found):
            yield found
            real = os.path.realpath(found)
            if real != found:
                yield real


def _turn(meta: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return what Codex says about a turn: an object, or one written as JSON."""
    turn = meta.get(_CODEX_TURN)
    if isinstance(turn, str):
        try:
            turn = json.loads(turn)
        except (ValueError, RecursionError):
            return {}
    return turn if isinstance(turn, Mapping) else {}


def _named(lcm: Lossless, name: str) -> ConversationRow | None:
    """Return the conversation with this key, number or session; None if there is none."""
    if not jsontext.is_clean(name):
        return None
    store = lcm._store.conversations
    for key in (name, *(f"{prefix}{name}" for prefix in _KEYS)):
        if rows := store.under_key(lcm._stored_key(key)):
            return rows[0]
    number = name.removeprefix("#")
    if number.isdecimal() and number.isascii() and len(number) < 19 and (row := store.get(int(number))):
        return row
    return store.of_session(name)
