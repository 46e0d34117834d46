"""Copy the client of the bridge into every plugin that uses it: hosts install a directory, not a repository.

Usage: python scripts/copy_bridge.py
"""

from __future__ import annotations

from pathlib import Path

INTEGRATIONS = Path(__file__).resolve().parents[1] / "integrations"


def copies() -> list[Path]:
    """Return the copies in the plugins."""
    return sorted(INTEGRATIONS.glob("*/bridge.js"))


if __name__ == "__main__":
    for copy in copies():
        copy.write_bytes((INTEGRATIONS / "bridge.js").read_bytes())
        print(copy)
