"""Find old words again: grep, describe, expand, ask; grants decide who may read what."""
