"""Many writers on one database, and writers that are killed."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from lossless import Lossless

WRITERS = 4
MESSAGES = 1_000
KILLS = int(os.environ.get("LCM_TEST_KILLS", "12"))

WRITE = """
import sys
from lossless import Lossless, Message
database, name, count, size = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
with Lossless.open(database) as lcm:
    shared, own = lcm.conversation("shared"), lcm.conversation(name)
    for start in range(0, count, size):
        batch = [Message.user(f"{name} {n}", event_id=f"{name}-{n}") for n in range(start, start + size)]
        (shared if start % (2 * size) else own).ingest(batch)
"""


def test_four_processes_write_thousands_of_messages(database: str) -> None:
    processes = [
        subprocess.Popen(
            [sys.executable, "-c", WRITE, database, f"writer{n}", str(MESSAGES), "2"], stderr=subprocess.PIPE
        )
        for n in range(WRITERS)
    ]
    for process in processes:
        _, problems = process.communicate()
        assert process.returncode == 0, problems.decode()
    with Lossless.open(database) as lcm:
        assert lcm.status().messages == WRITERS * MESSAGES
        shared = [m.text.split() for m in lcm.conversation("shared").messages()]
        for n in range(WRITERS):
            own = [int(m.text.split()[1]) for m in lcm.conversation(f"writer{n}").messages()]
            mine = [int(number) for name, number in shared if name == f"writer{n}"]
            assert own == sorted(own)
            assert mine == sorted(mine)
            assert sorted(own + mine) == list(range(MESSAGES))
        assert lcm._store.damage() == []
        assert lcm._store.check_search() == []


SPEAK = """
import sys
from lossless import Lossless, Message
with Lossless.open(sys.argv[1]) as lcm:
    chat = lcm.conversation("k")
    print("ready", flush=True)
    for n in range(int(sys.argv[2]), 10**9):
        chat.ingest([Message.user(f"message {n} " + "x" * (n % 700), event_id=f"e{n}"), Message.tool("y" * 300, call_id=str(n))])
        print(n, flush=True)
"""


def test_a_killed_writer_loses_nothing_it_acknowledged(tmp_path: Path) -> None:
    """It says what it has stored and is killed at once, again and again; what it said must be there."""
    database = str(tmp_path / "lcm.db")
    said, next_ = 0, 0
    for kill in range(KILLS):
        writer = subprocess.Popen(
            [sys.executable, "-c", SPEAK, database, str(next_)], stdout=subprocess.PIPE, text=True
        )
        assert writer.stdout is not None
        assert writer.stdout.readline() == "ready\n"
        acknowledged = -1
        for _ in range(3 + kill % 11):
            acknowledged = int(writer.stdout.readline())
        writer.send_signal(signal.SIGKILL)
        rest = [int(line) for line in writer.stdout.read().split() if line.isdigit()]
        writer.wait()
        writer.stdout.close()
        acknowledged = max([acknowledged, *rest])
        with Lossless.open(database) as lcm:
            assert lcm._store.damage() == []
            found = [m.event_id for m in lcm.conversation("k").messages() if m.event_id]
        assert found == [f"e{n}" for n in range(len(found))]
        assert len(found) in (acknowledged + 1, acknowledged + 2)
        said, next_ = said + 1, len(found)
    assert said == KILLS
    with Lossless.open(database) as lcm:
        assert lcm._store.check_search() == []


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_the_same_verbs_can_be_awaited(database: str, backend: str) -> None:
    import anyio

    from lossless import AsyncLossless, Message
    from lossless.tokens import message_tokens

    async def main() -> None:
        async with AsyncLossless.open(database) as lcm:
            chat = lcm.conversation("k")

            async def say(number: int) -> None:
                await chat.ingest([Message.user(str(number), event_id=str(number))])

            async with anyio.create_task_group() as group:
                for number in range(20):
                    group.start_soon(say, number)
            assert sorted(int(m.text) for m in await chat.messages()) == list(range(20))
            assert (await chat.context()).tokens > 0
            turn = [Message.user("word " * 300, event_id=f"long {n}") for n in range(100)]
            # Over the threshold and within the window: it is compacted once the conversation is idle, or drained here.
            await chat.after_turn(turn, window=sum(map(message_tokens, turn)) * 6 // 5)
            assert await lcm.drain() == 1
            assert len(await chat.summaries()) > 0
            assert (await chat.assemble(9_000)).tokens <= 9_000
            assert (await chat.compact(window=900_000)).stop == "below threshold"
            assert (await lcm.status()).messages == 120
            assert (await chat.status()).messages == 120
            assert [c.key for c in await lcm.conversations()] == ["k"]
        again = await AsyncLossless.open(database)
        assert len(await again.conversation("k").messages(limit=5)) == 5
        await again.close()

    anyio.run(main, backend=backend)


def test_a_cancelled_ingest_is_stored_whole_or_not_at_all(database: str) -> None:
    import anyio

    from lossless import AsyncLossless, Message

    async def main() -> list[int]:
        counts = []
        async with AsyncLossless.open(database) as lcm:
            for number in range(10):
                chat = lcm.conversation(f"k{number}")
                with anyio.move_on_after(0.0005 * number):
                    await chat.ingest([Message.user(str(n), event_id=str(n)) for n in range(50)])
                counts.append(len(await chat.messages()))
        return counts

    assert set(anyio.run(main)) <= {0, 50}


COMPACT = """
import sys
from lossless import Lossless, Message, Settings

settings = Settings(fresh_tail_count=4, leaf_chunk_tokens=400, leaf_target_tokens=80)
calls = 0

def summarise(request):
    global calls
    calls += 1
    print("\\n".join(line for line in request.source.splitlines() if line.startswith("turn")), flush=True)
    if calls == int(sys.argv[2]):
        print("thinking", flush=True)
        sys.stdin.read()  # until somebody kills us
    return "turn\\nExpand for details about: the rest"

with Lossless.open(sys.argv[1], settings=settings, summarizer=summarise) as lcm:
    chat = lcm.conversation("k")
    chat.ingest([Message.user(f"turn {n} " + "words " * 30, event_id=str(n)) for n in range(60)])
    chat.compact(500)
print("done", flush=True)
"""


def test_a_sweep_killed_while_the_model_thinks_goes_on_where_it_was(tmp_path: Path) -> None:
    database = str(tmp_path / "lcm.db")
    command = [sys.executable, "-c", COMPACT, database]
    first = subprocess.Popen([*command, "3"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert first.stdout is not None
    assert first.stdin is not None
    asked: list[str] = []
    while (line := first.stdout.readline().strip()) != "thinking":
        asked.append(line)
    first.send_signal(signal.SIGKILL)
    first.wait()
    first.stdout.close()
    first.stdin.close()
    with Lossless.open(database) as lcm:
        chat = lcm.conversation("k")
        assert len(chat.summaries()) == 2
        assert [m.event_id for m in chat.messages()] == [str(n) for n in range(60)]
        left = {line for m in chat.context().messages for line in m.text.splitlines()}
    second = subprocess.run([*command, "0"], capture_output=True, text=True, check=True)
    again = [line for line in second.stdout.splitlines() if line.startswith("turn")]
    assert len(again) == len(set(again))
    assert {line.split(" words")[0] for line in again} <= {line.split(" words")[0] for line in left}
    with Lossless.open(database) as lcm:
        assert lcm._store.damage() == []
        assert lcm._store.check_search() == []
        assert all(summary.level for summary in lcm.conversation("k").summaries())
