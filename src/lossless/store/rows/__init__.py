"""The rows of the store: their types, and a message as columns."""
