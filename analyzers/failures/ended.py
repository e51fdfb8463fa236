"""Whether a job is over by its own or its scheduler's word, whatever way it ended."""

from __future__ import annotations

from analyzers.failures.accounting import own_row, read_rows
from analyzers.failures.events import Scan
from analyzers.failures.reading import ends_attempt
from analyzers.failures.topology import Topology

_NOT_OVER = frozenset(
    {"RUNNING", "PENDING", "SUSPENDED", "COMPLETING", "CONFIGURING", "REQUEUED", "REQUEUE_HOLD", "RESIZING", "STOPPED",
     "SIGNALING", "STAGE_OUT", ""}
)  # fmt: skip


def has_ended(scan: Scan, topology: Topology) -> bool:
    """Whether the scheduler's record has an end; where there is none, whether the launcher or the scheduler said in a
    log that it ends the job, or everybody who made steps said that all is done. ``scan`` is one with a verdict."""
    rows = [row for file, lines in scan.accounting for row in read_rows(file, lines)]
    own = own_row(rows, scan.job_ids, topology, scan.last_time)
    if own is not None:
        return own.state not in _NOT_OVER
    for event in scan.events:
        is_latest = event.attempt == scan.last_attempt.get(event.file, 0)
        if ends_attempt(event) and is_latest and not (event.survived or event.foreign or event.outlived):
            return True
    steppers = [stream for stream in scan.streams.values() if stream.progress is not None]
    return bool(steppers) and all(
        stream.success is not None and stream.progress is not None and stream.success.line >= stream.progress.line
        for stream in steppers
    )
