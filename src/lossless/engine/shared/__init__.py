"""Serve several packages of the engine: files, cursors, model flows, call limits, the promise."""
