"""Which of the series found in a log is the training's progress, and what the others add to it."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace

from analyzers.logs.mining import grows_steadily
from analyzers.logs.series import Record, Series
from analyzers.logs.tracker import Tracker


def choose(tracker: Tracker) -> Series | None:
    """The series that is the training's progress, or None when none can be; of equals, that of the lowest rank."""
    planned = set(tracker.planned.get("total", {}).values())
    able = [series for series in tracker.series.values() if _counts(series, planned)]
    return max(able, key=lambda series: (_weight(series, tracker, planned), -(series.rank or 0)), default=None)


def other_work(tracker: Tracker) -> Series | None:
    """The longest count of other work (an evaluation, a conversion), for a job that consists of nothing else."""
    able = [s for s in tracker.series.values() if s.advanced >= 10 and s.last and s.last.total]
    able = [s for s in able if not s.is_mined or (grows_steadily(s) and not s.is_eval)]
    return max(able, key=lambda series: series.covered, default=None)


def _counts(series: Series, planned: set[int]) -> bool:
    last = series.last
    if last is None or series.is_eval or series.is_other:
        return False
    if series.is_mined:
        return grows_steadily(series)
    told = last.loss is not None or last.epoch is not None or last.total in planned
    if series.format is not None or told:
        return series.advanced >= 1 or (told and (series.format is not None or last.total is not None))
    bar = series.label.startswith("[/]")
    return series.advanced >= (5 if bar else 2) and len(series.label.split()) <= 3


def _weight(series: Series, tracker: Tracker, planned: set[int]) -> float:
    last = series.last
    assert last is not None
    recent = series.recent()
    return (
        round(math.log2(1 + series.advanced))
        + 0.5 * round(math.log2(1 + (0 if series.is_mined else series.covered)))
        + 3 * any(record.loss is not None for record in recent)
        + 3 * (last.total is not None and last.total in planned)
        + 1 * (last.total is not None or last.time is not None)
        + 2 * (series.format is not None)
        + 2 * round(tracker.recency(last), 1)
        - (6 if last.total is not None else 8) * series.is_mined
        - series.label.endswith("%")
        - 3 * (len(series.label.split()) > 3 and series.format is None)
    )


def beside(main: Series, tracker: Tracker) -> list[Series]:
    """Other series of the same process that tell of the same steps."""
    ranks = [series.rank for series in tracker.series.values() if series.rank is not None]
    near = min(ranks, default=None) if main.rank is None else None  # the same process, with and without its rank
    others = [series for series in tracker.series.values() if series is not main and not series.is_eval]
    return [series for series in others if series.rank in (main.rank, near) and _same_steps(series, main)]


def timed(main: Series, tracker: Tracker) -> Series:
    """The main series, or one beside it where that has time stamps and the main one has none."""
    if main.last is not None and main.last.time is not None:
        return main
    stamped = (series for series in beside(main, tracker) if series.last is not None and series.last.time is not None)
    return next(stamped, main)


def completed(main: Series, tracker: Tracker) -> Iterator[Record]:
    """The main series' records, with what other series of the same rank say about the same steps filled in."""
    known: dict[int, list[Record]] = {}
    for series in beside(main, tracker):
        for record in series:
            known.setdefault(record.step or 0, []).append(record)
    for record in main.records():
        for other in known.get(record.step or 0, ()):
            record = replace(
                record,
                **{
                    name: getattr(other, name)
                    for name in ("total", "epoch", "epochs", "loss", "time", "pace", "eta")
                    if getattr(record, name) is None and getattr(other, name) is not None
                },
            )
        yield record


def without_torn_end(records: list[Record]) -> list[Record]:
    """Leave off a last record whose step was cut in the middle of its digits ("step 12" of "step 1230")."""
    if len(records) < 3:
        return records
    *_, before, previous, last = records
    if before.step is None or previous.step is None or last.step is None:
        return records
    if last.step >= previous.step or last.epoch != previous.epoch:
        return records
    stride = max(1, previous.step - before.step)
    torn = any(str(previous.step + k * stride).startswith(str(last.step)) for k in (1, 2))
    return records[:-1] if torn else records


def _same_steps(series: Series, main: Series) -> bool:
    mine, theirs = ({r.step for r in s.recent()} for s in (main, series))
    return len(mine & theirs) >= max(2, len(theirs) // 2)
