"""What can go wrong, and the way out.

    LosslessError
      ConfigError            a setting is unknown, or its value is not one
        ConfigRefused          a change would make it so; nothing was written
        ConfigUnreadable       lcm.toml is no TOML, and the change would not mend it
        ConfigLinked           lcm.toml is a link, or no file at all
        ConfigBackupFailed     what is there cannot be copied first; nothing was written
        ConfigWriteFailed      lcm.toml cannot be written
      InvalidInput           an argument is not what the call takes
        InvalidCursor          a cursor of another list, of other filters, or none at all
        InvalidTimeFilter      a time is none, or the first is not before the last
      NotFound               no such conversation, message, summary or file (for this owner)
        SettingNotFound        no such setting
      GrantRefused           a grant is unknown, spent, over, or does not reach that far
      FileUnavailable        a payload's bytes are not where they were put
      ContextMoved           the context changed while a summary was made; nothing was written
      SummarizerError        a summariser gave no text
        SummarizerAuth         the provider refuses the credentials, or there are none
        SummarizerBlocked      a guard holds it back: too many requests, or credentials refused again and again
        SummarizerUnavailable  it could not be reached, timed out, or failed (retry_after tells when to ask again)
      StoreError             the database
        StoreUnavailable       not reachable, or the wrong address
          StoreMissing           there is no such database
        StoreReadOnly          it cannot be written, or was opened for reading
        StoreFull              no room left; nothing was written
        StoreBusy              another process held it for too long
        StoreCorrupt           it is damaged, or not a database
        NotOurDatabase         another program's
        SchemaTooNew           written by a newer lossless

Each class has a stable `code` for programs; the message is for people and ends with what to do. A
write that raises any of these stored nothing, and the same call may be tried again.
"""

from __future__ import annotations

LONGEST_PAUSE = 3600.0
"""The most seconds to wait before asking again, whatever a provider or a stored time says."""


class LosslessError(Exception):
    """Anything lossless refuses to do, with the reason and a hint."""

    code = "LOSSLESS_ERROR"

    def __init__(self, message: str, *, hint: str = "") -> None:
        super().__init__(f"{message} {hint}" if hint else message)
        self.message = message
        self.hint = hint


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


class ContextMoved(LosslessError):
    code = "CONTEXT_MOVED"


class SummarizerError(LosslessError):
    code = "SUMMARIZER_ERROR"


class SummarizerAuth(SummarizerError):
    code = "SUMMARIZER_AUTH"

    def __init__(self, message: str, *, hint: str = "", missing: bool = False) -> None:
        super().__init__(message, hint=hint)
        self.missing = missing
        """No credentials were found, so nothing was sent."""


class SummarizerUnavailable(SummarizerError):
    code = "SUMMARIZER_UNAVAILABLE"

    def __init__(self, message: str, *, hint: str = "", retry_after: float | None = None, outage: bool = True) -> None:
        super().__init__(message, hint=hint)
        self.retry_after = _pause(retry_after)
        """Seconds to wait, if the provider asked for it: an hour at most."""
        self.outage = outage
        """The model could not be asked. False: it was, and this request got no usable answer."""


class SummarizerBlocked(SummarizerError):
    code = "SUMMARIZER_BLOCKED"

    def __init__(self, reason: str, message: str, *, until: float, hint: str = "") -> None:
        super().__init__(message, hint=hint or "Compact with force to try at once.")
        self.reason = reason
        """`spend`, `breaker` or `daily limit`."""
        self.until = until


def _pause(seconds: float | None) -> float | None:
    """Return a provider's wish in bounds; None for what is no length of time."""
    if seconds is None or seconds != seconds:
        return None
    return min(max(0.0, seconds), LONGEST_PAUSE)


class StoreError(LosslessError):
    code = "STORE_ERROR"


class StoreUnavailable(StoreError):
    code = "STORE_UNAVAILABLE"


class StoreMissing(StoreUnavailable):
    code = "DATABASE_NOT_FOUND"


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
