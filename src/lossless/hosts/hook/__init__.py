"""`lcm hook`: the program that Claude Code and Codex call at each of their events.

A hook must cost nothing, so it is a small client: it hands the event to a background process, waits a moment, and prints
its answer. The background process captures the transcript, writes summaries, and ends when no event comes any more.
"""
