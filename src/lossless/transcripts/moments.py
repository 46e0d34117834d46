"""When something was said, in the ways programs write it down."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from lossless.formats.wire import Record
from lossless.model import instant

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_YEAR_10000 = 253_402_300_800_000


def moment(written: object) -> datetime | None:
    """The moment of an ISO 8601 text or of milliseconds since 1970; None if it is neither."""
    if isinstance(written, str):
        try:
            return instant(written)
        except (ValueError, OverflowError):
            return None
    if isinstance(written, (int, float)) and 0 < written < _YEAR_10000:
        return _EPOCH + timedelta(milliseconds=written)
    return None


def own_moment(message: Record) -> datetime | None:
    """When a message says itself that it was said."""
    for key in ("timestamp", "createdAt", "created_at"):
        if (at := moment(message.get(key))) is not None:
            return at
    return None
