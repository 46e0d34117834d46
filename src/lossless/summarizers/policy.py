"""How a model is asked: how much it may write, and when it is asked once more."""

from __future__ import annotations

import re
from collections.abc import Callable

from msgspec import Struct, structs

from lossless.errors import SummarizerError
from lossless.model import SummaryRequest
from lossless.summarizers.base import Reply

HEAD_ROOM = 2048
"""Tokens for thinking, which providers count against the same limit as the text."""


class Answer(Struct, frozen=True):
    """What one call gave: a reply, and whether the limit cut it off."""

    reply: Reply
    cut: bool = False


def complete(model: str, request: SummaryRequest, send: Callable[[int], Answer]) -> Reply:
    """The reply to a request: one call of `send` with a limit, two if the first gave no text or only half of one.

    Half a text is better than none: it is kept when the second call gives nothing or fails, and says that it is `cut`.
    """
    limit = request.max_tokens + (HEAD_ROOM if may_think(model) else 0)
    first = send(limit)
    if first.reply.text and not first.cut:
        return first.reply
    try:
        second = send(_more(limit, first, request) if first.cut else limit)
    except SummarizerError:
        if first.reply.text:
            return _marked(first)
        raise
    return _marked(second if second.reply.text else first)


def _marked(answer: Answer) -> Reply:
    return structs.replace(answer.reply, cut=answer.cut)


def _more(limit: int, first: Answer, request: SummaryRequest) -> int:
    # Cut off before the first word: whatever its name says, this model thinks.
    return max(2 * limit, request.target_tokens) + (0 if first.reply.text else HEAD_ROOM)


def may_think(model: str) -> bool:
    """Whether a model may think without being asked to. A limit is not a price: in doubt it may."""
    return not _NEVER_THINKS.search(model)


# The list of models that think grows every month, the list of those that do not is closed.
_NEVER_THINKS = re.compile(
    r"(?:^|/)(?:claude-(?:instant|[123])|claude-(?:haiku|sonnet|opus)-4(?:-\d{8}|-[0-5](?!\d)|$)|(?:chat)?gpt-[34])",
    re.IGNORECASE,
)
