"""Choose which real programs the tests start: LCM_TEST_HOSTS names them, by comma, or is `all`.

Without it none is started, because each is a large download. `make hosts` starts all of them.
"""

from __future__ import annotations

import os
from pathlib import Path


def chosen(path: Path) -> bool:
    """Return whether the program that a test file is about was asked for: test_claude_code.py is about claude_code."""
    names = [name.strip().replace("-", "_") for name in os.environ.get("LCM_TEST_HOSTS", "").split(",")]
    return "all" in names or path.stem.removeprefix("test_") in names
