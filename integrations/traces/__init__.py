"""Readers of job traces, one file a format, each a `TraceFormat` found by entry point.

A bad row is counted and skipped with its line number; it never stops the rest.
"""
