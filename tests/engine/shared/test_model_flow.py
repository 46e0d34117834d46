"""One driver for every flow that asks a model, synchronous or asynchronous."""

from __future__ import annotations

import anyio
import anyio.lowlevel
import pytest

from lossless import SummaryRequest
from lossless.engine.shared.model_flow import ModelFlow, drive, drive_async, without_fallback
from lossless.errors import SummarizerError, SummarizerUnavailable
from lossless.summarizers.base import Reply

REQUEST = SummaryRequest(system="system", prompt="prompt", source="source", depth=0, target_tokens=10, max_tokens=10)
DOWN = SummarizerUnavailable("The model is down.")


def replies(count: int, closed: list[str]) -> ModelFlow[list[str]]:
    """A flow that asks some times and writes "(none)" where the model fails."""
    found = []
    try:
        for _ in range(count):
            try:
                found.append((yield REQUEST).text)
            except SummarizerError:
                found.append("(none)")
        return found
    finally:
        closed.append("closed")


class Model:
    """Answers the scripted replies one after another."""

    def __init__(self, *script: str | SummarizerError) -> None:
        self._script = iter(script)

    def ask(self, request: SummaryRequest) -> Reply | SummarizerError:
        found = next(self._script)
        return Reply(found, "m") if isinstance(found, str) else found

    async def aask(self, request: SummaryRequest) -> Reply | SummarizerError:
        await anyio.lowlevel.checkpoint()
        return self.ask(request)


@pytest.mark.parametrize("is_async", [False, True])
def test_replies_and_errors_reach_the_flow_in_order(is_async: bool) -> None:
    closed: list[str] = []
    flow, model = replies(3, closed), Model("one", DOWN, "three")
    found = anyio.run(drive_async, flow, model.aask) if is_async else drive(flow, model.ask)
    assert found == ["one", "(none)", "three"]
    assert closed == ["closed"]


def test_a_flow_is_closed_when_answering_fails() -> None:
    closed: list[str] = []

    def interrupted(request: SummaryRequest) -> Reply:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        drive(replies(3, closed), interrupted)
    assert closed == ["closed"]


def test_a_flow_is_closed_when_its_driver_is_cancelled() -> None:
    closed: list[str] = []

    async def cancelled() -> None:
        with anyio.CancelScope() as scope:

            async def waiting(request: SummaryRequest) -> Reply:
                scope.cancel()
                await anyio.sleep_forever()
                raise AssertionError("it is never resumed")

            await drive_async(replies(3, closed), waiting)

    anyio.run(cancelled)
    assert closed == ["closed"]


def test_without_a_fallback_the_error_of_the_model_ends_the_flow() -> None:
    closed: list[str] = []
    with pytest.raises(SummarizerUnavailable):
        drive(without_fallback(replies(3, closed)), Model("one", DOWN).ask)
    assert closed == ["closed"]
    assert drive(without_fallback(replies(2, closed)), Model("one", "two").ask) == ["one", "two"]
