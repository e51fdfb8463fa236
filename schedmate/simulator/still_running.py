"""Jobs that still ran when the trace was written: they held GPUs that others waited for, so a replay has them."""

from __future__ import annotations

from dataclasses import replace

from analyzers.types import JobRecord


def as_far_as_it_got(record: JobRecord) -> JobRecord:
    """The job, ended when the trace was written if it still ran then and the trace says for how long it had.

    The recorded queue counts it in the same way, so that both had the same work. Left out it would make every policy
    look better than what was recorded. As it is otherwise.
    """
    if record.duration_s is not None or record.ran_so_far_s is None:
        return record
    return replace(record, duration_s=record.ran_so_far_s)
