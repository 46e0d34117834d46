"""The messages that a host holds: those not stored yet, and all of them as a fallback.

Pure. A model must get a valid, bounded request whatever state the memory is in.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Iterable, Sequence

from msgspec import structs

from lossless.engine.context.fit_budget import NO_CAPS, ViewEntry, assemble
from lossless.engine.context.summary_xml import stands_for
from lossless.engine.ingest.intake import time_of
from lossless.engine.ingest.without_ids import new_part
from lossless.formats.fit import Caps, pictures_in, wire_bytes
from lossless.model import INSTRUCTIONS, Context, Message
from lossless.tokens import message_tokens


def find_unsaved(
    live: Sequence[Message],
    known_events: Collection[str],
    stored: Sequence[bytes],
    digest: Callable[[Message], bytes],
    event_key: Callable[[Message], str | None],
) -> list[Message]:
    """Return the live messages that are not stored, by event id, or by place without one.

    Instructions are sent by the host, and messages that we generated are skipped.
    """
    said = [message for message in live if message.role not in INSTRUCTIONS and stands_for(message) is None]
    nameless = [message for message in said if event_key(message) is None]
    new = set(new_part(stored, [digest(message) for message in nameless]))
    fresh = {id(message) for at, message in enumerate(nameless) if at in new}
    return [
        message
        for message in said
        if (id(message) in fresh if (key := event_key(message)) is None else key not in known_events)
    ]


def name_by_time(live: Sequence[Message], stored: Iterable[tuple[str, int, str]]) -> list[Message]:
    """Return live messages with the event ids of stored ones (role, time, id) of the same role and time.

    For a host that sends its own history back without ids, and with other ids of tool calls.
    """
    names: dict[tuple[str, int], list[str]] = {}
    for role, at, name in stored:
        names.setdefault((role, at), []).append(name)
    found = []
    for message in live:
        moment = None if message.event_id is not None else time_of(message)
        same = [] if moment is None else names.get((message.role, moment), [])
        found.append(structs.replace(message, event_id=same.pop(0)) if same else message)
    return found


def drop_repeated(live: Sequence[Message], identity: Callable[[Message], Hashable | None]) -> list[Message]:
    """Return the messages, each event once, in its newest version.

    It keeps its first place if the model has answered since, and takes its last place otherwise.
    """
    first: dict[Hashable, int] = {}
    last: dict[Hashable, int] = {}
    for at, message in enumerate(live):
        if (name := identity(message)) is not None:
            first.setdefault(name, at)
            last[name] = at
    answered = {
        name for name, at in first.items() if any(each.role == "assistant" for each in live[at + 1 : last[name]])
    }
    shown: list[Message] = []
    for at, message in enumerate(live):
        name = identity(message)
        if name is None or (first if name in answered else last)[name] == at:
            shown.append(message if name is None else live[last[name]])
    return shown


def current_turn(live: Sequence[Message]) -> Sequence[Message]:
    """Return the messages from the newest user message on."""
    start = next((at for at in range(len(live) - 1, -1, -1) if live[at].role == "user"), len(live))
    return live[start:]


def as_entries(messages: Sequence[Message]) -> list[ViewEntry]:
    return [
        ViewEntry(None, message, message_tokens(message), None, 0, wire_bytes(message), pictures_in(message))
        for message in messages
    ]


def fit_live(
    live: Sequence[Message], budget: int, why: str, *, prompt_follows: bool = False, caps: Caps = NO_CAPS
) -> Context:
    """Fit the host's own messages into the budget: its instructions, then the newest rounds.

    A reply at the end would be taken for the beginning of the next one, and is left out, unless the host's prompt
    still follows.
    """
    head = as_entries([message for message in live if message.role in INSTRUCTIONS])
    body = [message for message in live if message.role not in INSTRUCTIONS]
    while body and body[-1].role == "assistant" and not prompt_follows:
        body.pop()
    shown = assemble(head, as_entries(body), fresh=0, budget=budget, caps=caps)
    return structs.replace(shown.context, reason=f"live: {why}")
