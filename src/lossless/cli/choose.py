"""Which conversation a command means when nobody says, and text that is safe to print."""

from __future__ import annotations

import re

import click

from lossless import Conversation, Lossless
from lossless.errors import NotFound

# Lines and tabs may pass; other control characters, and those that turn the direction of writing, would be obeyed.
_UNSAFE = re.compile(r"[\0-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")


def choose(lcm: Lossless, key: str | None) -> Conversation:
    """The conversation of that key; else the only one, else the newest that is active, which is told on standard error."""
    if key is not None:
        return lcm.conversation(key)
    found = [each for each in lcm.conversations() if each.active]
    if not found:
        raise NotFound("conversation", "here", hint="One comes into being with its first message.")
    if len(found) > 1:
        click.echo(f"{safe(found[0].key)}: the newest of {len(found):,}; -c KEY chooses another.", err=True)
    return lcm.conversation(found[0].key)


def safe(text: str) -> str:
    """The text with its control characters escaped, as in `\\x1b`."""
    return _UNSAFE.sub(lambda found: found[0].encode("unicode_escape").decode(), text)
