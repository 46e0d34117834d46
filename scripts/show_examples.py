"""Copy the files of `examples/` into the pages that show them: `make reference`.

A page names a file in a comment, `<!-- examples/NAME.py -->`, directly before a block of Python.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[1]
SHOWN: Final = re.compile(r"(<!-- (examples/\w+\.py) -->\n```python\n).*?(```\n)", re.S)


def show(page: str) -> str:
    """Return the page with each example as it is in its file."""
    return SHOWN.sub(lambda found: found[1] + (ROOT / found[2]).read_text("utf-8") + found[3], page)


def main() -> None:
    for path in ROOT.glob("docs/**/*.md"):
        page = path.read_text("utf-8")
        if (shown := show(page)) != page:
            path.write_text(shown, "utf-8")


if __name__ == "__main__":
    main()
