"""Jobs that stand in a trace more than once: dumps that overlap, put together, have some of theirs twice."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

from analyzers.types import JobRecord
from schedmate.ports import TraceNotes

TWICE = "a job that came before (the same id and submit time)"
SAME_ID = "job id that came before with another submit time, taken for another job"


def each_once(records: Iterable[JobRecord], notes: TraceNotes) -> Iterator[JobRecord]:
    """The records without repeated jobs, of which the first row is kept; those left out are counted in ``notes``.

    An id that comes again with another submit time is another job (schedulers use their numbers again): it is kept,
    counted as odd, and gets an id of its own, ``ID#2`` and so on.
    """
    first_s: dict[str, float] = {}
    later_s: dict[str, set[float]] = {}
    for record in records:
        job_id, submit_s = record.job_id, record.submit_s
        if job_id not in first_s:
            first_s[job_id] = submit_s
            yield record
            continue
        others = later_s.setdefault(job_id, set())
        if submit_s == first_s[job_id] or submit_s in others:
            notes.rows -= 1
            notes.skip(TWICE, f"job {job_id}")
        else:
            others.add(submit_s)
            notes.remark(SAME_ID)
            yield replace(record, job_id=f"{job_id}#{len(others) + 1}")
