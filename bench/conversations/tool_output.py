"""Invent the output of tools: logs, tables, JSON, listings, diffs and reports."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from random import Random

_WORDS = """alpha anchor batch beacon bundle carrier chunk column cursor delta digest drain edge fetch filter frame gate
    handle header hook image index input layer lease ledger limit margin marker mirror notice offset packet panel parser
    patch pool probe queue range relay render replica route sample scope segment sensor shard signal slot socket spool
    stage status stream sweep table target thread ticket token trace tunnel update vector volume watch window worker zone"""
_NAMES = tuple(_WORDS.split())
_LEVELS = ("INFO", "INFO", "INFO", "DEBUG", "DEBUG", "WARN", "NOTICE")
_ENDINGS = ("started", "done", "skipped", "queued", "retried once", "unchanged", "cached", "closed", "opened", "ok")


class ToolOutput:
    """Write outputs of many shapes; a fact's line can be put among the others."""

    def __init__(
        self, rng: Random, number: Callable[[], str], topic: Callable[[], str], person: Callable[[], str]
    ) -> None:
        self._rng = rng
        self._number = number
        self._topic = topic
        self._person = person
        self._shapes: tuple[Callable[[int], list[str]], ...] = (
            self._log,
            self._service_log,
            self._table,
            self._listing,
            self._processes,
            self._diff,
            self._report,
            self._records,
            self._hits,
            self._trace,
            self._csv,
        )

    def any(self, lines: int) -> str:
        """Return an output of a random shape."""
        return "\n".join(self._rng.choice(self._shapes)(lines))

    def with_line(self, line: str, lines: int) -> str:
        """Return a log or listing with this line somewhere in it."""
        text = self._rng.choice((self._log, self._service_log, self._listing, self._diff))(lines)
        text.insert(self._rng.randrange(len(text) // 2, len(text) + 1), line)
        return "\n".join(text)

    def entry(self, topic: str, value: str, lines: int) -> str:
        """Return a report, table or JSON in which one entry is about the topic."""
        rows = [(self._topic(), f"{self._number()} {self._word()}") for _ in range(lines)]
        rows.insert(self._rng.randrange(len(rows) + 1), (topic, value))
        shape = self._rng.randrange(3)
        if shape == 0:
            return "\n".join(f"{name}: {what}" for name, what in rows)
        if shape == 1:
            return "\n".join(["name | value | state", *(f"{name} | {what} | {self._end()}" for name, what in rows)])
        return json.dumps([{"name": name, "value": what} for name, what in rows], ensure_ascii=False, indent=1)

    def _word(self) -> str:
        return self._rng.choice(_NAMES)

    def _end(self) -> str:
        return self._rng.choice(_ENDINGS)

    def _name(self) -> str:
        return f"{self._word()}{self._rng.choice('-_.')}{self._word()}"

    def _hex(self, digits: int) -> str:
        return f"{self._rng.randrange(16**digits):0{digits}x}"

    def _clock(self) -> str:
        rng = self._rng
        return f"{rng.randrange(24):02}:{rng.randrange(60):02}:{rng.randrange(60):02}.{rng.randrange(1000):03}"

    def _log(self, lines: int) -> list[str]:
        return [
            f"{self._clock()} {self._rng.choice(_LEVELS)} [{self._name()}] {self._word()} {self._word()} {self._end()} "
            f"({self._rng.randrange(1, 900)} ms)"
            for _ in range(lines)
        ]

    def _service_log(self, lines: int) -> list[str]:
        return [
            f"2026-01-{self._rng.randrange(1, 29):02}T{self._clock()}Z {self._word()}[{self._rng.randrange(100, 9999)}]: "
            f"{self._word()}={self._hex(6)} {self._word()}={self._rng.randrange(5000)} {self._end()}"
            for _ in range(lines)
        ]

    def _table(self, lines: int) -> list[str]:
        head = [self._word() for _ in range(self._rng.randrange(3, 6))]
        rows = [[self._name(), *(str(self._rng.randrange(9000)) for _ in head[1:])] for _ in range(lines)]
        return ["| " + " | ".join(row) + " |" for row in (head, ["---"] * len(head), *rows)]

    def _listing(self, lines: int) -> list[str]:
        rng = self._rng
        return [
            f"-rw-r--r-- 1 {self._word()} staff {rng.randrange(90_000):>6} Jan {rng.randrange(1, 29):>2} "
            f"{rng.randrange(24):02}:{rng.randrange(60):02} {self._word()}/{self._name()}.{rng.choice(('py', 'md', 'csv', 'txt'))}"
            for _ in range(lines)
        ]

    def _processes(self, lines: int) -> list[str]:
        rng = self._rng
        return ["  PID USER       TIME COMMAND"] + [
            f"{rng.randrange(1, 32_000):>5} {self._word():<8} {rng.randrange(60)}:{rng.randrange(60):02} {self._name()} --{self._word()} {rng.randrange(64)}"
            for _ in range(lines)
        ]

    def _diff(self, lines: int) -> list[str]:
        head = [
            f"--- a/{self._word()}/{self._word()}.py",
            f"@@ -{self._rng.randrange(400)},7 +{self._rng.randrange(400)},9 @@",
        ]
        return head + [
            f"{self._rng.choice(' +-')}    {self._name().replace('-', '_')} = {self._word()}({self._word()}, {self._rng.randrange(99)})"
            for _ in range(lines)
        ]

    def _report(self, lines: int) -> list[str]:
        return [f"{self._topic()}: {self._number()} {self._word()}, {self._end()}" for _ in range(max(4, lines // 2))]

    def _records(self, lines: int) -> list[str]:
        rows = [
            {"id": self._hex(8), "name": self._name(), "by": self._person(), "count": self._rng.randrange(9000)}
            for _ in range(max(2, lines // 3))
        ]
        return json.dumps(rows, ensure_ascii=False, indent=self._rng.choice((None, 1, 2))).split("\n")

    def _hits(self, lines: int) -> list[str]:
        found: list[str] = []
        for nth in range(1, max(3, lines // 3) + 1):
            found += [
                f"{nth}. {self._topic()}, {self._word()} {self._word()}",
                f"   https://{self._word()}.example.com/{self._name()}",
            ]
        return found

    def _trace(self, lines: int) -> list[str]:
        frames = [
            f'  File "/srv/{self._word()}/{self._word()}.py", line {self._rng.randrange(900)}, in {self._name().replace("-", "_")}'
            for _ in range(max(3, lines // 2))
        ]
        return [
            "Traceback (most recent call last):",
            *frames,
            f"RuntimeWarning: {self._word()} {self._word()} {self._end()}",
        ]

    def _csv(self, lines: int) -> list[str]:
        def row() -> Sequence[str]:
            return (self._hex(5), self._person(), self._word(), str(self._rng.randrange(100, 9000)), self._end())

        return ["id,who,what,amount,state", *(",".join(row()) for _ in range(lines))]
