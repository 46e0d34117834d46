"""Choose runs of old messages, write summaries, check them against their sources, and put them in place."""
