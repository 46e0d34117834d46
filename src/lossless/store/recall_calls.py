"""Pure: find the calls of our own recall tools, and their results, in stored messages.

What an agent looked up is in the history twice: where it was said, and in the result of every lookup. A search that
found the lookups too would show them before the fact, because they are newer and repeat the words of the question.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import pairwise
from typing import Any, TypeAlias

from msgspec import DecodeError, Struct, convert, json

from lossless.store import jsontext

Spans: TypeAlias = Sequence[tuple[int, int]] | None
"""Start and length of the recalled words in a text; None: the whole message."""
MessageWords: TypeAlias = tuple[int, str, str | None]
"""The id, text and parts of a message."""
_RECALL_TOOL = re.compile(r"(?:^|[^A-Za-z0-9])lcm_[a-z_]+\Z")


def is_recall_tool(name: object) -> bool:
    """Return True for the name of one of our tools, with or without a host's prefix (`mcp__lossless__lcm_grep`)."""
    return isinstance(name, str) and _RECALL_TOOL.search(name) is not None


def may_be_result(parts: str) -> bool:
    """Return False if a message's parts contain no result of a tool."""
    return '"tool_result"' in parts or '"opaque"' in parts


class Piece(Struct, gc=False):
    """As much of a stored part as is needed here."""

    type: str
    call_id: str = ""
    name: str | None = None
    span: tuple[int, int] | None = None
    text: str | None = None
    data: Any = None


class CallHistory:
    """The tool calls of one conversation, whose messages are given in their order.

    `look_up` answers for the calls of messages that were not given.
    """

    def __init__(self, look_up: Callable[[str], bool] = lambda call_id: False) -> None:
        self._look_up = look_up
        self._is_recall: dict[str, bool] = {}

    def find(self, text: str, parts: str) -> tuple[bool, Spans]:
        """Return whether a message contains recall, and where. Its calls are remembered for the results to come."""
        spans: list[tuple[int, int]] = []
        has_recall = has_other = False
        for piece in _pieces(parts):
            if self._is_recall_piece(piece):
                has_recall = True
                spans += [piece.span] if piece.span else []
            else:
                has_other = has_other or not _is_empty(piece, text)
        return has_recall, (spans if has_other else None)

    def _is_recall_piece(self, piece: Piece) -> bool:
        match piece.type:
            case "tool_call":
                return self._call(piece.call_id, piece.name)
            case "tool_result":
                return is_recall_tool(piece.name) or self._answers(piece.call_id)
            case "opaque" if isinstance(piece.data, dict):
                if "name" in piece.data:
                    return self._call(piece.data.get("call_id") or piece.data.get("id"), piece.data["name"])
                return self._answers(piece.data.get("call_id") or piece.data.get("tool_use_id"))
        return False

    def _call(self, call_id: object, name: object) -> bool:
        is_recall = is_recall_tool(name)
        if isinstance(call_id, str) and call_id:
            self._is_recall[call_id] = is_recall
        return is_recall

    def _answers(self, call_id: object) -> bool:
        if not isinstance(call_id, str) or not call_id:
            return False
        if call_id not in self._is_recall:
            self._is_recall[call_id] = self._look_up(call_id)
        return self._is_recall[call_id]


def encode_spans(spans: Spans) -> str | None:
    return None if spans is None else jsontext.dumps_plain(spans)


def without(text: str, spans: str | None) -> str:
    """Return a text without its recalled words; nothing of it if all of them are."""
    if spans is None:
        return ""
    found = sorted(jsontext.stored(spans))
    edges = [(0, 0), *((start, start + length) for start, length in found), (len(text), len(text))]
    return "\n".join(piece for (_, end), (start, _) in pairwise(edges) if (piece := text[end:start].strip("\n")))


def index_words(texts: Iterable[tuple[int, str]], found: Mapping[int, str | None]) -> list[tuple[int, str]]:
    """Return what the search index holds of some messages: ids, ascending, and words. `found` tells their spans."""
    if not found:
        return list(texts)
    words: list[tuple[int, str]] = []
    for identity, text in texts:
        if identity in found:
            words.append((-identity, text))
            text = without(text, found[identity])
        words.append((identity, text))
    return sorted(words)


_decode = json.Decoder(list[Piece]).decode


def _pieces(parts: str) -> list[Piece]:
    try:
        return _decode(parts)
    except (DecodeError, UnicodeEncodeError):
        return convert(jsontext.stored(parts), list[Piece])


def _is_empty(piece: Piece, text: str) -> bool:
    """Return True for a part without words that a search could find."""
    if piece.type == "reasoning":
        return True
    if piece.type != "text":
        return False
    words = piece.text if piece.span is None else text[piece.span[0] : sum(piece.span)]
    return not (words or "").strip()
