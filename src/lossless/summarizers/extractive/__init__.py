"""The summarizer that needs no model: it selects sentences of its source."""

from lossless.summarizers.extractive.summary import left_out, summarize

__all__ = ["left_out", "summarize"]
