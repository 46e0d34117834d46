"""Summarize with Claude, through the SDK of Anthropic."""

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


class Anthropic(Struct, frozen=True):
    """A model of Anthropic, or of a server with its Messages API.

    Each call creates a client, so that a renewed key is used from the next call on, and nothing has to be closed.
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

    def _send(self, request: SummaryRequest, limit: int) -> Completion:
        import anthropic

        from lossless.summarizers import sdk

        access = self.access
        key = access.key()
        options: dict[str, Any] = {"system": well_formed(request.system)} if request.system.strip() else {}
        if request.temperature is not None:
            options["extra_body"] = {"temperature": request.temperature}  # the SDK has no parameter for it
        with (
            sdk.translate_errors(self.name, anthropic, anthropic.AnthropicError, access),
            sdk.make_http_client(anthropic, seconds := request.within(self.timeout), access, key) as http,
            anthropic.Anthropic(
                # An explicit value keeps the SDK from searching for credentials, also where no key is sent.
                api_key=None if key.by_sdk or key.is_token else key.value or "none",
                auth_token=key.value if key.is_token else None,
                base_url=key.address or None,
                timeout=seconds,
                max_retries=0,
                http_client=http,
            ) as client,
        ):
            # Without credentials the SDK raises a plain TypeError, which would look like a bug of ours.
            if not (client.credentials or {"x-api-key", "authorization"} & {*map(str.lower, client.default_headers)}):
                raise sdk.credentials_refused(self.name, access, "no usable ones were found", missing=True)
            count_request()
            reply = client.messages.create(
                model=self.model,
                max_tokens=limit,
                messages=[{"role": "user", "content": well_formed(request.prompt)}],
                **options,
            )
        return sdk.read_reply(self.name, access, reply, lambda message: getattr(message, "stop_reason", None))
