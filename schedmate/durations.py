"""Lengths of time as people write and read them."""

from __future__ import annotations

import math
import re
from datetime import UTC, datetime, timedelta, timezone, tzinfo
from zoneinfo import ZoneInfo

from analyzers.durations import short_duration
from prompts.errors import UserError

__all__ = ["parse_duration", "parse_moment", "short_duration", "zone_named"]

_UNIT_S = {"d": 86_400.0, "h": 3_600.0, "m": 60.0, "min": 60.0, "s": 1.0}
_PARTS = re.compile(r"(\d+(?:\.\d+)?)\s*(d|h|min|m|s)\s*")
_CLOCK = re.compile(r"(?:(\d+)-)?(\d+):(\d{2}):(\d{2})")
_OFFSET = re.compile(r"(?:UTC|GMT)?(?P<sign>[+-])(?P<hours>\d{1,2}):?(?P<minutes>\d{2})?", re.IGNORECASE)
_LONGEST_S = 1e10
_MOST_CHARS = 60


def parse_duration(text: str, what: str = "duration", *, zero: bool = False) -> float:
    """Seconds from ``3600``, ``1h30m``, ``2d``, ``01:30:00`` or ``1-12:00:00``, and 0 where ``zero`` is allowed.

    Raises `UserError`, naming ``what`` was bad.
    """
    seconds = _seconds(text.strip().lower()) if len(text) <= _MOST_CHARS else None
    if seconds == 0 and not zero:
        raise UserError(f"{what} {text[:_MOST_CHARS]!r}: has to be more than 0", "write 1s, 1h30m, 2d or HH:MM:SS")
    if seconds is None or not 0 <= seconds <= _LONGEST_S:
        raise UserError(f"{what} {text[:_MOST_CHARS]!r}: not a length of time", "write seconds, 1h30m, 2d or HH:MM:SS")
    return seconds


def parse_moment(text: str, what: str = "time", zone: tzinfo = UTC) -> float:
    """Seconds from ``2026-10-05``, ``2026-10-05T06:00:00+02:00`` (in ``zone`` where none is stated) or plain seconds.

    Raises `UserError`, naming ``what``.
    """
    try:
        seconds = float(text)
    except ValueError:
        try:
            moment = datetime.fromisoformat(text.strip())
            seconds = (moment if moment.tzinfo else moment.replace(tzinfo=zone)).timestamp()
        except (ValueError, OverflowError):
            seconds = math.nan
    if not math.isfinite(seconds):
        raise UserError(f"{what} {text!r}: not a moment", "write 2026-10-05, 2026-10-05T06:00:00 or seconds") from None
    return seconds


def zone_named(name: str) -> tzinfo:
    """A time zone from ``Europe/Berlin``, ``UTC`` or ``+02:00``; `UserError` for anything else."""
    if name.upper() in ("UTC", "GMT", "Z"):
        return UTC
    if match := _OFFSET.fullmatch(name.strip()):
        minutes = int(match["hours"]) * 60 + int(match["minutes"] or 0)
        if minutes < 24 * 60:
            return timezone(timedelta(minutes=-minutes if match["sign"] == "-" else minutes))
    else:
        try:
            return ZoneInfo(name)
        except (KeyError, ValueError, OSError):  # unknown, or no name at all ("../x", a folder of zones)
            pass
    raise UserError(f"--timezone {name[:60]}: not known", "write for example Europe/Berlin, UTC or +02:00")


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
