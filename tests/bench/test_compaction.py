"""What the benchmark of compaction claims and a clock has no say in: how often a summariser is asked."""

from __future__ import annotations

import runpy
from pathlib import Path

BENCH = Path(__file__).parents[2] / "bench" / "compaction.py"


def test_no_summary_is_asked_for_twice_and_no_message_summarised_twice(tmp_path: Path) -> None:
    bench = runpy.run_path(str(BENCH))
    reading = bench["ours"](tmp_path / "lcm.db", 2_000)
    assert reading.summaries > 10
    assert reading.calls == reading.summaries
    assert bench["problems"](reading) == []
