"""Jobs that stand in a trace more than once: dumps that overlap, put together, have some of theirs twice."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from typing import TypeVar

from analyzers.types import JobRecord
from schedmate.ports import TraceNotes

TWICE = "a job that came before (the same id and submit time)"
SAME_ID = "job id that came before with another submit time, taken for another job"
T = TypeVar("T")
#: How far a row got with its job: `progress_of`.
Progress = tuple[int, float]
_Job = tuple[str, float]
_WAITED: Progress = (0, 0.0)
_ENDED: Progress = (2, 0.0)


def progress_of(record: JobRecord) -> Progress:
    """How far the job had got when its row was written; rows of one job written later compare as greater.

    One that has ended comes after one that runs, that one after one that waits; of two that run, the longer one.
    """
    if record.state in ("running", "suspended"):
        return 1, record.ran_so_far_s or 0.0
    if record.state == "pending":
        return _WAITED
    if record.state is not None or record.duration_s is not None:
        return _ENDED
    return (1, 0.0) if record.start_s is not None else _WAITED


def jobs_once(
    opened: Callable[[], tuple[Iterable[JobRecord], TraceNotes]], use: Callable[[Iterator[JobRecord], TraceNotes], T]
) -> tuple[T, TraceNotes]:
    """What ``use`` makes of the jobs of a trace, each once, with the notes that it was given.

    Of the rows of a job the one that got farthest is taken, the first of several; the others are counted as left out.
    An id that comes again with another submit time is another job (schedulers use their numbers again): it is kept,
    counted as odd, and gets an id of its own, ``ID#2`` and so on. Only ids are held. So where the first row of a job
    turns out not to be the best one, the trace is opened and used once more, and what ``use`` was about is ended by an
    exception before it returns.
    """
    best: dict[_Job, Progress] = {}
    while True:
        records, notes = opened()
        try:
            return use(_each_once(records, notes, best), notes), notes
        except _BetterRowsError as found:
            best |= found.rows


class _BetterRowsError(Exception):
    """Jobs of which a row was passed on before a better one was met."""

    def __init__(self, rows: Mapping[_Job, Progress]) -> None:
        super().__init__(len(rows))
        self.rows = rows


def _each_once(records: Iterable[JobRecord], notes: TraceNotes, best: Mapping[_Job, Progress]) -> Iterator[JobRecord]:
    """The jobs, each once; rows that got less far than ``best`` says are left out."""
    first_s: dict[str, float] = {}
    later_s: dict[str, set[float]] = {}
    unended: dict[_Job, Progress] = {}
    better: dict[_Job, Progress] = {}
    for record in records:
        job_id, submit_s = record.job_id, record.submit_s
        job, progress = (job_id, submit_s), progress_of(record)
        others = later_s.get(job_id, ())
        came = first_s.get(job_id) == submit_s or submit_s in others
        if came or (best and progress < best.get(job, _WAITED)):
            notes.rows -= 1
            notes.skip(TWICE, f"job {job_id}")
            if came and progress > better.get(job, unended.get(job, _ENDED)):
                better[job] = progress
            continue
        if progress < _ENDED:
            unended[job] = progress
        if job_id not in first_s:
            first_s[job_id] = submit_s
            yield record
        else:
            later_s.setdefault(job_id, set()).add(submit_s)
            notes.remark(SAME_ID)
            yield replace(record, job_id=f"{job_id}#{len(later_s[job_id]) + 1}")
    if better:
        raise _BetterRowsError(better)
