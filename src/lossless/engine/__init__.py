"""The work behind the verbs: ingest, compact, assemble, recall."""
