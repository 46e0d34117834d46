"""Which conversation a command means: by its key, by its id, or when nobody says."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from lossless.cli.frame import named_conversation, remark
from lossless.cli.tables import flat
from lossless.errors import InvalidInput, NotFound

if TYPE_CHECKING:
    from lossless import Conversation, Lossless


def choose(lcm: Lossless, what: str = "") -> Conversation:
    """The conversation that is named; else the only one, else the newest that is active, which is told on standard error.

    If it is about a message, `what` is its id, and its own conversation is meant.
    """
    key = chosen(lcm)
    if key is not None:
        return lcm.conversation(key)
    if re.fullmatch(r"msg#[0-9]+", what):
        return lcm.holding(what)
    found = [each for each in lcm.conversations() if each.active]
    if not found:
        raise NotFound("conversation", "here", hint="One comes into being with its first message.")
    if len(found) > 1:
        remark(f"{flat(found[0].key)}: the newest of {len(found):,}; -c KEY chooses another.")
    return lcm.conversation(found[0].key)


def chosen(lcm: Lossless) -> str | None:
    """The key of the conversation that the command line names, if it names one."""
    name = named_conversation()
    return None if name is None else key_of(lcm, name)


def key_of(lcm: Lossless, name: str) -> str:
    """The key of an active conversation, given as it is or as the id `#12`. A name that nobody has is an error."""
    if re.fullmatch(r"#[0-9]{1,18}", name):
        found = next((each for each in lcm.conversations() if each.id == int(name[1:])), None)
        if found is not None and not found.active:
            raise InvalidInput(
                f"{name} is archived.",
                hint="`lcm conversations show`, `messages`, `summaries` and `transplant` reach it.",
            )
        if found is not None:
            return found.key
    lcm.conversation(name).status()
    return name
