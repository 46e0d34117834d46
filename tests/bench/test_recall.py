"""The share of evidence that a question finds stays where it is, on data that may not be shipped."""

from __future__ import annotations

import os
import runpy
from pathlib import Path

import pytest

LOCOMO = os.environ.get("LCM_BENCH_LOCOMO", "")
BENCH = Path(__file__).parents[2] / "bench" / "recall.py"
LEAST = 0.865


@pytest.mark.skipif(not LOCOMO, reason="LoCoMo may not be shipped: set LCM_BENCH_LOCOMO to its file")
def test_questions_find_their_evidence(tmp_path: Path) -> None:
    bench = runpy.run_path(str(BENCH))
    assert bench["recall"](Path(LOCOMO), str(tmp_path / "recall.db")) >= LEAST
