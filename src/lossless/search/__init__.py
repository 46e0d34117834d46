"""Full-text, regular-expression, semantic and byte search over texts; knows values only."""
