"""Data files only: one log format each, with its own samples (docs/adding-a-log-format.md)."""
