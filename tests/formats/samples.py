"""The golden cases, and what the tests of every format need to walk through them."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from lossless.formats import anthropic, openai_chat, openai_responses, openclaw
from lossless.model import Message, Part, ToolResult

CASES = Path(__file__).parents[1] / "cases" / "formats"

FORMATS: dict[str, Any] = {
    "anthropic": anthropic,
    "openai_chat": openai_chat,
    "openai_responses": openai_responses,
    "openclaw": openclaw,
}
DUMPS: dict[str, Callable[[Sequence[Message]], dict[str, Any]]] = {
    "anthropic": partial(anthropic.dump, keep_cache_markers=True),
    "openai_chat": partial(openai_chat.dump, keep_cache_markers=True),
    "openai_responses": openai_responses.dump,
    "openclaw": openclaw.dump,
}


def cases(name: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads((CASES / f"{name}.json").read_text())
    return found


def back(name: str, messages: Sequence[Message]) -> list[Any]:
    """The wire messages exactly as they came, also those that no API would take."""
    if name == "openai_responses":
        return [item for message in messages for item in openai_responses.dump_items(message)]
    return [FORMATS[name].dump_message(message) for message in messages]


def kinds(message: Message) -> list[str]:
    return [str(part.__struct_config__.tag) for part in message.parts]


def everything(message: Message) -> Iterator[Message | Part]:
    """The message, its parts, and the parts in its results."""
    yield message
    for part in message.parts:
        yield part
        if isinstance(part, ToolResult):
            yield from part.parts


class Sdk:
    """An object of a provider's SDK, as far as we look at it: `sent` is what the API sent."""

    def __init__(self, sent: dict[str, Any], **unset: Any) -> None:
        self.sent = sent
        self.unset = unset

    def model_dump(self, *, by_alias: bool, exclude_unset: bool, warnings: bool) -> dict[str, Any]:
        assert by_alias
        assert not warnings
        return self.sent if exclude_unset else self.sent | self.unset
