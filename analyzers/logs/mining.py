"""Counters with unknown names: finds ``N of M``, ``N/M``, ``k=N`` and ``N%``, and tells work done from other numbers.

A line alone can not tell a count of molecules from a job's id. So all that may count is followed, and only what grows
steadily over several lines is taken (`grows_steadily`).
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache
from itertools import pairwise
from statistics import median
from typing import NamedTuple

from analyzers.logs.fields import CAMEL, EVAL, NO_STEP, Pair, meaning, number
from analyzers.logs.series import Record, Series

#: Words in the names of what is no work done: identities, amounts, times, hardware, quality.
_NO_WORK = """
    pid tid uid id ids port line seq hash sha seed uuid job task ticket request requests req conn connection
    connections session user users offset address addr page block inode version build commit
    rss mem memory vram ram swap heap disk storage used free usage cache cached bytes size space quota
    gb mb kb gib mib kib tb tib gpu gpus cpu cpus util utilization load temp temperature power watts fan freq
    frequency clock mhz bandwidth throughput speed fps uptime time elapsed since age duration latency timeout
    wait waited waiting timestamp ts date hour hours minute minutes min day days year ago attempt retry retries
    try tries channel ring tree layer layers shard rank ranks node nodes worker workers host hosts device thread
    threads core cores numa local level test acc accuracy precision recall score reward return elo rating auc
    bleu rouge wer cer map iou dice top sparsity dropout success hit hits miss win wins ratio lr rate error
    errors code exit status warning warnings priority queue pending battery signal length width height dim
"""
_NO_COUNTER = frozenset(_NO_WORK.split()) | EVAL | NO_STEP
_TOTAL_WORDS = frozenset({"total", "max", "target", "overall", "all", "planned", "goal"})
_DONE_WORDS = frozenset({"done", "seen", "so", "far", "current", "now", "processed", "completed", "finished"})
#: What follows a number that measures something instead of counting work.
_MEASURED = re.compile(
    r"\s?(?:[KMGTP]i?B|[kMGT]?[Bb]ytes|[kKMGTB]|[KMGkm]?b(?:it)?ps|°\s?[CF]?|C|F|W|V|[kMG]?Hz|rpm|px|[mun]?s|µs|secs?|"
    r"seconds?|mins?|minutes?|h|hrs?|hours?|days?|ago)(?![\w])|\s?(?:[KMGT]i?B|\w{1,12})?/s(?:ec)?\b"
)
_PERCENT = re.compile(r"(?<![\w.,%/-])(?P<value>\d{1,3}(?:\.\d{1,6})?)[ \t]?%(?!\w)")
_LEFT = re.compile(
    r"(?<![\w.,/-])(?P<amount>\d{1,3}(?:,\d{3})+|\d{1,12}) (?P<noun>[A-Za-z]{3,20}) (?:left|remaining|to go)\b"
)
#: A transfer is no work done, however evenly it goes.
_BYTES = re.compile(r"\d\s?[kKMGT]i?B?/\d|\d\s?(?:[kKMGT]i?B|bytes)\b")
#: A row of numbers without names, behind its time stamp.
_ROW = re.compile(r"\s*(?:[-+]?[\d,]{1,20}(?:\.\d{1,12})?(?:[eE][-+]?\d{1,3})?%?(?:[\s|;]{1,20}|$)){3,30}")
_CELL = re.compile(r"(?<![\w.+-])(?:\d{1,3}(?:,\d{3})+|\d{1,12})(?![\w.,%])")
_LETTERS = re.compile(r"[^a-z]+")
_MAX_CANDIDATES = 8
_FEWEST = 5
#: Without a total, a counter's first value is at most this many of its strides: ids start anywhere.
_FARTHEST_START = 100
_UNEVEN = 4.0


class Candidate(NamedTuple):
    """A number that may count work: its series' ``label``, ``step`` of ``total``, where it stands in the text.

    ``is_left``: ``step`` is what is still to do. ``is_other``: what stands before it tells of loading, converting and
    the like.
    """

    label: str
    step: int
    total: int | None
    start: int
    end: int
    is_other: bool = False
    is_left: bool = False


def candidates(text: str, found: list[Pair], bare: tuple[int, int, int] | None) -> list[Candidate]:
    """All numbers of a line that may count work, left to right; ``found`` are its pairs, ``bare`` its `fraction`.

    Per cent count to 100.
    """
    if not found and _ROW.fullmatch(text[:300]):
        return _columns(text[:300])
    named = [candidate for pair in found if (candidate := _named(text, pair, found)) is not None]
    if bare is not None:
        step, total, at = bare
        slash = text.find(str(total)[-3:], at)
        if slash < 0 or not _MEASURED.match(text, slash + len(str(total)[-3:])):
            named.append(Candidate("mined /", step, total, at, at + 1))
    left = _LEFT.search(text, 0, 300)
    if left is not None and _may_count(left["noun"]):
        amount = int(left["amount"].replace(",", ""))
        named.append(
            Candidate(f"mined {left['noun'].lower()} left", amount, None, left.start(), left.end(), is_left=True)
        )
    percent = _PERCENT.search(text, 0, 300)
    if percent is not None and not _BYTES.search(text) and not _within(percent.start(), found):
        done = int(float(percent["value"]))
        if done <= 100 and _may_count(text[max(0, percent.start() - 30) : percent.start()]):
            named.append(Candidate("mined %", done, 100, percent.start(), percent.end()))
    return sorted(named, key=lambda candidate: candidate.start)[:_MAX_CANDIDATES]


def _columns(text: str) -> list[Candidate]:
    """The whole numbers of a row without names, by the column that they stand in."""
    cells = [(len(text[: cell.start()].split()), cell) for cell in _CELL.finditer(text)]
    return [
        Candidate(
            f"mined column {'abcdefghijklmnopqrstuvwxyz'[column % 26]}",
            int(cell[0].replace(",", "")),
            None,
            cell.start(),
            cell.end(),
        )
        for column, cell in cells[:_MAX_CANDIDATES]
    ]


def _within(at: int, found: list[Pair]) -> bool:
    return any(pair.start <= at < pair.end for pair in found)


def _named(text: str, pair: Pair, found: list[Pair]) -> Candidate | None:
    words = _words(pair.key)
    if not 0 < len(words) <= (8 if pair.total is not None else 4) or not _may_count(pair.key):
        return None
    amount, total = _whole(pair.value), _whole(pair.total)
    if pair.unit == "%":
        value = number(pair.value)
        if value is None or not 0 <= value <= 100 or total is not None or _BYTES.search(text):
            return None
        amount, total = int(value), 100
    elif pair.unit or _MEASURED.match(text, pair.end):
        return None
    if amount is None:
        return None
    total = total if total is not None else _sibling(pair, amount, found)
    if total is not None and not max(1, amount) <= total:
        return None
    end = "%" if pair.unit == "%" else ""
    return Candidate(f"mined {' '.join(words[-3:])}{end}", amount, total, pair.start, pair.end)


def _sibling(pair: Pair, amount: int, found: list[Pair]) -> int | None:
    """The total that stands under its own name: ``"docs_done": 500, "docs_total": 9000``."""
    stem = frozenset(_words(pair.key)) - _DONE_WORDS
    for other in found:
        words = _words(other.key)
        if other is pair or _TOTAL_WORDS.isdisjoint(words) or frozenset(words) - _TOTAL_WORDS != stem:
            continue
        total = _whole(other.value)
        if total is not None:
            return total if total >= max(2, amount) and not other.unit else None
    return None


@lru_cache(maxsize=4096)
def _words(name: str) -> tuple[str, ...]:
    return tuple(word for word in _LETTERS.split(CAMEL.sub(" ", name).lower()) if word)


@lru_cache(maxsize=4096)
def _may_count(name: str) -> bool:
    """Whether an unknown name may be that of a counter of work done (``done 500/9000``, ``documents: 1200``)."""
    return _NO_COUNTER.isdisjoint(_words(name)) and meaning(name) is None


def _whole(text: str | None) -> int | None:
    amount = number(text) if text else None
    return int(amount) if amount is not None and 0 <= amount <= 1e15 and amount == int(amount) else None


def grows_steadily(series: Series) -> bool:
    """Whether a mined series behaves as a count of work does.

    It grows almost every time and evenly, over five lines at least; its total stays; without a total it starts near
    zero and does not run with the clock. A job that was requeued may fall back now and then.
    """
    records = series.recent()
    last, laps = records[-1], records[-1].lap - series.laps_with_new_epoch
    if series.count < _FEWEST or series.advanced < 0.95 * (series.count - 1) - last.lap:
        return False
    if laps > (0 if last.total is None else series.count // 20):
        return False
    if len({record.total for record in records}) > 1:
        return False
    strides = [b - a for a, b in pairwise(record.step or 0 for record in records) if b > a]
    if len(strides) < _FEWEST - 1 or sorted(strides)[int(0.9 * (len(strides) - 1))] > _UNEVEN * median(strides):
        return False
    if last.total is not None:
        return True
    first = next(iter(series)).step or 0
    return first <= _FARTHEST_START * median(strides) and not _is_clock(records)


def _is_clock(records: Sequence[Record]) -> bool:
    """Whether the numbers are times: seconds or milliseconds that pass as the time stamps do."""
    stamped = [record for record in records if record.time is not None]
    ratios = [
        ((b.step or 0) - (a.step or 0)) / (b.time - a.time)
        for a, b in pairwise(stamped)
        if a.time is not None and b.time is not None and b.time > a.time
    ]
    return any(len(ratios) >= 3 and all(0.97 * k < ratio < 1.03 * k for ratio in ratios) for k in (1, 1000))
