"""Measure the check of a model's claims: altered values that pass, and good sentences that do not.

A stand-in model writes a text about the first 17,000 tokens of a conversation. What the library stored of it is compared
with what the model wrote, sentence by sentence.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from random import Random

from conversations.conversation import Conversation
from conversations.facts import Fact
from conversations.scoring import fold
from lossless import Lossless, Message, Settings, SummaryRequest
from lossless.tokens import estimate, message_tokens

SOURCE = 17_000
LENGTHS = (130, 400, 800, 1_300)
FORMS = ("number", "name", "path", "date", "swapped")
_ALTERED_LENGTH = 800
_PER_LINE = 3


@dataclass
class GateFigures:
    """Counts of sentences and calls."""

    altered: Counter[str] = field(default_factory=Counter)
    caught: Counter[str] = field(default_factory=Counter)
    good: Counter[int] = field(default_factory=Counter)
    removed: Counter[int] = field(default_factory=Counter)
    texts: int = 0
    calls: int = 0
    """The calls for texts without an altered value."""
    rejected: int = 0
    """The good texts of which nothing was stored."""

    def add(self, other: GateFigures) -> None:
        for mine, theirs in (
            (self.altered, other.altered),
            (self.caught, other.caught),
        ):
            mine.update(theirs)
        self.good.update(other.good)
        self.removed.update(other.removed)
        self.texts += other.texts
        self.calls += other.calls
        self.rejected += other.rejected


def measure_gate(conversation: Conversation, seed: int) -> GateFigures:
    """Let a stand-in model write good texts of several lengths, and one with altered values."""
    rng = Random(f"{seed}/gate/{conversation.language.code}/{conversation.domain}")
    count, tokens = 0, 0
    while count < len(conversation.messages) and tokens < SOURCE:
        tokens += message_tokens(conversation.messages[count])
        count += 1
    facts = [fact for nth, fact in enumerate(conversation.facts) if max(conversation.places[nth]) < count - 1]
    messages, figures = conversation.messages[:count], GateFigures()
    for length in LENGTHS:
        good = _good_sentences(conversation, facts, count, length, rng)
        stored, calls = _stored(messages, _layout(good))
        missing = [sentence for sentence in good if fold(sentence) not in stored]
        figures.good[length] += len(good)
        figures.removed[length] += len(missing)
        figures.texts += 1
        figures.calls += calls
        figures.rejected += len(missing) == len(good)
    _measure_altered(messages, facts, _good_sentences(conversation, facts, count, _ALTERED_LENGTH, rng), rng, figures)
    return figures


def _measure_altered(
    messages: Sequence[Message], facts: Sequence[Fact], good: list[str], rng: Random, figures: GateFigures
) -> None:
    """Put one altered value of each form among good sentences."""
    found = {form: each for form in FORMS if (each := _altered(facts, form, rng))}
    # A text that says both the right and the altered value would contradict itself.
    right = {each.sentence for _, fact in found.values() for each in fact.good}
    text = [sentence for sentence in good if sentence not in right]
    for sentence, _ in found.values():
        text.insert(rng.randrange(len(text) + 1), sentence)
    stored, _ = _stored(messages, _layout(text))
    for form, (sentence, _) in found.items():
        figures.altered[form] += 1
        figures.caught[form] += fold(sentence) not in stored


def _altered(facts: Sequence[Fact], form: str, rng: Random) -> tuple[str, Fact] | None:
    """Return a sentence with a value altered by one, or with the number of another fact, and its fact."""
    if form != "swapped":
        found = [(each.sentence, fact) for fact in facts for each in fact.wrong if each.form == form]
        return rng.choice(found) if found else None
    plain = [fact for fact in facts if fact.kind in ("number", "tool")]
    numbers = [(each, fact) for fact in plain for each in fact.good if each.form == "number"]
    if len(numbers) < 2:
        return None
    (one, fact), (other, _) = rng.sample(numbers, 2)
    return one.sentence.replace(one.value, other.value), fact


def _good_sentences(
    conversation: Conversation, facts: Sequence[Fact], count: int, length: int, rng: Random
) -> list[str]:
    """Return faithful sentences of about that length together: facts retold, and reported talk."""
    retold = [each.sentence for fact in facts for each in fact.good]
    reports = conversation.language.sections["reported"]
    said = [rng.choice(reports).replace("{said}", text) for nth, text in conversation.talk if nth < count - 1]
    rng.shuffle(retold)
    rng.shuffle(said)
    chosen: list[str] = []
    left = length
    while left > 0 and (retold or said):
        pool = retold if retold and (not said or rng.random() < 0.5) else said
        chosen.append(pool.pop())
        left -= estimate(chosen[-1]) + 1
    return chosen


def _layout(sentences: list[str]) -> str:
    lines = [" ".join(sentences[at : at + _PER_LINE]) for at in range(0, len(sentences), _PER_LINE)]
    return "\n".join([*(f"- {line}" for line in lines), "Expand for details about: the exact wording"])


def _stored(messages: Sequence[Message], text: str) -> tuple[str, int]:
    """Return what the library stores of a model's text, and the calls it took."""
    calls = 0

    def model(request: SummaryRequest) -> str:
        nonlocal calls
        calls += 1
        return text

    settings = Settings(timezone="UTC", fresh_tail_count=1, summary_max_calls_per_window=1_000_000)
    with Lossless.open(":memory:", settings=settings, summarizer=model, on_event=lambda event: None) as lcm:
        chat = lcm.conversation("bench")
        chat.ingest(messages)
        chat.compact(200_000, force=True)
        return "\n".join(fold(each.text) for each in chat.summaries()), calls
