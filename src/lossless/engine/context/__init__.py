"""Build the context of a model: load, assemble, pair tool calls with results, explain."""
