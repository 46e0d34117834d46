"""What a summariser is: something that is asked with a `SummaryRequest` and replies with a text."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol, TypeAlias, runtime_checkable

from msgspec import Struct

from lossless.errors import InvalidInput, SummarizerAuth, SummarizerError, SummarizerUnavailable
from lossless.model import SummaryRequest
from lossless.summarizers.text import summary_of, well_formed

REFUSED = (401, 403)
"""The HTTP statuses that mean refused credentials. What a reply says is never looked at for that."""


class Reply(Struct, frozen=True):
    """A summary, and the model that really wrote it, which need not be the one that was named."""

    text: str
    model: str


@runtime_checkable
class Summarizer(Protocol):
    """Whatever `resolve` gives. A text that stays empty is a reply too; a failure raises `SummarizerError`."""

    @property
    def name(self) -> str: ...

    def ask(self, request: SummaryRequest) -> Reply: ...


Function: TypeAlias = Callable[[SummaryRequest], Any]
"""A summariser of the user's own: it gives the text, a provider's whole response, or a `Reply`."""


class Own(Struct, frozen=True):
    """A function as a summariser."""

    function: Function
    name: str
    plain: bool = False
    """Its words are taken as they are: no model has thought in them."""

    def ask(self, request: SummaryRequest) -> Reply:
        try:
            reply = self.function(request)
        except (SummarizerError, InvalidInput):
            raise
        except Exception as error:
            what = f"{self.name} failed: {type(error).__name__}."
            if getattr(error, "status_code", None) in REFUSED:
                raise SummarizerAuth(what, hint="Check its credentials.") from error
            raise SummarizerUnavailable(what) from error
        if self.plain:
            return Reply(well_formed(reply), self.name)
        if isinstance(reply, Reply):
            return Reply(summary_of(reply.text), reply.model)
        return Reply(summary_of(reply), self.name)
