"""Check without a model that a summary claims only what its sources say."""

from lossless.engine.compaction.faithful.check import Faithfulness, check_claims, own_words
from lossless.engine.compaction.faithful.claim import Claim, Kind
from lossless.engine.compaction.faithful.repetition import copies, repeats_prompt
from lossless.engine.compaction.faithful.statements import statements, without

__all__ = [
    "Claim",
    "Faithfulness",
    "Kind",
    "check_claims",
    "copies",
    "own_words",
    "repeats_prompt",
    "statements",
    "without",
]
