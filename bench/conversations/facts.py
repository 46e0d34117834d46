"""Plan the facts of a conversation: how each is said, what proves that a summary keeps it, and how it could be retold."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from random import Random

from conversations.texts import Composer, Domain, Language, Topic
from conversations.tool_output import ToolOutput
from conversations.values import Value, Values

KINDS = (
    "decision",
    "changed",
    "number",
    "identifier",
    "date",
    "person",
    "rule",
    "open",
    "error",
    "contradiction",
    "tool",
)
_COUNTS = {"error": 2, "contradiction": 2}
_USUAL = 3
_ASKED, _ECHOED, _BY_ASSISTANT = 0.2, 0.35, 0.25


@dataclass(frozen=True)
class Step:
    """One moment at which something about a fact is said."""

    role: str
    sentence: str
    before: str = ""
    """The question of the other speaker that it answers."""
    after: str = ""
    """The other speaker's reply, if it takes the fact up."""
    output: str = ""
    """The output of a tool that contains the fact."""


@dataclass(frozen=True)
class Retelling:
    """A sentence that a model could write about a fact, with its value and the form of it."""

    sentence: str
    form: str
    value: str


@dataclass(frozen=True)
class Fact:
    """A fact of a conversation."""

    kind: str
    topic: tuple[str, ...]
    """The words that name its topic."""
    values: tuple[tuple[str, ...], ...]
    """Its key values, each with its spellings."""
    steps: tuple[Step, ...]
    old: tuple[tuple[str, ...], ...] = ()
    """The values that were superseded."""
    good: tuple[Retelling, ...] = ()
    """Faithful retellings."""
    wrong: tuple[Retelling, ...] = ()
    """Retellings with one value altered by one."""

    @property
    def question(self) -> bool:
        """True if it is still open at the end."""
        return self.kind == "open"


class Planner:
    """Invent the facts of one conversation."""

    def __init__(
        self, chosen: Language, domain: Domain, rng: Random, values: Values, composer: Composer, output: ToolOutput
    ) -> None:
        self._language = chosen
        self._rng = rng
        self._values = values
        self._composer = composer
        self._output = output
        self._errors, self._fixes, self._options = list(domain.errors), list(domain.fixes), list(domain.options)
        for each in (self._errors, self._fixes, self._options):
            rng.shuffle(each)

    def facts(self, topics: list[Topic]) -> list[Fact]:
        """Return 29 to 32 facts, each about a topic of its own."""
        kinds = [kind for kind in KINDS for _ in range(_COUNTS.get(kind, _USUAL))]
        kinds += [self._rng.choice(KINDS[:6]) for _ in range(2)]
        self._rng.shuffle(kinds)
        kinds = kinds[: self._rng.randrange(29, 33)]
        make: dict[str, Callable[[Topic], Fact]] = {
            "decision": self._decision,
            "changed": self._changed,
            "rule": self._rule,
            "open": self._open,
            "error": self._error,
            "contradiction": self._contradiction,
            "tool": self._tool,
        }
        return [make.get(kind, self._plain(kind))(topic) for kind, topic in zip(kinds, topics, strict=False)]

    @property
    def free_options(self) -> list[str]:
        """Return the options that no decision is about."""
        return self._options

    def _plain(self, kind: str) -> Callable[[Topic], Fact]:
        draw: dict[str, Callable[[], Value]] = {
            "number": self._values.amount,
            "identifier": self._values.identifier,
            "date": self._values.day,
            "person": self._values.person,
        }

        def make(topic: Topic) -> Fact:
            value = draw[kind]()
            step = self._said(kind, topic, value)
            if kind != "person" and self._rng.random() < _ASKED:
                step = Step(
                    "user", f"{value.text}{'。' if self._language.wide else '.'}", before=self._text("ask", topic)
                )
            good, wrong = self._retold("retell", topic, value)
            return Fact(kind, topic.words, (value.spellings,), (step,), good=good, wrong=wrong)

        return make

    def _said(self, section: str, topic: Topic, value: Value, echo: str = "echo", **more: str) -> Step:
        role = (
            "assistant"
            if self._rng.random() < _BY_ASSISTANT and section in ("number", "identifier", "error")
            else "user"
        )
        after = self._text(echo, topic, a=value.text) if echo and self._rng.random() < _ECHOED else ""
        return Step(role, self._text(section, topic, a=value.text, **more), after=after)

    def _text(self, section: str, topic: Topic, **given: str) -> str:
        return self._composer.compose(section, thing=topic.name, **given)

    def _retold(
        self, section: str, topic: Topic, value: Value, **more: str
    ) -> tuple[tuple[Retelling, ...], tuple[Retelling, ...]]:
        good = Retelling(self._text(section, topic, a=value.text, **more), value.form, value.text)
        wrong: tuple[Retelling, ...] = ()
        if value.near:
            other = value.near()
            wrong = (Retelling(self._text(section, topic, a=other.text, **more), value.form, other.text),)
        return (good,), wrong

    def _decision(self, topic: Topic) -> Fact:
        chosen, rejected = self._options.pop(), self._options[0]
        value = Value(chosen, (chosen,), "words")
        step = self._said("decision", topic, value, b=rejected)
        good, wrong = self._retold("retell", topic, value)
        return Fact("decision", topic.words, ((chosen,),), (step,), good=good, wrong=wrong)

    def _changed(self, topic: Topic) -> Fact:
        draw = self._values.day if self._rng.random() < 0.25 else self._values.amount
        stages = [draw() for _ in range(2 if self._rng.random() < 0.75 else 3)]
        first = Step("user", self._text("changed_first", topic, old=stages[0].text))
        later = [self._said("changed_then", topic, value) for value in stages[1:]]
        good, wrong = self._retold("retell_changed", topic, stages[-1], old=stages[-2].text)
        old = tuple(value.spellings for value in stages[:-1])
        return Fact("changed", topic.words, (stages[-1].spellings,), (first, *later), old, good=good, wrong=wrong)

    def _rule(self, topic: Topic) -> Fact:
        sentence, keys = self._keyed("rule", topic)
        after = self._text("echo_plain", topic) if self._rng.random() < _ECHOED else ""
        return Fact("rule", topic.words, keys, (Step("user", sentence, after=after),))

    def _open(self, topic: Topic) -> Fact:
        sentence, keys = self._keyed("open", topic)
        return Fact("open", topic.words, keys, (Step("user", sentence),))

    def _keyed(self, section: str, topic: Topic) -> tuple[str, tuple[tuple[str, ...], ...]]:
        """Return a sentence with the words that prove it: `sentence => key/other spelling ; second key`."""
        template, _, keys = self._rng.choice(self._language.sections[section]).partition(" => ")
        given: dict[str, Value] = {}
        if "{person}" in template:
            given["person"] = self._values.person()
        if "{money}" in template:
            given["money"] = self._values.amount()
        sentence = self._composer.fill(template, thing=topic.name, **{name: each.text for name, each in given.items()})
        groups = [key.strip() for key in keys.split(" ; ")]
        return sentence, tuple(
            given[key[1:-1]].spellings if key[:1] == "{" else tuple(key.split("/")) for key in groups
        )

    def _error(self, topic: Topic) -> Fact:
        error, fix = self._errors.pop(), self._fixes.pop()
        value = Value(error, (error,), "words")
        failed = self._said("error", topic, value, echo="")
        fixed = Step(self._rng.choice(("user", "assistant")), self._text("fix", topic, a=error, fix=fix))
        good, wrong = self._retold("retell_error", topic, value, fix=fix)
        return Fact("error", topic.words, ((error,), (fix,)), (failed, fixed), good=good, wrong=wrong)

    def _contradiction(self, topic: Topic) -> Fact:
        one, other = self._values.amount(), self._values.amount()
        first = Step("user", self._text("claim_a", topic, a=one.text, person=self._values.person().text))
        second = Step("user", self._text("claim_b", topic, b=other.text, person=self._values.person().text))
        good, wrong = self._retold("retell_claims", topic, one, b=other.text)
        return Fact(
            "contradiction", topic.words, (one.spellings, other.spellings), (first, second), good=good, wrong=wrong
        )

    def _tool(self, topic: Topic) -> Fact:
        value = self._values.identifier() if self._rng.random() < 0.3 else self._values.amount()
        lines = self._rng.randrange(8, 30)
        if self._rng.random() < 0.6:
            output = self._output.entry(topic.name, value.text, lines)
            step = Step("tool", self._text("looked", topic), before=self._text("look", topic), output=output)
        else:
            output = self._output.with_line(f"{topic.name}: {value.text}", 2 * lines)
            step = Step("tool", self._composer.compose("ack"), before=self._text("look", topic), output=output)
        good, wrong = self._retold("retell", topic, value)
        return Fact("tool", topic.words, (value.spellings,), (step,), good=good, wrong=wrong)
