"""A conversation to try lossless on: five days of a coding agent's work, invented from beginning to end.

Ines and her agent move berthbook, a service that books berths in harbours, from MariaDB to PostgreSQL. On the
way they meet arrival times that depend on which host answered, a deploy that fails one time in four, a report
that is 1,412.60 off, and a plan that is decided on Monday and dropped on Wednesday. The agent has three tools
(read, bash, edit). It is kept as a transcript of pi (version 3), which `lossless.formats.openclaw` reads.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
from msgspec.structs import replace

from lossless.formats import openclaw
from lossless.model import Message

TRANSCRIPT = Path(__file__).with_name("conversation.jsonl")

DETAIL = ("What checksum did chunk 037 of bookings have in Monday's first export?", "crc32=5be1c09d")
"""A question about the first day, and the words that answer it. They stand once, deep in a tool's output."""


def entries() -> list[dict[str, Any]]:
    """The entries of the transcript that hold a message, in order; the header line is left out."""
    lines: list[dict[str, Any]] = msgspec.json.Decoder().decode_lines(TRANSCRIPT.read_bytes())
    return [line for line in lines if line["type"] == "message"]


def conversation() -> list[Message]:
    """The messages, each with the id of its entry as `event_id` and the moment it was said as `at`."""
    said = entries()
    messages = openclaw.load([entry["message"] for entry in said])
    return [replace(message, event_id=entry["id"]) for entry, message in zip(said, messages, strict=True)]
