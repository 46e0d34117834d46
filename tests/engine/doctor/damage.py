"""A conversation that was lived in, what can be wrong with it, and how to tell whether anything else changed."""

from __future__ import annotations

from typing import Any

import apsw

from lossless import Lossless, Message, Text, ToolCall
from lossless.store.postgres.store import PostgresStore
from lossless.store.store import Store

KEY = "agent:main:main"


def call(number: int) -> list[Message]:
    calling = Message("assistant", (Text("looking"), ToolCall(f"call_{number}", "grep", '{"for": "it"}')))
    return [calling, Message.tool("found it", call_id=f"call_{number}", name="grep")]


def live(lcm: Lossless) -> int:
    """Two depths of summaries, tool calls, a message that no model sees, a large file, a message behind it all; its id."""
    chat = lcm.conversation(KEY, "session-1")
    chat.ingest([Message.user(f"{n}: " + "some words " * 25, event_id=f"event-{n}") for n in range(24)])
    chat.ingest(call(1))
    chat.ingest([Message.user("A large one. " * 1000)])
    chat.ingest([Message.user("the last question"), Message.assistant("the last answer")])
    chat.compact(window=500, force=True)
    return chat.status().id


def inside(lcm: Lossless) -> Store:
    assert isinstance(lcm._store, Store)
    return lcm._store


def plant(lcm: Lossless, *statements: str, **parameters: Any) -> None:
    """Write what no program of ours would: nothing checks what it refers to."""
    store = inside(lcm)
    if isinstance(store, PostgresStore):
        with store.transaction():
            store.run("SET LOCAL session_replication_role = replica")
            for statement in statements:
                store.run(statement, **parameters)
        return
    raw = apsw.Connection(store.location)
    raw.set_busy_timeout(5000)
    for statement in statements:
        raw.execute(statement, parameters).fetchall()
    raw.close()


def contents(lcm: Lossless) -> dict[str, list[Any]]:
    """Every row of every table that is not derived by the database itself."""
    store = inside(lcm)
    return {
        table: [tuple(row) for row in store.tables.rows(store.tables.shape(table))] for table in store.tables.names()
    }


def words(lcm: Lossless) -> list[Any]:
    """Every message, but for the estimate of what it costs."""
    store = inside(lcm)
    shape = store.tables.shape("message")
    at = shape.columns.index("tokens")
    return [(*row[:at], *row[at + 1 :]) for row in store.tables.rows(shape)]
