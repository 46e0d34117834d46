"""Accept messages: give each its identity, skip duplicates, redact secrets, move large content out."""
