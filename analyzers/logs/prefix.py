"""Takes off what launchers, loggers and log collectors put before a message: rank, node, time."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta, timezone
from typing import NamedTuple

#: The year of a time whose prefix has none (glog, syslog); a leap year, so that every day exists.
NO_YEAR = 1904

_MAX_PREFIXES = 8
_SEARCHED = 512  # characters; no prefix is longer
_MONTH_NAMES = "JanFebMarAprMayJunJulAugSepOctNovDec"
_MONTHS = {_MONTH_NAMES[3 * i : 3 * i + 3]: i + 1 for i in range(12)}


class Prefix(NamedTuple):
    """What a line's prefix says. ``time`` is aware where the line gives a zone; its year is `NO_YEAR` where the line
    gives none (and the date 1 January then too where it gives only a time of day). ``rank`` is the innermost one;
    under torchrun's ``[default0]:`` it is the local rank, under ``srun -l`` the task's number."""

    rank: int | None
    node: str | None
    time: datetime | None
    rest: str


_TIME = r"(?P<h>\d\d):(?P<mi>\d\d):(?P<s>\d\d)(?:[.,](?P<f>\d{1,9}))?"
_ISO = rf"(?P<y>\d{{4}})[-/.](?P<mo>\d\d)[-/.](?P<d>\d\d)[T _]{_TIME}\s?(?P<z>Z\b|UTC\b|[+-]\d\d:?\d\d\b)?"
_MONTH_DAY = rf"(?P<mo>\d\d)[/-](?P<d>\d\d)[ T]{_TIME}"
_LOGGER = r"(?:[ \t]+[\w.:/-]+)*"
_AFTER = r"(?=[\s\]|:,;>)-]|$)"
_LEVEL = r"(?:DEBUG|INFO|WARN(?:ING)?|ERROR|CRITICAL|FATAL|NOTICE|TRACE|SUCCESS|debug|info|warning|error)"
_HOST = r"[A-Za-z0-9][\w.-]*"
_POD_ROLES = "master|worker|launcher|ps|chief|head|driver|server"
_NO_HOSTS = (
    r"(?!(?:epoch|step|iter|iteration|batch|train|val|valid|test|eval|layer|block|stage|model|ckpt|checkpoint|fold|"
    r"version|phase|part|shard|file|line|rank|gpu|cuda|utf|sha|python)\b|(?:utf|sha|cuda|gpu|rank|step|epoch)-?\d)"
)

#: Tried in this order at the beginning of what is left, over and over until none fits. Before each stands what it may
#: begin with: ``[``, ``(``, ``0`` for a digit, ``a`` for a letter, ``-`` for anything else.
_PATTERNS: tuple[tuple[str, str], ...] = (
    # ranks
    ("[a", r"\[?[Rr](?:ank|ANK)[ =:_]{0,2}(?P<rank>\d{1,6})(?:[ ,]+(?:host|node)[=: ](?P<node>[\w.-]+))?\]:?\s?"),
    ("a", r"[Rr]ank[ _]?(?P<rank>\d{1,6}): "),
    ("[", r"\[[a-z_]+(?P<rank>\d{1,6})\]:"),  # torchrun: [default0]:
    ("[", r"\[(?:[\w.-]+@)?\d+,(?P<rank>\d{1,6})\]<std(?:out|err)>:\s?"),  # mpirun --tag-output
    ("[", r"\[(?P<bare>\d{1,6})\](?:<std(?:out|err)>:)? (?=\S)"),  # Intel MPI, Horovod
    ("0", r"(?P<rank>\d{1,5}):\s(?=\S)(?!\d+[:/])"),  # srun -l
    ("a", r"task=(?P<rank>\d{1,6})\s"),
    ("(", r"\((?:[\w.:]+ )?pid=\d+(?:, ip=(?P<node>[\w.:-]+))?[^)]{0,80}\)\s?"),  # Ray
    # nodes
    ("[", r"\[pod/(?P<node>[\w.-]+)(?:/[\w.-]+)?\]\s?"),  # kubectl logs --prefix
    ("a0", rf"(?P<node>{_HOST}):\d+:\d+ \[\d+\]\s"),  # NCCL: host:pid:tid [device]
    ("[", r"\[(?P<node>[A-Za-z][\w.-]*):\d{2,8}\]\s"),  # Open MPI: [host:pid]
    ("a0", rf"(?P<node>[a-z0-9](?:[a-z0-9.-]*[a-z0-9])?-(?:{_POD_ROLES})-\d+)\s(?=\S)"),
    ("a0", rf"(?P<node>{_HOST}) (?=kernel: )"),
    ("a", rf"(?P<node>{_NO_HOSTS}[a-z][a-z0-9.]*-[a-z0-9.-]*\d): (?=\S)"),  # pdsh
    # times
    ("[a", rf"\[?[IWEF](?P<mo>\d{{1,2}})(?P<d>\d\d) {_TIME}\s+(?:\d+\s+)?(?:[\w./<>-]+:\d+)?\]\s?"),  # glog
    ("[", rf"\[{_MONTH_DAY}{_LOGGER}\]:?\s?"),  # detectron2
    ("[", rf"\[{_ISO}(?: [IWEDF] \d+ \d+)?\](?: \([\w.]+\))?\s?"),  # Ray, DeepSpeed, Megatron-LM
    ("[", rf"\[{_ISO}{_LOGGER}\]:?\s?"),
    (
        "0",
        rf"{_ISO}{_AFTER}(?: std(?:out|err) [FP] )?"
        r"(?P<host>\s(?=[\w.-]+ (?:[\w./-]+(?:\[\d+\])?: |\[[Rr]ank ?\d))[\w.-]+\s)?",
    ),
    ("0", _MONTH_DAY + _AFTER),
    ("a", rf"(?P<mon>[A-Z][a-z]{{2}})\s+(?P<d>\d{{1,2}}) {_TIME} (?P<node>{_HOST})\s(?=\S)"),  # syslog
    (
        "[",
        rf"\[(?:[A-Z][a-z]{{2}} )?(?P<mon>[A-Z][a-z]{{2}})\s+(?P<d>\d{{1,2}}) {_TIME}(?: (?P<y>\d{{4}}))?\]\s?",
    ),  # dmesg -T
    ("[(-", rf"[<({{\[]{_ISO}[>)}}\]]:?\s?"),
    ("[", rf"\[{_TIME}\]:?\s?"),
    ("0", rf"{_TIME}(?=\s*[|\]-]|\s+[A-Za-z\[(])"),
    ("[0", r"\[?(?P<unix>1[0-9]{9}(?:\.\d{1,9})?)\]?(?=[\s:,|])"),
    # loggers
    ("[", rf"\[{_LEVEL}\|[^\]]{{1,80}}\]\s*"),  # transformers: [INFO|trainer.py:1]
    ("[", rf"(?:\[[\w.]+\])?\[{_LEVEL}\s*\]\s*"),
    ("[", r"\[[\w./-]+\.(?:py|cc|cpp):\d+(?::\w+)?\]\s*"),
    ("a", rf"[\w.]{{1,60}} - {_LEVEL} - "),
    ("a", rf"{_LEVEL}(?::[\w.]+:|(?=[\s:|\]-]))"),
    ("-", r"(?:[>|:,;\]~*#=-]{1,3})\s+"),
)

_BY_START: dict[str, tuple[re.Pattern[str], ...]] = {
    start: tuple(re.compile(pattern) for starts, pattern in _PATTERNS if start in starts) for start in "[(0a-"
}


def _start(character: str) -> str:
    if character in "[(":
        return character
    return "0" if character.isdigit() else "a" if character.isalpha() else "-"


def strip_prefix(text: str) -> Prefix:
    """Split a line into what its prefixes say and the rest. Never fails; a line without any is its own rest.

    Reads torchrun, srun -l, mpirun, Ray, kubectl and pdsh labels, ISO, syslog, glog/absl, detectron2, Unix and
    time-of-day stamps, and logger names and levels, in any nesting.
    """
    rank: int | None = None
    node: str | None = None
    time: datetime | None = None
    at = 0
    for _ in range(_MAX_PREFIXES):
        while at < len(text) and text[at] in " \t":
            at += 1
        if at >= len(text):
            break
        for pattern in _BY_START[_start(text[at])]:
            found = pattern.match(text, at, at + _SEARCHED)
            if found is not None and found.end() > at:
                break
        else:
            break
        said = found.groupdict()
        if said.get("bare") and time is not None:
            break  # "[400] loss=..." after a logger's time is a step, not a rank
        if said.get("rank") or said.get("bare"):
            rank = int(said.get("rank") or said["bare"])
        host = said.get("node") or said.get("host")
        if host and host.strip():
            node = host.strip()
        if time is None:
            time = _time(said)
        at = found.end()
    return Prefix(rank, node, time, text[at:].lstrip(" \t") if at else text)


_DATE_ANYWHERE = re.compile(r"(?<!\d)" + _ISO)


def time_within(text: str) -> datetime | None:
    """The first full date and time in a line's first 300 characters, wherever it stands."""
    found = _DATE_ANYWHERE.search(text, 0, 300)
    return _time(found.groupdict()) if found else None


def _time(said: dict[str, str | None]) -> datetime | None:
    """The time in a match's named groups, or None (also for an impossible one)."""
    get: Callable[[str], str | None] = said.get
    try:
        if get("unix"):
            return datetime.fromtimestamp(float(get("unix") or 0), UTC)
        if not get("h"):
            return None
        name = get("mon")
        if name and name not in _MONTHS:
            return None
        month = _MONTHS[name] if name else int(get("mo") or 1)
        micro = int((get("f") or "0")[:6].ljust(6, "0"))
        year = int(get("y") or NO_YEAR)
        hour, minute, second = int(get("h") or 0), int(get("mi") or 0), min(59, int(get("s") or 0))
        return datetime(year, month, int(get("d") or 1), hour, minute, second, micro, _zone(get("z")))
    except (ValueError, OverflowError, OSError):
        return None


def _zone(text: str | None) -> timezone | None:
    if not text:
        return None
    if text in ("Z", "UTC"):
        return UTC
    digits = text[1:].replace(":", "")
    offset = timedelta(hours=int(digits[:2]), minutes=int(digits[2:4]))
    return timezone(offset if text[0] == "+" else -offset)
