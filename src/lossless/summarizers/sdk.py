"""Shared code for the official SDKs: HTTP client, errors, replies.

Imported only together with an SDK, because it needs their HTTP library.
"""

from __future__ import annotations

import re
import socket
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from email.utils import parsedate_to_datetime
from functools import partial
from types import ModuleType
from typing import Any

import httpx2

from lossless.errors import SummarizerAuth, SummarizerError, SummarizerUnavailable
from lossless.summarizers.base import REFUSED, UNFIT, Reply, check_cancelled, on_cancel
from lossless.summarizers.credentials import Access, Key
from lossless.summarizers.output_limits import Completion
from lossless.summarizers.reply_text import summary_of, well_formed

_PLAIN = re.compile(r"accept.*|connection|content-(?:length|type)|host|user-agent|anthropic-version|x-stainless-.*")
"""Headers without secrets. SDKs add others from variables of their own provider."""


def make_http_client(sdk: ModuleType, seconds: float, access: Access, key: Key) -> httpx2.Client:
    """Return an HTTP client that sends a key to one address only and limits the time of the whole response.

    A timeout of the HTTP library applies to one read, and a busy provider sends blank lines that restart it. Redirects
    are not followed: other servers would receive most of the headers.
    """
    until = time.monotonic() + seconds
    own = access.provider in ("openai", "anthropic") and not (access.table and access.table.key_source)

    def set_headers(request: httpx2.Request) -> None:
        if not own or not (key.value or key.by_sdk):
            for name in [name for name in request.headers if not _PLAIN.fullmatch(name)]:
                del request.headers[name]
            request.headers.update(_key_headers(access, key))
        request.headers.update(key.headers)
        request.extensions["trace"] = _note_connection

    def limit_time(response: httpx2.Response) -> None:
        assert isinstance(response.stream, httpx2.SyncByteStream)
        response.stream = _TimedStream(response.stream, lambda: time.monotonic() > until)

    hooks = {"request": [set_headers], "response": [limit_time]}
    client: httpx2.Client = sdk.DefaultHttpxClient(timeout=seconds, follow_redirects=False, event_hooks=hooks)
    return client


def _note_connection(event: str, facts: Mapping[str, Any]) -> None:
    """Remember the newest socket of a request, so that a cancelled one ends at once."""
    info = getattr(facts.get("return_value"), "get_extra_info", None)
    if info is not None and (opened := info("socket")) is not None:
        on_cancel(partial(_hang_up, opened))


def _hang_up(connection: socket.socket) -> None:
    with suppress(OSError):  # it is closed already
        connection.shutdown(socket.SHUT_RDWR)


def _key_headers(access: Access, key: Key) -> dict[str, str]:
    if not key.value:
        return {}
    if access.api == "anthropic" and not key.is_token:
        return {"x-api-key": key.value}
    beta = {"anthropic-beta": "oauth-2025-04-20"} if access.api == "anthropic" else {}  # or a token is refused
    return {"authorization": f"Bearer {key.value}", **beta}


class _TimedStream(httpx2.SyncByteStream):
    """A response body that raises a timeout once it is late."""

    def __init__(self, stream: httpx2.SyncByteStream, late: Callable[[], bool]) -> None:
        self._stream = stream
        self._late = late

    def __iter__(self) -> Iterator[bytes]:
        for chunk in self._stream:
            if self._late():
                raise httpx2.ReadTimeout("the body took too long")
            yield chunk

    def close(self) -> None:
        self._stream.close()


@contextmanager
def translate_errors(name: str, sdk: ModuleType, base: type[Exception], access: Access) -> Iterator[None]:
    """Translate the errors of an SDK into ours, by their types and statuses only, never by their texts."""
    try:
        with _translated(name, sdk, base, access):
            yield
    except SummarizerError:
        check_cancelled()
        raise


@contextmanager
def _translated(name: str, sdk: ModuleType, base: type[Exception], access: Access) -> Iterator[None]:
    try:
        yield
    except sdk.APIStatusError as error:
        if error.status_code in REFUSED:
            raise credentials_refused(name, access, f"HTTP {error.status_code}") from None
        raise _failed(name, error) from error
    except sdk.APITimeoutError as error:
        raise SummarizerUnavailable(f"{name} did not answer in time.") from error
    except sdk.APIConnectionError as error:
        raise SummarizerUnavailable(f"{name} could not be reached, or the connection was lost.") from error
    except sdk.APIError as error:
        raise SummarizerUnavailable(f"{name} returned no usable text.") from error
    except base as error:
        raise credentials_refused(name, access, "no usable ones were found", missing=True) from error
    except ValueError as error:
        raise SummarizerUnavailable(f"{name} returned an answer that cannot be parsed.") from error


def credentials_refused(name: str, access: Access, why: str, *, missing: bool = False) -> SummarizerAuth:
    """Return the error for refused or missing credentials, and forget a cached key."""
    access.forget()
    return SummarizerAuth(f"The credentials for {name} are refused ({why}).", hint=access.hint, missing=missing)


def read_reply(name: str, access: Access, reply: Any, stop: Callable[[Any], str | None]) -> Completion:
    """Return the completion in a reply. Some gateways answer 200 with a web page or an error: those raise."""
    if not hasattr(reply, "model_dump"):
        raise SummarizerUnavailable(f"{name} did not answer with a completion.", hint="Check its address.")
    if error := getattr(reply, "error", None):
        code = error.get("code") if isinstance(error, Mapping) else None
        raise credentials_refused(name, access, f"error {code}") if code in REFUSED else _broken(name, code)
    ended = stop(reply)
    if ended in ("refusal", "content_filter", "error"):
        raise SummarizerUnavailable(f"{name} declined to summarise ({ended}).", outage=ended == "error")
    model = getattr(reply, "model", None)
    provider, _, requested = name.partition("/")
    written_by = f"{provider}/{well_formed(model) if isinstance(model, str) and model else requested}"
    return Completion(Reply(summary_of(reply), written_by), cut=ended in ("max_tokens", "length"))


def _broken(name: str, code: object) -> SummarizerError:
    return SummarizerUnavailable(f"{name} answered with an error{f' ({code})' if code else ''}.")


def _failed(name: str, error: Any) -> SummarizerUnavailable:
    detail = _provider_message(error)
    if error.status_code in range(300, 400):
        detail = "it redirects requests, which is not followed; set base_url to its final address."
    message = f"{name} answered HTTP {error.status_code}{f': {detail}' if detail else '.'}"
    pause = _retry_after(error.response.headers, time.time())
    return SummarizerUnavailable(message, retry_after=pause, outage=error.status_code not in UNFIT)


def _provider_message(error: Any) -> str:
    """Return the message of the provider as one short line, without the key that some servers repeat."""
    body = error.body if isinstance(error.body, Mapping) else {}
    inner = body.get("error", body)
    message = inner.get("message") if isinstance(inner, Mapping) else inner
    line = " ".join(message.split()) if isinstance(message, str) else ""
    for header, value in error.request.headers.items():
        secret = value.removeprefix("Bearer ")
        line = line if _PLAIN.fullmatch(header) or not secret else line.replace(secret, "***")
    return "".join(filter(str.isprintable, line[:200]))


def _retry_after(headers: Mapping[str, str], now: float) -> float | None:
    """Return the seconds that a provider asks us to wait. A date counts from its own clock, if it sends the time."""
    for header, unit in (("retry-after-ms", 0.001), ("retry-after", 1)):
        try:
            return float(headers[header]) * unit
        except (KeyError, ValueError):
            continue
    until = _parse_date(headers.get("retry-after"))
    return None if until is None else until - (_parse_date(headers.get("date")) or now)


def _parse_date(text: str | None) -> float | None:
    try:
        return None if text is None else parsedate_to_datetime(text).timestamp()
    except (ValueError, TypeError, OverflowError):
        return None
