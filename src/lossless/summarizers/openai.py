"""OpenAI's models and every server that speaks its chat completions, through OpenAI's SDK."""

from __future__ import annotations

import os
from functools import partial
from typing import Any, ClassVar

from msgspec import Struct

from lossless.model import SummaryRequest
from lossless.summarizers.base import Reply, sending
from lossless.summarizers.policy import Answer, complete
from lossless.summarizers.text import well_formed

VARIABLE = "OPENAI_API_KEY"


class OpenAI(Struct, frozen=True):
    """A model of OpenAI's (`provider="openai"`), or of the server at `base_url`, whatever its name.

    The credentials are the SDK's own affair; a server at an address of its own may need none. Each call has a
    client of its own: a key that was renewed serves from the next call on, and there is nothing to close.
    """

    model: str
    provider: str = "openai"
    base_url: str | None = None
    timeout: float = 60.0
    counts: ClassVar[bool] = True

    @property
    def name(self) -> str:
        return f"{self.provider}/{self.model}"

    def ask(self, request: SummaryRequest) -> Reply:
        return complete(self.model, request, partial(self._send, request))

    def _send(self, request: SummaryRequest, limit: int) -> Answer:
        import openai

        from lossless.summarizers import sdk

        # A key must not be missing for the SDK; a server that wants a real one answers 401.
        key = None if self.base_url is None or os.environ.get(VARIABLE) else "none"
        with (
            sdk.translated(self.name, openai, openai.OpenAIError, VARIABLE),
            sdk.patient(openai, seconds := request.within(self.timeout)) as http,
            openai.OpenAI(
                api_key=key, base_url=self.base_url, timeout=seconds, max_retries=0, http_client=http
            ) as client,
        ):
            reply = self._create(client, _messages(request), limit)
        return sdk.read(self.name, VARIABLE, reply, _finish)

    def _create(self, client: Any, messages: list[dict[str, str]], limit: int) -> Any:
        """One completion. OpenAI's own models take one name for the limit only, older servers the other only."""
        import openai

        new, old = "max_completion_tokens", "max_tokens"
        first, second = (new, old) if self.provider == "openai" else (old, new)
        sending()
        try:
            return client.chat.completions.create(model=self.model, messages=messages, **{first: limit})
        except (openai.BadRequestError, openai.UnprocessableEntityError) as error:
            if error.param != first:
                raise
        sending()
        return client.chat.completions.create(model=self.model, messages=messages, **{second: limit})


def _messages(request: SummaryRequest) -> list[dict[str, str]]:
    said = (("system", request.system), ("user", request.prompt))
    return [{"role": role, "content": well_formed(text)} for role, text in said if text.strip()]


def _finish(completion: Any) -> str | None:
    choices = getattr(completion, "choices", None)
    return getattr(choices[0], "finish_reason", None) if choices else None
