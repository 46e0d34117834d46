"""Stand-ins for the files that come with lossless, so that tests of `lcm install` do not depend on their contents."""

from __future__ import annotations

from pathlib import Path

import pytest

from lossless.hosts import bundled

FILES = {
    "integrations/openclaw/openclaw.plugin.json": b'{"id": "lossless"}\n',
    "integrations/openclaw/index.js": b"export default {};\n",
    "integrations/pi/index.js": b"export default function () {}\n",
    "integrations/pi/bridge.js": b"export const bridge = 1;\n",
    "integrations/opencode/lossless.js": b"export const Lossless = async () => ({});\n",
    "skills/lossless/SKILL.md": b"---\nname: lossless\ndescription: Memory.\n---\n\nRecall.\n",
    "skills/lossless/references/recall.md": b"# Recall\n",
}


def stand_in(directory: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Write the stand-ins below a directory, and let `bundled` find them there."""
    for name, content in FILES.items():
        path = directory / "bundled" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    monkeypatch.setattr(bundled, "_PACKAGE", directory)
    return directory / "bundled"
