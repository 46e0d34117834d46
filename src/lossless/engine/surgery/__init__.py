"""Surgery on summaries: make them anew, give way to their sources, join what was split; and the way back.

Every operation is a plan first, with what it costs, then short transactions that record what each row was before. Nothing is
open while a model thinks, and a summary that somebody else changed meanwhile is planned again, never overwritten.
"""
