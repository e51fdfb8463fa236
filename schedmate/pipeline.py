"""Submission -> facts -> prediction -> hints: the one place where the rooms meet."""
