"""The model of a host as a summarizer: each request for a summary becomes a request to the host."""

from __future__ import annotations

from functools import partial
from secrets import token_bytes
from typing import Any, ClassVar

from msgspec import Struct

from lossless.config import Settings
from lossless.engine.ingest.secrets import ON, Redactor
from lossless.errors import SummarizerAuth, SummarizerUnavailable
from lossless.events import Hook
from lossless.hosts.bridge.rpc import Connection, RpcError, current
from lossless.model import SummaryRequest
from lossless.summarizers import Chain, Summarizer, build_chain
from lossless.summarizers.base import REFUSED, UNFIT, Reply, count_request
from lossless.summarizers.reply_text import summary_of, well_formed

_MODEL_METHOD = "model/complete"
_MOST_MESSAGE = 10_000
_MOST_NAME = 200


class LentModel(Struct, frozen=True):
    """A model that a host lends while a request of its own runs."""

    counts: ClassVar[bool] = True

    connection: Connection
    name: str
    lending: set[str | int]
    """The ids of the host's requests during which it lends its model."""
    wish: str | None = None
    """The model that the settings name. The host decides whether it may be used."""
    timeout: float = 60.0

    def ask(self, request: SummaryRequest) -> Reply:
        """Return the host's answer, or raise `SummarizerError`."""
        running = current.get()
        if running is None or running.id not in self.lending:
            raise SummarizerUnavailable(f"{self.name} is lent only while the host maintains its context.")
        count_request()
        seconds = request.within(self.timeout)
        params = {
            "request": running.id,
            "system": well_formed(request.system),
            "prompt": well_formed(request.prompt),
            "maxTokens": request.max_tokens,
            "temperature": request.temperature,
            "model": self.wish,
            "timeoutMs": int(seconds * 1000),
        }
        sent = {name: value for name, value in params.items() if value is not None}
        try:
            reply = self.connection.call(_MODEL_METHOD, sent, seconds)
        except TimeoutError as error:
            raise SummarizerUnavailable(f"{self.name} did not answer within {seconds:g} s.") from error
        except RpcError as error:
            raise self._failure(error) from error
        return self._reply(reply)

    def _reply(self, reply: Any) -> Reply:
        text = reply.get("text") if isinstance(reply, dict) else None
        if not isinstance(text, str):
            raise SummarizerUnavailable(f"{self.name} returned no text.", outage=False)
        model = reply.get("model")
        name = well_formed(model)[:_MOST_NAME] if isinstance(model, str) and model else self.name
        return Reply(summary_of(well_formed(text)), name, bool(reply.get("cut")))

    def _failure(self, error: RpcError) -> SummarizerAuth | SummarizerUnavailable:
        status, wait = error.data.get("status"), error.data.get("retryAfter")
        message = f"{self.name} failed: {_shown(error.message) or error.code}."
        if status in REFUSED:
            return SummarizerAuth(message, hint="Check the credentials of the host.")
        seconds = float(wait) if isinstance(wait, int | float) and wait > 0 else None
        return SummarizerUnavailable(message, retry_after=seconds, outage=status not in UNFIT)


def _shown(message: str) -> str:
    """Return the beginning of an error of the host's provider, which may repeat the key that it refuses."""
    redactor = Redactor((ON,), partial(token_bytes, 32))
    return redactor.text(" ".join(message[:_MOST_MESSAGE].split()))[:200].rstrip(".")


def with_host(settings: Settings, host: LentModel, on_event: Hook) -> Summarizer:
    """Return the models of summaries: those that the settings name, then the host's."""
    named = settings.summary_model or settings.fallback_providers
    own = build_chain(settings, on_event=on_event).candidates if named else ()
    return Chain([*own, host])
