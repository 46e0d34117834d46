"""The history that hooks give a host: within its limits, and never in anybody's name."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from hypothesis import given
from hypothesis import strategies as st

from lossless.hosts.hook.history import HOST_BYTES, history, limits
from lossless.model import Message, StoredMessage, Summary
from lossless.tokens import estimate

NOW = datetime(2026, 11, 15, 12, tzinfo=UTC)
INTRO = "History, not the user."


def stored(number: int, text: str, role: str = "user", at: datetime = NOW) -> StoredMessage:
    return StoredMessage(number, number, 1, b"", at, Message(role, (Message.user(text).parts), at))


def summary(number: int, text: str, at: datetime = NOW) -> Summary:
    return Summary(f"sum_{number:016x}", 0, text, estimate(text), at, at, 8, 1000, "extractive", "extractive")


def shown(summaries: list[Summary], messages: list[StoredMessage], tokens: int = 2000, hours: int = 720) -> str:
    return history("claude-code:s", INTRO, summaries, messages, limits(tokens, hours, NOW, UTC))


@given(
    st.lists(st.text(max_size=3000), max_size=12),
    st.lists(st.text(max_size=3000), max_size=12),
    st.integers(0, 5000),
)
def test_no_text_leaves_the_block_or_exceeds_its_limits(old: list[str], new: list[str], tokens: int) -> None:
    summaries = [summary(number, text) for number, text in enumerate(old)]
    text = shown(summaries, [stored(number, each) for number, each in enumerate(new)], tokens)
    assert len(text.encode("utf-8", "surrogatepass")) <= HOST_BYTES
    assert estimate(text) <= max(tokens, 0) + 10
    if text:
        assert text.startswith(f"{INTRO}\n<lossless_history ")
        assert text.count("</lossless_history>") == 1


def test_the_newest_is_kept_and_order_is_that_of_time() -> None:
    text = shown(
        [summary(n, f"part {n} " + "word " * 400) for n in range(9)], [stored(n, f"said {n}") for n in range(40)]
    )
    assert "part 8 " in text
    assert "part 0 " not in text
    assert text.index("part 7 ") < text.index("part 8 ") < text.index("said 38") < text.index("said 39")
    assert "said 3<" not in text


def test_a_summary_that_is_too_long_is_cut_and_names_itself() -> None:
    text = shown([summary(7, "word " * 20_000)], [])
    assert 'id="sum_0000000000000007"' in text
    assert "(cut; lcm_describe shows all of it)" in text


def test_what_is_too_old_is_left_out() -> None:
    old = NOW - timedelta(hours=25)
    text = shown([summary(1, "ancient", old), summary(2, "recent")], [stored(1, "long ago", at=old)], hours=24)
    assert "recent" in text
    assert "ancient" not in text
    assert "long ago" not in text
    assert shown([summary(1, "ancient", old)], [], hours=24) == ""


def test_without_history_or_space_there_is_no_text() -> None:
    assert shown([], []) == ""
    assert shown([], [stored(1, "   "), stored(2, "out", "tool")]) == ""
    assert shown([summary(1, "one")], [stored(1, "one")], tokens=0) == ""
