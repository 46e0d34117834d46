"""Twelve planted secrets and three forgotten words: whoever looks through every byte we ever wrote finds none of them."""

from __future__ import annotations

import base64
import json
import logging
import re
import subprocess
from collections.abc import Iterator
from io import BytesIO
from pathlib import Path
from zipfile import ZipFile, is_zipfile

import pytest
from msgspec import structs

from lossless import Conversation, Lossless, Message, Text, ToolCall
from lossless.engine.shared.promise import promise_violations
from lossless.events import Event, log
from lossless.model import Opaque, SummaryRequest, ToolResult
from lossless.tools import tools
from tests.engine.compaction.test_compaction import SMALL, WINDOW, assert_promise
from tests.engine.erase.test_forget import DEEP, LARGE, RAW, WORDS, named, raw_bytes
from tests.engine.erase.test_forget import history as with_odd_words
from tests.engine.ingest.test_redaction import PLANTED
from tests.engine.ingest.test_redaction import history as with_secrets
from tests.secrets import GITHUB, GOOGLE, JWT, OPENAI, PASSWORD, PRIVATE_KEY, SLACK
from tests.transcripts.files import pi, pi_session, put

SECRETS = (*PLANTED, PRIVATE_KEY.splitlines()[1])


def loose(request: SummaryRequest) -> str:
    """A model that repeats every secret and every odd word it is shown, and the first placeholders."""
    shown = f"{request.previous or ''} {request.source}"
    odd = [word for word in (*WORDS, *SECRETS) if word in shown] + re.findall(r"\[REDACTED:\S+\]", shown)[:2]
    return f"{request.source.splitlines()[-1][:40]} {' '.join(odd)}\nExpand for details about: the rest"


def test_nobody_who_looks_through_every_byte_finds_one(
    database: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    events: list[Event] = []

    def heard(event: Event) -> None:
        events.append(event)
        log(event)

    ours, outside = tmp_path / "ours", tmp_path / "outside"
    ours.mkdir()
    where = str(ours / "lcm.db") if not database.startswith("postgresql") else database
    settings = structs.replace(
        SMALL, redact=("on",), large_file_token_threshold=1_000, large_files_dir=str(ours / "files")
    )
    with Lossless.open(where, settings=settings, summarizer=loose, on_event=heard) as lcm:
        chat = lived_in(lcm, outside)
        lcm.backup(ours / "earlier")
        assert "database" in {
            name for name, data in everything(ours, where) if RAW.encode() in data
        }  # it would be seen
        (ours / "earlier").unlink()  # what somebody made, somebody deletes
        for event_id in ("raw", "deep", "large"):
            done = chat.forget(named(chat, event_id).id, apply=True, backups=True, unshared=True)
            assert (done.complete, done.left) == (True, 0)
        for each in lcm.conversations():
            assert promise_violations(lcm._store, each.id) == []
        assert_promise(chat)
        lcm.export(ours / "export.zip")
        lcm.backup(ours / "backup")
        lcm.gc(apply=True, unshared=True)
        assert repr(chat.messages()).count("[REDACTED:") >= 12
    logged = (caplog.text, repr(events), repr([record.__dict__ for record in caplog.records]))
    found = [*everything(ours, where), *(("log", told.encode()) for told in logged)]
    assert len(SECRETS) >= 12
    assert {name for name, _ in found} >= {"export.zip", "backup", "manifest.json"}
    assert [(secret, name) for name, data in found for secret in SECRETS if is_in(secret, data)] == []
    # An index keeps words without the letters they share with the one before.
    assert [(word, name) for name, data in found for word in WORDS if word[3:].encode() in data] == []


def lived_in(lcm: Lossless, outside: Path) -> Conversation:
    """Every way in, and whatever is derived from what came."""
    chat = lcm.conversation("k")
    assert chat.ingest(with_secrets()).redacted >= 12
    chat.ingest(with_odd_words())
    chat.ingest([Message.user(f"The raw word, {RAW}, in another dress, with {GITHUB}.", event_id="raw")])
    chat.compact(WINDOW)
    assert any(DEEP in each.text or LARGE in each.text for each in chat.summaries())
    assert "[REDACTED:" in " ".join(each.text for each in chat.summaries())
    told = next(each for each in chat.summaries() if DEEP in each.text)
    assert chat.rewrite(told.id, apply=True, model=lambda request: f"{DEEP} once more. {request.source[:80]}").operation
    chat.pin(f"Mind {SLACK}")
    chat.pin(named(chat, "deep").id)
    chat.assemble(WINDOW, live=[Message.user(f"Not stored yet: {OPENAI}")])
    for word in (GITHUB, "secret", RAW):
        chat.grep(word, mode="full_text")
    transcript = put(
        outside / "session.jsonl", pi_session(), pi("a", None, f"Use {GITHUB}"), pi("b", "a", f"{JWT}", "assistant")
    )
    assert lcm.conversation("transcript").bootstrap(transcript).imported == 2
    in_names(lcm)
    session = put(outside / "other.jsonl", {**pi_session(), "id": f"session-{GITHUB}"}, pi("a", None, "hello"))
    assert lcm.import_(session, apply=True).errors == ()
    with Lossless.open(outside / "open.db", settings=SMALL, summarizer=lambda request: f"It says {GOOGLE}.") as other:
        theirs = other.conversation("imported")
        theirs.ingest([*with_secrets(), *(Message.user(f"{n} " + "some words " * 20) for n in range(60))])
        theirs.compact(WINDOW)
        theirs.pin(f"Log in with password={PASSWORD}")
        other.export(outside / "archive.zip")
    report = lcm.import_(outside / "archive.zip", apply=True)
    assert (report.errors, report.messages) == ((), 66)
    return chat


def in_names(lcm: Lossless) -> None:
    """Secrets where nobody expects words: in keys, sessions, ids, escapes, base64, and in what a delegate asks for."""
    chat = lcm.conversation(f"agent:main:{GITHUB}", session=f"session-{OPENAI}")
    log = base64.b64encode(f"a log\n{SLACK}\n{'nothing ' * 50}".encode()).decode()
    chat.ingest(
        [
            Message("assistant", (ToolCall(f"call-{GOOGLE}", "send", escaped(JWT)),), event_id=f"event-{GITHUB}"),
            Message("tool", (ToolResult(f"call-{GOOGLE}", (Text(f"data:text/plain;base64,{log}"),)),)),
            Message("assistant", (Opaque("x", {"stdout": escaped(f"key:\n{GITHUB}")}),), stop=f"refused {OPENAI}"),
        ]
    )
    again = lcm.conversation(f"agent:main:{GITHUB}", session=f"session-{OPENAI}")
    assert again.ingest([Message.assistant("x", event_id=f"event-{GITHUB}")]).copies <= 1
    assert len(again.messages()) in (3, 4)
    assert lcm.conversations.show(f"agent:main:{GITHUB}").conversation.messages == len(again.messages())
    kit = tools(chat, chat.grant(max_tokens=10_000))
    kit.call("lcm_grep", {"pattern": f"{'x' * 70} {GITHUB}", "mode": "full_text"})
    kit.call("lcm_describe", {"id": GITHUB})
    odd = (Text(5), Text(f"and {GITHUB}"))  # type: ignore[arg-type]  # no text, and stored all the same
    chat.ingest([Message("user", odd, event_id=GITHUB)])
    lcm.conversation("agent:helper", parent=f"agent:main:{GITHUB}").ingest([Message.user("hello")])
    assert len(again._family()) == 2


def escaped(text: str) -> str:
    return json.dumps({"said": text}).replace("-", "\\u002d").replace("_", "\\u005f").replace(".", "\\u002e")


def everything(ours: Path, database: str) -> Iterator[tuple[str, bytes]]:
    """All there is on disk and on the server, and what is packed in it."""
    for name, data in raw_bytes(ours, database):
        yield name, data
        yield from _unpacked(data)


def _unpacked(data: bytes) -> Iterator[tuple[str, bytes]]:
    if data[:2] == b"PK" and is_zipfile(BytesIO(data)):
        with ZipFile(BytesIO(data)) as packed:
            for name in packed.namelist():
                yield name, _plain(packed.read(name))


def _plain(data: bytes) -> bytes:
    """A dump of a server packs its rows; the program that made it reads them back."""
    if not data.startswith(b"PGDMP"):
        return data
    return subprocess.run(["pg_restore", "--file=-"], input=data, capture_output=True, check=True).stdout


def is_in(secret: str, data: bytes) -> bool:
    return any(
        each in data
        for each in (
            secret.encode(),
            secret.lower().encode(),
            escaped(secret)[10:-2].encode(),
            *(base64.b64encode(b" " * pad + secret.encode())[4:-4] for pad in range(3)),
        )
    )
