"""Find the files that come with lossless for other programs: plugins in JavaScript and the skill."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from lossless.errors import LosslessError

Bundle = Literal["openclaw", "pi", "opencode", "skill"]

_PACKAGE = Path(__file__).resolve().parents[1]
_REPOSITORY = _PACKAGE.parents[1]
_PLACES: dict[Bundle, str] = {
    "openclaw": "integrations/openclaw",
    "pi": "integrations/pi",
    "opencode": "integrations/opencode",
    "skill": "skills/lossless",
}


def path(name: Bundle) -> Path:
    """Return the directory of a bundle: inside the package once installed, in the repository of a clone."""
    places = [_PACKAGE / "bundled" / _PLACES[name], _REPOSITORY / _PLACES[name]]
    for place in places:
        if place.is_dir():
            return place
    raise LosslessError(f"The files for {name} are missing from this installation.", hint="Install lossless again.")
