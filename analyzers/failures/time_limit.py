"""What a log says about a job that reached its time limit: can it go on from a checkpoint, and was it hanging."""

from __future__ import annotations

from analyzers.failures.events import Event, Scan, seconds_between
from analyzers.logs.prefix import time_within
from analyzers.types import LogEvidence

#: A last step this close to the limit shows that the job was at work.
AT_WORK_S = 600.0
#: Without a step for this long, and for this many of its usual intervals, a job was probably hanging.
SILENT_S = 1800.0
SILENT_INTERVALS = 5.0


def time_limit_notes(cause: Event, scan: Scan) -> list[str]:
    """Sentences: resumption, and how long before the limit the last step was."""
    notes = []
    if scan.resumed is not None:
        notes.append(
            f"This run itself had resumed from a checkpoint ({scan.resumed.file}:{scan.resumed.line}), so it can go on "
            "from its last one, with the same limit."
        )
    return [*notes, _hang(cause, scan) or "Check first that the job had not been hanging."]


def _hang(cause: Event, scan: Scan) -> str:
    end = time_within(cause.text) or (cause.time if cause.time_exact else None)
    dated = [
        (gap, stream)
        for stream in scan.streams.values()
        if stream.progress is not None
        and (gap := seconds_between(time_within(stream.progress.text), end)) is not None
        and gap >= 0
    ]
    if not dated:
        return ""
    gap, stream = min(dated, key=lambda item: item[0])
    last = stream.progress
    assert last is not None
    where = f"{last.file}:{last.line}"
    ago = _span(gap)
    if gap <= AT_WORK_S:
        return f"It was not hanging: its last step was logged {ago} before the limit ({where})."
    usual = _interval(stream.before_last, last)
    if gap >= SILENT_S and usual is not None and gap >= SILENT_INTERVALS * usual:
        return f"It was probably hanging: its last step was logged {ago} before the limit ({where}); look there first."
    return f"Its last step was logged {ago} before the limit ({where})."


def _interval(before: LogEvidence | None, last: LogEvidence) -> float | None:
    return seconds_between(time_within(before.text), time_within(last.text)) if before is not None else None


def _span(seconds: float) -> str:
    if seconds < 120:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 7200 else f"{seconds / 3600:.1f} h"
