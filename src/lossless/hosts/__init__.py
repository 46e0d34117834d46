"""Adapters for agent programs and frameworks: one module per host."""
