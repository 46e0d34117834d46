"""A summary as the model reads it: marked as history, escaped so that its text cannot close its own tag."""

from __future__ import annotations

from datetime import UTC, datetime
from xml.sax.saxutils import escape

from lossless.model import Message, Summary


def as_message(summary: Summary) -> Message:
    """The message that stands for a summary. Its text is data from the past, and says so."""
    times = "".join(
        f' {name}="{_stamp(at)}"'
        for name, at in (("earliest_at", summary.earliest_at), ("latest_at", summary.latest_at))
        if at is not None
    )
    head = f'id="{summary.id}" kind="{summary.kind}" depth="{summary.depth}" descendant_count="{summary.descendants}"'
    return Message.user(
        f'<summary {head} trust="untrusted"{times}>\n<content>\n{escape(summary.text)}\n</content>\n</summary>'
    )


def _stamp(at: datetime) -> str:
    return at.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
