"""Short forms of engine calls that tests make often."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, tzinfo

from lossless.engine.compaction.faithful import Faithfulness, check_claims
from lossless.engine.compaction.prompts import Templates, known
from lossless.engine.compaction.summary_source import SourceEntry, write_entries
from lossless.model import StoredMessage, Text
from lossless.store.rows.codec import micros


def leaf_source(messages: Sequence[StoredMessage], zone: tzinfo, tags: Sequence[str]) -> str:
    """Return the messages as the text of a leaf's source."""
    return write_entries([_entry(each) for each in messages], zone, tags)


def _entry(stored: StoredMessage) -> SourceEntry:
    said = [part.text if isinstance(part, Text) and not part.extra else part for part in stored.message.parts]
    at = stored.at if stored.at.tzinfo else stored.at.replace(tzinfo=UTC)
    return SourceEntry(micros(at), stored.role, stored.message.name, stored.message.extra, said)


def check(summary: str, source: str, *, context: str = "") -> Faithfulness:
    """Check a whole summary against its source."""
    return check_claims(summary, source, context=context)


def is_override(templates: Templates, name: str) -> bool:
    """Return True if the template comes from an operator's file."""
    return known(name) in templates.overrides
