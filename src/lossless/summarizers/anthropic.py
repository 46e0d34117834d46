"""Claude, through Anthropic's SDK."""

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


class Anthropic(Struct, frozen=True):
    """A model of Anthropic's, or of a server that speaks its Messages API.

    Each call has a client of its own: a key that was renewed serves from the next call on, and there is nothing to
    close.
    """

    model: str
    base_url: str | None = None
    timeout: float = 60.0
    provider: str = "anthropic"
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
        import anthropic

        from lossless.summarizers import sdk

        access = self.access
        key = access.key()
        options: dict[str, Any] = {"system": well_formed(request.system)} if request.system.strip() else {}
        if request.temperature is not None:
            options["extra_body"] = {"temperature": request.temperature}  # the SDK has no name for it any more
        with (
            sdk.translated(self.name, anthropic, anthropic.AnthropicError, access),
            sdk.patient(anthropic, seconds := request.within(self.timeout), access, key) as http,
            anthropic.Anthropic(
                # What is given keeps the SDK from looking for more, also where no key is sent.
                api_key=None if key.by_sdk or key.is_token else key.value or "none",
                auth_token=key.value if key.is_token else None,
                base_url=key.address or None,
                timeout=seconds,
                max_retries=0,
                http_client=http,
            ) as client,
        ):
            # Without credentials the SDK raises a bare TypeError, which would look like a bug of ours.
            if not (client.credentials or {"x-api-key", "authorization"} & {*map(str.lower, client.default_headers)}):
                raise sdk.refused(self.name, access, "none that can be used were found", missing=True)
            sending()
            reply = client.messages.create(
                model=self.model,
                max_tokens=limit,
                messages=[{"role": "user", "content": well_formed(request.prompt)}],
                **options,
            )
        return sdk.read(self.name, access, reply, lambda message: getattr(message, "stop_reason", None))
