"""The versions of each host that were tested, and what to say of a newer one."""

from __future__ import annotations

import re
from typing import Final

TESTED: Final = {"openclaw": "2026.9.6", "pi": "0.87.1", "opencode": "1.18.33"}
"""The newest version of each host that the tests of this release run."""
_NUMBERS = re.compile(r"v?(\d{1,9})\.(\d{1,9})(?:\.(\d{1,9}))?")


def notes(host: str, version: str) -> list[str]:
    """Return what people should know about a version of a host. Its patches are not worth a word."""
    tested = TESTED.get(host, "")
    if not tested or _series(version) <= _series(tested):
        return []
    return [
        f"{host} {version[:40]} is newer than {tested}, the newest version that was tested. "
        "If messages are missing in `lcm status`, update lossless."
    ]


def _series(version: str) -> tuple[int, int]:
    """Return the first two numbers of a version, 0 where it has none."""
    found = _NUMBERS.match(version)
    return (int(found[1]), int(found[2])) if found else (0, 0)
