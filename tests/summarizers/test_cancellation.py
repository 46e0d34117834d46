"""A request to a model that is cancelled from another thread ends at once, whichever way it is asked."""

from __future__ import annotations

import os
import shlex
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from msgspec import structs

from lossless import Settings
from lossless.model import SummaryRequest
from lossless.summarizers import Summarizer, resolve
from lossless.summarizers.base import Cancellation, Cancelled
from tests.provider import Provider

REQUEST = SummaryRequest("Summarise.", "Anna moved the launch.", "Anna moved the launch.", 0, 100, 200)
SECONDS = 30.0
SETTINGS = Settings(summary_timeout_ms=int(SECONDS * 1000))


def cancelled(summarizer: Summarizer, begun: Callable[[], object]) -> float:
    """The seconds from the cancellation of a request to its end."""
    cancellation, at = Cancellation(), list[float]()

    def cancel() -> None:
        begun()
        at.append(time.monotonic())
        cancellation.cancel()

    canceller = threading.Thread(target=cancel)
    canceller.start()
    with pytest.raises(Cancelled), cancellation.watching():
        summarizer.ask(REQUEST)
    canceller.join()
    return time.monotonic() - at[0]


@pytest.mark.usefixtures("credentials")
@pytest.mark.parametrize("sdk", ["anthropic", "openai"])
def test_the_connection_to_a_provider_is_closed(provider: Provider, sdk: str) -> None:
    provider.script("hang")
    asked = threading.Event()

    def note(body: object) -> str:
        asked.set()
        return ""

    provider.objects = note
    own = structs.replace(SETTINGS, summary_base_url=provider.url)
    assert cancelled(resolve(f"{sdk}/stand-in", own), lambda: asked.wait(SECONDS)) < SECONDS / 2
    assert provider.is_idle(SECONDS / 2)


def test_a_program_is_ended(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    code = f"import time; open('{pipe}', 'w').close(); time.sleep({SECONDS})"
    command = shlex.join([sys.executable, "-c", code])
    # Reading waits until the program has opened the pipe.
    assert cancelled(resolve(f"command:{command}", SETTINGS), pipe.read_bytes) < SECONDS / 2


def test_nothing_is_asked_after_a_cancellation(provider: Provider) -> None:
    cancellation = Cancellation()
    cancellation.cancel()
    with pytest.raises(Cancelled), cancellation.watching():
        pytest.fail("it was asked")
    assert provider.calls == 0
