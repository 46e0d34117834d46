"""Remove for good: forget words, collect garbage, prune silent conversations."""
