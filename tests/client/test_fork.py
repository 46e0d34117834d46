"""A child made by fork and the database that its parent has open: neither may harm the other."""

from __future__ import annotations

import gc
import multiprocessing
import os
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from lossless import Lossless, Message, Settings
from lossless.errors import StoreUnavailable

pytestmark = [
    pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork"),
    pytest.mark.filterwarnings("ignore:.*multi-threaded, use of fork:DeprecationWarning"),
]


def say(lcm: Lossless, *words: str) -> None:
    lcm.conversation("k").ingest([Message.user(word, event_id=word) for word in words])


def said(lcm: Lossless) -> list[str]:
    return [message.text for message in lcm.conversation("k").messages()]


class Child:
    """A forked process that does something; what went wrong in it is printed, and fails the test."""

    def __init__(self, work: Callable[[], object], *, leaves: Callable[[int], object] = os._exit) -> None:
        self.pid = os.fork()
        if self.pid == 0:
            status = 1
            try:
                work()
                status = 0
            except BaseException:  # noqa: BLE001 - whatever it is, the parent has to fail for it
                sys.excepthook(*sys.exc_info())
            finally:
                leaves(status)

    def join(self) -> None:
        _, status = os.waitpid(self.pid, 0)
        assert status == 0


class Gate:
    """Closed until somebody opens it, in any process."""

    def __init__(self) -> None:
        self._read, self._write = os.pipe()

    def open(self) -> None:
        os.write(self._write, b"x")

    def wait(self) -> None:
        os.read(self._read, 1)


def test_a_child_refuses_its_parents_database_and_names_the_way_out(database: str, tmp_path: Path) -> None:
    settings = Settings(large_files_dir=str(tmp_path / "files"))
    with Lossless.open(database, settings=settings) as lcm:
        say(lcm, "before")

        def work() -> None:
            for verb in (lambda: say(lcm, "in the child"), lambda: said(lcm), lcm.status, lcm.doctor, lcm.gc):
                with pytest.raises(StoreUnavailable, match="before this process was forked") as error:
                    verb()
                assert "Open it again in this process" in str(error.value)
            lcm.close()

        Child(work).join()
        say(lcm, "after")
        assert said(lcm) == ["before", "after"]


def test_a_child_that_opens_it_again_loses_nothing_when_its_parent_closes(database: str, tmp_path: Path) -> None:
    settings = Settings(large_files_dir=str(tmp_path / "files"))
    lcm = Lossless.open(database, settings=settings)
    say(lcm, "before")
    begun, closed = Gate(), Gate()

    def work() -> None:
        with Lossless.open(database, settings=settings) as own:
            say(own, "0")
            begun.open()
            closed.wait()
            for n in range(1, 30):
                say(own, str(n))

    child = Child(work)
    begun.wait()
    say(lcm, "beside")
    lcm.close()
    closed.open()
    child.join()
    with Lossless.open(database, settings=settings) as lcm:
        assert sorted(said(lcm)) == sorted(["before", "beside", *map(str, range(30))])
        assert lcm._store.damage() == []


def test_a_child_that_drops_the_database_takes_nothing_with_it(tmp_path: Path) -> None:
    """Its parent has closed it by then and others have written on: the log that the child knows is out of date."""
    database = tmp_path / "lcm.db"
    lcm = Lossless.open(database)
    say(lcm, *map(str, range(20)))
    go = Gate()

    def work() -> None:
        nonlocal lcm
        go.wait()
        del lcm
        gc.collect()

    child = Child(work)
    lcm.close()
    with Lossless.open(database) as lcm:
        say(lcm, "and on")
    go.open()
    child.join()
    with Lossless.open(database) as lcm:
        assert said(lcm) == [*map(str, range(20)), "and on"]
        assert lcm._store.damage() == []


def test_a_child_that_ends_as_python_does_takes_nothing_with_it(tmp_path: Path) -> None:
    database = tmp_path / "lcm.db"
    script = "import sys; from tests.client.test_fork import ending; ending(sys.argv[1])"
    subprocess.run([sys.executable, "-c", script, str(database)], check=True, cwd=Path(__file__).parents[2])
    with Lossless.open(database) as lcm:
        assert said(lcm) == [*map(str, range(20)), "and on", "and on again"]
        assert lcm._store.damage() == []


def ending(database: str) -> None:
    """Fork with a database open; the child ends as any Python program does, after its parent closed and wrote on."""
    lcm = Lossless.open(database)
    say(lcm, *map(str, range(20)))
    reading = lcm._store.stream("SELECT 1 UNION SELECT 2")
    next(reading)
    go = Gate()
    child = os.fork()
    if child == 0:
        go.wait()
        return
    reading.close()
    lcm.close()
    with Lossless.open(database) as lcm:
        say(lcm, "and on", "and on again")
    go.open()
    assert os.waitpid(child, 0)[1] == 0


def test_a_child_forked_in_the_middle_of_a_call_cannot_open_the_database(tmp_path: Path) -> None:
    database = tmp_path / "lcm.db"
    (tmp_path / "link.db").symlink_to(database)
    with Lossless.open(database) as lcm:
        say(lcm, "before")

        def work() -> None:
            for path in (database, tmp_path / "link.db"):
                for read_only in (True, False):
                    with pytest.raises(StoreUnavailable, match="was in use when this process was forked") as error:
                        Lossless.open(path, read_only=read_only)
                    assert "spawn" in str(error.value)
            with Lossless.open(tmp_path / "another.db") as another:
                say(another, "fine")

        with lcm._store.transaction():
            child = Child(work)
        child.join()
        busy, over = threading.Event(), threading.Event()

        def read() -> None:
            with lcm._store.snapshot():
                busy.set()
                over.wait()

        thread = threading.Thread(target=read)
        thread.start()
        busy.wait()
        Child(work).join()
        over.set()
        thread.join()
        say(lcm, "after")
        assert said(lcm) == ["before", "after"]


def _write(database: Path, name: str) -> None:
    with Lossless.open(database) as own:
        for n in range(10):
            say(own, f"{name}-{n}")


def test_a_pool_of_forked_processes_writes_beside_its_parent(tmp_path: Path) -> None:
    database = tmp_path / "lcm.db"
    with Lossless.open(database, settings=Settings()) as lcm:
        say(lcm, "before")
        lcm.conversation("k").after_turn([Message.user("wakes the worker", event_id="w")], window=10)
        lcm.drain()
        for _ in range(20):
            try:
                with multiprocessing.get_context("fork").Pool(2) as pool:
                    pool.starmap(_write, [(database, "a"), (database, "b")])
                break
            except StoreUnavailable as refused:
                # The worker was reading at that moment. Nothing is written then, and the same events may be sent again.
                if "was in use when this process was forked" not in str(refused):
                    raise
        assert len(said(lcm)) == 22
        assert lcm._store.damage() == []


def test_a_child_leaves_the_files_of_a_database_in_memory_alone() -> None:
    with Lossless.open(":memory:", settings=Settings(large_file_token_threshold=1000)) as lcm:
        large = "A large one. " * 2000
        lcm.conversation("k").ingest([Message.user(large, event_id="large")])

        def work() -> None:
            with pytest.raises(StoreUnavailable, match="in memory"):
                said(lcm)
            lcm.close()

        Child(work).join()
        assert said(lcm) == [large]
