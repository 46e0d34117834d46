"""Answer an operator: lists, details, summaries, trees, status, statistics. Only reads."""
