"""Every error of lossless.

    LosslessError
      ConfigError            a setting is unknown or has a wrong value
        ConfigRefused          a change would add a mistake; nothing was written
        ConfigUnreadable       lcm.toml is not valid TOML, and the change would not fix it
        ConfigLinked           lcm.toml is a link or not a regular file
        ConfigBackupFailed     the backup before a change failed; nothing was written
        ConfigWriteFailed      lcm.toml cannot be written
      InvalidInput           an argument is wrong
        InvalidCursor          a cursor of another list or of other filters, or not a cursor
        InvalidTimeFilter      a wrong time, or a first time that is not before the last
      NotFound               no such conversation, message, summary or file (for this owner)
        SettingNotFound        no such setting
      GrantRefused           a grant is unknown, used up, expired, or does not cover the request
      FileUnavailable        the bytes of a stored file are missing
      InstallRefused         a file of a host cannot be changed; the message says which and why
      ContextMoved           the context changed while a summary was written; nothing was stored
      SummarizerError        a summarizer returned no text
        SummarizerAuth         the provider refuses the credentials, or there are none
        SummarizerBlocked      calls are paused: too many requests, or credentials refused repeatedly
        SummarizerUnavailable  not reachable, timed out or failed (see retry_after)
      StoreError             a database error
        StoreUnavailable       not reachable, or the wrong address
          StoreMissing           no such database
          StoreMoved             deleted, moved or replaced while it was open; open it again
        StoreReadOnly          not writable, or opened read-only
        StoreFull              no space left; nothing was written
        StoreBusy              locked by another process for too long
        StoreCorrupt           damaged, or not a database
        NotOurDatabase         a database of another program
        SchemaTooNew           written by a newer version of lossless

Each class has a stable `code` for programs; the message is for people and ends with what to do. A write that raises one
of these stored nothing, and the same call may be repeated. Errors can be pickled and copied.
"""

from __future__ import annotations

from typing import Any, Literal

LONGEST_PAUSE = 3600.0
"""The longest wait before a retry in seconds, whatever a provider or a stored time says."""


class LosslessError(Exception):
    """Base class of all errors of lossless: a message and a hint."""

    code = "LOSSLESS_ERROR"

    def __init__(self, message: str, *, hint: str = "") -> None:
        super().__init__(f"{message} {hint}" if hint else message)
        self.message = message
        self.hint = hint

    def __reduce__(self) -> tuple[Any, ...]:
        # The default would call the class with the text, which is not what the subclasses take.
        return _restore, (type(self), self.args, self.__dict__)


def _restore(kind: type[LosslessError], args: tuple[Any, ...], attributes: dict[str, Any]) -> LosslessError:
    """Recreate a pickled or copied error."""
    error = kind.__new__(kind, *args)
    error.__dict__.update(attributes)
    return error


class ConfigError(LosslessError):
    code = "CONFIG_INVALID"


class ConfigRefused(ConfigError):
    code = "CONFIG_VALIDATION_FAILED"


class ConfigUnreadable(ConfigError):
    code = "CONFIG_PARSE_FAILED"


class ConfigLinked(ConfigError):
    code = "CONFIG_SYMLINK_UNSUPPORTED"


class ConfigBackupFailed(ConfigError):
    code = "CONFIG_BACKUP_FAILED"


class ConfigWriteFailed(ConfigError):
    code = "CONFIG_WRITE_FAILED"


class InvalidInput(LosslessError, ValueError):
    code = "INVALID_INPUT"


class InvalidCursor(InvalidInput):
    code = "INVALID_CURSOR"


class InvalidTimeFilter(InvalidInput):
    code = "INVALID_TIME_FILTER"


class NotFound(LosslessError, LookupError):
    code = "NOT_FOUND"

    def __init__(self, what: str, which: object, *, hint: str = "") -> None:
        super().__init__(f"There is no {what} {which}.", hint=hint)
        self.what = what
        self.which = which


class SettingNotFound(NotFound):
    code = "CONFIG_KEY_NOT_FOUND"


class GrantRefused(LosslessError):
    code = "GRANT_REFUSED"


class FileUnavailable(LosslessError):
    code = "FILE_UNAVAILABLE"


class InstallRefused(LosslessError):
    code = "INSTALL_REFUSED"


class ContextMoved(LosslessError):
    code = "CONTEXT_MOVED"


class SummarizerError(LosslessError):
    code = "SUMMARIZER_ERROR"


class SummarizerAuth(SummarizerError):
    code = "SUMMARIZER_AUTH"

    def __init__(self, message: str, *, hint: str = "", missing: bool = False) -> None:
        super().__init__(message, hint=hint)
        self.missing = missing
        """True if no credentials were found, so nothing was sent."""


class SummarizerUnavailable(SummarizerError):
    code = "SUMMARIZER_UNAVAILABLE"

    def __init__(self, message: str, *, hint: str = "", retry_after: float | None = None, outage: bool = True) -> None:
        super().__init__(message, hint=hint)
        self.retry_after = _pause(retry_after)
        """Seconds to wait if the provider asked for it, at most an hour."""
        self.outage = outage
        """True if the model could not be asked; False if it was, and returned no usable answer."""


class SummarizerBlocked(SummarizerError):
    code = "SUMMARIZER_BLOCKED"

    def __init__(
        self, reason: Literal["spend", "breaker", "daily limit"], message: str, *, until: float, hint: str = ""
    ) -> None:
        super().__init__(message, hint=hint or "Compact with force to try now.")
        self.reason = reason
        self.until = until


def _pause(seconds: float | None) -> float | None:
    """Limit the wait that a provider asked for; None if it is not a duration."""
    if seconds is None or seconds != seconds:
        return None
    return min(max(0.0, seconds), LONGEST_PAUSE)


class StoreError(LosslessError):
    code = "STORE_ERROR"


class StoreUnavailable(StoreError):
    code = "STORE_UNAVAILABLE"


class StoreMissing(StoreUnavailable):
    code = "DATABASE_NOT_FOUND"


class StoreMoved(StoreUnavailable):
    code = "DATABASE_MOVED"


class StoreReadOnly(StoreError):
    code = "STORE_READ_ONLY"


class StoreFull(StoreError):
    code = "STORE_FULL"


class StoreBusy(StoreError):
    code = "STORE_BUSY"


class StoreCorrupt(StoreError):
    code = "STORE_CORRUPT"


class NotOurDatabase(StoreError):
    code = "NOT_OUR_DATABASE"


class SchemaTooNew(StoreError):
    code = "SCHEMA_TOO_NEW"
