"""Record what each host delivered and which of its hooks fired, for `lcm hosts` and `lcm status`.

The records are small files in the user's state directory, one per host. They do not depend on a database, because a
database that cannot be opened is one of the failures they report.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import msgspec
import platformdirs
from msgspec import Struct, structs

from lossless.config.paths import make_directory, open_private
from lossless.errors import LosslessError

_MOST_TEXT, _LONGEST_PATH = 500, 4096
_WAIT, _PAUSE = 1.0, 0.005
"""Seconds to wait for another process that records, and between two looks."""
_NAME = re.compile(r"[a-z0-9][a-z0-9_-]{0,40}")


class HostActivity(Struct, frozen=True, kw_only=True):
    """The newest activity of one host on this machine. Times are seconds since 1970, 0 for never."""

    host: str
    version: str = ""
    database: str = ""
    first_delivery: float = 0
    last_delivery: float = 0
    delivered: int = 0
    """Messages stored from this host, in all."""
    last_event: str = ""
    last_event_at: float = 0
    last_seconds: float = 0
    slowest_seconds: float = 0
    last_error: str = ""
    last_error_at: float = 0
    last_error_event: str = ""
    failures: int = 0
    """Failures since the last delivery, and since the last time that the event which failed did not."""


def directory() -> Path:
    """Return the directory of the records. It may be missing."""
    return platformdirs.user_state_path("lossless", appauthor=False) / "hosts"


def record(
    host: str,
    event: str,
    *,
    seconds: float = 0.0,
    delivered: int = 0,
    error: str = "",
    database: str = "",
    version: str = "",
    clock: Callable[[], float] = time.time,
) -> None:
    """Record one event of a host. It never raises: a record must not break a host's turn."""
    if not _NAME.fullmatch(host):
        return
    with suppress(OSError):
        path = directory() / f"{host}.json"
        make_directory(path.parent)
        with _locked(path.with_suffix(".lock")):
            old = _read(path) or HostActivity(host=host)
            texts = [_bounded(text) for text in (event, error, version)]
            changed = _changed(old, seconds, delivered, clock(), _bounded(database, _LONGEST_PATH), *texts)
            _write(path, msgspec.json.encode(changed))


def error_text(error: BaseException) -> str:
    """Return an error in the words of a record or log: other errors than ours and the system's by kind and place alone.

    Their messages may quote a conversation.
    """
    if isinstance(error, LosslessError):
        return str(error)
    if isinstance(error, OSError):
        return f"{type(error).__name__}: {error}"
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    where = "" if trace is None else f" in {Path(trace.tb_frame.f_code.co_filename).name}:{trace.tb_lineno}"
    return f"{type(error).__name__}{where}"


def read_all() -> list[HostActivity]:
    """Return the newest activity of every host that was recorded, by name."""
    try:
        paths = sorted(directory().glob("*.json"))
    except OSError:
        return []
    return [found for path in paths if (found := _read(path)) is not None]


def _write(path: Path, data: bytes) -> None:
    draft = path.with_suffix(f".{os.getpid()}.draft")
    try:
        with open(draft, "wb", opener=open_private) as file:
            file.write(data)
        draft.replace(path)
    except OSError:
        with suppress(OSError):
            draft.unlink()
        # A full disk is one of the failures to report, and there is room where the last record is.
        with open(path, "r+b", buffering=0) as file:
            file.write(data)
            file.truncate()


def _bounded(text: str, most: int = _MOST_TEXT) -> str:
    """Return the beginning of a text of a host, which may contain anything, as it can be written."""
    return text[:most].encode("utf-8", "replace").decode()


def _changed(
    old: HostActivity, seconds: float, delivered: int, now: float, database: str, event: str, error: str, version: str
) -> HostActivity:
    is_mended = delivered > 0 or event == old.last_error_event
    return structs.replace(
        old,
        version=version or old.version,
        database=database or old.database,
        first_delivery=old.first_delivery or (now if delivered else 0),
        last_delivery=now if delivered else old.last_delivery,
        delivered=old.delivered + delivered,
        last_event=event,
        last_event_at=now,
        last_seconds=seconds,
        slowest_seconds=max(seconds, old.slowest_seconds),
        last_error=error or old.last_error,
        last_error_at=now if error else old.last_error_at,
        last_error_event=event if error else old.last_error_event,
        failures=old.failures + 1 if error else 0 if is_mended else old.failures,
    )


def _read(path: Path) -> HostActivity | None:
    """Return what a file records; None if it is missing or damaged, which the next record overwrites."""
    try:
        return msgspec.json.decode(path.read_bytes(), type=HostActivity)
    except (OSError, msgspec.MsgspecError):
        return None


class _locked:
    """Hold an exclusive lock of a file, where the platform has such locks."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def __enter__(self) -> None:
        self._descriptor = os.open(self._path, os.O_RDWR | os.O_CREAT, 0o600)
        with suppress(ImportError):
            import fcntl

            until = time.monotonic() + _WAIT
            while True:
                try:
                    fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    return
                except BlockingIOError:
                    if time.monotonic() > until:  # its holder was stopped; no host waits for that
                        os.close(self._descriptor)
                        raise
                time.sleep(_PAUSE)

    def __exit__(self, *_: object) -> None:
        os.close(self._descriptor)
