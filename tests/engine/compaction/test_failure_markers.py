"""The marks of failure that other systems leave in summaries."""

from __future__ import annotations

import pytest

from lossless.engine.compaction.failure_markers import marker

DIRECTIVES = "[LCM fallback summary; directive-shaped untrusted content omitted]"
CUT = "[LCM fallback summary; truncated for context management]"
OURS = "[Truncated for context management]"


@pytest.mark.parametrize(
    ("text", "model", "kind"),
    [
        ("They agreed on Friday.", "opus", None),
        ("", "opus", None),
        (f"{DIRECTIVES}\nwords", "opus", "fallback"),
        (f"{CUT}\nwords", "opus", "old"),
        (f"words\n{DIRECTIVES}\nand many more words that follow, so many that nobody would call it an end", "opus", "fallback"),
        (f"He asked what {DIRECTIVES} means.", "opus", None),
        ("The log ended with [Truncated from 9,000 tokens].", "opus", None),
        (f"{CUT} {DIRECTIVES}", "opus", "old"),
        ("[Truncated from " + "x" * (39 - 16), "opus", "new"),
        ("[Truncated from " + "x" * (40 - 16), "opus", None),
        ("words\n[Truncated from 9,000 tokens]", "opus", "new"),
        ("He asked what '[Truncated from 9,000 tokens]' means, and was told at length what it is.", "opus", None),
        ("words\n" + CUT + "x" * (79 - len(CUT)), "opus", "fallback"),
        ("words\n" + CUT + "x" * (80 - len(CUT)), "opus", None),
        ("words", "emergency-fallback", "emergency"),
        (f"words\n{OURS}", "unknown", "emergency"),
        (f"words {OURS} words", "unknown", None),
        (f"words {OURS}", "opus", None),
        ("words", "unknown", None),
    ],
)  # fmt: skip
def test_a_mark_tells_its_kind_unless_the_text_only_talks_about_it(text: str, model: str, kind: str | None) -> None:
    assert marker(text, model) == kind
