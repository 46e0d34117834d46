"""Errors keep their text and their attributes when they are copied or sent to another process."""

from __future__ import annotations

import copy
import inspect
import pickle
from collections.abc import Callable

import pytest

from lossless import errors
from lossless.errors import LosslessError, NotFound, SummarizerAuth, SummarizerBlocked, SummarizerUnavailable

CLASSES = [kind for _, kind in inspect.getmembers(errors, inspect.isclass) if issubclass(kind, LosslessError)]


def example(kind: type[LosslessError]) -> LosslessError:
    """Return an error of the class with every attribute set to something that is not its default."""
    if issubclass(kind, NotFound):
        return kind("summary", "sum_1", hint="`lcm summaries` lists them.")
    if issubclass(kind, SummarizerBlocked):
        return kind("breaker", "Too many refusals.", until=12.5, hint="Check the key.")
    if issubclass(kind, SummarizerAuth):
        return kind("No key.", hint="Set one.", missing=True)
    if issubclass(kind, SummarizerUnavailable):
        return kind("No answer.", hint="Wait.", retry_after=7.0, outage=False)
    return kind("Something is wrong.", hint="Try this.")


def pickled(error: LosslessError) -> LosslessError:
    found = pickle.loads(pickle.dumps(error))
    assert isinstance(found, LosslessError)
    return found


@pytest.mark.parametrize("kind", CLASSES)
@pytest.mark.parametrize("way", [pickled, copy.copy, copy.deepcopy])
def test_every_error_survives_pickle_and_copy(
    kind: type[LosslessError], way: Callable[[LosslessError], LosslessError]
) -> None:
    error = example(kind)
    error.add_note("while compacting")
    found = way(error)
    assert type(found) is kind
    assert (str(found), found.args, found.code) == (str(error), error.args, error.code)
    assert vars(found) == vars(error)
    assert {"message", "hint", "__notes__"} <= vars(found).keys()


def test_every_attribute_of_an_error_is_in_the_example() -> None:
    for kind in CLASSES:
        names = set(inspect.signature(kind).parameters)
        assert names <= vars(example(kind)).keys(), kind
