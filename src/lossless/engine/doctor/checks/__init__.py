"""Every check of the doctor, by family; importing this package registers them all."""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

from lossless.engine.doctor import registry
from lossless.engine.doctor.checks import context, conversations, database, files, messages, summaries
from lossless.errors import InvalidInput

__all__ = ["CHECKS", "context", "conversations", "database", "files", "messages", "select_checks", "summaries"]

CHECKS: Final = registry.registered()


def select_checks(ids: Collection[str] | None) -> tuple[str, ...]:
    """Return these check ids in the order of the registry; all for None."""
    if ids is None:
        return tuple(CHECKS)
    if isinstance(ids, str) or not isinstance(ids, list | tuple | set | frozenset):
        raise InvalidInput(f"{ids!r} is not a list of checks.", hint="Give checks=['S14', ...].")
    unknown = [each for each in ids if each not in CHECKS]
    if unknown:
        raise InvalidInput(f"There is no check {unknown[0]}.", hint=f"The checks are {', '.join(CHECKS)}.")
    return tuple(each for each in CHECKS if each in ids)
