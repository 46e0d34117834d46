"""Pure: whether a transcript goes on with a conversation that is there already, or tells another story.

A transcript is never refused. What goes on is appended; what starts anew becomes the next conversation of the family; what nobody
can place is stored beside it, where no model is shown it, and said so.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, TypeAlias

from msgspec import Struct

Home: TypeAlias = Literal["same", "epoch", "aside"]

_OVERLAP = 50


class Told(Struct, frozen=True, gc=False):
    """A message, as far as it matters here."""

    role: str
    digest: bytes
    at: int | None


class Situation(Struct, frozen=True):
    """What is known about a transcript none of whose entries is stored, and about the conversation under its key."""

    entries: Sequence[Told]
    """The first of the transcript."""
    stored: Sequence[Told]
    """The last of the conversation."""
    tracked: Literal["none", "same file", "other file", "missing file"]
    """Which transcript the conversation was read from so far."""
    renewed: bool = False
    """Whether there was a /new since that one was read last."""
    elsewhere: bool = False
    """Whether its entries belong to an active conversation under another key."""
    last_at: int | None = None
    """The time of its last message."""
    sure: bool = False
    """Whether its entries have ids, and its messages times of their own."""


def home(situation: Situation) -> tuple[Home, str]:
    """Where a transcript without a known entry belongs, and why."""
    entries, stored = situation.entries, situation.stored
    if not stored or not entries:
        return "same", "nothing was stored yet"
    if situation.sure and _is_told(entries, stored):
        return "same", "it tells what the host told"
    if situation.elsewhere:
        return "aside", "its entries belong to another conversation"
    if all(each.role == "system" for each in entries) and len(entries) <= 4:
        return "aside", "it holds nothing but deliveries"
    if all(each.role == "system" for each in stored):
        return "same", "only the host's own notes were stored"
    if situation.renewed:
        return "same", "it follows a /new"
    if situation.tracked == "same file":
        return "epoch", "the file was replaced"
    if situation.tracked == "none" and _goes_along(entries, stored):
        return "same", "it tells much of what the host told"
    if situation.tracked != "missing file" and _is_fresh(entries, stored, situation.sure):
        return "same", "it begins after everything that is stored"
    newest = max((each.at for each in stored if each.at is not None), default=None)
    if situation.last_at is not None and newest is not None and situation.last_at < newest:
        return "aside", "it is older than what is stored"
    return "epoch", "nothing connects it with what is stored"


def _is_told(entries: Sequence[Told], stored: Sequence[Told]) -> bool:
    """Whether any of it stands there with its time."""
    known = {(each.digest, each.at) for each in stored}
    return any((each.digest, each.at) in known for each in entries)


def _goes_along(entries: Sequence[Told], stored: Sequence[Told]) -> bool:
    """Whether at least half of the shorter one stands in the other."""
    known = {each.digest for each in stored}
    return 2 * sum(each.digest in known for each in entries) >= min(len(entries), len(stored))


def _is_fresh(entries: Sequence[Told], stored: Sequence[Told], sure: bool) -> bool:
    """Whether all of it was said after what is stored. Times of lines are those of a copy, if it is one: then no word may repeat."""
    times = [each.at for each in entries]
    last = max((each.at for each in stored if each.at is not None), default=None)
    if last is None or any(at is None or at <= last for at in times):
        return False
    if sure:
        return True
    known = {each.digest for each in stored[-_OVERLAP:]}
    return not any(each.digest in known for each in entries[:_OVERLAP])
