"""What a model writes is stored without what its source does not support, and the model is not asked again for it."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable

import pytest

from lossless import Lossless, Message, Settings, SummaryRequest
from lossless.engine.compaction.faithful import check_claims, copies, repeats_prompt, statements, without
from lossless.engine.compaction.summarize import complete_sentences
from lossless.model import Summary
from lossless.tokens import estimate

ROOMS = "kitchen cellar attic garage pantry balcony studio laundry nursery workshop library corridor".split()  # noqa: SIM905 - a list of words
THINGS = "boiler gutter window radiator carpet ceiling chimney skylight staircase wardrobe cupboard fireplace".split()  # noqa: SIM905 - a list of words
NAMES = "Maren Tobias Ines Calum Dario Odile Samir Agnes Lucian Noor Greta Yusuf".split()  # noqa: SIM905 - a list of words
CHAT = "The weather was fine and the neighbours had a party again. Somebody painted a fence near the station."


def history() -> list[Message]:
    """144 things in rooms, each with its price, said by somebody, among talk."""
    said = []
    for n, (room, thing) in enumerate((room, thing) for room in ROOMS for thing in THINGS):
        said.append(
            Message.user(f"{CHAT} {NAMES[n % 12]} says the {thing} in the {room} costs {price(n)} euros. {CHAT}")
        )
        said.append(Message.assistant(f"Noted. {CHAT}"))
    return said


def price(n: int) -> int:
    return 1_013 + 37 * n


SOURCE = "\n\n".join(
    f"[2026-03-{1 + n // 12:02} {8 + n % 12:02}:10 UTC | {message.role}]\n{message.parts[0].text}"  # type: ignore[union-attr]  # texts only
    for n, message in enumerate(history())
)
GOOD = [f"The {THINGS[n % 12]} in the {ROOMS[n // 12]} will cost {price(n):,} euros." for n in range(0, 130, 13)]


def kept(text: str, source: str = SOURCE) -> str:
    return without(text, check_claims(text, source).suspected)


def test_a_claim_near_what_its_sentence_is_about_stays() -> None:
    text = "\n".join(f"- {each}" for each in GOOD)
    assert kept(text) == text


def test_a_number_of_another_thing_far_away_is_no_support() -> None:
    wrong = f"The boiler in the kitchen will cost {price(100):,} euros."
    assert kept(f"{GOOD[1]} {wrong} {GOOD[2]}") == f"{GOOD[1]} {GOOD[2]}"


@pytest.mark.parametrize("n", [0, 40, 77, 143])
def test_a_number_altered_by_one_goes_with_its_sentence_alone(n: int) -> None:
    thing, room = THINGS[n % 12], ROOMS[n // 12]
    wrong = f"The {thing} in the {room} will cost {price(n) + 1:,} euros."
    assert kept(f"{GOOD[3]}\n- {wrong}\n- {GOOD[4]}") == f"{GOOD[3]}\n- {GOOD[4]}"


LONG = f"""[2026-03-01 08:10 UTC | user]
The migration took 46 minutes in January and 28 minutes in March. The quiche for the party has 24 eggs.
La tarta del pueblo lleva 36 huevos. Das Brot für das Fest braucht 64 Nüsse.

[2026-03-02 08:10 UTC | user]
{SOURCE}"""


@pytest.mark.parametrize(
    ("right", "wrong"),
    [
        ("The migration became faster by 18 minutes.", "The migration became faster by 17 minutes."),
        ("The migration took 74 minutes in January and March together.", "The migration took 71 minutes altogether."),
        ("Half of the eggs for the quiche, 12 eggs, are left.", "Half of the eggs for the quiche, 13 eggs, are left."),
        ("The quiche needs twenty-four eggs.", "The quiche needs twenty-six eggs."),
        (
            "Para la tarta, que es del pueblo, hacen falta treinta y seis huevos.",
            "Para la tarta, que es del pueblo, hay treinta y dos huevos.",
        ),
        (
            "Das Brot für das Fest ist mit vierundsechzig Nüssen.",
            "Das Brot für das Fest ist mit sechsundvierzig Nüssen.",
        ),
    ],
)
def test_numbers_in_words_halves_sums_and_differences_are_understood(right: str, wrong: str) -> None:
    assert kept(right, LONG) == right
    assert kept(f"{GOOD[3]} {wrong}", LONG) == GOOD[3]


@pytest.mark.parametrize(
    ("source", "right", "wrong"),
    [
        ("Ask Maren Halber or Ilka Brunweg.", "Maren Halber knows it.", "Maren Halwick knows it."),
        ("Ask Maren Halber or Ilka Brunweg.", "Ilka Brunweg knows it.", "Ilka Halber knows it."),
        (
            "Bitte frag Ilka Brunler nach dem Regal, das ist für die Kunden.",
            "Das Regal ist bei Ilka Brunler, die für die Kunden da ist.",
            "Das Regal ist bei Ilka Brunstein, die für die Kunden da ist.",
        ),
        ("Это сделает Ксения Ковпет.", "Сделает Ксения Ковпет.", "Сделает Ксения Ковчен."),
        ("露天風呂は斎藤千咲の担当です。", "担当は斎藤千咲です。", "担当は斎藤千美です。"),
        ("急救包由韩书瑶负责。", "负责人是韩书瑶。", "负责人是韩书桐。"),
        ("见shared/roster-642.txt。", "名单在shared/roster-642.txt。", "名单在shared/roster-643.txt。"),
    ],
)
def test_a_name_of_another_person_is_no_support(source: str, right: str, wrong: str) -> None:
    assert kept(right, source) == right
    assert kept(wrong, source) == ""


def test_statements_are_sentences_and_entries_of_the_last_lines() -> None:
    text = "- Dr. Alvarado came on the 5. März. It took 310 ms. Fine!\nFiles: a.py, b.py\nExpand for details about: x"
    found = [text[start:end].strip() for start, end in statements(text)]
    assert found == ["Dr. Alvarado came on the 5. März.", "It took 310 ms.", "Fine!", "a.py", "b.py", "x"]


@pytest.mark.parametrize("cut", [True, False])
def test_half_a_sentence_at_the_end_is_no_statement(cut: bool) -> None:
    whole = "- Anna moved the launch.\n- Bernd agreed."
    assert complete_sentences(f"{whole}\n- Then the", cut=cut) == whole
    assert complete_sentences(f"{whole} And then the whole", cut=cut) == whole
    assert complete_sentences(whole, cut=cut) == whole
    footer = f"{whole}\nExpand for details about: the rest of"
    assert complete_sentences(footer, cut=cut) == footer


def test_a_text_is_only_cut_where_it_plainly_stops() -> None:
    assert complete_sentences("Anna moved the launch", cut=False) == "Anna moved the launch"
    assert complete_sentences("- launch moved\n- Bernd agreed", cut=False) == "- launch moved\n- Bernd agreed"


PROMPT = (
    "Write the summary in plain sentences. Keep every decision with its reason. Copy identifiers exactly as they are."
)


@pytest.mark.parametrize(
    ("text", "refused"),
    [
        (" ".join(GOOD), False),
        (PROMPT, True),
        (f"{PROMPT} {GOOD[0]}", True),
        ("The choir sang in the town hall until nine. Everybody went home by tram after the last song.", True),
        ("The choir sang in the town hall until nine. " + " ".join(GOOD[:3]), False),
    ],
)
def test_a_repetition_of_the_prompt_or_of_the_summary_before_is_refused(text: str, refused: bool) -> None:
    before = "The choir sang in the town hall until nine. Everybody went home by tram after the last song."
    assert (copies(text, SOURCE, before) or repeats_prompt(text, SOURCE, PROMPT)) == refused


INVENTED = (
    "The delegation agreed on a treaty about fishing rights. Several ministers opposed the tariff and left early. "
    "A journalist published the leaked protocol. The parliament will vote after the summer recess."
)


def test_a_text_about_something_else_is_invented() -> None:
    assert check_claims(INVENTED, SOURCE).invented
    assert not check_claims(" ".join(GOOD), SOURCE).invented
    assert not check_claims(
        "Котёл на кухне стоит дорого. Окно в гараже тоже. Ковёр в библиотеке дешевле.", SOURCE
    ).invented


def summarised(model: Callable[[SummaryRequest], str], **settings: float) -> tuple[list[Summary], str]:
    """Return the summaries of the history by a model, and the whole context."""
    chosen = Settings(timezone="UTC", fresh_tail_count=2, leaf_chunk_tokens=40_000, **settings)  # type: ignore[arg-type]  # numbers only
    with Lossless.open(":memory:", settings=chosen, summarizer=model) as lcm:
        chat = lcm.conversation("k")
        chat.ingest(history())
        chat.compact(200_000, force=True)
        return chat.summaries(), str(chat.assemble(200_000).messages)


class Model:
    """A model with one answer, which counts its calls."""

    def __init__(self, text: str) -> None:
        self.text, self.calls = text, 0

    def __call__(self, request: SummaryRequest) -> str:
        self.calls += 1
        return self.text


FOOTER = "Expand for details about: the talk"
WRONG = "Gerhard Zimmermann paid 918,273 euros for the boiler in the kitchen."


def test_an_unsupported_sentence_is_removed_and_counted_without_another_call() -> None:
    model = Model("\n".join([*GOOD[:6], WRONG, *GOOD[6:], FOOTER]))
    (summary,), context = summarised(model)
    assert model.calls == 1
    assert (summary.level, summary.faithful, summary.removed) == ("normal", 1.0, 1)
    assert "Zimmermann" not in context
    last = "Expand for details about: the talk, 1 statement left out because it was not found in the sources"
    assert summary.text == "\n".join([*GOOD, last])


def test_a_note_that_a_model_copies_is_not_counted() -> None:
    note = "7 statements left out because they were not found in the sources"
    (summary,), _ = summarised(Model("\n".join([*GOOD, f"{FOOTER}, {note}"])))
    assert (summary.removed, note in summary.text) == (0, False)


def test_a_contradiction_is_marked_and_costs_no_call() -> None:
    rule = "Never send the invoice of the boiler to the landlord."

    def model(request: SummaryRequest) -> str:
        return "\n".join([*GOOD, "Send the invoice of the boiler to the landlord.", FOOTER])

    chosen = Settings(timezone="UTC", fresh_tail_count=2, leaf_chunk_tokens=40_000)
    with Lossless.open(":memory:", settings=chosen, summarizer=model) as lcm:
        chat = lcm.conversation("k")
        chat.ingest([Message.user(rule), *history()])
        chat.compact(200_000, force=True)
        (summary,) = chat.summaries()
    assert summary.level == "normal"
    assert summary.faithful is not None
    assert 0.5 < summary.faithful < 1
    assert summary.removed == 0


@pytest.mark.parametrize("text", [INVENTED, f"{WRONG} {WRONG.replace('boiler', 'carpet')} {GOOD[0]}"])
def test_nothing_of_an_invented_summary_is_in_the_context(text: str) -> None:
    model = Model(f"{text}\n{FOOTER}")
    (summary,), context = summarised(model)
    assert (model.calls, summary.level, summary.model) == (2, "extractive", "extractive")
    assert not any(each.strip(". ") in context for each in (*INVENTED.split(". "), "Zimmermann"))


def test_a_text_of_three_times_the_target_is_cut_at_the_end_of_a_sentence() -> None:
    every = [f"The {THINGS[n % 12]} in the {ROOMS[n // 12]} will cost {price(n):,} euros." for n in range(144)]
    model = Model(" ".join(every))
    (summary,), _ = summarised(model, leaf_target_tokens=600, summary_max_overage_factor=2)
    assert model.calls == 1
    assert summary.level == "cut"
    assert estimate(summary.text) <= 1_200
    said = summary.text.split("\n")[0]
    assert said.endswith(" euros.")
    assert " ".join(every).startswith(said)
    assert summary.text.endswith("[Truncated for context management]")


def test_the_check_is_the_same_in_every_process() -> None:
    program = (
        "from tests.engine.compaction.test_gate import *\n"
        "print(check_claims(' '.join(GOOD) + WRONG + INVENTED, SOURCE), copies(WRONG, SOURCE, WRONG))"
    )
    results = {
        subprocess.run(
            [sys.executable, "-c", program],
            env={**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in ("1", "2", "3")
    }
    assert len(results) == 1
