"""A host's session, or its directory, leads to the conversation that its transcript was read into."""

from __future__ import annotations

import json
from pathlib import Path

from lossless import Lossless, Message
from lossless.engine.sync.read_marks import newest_in
from lossless.mcp.current import Place, find_current


def transcript(path: Path, session: str, directory: str, at: str) -> Path:
    line = {"type": "user", "uuid": f"u-{session}", "parentUuid": None, "sessionId": session, "cwd": directory}
    path.write_text(json.dumps({**line, "timestamp": at, "message": {"role": "user", "content": session}}) + "\n")
    return path


def test_the_newest_session_of_a_directory_is_found_by_its_whole_name(lcm: Lossless, tmp_path: Path) -> None:
    odd = '/home/ines/Müll "x"_%/\\'
    sessions = [("a", "/w"), ("b", "/w/deeper"), ("c", odd), ("d", "/w")]
    for number, (session, directory) in enumerate(sessions):
        path = transcript(tmp_path / f"{session}.jsonl", session, directory, f"2026-05-0{number + 1}T10:00:00Z")
        lcm.import_(path, apply=True)
    found = {directory: newest_in(lcm._store, directory) for directory in ("/w", "/w/deeper", odd, "/W", "/w/", "%")}
    assert {directory: row.key if row else None for directory, row in found.items()} == {
        "/w": "claude-code:d",
        "/w/deeper": "claude-code:b",
        odd: "claude-code:c",
        "/W": None,
        "/w/": None,
        "%": None,
    }


def test_a_session_leads_to_its_conversation_and_not_to_that_of_its_sub_agent(lcm: Lossless) -> None:
    parent = lcm.conversation("agent:main:main", session="run-7")
    parent.ingest([Message.user("word")])
    lcm.conversation("agent:main:sub", session="run-7", parent=parent).ingest([Message.user("word")])
    found = lcm._store.conversations.of_session("run-7")
    assert found is not None
    assert found.key == "agent:main:main"
    assert lcm._store.conversations.of_session("run-8") is None
    place = Place(environment={"LCM_CONVERSATION": "\0", "CLAUDE_CODE_SESSION_ID": "run-7"})
    assert find_current(lcm, place, {"sessionId": ["x"], "threadId": "half \ud83d"}).key == "agent:main:main"
