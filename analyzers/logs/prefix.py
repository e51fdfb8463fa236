"""Takes off what launchers, loggers and log collectors put before a message: rank, node, time."""

from __future__ import annotations

import re
from datetime import datetime
from functools import lru_cache
from typing import NamedTuple

from analyzers.logs.dates import AFTER, ISO, MONTH_DAY, NO_YEAR, OTHER_ORDERS, TIME, time_of, time_within

__all__ = ["NO_YEAR", "Prefix", "strip_prefix", "time_within"]

_MAX_PREFIXES = 8
_SEARCHED = 512  # characters; no prefix is longer


class Prefix(NamedTuple):
    """What a line's prefix says. ``time`` is aware where the line gives a zone; its year is `NO_YEAR` where the line
    gives none (and the date 1 January then too where it gives only a time of day). ``rank`` is the innermost one;
    under torchrun's ``[default0]:`` it is the local rank, under ``srun -l`` the task's number."""

    rank: int | None
    node: str | None
    time: datetime | None
    rest: str


_LOGGER = r"(?:[ \t]+[\w.:/-]+)*"
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
    ("(", r"\((?:[\w.:]+ )?(?:rank=(?P<rank>\d{1,6}) )?pid=\d+(?:, ip=(?P<node>[\w.:-]+))?[^)]{0,80}\)\s?"),  # Ray
    # nodes
    ("[", r"\[(?P<node>[A-Za-z][\w.-]*\d)\]\s(?=[Rr]ank ?\d)"),  # [host] rank 3:
    ("[", r"\[pod/(?P<node>[\w.-]+)(?:/[\w.-]+)?\]\s?"),  # kubectl logs --prefix
    ("a0", rf"(?P<node>{_HOST}):\d+:\d+ \[\d+\]\s"),  # NCCL: host:pid:tid [device]
    ("[", r"\[(?P<node>[A-Za-z][\w.-]*):\d{2,8}\]\s"),  # Open MPI: [host:pid]
    ("a0", rf"(?P<node>[a-z0-9](?:[a-z0-9.-]*[a-z0-9])?-(?:{_POD_ROLES})-\d+)\s(?=\S)"),
    ("a0", rf"(?P<node>{_HOST}) (?=kernel: )"),
    ("a", rf"(?P<node>{_NO_HOSTS}[a-z][a-z0-9.]*-[a-z0-9.-]*\d): (?=\S)"),  # pdsh
    # times
    ("[a", rf"\[?[IWEF](?P<mo>\d{{1,2}})(?P<d>\d\d) {TIME}\s+(?:\d+\s+)?(?:[\w./<>-]+:\d+)?\]\s?"),  # glog
    ("[", rf"\[{MONTH_DAY}{_LOGGER}\]:?\s?"),  # detectron2
    ("[", rf"\[{ISO}(?: [IWEDF] \d+ \d+)?\](?: \([\w.]+\))?\s?"),  # Ray, DeepSpeed, Megatron-LM
    ("[", rf"\[{ISO}{_LOGGER}\]:?\s?"),
    (
        "0",
        rf"{ISO}{AFTER}(?: std(?:out|err) [FP] )?"
        rf"(?P<host>\s(?!{_LEVEL}\s)(?=[\w.-]+ (?:[A-Za-z_][\w./-]*(?:\[\d+\])?: |\[[Rr]ank ?\d))[\w.-]+\s)?",
    ),
    ("0", MONTH_DAY + AFTER),
    ("a", rf"(?P<mon>[A-Z][a-z]{{2}})\s+(?P<d>\d{{1,2}}) {TIME} (?P<node>{_HOST})\s(?=\S)"),  # syslog
    (
        "[",
        rf"\[(?:[A-Z][a-z]{{2}} )?(?P<mon>[A-Z][a-z]{{2}})\s+(?P<d>\d{{1,2}}) {TIME}(?: (?P<y>\d{{4}}))?\]\s?",
    ),  # dmesg -T
    ("[(-", rf"[<({{\[]{ISO}[>)}}\]]:?\s?"),
    ("[", rf"\[{TIME}\]:?\s?"),
    ("0", rf"{TIME}(?=\s*[|\]-]|\s+[A-Za-z\[(]|\s+\d[\d,]*[\s/])"),
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

#: Dates in other orders, with and without brackets; tried last, and only where a time of day is near.
_DATES = tuple(
    re.compile(pattern) for order in OTHER_ORDERS for pattern in (order + AFTER, rf"[<({{\[]{order}[>)}}\]]:?\s?")
)
_CLOCK = re.compile(r"\d[:-]?\d\d[:-]?\d\d|\d:\d\d")
_CLOCK_WITHIN = 40


def _start(character: str) -> str:
    if character in "[(":
        return character
    return "0" if character.isdigit() else "a" if character.isalpha() else "-"


def _first_match(patterns: tuple[re.Pattern[str], ...], text: str, at: int) -> re.Match[str] | None:
    for pattern in patterns:
        found = pattern.match(text, at, at + _SEARCHED)
        if found is not None and found.end() > at:
            return found
    return None


@lru_cache(maxsize=16)  # several readers look at one line
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
        found = _first_match(_BY_START[_start(text[at])], text, at)
        if found is None and time is None and _CLOCK.search(text, at, at + _CLOCK_WITHIN):
            found = _first_match(_DATES, text, at)
        if found is None:
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
            time = time_of(said)
        at = found.end()
    return Prefix(rank, node, time, text[at:].lstrip(" \t") if at else text)
