"""Databases of other systems, as their older versions wrote them, and what a test needs to import them."""

from __future__ import annotations

import hashlib
import json
import shutil
from pathlib import Path
from typing import Any

import apsw

from lossless import Lossless
from lossless.engine.import_history import foreign_history
from lossless.imports import recognise
from lossless.model import Imported
from tests.fixtures import database

CLAW = database("lossless-claw-0.15.3")
HERMES = database("hermes-lcm-0.7")

CLAW_01 = """
CREATE TABLE conversations (conversation_id INTEGER PRIMARY KEY AUTOINCREMENT, session_id TEXT NOT NULL, title TEXT,
  bootstrapped_at TEXT, created_at TEXT NOT NULL, updated_at TEXT NOT NULL);
CREATE TABLE messages (message_id INTEGER PRIMARY KEY AUTOINCREMENT, conversation_id INTEGER NOT NULL, seq INTEGER NOT NULL,
  role TEXT NOT NULL, content TEXT NOT NULL, token_count INTEGER NOT NULL, created_at TEXT NOT NULL);
CREATE TABLE message_parts (part_id TEXT PRIMARY KEY, message_id INTEGER NOT NULL, session_id TEXT NOT NULL,
  part_type TEXT NOT NULL, ordinal INTEGER NOT NULL, text_content TEXT, tool_call_id TEXT, tool_name TEXT, tool_input TEXT,
  tool_output TEXT, patch_hash TEXT, patch_files TEXT, metadata TEXT);
CREATE TABLE summaries (summary_id TEXT PRIMARY KEY, conversation_id INTEGER NOT NULL, kind TEXT NOT NULL,
  depth INTEGER NOT NULL DEFAULT 0, content TEXT NOT NULL, token_count INTEGER NOT NULL, earliest_at TEXT, latest_at TEXT,
  descendant_count INTEGER NOT NULL DEFAULT 0, created_at TEXT NOT NULL, file_ids TEXT NOT NULL DEFAULT '[]');
CREATE TABLE summary_messages (summary_id TEXT, message_id INTEGER, ordinal INTEGER);
CREATE TABLE summary_parents (summary_id TEXT, parent_summary_id TEXT, ordinal INTEGER);
CREATE TABLE context_items (conversation_id INTEGER, ordinal INTEGER, item_type TEXT, message_id INTEGER, summary_id TEXT,
  created_at TEXT, PRIMARY KEY (conversation_id, ordinal));
CREATE TABLE large_files (file_id TEXT PRIMARY KEY, conversation_id INTEGER, file_name TEXT, mime_type TEXT, byte_size INTEGER,
  storage_uri TEXT NOT NULL, exploration_summary TEXT, created_at TEXT);
"""
CLAW_06 = (
    CLAW_01
    + """
ALTER TABLE conversations ADD COLUMN session_key TEXT;
ALTER TABLE conversations ADD COLUMN active INTEGER NOT NULL DEFAULT 1;
ALTER TABLE conversations ADD COLUMN archived_at TEXT;
ALTER TABLE summaries ADD COLUMN model TEXT NOT NULL DEFAULT 'unknown';
"""
)
HERMES_04 = """
CREATE TABLE messages (store_id INTEGER PRIMARY KEY AUTOINCREMENT, session_id TEXT NOT NULL, source TEXT DEFAULT '',
  role TEXT NOT NULL, content TEXT, tool_call_id TEXT, tool_calls TEXT, tool_name TEXT, timestamp REAL NOT NULL,
  token_estimate INTEGER DEFAULT 0, pinned INTEGER DEFAULT 0);
CREATE TABLE summary_nodes (node_id INTEGER PRIMARY KEY AUTOINCREMENT, session_id TEXT NOT NULL, depth INTEGER DEFAULT 0,
  summary TEXT NOT NULL, source_ids TEXT NOT NULL DEFAULT '[]', source_type TEXT NOT NULL DEFAULT 'messages',
  created_at REAL NOT NULL, earliest_at REAL, latest_at REAL, expand_hint TEXT DEFAULT '');
CREATE TABLE metadata (key TEXT PRIMARY KEY, value TEXT);
INSERT INTO metadata VALUES ('schema_version', '4');
CREATE TABLE lcm_lifecycle_state (conversation_id TEXT PRIMARY KEY, current_session_id TEXT, last_finalized_session_id TEXT);
"""


class Old:
    """A database in the making."""

    def __init__(self, path: Path, schema: str) -> None:
        self.path = path
        self._db = apsw.Connection(str(path))
        self.run(schema)

    def run(self, sql: str, *values: Any) -> None:
        self._db.execute(sql, values).fetchall()

    def add(self, table: str, **columns: Any) -> int:
        places = ", ".join("?" * len(columns))
        self.run(f"INSERT INTO {table} ({', '.join(columns)}) VALUES ({places})", *columns.values())
        return self._db.last_insert_rowid()

    def close(self) -> Path:
        self._db.close()
        return self.path


class OldClaw(Old):
    """A database of lossless-claw: messages are numbered from 1 on, conversations too."""

    def conversation(self, session: str = "s", **columns: Any) -> int:
        times = {"created_at": "2025-03-01 10:00:00", "updated_at": "2025-03-02 10:00:00"}
        return self.add("conversations", session_id=session, **{**times, **columns})

    def say(self, conversation: int, *texts: str) -> list[int]:
        said = []
        for text in texts:
            seq = len(list(self._db.execute("SELECT 1 FROM messages WHERE conversation_id = ?", (conversation,)))) + 1
            at = f"2025-03-01 10:{seq // 60:02}:{seq % 60:02}"
            role = "assistant" if seq % 2 == 0 else "user"
            said.append(
                self.add(
                    "messages",
                    conversation_id=conversation,
                    seq=seq,
                    role=role,
                    content=text,
                    token_count=1,
                    created_at=at,
                )
            )
        return said

    def leaf(self, conversation: int, name: str, messages: list[int], **columns: Any) -> str:
        return self._summary(conversation, name, "leaf", "summary_messages", "message_id", messages, columns)

    def condensed(self, conversation: int, name: str, sources: list[str], **columns: Any) -> str:
        return self._summary(conversation, name, "condensed", "summary_parents", "parent_summary_id", sources, columns)

    def _summary(
        self, conversation: int, name: str, kind: str, table: str, column: str, below: list[Any], more: dict[str, Any]
    ) -> str:
        told = {"content": f"{name} says it all.", "token_count": 9, "created_at": "2025-03-01 11:00:00"}
        self.add("summaries", summary_id=name, conversation_id=conversation, kind=kind, **{**told, **more})
        for at, each in enumerate(below):
            self.add(table, **{"summary_id": name, column: each, "ordinal": at})
        return name

    def show(self, conversation: int, *items: int | str) -> None:
        for at, item in enumerate(items):
            kind = "message" if isinstance(item, int) else "summary"
            self.add("context_items", conversation_id=conversation, ordinal=at, item_type=kind, **{f"{kind}_id": item})


class OldHermes(Old):
    """A database of hermes-lcm."""

    def say(self, session: str, *texts: str, **columns: Any) -> list[int]:
        return [
            self.add("messages", session_id=session, role="user", content=text, timestamp=1_700_000_000.5, **columns)
            for text in texts
        ]

    def node(self, session: str, sources: list[int], *, of: str = "messages", **columns: Any) -> int:
        told = {"summary": "It was said.", "created_at": 1_700_000_100.0, "source_ids": json.dumps(sources)}
        return self.add("summary_nodes", session_id=session, source_type=of, **{**told, **columns})


def move_in(lcm: Lossless, path: Path, *, trust_pins: bool = False, **options: Any) -> Imported:
    """Import a database, and prove that its file is as it was and alone."""
    before = files_beside(path)
    source = recognise(path, **options)
    try:
        plan = foreign_history.plan(lcm._store, source)
        done = foreign_history.apply(
            lcm._store,
            lcm._files,
            lambda key, session: lcm.conversation(key, session)._intake,
            source,
            plan,
            trust_pins=trust_pins,
        )
    finally:
        source.close()
    assert files_beside(path) == before
    return done


def files_beside(path: Path) -> dict[str, str]:
    """Everything in the directory of a database, by its content."""
    return {
        str(each): hashlib.sha256(each.read_bytes()).hexdigest()
        for each in path.parent.glob(f"{path.name}*")
        if each.is_file()
    }


def in_wal_mode(fixture: Path, directory: Path) -> Path:
    """A copy in the mode in which programs that are in use leave their databases."""
    path = directory / fixture.name
    shutil.copyfile(fixture, path)
    database = apsw.Connection(str(path))
    database.execute("PRAGMA journal_mode = WAL").fetchall()
    database.close()
    return path
