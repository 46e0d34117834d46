"""Summarize with OpenAI and every server with its chat completions API, through the SDK of OpenAI."""

from __future__ import annotations

from functools import partial
from typing import Any, ClassVar

from msgspec import Struct

from lossless.config.providers import Provider
from lossless.model import SummaryRequest
from lossless.summarizers.base import Reply, count_request
from lossless.summarizers.credentials import Access
from lossless.summarizers.output_limits import Completion, complete
from lossless.summarizers.reply_text import well_formed


class OpenAI(Struct, frozen=True):
    """A model of OpenAI (`provider="openai"`) or of another provider, at its own address and with its own key.

    A self-hosted server may need no key. Each call creates a client, so that a renewed key is used from the next call
    on, and nothing has to be closed.
    """

    model: str
    provider: str = "openai"
    base_url: str | None = None
    timeout: float = 60.0
    table: Provider | None = None
    counts: ClassVar[bool] = True

    @property
    def name(self) -> str:
        return f"{self.provider}/{self.model}"

    @property
    def access(self) -> Access:
        return Access(self.provider, self.base_url, self.table)

    def ask(self, request: SummaryRequest) -> Reply:
        return complete(self.model, request, partial(self._send, request))

    def _send(self, request: SummaryRequest, limit: int) -> Completion:
        import openai

        from lossless.summarizers import sdk

        access = self.access
        key = access.key()
        with (
            sdk.translate_errors(self.name, openai, openai.OpenAIError, access),
            sdk.make_http_client(openai, seconds := request.within(self.timeout), access, key) as http,
            openai.OpenAI(
                # The SDK requires a key; if there is none, the header is removed again.
                api_key=key.value or "none",
                base_url=key.address,
                timeout=seconds,
                max_retries=0,
                http_client=http,
            ) as client,
        ):
            reply = self._create(client, request, limit)
        return sdk.read_reply(self.name, access, reply, _finish)

    def _create(self, client: Any, request: SummaryRequest, limit: int) -> Any:
        """Request one completion. Some servers accept only one name of the limit, some no temperature."""
        import openai

        new, old = "max_completion_tokens", "max_tokens"
        first, second = (new, old) if self.provider == "openai" else (old, new)
        options: dict[str, Any] = {first: limit}
        if request.temperature is not None:
            options["temperature"] = request.temperature
        while True:
            count_request()
            try:
                return client.chat.completions.create(model=self.model, messages=_messages(request), **options)
            except (openai.BadRequestError, openai.UnprocessableEntityError) as error:
                if error.param not in options or error.param == second:
                    raise
                del options[error.param]
                if error.param == first:
                    options[second] = limit


def _messages(request: SummaryRequest) -> list[dict[str, str]]:
    texts = (("system", request.system), ("user", request.prompt))
    return [{"role": role, "content": well_formed(text)} for role, text in texts if text.strip()]


def _finish(completion: Any) -> str | None:
    choices = getattr(completion, "choices", None)
    return getattr(choices[0], "finish_reason", None) if choices else None
