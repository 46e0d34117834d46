"""Keep everything: one store, two databases."""
