"""A file that grows is read line by line, each byte once, and what is no record is counted and passed over."""

from __future__ import annotations

import builtins
import io
import json
import tracemalloc
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lossless.formats.wire import Record
from lossless.transcripts import Tally
from lossless.transcripts.lines import parse_record, records
from tests.transcripts.files import SESSION, pi, pi_session, put, read, words

ANY_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(st.characters(exclude_categories=())),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=8,
)


def taken(path: Path, **options: Any) -> tuple[list[Record], Tally]:
    tally = Tally()
    return [record for record, _ in records(path, tally, **options)], tally


def test_records_come_with_the_offset_behind_their_line(tmp_path: Path) -> None:
    path = tmp_path / "x.jsonl"
    path.write_bytes(b'\xef\xbb\xbf{"a":1}\r\n\r\n\n{"a":2}\n')
    tally = Tally()
    assert list(records(path, tally)) == [({"a": 1}, 12), ({"a": 2}, 23)]
    assert (tally.lines, tally.malformed, tally.end) == (2, 0, 23)
    assert [record for record, _ in records(path, Tally(), offset=12)] == [{"a": 2}]


@pytest.mark.parametrize(
    "line",
    [
        pytest.param(b'{"a": "\xff"}', id="not UTF-8"),
        pytest.param('{"a": 1}'.encode("utf-16-le"), id="UTF-16"),
        pytest.param(b"# a comment", id="not JSON"),
        pytest.param(b'["a"]', id="no object"),
        pytest.param(b'{"a": {"b": 1{"a": 2}}', id="two writers"),
        pytest.param(b'{"a": 1}{"a": 2}', id="two lines in one"),
        pytest.param(b"\0\0\0\0", id="NULs"),
        pytest.param(b'{"a": "\0"}', id="a NUL in a text"),
        pytest.param(b'{"a":' * 100_000, id="no end of nesting"),
    ],
)
def test_what_is_no_record_is_counted_and_passed_over(tmp_path: Path, line: bytes) -> None:
    path = tmp_path / "x.jsonl"
    path.write_bytes(b'{"a": 1}\n' + line + b'\n{"a": 2}\n')
    found, tally = taken(path)
    assert found == [{"a": 1}, {"a": 2}]
    assert (tally.lines, tally.malformed) == (3, 1)
    assert tally.end == path.stat().st_size


@given(value=st.dictionaries(st.text(max_size=3), ANY_JSON, max_size=3), ascii_only=st.booleans())
def test_every_value_is_read_as_the_standard_library_reads_it(value: Record, ascii_only: bool) -> None:
    try:
        line = json.dumps(value, ensure_ascii=ascii_only).encode()
    except UnicodeEncodeError:  # a lone surrogate is only ever written as an escape
        line = json.dumps(value).encode()
    assert repr(parse_record(line)) == repr(json.loads(line))


@pytest.mark.parametrize(
    "line", ['{"a": 1e400}', '{"a": 1, "a": 2}', '{"a": 123456789012345678901234567890}', '{"a": -0.0}']
)
def test_numbers_and_keys_out_of_the_ordinary_are_kept(line: str) -> None:
    assert repr(parse_record(line.encode())) == repr(json.loads(line))


def test_a_half_written_line_is_left_and_given_when_it_is_whole(tmp_path: Path) -> None:
    path = tmp_path / "x.jsonl"
    path.write_bytes(b'{"a": 1}\n{"a": ')
    found, tally = taken(path)
    assert (found, tally.malformed, tally.end) == ([{"a": 1}], 0, 9)
    with open(path, "ab") as file:
        file.write(b"2}")
    found, tally = taken(path, offset=tally.end)
    assert found == [{"a": 2}]  # whole, though nobody ended the line
    with open(path, "ab") as file:
        file.write(b'\n{"a": 3}\n')
    assert taken(path, offset=tally.end)[0] == [{"a": 3}]


def test_a_line_beyond_the_limit_is_passed_over_without_being_held(tmp_path: Path) -> None:
    path = tmp_path / "x.jsonl"
    path.write_bytes(b'{"a": 1}\n{"a": "' + b"x" * 20_000_000 + b'"}\n{"a": 2}\n')
    tracemalloc.start()
    found, tally = taken(path, longest=1_000)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert found == [{"a": 1}, {"a": 2}]
    assert (tally.lines, tally.too_long, tally.malformed) == (3, 1, 0)
    assert peak < 2_000_000


def test_a_line_beyond_the_limit_that_is_still_written_is_left(tmp_path: Path) -> None:
    path = tmp_path / "x.jsonl"
    path.write_bytes(b'{"a": 1}\n{"a": "' + b"x" * 5_000)
    found, tally = taken(path, longest=1_000)
    assert (found, tally.too_long, tally.end) == ([{"a": 1}], 0, 9)


def test_a_file_that_grew_costs_only_its_new_bytes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = put(tmp_path / "x.jsonl", pi_session(), *(pi(f"e{n}", None, "old " * 100) for n in range(1_000)))
    entries, header, tally = read(path)
    new = (json.dumps(pi("new", "e999", "new words")) + "\n").encode()
    with open(path, "ab") as file:
        file.write(new)
    cost = 0

    class Counted(io.FileIO):
        def readinto(self, buffer: Any, /) -> int | None:
            nonlocal cost
            got = super().readinto(buffer)
            cost += got or 0
            return got

    monkeypatch.setattr(builtins, "open", lambda file, mode, buffering: io.BufferedReader(Counted(file), buffering))
    entries, _, tally = read(path, offset=tally.end, number=entries[-1].number, header=header)
    assert words(entries) == [("user", "new words")]
    assert entries[0].number == 1_001
    assert header.session == SESSION
    assert cost == len(new)
