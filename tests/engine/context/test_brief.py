"""A brief in any view: valid for every provider, within the budget, and never at the cost of the newest messages."""

from __future__ import annotations

from random import Random

from hypothesis import given, settings
from hypothesis import strategies as st

from lossless import Message
from lossless.engine.context.fit_budget import ViewEntry, assemble
from lossless.engine.context.summary_xml import as_brief, stands_for
from lossless.tokens import message_tokens
from tests.engine.context.test_fit_budget import entry
from tests.engine.context.test_valid_requests import FORMATS, SUMMARY, Histories
from tests.validators import violations

_MESSAGE, _TOKENS = as_brief("brief_0123456789abcdef", "the task", "- a statement [msg#1]", "model", 1_000) or (
    Message.user(""),
    0,
)
BRIEF = ViewEntry(None, _MESSAGE, _TOKENS)


@given(st.randoms(use_true_random=False), st.sampled_from([0.2, 0.5, 0.8, 1.1, 3.0]))
@settings(max_examples=200)
def test_a_brief_fits_into_any_view_and_leaves_the_tail_as_it_is(random: Random, share: float) -> None:
    said, fresh = Histories(random).view()
    body = [entry(message, seq) for seq, message in enumerate(said, 2)]
    if random.random() < 0.7:
        body, fresh = [SUMMARY, *body], fresh + 1
    budget = max(1, int(share * sum(each.tokens for each in body)))
    plain = assemble((), body, fresh=fresh, budget=budget)
    made = assemble((), body, fresh=fresh, budget=budget, brief=BRIEF)
    shown = [message for message in made.context.messages if message is BRIEF.message]
    assert len(shown) <= 1
    assert made.context.over_budget == plain.context.over_budget
    if not shown:
        assert made.context == plain.context
        return
    assert made.context.tokens <= budget
    assert made.kept[made.fresh :] == plain.kept[plain.fresh :]
    for name, module in FORMATS.items():
        assert not violations(name, module.dump(made.context))


def test_a_brief_is_shown_after_the_summaries_and_before_the_messages() -> None:
    body = [SUMMARY, entry(Message.user("old"), 2), entry(Message.assistant("new"), 3)]
    made = assemble((), body, fresh=2, budget=10_000, brief=BRIEF)
    assert [message.text[:6] for message in made.context.messages] == ["<summa", "<focus", "old", "new"]
    assert [entry.item for entry in made.kept if entry.item is None] == [None]  # the summary of this test; no brief


def test_a_shortened_brief_keeps_its_first_statements_and_says_so() -> None:
    text = "\n".join(f"- statement {n} of many words [msg#{n}]" for n in range(200))
    for most in (150, 400, 1_000, 100_000):
        shown = as_brief("brief_0123456789abcdef", "the task", text, "model", most)
        assert shown is not None
        message, tokens = shown
        assert tokens == message_tokens(message) <= most
        assert "- statement 0 of" in message.text
        assert ("left out here" in message.text) == (most < 5_000)
        assert stands_for(message) == "brief_0123456789abcdef"
        assert as_brief("brief_0123456789abcdef", "the task", text, "model", most) == shown
    assert as_brief("brief_0123456789abcdef", "the task", text, "model", 60) is None
