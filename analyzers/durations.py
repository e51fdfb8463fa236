"""Lengths of time as people read them; one style for everything that is shown."""

from __future__ import annotations

import math


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
