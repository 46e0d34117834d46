"""Compose long conversations with facts at known places.

Everything is drawn from the seed, the language and the domain: the same three give the same messages in every process.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from random import Random

from conversations.facts import Fact, Planner, Step
from conversations.texts import Composer, Domain, Language, language
from conversations.tool_output import ToolOutput
from conversations.values import Values
from lossless import Message
from lossless.model import Text, ToolCall
from lossless.tokens import message_tokens

FULL = 50_000
_START = datetime(2026, 1, 5, 8, 0, tzinfo=UTC)
_FIRST, _LAST = 0.01, 0.96
"""The part of a conversation in which facts are said."""
_PEOPLE, _STRANGERS = 14, 0.2
"""The people of small talk, and the share of names that are mentioned once."""


@dataclass
class Conversation:
    """The messages of a conversation, its facts, and the place of each."""

    language: Language
    domain: str
    messages: list[Message] = field(default_factory=list)
    facts: list[Fact] = field(default_factory=list)
    places: dict[int, list[int]] = field(default_factory=dict)
    """The indexes of the messages that say a fact, by the index of the fact."""
    talk: list[tuple[int, str]] = field(default_factory=list)
    """The sentences of small talk with the index of their message."""
    tokens: int = 0


def generate(code: str, domain: str, seed: int, tokens: int = FULL, *, tail: float = 1.0) -> Conversation:
    """Return the conversation of a language, a domain and a seed, of about so many tokens.

    With a `tail` above 1 as many times the tokens, without facts in the part that this adds.
    """
    chosen = language(code)
    return _Writer(chosen, chosen.domains[domain], Random(f"{seed}/{code}/{domain}")).write(tokens, tail)


class _Writer:
    """Write small talk, questions, pasted text and tool calls, and the facts in between."""

    def __init__(self, chosen: Language, domain: Domain, rng: Random) -> None:
        self._rng = rng
        self._language = chosen
        self._domain = domain
        self._conversation = Conversation(chosen, domain.name)
        self._values = Values(chosen, rng)
        topics = list(domain.topics)
        rng.shuffle(topics)
        self._topics, self._others = topics[:34], topics[34:]
        self._options = list(domain.options)
        slots = {
            "thing": lambda: rng.choice(topics).name,
            "other": lambda: rng.choice(self._others).name,
            "option": lambda: rng.choice(self._options),
            "person": self._acquaintance,
            "n": self._values.loose_number,
            "small": lambda: str(rng.randrange(2, 60)),
            "id": self._values.loose_identifier,
            "date": self._values.loose_date,
        }
        self._people = [self._values.person().text for _ in range(_PEOPLE)]
        self._composer = Composer(chosen, rng, slots)
        self._output = ToolOutput(rng, slots["n"], slots["other"], slots["person"])
        self._named = [None, None] if rng.random() < 0.5 else [self._values.person().text for _ in range(3)]
        self._at = _START
        self._calls = 0

    def write(self, tokens: int, tail: float) -> Conversation:
        """Write the whole conversation."""
        planner = Planner(self._language, self._domain, self._rng, self._values, self._composer, self._output)
        facts = planner.facts(self._topics)
        self._options = planner.free_options
        self._conversation.facts = facts
        for place, nth, step in self._schedule(facts):
            while self._conversation.tokens < place * tokens:
                self._filler()
            self._conversation.places.setdefault(nth, []).extend(self._plant(step))
        while self._conversation.tokens < tail * tokens:
            self._filler()
        return self._conversation

    def _schedule(self, facts: list[Fact]) -> list[tuple[float, int, Step]]:
        """Return every step with its place, a share of the conversation; the steps of a fact stay in order."""
        planned: list[tuple[float, int, Step]] = []
        for nth, fact in enumerate(facts):
            spread = 0.15 if fact.kind == "error" else 1.0
            start = self._rng.uniform(_FIRST, _LAST if len(fact.steps) == 1 else 0.8)
            rest = sorted(self._rng.uniform(start + 0.01, min(_LAST, start + spread)) for _ in fact.steps[1:])
            planned += [(place, nth, step) for place, step in zip((start, *rest), fact.steps, strict=True)]
        return sorted(planned, key=lambda each: each[:2])

    def _plant(self, step: Step) -> Iterator[int]:
        """Say a step among small talk, and return the indexes of its messages."""
        first = len(self._conversation.messages)
        if step.role == "tool":
            self._say("user", [step.before])
            self._call(step.output)
            self._say("assistant", [step.sentence])
        elif step.before:
            self._say("assistant", [*self._chat(self._rng.randrange(2)), step.before])
            self._say("user", [step.sentence, *self._chat(self._rng.randrange(2))])
        else:
            around = self._chat(self._rng.randrange(4))
            around.insert(self._rng.randrange(len(around) + 1), self._frame(step.sentence))
            self._say(step.role, around)
            other = "assistant" if step.role == "user" else "user"
            reply = [step.after] if step.after else [self._talk("ack")] if self._rng.random() < 0.3 else []
            self._say(other, [*reply, *self._chat(self._rng.randrange(1 - len(reply), 3))])
        return iter(range(first, len(self._conversation.messages)))

    def _filler(self) -> None:
        """Write an exchange that says nothing of importance."""
        kind = self._rng.random()
        if kind < 0.34:
            self._say("user", self._chat(self._rng.randrange(1, 5)))
            self._say("assistant", [*self._maybe("ack"), *self._chat(self._rng.randrange(1, 5))])
        elif kind < 0.5:
            self._question()
        elif kind < 0.58:
            self._say("user", self._chat(self._rng.randrange(1, 3)))
            self._say("assistant", [*self._chat(self._rng.randrange(1, 3)), self._talk("offer")])
            self._say("user", [self._talk("accept"), *self._chat(self._rng.randrange(2))])
        elif kind < 0.66:
            self._say("user", self._chat(self._rng.randrange(1, 3)))
            steps = [self._talk("step") for _ in range(self._rng.randrange(3, 8))]
            mark = self._rng.choice(("- ", "* ", "{}. "))
            lines = [mark.format(nth) + each for nth, each in enumerate(steps, 1)]
            self._write(Message.assistant("\n".join([self._talk("narrate"), *lines]), at=self._next()))
        elif kind < 0.74:
            self._paste()
        else:
            self._tool_round()

    def _question(self) -> None:
        """Write a question with its answer, by either speaker."""
        asks, answers = self._rng.choice((("user", "assistant"), ("assistant", "user")))
        thing = self._rng.choice(self._others).name
        question = self._composer.compose("question", thing=thing)
        self._say(asks, [*self._chat(self._rng.randrange(3)), question])
        self._say(answers, [self._composer.compose("answer", thing=thing), *self._chat(self._rng.randrange(3))])

    def _paste(self) -> None:
        """Write a message with a pasted mail or log, and a reply."""
        if self._rng.random() < 0.5:
            mail = self._language.join(self._chat(self._rng.randrange(4, 9)))
            text = "\n".join([self._talk("paste"), "", self._talk("mail_open"), mail, self._talk("mail_close")])
        else:
            text = "\n".join([self._talk("paste"), "```", self._output.any(self._rng.randrange(6, 25)), "```"])
        self._write(self._user(text))
        self._say("assistant", [*self._maybe("ack"), *self._chat(self._rng.randrange(1, 3))])

    def _tool_round(self) -> None:
        """Write a request, one to three calls with their output, and a remark."""
        self._say("user", self._chat(self._rng.randrange(1, 3)))
        for _ in range(self._rng.randrange(1, 4)):
            if self._rng.random() < 0.25:
                lines = self._rng.randrange(6, 20)
                self._call(self._output.entry(self._rng.choice(self._others).name, self._values.loose_number(), lines))
            else:
                self._call(self._output.any(self._rng.randrange(5, 45)))
        self._say("assistant", [*self._maybe("ack"), *self._chat(self._rng.randrange(1, 4))])

    def _call(self, output: str) -> None:
        self._calls += 1
        tool, call_id = self._rng.choice(self._domain.tools), f"call_{self._calls}"
        arguments = {"query": self._rng.choice(self._others).name, "limit": self._rng.randrange(5, 60)}
        call = ToolCall(call_id, tool, json.dumps(arguments, ensure_ascii=False))
        self._write(Message("assistant", (Text(self._talk("narrate")), call), at=self._next()))
        self._write(Message.tool(output, call_id=call_id, name=tool, at=self._next()))

    def _chat(self, count: int) -> list[str]:
        """Return sentences of small talk, and note them."""
        sentences = []
        for _ in range(count):
            kind = self._rng.random()
            section = "sentence" if kind < 0.44 else "work" if kind < 0.86 else "detail" if kind < 0.97 else ""
            text = self._frame(self._talk(section) if section else self._outside())
            self._conversation.talk.append((len(self._conversation.messages), text))
            sentences.append(text)
        return sentences

    def _acquaintance(self) -> str:
        """Return one of the people who are often mentioned, or a new one."""
        return self._values.person().text if self._rng.random() < _STRANGERS else self._rng.choice(self._people)

    def _outside(self) -> str:
        """Return a statement in the words of a fact, about something that is not part of the work."""
        topic = self._talk("outside")
        topic = topic[:1].lower() + topic[1:]
        section, draw = self._rng.choice(
            (
                ("number", self._values.amount),
                ("date", self._values.day),
                ("person", self._values.person),
                ("identifier", self._values.identifier),
                ("changed_then", self._values.amount),
                ("changed_first", self._values.amount),
            )
        )
        value = draw().text
        return self._composer.compose(section, thing=topic, a=value, old=value)

    def _frame(self, sentence: str) -> str:
        """Return a sentence with a few words before or after it, sometimes: facts have them as often as small talk."""
        parts = [sentence]
        if self._rng.random() < 0.15:
            parts.insert(0, self._talk("lead"))
        if self._rng.random() < 0.15:
            parts.append(self._talk("aside"))
        return self._language.join(parts)

    def _talk(self, section: str) -> str:
        return self._composer.compose(section)

    def _maybe(self, section: str) -> list[str]:
        return [self._talk(section)] if self._rng.random() < 0.4 else []

    def _say(self, role: str, sentences: list[str]) -> None:
        text = self._language.join(sentences) or self._talk("ack")
        self._write(self._user(text) if role == "user" else Message.assistant(text, at=self._next()))

    def _user(self, text: str) -> Message:
        return Message.user(text, at=self._next(), name=self._rng.choice(self._named))

    def _write(self, message: Message) -> None:
        self._conversation.messages.append(message)
        self._conversation.tokens += message_tokens(message)

    def _next(self) -> datetime:
        """Return the time of the next message: minutes later, or the next morning."""
        pause = timedelta(minutes=self._rng.randrange(1, 9), seconds=self._rng.randrange(60))
        if self._rng.random() < 0.02 or self._at.hour >= 21:
            self._at = (self._at + timedelta(days=1)).replace(hour=8, minute=self._rng.randrange(60))
        self._at += pause
        return self._at
