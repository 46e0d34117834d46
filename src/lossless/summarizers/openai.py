"""OpenAI's models and every server that speaks its chat completions, through OpenAI's SDK."""

from __future__ import annotations

from functools import partial
from typing import Any, ClassVar

from msgspec import Struct

from lossless.config.providers import Provider
from lossless.model import SummaryRequest
from lossless.summarizers.base import Reply, sending
from lossless.summarizers.credentials import Access
from lossless.summarizers.policy import Answer, complete
from lossless.summarizers.text import well_formed


class OpenAI(Struct, frozen=True):
    """A model of OpenAI's (`provider="openai"`), or of another provider, at its own address and with its own key.

    A server at an address of its own may need no key. Each call has a client of its own: a key that was renewed serves
    from the next call on, and there is nothing to close.
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

    def _send(self, request: SummaryRequest, limit: int) -> Answer:
        import openai

        from lossless.summarizers import sdk

        access = self.access
        key = access.key()
        with (
            sdk.translated(self.name, openai, openai.OpenAIError, access),
            sdk.patient(openai, seconds := request.within(self.timeout), access, key) as http,
            openai.OpenAI(
                # A key must not be missing for the SDK; where there is none, the header is taken out again.
                api_key=key.value or "none",
                base_url=key.address,
                timeout=seconds,
                max_retries=0,
                http_client=http,
            ) as client,
        ):
            reply = self._create(client, request, limit)
        return sdk.read(self.name, access, reply, _finish)

    def _create(self, client: Any, request: SummaryRequest, limit: int) -> Any:
        """One completion. OpenAI's own models take one name for the limit only, older servers the other only.

        Some take no temperature: then it is left out.
        """
        import openai

        new, old = "max_completion_tokens", "max_tokens"
        first, second = (new, old) if self.provider == "openai" else (old, new)
        options: dict[str, Any] = {first: limit}
        if request.temperature is not None:
            options["temperature"] = request.temperature
        while True:
            sending()
            try:
                return client.chat.completions.create(model=self.model, messages=_messages(request), **options)
            except (openai.BadRequestError, openai.UnprocessableEntityError) as error:
                if error.param not in options or error.param == second:
                    raise
                del options[error.param]
                if error.param == first:
                    options[second] = limit


def _messages(request: SummaryRequest) -> list[dict[str, str]]:
    said = (("system", request.system), ("user", request.prompt))
    return [{"role": role, "content": well_formed(text)} for role, text in said if text.strip()]


def _finish(completion: Any) -> str | None:
    choices = getattr(completion, "choices", None)
    return getattr(choices[0], "finish_reason", None) if choices else None
