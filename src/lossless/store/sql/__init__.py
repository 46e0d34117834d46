"""The queries both databases share, in sections."""
