"""Default limits of verbs, in a module that loads nothing."""

from __future__ import annotations

GREP_SECONDS = 10.0
GRANT_SECONDS = 300.0
TREE_LINES = 100
FLAW_KINDS = ("empty", "provisional", "marked", "truncated", "unfaithful")
"""The flaws of summaries that a repair looks for."""
