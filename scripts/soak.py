"""Run everything at once on one database, kill processes at random, then check that nothing was lost.

Two hosts write turns with tool calls and large content into their own and into common conversations. Beside them run
a compaction worker, `doctor` once a second, an operator (gc, forget, backup, export, import, rewrite, prove) and a
reader (status, lists, searches). Any of them is killed with SIGKILL at any moment and started again. A host notes a
turn once it is acknowledged. At the end every such turn has to be in the database, byte for byte, once and in order,
except the messages that were forgotten on purpose.

    python scripts/soak.py --seconds 1200                     # SQLite in a temporary directory
    python scripts/soak.py --seconds 1200 --postgres          # a private PostgreSQL server
    python scripts/soak.py --seconds 60 --seed 7 --keep soak  # the same kills again, files kept in ./soak
"""

from __future__ import annotations

import argparse
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any, NamedTuple

from lossless import Lossless, Message, Settings, SummaryRequest, Text, ToolCall
from lossless.errors import ContextMoved, LosslessError, NotFound, StoreBusy

sys.path.insert(0, str(Path(__file__).parents[1]))
from tests import postgres

WINDOW = 12_000
HOSTS = ("ana", "ben")
ROLES = ("host:ana", "host:ben", "worker", "doctor", "operator", "reader")
WORDS = (
    "deploy",
    "key",
    "window",
    "ledger",
    "harbour",
    "invoice",
    "restart",
    "schema",
    "tide",
    "cutover",
    "berth",
    "mooring",
    "replica",
    "token",
)
FORGET_EVERY = 9
"""Every ninth turn holds a large result that may be forgotten."""


def first_words(request: SummaryRequest) -> str:
    """Stand in for a model: quote the beginning of the source."""
    return " ".join(request.source.split()[:60]) + "\nExpand for details about: everything else"


class Place(NamedTuple):
    """Where a run keeps its database and its notes."""

    directory: Path
    database: str

    def note(self, name: str, **values: Any) -> None:
        """Append one line, written through to the disk: a note that was made survives its writer."""
        with (self.directory / f"{name}.notes").open("a", encoding="utf-8") as notes:
            notes.write(json.dumps(values) + "\n")
            notes.flush()
            os.fsync(notes.fileno())

    def notes(self, name: str) -> list[dict[str, Any]]:
        path = self.directory / f"{name}.notes"
        lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
        return [json.loads(line) for line in lines if line.endswith("}")]  # the last one may be cut by a kill

    def open(self) -> Lossless:
        settings = Settings(
            fresh_tail_count=16,
            leaf_chunk_tokens=4_000,
            leaf_target_tokens=400,
            condensed_target_tokens=600,
            large_files_dir=str(self.directory / "files"),
        )
        return Lossless.open(self.database, settings=settings, summarizer=first_words)


def key_of(host: str, turn: int) -> str:
    return ("common", f"{host}:one", f"{host}:two")[turn % 3]


def turn_of(host: str, turn: int) -> list[Message]:
    """Make the messages of a turn: the same ones whenever it is asked for."""
    chance = random.Random(f"{host} {turn}")

    def words(count: int) -> str:
        return " ".join(f"{chance.choice(WORDS)}{chance.randrange(999)}" for _ in range(count))

    name = f"{host}-{turn}"
    messages = [Message.user(f"turn {name}: {words(chance.randrange(3, 60))}", event_id=f"{name}-user")]
    for step in range(chance.choice([0, 0, 1, 2, 3, 8])):
        call, size = f"call-{name}-{step}", chance.choice([5, 40, 300])
        if step == 0 and turn % FORGET_EVERY == 0:
            size = 20_000
        parts = (Text(words(5)), ToolCall(call, "bash", json.dumps({"command": words(4)})))
        messages.append(Message("assistant", parts, event_id=f"{call}-ask"))
        messages.append(Message.tool(words(size), call_id=call, name="bash", event_id=f"{call}-result"))
    messages.append(Message.assistant(f"done {name}: {words(chance.randrange(3, 80))}", event_id=f"{name}-reply"))
    return messages


def run_host(place: Place, name: str) -> None:
    """Write turns for ever, from the one behind the last acknowledged one."""
    done = place.notes(f"host-{name}")
    turn = done[-1]["turn"] + 1 if done else 0
    with place.open() as lcm:
        while True:
            chat = lcm.conversation(key_of(name, turn))
            messages, began = turn_of(name, turn), time.monotonic()
            try:
                chat.after_turn(messages, window=WINDOW)
            except StoreBusy as error:
                place.note("busy", role=name, error=str(error))
                continue
            place.note(f"host-{name}", turn=turn, seconds=round(time.monotonic() - began, 4))
            context = chat.assemble(WINDOW)
            if context.tokens > WINDOW:
                place.note("failures", role=name, error=f"{context.tokens} tokens were shown in {WINDOW}")
            turn += 1


def run_worker(place: Place) -> None:
    with place.open() as lcm:
        lcm.worker().run(threading.Event())


def problems(lcm: Lossless) -> list[str]:
    """Return the errors that the doctor finds."""
    return [f"{each.check}: {each.text}" for each in lcm.doctor().at_least("error")]


def run_doctor(place: Place) -> None:
    with place.open() as lcm:
        while True:
            for line in problems(lcm):
                place.note("failures", role="doctor", error=line)
            place.note("verbs", verb="doctor")
            time.sleep(1)


def run_reader(place: Place) -> None:
    chance = random.Random()
    with place.open() as lcm:
        while True:
            lcm.status()
            for listed in lcm.conversations(active=True, limit=5):
                lcm.messages(listed.key, limit=20)
                lcm.summaries.tree(listed.key, limit=20)
            lcm.grep(f"{chance.choice(WORDS)}{chance.randrange(999)}", mode="full_text", limit=5)
            place.note("verbs", verb="read")
            time.sleep(0.2)


def run_operator(place: Place) -> None:
    """Do whatever an operator does, in random order."""
    chance = random.Random()
    archive, scratch = place.directory / "archive.zip", place.directory / "scratch.db"
    with place.open() as lcm:
        while True:
            verb = chance.choice(["gc", "forget", "backup", "export", "import", "rewrite", "prove"])
            began = time.monotonic()
            try:
                _operate(place, lcm, verb, archive, scratch, chance)
            except (StoreBusy, ContextMoved, NotFound) as error:
                place.note("busy", role=verb, error=str(error))
            place.note("verbs", verb=verb, seconds=round(time.monotonic() - began, 3))


def _operate(place: Place, lcm: Lossless, verb: str, archive: Path, scratch: Path, chance: random.Random) -> None:
    match verb:
        case "gc":
            lcm.gc(apply=True, unshared=True)
        case "forget":
            _forget(place, lcm, chance)
        case "backup":
            lcm.backup(place.directory / "backups", rolling=f"soak-{chance.randrange(3)}")
        case "export":
            lcm.export(archive, replace=True)
        case "import" if archive.exists():
            for old in place.directory.glob("scratch.db*"):
                old.unlink()
            with Lossless.open(scratch, settings=Settings(large_files_dir=str(place.directory / "scratch"))) as other:
                report = other.import_(archive, apply=True)
                if report.errors:
                    place.note("failures", role="import", error=str(report.errors))
        case "rewrite":
            chat = lcm.conversation(key_of(chance.choice(HOSTS), chance.randrange(3)))
            summaries = chat.summaries()
            if summaries:
                chat.rewrite(chance.choice(summaries).id, apply=True)
        case "prove":
            for proof in lcm.doctor.prove():
                if not proof.holds:
                    place.note("failures", role="prove", error=f"{proof.key}: {proof.broken}, {proof.missing} missing")


def _forget(place: Place, lcm: Lossless, chance: random.Random) -> None:
    """Forget the large result of some turn that its host has had acknowledged."""
    host = chance.choice(HOSTS)
    forgotten = {note["event_id"] for note in place.notes("forgotten")}
    for note in reversed(place.notes(f"host-{host}")):
        messages = turn_of(host, note["turn"])
        if note["turn"] % FORGET_EVERY or len(messages) < 4 or messages[2].event_id in forgotten:
            continue
        chat = lcm.conversation(key_of(host, note["turn"]))
        stored = next((each for each in chat.messages() if each.event_id == messages[2].event_id), None)
        if stored is None:
            place.note("failures", role="forget", error=f"{messages[2].event_id} was acknowledged and is missing")
            return
        place.note("forgotten", event_id=messages[2].event_id)  # before it is done: it may be killed half way
        chat.forget(stored.id, apply=True, unshared=True)
        return


class Running:
    """The processes of a run, each started again when it was killed."""

    def __init__(self, place: Place) -> None:
        self._place, self._processes = place, dict[str, subprocess.Popen[bytes]]()

    def start(self, role: str) -> None:
        errors = (self._place.directory / f"{role.replace(':', '-')}.log").open("ab")
        command = [sys.executable, __file__, "--role", role, "--keep", str(self._place.directory)]
        with errors:
            self._processes[role] = subprocess.Popen(
                [*command, "--database", self._place.database], stdout=errors, stderr=errors
            )

    def kill(self, role: str) -> None:
        self._processes[role].kill()
        self._processes[role].wait()

    def restart_the_dead(self) -> Iterator[str]:
        """Start what ended by itself: nothing is supposed to."""
        for role, process in self._processes.items():
            if process.poll() is not None:
                yield f"{role} ended with {process.returncode}"
                self.start(role)

    def stop(self) -> None:
        for process in self._processes.values():
            process.send_signal(signal.SIGKILL)
        for process in self._processes.values():
            process.wait()


def run_for(place: Place, seconds: float, chance: random.Random) -> int:
    """Let all of them run, killing one every second or so; return the number of kills."""
    running, kills, until = Running(place), 0, time.monotonic() + seconds
    for role in ROLES:
        running.start(role)
    try:
        while time.monotonic() < until:
            time.sleep(chance.uniform(0.2, 3.5))
            for ended in list(running.restart_the_dead()):
                place.note("failures", role="supervisor", error=ended)
            role = chance.choice(ROLES)
            running.kill(role)
            running.start(role)
            kills += 1
    finally:
        running.stop()
    return kills


def check(place: Place) -> list[str]:
    """Compare what was acknowledged with what is stored; return what is wrong."""
    wrong = [f"{note['role']}: {note['error']}" for note in place.notes("failures")]
    forgotten = {note["event_id"] for note in place.notes("forgotten")}
    with place.open() as lcm:
        stored = {
            key: list(lcm.conversation(key).messages())
            for key in {key_of(host, turn) for host in HOSTS for turn in range(3)}
        }
        for host in HOSTS:
            wrong += _check_host(place, host, stored, forgotten)
        wrong += [f"doctor: {line}" for line in problems(lcm)]
        wrong += [f"prove: {proof.key}: {proof.broken}" for proof in lcm.doctor.prove() if not proof.holds]
    return wrong


def _check_host(place: Place, host: str, stored: dict[str, list[Any]], forgotten: set[str]) -> Iterator[str]:
    places = {
        key: {each.event_id: at for at, each in enumerate(messages) if each.event_id}
        for key, messages in stored.items()
    }
    for key, messages in stored.items():
        counts = Counter(each.event_id for each in messages if each.event_id)
        yield from (f"{key}: {event} is stored {count} times" for event, count in counts.items() if count > 1)
    last = dict.fromkeys(stored, -1)
    for note in place.notes(f"host-{host}"):
        key = key_of(host, note["turn"])
        for message in turn_of(host, note["turn"]):
            assert message.event_id is not None
            if message.event_id in forgotten:
                continue
            at = places[key].get(message.event_id)
            if at is None:
                yield f"{key}: {message.event_id} was acknowledged and is missing"
            elif stored[key][at].message != message:
                yield f"{key}: {message.event_id} differs from what was sent"
            elif at <= last[key]:
                yield f"{key}: {message.event_id} is out of order"
            else:
                last[key] = at


def report(place: Place, kills: int) -> None:
    turns = {host: place.notes(f"host-{host}") for host in HOSTS}
    waits = sorted(note["seconds"] for notes in turns.values() for note in notes)
    messages = sum(len(turn_of(host, note["turn"])) for host, notes in turns.items() for note in notes)
    print(f"{messages:,} messages acknowledged in {len(waits):,} turns; {kills} processes killed")
    if waits:
        print(
            f"a turn waited {waits[len(waits) // 2]:.3f} s (p99 {waits[len(waits) * 99 // 100]:.3f}, longest {waits[-1]:.3f})"
        )
    slowest: dict[str, float] = {}
    for note in place.notes("verbs"):
        slowest[note["verb"]] = max(slowest.get(note["verb"], 0.0), note.get("seconds", 0.0))
    done = Counter(note["verb"] for note in place.notes("verbs"))
    print(
        "done: " + ", ".join(f"{verb} {count} (longest {slowest[verb]:.1f} s)" for verb, count in sorted(done.items()))
    )
    busy = Counter(note["role"] for note in place.notes("busy"))
    print(f"refused as busy or moved: {dict(busy) or 'none'}; messages forgotten: {len(place.notes('forgotten'))}")


@contextmanager
def postgres_database() -> Iterator[str]:
    with postgres.server() as url:
        yield url


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--seconds", type=float, default=120)
    options.add_argument("--seed", type=int, default=None, help="which processes are killed when")
    options.add_argument("--postgres", action="store_true", help="on a private PostgreSQL server (default: SQLite)")
    options.add_argument("--keep", type=Path, metavar="DIRECTORY", help="keep the files here (default: removed)")
    options.add_argument("--role", help=argparse.SUPPRESS)
    options.add_argument("--database", help=argparse.SUPPRESS)
    given = options.parse_args()
    if given.role:
        run_role(given.role, Place(given.keep, given.database))
        return
    temporary = tempfile.TemporaryDirectory(prefix="lcm-soak-") if given.keep is None else nullcontext(given.keep)
    server = postgres_database() if given.postgres else nullcontext("")
    with temporary as name, server as url:
        directory = Path(name)
        (directory / "backups").mkdir(parents=True, exist_ok=True)
        place = Place(directory, url or str(directory / "lcm.db"))
        place.open().close()
        kills = run_for(place, given.seconds, random.Random(given.seed))
        report(place, kills)
        wrong = check(place)
    for line in wrong[:40]:
        print(line)
    if wrong:
        sys.exit(f"{len(wrong)} things are wrong")
    print("every acknowledged message is there, once, in order and unchanged")


def run_role(role: str, place: Place) -> None:
    kind, _, name = role.partition(":")
    try:
        if kind == "host":
            run_host(place, name)
        else:
            {"worker": run_worker, "doctor": run_doctor, "operator": run_operator, "reader": run_reader}[kind](place)
    except LosslessError as error:
        place.note("failures", role=role, error=f"{type(error).__name__}: {error}")
        raise


if __name__ == "__main__":
    main()
