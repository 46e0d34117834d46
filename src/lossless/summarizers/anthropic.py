"""Claude, through Anthropic's SDK."""

from __future__ import annotations

from functools import partial
from typing import Any, ClassVar

from msgspec import Struct

from lossless.model import SummaryRequest
from lossless.summarizers.base import Reply, sending
from lossless.summarizers.policy import Answer, complete
from lossless.summarizers.text import well_formed

VARIABLE = "ANTHROPIC_API_KEY"


class Anthropic(Struct, frozen=True):
    """A model of Anthropic's, or of a server that speaks its Messages API.

    The credentials are the SDK's own affair. Each call has a client of its own: a key that was renewed serves
    from the next call on, and there is nothing to close.
    """

    model: str
    base_url: str | None = None
    timeout: float = 60.0
    counts: ClassVar[bool] = True

    @property
    def name(self) -> str:
        return f"anthropic/{self.model}"

    def ask(self, request: SummaryRequest) -> Reply:
        return complete(self.model, request, partial(self._send, request))

    def _send(self, request: SummaryRequest, limit: int) -> Answer:
        import anthropic

        from lossless.summarizers import sdk

        options: dict[str, Any] = {"system": well_formed(request.system)} if request.system.strip() else {}
        with (
            sdk.translated(self.name, anthropic, anthropic.AnthropicError, VARIABLE),
            sdk.patient(anthropic, seconds := request.within(self.timeout)) as http,
            anthropic.Anthropic(base_url=self.base_url, timeout=seconds, max_retries=0, http_client=http) as client,
        ):
            # Without credentials the SDK raises a bare TypeError, which would look like a bug of ours.
            if not (client.credentials or {"x-api-key", "authorization"} & {*map(str.lower, client.default_headers)}):
                raise sdk.refused(self.name, VARIABLE, "none that can be used were found")
            sending()
            reply = client.messages.create(
                model=self.model,
                max_tokens=limit,
                messages=[{"role": "user", "content": well_formed(request.prompt)}],
                **options,
            )
        return sdk.read(self.name, VARIABLE, reply, lambda message: getattr(message, "stop_reason", None))
