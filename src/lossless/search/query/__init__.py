"""Analyse a full-text query: its terms, phrases, dates and word forms."""
