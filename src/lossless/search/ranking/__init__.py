"""Rank the messages that match a query."""
