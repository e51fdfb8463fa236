"""Diagnoses many jobs at once: what is a case, the work on one, the results on disk, and the run over all."""
