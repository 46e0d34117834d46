"""Find the configuration file, the data directory and the default database; create private files."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path

CONNINFO = re.compile(
    r"\s*(?:application_name|client_encoding|connect_timeout|dbname|fallback_application_name|gssencmode|host|hostaddr"
    r"|keepalives\w*|krbsrvname|load_balance_hosts|oauth_\w+|options|passfile|password|port|require\w*|scram_\w+|service"
    r"|servicefile|ssl\w*|target_session_attrs|tcp_user_timeout|user)\s*="
)
"""Matches the start of a PostgreSQL address of the form `host=... dbname=...`."""


def config_path(environment: Mapping[str, str] | None = None) -> Path:
    """Return the `lcm.toml` to read: `LCM_CONFIG`, else the one in the platform's configuration directory."""
    named = (os.environ if environment is None else environment).get("LCM_CONFIG", "").strip()
    if named:
        return Path(os.path.expanduser(named))
    import platformdirs

    return platformdirs.user_config_path("lossless", appauthor=False) / "lcm.toml"


def data_dir() -> Path:
    """Return the data directory of lossless on this platform."""
    import platformdirs

    return platformdirs.user_data_path("lossless", appauthor=False)


def default_database() -> Path:
    """Return the database that is used when none is configured."""
    return data_dir() / "lcm.db"


def make_directory(path: Path) -> None:
    """Create a directory and its missing parents with mode 0700 at any umask; existing ones stay as they are."""
    missing: list[Path] = []
    for each in (path, *path.parents):
        if each.is_dir():
            break
        missing.append(each)
    for each in reversed(missing):
        try:
            each.mkdir(mode=0o700)
        except FileExistsError:
            if not each.is_dir():
                raise
        else:
            each.chmod(0o700)


def open_private(path: str, flags: int) -> int:
    """Open a file for `open(..., opener=open_private)`: a new one gets mode 0600."""
    return os.open(path, flags, 0o600)


def is_file(database: str) -> bool:
    """Return whether a database is a file: neither a server nor memory."""
    return database != ":memory:" and not is_server(database)


def is_server(database: str) -> bool:
    """Return whether a database is on a PostgreSQL server: a URL, or `host=... dbname=...`."""
    return database.startswith(("postgres://", "postgresql://")) or CONNINFO.match(database) is not None
