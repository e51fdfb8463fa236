"""How far the clocks of a job's processes are apart, told by when each wrote the records of the same steps."""

from __future__ import annotations

from statistics import median

from analyzers.logs.series import Series
from analyzers.logs.tracker import Tracker

#: So many steps that two files both print tell how far their clocks are apart.
_FEWEST = 3
#: Ranks reach a step within seconds of each other; what is less is no matter of clocks.
_LEAST_S = 5.0
_RECENT = 64
#: The latest shared steps tell, for a clock may be set while a job runs; where they differ by more than this share of
#: what they tell, nothing is known.
_LATEST, _AGREE = 5, 0.5

#: When a file's records were written, by their lap, epoch and step.
_Times = dict[tuple[int, float | None, int | None], float]


def ahead_s(tracker: Tracker, main: Series) -> dict[str, float]:
    """By file, how many seconds its clock is ahead of the job's (the middle one of all files that print the main
    series' steps; of two the later one, so that none is taken for silent). Files that print none of them, or whose
    clock is not known to be off, are left out."""
    if len(tracker.spans) < 2:
        return {}
    times: dict[str, _Times] = {}
    is_restarted = False
    for series in tracker.series.values():
        if series.label != main.label or series.is_eval:
            continue
        is_restarted = is_restarted or len({record.file for record in series}) > 1
        for record in series.recent()[-_RECENT:]:
            if record.time is not None:
                times.setdefault(record.file, {})[record.lap, record.epoch, record.step] = record.time
    if len(times) < 2 or main.last is None or main.last.file not in times:
        return {}
    own = times[main.last.file]
    apart = {main.last.file: 0.0}
    for file, theirs in times.items():
        if file != main.last.file and (not is_restarted or _overlap(own, theirs)):
            seconds = _apart_s(own, theirs)
            if seconds is not None:
                apart[file] = seconds
    middle = sorted(apart.values())[len(apart) // 2]
    return {file: seconds - middle for file, seconds in apart.items() if abs(seconds - middle) > _LEAST_S}


def _overlap(own: _Times, theirs: _Times) -> bool:
    """Whether two files were written at one time. Where one process has several files the job was started anew, often
    from the same step; what an earlier attempt wrote hours ago is by no other clock."""
    return min(own.values()) <= max(theirs.values()) and min(theirs.values()) <= max(own.values())


def _apart_s(own: _Times, theirs: _Times) -> float | None:
    both = [theirs[key] - own[key] for key in own if key in theirs][-_LATEST:]
    if len(both) < _FEWEST:
        return None
    seconds = median(both)
    return seconds if max(both) - min(both) <= max(_LEAST_S, _AGREE * abs(seconds)) else None
