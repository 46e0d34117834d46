"""No verb and no command drops the locks that this process holds on a database.

On POSIX, closing any handle of a file drops every lock of the process on that file, whoever took it.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from lossless import Conversation, Lossless, Message, Settings
from lossless.client.conversations import Conversations
from lossless.client.doctor import Doctor
from lossless.client.files import ConversationFiles, StoredFiles
from lossless.client.messages import Messages
from lossless.client.summaries import Summaries
from lossless.errors import LosslessError
from tests.cli.test_golden import CASES, House, _copied, built
from tests.histories import SMALL, short
from tests.transcribing import Session, assistant, user

__all__ = ["built"]

LOCKS = Path("/proc/locks")
ROUNDS = int(os.environ.get("LCM_TEST_ROUNDS", "6"))
KEY = "agent:main:main"
pytestmark = pytest.mark.skipif(not LOCKS.exists(), reason="only Linux lists the locks of a process")


class Watch:
    """The files of one database: which locks we hold on them, and who opens them other than SQLite."""

    current: Watch | None = None

    def __init__(self, database: Path) -> None:
        self._files = [Path(f"{database}{suffix}") for suffix in ("", "-wal", "-shm")]
        self.inodes = {path.stat().st_ino for path in self._files}
        self.opened: list[str] = []

    def locks(self) -> set[tuple[int, str]]:
        """Inode and range of each lock of this process."""
        found = set()
        for line in LOCKS.read_text().splitlines():
            if "->" in line:
                continue  # somebody waits for one
            _, _, _, _, process, file, *span = line.split()[:8]
            inode = int(file.rpartition(":")[2])
            if int(process) == os.getpid() and inode in self.inodes:
                found.add((inode, "-".join(span)))
        return found

    def saw(self, name: Any) -> None:
        with suppress(OSError, TypeError, ValueError):
            if os.stat(name).st_ino in self.inodes:
                self.opened.append(str(name))


def _hook(event: str, arguments: tuple[Any, ...]) -> None:
    if event == "open" and Watch.current is not None:
        Watch.current.saw(arguments[0])


sys.addaudithook(_hook)


@contextmanager
def unharmed(database: Path) -> Iterator[None]:
    """Somebody else in this process has the database open: afterwards as before, with every lock."""
    with Lossless.open(database, settings=Settings(), on_event=lambda event: None) as holder:
        holder.conversation("held").ingest([Message.user("held", event_id="held")])
        watch = Watch(database)
        before = watch.locks()
        assert {inode for inode, _ in before} == {database.stat().st_ino, Path(f"{database}-shm").stat().st_ino}
        Watch.current = watch
        try:
            yield
        finally:
            Watch.current = None
        assert watch.locks() >= before
        assert watch.opened == []


def run(verb: Callable[[], Any]) -> None:
    """Whether it is refused or not, it must not do harm; what it returns is read to its end."""
    with suppress(LosslessError, StopIteration):
        done = verb()
        if isinstance(done, Iterator):
            list(done)


class Place:
    """A database that was lived in, and what the verbs need beside it."""

    def __init__(self, directory: Path) -> None:
        self.directory, self.database = directory, directory / "lcm.db"
        session = Session(directory / "session.jsonl", "session-9")
        session.says(user("Where is the ladder?"), assistant("In the cellar."))
        self.session = session.path
        with self.open() as lcm:
            chat = lcm.conversation(KEY, "session-1")
            chat.ingest([Message.user(f"{n}: " + "some words " * 25, event_id=str(n)) for n in range(30)])
            chat.ingest([Message.user("A large one. " * 1000, event_id="large")])
            chat.compact(window=500, force=True)
            chat.pin("what always counts")
            lcm.conversation("other").ingest([Message.user("another", event_id="o")])
            self.summary = chat.summaries()[0].id
            self.message = chat.messages()[0].id
            self.file = chat.files()[0].id
            self.operation = chat.rewrite(self.summary, apply=True).operation or ""
            lcm.backup(directory / "kept.zip")
            lcm.export(directory / "archive.zip")
        (directory / "link.jsonl").symlink_to(self.database)
        os.link(self.database, directory / "second.jsonl")
        (directory / "lcm.sqlite").write_bytes(self.database.read_bytes())  # its namesake

    def open(self, days: int = 0) -> Lossless:
        """So many days later than it is."""
        return Lossless.open(
            self.database,
            settings=SMALL,
            summarizer=short,
            on_event=lambda event: None,
            clock=lambda: time.time() + days * 86_400,
        )

    def files(self) -> list[Path]:
        """Every path that somebody could name by mistake."""
        own = [Path(f"{self.database}{suffix}") for suffix in ("", "-wal", "-shm")]
        return [*own, self.directory / "link.jsonl", self.directory / "second.jsonl", self.directory]


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Place:
    return Place(tmp_path_factory.mktemp("locks"))


def each(place: Place, take: Callable[[Path], Any]) -> None:
    """For every path that somebody could name by mistake."""
    for path in place.files():
        run(partial(take, path))


def opened(path: Path, **how: Any) -> None:
    Lossless.open(path, settings=Settings(), on_event=lambda event: None, **how).close()


def restored(place: Place, path: Path) -> None:
    Lossless.restore(path, place.database, replace=True, apply=True, settings=SMALL)


Verb = Callable[[Lossless, Place], Any]
VERBS: dict[str, Verb] = {
    "ask": lambda lcm, place: lcm.ask("Which words?"),
    "backfill": lambda lcm, place: lcm.backfill(place.session, apply=True),
    "backfill: mistaken": lambda lcm, place: each(place, lambda path: lcm.backfill(path, apply=True)),
    "backup": lambda lcm, place: lcm.backup(rolling="nightly", prove=True),
    "backup: mistaken": lambda lcm, place: each(
        place, lambda path: lcm.backup(path, rolling="nightly" if path.is_dir() else None)
    ),
    "doctor.clean": lambda lcm, place: lcm.doctor.clean(apply=True),
    "close": lambda lcm, place: lcm.close(),
    "summaries.compare": lambda lcm, place: lcm.summaries.compare(place.summary),
    "conversation": lambda lcm, place: lcm.conversation(KEY),
    "conversations": lambda lcm, place: lcm.conversations(),
    "describe": lambda lcm, place: lcm.describe(place.summary),
    "doctor": lambda lcm, place: lcm.doctor(),
    "doctor: closely": lambda lcm, place: lcm.doctor(checks=["X01", "F01", "F02", "D01"]),
    "drain": lambda lcm, place: lcm.drain(),
    "expand": lambda lcm, place: lcm.expand(place.summary),
    "export": lambda lcm, place: lcm.export(place.directory / "archive.zip", replace=True),
    "export: mistaken": lambda lcm, place: each(place, lcm.export),
    "files.read": lambda lcm, place: lcm.files.read(place.file),
    "doctor.fix": lambda lcm, place: lcm.doctor.fix(["F02", "X01"], apply=True),
    "forget": lambda lcm, place: lcm.forget("other", apply=True, backups=True),
    "forget: dry run": lambda lcm, place: lcm.forget("other"),
    "gc": lambda lcm, place: lcm.gc(apply=True),
    "gc: dry run": lambda lcm, place: lcm.gc(),
    "gc: vacuum": lambda lcm, place: lcm.gc(apply=True, vacuum=True, keep_copies=0),
    "grep": lambda lcm, place: lcm.grep("words"),
    "history": lambda lcm, place: lcm.history(),
    "find": lambda lcm, place: lcm.find(place.summary),
    "import_": lambda lcm, place: lcm.import_([place.directory / "archive.zip", place.session], apply=True),
    "import_: mistaken": lambda lcm, place: each(place, lambda path: lcm.import_(path, apply=True)),
    "files": lambda lcm, place: lcm.files(KEY),
    "messages": lambda lcm, place: lcm.messages(KEY),
    "summaries": lambda lcm, place: lcm.summaries(KEY),
    "location": lambda lcm, place: lcm.location,
    "merge": lambda lcm, place: lcm.merge(KEY, apply=True),
    "messages.around": lambda lcm, place: lcm.messages.around(place.message),
    "migrate": lambda lcm, place: lcm.migrate(place.directory / "moved.db"),
    "open": lambda lcm, place: opened(place.database),
    "open: to read": lambda lcm, place: opened(place.database, read_only=True),
    "open: mistaken": lambda lcm, place: each(place, opened),
    "open: mistaken, to read": lambda lcm, place: each(place, lambda path: opened(path, read_only=True)),
    "doctor.prove": lambda lcm, place: lcm.doctor.prove(),
    "prune": lambda lcm, place: lcm.prune("1d", include_active=True, apply=True, vacuum=True),
    "prune: dry run": lambda lcm, place: lcm.prune("1d"),
    "repair": lambda lcm, place: lcm.repair(),
    "restore": lambda lcm, place: restored(place, place.directory / "kept.zip"),
    "restore: mistaken": lambda lcm, place: each(place, partial(restored, place)),
    "resume": lambda lcm, place: lcm.resume(place.operation),
    "summaries.revisions": lambda lcm, place: lcm.summaries.revisions(place.summary),
    "conversations.show": lambda lcm, place: lcm.conversations.show(KEY),
    "files.show": lambda lcm, place: lcm.files.show(place.file),
    "messages.show": lambda lcm, place: lcm.messages.show(place.message),
    "summaries.request": lambda lcm, place: lcm.summaries.request(place.summary),
    "summaries.show": lambda lcm, place: lcm.summaries.show(place.summary),
    "stats": lambda lcm, place: lcm.stats(),
    "status": lambda lcm, place: lcm.status(),
    "messages.tail": lambda lcm, place: lcm.messages.tail(KEY),
    "transplant": lambda lcm, place: lcm.transplant(KEY, "other", apply=True),
    "summaries.tree": lambda lcm, place: lcm.summaries.tree(KEY),
    "undo": lambda lcm, place: lcm.undo(place.operation),
    "watch": lambda lcm, place: list(lcm.watch(place.files()).step()),
    "worker": lambda lcm, place: lcm.worker().step(),
}
TALK: dict[str, Callable[[Conversation, Place], Any]] = {
    "after_turn": lambda chat, place: chat.after_turn([Message.user("more", event_id="more")], 1_000),
    "ask": lambda chat, place: chat.ask("Which words?"),
    "assemble": lambda chat, place: chat.assemble(1_000),
    "bootstrap": lambda chat, place: chat.bootstrap(place.session),
    "bootstrap: mistaken": lambda chat, place: each(place, chat.bootstrap),
    "compact": lambda chat, place: chat.compact(500, force=True),
    "briefs": lambda chat, place: chat.briefs(),
    "context": lambda chat, place: chat.context(),
    "describe": lambda chat, place: chat.describe(place.summary),
    "detached": lambda chat, place: chat.detached(),
    "dissolve": lambda chat, place: chat.dissolve(place.summary, apply=True),
    "end": lambda chat, place: chat.end(),
    "expand": lambda chat, place: chat.expand(place.summary),
    "cue": lambda chat, place: chat.cue("words"),
    "explain": lambda chat, place: chat.explain(place.message),
    "files.show": lambda chat, place: chat.files.show(place.file),
    "files": lambda chat, place: chat.files(),
    "focus": lambda chat, place: chat.focus("some words", name="words"),
    "focused": lambda chat, place: chat.focused(),
    "forget": lambda chat, place: chat.forget(place.message, apply=True, backups=True),
    "grant": lambda chat, place: chat.grant(),
    "grep": lambda chat, place: chat.grep("words"),
    "history": lambda chat, place: chat.history(),
    "ingest": lambda chat, place: chat.ingest([Message.user("An even larger one. " * 2000)]),
    "messages": lambda chat, place: chat.messages(),
    "new": lambda chat, place: chat.new(),
    "pin": lambda chat, place: chat.pin("also"),
    "pins": lambda chat, place: chat.pins(),
    "files.read": lambda chat, place: chat.files.read(place.file),
    "files.lines": lambda chat, place: chat.files.lines(place.file),
    "repair": lambda chat, place: chat.repair(),
    "report_rejection": lambda chat, place: chat.report_rejection("400 invalid_request_error: messages.0"),
    "reset": lambda chat, place: chat.reset(),
    "revoke": lambda chat, place: chat.revoke(chat.grant()),
    "rewrite": lambda chat, place: chat.rewrite(place.summary, apply=True),
    "status": lambda chat, place: chat.status(),
    "summaries": lambda chat, place: chat.summaries(),
    "unfocus": lambda chat, place: chat.unfocus(),
    "unpin": lambda chat, place: chat.unpin(chat.pins()[0].id),
}


GROUPS: dict[type, dict[str, type]] = {
    Lossless: {
        "conversations": Conversations,
        "doctor": Doctor,
        "files": StoredFiles,
        "messages": Messages,
        "summaries": Summaries,
    },
    Conversation: {"files": ConversationFiles},
}


@pytest.mark.parametrize(("kind", "verbs"), [(Lossless, VERBS), (Conversation, TALK)])
def test_every_verb_is_watched(kind: type, verbs: dict[str, Any]) -> None:
    known = {name for name in dir(kind) if not name.startswith("_")}
    # What is no method, such as the key of a conversation, is not on the class.
    groups = {name: GROUPS[kind][name] for name in known & GROUPS[kind].keys()}
    known |= {f"{group}.{name}" for group, own in groups.items() for name in dir(own) if not name.startswith("_")}
    assert known == {name.partition(":")[0] for name in verbs}


def copied(place: Place, directory: Path) -> Place:
    shutil.copytree(place.directory, directory, symlinks=True)
    copy = object.__new__(Place)
    copy.__dict__.update(place.__dict__, directory=directory, database=directory / "lcm.db")
    copy.session = directory / place.session.name
    (directory / "link.jsonl").unlink()
    (directory / "link.jsonl").symlink_to(copy.database)
    (directory / "second.jsonl").unlink()
    os.link(copy.database, directory / "second.jsonl")
    return copy


@pytest.mark.parametrize("verb", VERBS)
def test_a_verb_drops_no_lock_of_its_process(verb: str, place: Place, tmp_path: Path) -> None:
    copy = copied(place, tmp_path / "copy")
    with unharmed(copy.database), copy.open(days=10) as lcm:
        run(lambda: VERBS[verb](lcm, copy))


@pytest.mark.parametrize("verb", TALK)
def test_a_verb_of_a_conversation_drops_no_lock_of_its_process(verb: str, place: Place, tmp_path: Path) -> None:
    copy = copied(place, tmp_path / "copy")
    with unharmed(copy.database), copy.open(days=10) as lcm:
        run(lambda: TALK[verb](lcm.conversation(KEY), copy))


@pytest.mark.parametrize("command", CASES)
def test_a_command_drops_no_lock_of_its_process(command: str, built: House, tmp_path: Path) -> None:
    house = _copied(built, tmp_path / "copy")
    with unharmed(house.database):
        for case in CASES[command]:
            house.run(case)


WRITE = """
import os, sys
from lossless import Lossless, Message
n = 0
while not os.path.exists(sys.argv[2]):
    with Lossless.open(sys.argv[1]) as lcm:
        for _ in range(5):
            lcm.conversation("k").ingest([Message.user(f"one {n}", event_id=f"one-{n}")])
            n += 1
print(n)
"""
EXAMINE = """
import sys, threading
from lossless import Lossless, Message
n, over = 0, threading.Event()
def write():
    global n
    while not over.is_set():
        lcm.conversation("k").ingest([Message.user(f"two {n}", event_id=f"two-{n}")])
        n += 1
with Lossless.open(sys.argv[1]) as lcm:
    thread = threading.Thread(target=write)
    thread.start()
    damaged = []
    for round in range(int(sys.argv[2])):
        damaged += [(each.text, each.samples) for each in lcm.doctor().findings if each.check == "D01"]
        lcm.gc(apply=True)
        if round % 3 == 2:
            lcm.conversation("mine").ingest([Message.user(f"mine {round}", event_id=f"mine-{round}")])
            lcm.forget("mine", apply=True)
    over.set()
    thread.join()
print(damaged)
print(n)
"""


def test_two_writers_lose_nothing_while_one_examines_and_forgets(tmp_path: Path) -> None:
    database, stop = tmp_path / "lcm.db", tmp_path / "stop"
    Lossless.open(database).close()
    one, two = (
        subprocess.Popen([sys.executable, "-c", *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        for words in ((WRITE, database, stop), (EXAMINE, database, str(ROUNDS)))
    )
    told = two.communicate()
    stop.touch()
    counts = {"one": one.communicate(), "two": told}
    assert (one.returncode, two.returncode) == (0, 0), counts
    assert told[0].splitlines()[0] == "[]"
    with Lossless.open(database) as lcm:
        found = {message.event_id for message in lcm.conversation("k").messages()}
        wrote = {f"{name}-{n}" for name, (said, _) in counts.items() for n in range(int(said.split()[-1]))}
        assert found == wrote
        assert lcm._store.damage() == []
