"""Choose the output limit of a request, and repeat a request that was cut off."""

from __future__ import annotations

import re
from collections.abc import Callable

from msgspec import Struct, structs

from lossless.errors import SummarizerError
from lossless.model import SummaryRequest
from lossless.summarizers.base import Reply

THINKING_TOKENS = 2048
"""Extra tokens for thinking, which providers count against the same limit as the text."""


class Completion(Struct, frozen=True):
    """The result of one call: a reply, and whether the limit cut it off."""

    reply: Reply
    cut: bool = False


def complete(model: str, request: SummaryRequest, send: Callable[[int], Completion]) -> Reply:
    """Return the reply to a request: call `send` with a limit, and again if the text is empty or cut off.

    A cut text is better than none: it is used, marked as `cut`, if the second call returns nothing or fails.
    """
    limit = request.max_tokens + (THINKING_TOKENS if may_think(model) else 0)
    first = send(limit)
    if first.reply.text and not first.cut:
        return first.reply
    try:
        second = send(_larger_limit(limit, first, request) if first.cut else limit)
    except SummarizerError:
        if first.reply.text:
            return _reply(first)
        raise
    return _reply(second if second.reply.text else first)


def _reply(completion: Completion) -> Reply:
    return structs.replace(completion.reply, cut=completion.cut)


def _larger_limit(limit: int, first: Completion, request: SummaryRequest) -> int:
    # Cut off before the first word: this model thinks, whatever its name says.
    return max(2 * limit, request.target_tokens) + (0 if first.reply.text else THINKING_TOKENS)


def may_think(model: str) -> bool:
    """Return whether a model may think by default; True in doubt, since a limit costs nothing."""
    return not _NEVER_THINKS.search(model)


# The list of models that think grows every month, the list of those that do not is closed.
_NEVER_THINKS = re.compile(
    r"(?:^|/)(?:claude-(?:instant|[123])|claude-(?:haiku|sonnet|opus)-4(?:-\d{8}|-[0-5](?!\d)|$)|(?:chat)?gpt-[34])",
    re.IGNORECASE,
)
