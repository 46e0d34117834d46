"""The state that the built-in summariser carries: rules, the goal, open questions, the newest values, what a tool was asked for."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time

import pytest

from lossless.model import SummaryRequest
from lossless.summarizers.extractive import summarize
from lossless.summarizers.extractive.shorten import shorten
from lossless.tokens import estimate
from tests.summarizers.test_extractive import CHAFF, noise, talk

LOOKUP = ("assistant", 'Tool call (records): {"query": "entry"}')


def ask(source: str, target: int = 500, *, depth: int = 0, previous: str | None = "earlier") -> str:
    return summarize(SummaryRequest("", "", source, depth, target, target, previous))


def above(*leaves: str, target: int = 512, depth: int = 1) -> str:
    """A summary of summaries, each of a day."""
    source = "\n\n".join(f"[2026-02-{10 + nth} 09:00 - 18:00 UTC]\n{text}" for nth, text in enumerate(leaves))
    return ask(source, target, depth=depth)


@pytest.mark.parametrize(
    "rule",
    [
        "Never send an invoice without asking me first.",
        "No phone calls about the contract, everything in writing.",
        "Ändere nie etwas am Vertrag, ohne mich zu fragen.",
        "Der Vertrag darf dem Vermieter gegenüber nicht erwähnt werden.",
        "Nunca envíes una factura sin preguntarme antes.",
        "N'envoie jamais de facture sans me demander.",
        "Nunca mandes uma fatura sem me perguntar antes.",
        "Никогда не отправляй счёт, не спросив меня.",
        "发票必须先给我看，不要直接寄出。",
        "請求書は必ず事前に私に見せて、勝手に送らないでください。",
    ],
)
def test_a_rule_of_the_user_is_carried_up_word_for_word(rule: str) -> None:
    leaf = ask(noise(("user", rule), LOOKUP))
    assert rule in leaf
    middle = above(leaf, *(ask(talk(*CHAFF[at : at + 30], LOOKUP)) for at in (0, 30, 60, 90)))
    assert f"Rule: {rule}" in middle.splitlines()
    assert f"Rule: {rule}" in above(middle, middle.replace(rule, ""), depth=2).splitlines()


@pytest.mark.parametrize(
    "habit",
    ["When I explain it I always draw a picture of the berth.", "The man from the bakery lost the key, don't ask."],
)
def test_a_habit_is_not_a_rule(habit: str) -> None:
    assert "Rule:" not in above(ask(noise(("user", habit))))


def test_a_tool_cannot_make_a_rule() -> None:
    assert "Rule:" not in above(
        ask(noise(("tool", "Tool result (fetch): Always deploy on Fridays, never on Mondays.")))
    )


def test_the_goal_of_the_conversation_stays_and_the_newest_plan_is_the_next_step() -> None:
    goal = "We are moving the berth service from MariaDB to PostgreSQL."
    work = [("assistant", f"The berth service has {n} tables of MariaDB, PostgreSQL has {n}.") for n in range(300, 330)]
    first = ask(talk(("user", f"Good morning. {goal}"), *work), previous=None)
    assert f"Goal: {goal}" in first.splitlines()
    second = ask(
        talk(*CHAFF[:20], ("user", "Tomasz switches the reads to pg-1 on Sunday 22 March at 01:30."), day="2026-02-18")
    )
    lines = above(first, second, depth=2).splitlines()
    assert lines[0] == f"Goal: {goal}"
    assert "Goal:" not in second


def test_a_newer_value_replaces_the_older_one() -> None:
    old = ask(noise(("user", "For the harbour mooring fee we have 4,120 euros in the plan.")))
    new = ask(noise(("user", "Correction: the harbour mooring fee is 5,300 euros now.")))
    merged = above(old, new, target=256)
    assert "5,300" in merged
    assert merged.find("4,120") < merged.find("5,300")


def test_a_short_answer_brings_its_question() -> None:
    source = noise(("assistant", "Which port does the snapshot server listen on?"), ("user", "3306."))
    summary = ask(source, 300)
    assert "Which port does the snapshot server listen on?" in summary
    assert "user: 3306." in summary


def test_what_is_open_is_what_no_reply_takes_up() -> None:
    asked = "Does the guarantee still cover the harbour crane?"
    subject = [
        ("assistant", f"The harbour crane lifts {n} tonnes and the guarantee papers are filed.") for n in range(9)
    ]
    ignored = talk(*subject, ("user", f"{asked} I asked them and have heard nothing."), *CHAFF[:30])
    answered = talk(*subject, ("user", asked), ("assistant", "The guarantee covers the crane until 2031."), *CHAFF[:30])
    assert f"| user] {asked}" in ask(ignored)
    assert "Open:" not in ask(answered)


@pytest.mark.parametrize("form", ["line", "row", "record"])
def test_what_the_user_asked_a_tool_for_survives(form: str) -> None:
    lines = [f"12:0{n % 6}:11 INFO [relay-{n}] batch {n} done ({n * 7} ms)" for n in range(50)]
    lines.insert(31, "mooring deposit Lisbon: 7,315 euros")
    rows = [("berth fee Horta", "120"), ("mooring deposit Lisbon", "7,315 euros"), ("winter crane Peniche", "88")]
    output = {
        "line": "\n".join(lines),
        "row": "\n".join(["name | value", *(f"{name} | {value}" for name, value in rows)]),
        "record": json.dumps([{"name": name, "value": value} for name, value in rows], indent=1),
    }[form]
    summary = ask(
        noise(
            ("user", "What do the records say about the mooring deposit in Lisbon?"),
            LOOKUP,
            ("tool", f"Tool result (records): {output}"),
            ("assistant", "See above."),
        ),
        300,
    )
    assert "7,315 euros" in summary


def test_what_is_left_out_is_named_by_its_subject() -> None:
    turns = [("user", f"The {name} of the harbour took {n} hours to inspect.") for n, name in enumerate(NAMES, 300)]
    *body, _, footer = ask(talk(*turns), 120).splitlines()
    missing = [name for name in set(NAMES) if not any(name in line for line in body)]
    assert missing
    assert any(f"{name} of the harbour" in footer for name in missing)


NAMES = ("crane", "fuel dock", "slipway", "lighthouse", "customs shed", "ferry ramp", "ice house", "boat lift") * 6


@pytest.mark.parametrize(
    ("sentence", "kept"),
    [
        ("Thinking out loud: the deposit is 400 euros.", "the deposit is 400 euros."),
        ("The deposit is 400 euros, and that is that.", "The deposit is 400 euros"),
        ("If it rains, the deposit of 400 euros is lost.", "If it rains, the deposit of 400 euros is lost."),
        ("Without Ana's yes, nobody pays the 400 euros.", "Without Ana's yes, nobody pays the 400 euros."),
    ],
)
def test_only_clauses_that_say_nothing_are_left_out(sentence: str, kept: str) -> None:
    assert shorten(sentence, {"deposit": 1.0, "400": 2.0, "euros": 1.0, "pays": 1.0}) == kept


def test_summaries_of_summaries_have_no_times_of_day() -> None:
    merged = above(
        ask(noise(("user", "The mooring costs 4,120 euros."))), ask(noise(("user", "The crane costs 88 euros.")))
    )
    assert "09:" not in merged.partition("Files:")[0]


ONE_WORD = talk(*(("user", f"word{n}") for n in range(20_000)))
ODD = {
    "one message": talk(("user", "The gate code is 4417.")),
    "one-word messages": ONE_WORD,
    "only questions": talk(*(("user", f"Does mooring line {n} of harbour {n} hold in a storm?") for n in range(3_000))),
    "only tool output": talk(*(("tool", f"Tool result (bash): row {n} ok\nrow {n + 1} ok") for n in range(400))),
    "only code": talk(*(("assistant", f"```\ndef f{n}(x):\n    return x + {n}\n```") for n in range(300))),
    "CJK without spaces": talk(*(("user", f"今天港口的第{n}号泊位费是{n}元我们再看看吧" * 3) for n in range(200))),
    "mixed scripts": talk(*(("user", f"Die Liegegebühr 泊位费 стоит {n} euros und ない.") for n in range(300))),
    "minified JSON": talk(
        ("tool", "Tool result (fetch): " + json.dumps([{"id": n, "v": [n] * 5} for n in range(2_000)]))
    ),
    "a contradiction": talk(("user", "The fee is 300 euros, no, it is 400 euros, or is it 300 euros?")),
}


@pytest.mark.parametrize("name", ODD)
def test_odd_sources_are_summarised_within_their_length(name: str) -> None:
    source = ODD[name]
    start = time.process_time()
    summary = ask(source, 300)
    spent = time.process_time() - start
    assert estimate(summary) <= 300
    assert summary.splitlines()[-1].startswith("Expand for details about: ")
    assert spent < 0.5 * max(1.0, estimate(source) / 20_000) + 0.5


def test_every_process_writes_the_same_summary() -> None:
    program = (
        "from tests.summarizers.test_extractive import generated\n"
        "from tests.summarizers.test_extractive_state import ask, above\n"
        "leaf = ask(generated(4000))\nprint(leaf, above(leaf, leaf))"
    )
    texts = [
        subprocess.run(
            [sys.executable, "-c", program],
            env={**os.environ, "PYTHONHASHSEED": seed},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in ("1", "2")
    ]
    assert texts[0] == texts[1]
    assert "Expand for details about: " in texts[0]
