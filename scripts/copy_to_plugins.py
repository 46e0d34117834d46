"""Copy into the plugins what they share: the client of the bridge, and the skill. Hosts install a directory, not a repository.

Usage: python scripts/copy_to_plugins.py
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
INTEGRATIONS = ROOT / "integrations"
SKILL = ROOT / "skills" / "lossless"
IN_OPENCLAW = INTEGRATIONS / "openclaw" / "skills" / "lossless"


def copies() -> Iterator[tuple[Path, Path]]:
    """Yield each file that is copied, and where to."""
    for plugin in sorted(INTEGRATIONS.glob("*/**/bridge.js")):
        yield INTEGRATIONS / "bridge.js", plugin
    for source in sorted(SKILL.rglob("*.md")):
        yield source, IN_OPENCLAW / source.relative_to(SKILL)


if __name__ == "__main__":
    for source, copy in copies():
        copy.parent.mkdir(parents=True, exist_ok=True)
        copy.write_bytes(source.read_bytes())
        print(copy)
