"""Write the history that a host is given: marked as a record, escaped, within its limits. Pure.

Nothing that anybody wrote earlier stands outside the block, and nothing in the block can close it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta, tzinfo
from xml.sax.saxutils import escape, quoteattr

from msgspec import Struct, structs

from lossless.engine.context.guidance import guidance
from lossless.engine.context.summary_xml import as_message
from lossless.model import ListedConversation, StoredMessage, Summary
from lossless.tokens import estimate, truncate

HOST_BYTES = 9_500
"""Claude Code cuts a text of more than 10,000 characters, Codex one of more than 10,000 bytes."""
_EXCERPT, _TITLE = 400, 120
_MOST_MESSAGES, _MOST_SESSIONS = 12, 3
_LEAST = 60
"""Tokens below which a cut summary says nothing."""
_CUT = "… (cut; lcm_describe shows all of it)"
_UNSEEN = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\xad\u061c\u180e\u200b\u200e\u200f\u202a-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb"
    "\ud800-\udfff\U000e0000-\U000e01ef]"
)
"""Characters that a terminal obeys or nobody sees: escapes, invisible letters, changes of direction, halves of others."""
_BRACKETS = str.maketrans({"\uff1c": "<", "\ufe64": "<", "\uff1e": ">", "\ufe65": ">", "\u2028": "\n", "\u2029": "\n"})
"""Characters that look like brackets and would not be escaped, and separators of lines."""


class Limits(Struct, frozen=True):
    """The limits of one text: tokens, bytes, and the age of what it may contain."""

    tokens: int
    since: datetime
    zone: tzinfo
    bytes: int = HOST_BYTES


def limits(tokens: int, max_age_hours: int, now: datetime, zone: tzinfo) -> Limits:
    """Return the limits that the settings set at a time."""
    return Limits(tokens, now - timedelta(hours=max_age_hours), zone)


def history(
    key: str, intro: str, summaries: Sequence[Summary], messages: Sequence[StoredMessage], limits: Limits
) -> str:
    """Return a block with summaries and excerpts of messages, oldest first; empty if there is nothing to show.

    The newest come first into the budget. A quarter of it is kept for messages, as far as there are any.
    """
    found = [each for each in summaries if each.latest_at is None or each.latest_at >= limits.since]
    young = [structs.replace(each, text=_plain(each.text)) for each in found]
    recent = [each for each in messages if each.at >= limits.since and each.role in ("user", "assistant")]
    words = [each for each in recent if each.text.strip()][-_MOST_MESSAGES:]
    space = _Space(limits.tokens, limits.bytes)
    opening, closing = _frame(intro, key)
    if not (young or words) or not space.take(f"{opening}\n{closing}"):
        return ""
    excerpts = list(_newest(space.share(4 if young else 1), [_excerpt(each, limits.zone) for each in words]))
    space.take("\n".join(excerpts))
    shown = list(_newest_summaries(space, young, limits.zone))
    if not (excerpts or shown):
        return ""
    return "\n".join([opening, *reversed(shown), *reversed(excerpts), closing])


def earlier_sessions(intro: str, directory: str, sessions: Sequence[ListedConversation], limits: Limits) -> str:
    """Return a short note about the newest earlier sessions of a directory; empty if there are none."""
    young = [each for each in sessions if each.updated_at >= limits.since and each.messages][:_MOST_SESSIONS]
    space = _Space(limits.tokens, limits.bytes)
    opening, closing = _frame(intro, directory)
    if not young or not space.take(f"{opening}\n{closing}"):
        return ""
    shown = list(_newest(space, [_session(each, limits.zone) for each in reversed(young)]))
    return "\n".join([opening, *reversed(shown), closing]) if shown else ""


class _Space:
    """The tokens and bytes that are left."""

    def __init__(self, tokens: int, size: int) -> None:
        self.tokens, self.bytes = tokens, size

    def take(self, text: str) -> bool:
        """Use up the space of a text if it fits."""
        tokens, size = estimate(text) + 1, len(text.encode("utf-8", "surrogatepass")) + 1
        if tokens > self.tokens or size > self.bytes:
            return False
        self.tokens -= tokens
        self.bytes -= size
        return True

    def share(self, parts: int) -> _Space:
        return _Space(self.tokens // parts, self.bytes // parts)


def _frame(intro: str, about: str) -> tuple[str, str]:
    """Return the text before and after the entries: whose words they are, and how to look further."""
    opening = f'{intro.strip()}\n<lossless_history trust="untrusted" of={quoteattr(_plain(about))}>'
    return opening, f"</lossless_history>\n{guidance('short')}"


def _newest(space: _Space, texts: Sequence[str]) -> Iterator[str]:
    """Yield the newest texts that fit, newest first."""
    for text in reversed(texts):
        if not space.take(text):
            return
        yield text


def _newest_summaries(space: _Space, summaries: Sequence[Summary], zone: tzinfo) -> Iterator[str]:
    for summary in reversed(summaries):
        text = as_message(summary, zone)[0].text
        if space.take(text):
            yield text
            continue
        # The last one that is shown is cut: its id leads to the rest.
        left = min(space.tokens, space.bytes // 4) - _LEAST * 2
        if left >= _LEAST:
            cut = structs.replace(summary, text=truncate(summary.text, left) + _CUT)
            text = as_message(cut, zone)[0].text
            if space.take(text):
                yield text
        return


def _excerpt(stored: StoredMessage, zone: tzinfo) -> str:
    at = stored.at.astimezone(zone).isoformat(timespec="minutes")
    return f'<message id="msg#{stored.id}" role="{stored.role}" at="{at}">{_line(stored.text, _EXCERPT)}</message>'


def _session(each: ListedConversation, zone: tzinfo) -> str:
    at = each.updated_at.astimezone(zone).isoformat(timespec="minutes")
    title = _line(each.title or "", _TITLE)
    return f'<session id={quoteattr(_plain(each.key))} last="{at}" messages="{each.messages}">{title}</session>'


def _plain(text: str) -> str:
    """Return a text as a reader sees it: without what is invisible, and with brackets that are escaped later."""
    return _UNSEEN.sub("", text.translate(_BRACKETS))


def _line(text: str, most: int) -> str:
    """Return the beginning of a text on one line, escaped."""
    line = " ".join(_plain(text[: 8 * most]).split())
    return escape(line if len(line) <= most else f"{line[:most]}…")
