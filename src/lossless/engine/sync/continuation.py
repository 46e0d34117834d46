"""Decide whether a transcript continues a stored conversation. Pure functions.

A transcript is never refused. One that continues the conversation is appended; one that starts over becomes the next
conversation under the key; one that fits nowhere is stored beside it, outside every context, and reported.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, TypeAlias

from msgspec import Struct

Destination: TypeAlias = Literal["same", "epoch", "aside"]

_OVERLAP = 50


class Fingerprint(Struct, frozen=True, gc=False):
    """The role, digest and time of a message, to compare transcripts with stored messages."""

    role: str
    digest: bytes
    at: int | None


class Situation(Struct, frozen=True):
    """The facts about a transcript without a stored entry, and about the conversation under its key."""

    entries: Sequence[Fingerprint]
    """The first messages of the transcript."""
    stored: Sequence[Fingerprint]
    """The last messages of the conversation."""
    tracked: Literal["none", "same file", "other file", "missing file"]
    """The transcript that the conversation was read from so far."""
    renewed: bool = False
    """There was a /new since that transcript was read last."""
    elsewhere: bool = False
    """Its entries belong to an active conversation under another key."""
    last_at: int | None = None
    """The time of its last message."""
    sure: bool = False
    """Its entries have ids, and its messages have times of their own."""


def choose_destination(situation: Situation) -> tuple[Destination, str]:
    """Return the destination of a transcript without a stored entry, and the reason."""
    entries, stored = situation.entries, situation.stored
    if not stored or not entries:
        return "same", "nothing was stored yet"
    if situation.sure and _share_timed_message(entries, stored):
        return "same", "the host delivered some of its messages"
    if situation.elsewhere:
        return "aside", "its entries belong to another conversation"
    if all(each.role == "system" for each in entries) and len(entries) <= 4:
        return "aside", "it contains only system messages"
    if all(each.role == "system" for each in stored):
        return "same", "only system messages were stored"
    if situation.renewed:
        return "same", "it follows a /new"
    if situation.tracked == "same file":
        return "epoch", "the file was replaced"
    if situation.tracked == "none" and _overlap(entries, stored):
        return "same", "the host delivered most of its messages"
    if situation.tracked != "missing file" and _start_later(entries, stored, situation.sure):
        return "same", "it starts after everything that is stored"
    newest = max((each.at for each in stored if each.at is not None), default=None)
    if situation.last_at is not None and newest is not None and situation.last_at < newest:
        return "aside", "it is older than what is stored"
    return "epoch", "it shares no message with what is stored"


def _share_timed_message(entries: Sequence[Fingerprint], stored: Sequence[Fingerprint]) -> bool:
    """Return whether any message is on both sides with the same time."""
    known = {(each.digest, each.at) for each in stored}
    return any((each.digest, each.at) in known for each in entries)


def _overlap(entries: Sequence[Fingerprint], stored: Sequence[Fingerprint]) -> bool:
    """Return whether at least half of the shorter side is also on the other side."""
    known = {each.digest for each in stored}
    return 2 * sum(each.digest in known for each in entries) >= min(len(entries), len(stored))


def _start_later(entries: Sequence[Fingerprint], stored: Sequence[Fingerprint], sure: bool) -> bool:
    """Return whether all entries are newer than the stored messages.

    The time of a line may be that of a copy; unless the times are certain (`sure`), no text may repeat.
    """
    times = [each.at for each in entries]
    last = max((each.at for each in stored if each.at is not None), default=None)
    if last is None or any(at is None or at <= last for at in times):
        return False
    if sure:
        return True
    known = {each.digest for each in stored[-_OVERLAP:]}
    return not any(each.digest in known for each in entries[:_OVERLAP])
