"""However a file came to be as long as it is, it holds the same entries."""

from __future__ import annotations

import json
import tempfile
import tracemalloc
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lossless.transcripts import Header, Tally, TranscriptEntry, reader, recognise
from tests.transcripts.files import (
    DONE,
    Line,
    answered,
    asked,
    call,
    claude,
    codex,
    codex_session,
    item,
    pi,
    pi_session,
    prompt,
    put,
    reply,
    result,
    text,
    thinking,
    usage,
)

RUBBISH = ["", "{", "\0", "é🙂", "[1]"]
FIRST: dict[str, Line] = {
    "openclaw": pi_session(),
    "claude_code": prompt("first", None, "hello"),
    "codex": codex_session(),
    "messages": {"role": "user", "content": "hello"},
}
NAMES = st.sampled_from("abcdefgh")
PARENTS = st.none() | NAMES
STOPS = st.sampled_from([None, "tool_use", "end_turn"])
BLOCKS = st.sampled_from([text("words é🙂"), thinking("hm"), call("c1"), call("c2")])
SIDES = st.sampled_from([{}, {}, {"isSidechain": True}, {"isSidechain": True, "agentId": "bee"}])
LATER: dict[str, st.SearchStrategy[Line]] = {
    "openclaw": st.builds(pi, NAMES, PARENTS, st.text(max_size=3))
    | st.builds(lambda id, parent: {"type": "label", "id": id, "parentId": parent}, NAMES, PARENTS)
    | st.just({"role": "user", "content": "bare"}),
    "claude_code": st.builds(lambda uuid, parent, side: prompt(uuid, parent, "x", **side), NAMES, PARENTS, side=SIDES)
    | st.builds(
        lambda *a, stop, side: reply(*a, stop=stop, **side),
        *(NAMES, PARENTS, st.sampled_from(["m1", "m2"]), BLOCKS),
        stop=STOPS,
        side=SIDES,
    )
    | st.builds(result, NAMES, NAMES, st.sampled_from(["c1", "c2"]), st.just("out"))
    | st.builds(lambda *a: claude("attachment", *a, attachment={"type": "date"}), NAMES, PARENTS)
    | st.just({"type": "cost-state"}),
    "codex": st.sampled_from(
        [
            asked("x"),
            answered("words"),
            answered("told", compaction_output=True),
            item("function_call_output", call_id="c", output="out"),
            item("reasoning", summary=[]),
            usage("r1"),
            usage("r2"),
            codex("compacted", message="... words", compaction_response_id="r1"),
            DONE,
            codex("event_msg", type="token_count"),
        ]
    ),
    "messages": st.builds(lambda role, content: {"role": role, "content": content}, NAMES, st.text(max_size=3)),
}


@st.composite
def grown(draw: st.DrawFn, format: str) -> list[bytes]:
    """A file as the pieces in which it was appended to."""
    later = draw(st.lists(LATER[format].map(json.dumps) | st.sampled_from(RUBBISH), max_size=12))
    end = draw(st.sampled_from(["\n", "\r\n"]))
    whole = (json.dumps(FIRST[format]) + end + "".join(line + end for line in later)).encode()
    start = len(json.dumps(FIRST[format]))
    cuts = sorted(draw(st.sets(st.integers(start, len(whole)), max_size=4)))
    return [whole[a:b] for a, b in zip([0, *cuts], [*cuts, len(whole)], strict=True)]


def told(entries: list[TranscriptEntry]) -> list[object]:
    return [(each.id, each.parent, each.number, each.message, each.thread) for each in entries]


def follow(path: Path, pieces: list[bytes], *, by_tally: bool) -> tuple[Header, list[TranscriptEntry]]:
    """The entries of a file as somebody gets them who looks at it after every piece and keeps what is whole."""
    kept: list[TranscriptEntry] = []
    offset = number = 0
    path.write_bytes(b"")
    for piece in pieces:
        with open(path, "ab") as file:
            file.write(piece)
        header, tally = recognise(path), Tally()
        new = list(reader(header.format).entries(path, header, tally, offset=offset, number=number))
        kept = [*kept, *(each for each in new if not each.is_open)]
        number = kept[-1].number if kept else 0
        offset = tally.end if by_tally else kept[-1].end if kept else 0
    return header, [*kept, *(each for each in new if each.is_open)]


@pytest.mark.parametrize("format", list(FIRST))
@given(data=st.data(), by_tally=st.booleans())
def test_a_file_read_piece_by_piece_gives_what_it_gives_at_once(
    format: str, data: st.DataObject, by_tally: bool
) -> None:
    pieces = data.draw(grown(format))
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory) / "x.jsonl"
        header, entries = follow(path, pieces, by_tally=by_tally)
        assert header.format == format
        at_once = list(reader(format).entries(path, header, Tally()))
    assert told(entries) == told(at_once)
    ends = [each.end for each in at_once]
    assert ends == sorted(ends)


@pytest.mark.parametrize("format", ["openclaw", "claude_code"])
def test_a_branch_is_held_in_a_hundred_bytes_an_entry(tmp_path: Path, format: str) -> None:
    count = 20_000
    if format == "openclaw":
        lines = [pi_session(), *(pi(f"{n:032}", f"{n - 1:032}" if n else None, "x") for n in range(count))]
        lines.append(pi("leaf", f"{count - 2:032}", "x"))
    else:
        lines = [prompt(f"{n:032}", f"{n - 1:032}" if n else None, "x") for n in range(count // 2)]
        lines += [
            reply(f"{n:032}", f"{n - 1:032}", f"m{n}", call(f"c{n}"), stop="tool_use") for n in range(count // 2, count)
        ]
        lines.append(prompt("leaf", f"{count - 2:032}", "x"))
    path = put(tmp_path / "x.jsonl", *lines)
    header = recognise(path)
    tracemalloc.start()
    branch = reader(format).branch(path, header)
    held, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert branch is not None
    assert f"{count - 1:032}" not in branch
    assert all(name in branch for name in (f"{0:032}", f"{count - 2:032}", "leaf"))
    assert held < 20 * count
    assert peak < 100 * count + 1_000_000
