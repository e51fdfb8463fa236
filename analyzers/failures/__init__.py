"""Finds root causes: `diagnose(path)` returns a `Diagnosis` that names the culprit and quotes its evidence.

Signatures are data files; a root always beats an echo.
"""
