"""Dates and times as logs print them: year first, day first, month first, with month names, without a year."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta, timezone

#: The year of a time whose text has none (glog, syslog); a leap year, so that every day exists.
NO_YEAR = 1904

_NAMES = "Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec"
_MONTHS = {name: i for i, name in enumerate(_NAMES.split("|"), 1)}

TIME = r"(?P<h>\d\d):(?P<mi>\d\d):(?P<s>\d\d)(?:[.,](?P<f>\d{1,9}))?"
_ZONE = r"(?P<z>Z\b|UTC\b|GMT\b|[+-]\d\d:?\d\d\b)?"
ISO = rf"(?P<y>\d{{4}})[-/.](?P<mo>\d\d)[-/.](?P<d>\d\d)[T _]{TIME}\s?{_ZONE}"
MONTH_DAY = rf"(?P<mo>\d\d)[/-](?P<d>\d\d)[ T]{TIME}"
AFTER = r"(?=[\s\]|:,;>)-]|$)"

_LOOSE_TIME = r"(?P<h>\d{1,2}):(?P<mi>\d\d)(?::(?P<s>\d\d)(?:[.,](?P<f>\d{1,9}))?)?(?:\s?(?P<half>[AaPp])\.?[Mm]\b\.?)?"
_MONTH = rf"(?P<mon>{_NAMES})(?:[a-z]{{1,6}}\b)?\.?"
_WEEKDAY = r"(?:(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun)[a-z]{0,6},?\s+)?"
_SEP = r"(?:,\s?|[ T_]{1,2}|\sat\s)"

_NUMBERS = rf"(?P<one>\d{{1,2}})(?P<sep>[./-])(?P<two>\d{{1,2}})(?P=sep)(?P<y>\d{{4}}){_SEP}{_LOOSE_TIME}\s?{_ZONE}"
_DAY_MONTH_YEAR = (
    rf"{_WEEKDAY}(?P<d>\d{{1,2}})[ ./-]{_MONTH}[ ./,-]{{1,2}}(?P<y>\d{{4}})[ :,T]{{1,2}}{_LOOSE_TIME}\s?{_ZONE}"
)
_MONTH_DAY_YEAR = rf"{_WEEKDAY}{_MONTH}\s+(?P<d>\d{{1,2}}),?\s(?P<y>\d{{4}}){_SEP}{_LOOSE_TIME}\s?{_ZONE}"
_YEAR_LAST = (
    rf"{_WEEKDAY}{_MONTH}\s+(?P<d>\d{{1,2}})\s{_LOOSE_TIME}\s(?:(?P<z>UTC|GMT)\s|[A-Z]{{2,5}}\s)?(?P<y>\d{{4}})"
)

#: Further orders, each a pattern; tried at the beginning of a line after `ISO` and `MONTH_DAY`.
OTHER_ORDERS: tuple[str, ...] = (
    _NUMBERS,
    rf"(?P<one>\d\d)(?P<sep>\.)(?P<two>\d\d)\.(?P<yy>\d\d){_SEP}{_LOOSE_TIME}",
    rf"\d\d/\d\d/\d\d {TIME}",  # three orders are in use: only the time of day is sure
    rf"(?P<d>\d{{1,2}})\.(?P<mo>\d{{1,2}})\.,? {TIME}",
    _DAY_MONTH_YEAR,
    _MONTH_DAY_YEAR,
    _YEAR_LAST,
    r"(?P<y>20\d\d)(?P<mo>[01]\d)(?P<d>[0-3]\d)[-T_ ](?P<h>\d\d):?(?P<mi>\d\d):?(?P<s>\d\d)(?:[.,](?P<f>\d{1,9}))?",
    r"(?P<y>\d{4})-(?P<mo>\d\d)-(?P<d>\d\d)[ T_-](?P<h>\d\d)[:.-](?P<mi>\d\d)(?:[:.-](?P<s>\d\d))?",
)

_CLOCK = re.compile(r"\d:\d\d")
_ANYWHERE = tuple(re.compile(r"(?<![\d.])" + order) for order in (ISO, _NUMBERS, _DAY_MONTH_YEAR))


def time_within(text: str, until: int = 300) -> datetime | None:
    """The first full date and time in a line's first ``until`` characters, wherever it stands."""
    if not _CLOCK.search(text, 0, until):
        return None
    for pattern in _ANYWHERE:
        found = pattern.search(text, 0, until)
        if found is not None:
            return time_of(found.groupdict())
    return None


def time_of(said: dict[str, str | None]) -> datetime | None:
    """The time in a match's named groups, or None (also for an impossible one).

    Where day and month can not be told apart (``05/11/2026``), only the time of day is taken: a wrong month would be
    worse than none.
    """
    get: Callable[[str], str | None] = said.get
    try:
        if get("unix"):
            return datetime.fromtimestamp(float(get("unix") or 0), UTC)
        if not get("h"):
            return None
        micro = int((get("f") or "0")[:6].ljust(6, "0"))
        hour, minute, second = int(get("h") or 0), int(get("mi") or 0), min(59, int(get("s") or 0))
        if get("half"):
            hour = hour % 12 + (12 if get("half") in ("p", "P") else 0)
        year, month, day = _date(said)
        return datetime(year, month, day, hour, minute, second, micro, _zone(get("z")))
    except (ValueError, OverflowError, OSError, KeyError):
        return None


def _date(said: dict[str, str | None]) -> tuple[int, int, int]:
    """Year, month and day; `NO_YEAR` and 1 January stand for what is not said."""
    year = int(said.get("y") or NO_YEAR)
    if said.get("yy"):
        year = 2000 + int(said["yy"] or 0)
    if said.get("one"):
        one, two = int(said["one"] or 1), int(said["two"] or 1)
        if said["sep"] == "." or one > 12 or one == two:
            return year, two, one
        return (year, one, two) if two > 12 else (NO_YEAR, 1, 1)
    name = said.get("mon")
    return year, _MONTHS[name] if name else int(said.get("mo") or 1), int(said.get("d") or 1)


def _zone(text: str | None) -> timezone | None:
    if not text:
        return None
    if text in ("Z", "UTC", "GMT"):
        return UTC
    digits = text[1:].replace(":", "")
    offset = timedelta(hours=int(digits[:2]), minutes=int(digits[2:4]))
    return timezone(offset if text[0] == "+" else -offset)
