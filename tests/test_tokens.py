from __future__ import annotations

import base64
import hashlib
import json
import math
import random
import warnings
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from statistics import median
from timeit import timeit

import pytest
from anthropic.types import Usage
from hypothesis import given
from hypothesis import strategies as st
from openai.types import CompletionUsage

from lossless.model import File, Message, Opaque, Reasoning, Text, ToolCall, ToolResult
from lossless.tokens import (
    IMAGE_TOKENS,
    MESSAGE_TOKENS,
    PART_TOKENS,
    Calibration,
    estimate,
    estimate_bytes,
    message_tokens,
    reported,
    truncate,
)

CASES = Path(__file__).parent / "cases" / "tokens"
"""Texts written for this test. None of them was among those the weights were fitted to."""


def texts(kind: str) -> list[str]:
    if kind == "base64":
        rng = random.Random("held out")
        raw = [base64.b64encode(rng.randbytes(6_000)) for _ in range(3)]
        lines = base64.encodebytes(rng.randbytes(6_000))
        return [text.decode() for text in (*raw, lines)]
    return [path.read_text("utf-8") for path in sorted(CASES.glob(f"{kind}-*.txt"))]


def pieces(kind: str, how_many: int = 200) -> list[str]:
    """Pieces of 60 to 6,000 bytes, the sizes even on a logarithmic scale, beginning with a line or a sentence."""
    rng = random.Random(kind)
    found: list[str] = []
    sources = texts(kind)
    together = "\n".join(sources)
    while len(found) < how_many:
        size = int(math.exp(rng.uniform(math.log(60), math.log(6_000))))
        source = rng.choice(sources)
        if len(source.encode()) < size:
            source = together * 2
        start = rng.randrange(len(source) - size // 4)
        start = max(source.rfind(mark, 0, start) + len(mark) for mark in ("\n", "。", ". "))
        piece = source[start : start + size].encode()[:size].decode(errors="ignore")
        if len(piece.encode()) >= 60:
            found.append(piece)
    return found


@pytest.fixture(scope="module")
def count() -> Callable[[str], int]:
    with warnings.catch_warnings():  # it reads its vocabulary in a deprecated way
        warnings.simplefilter("ignore", DeprecationWarning)
        from bpe_openai import get_encoding  # type: ignore[import-untyped]  # ships no types
    encode = get_encoding("o200k_base").encode_ordinary
    return lambda text: len(encode(text))


@pytest.mark.parametrize("kind", ["english", "code", "json", "chinese", "japanese", "russian", "emoji", "base64"])
def test_the_estimate_is_near_a_real_tokenizer(kind: str, count: Callable[[str], int]) -> None:
    errors = [abs(estimate(piece) / count(piece) - 1) for piece in pieces(kind)]
    assert median(errors) <= 0.10


@pytest.mark.parametrize("kind", ["english", "code", "json", "chinese", "japanese", "russian", "emoji", "base64"])
def test_errors_mostly_cancel_out_over_a_conversation(kind: str, count: Callable[[str], int]) -> None:
    found = texts(kind)
    assert sum(map(estimate, found)) == pytest.approx(sum(map(count, found)), rel=0.10)


@pytest.mark.parametrize("kind", ["english", "code", "russian", "base64"])
def test_a_long_text_costs_about_what_its_parts_cost(kind: str) -> None:
    whole = "\n".join(texts(kind))
    parts = [whole[at : at + 700] for at in range(0, len(whole), 700)]
    assert estimate(whole) == pytest.approx(sum(map(estimate, parts)), rel=0.05)


@pytest.mark.parametrize("kind", ["english", "code", "json", "chinese", "base64"])
@pytest.mark.parametrize("size", [350, 5_000, 100_000])
def test_estimating_costs_at_most_three_times_hashing(kind: str, size: int) -> None:
    text = "\n".join(texts(kind)).encode()
    data = (text * (size // len(text) + 1))[:size]
    runs = max(3, 200_000 // size)
    sha256 = hashlib.sha256
    best = math.inf
    for _attempt in range(200):  # a moment each: a busy second must not decide
        hashing = estimating = math.inf
        for _repeat in range(15):  # in turns, so that a noisy neighbour slows both
            hashing = min(hashing, timeit(lambda: sha256(data).digest(), number=runs))
            estimating = min(estimating, timeit(lambda: estimate_bytes(data), number=runs))
        best = min(best, estimating / hashing)
        if best <= 3:
            return
    pytest.fail(f"{best:.2f} times the hash of {size} bytes of {kind}")


def test_only_the_empty_text_is_free() -> None:
    assert estimate("") == estimate_bytes(b"") == 0
    assert [estimate(text) for text in (" ", "\n", "a", "}", "\0", "é")] == [1] * 6


@pytest.mark.parametrize("character", ["=", " ", "-", "\x80"])
def test_a_long_run_of_one_character_is_never_free(character: str) -> None:
    assert estimate(character * 1_280_000) >= 10_000


def test_a_run_of_spaces_is_cheap_and_base64_is_dear() -> None:
    assert estimate(" " * 1_000) < 50
    assert estimate(base64.b64encode(random.Random(1).randbytes(750)).decode()) > 600


anything = st.text(st.characters(codec=None))
"""Every code point, lone surrogates as well."""


@given(anything)
def test_any_text_has_an_estimate(text: str) -> None:
    assert estimate(text) >= min(1, len(text))
    assert estimate(text) == estimate_bytes(text.encode("utf-8", "surrogatepass"))


@given(st.binary())
def test_bytes_that_are_not_utf8_have_one_too(data: bytes) -> None:
    assert estimate_bytes(data) >= min(1, len(data))


@given(anything | st.text(" \n{}ab", max_size=3_000), st.integers(-1, 50))
def test_a_truncated_text_is_a_beginning_that_fits(text: str, max_tokens: int) -> None:
    result = truncate(text, max_tokens)
    assert text.startswith(result)
    assert estimate(result) <= max(0, max_tokens)


@given(anything)
def test_a_text_that_fits_is_not_truncated(text: str) -> None:
    assert truncate(text, estimate(text)) == text


def test_truncating_uses_the_room_there_is() -> None:
    [story] = [path.read_text("utf-8") for path in CASES.glob("english-story.txt")]
    assert estimate(truncate(story, 300)) == 300
    assert truncate(story, 0) == truncate(story, -5) == ""


@given(
    ratio=st.floats(0.3, 3.9),
    overhead=st.integers(0, 60_000),
    size=st.integers(1_000, 50_000),
    growth=st.lists(st.floats(1.2, 3), min_size=2, max_size=2),
    following=st.floats(0.3, 3),
)
def test_three_turns_teach_ratio_and_overhead(
    ratio: float, overhead: int, size: int, growth: list[float], following: float
) -> None:
    calibration = Calibration()
    for factor in (1.0, *growth):
        size = round(size * factor)
        calibration = calibration.observe(size, round(ratio * size + overhead))
    size = round(size * following)
    assert calibration.apply(size) == pytest.approx(ratio * size + overhead, rel=0.10)
    assert calibration.samples == 3


@pytest.mark.parametrize(("estimated", "reported"), [(4_000, 5_200), (4_000, 2_900), (1_000, 12_000)])
def test_turns_of_one_size_teach_that_size(estimated: int, reported: int) -> None:
    calibration = Calibration()
    for _ in range(3):
        calibration = calibration.observe(estimated, reported)
    assert calibration.apply(estimated) == pytest.approx(reported, rel=0.01)


@given(st.integers(0, 7), st.sampled_from([1, 100, 900_000]))
def test_one_wild_count_changes_little(position: int, wild: int) -> None:
    calibration = Calibration()
    for turn in range(8):
        size = 5_000 + 3_000 * turn
        calibration = calibration.observe(size, wild if turn == position else round(1.2 * size + 9_000))
    assert calibration.apply(40_000) == pytest.approx(1.2 * 40_000 + 9_000, rel=0.10)


def test_noise_is_averaged_away() -> None:
    rng = random.Random(4)
    calibration = Calibration()
    for turn in range(12):
        size = 8_000 + 5_000 * turn
        calibration = calibration.observe(size, round((1.15 * size + 15_000) * rng.uniform(0.97, 1.03)))
    assert calibration.apply(90_000) == pytest.approx(1.15 * 90_000 + 15_000, rel=0.05)


def test_it_follows_when_the_overhead_changes() -> None:
    calibration = Calibration()
    for turn in range(30):
        size = 5_000 + 1_500 * turn
        calibration = calibration.observe(size, size + (4_000 if turn < 15 else 20_000))
    assert calibration.apply(60_000) == pytest.approx(80_000, rel=0.10)


@pytest.mark.parametrize(("estimated", "reported"), [(1_000, 0), (1_000, -1), (0, 500), (-3, 500)])
def test_nonsense_teaches_nothing(estimated: int, reported: int) -> None:
    calibration = Calibration().observe(1_000, 1_100)
    assert calibration.observe(estimated, reported) == calibration
    assert Calibration().apply(1_000) == 1_000


def test_a_message_costs_what_the_model_reads() -> None:
    def part(*texts: str) -> int:
        return PART_TOKENS + sum(map(estimate, texts))

    message = Message(
        "assistant",
        (
            Reasoning("The file must be read first.", signature="c2lnbmF0dXJl" * 50),
            Text("Let me look."),
            ToolCall("call_1", "read_file", '{"path": "README.md"}'),
        ),
    )
    assert message_tokens(message) == (
        MESSAGE_TOKENS
        + part("The file must be read first.")
        + part("Let me look.")
        + part("read_file", '{"path": "README.md"}')
    )
    answer = Message("tool", (ToolResult("call_1", (Text("# Title\n"), Text("and words"))),))
    assert message_tokens(answer) == MESSAGE_TOKENS + PART_TOKENS + part("# Title\n") + part("and words")
    assert message_tokens(Message("user")) == MESSAGE_TOKENS
    assert message_tokens(Message.user("hi", name="ada")) > message_tokens(Message.user("hi"))


def test_a_file_costs_an_image_and_never_its_base64() -> None:
    data = base64.b64encode(random.Random(2).randbytes(90_000)).decode()
    for file in (File("image/png", data=data), File("image/png", url=f"data:image/png;base64,{data}")):
        assert message_tokens(Message("user", (file,))) == MESSAGE_TOKENS + PART_TOKENS + IMAGE_TOKENS
    named = File("image/png", name="cat.png", url="https://example.org/cat.png")
    assert message_tokens(Message("user", (named,))) < 40


def test_an_opaque_part_costs_its_json() -> None:
    data = {"diff": "-a\n+b", "files": ["ä.txt", "\ud800"], "n": 3}
    expected = MESSAGE_TOKENS + PART_TOKENS + estimate(json.dumps(data, ensure_ascii=False))
    assert message_tokens(Message("assistant", (Opaque("patch", data),))) == expected


@pytest.mark.parametrize(
    ("usage", "tokens"),
    [
        ({"input_tokens": 10, "cache_creation_input_tokens": 200, "cache_read_input_tokens": 3_000}, 3_210),
        ({"input_tokens": 10, "cache_read_input_tokens": None, "output_tokens": 5}, 10),
        ({"prompt_tokens": 700, "completion_tokens": 9, "prompt_tokens_details": {"cached_tokens": 500}}, 700),
        ({"input_tokens": 700, "input_tokens_details": {"cached_tokens": 500}, "output_tokens": 9}, 700),
        ({"input": 5, "output": 1, "cacheRead": 60, "cacheWrite": 700}, 765),
        (Usage(input_tokens=10, output_tokens=1, cache_read_input_tokens=90), 100),
        (CompletionUsage(prompt_tokens=33, completion_tokens=1, total_tokens=34), 33),
        ({"prompt_tokens": -1}, 0),
        ({"tokens": 5}, 0),
        ("none", 0),
    ],
)
def test_what_a_provider_reports_is_read_in_every_shape(usage: object, tokens: int) -> None:
    assert reported(usage) == tokens


def test_the_factor_moves_in_steps_and_only_when_prompts_differ() -> None:
    calibration, factor, seen = Calibration(), 1.0, []
    for _ in range(8):
        calibration = calibration.observe(10_000, 13_000)
        factor = calibration.factor(factor)
    assert factor == 1.0, "prompts of one length do not say whether it is the ratio or a system prompt"
    rng = random.Random(5)
    for turn in range(40):
        size = 8_000 + 1_000 * turn
        calibration = calibration.observe(size, round(1.27 * size * rng.uniform(0.99, 1.01)) + 3_000)
        factor = calibration.factor(factor)
        seen.append(factor)
    assert abs(seen[-1] - 1.27) <= 0.11
    assert sum(one != other for one, other in pairwise(seen)) <= 3


@given(st.lists(st.tuples(st.integers(1, 10**6), st.integers(1, 10**7)), min_size=1, max_size=30))
def test_the_factor_is_bounded_whatever_is_reported(counts: list[tuple[int, int]]) -> None:
    calibration, factor = Calibration(), 1.0
    for estimated, count in counts:
        calibration = calibration.observe(estimated, count)
        factor = calibration.factor(factor)
        assert 0.5 <= factor <= 2.0
        assert factor == round(round(factor / 0.05) * 0.05, 2)
