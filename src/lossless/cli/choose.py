"""Choose the conversation of a command: the one that is named, else the only one, else the newest."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from lossless.cli.frame import named_conversation, remark
from lossless.cli.tables import flat
from lossless.errors import InvalidInput, NotFound

if TYPE_CHECKING:
    from lossless import Conversation, Lossless

_LISTED = 5


def choose(lcm: Lossless, what: str = "", *, writes: bool = False) -> Conversation:
    """Return the conversation that is named, else that of the message `what`, else the only or the newest active one.

    A note on stderr says which one was taken. A command that writes takes none of several: the user has to name it.
    """
    name = named_conversation()
    if name is not None:
        return lcm.find(name)
    if re.fullmatch(r"msg#[0-9]+", what):
        return lcm.find(what)
    found = [each for each in lcm.conversations() if each.active]
    if not found:
        raise NotFound("conversation", "here", hint="A conversation is created by its first message.")
    if len(found) > 1 and writes:
        keys = ", ".join(flat(each.key) for each in found[:_LISTED])
        more = f" and {len(found) - _LISTED:,} more" if len(found) > _LISTED else ""
        raise InvalidInput(f"There are {len(found):,} conversations.", hint=f"Name one with -c: {keys}{more}.")
    if len(found) > 1:
        remark(f"{flat(found[0].key)}: the newest of {len(found):,}; -c KEY chooses another.")
    return lcm.conversation(found[0].key)
