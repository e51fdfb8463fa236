"""One Slurm job from its accounting rows: what it got or asked for, its times, its attempts and components."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import reduce

from analyzers.types import JobRecord, State
from integrations.traces.slurm_values import Tres, array_tasks
from integrations.traces.values import END_DROPPED, MAX_GPUS, UNENDED, BadValueError, outcome_of
from schedmate.ports import TraceNotes
from schedmate.repeats import TWICE, progress_of


@dataclass(slots=True)
class Row:
    """The fields of one job row, whatever the dump was written as. Times are seconds, None where unknown."""

    job_id: str
    submit_s: float | None
    start_s: float | None
    end_s: float | None
    elapsed_s: float | None
    state: State | None
    eligible_s: float | None = None
    limit_s: float | None = None
    requested: Tres = field(default_factory=Tres)
    allocated: Tres = field(default_factory=Tres)
    nodes: int | None = None
    cpus: float | None = None
    memory_mib: float | None = None
    user: str | None = None
    account: str | None = None
    partition: str | None = None
    name: str | None = None
    command: str | None = None
    restarts: int | None = None


@dataclass(slots=True)
class Measured:
    """What steps of a job measured; None where none did."""

    peak_host_memory_mib: float | None = None
    peak_gpu_memory_mib: float | None = None
    mean_gpu_utilization: float | None = None


def record_of(row: Row, notes: TraceNotes) -> JobRecord:
    """The record of one row; raises `BadValueError` with the reason why it can not be used."""
    if row.submit_s is None:
        raise BadValueError("submit time is missing")
    asked, got = row.requested, row.allocated
    size = got if got.gpus is not None else asked
    gpus = size.gpus or 0
    if gpus > MAX_GPUS:
        raise BadValueError("gpus is out of range")
    if size.odd:
        notes.remark(size.odd)
    start_s, end_s = row.start_s, row.end_s
    state = None if _was_requeued(row) else row.state
    never_ran = state == "pending" or start_s is None or (state == "cancelled" and not row.elapsed_s)
    if never_ran:
        start_s = None
    elif start_s is not None and start_s < row.submit_s:
        notes.remark("start before submission")
    ran_s = None if never_ran or state in UNENDED else _ran_s(row)
    if ran_s is not None and start_s is not None and end_s is not None and end_s < start_s:
        notes.remark(END_DROPPED)
        end_s = None
    return JobRecord(
        job_id=row.job_id,
        submit_s=row.submit_s,
        duration_s=ran_s,
        gpus=gpus,
        start_s=start_s,
        user=row.user,
        tenant=row.account,
        name=row.name,
        command=row.command,
        gpu_type=size.gpu_type or asked.gpu_type,
        nodes=got.nodes or row.nodes or asked.nodes or None,
        requested_s=row.limit_s,
        outcome=outcome_of(state),
        eligible_s=row.eligible_s,
        end_s=None if state in UNENDED else end_s,
        state=state,
        partition=row.partition,
        cpus=got.cpus or row.cpus or asked.cpus or None,
        memory_mib=got.memory_mib or asked.memory_mib or row.memory_mib,
        gpu_milli=size.gpu_milli,
        attempts=row.restarts + 1 if row.restarts is not None else None,
        ran_so_far_s=None if never_ran or state not in UNENDED else row.elapsed_s,
    )


def _was_requeued(row: Row) -> bool:
    """Whether this is a run that ended in a requeue. Slurm stores such a run as one that waits (``REQUEUED`` is a flag
    of ``PENDING``), but what waits has not run."""
    if row.state != "pending" or row.start_s is None:
        return False
    return row.elapsed_s > 0 if row.elapsed_s is not None else row.end_s is not None


def _ran_s(row: Row) -> float:
    if row.elapsed_s is not None:
        return row.elapsed_s
    if row.start_s is None or row.end_s is None:
        raise BadValueError("neither elapsed nor end is known")
    if row.end_s < row.start_s:
        raise BadValueError("ends before it starts")
    return row.end_s - row.start_s


class Gathering:
    """Puts rows that follow each other together: attempts of a job (same id), components of a heterogeneous one
    (``12+0``, ``12+1``), and the steps of a job with its row. Rows of one job come next to each other in a dump.

    Attempts that started at the same moment are one, of which two dumps tell: the row that got farther is taken."""

    def __init__(self, notes: TraceNotes) -> None:
        self._notes = notes
        self._id = ""
        self._components: dict[str, list[JobRecord]] = {}
        self._measured = Measured()

    def job(self, record: JobRecord) -> Iterator[JobRecord]:
        """Take a job's row; yields what is complete now."""
        base, _, component = record.job_id.partition("+")
        if self._components and base != self._id:
            yield from self.rest()
        self._id = base
        attempts = self._components.setdefault(component, [])
        for at, before in enumerate(attempts):
            if _is_same_attempt(before, record):
                self._notes.skip(TWICE, f"job {record.job_id}")
                attempts[at] = record if progress_of(record) > progress_of(before) else before
                return
        attempts.append(record)

    def step(self, measured: Measured) -> None:
        """Take what a step of the job at hand measured."""
        into = self._measured
        into.peak_host_memory_mib = _largest(into.peak_host_memory_mib, measured.peak_host_memory_mib)
        into.peak_gpu_memory_mib = _largest(into.peak_gpu_memory_mib, measured.peak_gpu_memory_mib)
        into.mean_gpu_utilization = _largest(into.mean_gpu_utilization, measured.mean_gpu_utilization)

    def rest(self) -> Iterator[JobRecord]:
        """The job at hand, which nothing more will be added to."""
        components = [reduce(_with_attempt, attempts) for attempts in self._components.values()]
        seen = self._measured
        self._components, self._measured = {}, Measured()
        if not components:
            return
        record = replace(reduce(_with_component, components), job_id=self._id) if "+" in components[0].job_id else None
        record = record or components[0]
        if seen != Measured():
            record = replace(
                record,
                peak_host_memory_mib=seen.peak_host_memory_mib,
                peak_gpu_memory_mib=seen.peak_gpu_memory_mib,
                mean_gpu_utilization=seen.mean_gpu_utilization,
            )
        tasks = array_tasks(record.job_id) if record.state == "pending" else None
        if tasks is None:
            yield record
        else:
            yield from (replace(record, job_id=task) for task in tasks)


def _is_same_attempt(before: JobRecord, after: JobRecord) -> bool:
    if before.start_s is None and after.start_s is None:
        return before.submit_s == after.submit_s
    return before.start_s == after.start_s


def _with_attempt(before: JobRecord, after: JobRecord) -> JobRecord:
    """One job that was requeued: submitted and started when first, ended when last, its runs added up."""
    runs_s = [each.ran_so_far_s if each.duration_s is None else each.duration_s for each in (before, after)]
    ran_s = sum(filter(None, runs_s)) if any(each is not None for each in runs_s) else None
    runs_still = after.ran_so_far_s is not None
    runs = (before.attempts or int(before.start_s is not None)) + int(after.start_s is not None)
    return replace(
        after,
        submit_s=min(before.submit_s, after.submit_s),
        eligible_s=before.eligible_s,
        start_s=before.start_s if before.start_s is not None else after.start_s,
        duration_s=None if after.state in UNENDED else ran_s,
        ran_so_far_s=ran_s if runs_still else None,
        gpus=max(before.gpus, after.gpus),
        attempts=max(runs, after.attempts or 0) or None,
    )


def _with_component(before: JobRecord, after: JobRecord) -> JobRecord:
    """A heterogeneous job is one gang: its components start together."""
    kinds = {kind for each in (before, after) if each.gpu_type for kind in each.gpu_type.split("|")}
    nodes = None if before.nodes is None or after.nodes is None else before.nodes + after.nodes
    return replace(
        before,
        gpus=before.gpus + after.gpus,
        gpu_type="|".join(sorted(kinds)) or None,
        nodes=nodes,
        cpus=_sum(before.cpus, after.cpus),
        memory_mib=_sum(before.memory_mib, after.memory_mib),
        duration_s=_largest(before.duration_s, after.duration_s),
        end_s=_largest(before.end_s, after.end_s),
        ran_so_far_s=_largest(before.ran_so_far_s, after.ran_so_far_s),
    )


def _sum(one: float | None, other: float | None) -> float | None:
    return None if one is None or other is None else one + other


def _largest(one: float | None, other: float | None) -> float | None:
    return other if one is None else one if other is None else max(one, other)
