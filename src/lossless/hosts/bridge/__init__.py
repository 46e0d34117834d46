"""`lcm bridge`: serve plugins in other languages over standard streams."""
