"""Find the key of a provider, which is sent to the address of this provider only.

A key is looked up for each request, so that a renewed one is used from the next request on. It is never logged, and
no error contains it.
"""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import time
from collections.abc import Mapping
from pathlib import Path, PurePath
from typing import Any

from msgspec import Struct

from lossless.config.providers import KNOWN, Provider
from lossless.errors import SummarizerAuth

_SECONDS, _FRESH = 10.0, 300.0
"""Seconds that a program may take to print a key, and for which that key is cached."""
_MOST_BYTES = 4_000_000
_KEYS: dict[str, tuple[str, float]] = {}
_FOUND_BY_SDK = (
    "ANTHROPIC_AUTH_TOKEN",
    "ANTHROPIC_PROFILE",
    "ANTHROPIC_IDENTITY_TOKEN",
    "ANTHROPIC_IDENTITY_TOKEN_FILE",
    "ANTHROPIC_FEDERATION_RULE_ID",
)


class Key(Struct, frozen=True):
    """A key, if one is needed, and the only address it is sent to (empty: chosen by the SDK that finds it)."""

    address: str
    value: str = ""
    is_token: bool = False
    """True if it is sent as `Authorization: Bearer`, also where keys have their own header."""
    headers: Mapping[str, str] = {}
    by_sdk: bool = False
    """True if the SDK of the provider finds it by its own variables."""

    def __repr__(self) -> str:
        return f"Key({self.address!r})"


class Access(Struct, frozen=True):
    """The access to a provider: its name, its configured address and its table."""

    provider: str
    base_url: str | None = None
    table: Provider | None = None

    @property
    def api(self) -> str:
        """The protocol, `anthropic` or `openai`."""
        known = KNOWN.get(self.provider)
        return (self.table and self.table.api) or (known and known.api) or "openai"

    @property
    def address(self) -> str:
        """The address of requests; empty if it is not known."""
        return self._given or self._by_variable or (self._known.base_url if self._known else None) or ""

    @property
    def _given(self) -> str | None:
        named = (self.table.base_url if self.table else None) or self.base_url
        if named is None and self.table and self.table.api_key_openclaw:
            named = _text(_openclaw_models(self.table.api_key_openclaw, self.provider).get("baseUrl"))
        return named

    @property
    def _by_variable(self) -> str | None:
        """The address in the variable of a provider's SDK, used only with the key in its other variable."""
        if self.table and self.table.key_source:
            return None
        variables = {"openai": "OPENAI_BASE_URL", "anthropic": "ANTHROPIC_BASE_URL"}
        return os.environ.get(variables.get(self.provider, ""), "").strip() or None

    @property
    def _known(self) -> Provider | None:
        return KNOWN.get(self.provider)

    @property
    def variable(self) -> str:
        """The variable that contains the key, if there is one."""
        if self.table and self.table.key_source:
            return self.table.api_key_env or ""
        return (self._known.api_key_env if self._known else None) or ""

    @property
    def source(self) -> str:
        """The source of the key in words, never the key."""
        if self.table and self.table.api_key_cmd:
            return f"the output of `{PurePath(shlex.split(self.table.api_key_cmd)[0]).name}` (api_key_cmd)"
        if self.table and self.table.api_key_openclaw:
            return f"{self.table.api_key_openclaw} (api_key_openclaw)"
        if not self.variable:
            return "none is sent"
        if os.environ.get(self.variable, "").strip():
            return f"the variable {self.variable}"
        if self._found_by_sdk:
            return "found by the SDK of Anthropic"
        return f"the variable {self.variable}, which is not set" + ("" if self._needs_key else ": none is sent")

    @property
    def hint(self) -> str:
        """The setting to check when credentials are missing or refused."""
        if self.table and self.table.key_source:
            return f"Check {self.table.api_key_env or self.table.key_source} of [providers.{self.provider}]."
        if self.variable:
            return f"Check {self.variable}, or name another source under [providers.{self.provider}] in lcm.toml."
        return f"Name its key under [providers.{self.provider}] in lcm.toml: api_key_env or api_key_cmd."

    @property
    def missing(self) -> str:
        """The reason for a missing key, as far as it shows without running or reading anything; else empty."""
        if (
            self.variable
            and self._needs_key
            and not os.environ.get(self.variable, "").strip()
            and not self._found_by_sdk
        ):
            return f"The variable {self.variable} is not set, so there is no key for {self.provider}."
        return ""

    @property
    def _needs_key(self) -> bool:
        """True unless it may be a self-hosted server without a key."""
        return bool(self.table and self.table.key_source) or self._given is None or self.provider == "anthropic"

    @property
    def _found_by_sdk(self) -> bool:
        """True if the SDK of Anthropic has its own credentials: a token, a profile or an identity."""
        if self.provider != "anthropic" or (self.table and self.table.key_source):
            return False
        folder = Path(os.environ.get("ANTHROPIC_CONFIG_DIR") or "~/.config/anthropic").expanduser()
        return any(os.environ.get(name) for name in _FOUND_BY_SDK) or (folder / "configs").is_dir()

    def key(self) -> Key:
        """Return the key and its address, or raise `SummarizerAuth` if there is none; nothing is sent then."""
        headers, table = dict(self.table.headers) if self.table else {}, self.table
        if table and table.api_key_cmd:
            return Key(self.address, _run_key_command(self.provider, table.api_key_cmd), headers=headers)
        if table and table.api_key_openclaw:
            value, is_token = _openclaw(self.provider, table.api_key_openclaw)
            return Key(address=self.address, value=value, is_token=is_token, headers=headers)
        value = os.environ.get(self.variable, "").strip() if self.variable else ""
        if self.missing:
            raise SummarizerAuth(self.missing, hint=self.hint, missing=True)
        if not value and self._found_by_sdk:
            return Key(self._given or "", headers=headers, by_sdk=True)
        return Key(self.address, value, headers=headers)

    def forget(self) -> None:
        """Forget a refused key, so that its program is run again next time."""
        if self.table and self.table.api_key_cmd:
            _KEYS.pop(self.table.api_key_cmd, None)


def _run_key_command(provider: str, command: str) -> str:
    """Return the key that a program prints, without a shell; its output and arguments are never shown."""
    known = _KEYS.get(command)
    if known and 0 <= time.monotonic() - known[1] < _FRESH:
        return known[0]
    command_name = f"The api_key_cmd of [providers.{provider}]"
    try:
        arguments = shlex.split(command)
        done = subprocess.run(  # noqa: S603 - the operator's own program, without a shell
            arguments,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            timeout=_SECONDS,
            start_new_session=True,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise _no_key(provider, f"{command_name} did not end within {_SECONDS:g} s.") from None
    except (OSError, ValueError, IndexError):
        raise _no_key(provider, f"{command_name} cannot be run.") from None
    if done.returncode:
        raise _no_key(provider, f"{command_name} ended with status {done.returncode}.")
    value = _clean_key(done.stdout.decode(errors="replace"))
    if not value:
        raise _no_key(provider, f"{command_name} printed no key.")
    _KEYS[command] = (value, time.monotonic())
    return value


def _clean_key(text: object) -> str:
    """Return a key on one line that fits a header; empty for anything else."""
    value = text.strip() if isinstance(text, str) else ""
    return value if value.isascii() and value.isprintable() and " " not in value else ""


def _openclaw(provider: str, path: str) -> tuple[str, bool]:
    """Return the key of a provider in a file of OpenClaw, and whether it is a token."""
    found = _read(provider, path)
    if "profiles" not in found:
        value = _clean_key(_openclaw_models(path, provider).get("apiKey"))
        if not value:
            raise _no_key(provider, f"{path} contains no apiKey of {provider}.")
        return value, False
    for profile in _profiles(found, provider):
        expires = profile.get("expires")
        if isinstance(expires, int | float) and expires <= time.time() * 1000:
            continue
        for kind, name in (("api_key", "key"), ("token", "token")):
            if profile.get("type") == kind and (value := _clean_key(profile.get(name))):
                return value, kind == "token"
    raise _no_key(provider, f"{path} contains no key or valid token of {provider}; OAuth profiles are not used.")


def _profiles(found: Mapping[str, Any], provider: str) -> list[Mapping[str, Any]]:
    """Return the profiles of a provider, in the order that the file prefers."""
    named = found["profiles"] if isinstance(found["profiles"], Mapping) else {}
    order = found.get("order")
    first = order.get(provider, []) if isinstance(order, Mapping) else []
    ids = [*(first if isinstance(first, list) else []), *named]
    profiles = [named[each] for each in dict.fromkeys(map(str, ids)) if isinstance(named.get(each), Mapping)]
    return [each for each in profiles if each.get("provider") == provider]


def _openclaw_models(path: str, provider: str) -> Mapping[str, Any]:
    """Return the entry of a provider in a `models.json` of OpenClaw."""
    found = _read(provider, path).get("providers")
    entry = found.get(provider) if isinstance(found, Mapping) else None
    return entry if isinstance(entry, Mapping) else {}


def _read(provider: str, path: str) -> Mapping[str, Any]:
    try:
        with open(os.path.expanduser(path), "rb") as file:
            found = json.loads(file.read(_MOST_BYTES))
    except (OSError, ValueError, RecursionError):
        raise _no_key(provider, f"{path} cannot be read as a file of OpenClaw.") from None
    if not isinstance(found, Mapping):
        raise _no_key(provider, f"{path} is not a file of OpenClaw.")
    return found


def _text(value: object) -> str | None:
    return value if isinstance(value, str) and value.startswith(("http://", "https://")) else None


def _no_key(provider: str, why: str) -> SummarizerAuth:
    return SummarizerAuth(
        f"There is no key for {provider}: {why}", hint=f"Check [providers.{provider}] in lcm.toml.", missing=True
    )
