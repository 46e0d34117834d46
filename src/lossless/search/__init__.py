"""How words are found again: what goes into an index, and what a question asks of it."""
