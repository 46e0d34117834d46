"""What the official SDKs have in common: their HTTP client, their errors, their replies.

Imported with an SDK only, since it needs the HTTP library that the SDKs bring along.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from email.utils import parsedate_to_datetime
from types import ModuleType
from typing import Any

import httpx2

from lossless.errors import SummarizerAuth, SummarizerError, SummarizerUnavailable
from lossless.summarizers.base import REFUSED, UNFIT, Reply
from lossless.summarizers.policy import Answer
from lossless.summarizers.text import summary_of, well_formed


def patient(sdk: ModuleType, seconds: float) -> httpx2.Client:
    """An HTTP client that gives up on a body that is not complete in time.

    A timeout of the HTTP library is for one read, and a busy provider sends blank lines that begin it anew.
    """
    until = time.monotonic() + seconds

    def bound(response: httpx2.Response) -> None:
        assert isinstance(response.stream, httpx2.SyncByteStream)
        response.stream = _Bounded(response.stream, lambda: time.monotonic() > until)

    client: httpx2.Client = sdk.DefaultHttpxClient(timeout=seconds, event_hooks={"response": [bound]})
    return client


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
def translated(name: str, sdk: ModuleType, base: type[Exception], variable: str) -> Iterator[None]:
    """The errors of an SDK as ours. Only their types and statuses count, never what a text says."""
    try:
        yield
    except sdk.APIStatusError as error:
        if error.status_code in REFUSED:
            raise refused(name, variable, f"HTTP {error.status_code}") from None
        raise _failed(name, error) from error
    except sdk.APITimeoutError as error:
        raise SummarizerUnavailable(f"{name} did not answer in time.") from error
    except sdk.APIConnectionError as error:
        raise SummarizerUnavailable(f"{name} could not be reached, or broke off its answer.") from error
    except sdk.APIError as error:
        raise SummarizerUnavailable(f"{name} gave an answer that is none.") from error
    except base as error:
        raise refused(name, variable, "none that can be used were found") from error
    except ValueError as error:
        raise SummarizerUnavailable(f"{name} gave an answer that cannot be read.") from error


def refused(name: str, variable: str, why: str) -> SummarizerAuth:
    return SummarizerAuth(f"The credentials for {name} are refused ({why}).", hint=f"Check {variable}.")


def read(name: str, variable: str, reply: Any, stop: Callable[[Any], str | None]) -> Answer:
    """What a reply amounts to. Some gateways answer 200 with a page or an error in it: those raise."""
    if not hasattr(reply, "model_dump"):
        raise SummarizerUnavailable(
            f"{name} answered with something else than a completion.", hint="Check its address."
        )
    if error := getattr(reply, "error", None):
        code = error.get("code") if isinstance(error, Mapping) else None
        raise refused(name, variable, f"error {code}") if code in REFUSED else _broken(name, code)
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
    what = f"{name} answered HTTP {error.status_code}{f': {said}' if said else '.'}"
    pause = _retry_after(error.response.headers, time.time())
    return SummarizerUnavailable(what, retry_after=pause, outage=error.status_code not in UNFIT)


def _said(error: Any) -> str:
    """What the provider said about it: one short line, without the key that some servers repeat."""
    body = error.body if isinstance(error.body, Mapping) else {}
    inner = body.get("error", body)
    message = inner.get("message") if isinstance(inner, Mapping) else inner
    line = " ".join(message.split()) if isinstance(message, str) else ""
    for header in ("authorization", "x-api-key"):
        key = error.request.headers.get(header, "").removeprefix("Bearer ")
        line = line.replace(key, "***") if key else line
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
