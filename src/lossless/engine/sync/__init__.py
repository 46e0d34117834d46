"""Read a transcript into its conversation, and remember how far it was read."""
