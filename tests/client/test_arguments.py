"""A wrong argument is refused by our own error, which names the nearest right one; never by an error from below."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import Any

import pytest

from lossless import Conversation, InvalidInput, Lossless, Message

Verb = Callable[[Lossless, Conversation, Any], object]
FIRST = "msg#1000000001"
WRONG: list[Any] = ["200k", 1.5, True, None, [], float("nan"), "many", -7]
NO_TIMES: list[Any] = ["tomorrowish", "2026-13-01", True, []]


def given(value: Any) -> Any:
    """Return the value, or a text where None would be the default."""
    return "0" if value is None else value


NUMBERS: dict[str, Verb] = {
    "assemble(window)": lambda lcm, chat, value: chat.assemble(given(value)),
    "assemble(reserve)": lambda lcm, chat, value: chat.assemble(1_000, reserve=value),
    "compact(window)": lambda lcm, chat, value: chat.compact(given(value)),
    "compact(target)": lambda lcm, chat, value: chat.compact(1_000, target=given(value)),
    "compact(observed)": lambda lcm, chat, value: chat.compact(1_000, observed=value),
    "after_turn(window)": lambda lcm, chat, value: chat.after_turn([], given(value)),
    "explain(window)": lambda lcm, chat, value: chat.explain("hello", window=given(value)),
    "messages(after)": lambda lcm, chat, value: chat.messages(given(None if value == -7 else value)),
    "messages(limit)": lambda lcm, chat, value: chat.messages(limit=given(value)),
    "grep(limit)": lambda lcm, chat, value: chat.grep("x", limit=value),
    "expand(max_tokens)": lambda lcm, chat, value: chat.expand(FIRST, given(value)),
    "expand(depth)": lambda lcm, chat, value: chat.expand(FIRST, depth=value),
    "describe(max_tokens)": lambda lcm, chat, value: chat.describe(FIRST, max_tokens=given(value)),
    "describe(start_line)": lambda lcm, chat, value: chat.describe(FIRST, start_line=given(value)),
    "ask(max_tokens)": lambda lcm, chat, value: chat.ask("x", max_tokens=given(value)),
    "ask(token_cap)": lambda lcm, chat, value: lcm.ask("x", token_cap=given(value)),
    "history(limit)": lambda lcm, chat, value: lcm.history(limit=value),
    "conversations(limit)": lambda lcm, chat, value: lcm.conversations(limit=given(value)),
    "lcm.messages(limit)": lambda lcm, chat, value: lcm.messages("k", limit=value),
    "summaries(limit)": lambda lcm, chat, value: lcm.summaries("k", limit=value),
    "summaries(depth)": lambda lcm, chat, value: lcm.summaries("k", depth=given(value)),
    "files(limit)": lambda lcm, chat, value: lcm.files("k", limit=value),
    "messages.tail(count)": lambda lcm, chat, value: lcm.messages.tail("k", given(value)),
    "messages.around(before)": lambda lcm, chat, value: lcm.messages.around(1, "k", before=value),
    "summaries.tree(depth)": lambda lcm, chat, value: lcm.summaries.tree("k", depth=given(value)),
    "summaries.tree(limit)": lambda lcm, chat, value: lcm.summaries.tree("k", limit=value),
    "new(retain_depth)": lambda lcm, chat, value: chat.new(given(value), dry_run=True),
    "grant(max_tokens)": lambda lcm, chat, value: chat.grant(max_tokens=given(value)),
    "grant(seconds)": lambda lcm, chat, value: chat.grant(seconds=given(None if value == 1.5 else value)),
    "prune(batch)": lambda lcm, chat, value: lcm.prune("90d", batch=value),
    "gc(keep_copies)": lambda lcm, chat, value: lcm.gc(keep_copies=given(value)),
    "import_(limit)": lambda lcm, chat, value: lcm.import_([], limit=given(value)),
}

OTHERS: dict[str, tuple[Verb, Any, str]] = {
    "guidance": (lambda lcm, chat, value: chat.assemble(guidance=value), "long", "Give one of 'none', 'short', 'full'"),
    "guidance, almost": (lambda lcm, chat, value: chat.assemble(guidance=value), "Shrt", "Did you mean 'short'"),
    "live": (lambda lcm, chat, value: chat.assemble(live=value), 3, "is not a list"),
    "live messages": (lambda lcm, chat, value: chat.assemble(live=value), [{"role": "user"}], "Give Messages"),
    "mode": (lambda lcm, chat, value: chat.grep("x", mode=value), "regexp", "regex"),
    "scope": (lambda lcm, chat, value: chat.grep("x", scope=value), "all", "both"),
    "sort": (lambda lcm, chat, value: chat.grep("x", sort=value), "newest", "recency"),
    "since": (lambda lcm, chat, value: chat.grep("x", since=value), "tomorrowish", "Write a date"),
    "since, True": (lambda lcm, chat, value: chat.grep("x", since=value), True, "is not a time"),
    "before": (lambda lcm, chat, value: lcm.messages("k", until=value), "2026-13-01", "Write a date"),
    "age": (lambda lcm, chat, value: lcm.messages("k", since=value), [7], "is not a time"),
    "age, none": (lambda lcm, chat, value: lcm.messages("k", since=value), timedelta(0), "more than zero"),
    "roles": (lambda lcm, chat, value: lcm.messages("k", roles=value), ["usr"], "Did you mean 'user'"),
    "roles, None": (lambda lcm, chat, value: lcm.messages("k", roles=value), [None], "Give one of 'user'"),
    "strategy": (lambda lcm, chat, value: chat.expand(FIRST, strategy=value), "best", "order"),
    "kinds": (lambda lcm, chat, value: chat.repair(value), ["broken"], "provisional"),
    "kinds, a number": (lambda lcm, chat, value: chat.repair(value), 3, "is not a list"),
    "options": (lambda lcm, chat, value: chat.rewrite(all=True, **value), {"aply": True}, "Did you mean 'apply'"),
    "checks": (lambda lcm, chat, value: lcm.doctor(checks=value), "S14", "Did you mean checks="),
    "ids": (lambda lcm, chat, value: chat.ask("x", ids=value), 3, "is not a list"),
    "file_ids": (lambda lcm, chat, value: chat.grep("x", scope="files", file_ids=value), "file_1", r"\['file_1'\]"),
    "pattern": (lambda lcm, chat, value: chat.grep(value), None, "None"),
    "question": (lambda lcm, chat, value: chat.ask(value), None, "is not a text"),
    "id of describe": (lambda lcm, chat, value: chat.describe(value), None, "None"),
    "id of expand": (lambda lcm, chat, value: chat.expand(value), None, "None"),
    "pin": (lambda lcm, chat, value: chat.pin(value), None, "None"),
    "dissolve": (lambda lcm, chat, value: chat.dissolve(value), None, "is not a text"),
    "undo": (lambda lcm, chat, value: lcm.undo(value), [], "is not a text"),
    "cursor": (lambda lcm, chat, value: lcm.messages("k", cursor=value), 3, "is not a text"),
    "end": (lambda lcm, chat, value: chat.end(value), None, "is not a text"),
    "export": (lambda lcm, chat, value: lcm.export(value), None, "is not a path"),
    "migrate": (lambda lcm, chat, value: lcm.migrate(value), 3, "is not a path"),
    "backup": (lambda lcm, chat, value: lcm.backup(value), 3, "is not a path"),
    "restore": (lambda lcm, chat, value: Lossless.restore(value), None, "is not a path"),
    "apply": (lambda lcm, chat, value: lcm.gc(apply=value), "yes", "Give True or False"),
    "model": (lambda lcm, chat, value: chat.assemble(model=value), 3, "is not a text"),
    "ingest": (lambda lcm, chat, value: chat.ingest(value), 3, "Give a list of Messages"),
    "key": (lambda lcm, chat, value: lcm.conversation(value), None, "None"),
}


@pytest.fixture(scope="module")
def lcm() -> Iterator[Lossless]:
    with Lossless.open(":memory:", summarizer="extractive") as lcm:
        lcm.conversation("k").ingest([Message.user("hello there")])
        yield lcm


@pytest.mark.parametrize("verb", NUMBERS)
def test_what_is_no_number_is_refused(verb: str, lcm: Lossless) -> None:
    for wrong in WRONG:
        with pytest.raises(InvalidInput):
            NUMBERS[verb](lcm, lcm.conversation("k"), wrong)


@pytest.mark.parametrize("case", OTHERS)
def test_what_is_wrong_is_refused_with_the_nearest_right_one(case: str, lcm: Lossless) -> None:
    verb, wrong, hint = OTHERS[case]
    with pytest.raises(InvalidInput, match=hint):
        verb(lcm, lcm.conversation("k"), wrong)


@pytest.mark.parametrize(
    ("written", "meant"), [("200k", 200_000), ("1.5M", 1_500_000), ("200,000", 200_000), ("8_000 tokens", 8_000)]
)
def test_a_window_written_as_people_do_is_answered_with_its_number(written: str, meant: int, lcm: Lossless) -> None:
    with pytest.raises(
        InvalidInput, match=rf"window='{written}' is not a number of tokens\. Did you mean window={meant}\?"
    ):
        lcm.conversation("k").assemble(written)  # type: ignore[arg-type]  # the point: a text


@pytest.mark.parametrize("make", [Message.user, Message.assistant, Message.system, Message.tool])
def test_a_message_is_made_of_a_text_and_a_time(make: Callable[..., Message]) -> None:
    with pytest.raises(InvalidInput, match=r"None is not the text of a message\. Give a text"):
        make(None)
    with pytest.raises(InvalidInput, match="Did you mean '3'"):
        make(3)
    for wrong in NO_TIMES:
        with pytest.raises(InvalidInput, match=r"is not a time\. Write it as"):
            make("x", at=wrong)


def test_a_role_of_the_hosts_own_is_no_mistake(lcm: Lossless) -> None:
    assert list(lcm.messages("k", roles=["patch"])) == []
