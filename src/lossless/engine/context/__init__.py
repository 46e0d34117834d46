"""Build what the model is shown: load, assemble, pair tool calls with results, explain."""
