"""Check without a model that a summary claims only what its sources say."""

from lossless.engine.compaction.faithful.check import Faithfulness, check_own, own_words, without
from lossless.engine.compaction.faithful.claim import Claim, Kind

__all__ = ["Claim", "Faithfulness", "Kind", "check_own", "own_words", "without"]
