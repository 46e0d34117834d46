"""Hide passwords and keys in addresses and settings that are shown."""

from __future__ import annotations

import re
from urllib.parse import unquote

from msgspec.structs import replace

from lossless.config.paths import CONNINFO, is_server
from lossless.config.providers import Provider

_QUERY = re.compile(r"([?&][^=&]*=)[^&]*")
_SECRET_NAME = re.compile(r"(?i)password|secret|token|_key")
_NO_PORT = re.compile(r"(://[^/?\[\]:]*:)(?!\d*(?:[/?,]|\Z))[^?]*")
_CONNINFO_SECRET = re.compile(
    r"(?is)(\w*(?:password|secret|_key|token)\s*=\s*)(?:'(?:\\.|[^'\\])*'(?=\s|\Z)|.*?(?=\s+[a-z_]+\s*=|\Z))"
)
_SECRET = re.compile(
    r"(?i)((?:password|passwd|secret|token|api[_-]?key|(?<=[?&])(?:key|sig|signature|auth))\s*=\s*"
    r"|--?(?:password|token|secret|api[_-]?key|key)\s+|\bbearer\s+)(?:'(?:\\.|[^'\\])*'?|[^&\s]+)"
)


def redact_url(url: str) -> str:
    """Replace the passwords in an address by `***`; in doubt, too much is hidden."""
    if CONNINFO.match(url):
        return _CONNINFO_SECRET.sub(r"\1***", url)
    scheme, _, rest = url.partition("://")
    credentials, at, host = rest.rpartition("@")
    user, colon, _ = credentials.partition(":")
    if colon:
        url = f"{scheme}://{user}:***@{host}"
    elif not at and scheme.startswith("postgres"):  # without a host, what should be a port may be a password
        url = _NO_PORT.sub(r"\1***", url)
    elif at and scheme.startswith("http"):  # the user part of such an address is a token
        url = f"{scheme}://***@{host}"
    return _SECRET.sub(r"\1***", _QUERY.sub(_without_secret, url) if is_server(url) else url)


def _without_secret(pair: re.Match[str]) -> str:
    """Return a parameter of an address without a secret; its name may be encoded."""
    return f"{pair[1]}***" if _SECRET_NAME.search(unquote(pair[1])) else pair[0]


def hide_secrets(value: object) -> object:
    """Return a value as it may be shown, without the passwords in it."""
    match value:
        case str():
            return redact_url(value)
        case list() | tuple():
            return type(value)(map(hide_secrets, value))
        case dict():
            # A header may contain a key.
            return {
                name: dict.fromkeys(each, "***") if _is_headers(name, each) else hide_secrets(each)
                for name, each in value.items()
            }
        case Provider():
            command = None if value.api_key_cmd is None else redact_url(value.api_key_cmd)
            return replace(value, headers=dict.fromkeys(value.headers, "***"), api_key_cmd=command)
        case _:
            return value


def _is_headers(name: object, value: object) -> bool:
    return name == "headers" and isinstance(value, dict)
