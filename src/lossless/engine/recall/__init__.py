"""Find old words again: grep, describe, expand and ask; grants limit what a delegate may read."""
