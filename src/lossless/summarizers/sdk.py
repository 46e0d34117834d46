"""What the official SDKs have in common: their HTTP client, their errors, their replies.

Imported with an SDK only, since it needs the HTTP library that the SDKs bring along.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from email.utils import parsedate_to_datetime
from types import ModuleType
from typing import Any

import httpx2

from lossless.errors import SummarizerAuth, SummarizerError, SummarizerUnavailable
from lossless.summarizers.base import REFUSED, UNFIT, Reply
from lossless.summarizers.credentials import Access, Key
from lossless.summarizers.policy import Answer
from lossless.summarizers.text import summary_of, well_formed

_PLAIN = re.compile(r"accept.*|connection|content-(?:length|type)|host|user-agent|anthropic-version|x-stainless-.*")
"""Headers that hold no secret. SDKs add others from variables that belong to their own provider."""


def patient(sdk: ModuleType, seconds: float, access: Access, key: Key) -> httpx2.Client:
    """An HTTP client that sends a key to one address only, and gives up on a body that is not complete in time.

    A timeout of the HTTP library is for one read, and a busy provider sends blank lines that begin it anew. Redirects
    are not followed: only some headers would be left out on the way to another server.
    """
    until = time.monotonic() + seconds
    own = access.provider in ("openai", "anthropic") and not (access.table and access.table.key_source)

    def bare(request: httpx2.Request) -> None:
        if not own or not (key.value or key.by_sdk):
            for name in [name for name in request.headers if not _PLAIN.fullmatch(name)]:
                del request.headers[name]
            request.headers.update(_with_key(access, key))
        request.headers.update(key.headers)

    def bound(response: httpx2.Response) -> None:
        assert isinstance(response.stream, httpx2.SyncByteStream)
        response.stream = _Bounded(response.stream, lambda: time.monotonic() > until)

    hooks = {"request": [bare], "response": [bound]}
    client: httpx2.Client = sdk.DefaultHttpxClient(timeout=seconds, follow_redirects=False, event_hooks=hooks)
    return client


def _with_key(access: Access, key: Key) -> dict[str, str]:
    if not key.value:
        return {}
    if access.api == "anthropic" and not key.is_token:
        return {"x-api-key": key.value}
    beta = {"anthropic-beta": "oauth-2025-04-20"} if access.api == "anthropic" else {}  # or a token is refused
    return {"authorization": f"Bearer {key.value}", **beta}


class _Bounded(httpx2.SyncByteStream):
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
def translated(name: str, sdk: ModuleType, base: type[Exception], access: Access) -> Iterator[None]:
    """The errors of an SDK as ours. Only their types and statuses count, never what a text says."""
    try:
        yield
    except sdk.APIStatusError as error:
        if error.status_code in REFUSED:
            raise refused(name, access, f"HTTP {error.status_code}") from None
        raise _failed(name, error) from error
    except sdk.APITimeoutError as error:
        raise SummarizerUnavailable(f"{name} did not answer in time.") from error
    except sdk.APIConnectionError as error:
        raise SummarizerUnavailable(f"{name} could not be reached, or broke off its answer.") from error
    except sdk.APIError as error:
        raise SummarizerUnavailable(f"{name} gave an answer that is none.") from error
    except base as error:
        raise refused(name, access, "none that can be used were found", missing=True) from error
    except ValueError as error:
        raise SummarizerUnavailable(f"{name} gave an answer that cannot be read.") from error


def refused(name: str, access: Access, why: str, *, missing: bool = False) -> SummarizerAuth:
    access.forget()
    return SummarizerAuth(f"The credentials for {name} are refused ({why}).", hint=access.hint, missing=missing)


def read(name: str, access: Access, reply: Any, stop: Callable[[Any], str | None]) -> Answer:
    """What a reply amounts to. Some gateways answer 200 with a page or an error in it: those raise."""
    if not hasattr(reply, "model_dump"):
        raise SummarizerUnavailable(
            f"{name} answered with something else than a completion.", hint="Check its address."
        )
    if error := getattr(reply, "error", None):
        code = error.get("code") if isinstance(error, Mapping) else None
        raise refused(name, access, f"error {code}") if code in REFUSED else _broken(name, code)
    ended = stop(reply)
    if ended in ("refusal", "content_filter", "error"):
        raise SummarizerUnavailable(f"{name} declined to summarise ({ended}).", outage=ended == "error")
    model = getattr(reply, "model", None)
    provider, _, asked = name.partition("/")
    written_by = f"{provider}/{well_formed(model) if isinstance(model, str) and model else asked}"
    return Answer(Reply(summary_of(reply), written_by), cut=ended in ("max_tokens", "length"))


def _broken(name: str, code: object) -> SummarizerError:
    return SummarizerUnavailable(f"{name} answered with an error{f' ({code})' if code else ''}.")


def _failed(name: str, error: Any) -> SummarizerUnavailable:
    said = _said(error)
    if error.status_code in range(300, 400):
        said = "it sends requests elsewhere, which is not followed; set base_url to its final address."
    what = f"{name} answered HTTP {error.status_code}{f': {said}' if said else '.'}"
    pause = _retry_after(error.response.headers, time.time())
    return SummarizerUnavailable(what, retry_after=pause, outage=error.status_code not in UNFIT)


def _said(error: Any) -> str:
    """What the provider said about it: one short line, without the key that some servers repeat."""
    body = error.body if isinstance(error.body, Mapping) else {}
    inner = body.get("error", body)
    message = inner.get("message") if isinstance(inner, Mapping) else inner
    line = " ".join(message.split()) if isinstance(message, str) else ""
    for header, value in error.request.headers.items():
        secret = value.removeprefix("Bearer ")
        line = line if _PLAIN.fullmatch(header) or not secret else line.replace(secret, "***")
    return "".join(filter(str.isprintable, line[:200]))


def _retry_after(headers: Mapping[str, str], now: float) -> float | None:
    """Return the seconds a provider asks us to wait. A date counts from its own clock, if it tells the time."""
    for header, unit in (("retry-after-ms", 0.001), ("retry-after", 1)):
        try:
            return float(headers[header]) * unit
        except (KeyError, ValueError):
            continue
    until = _moment(headers.get("retry-after"))
    return None if until is None else until - (_moment(headers.get("date")) or now)


def _moment(text: str | None) -> float | None:
    try:
        return None if text is None else parsedate_to_datetime(text).timestamp()
    except (ValueError, TypeError, OverflowError):
        return None
