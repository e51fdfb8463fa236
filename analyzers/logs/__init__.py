"""Reads runtime logs: intake of messy files, and `read_progress(path)` returning `Progress`.

Bounded memory whatever the size of the input.
"""

from __future__ import annotations

from analyzers.logs.intake import LogFile, LogLine, discover, read_lines
from analyzers.logs.prefix import NO_YEAR, Prefix, strip_prefix
from analyzers.logs.progress import read_progress, read_progress_from, restart_point

__all__ = [
    "NO_YEAR",
    "LogFile",
    "LogLine",
    "Prefix",
    "discover",
    "read_lines",
    "read_progress",
    "read_progress_from",
    "restart_point",
    "strip_prefix",
]
