"""The doctor: checks that a database is consistent, proves that nothing is lost, repairs derived data.

Nothing here changes a message or reverts a user's decision: what a /new removed from a context stays out of it, and an
archived conversation stays archived.
"""
