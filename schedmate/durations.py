"""Lengths of time as people write and read them."""

from __future__ import annotations

import math
import re

from prompts.errors import UserError

_UNIT_S = {"d": 86_400.0, "h": 3_600.0, "m": 60.0, "min": 60.0, "s": 1.0}
_PARTS = re.compile(r"(\d+(?:\.\d+)?)\s*(d|h|min|m|s)\s*")
_CLOCK = re.compile(r"(?:(\d+)-)?(\d+):(\d{2}):(\d{2})")
_LONGEST_S = 1e10


def parse_duration(text: str, what: str = "duration") -> float:
    """Seconds from ``3600``, ``1h30m``, ``2d``, ``01:30:00`` or ``1-12:00:00``; `UserError` names ``what`` was bad."""
    seconds = _seconds(text.strip().lower())
    if seconds is None or not 0 < seconds <= _LONGEST_S:
        raise UserError(f"{what} {text!r}: not a length of time", "write seconds, 1h30m, 2d or HH:MM:SS")
    return seconds


def short_duration(seconds: float) -> str:
    """Two units at most: ``45 s``, ``12 min``, ``3 h 05 min``, ``2 d 04 h``."""
    if not math.isfinite(seconds):
        return "?"
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    minutes = round(seconds / 60)
    if minutes < 60:
        return f"{minutes} min"
    hours, rest = divmod(minutes, 60)
    if hours < 24:
        return f"{hours} h {rest:02d} min"
    days, hours = divmod(round(seconds / 3_600), 24)
    return f"{days} d {hours:02d} h"


def _seconds(text: str) -> float | None:
    clock = _CLOCK.fullmatch(text)
    if clock:
        days, hours, minutes, seconds = (int(part or 0) for part in clock.groups())
        return days * 86_400.0 + hours * 3_600.0 + minutes * 60.0 + seconds
    parts = _PARTS.findall(text)
    if parts and not _PARTS.sub("", text):
        return sum(float(number) * _UNIT_S[unit] for number, unit in parts)
    try:
        return float(text)
    except ValueError:
        return None
