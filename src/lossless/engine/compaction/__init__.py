"""Choose runs of old messages, write their summaries, check these against their sources, put them in place."""
