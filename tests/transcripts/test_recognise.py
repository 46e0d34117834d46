"""Whose file it is, where there are any, and what is said about those that are nobody's."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from lossless.engine.import_history.discovery import discover
from lossless.errors import InvalidInput
from lossless.model import ImportedSource
from lossless.transcripts import KNOWN, reader, recognise
from tests.transcripts.files import asked, codex_session, pi, pi_session, prompt, put


def test_the_content_decides_whose_file_it_is(tmp_path: Path) -> None:
    lines = {
        "codex": [codex_session(), asked("x")],
        "claude_code": [{"type": "mode", "mode": "normal", "sessionId": "s"}, prompt("u", None, "x")],
        "openclaw": [pi_session(), pi("a", None, "x")],
        "messages": [{"role": "user", "content": "x"}],
    }
    found = {name: recognise(put(tmp_path / "any.txt", *each)).format for name, each in lines.items()}
    assert found == {name: name for name in lines} == {each.name: each.name for each in KNOWN}


def test_a_broken_beginning_does_not_hide_whose_file_it_is(tmp_path: Path) -> None:
    path = put(tmp_path / "x.jsonl", pi_session(), pi("a", None, "x"))
    path.write_bytes(b'\0\0\0\n{"type": "mess\n' + path.read_bytes())
    assert recognise(path).format == "openclaw"


@pytest.mark.parametrize(
    ("content", "cause"),
    [
        (b"", "is empty"),
        (b" \n\n", "is empty"),
        (b"\x7fELF\x02\x01\x01\0\0\0", "is binary"),
        ('{"role": "user", "content": "x"}'.encode("utf-16"), "is in UTF-16"),
        ('{"role": "user", "content": "x"}'.encode("utf-16-be"), "is in UTF-16"),
        (b"x", "is not a known kind of transcript"),
        (b'{"name": "package", "version": "1.0"}', "is not a known kind of transcript"),
        (b"[]", "is not a known kind of transcript"),
        (b"[1, 2]", "is not a known kind of transcript"),
        (b"caf\xe9\n", "is not a known kind of transcript"),
        (b'{"type": "session"}\n', "is not a known kind of transcript"),
        (b'{"type": "session_meta", "payload": 7}\n', "is not a known kind of transcript"),
    ],
)
def test_a_file_that_is_nobodys_is_told_with_the_cause(tmp_path: Path, content: bytes, cause: str) -> None:
    path = tmp_path / "x.jsonl"
    path.write_bytes(content)
    with pytest.raises(InvalidInput, match=cause) as told:
        recognise(path)
    assert str(path) in str(told.value)
    assert told.value.hint


def test_what_is_no_file_is_told(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="is a directory"):
        recognise(tmp_path)
    with pytest.raises(InvalidInput, match="is missing"):
        recognise(tmp_path / "x.jsonl")
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(InvalidInput, match="is not a file"):
        recognise(tmp_path / "pipe")
    with pytest.raises(InvalidInput, match="not a format of transcripts"):
        reader("cobol")


def test_transcripts_are_found_in_order_and_only_in_the_tree(tmp_path: Path) -> None:
    outside = put(tmp_path / "outside" / "secret.jsonl", pi_session())
    root = tmp_path / "root"
    names = ["b/2.jsonl", "b/1.jsonl", "a.json", "c.jsonl.reset.2026-11-16T01-31-23Z", "c.jsonl.deleted.1"]
    for name in [*names, "c.jsonl.lock", "notes.txt", "d.jsonl.gz"]:
        put(root / name, pi_session())
    (root / "link.jsonl").symlink_to(outside)
    (root / "linked").symlink_to(outside.parent)
    (root / "up").symlink_to(root)
    problems = list[ImportedSource]()
    found = [str(each.path.relative_to(root)) for each in discover([root, root / "nowhere"], problems)]
    assert found == sorted(names)
    assert [(each.path, each.reason) for each in problems] == [(str(root / "nowhere"), "It is not there.")]


def test_ten_thousand_files_are_found_quickly(tmp_path: Path) -> None:
    for n in range(10_000):
        if n % 100 == 0:
            (tmp_path / f"{n // 100:03}").mkdir()
        os.close(os.open(tmp_path / f"{n // 100:03}" / f"{n:05}.jsonl", os.O_CREAT))
    before = time.process_time()
    found = [each.path for each in discover([tmp_path], [])]
    assert time.process_time() - before < 1.0
    assert len(found) == 10_000
    assert found == sorted(found)
