"""Reads runtime logs: intake of messy files, and `read_progress(path)` returning `Progress`.

Bounded memory whatever the size of the input.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from analyzers.logs.intake import LogFile, LogLine, discover, read_lines
from analyzers.logs.prefix import NO_YEAR, Prefix, strip_prefix

if TYPE_CHECKING:
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


def __getattr__(name: str) -> Any:
    """What reads progress takes longer to import than a small log to read, and not everybody asks for it."""
    if name in ("read_progress", "read_progress_from", "restart_point"):
        from analyzers.logs import progress

        return getattr(progress, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
