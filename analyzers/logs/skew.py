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


def ahead_s(tracker: Tracker, main: Series) -> dict[str, float]:
    """By file, how many seconds its clock is ahead of the job's (the middle one of all files that print the main
    series' steps; of two the later one, so that none is taken for silent). Files that print none of them, or whose
    clock is not known to be off, are left out."""
    if len(tracker.spans) < 2:
        return {}
    times: dict[str, dict[tuple[float | None, int | None], float]] = {}
    for series in tracker.series.values():
        if series.label != main.label or series.is_eval:
            continue
        for record in series.recent()[-_RECENT:]:
            if record.time is not None:
                times.setdefault(record.file, {})[record.epoch, record.step] = record.time
    if len(times) < 2 or main.last is None or main.last.file not in times:
        return {}
    own = times[main.last.file]
    apart = {main.last.file: 0.0}
    for file, theirs in times.items():
        both = own.keys() & theirs.keys()
        if file != main.last.file and len(both) >= _FEWEST:
            apart[file] = median(theirs[key] - own[key] for key in both)
    middle = sorted(apart.values())[len(apart) // 2]
    return {file: seconds - middle for file, seconds in apart.items() if abs(seconds - middle) > _LEAST_S}
