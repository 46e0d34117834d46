"""Pure: which messages of a conversation were said in it, and which were copied there from another one.

Copies take the next seqs, whatever their age: whoever looks back at what a host told last must look past them.
"""

from __future__ import annotations

from collections.abc import Sequence

from lossless.store.base import ConversationRow, TransplantRow


def own_after(copied: Sequence[TransplantRow], row: ConversationRow, count: int) -> int:
    """The seq behind which the newest `count` messages lie that were said in a conversation itself."""
    end = row.next_seq - 1
    for block in reversed(copied):
        if end - block.last_seq >= count:
            break
        count, end = count - (end - block.last_seq), block.first_seq - 1
    return max(0, end - count)


def is_copied(copied: Sequence[TransplantRow], seq: int) -> bool:
    return any(block.first_seq <= seq <= block.last_seq for block in copied)
