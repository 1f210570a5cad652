"""Tasks: one file per family."""
