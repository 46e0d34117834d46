"""The two conversations summaries are tried on, and the list of what a summary of them should keep.

`planted.json` was fixed before any summariser was tuned on it: change a conversation and its list together,
or neither.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator
from datetime import timedelta
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from lossless import demo
from lossless.formats import openclaw
from lossless.model import Message
from lossless.tokens import message_tokens

CASES = Path(__file__).parent / "cases" / "extractive"
FILES = {"demo": demo.TRANSCRIPT, "household": CASES / "household.jsonl"}
TOOLS = {"demo": {"read", "bash", "edit"}, "household": {"calendar", "search", "mail"}}
SIZES = {"demo": (420, 60_000, 90_000), "household": (160, 20_000, 35_000)}
KINDS = {"decision", "number", "path", "error", "name", "constraint", "open_question"}
BOTH = pytest.mark.parametrize("name", sorted(FILES))


def lines(name: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in FILES[name].read_text(encoding="utf-8").splitlines()]


def messages(name: str) -> list[Message]:
    return openclaw.load([entry["message"] for entry in lines(name)[1:]])


def strings(value: Any) -> Iterator[str]:
    """Every text inside a JSON value, tool arguments included."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, (dict, list)):
        for inner in value.values() if isinstance(value, dict) else value:
            yield from strings(inner)


def planted(name: str) -> list[dict[str, Any]]:
    items = json.loads((CASES / "planted.json").read_text(encoding="utf-8"))
    return [item for item in items if item["conversation"] == name]


@BOTH
def test_a_header_comes_first_and_the_entries_form_one_chain(name: str) -> None:
    header, *entries = lines(name)
    assert (header["type"], header["version"]) == ("session", 3)
    assert {entry["type"] for entry in entries} == {"message"}
    ids = [entry["id"] for entry in entries]
    assert len(set(ids)) == len(ids)
    assert [entry["parentId"] for entry in entries] == [None, *ids[:-1]]


@BOTH
def test_every_call_is_answered_once_and_at_once(name: str) -> None:
    asked: list[tuple[str, str]] = []
    seen: set[str] = set()
    for entry in lines(name)[1:]:
        message = entry["message"]
        if message["role"] == "toolResult":
            assert asked.pop(0) == (message["toolCallId"], message["toolName"])
            continue
        assert not asked, entry["id"]
        calls = [part for part in message["content"] if part["type"] == "toolCall"]
        assert message["role"] == "assistant" or not calls
        assert message.get("stopReason", "stop") == ("toolUse" if calls else "stop")
        asked = [(call["id"], call["name"]) for call in calls]
        assert seen.isdisjoint(ident for ident, _ in asked)
        seen.update(ident for ident, _ in asked)
        assert {tool for _, tool in asked} <= TOOLS[name]
    assert not asked
    assert seen


@BOTH
def test_an_assistant_does_not_speak_twice_in_a_row(name: str) -> None:
    roles = [message.role for message in messages(name)]
    assert ("assistant", "assistant") not in pairwise(roles)


@BOTH
def test_time_goes_forward(name: str) -> None:
    moments = [message.at for message in messages(name)]
    known = [moment for moment in moments if moment is not None]
    assert len(known) == len(moments)
    assert all(early < late for early, late in pairwise(known))
    stamps = [entry["timestamp"] for entry in lines(name)]
    assert stamps == sorted(stamps)
    if name == "demo":
        days = Counter(moment.date() for moment in known)
        assert len(days) == 5
        assert max(days) - min(days) == timedelta(days=4)
        assert min(days.values()) >= 60


@BOTH
def test_it_is_long_enough_to_be_condensed_and_small_enough_to_be_shipped(name: str) -> None:
    least, low, high = SIZES[name]
    read = messages(name)
    assert len(read) >= least
    assert low <= sum(map(message_tokens, read)) <= high
    assert FILES[name].stat().st_size < 400_000


@BOTH
def test_no_message_is_kept_as_it_came_for_want_of_understanding(name: str) -> None:
    for entry, message in zip(lines(name)[1:], messages(name), strict=True):
        assert openclaw.dump_message(message) == entry["message"]
        assert message.text or message.role == "assistant"


@BOTH
def test_people_do_not_repeat_themselves(name: str) -> None:
    said = Counter(message.text for message in messages(name) if message.role != "tool" and len(message.text) > 40)
    assert [text for text, times in said.items() if times > 1] == []


@BOTH
def test_planted_items_stand_where_the_list_says(name: str) -> None:
    items = planted(name)
    words = {entry["id"]: message.text for entry, message in zip(lines(name)[1:], messages(name), strict=True)}
    assert len(items) >= 44
    assert {item["kind"] for item in items} == KINDS
    whole = "\n".join(words.values())
    for item in items:
        assert set(item) == {"conversation", "kind", "entry", "must_contain"}
        assert item["must_contain"][0] in words[item["entry"]]
        assert all(text in whole for text in item["must_contain"])
    firsts = [item["must_contain"][0] for item in items]
    assert len(set(firsts)) == len(firsts)


@BOTH
def test_planted_items_are_spread_over_the_whole_conversation(name: str) -> None:
    places = {entry["id"]: place for place, entry in enumerate(lines(name)[1:])}
    order = [places[item["entry"]] for item in planted(name)]
    assert order == sorted(order)
    fifths = Counter(place * 5 // len(places) for place in order)
    assert all(fifths[fifth] >= len(order) // 10 for fifth in range(5)), fifths


@BOTH
def test_nothing_in_it_is_real(name: str) -> None:
    text = "\n".join(strings(lines(name)))
    hosts = re.findall(r"[\w.+-]+@([\w-]+(?:\.[\w-]+)*\.[a-z]{2,})", text)
    assert [host for host in hosts if not re.search(r"(^|\.)example\.(org|com|net)$", host)] == []
    assert re.findall(r"(?<![\w/])/(?:root|work|Users|mnt)\b", text) == []
    assert re.findall(r"https?://(?!stg-a:|\$host)[^\s\"\\]+", text) == []
    assert re.findall(r"(?i)(?:password|passwd|secret|api[_-]?key|bearer)\s*[=:]", text) == []
    assert re.findall(r"\b(?:sk|ghp|xox[abp]|AKIA)[-_A-Za-z0-9]{12,}|-----BEGIN|\beyJ[\w-]{20,}", text) == []
    addresses = re.findall(r"\b\d{1,3}(?:\.\d{1,3}){3}\b", text)
    assert [one for one in addresses if not one.startswith(("127.0.0.", "203.0.113.", "198.51.100."))] == []


def test_the_detail_stands_once_on_the_first_day() -> None:
    question, answer = demo.DETAIL
    assert question.endswith("?")
    said = demo.conversation()
    holders = [message for message in said if answer in message.text]
    assert len(holders) == 1
    assert holders[0].role == "tool"
    assert "\n".join(message.text for message in said).count(answer) == 1
    assert holders[0].at is not None
    assert said[0].at is not None
    assert holders[0].at.date() == said[0].at.date()
    assert not any(text in answer for item in planted("demo") for text in item["must_contain"])


def test_the_package_hands_out_the_same_conversation() -> None:
    entries = demo.entries()
    assert entries == lines("demo")[1:]
    assert [message.event_id for message in demo.conversation()] == [entry["id"] for entry in entries]
