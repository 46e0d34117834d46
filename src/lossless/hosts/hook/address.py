"""Find the background process of a hook: one for each installation, user and set of settings. Loads no other module."""

from __future__ import annotations

import os
import sys
import zlib
from collections.abc import Mapping
from contextlib import suppress

from lossless.version import __version__

PLACES = ("HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_STATE_HOME")
"""Besides those of lossless, the variables that decide which database and records are used."""
_RELATIVE = ("LCM_DATABASE_PATH", "LCM_DB_PATH", "LCM_CONFIG", "LCM_LARGE_FILES_DIR", "LCM_PROMPT_DIR")


def identity(environment: Mapping[str, str] = os.environ) -> str:
    """Return one line that differs for every program, user and set of settings."""
    names = sorted(name for name in environment if name.startswith("LCM_") or name in PLACES)
    facts = [__version__, sys.prefix, *(f"{name}={environment[name]}" for name in names)]
    if any(not os.path.isabs(environment.get(name, "/")) for name in _RELATIVE):
        facts.append(os.getcwd())
    return ascii(facts)


def directory(environment: Mapping[str, str] = os.environ) -> str:
    """Return the directory of sockets, created if it is missing; only its owner may enter."""
    state = environment.get("XDG_STATE_HOME") or os.path.join(os.path.expanduser("~"), ".local", "state")
    path = os.path.join(state, "lossless", "hooks")
    for each in (state, os.path.dirname(path), path):
        with suppress(FileExistsError):
            os.makedirs(each, mode=0o700)
    about = os.stat(path)
    if about.st_uid != os.getuid():
        raise PermissionError(13, "It belongs to another user", path)
    if about.st_mode & 0o077:
        os.chmod(path, 0o700)
    return path


def name(identity: str) -> str:
    """Return the name of the socket for an identity, without its suffix."""
    data = identity.encode()
    return f"{zlib.crc32(data):08x}{zlib.adler32(data):08x}"


class inside:
    """Work inside a directory for a moment: the path of a socket may have 100 characters only."""

    def __init__(self, path: str) -> None:
        self._path = path

    def __enter__(self) -> None:
        self._before = os.open(".", os.O_RDONLY)
        os.chdir(self._path)

    def __exit__(self, *_: object) -> None:
        os.fchdir(self._before)
        os.close(self._before)
