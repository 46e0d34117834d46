"""Tell the messages of a conversation from those that a transplant copied there. Pure functions.

Copies take the next seqs, whatever their age: code that looks for the newest messages of a host must skip them.
"""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import sha256

from lossless.store.rows.types import ConversationRow, TransplantRow


def own_after(copied: Sequence[TransplantRow], row: ConversationRow, count: int) -> int:
    """Return the seq after which the newest `count` messages of the conversation itself start."""
    end = row.next_seq - 1
    for block in reversed(copied):
        if end - block.last_seq >= count:
            break
        count, end = count - (end - block.last_seq), block.first_seq - 1
    return max(0, end - count)


def is_copied(copied: Sequence[TransplantRow], seq: int) -> bool:
    """Return whether a transplant copied the message with this seq."""
    return any(block.first_seq <= seq <= block.last_seq for block in copied)


def copy_digest(digest: bytes) -> bytes:
    """Return the digest of a transplanted copy, from the digest of its original.

    It differs from the original's, so that a message delivered again is not taken for the copy. It is derived from it, so that
    `forget` finds every copy, and copies of copies.
    """
    return sha256(b"copied" + digest).digest()[: len(digest)]
