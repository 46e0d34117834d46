"""Several summarisers in a row, with a clock and a sleep that pass no time."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from lossless.errors import SummarizerAuth, SummarizerError, SummarizerUnavailable
from lossless.model import SummaryRequest
from lossless.summarizers import Chain, Reply
from tests.provider import SUMMARY, Provider
from tests.summarizers.conftest import Model, asking

AUTH = SummarizerAuth("refused.")
DOWN = SummarizerUnavailable("down.")


class Scripted:
    """A summariser that does one thing, and counts."""

    def __init__(self, name: str, does: str | SummarizerError) -> None:
        self.name = name
        self.does = does
        self.calls = 0

    def ask(self, request: SummaryRequest) -> Reply:
        self.calls += 1
        if isinstance(self.does, str):
            return Reply(self.does, self.name)
        raise self.does


class Case:
    def __init__(self, *does: str | SummarizerError) -> None:
        self.now = 0.0
        self.slept: list[float] = []
        self.candidates = [Scripted(f"m{number}", what) for number, what in enumerate(does)]
        self.chain = Chain(self.candidates, clock=lambda: self.now, sleep=self.slept.append)

    @property
    def calls(self) -> list[int]:
        return [candidate.calls for candidate in self.candidates]


@pytest.mark.parametrize(
    ("does", "wrote", "slept", "calls"),
    [
        (["done"], "m0", [], [1]),
        (["done", "other"], "m0", [], [1, 0]),
        ([DOWN, "done"], "m1", [], [1, 1]),
        (["", "done"], "m1", [], [1, 1]),
        ([AUTH, "done"], "m1", [0.5], [1, 1]),
        ([AUTH, DOWN, AUTH, "done"], "m3", [0.5, 2.0], [1, 1, 1, 1]),
        ([AUTH, AUTH, AUTH, AUTH, AUTH, AUTH, "done"], "m6", [0.5, 1.0, 2.0, 4.0, 8.0, 8.0], [1] * 7),
    ],
)
def test_the_first_that_gives_a_text_has_written_it(
    does: list[str | SummarizerError], wrote: str, slept: list[float], calls: list[int]
) -> None:
    case = Case(*does)
    assert case.chain.ask(asking()) == Reply("done", wrote)
    assert (case.slept, case.calls) == (slept, calls)


@pytest.mark.parametrize(
    ("does", "raised", "slept"),
    [
        ([AUTH], SummarizerAuth, []),
        ([DOWN], SummarizerUnavailable, []),
        ([""], SummarizerUnavailable, []),
        ([DOWN, AUTH], SummarizerAuth, []),
        ([AUTH, DOWN], SummarizerUnavailable, [0.5]),
        ([AUTH, ""], SummarizerUnavailable, [0.5]),
        ([SummarizerError("odd."), DOWN], SummarizerUnavailable, []),
        ([], SummarizerUnavailable, []),
    ],
)
def test_when_all_fail_the_last_decides(
    does: list[str | SummarizerError], raised: type[SummarizerError], slept: list[float]
) -> None:
    case = Case(*does)
    with pytest.raises(SummarizerError) as error:
        case.chain.ask(asking())
    assert type(error.value) is raised
    assert case.slept == slept


def test_every_reason_is_told_and_the_shortest_pause() -> None:
    case = Case(SummarizerUnavailable("one is busy.", retry_after=30), SummarizerUnavailable("two.", retry_after=5), "")
    with pytest.raises(SummarizerUnavailable) as error:
        case.chain.ask(asking())
    assert str(error.value) == "one is busy. two. m2 returned no text."
    assert error.value.retry_after == 5


def test_who_asked_for_a_pause_is_left_alone_until_it_is_over() -> None:
    case = Case(SummarizerUnavailable("busy.", retry_after=30), "done")
    for case.now, calls in ((0.0, [1, 1]), (29.9, [1, 2]), (30.0, [2, 3]), (59.0, [2, 4])):
        assert case.chain.ask(asking()).model == "m1"
        assert case.calls == calls


def test_a_pause_without_end_ends() -> None:
    case = Case(SummarizerUnavailable("busy.", retry_after=1e9))
    for case.now, calls in ((0.0, [1]), (599.0, [1]), (600.0, [2])):
        with pytest.raises(SummarizerUnavailable) as error:
            case.chain.ask(asking())
        assert error.value.retry_after
        assert case.calls == calls


@pytest.fixture
def row(model: Model) -> Callable[..., Chain]:
    def build(timeout: float = 10.0) -> Chain:
        return Chain([model(timeout=timeout, named="one"), model(timeout=timeout, named="two")], sleep=lambda _: None)

    return build


@pytest.mark.parametrize("behaviour", ["hang", "cut in the middle", "401", "429", "500", "529", "web page"])
def test_what_a_provider_does_leads_to_the_next_model(
    provider: Provider, row: Callable[..., Chain], behaviour: str
) -> None:
    provider.script(behaviour, "ok")
    reply = row(timeout=0.3 if behaviour == "hang" else 10.0).ask(asking())
    assert (reply.text, reply.model.partition("/")[2]) == (SUMMARY, "two-2026-01-01")
    assert provider.calls == 2


@pytest.mark.parametrize("behaviour", ["empty", "only reasoning"])
def test_a_model_without_words_is_asked_twice_and_then_the_next(
    provider: Provider, row: Callable[..., Chain], behaviour: str
) -> None:
    provider.script(behaviour, behaviour, "ok")
    assert row().ask(asking()).text == SUMMARY
    assert [call.body["model"] for call in provider.requests] == ["one", "one", "two"]
