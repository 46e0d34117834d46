"""Build the sdist and the wheel, install the wheel into an empty environment, and try it there.

    python scripts/try_package.py                  # with pip
    python scripts/try_package.py --pipx --uv      # also with `pipx install` and `uv tool install`

The wheel is built from the sdist, so a file that is missing in the sdist is missing everywhere. Nothing is read from the
source tree once it is installed. Each installation also connects every agent on an empty home, runs the commands that it
wrote, and disconnects them. Needs an index of packages to install from.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
import venv
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from try_hosts import try_hosts

ROOT: Final = Path(__file__).parents[1]
PIPX: Final = {"PIPX_HOME": "pipx", "PIPX_BIN_DIR": "pipx-bin", "PIPX_MAN_DIR": "pipx-man"}
NAMES: Final = """
import lossless
for name in lossless.__all__:
    getattr(lossless, name)
print(len(lossless.__all__), "public names imported")
"""


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    options.add_argument("--pipx", action="store_true", help="also try `pipx install`")
    options.add_argument("--uv", action="store_true", help="also try `uv tool install`")
    given = options.parse_args()
    started = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="lcm-package-") as name:
        place = Path(name)
        tools = environment(place / "tools", "build", *["pipx"] * given.pipx, *["uv"] * given.uv)
        run(tools / "python", "-m", "build", "--outdir", place / "dist", ROOT)
        (sdist,) = (place / "dist").glob("*.tar.gz")
        (wheel,) = (place / "dist").glob("*.whl")
        print(f"built {sdist.name} ({sdist.stat().st_size:,} bytes) and {wheel.name} ({wheel.stat().st_size:,} bytes)")
        installed = environment(place / "empty", "-c", ROOT / "constraints.txt", wheel)
        attempt(installed / "lcm", place / "empty", place / "with-pip")
        print(run(installed / "python", "-I", "-c", NAMES, cwd=place))
        if given.pipx:
            homes = {name: f"{place}/{folder}" for name, folder in PIPX.items()}
            run(tools / "pipx", "install", wheel, variables=homes)
            attempt(place / "pipx-bin" / "lcm", place / "pipx", place / "with-pipx")
        if given.uv:
            homes = {"UV_TOOL_DIR": f"{place}/uv", "UV_TOOL_BIN_DIR": f"{place}/uv-bin"}
            run(tools / "uv", "tool", "install", "--python", sys.executable, wheel, variables=homes)
            attempt(place / "uv-bin" / "lcm", place / "uv", place / "with-uv")
    print(f"the package works ({time.monotonic() - started:.0f} s)")


def environment(directory: Path, *packages: str | Path) -> Path:
    """Create a virtual environment with these packages; return the directory of its programs."""
    venv.create(directory, with_pip=True)
    programs = directory / ("Scripts" if os.name == "nt" else "bin")
    run(programs / "python", "-m", "pip", "install", "-q", "--disable-pip-version-check", *packages)
    return programs


def attempt(lcm: Path, inside: Path, place: Path) -> None:
    """Run the command as a new user would; its interpreter is `inside` a directory."""
    place.mkdir()
    print(run(lcm, "--version", cwd=place), f"from {lcm.parent.parent.name}/{lcm.parent.name}")
    variables = {"XDG_DATA_HOME": f"{place}/data", "XDG_CONFIG_HOME": f"{place}/config"}
    demo = run(lcm, "demo", cwd=place, variables=variables)
    if "tokens" not in demo:
        sys.exit(f"lcm demo printed something else:\n{demo}")
    try_hosts(lcm, inside, place)


def run(*command: str | Path, cwd: Path = ROOT, variables: Mapping[str, str] | None = None) -> str:
    """Run a command; return its output, or end with what went wrong."""
    environment = {key: value for key, value in os.environ.items() if key not in ("PYTHONPATH", "VIRTUAL_ENV")}
    environment |= variables or {}
    done = subprocess.run(
        list(map(str, command)), cwd=cwd, env=environment, capture_output=True, text=True, check=False
    )
    if done.returncode:
        sys.exit(f"{' '.join(map(str, command))} failed ({done.returncode}):\n{done.stdout}{done.stderr}")
    return done.stdout.strip()


if __name__ == "__main__":
    main()
