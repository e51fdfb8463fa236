"""The second generator: jobs in order of submission, their trees, their logs."""

from __future__ import annotations

import heapq
import math
from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import cached_property

from schedmate.workload.types import FailureTruth, Generated, LogFile, WorkloadSpec
from schedmate.workload_independent.draws import Draw
from schedmate.workload_independent.logs import logs_of
from schedmate.workload_independent.people import People
from schedmate.workload_independent.physics import Machines
from schedmate.workload_independent.programs import tree_of
from schedmate.workload_independent.sessions import Sessions
from schedmate.workload_independent.settings import Draft
from schedmate.workload_independent.tables import tables

_DAY_S = 86_400.0
_FIRST_ID = 700_001
#: People go home in the evening: submissions are thinnest so long after midnight.
_QUIETEST_S = 4.5 * 3600


class IndependentGenerator:
    """Implements `schedmate.workload.Generator`. The same spec gives the same bytes."""

    name = "independent"

    def __init__(self, spec: WorkloadSpec) -> None:
        tables().ends(spec.profile)
        self.spec = spec

    def span_s(self) -> float:
        """Length of the arrival window in seconds: as told, or so that the load is as told."""
        if self.spec.days is not None:
            return self.spec.days * _DAY_S
        return self._size[1] / (self.spec.load * self.spec.cluster.gpus)

    @cached_property
    def _size(self) -> tuple[int, float]:
        """Sittings that make up the jobs, and GPU seconds of them all."""
        sessions, left, gpu_s, number = self._sessions(), self.spec.jobs, 0.0, 0
        while left > 0:
            for job in sessions.jobs(number):
                if left > 0:
                    gpu_s += job.ask.gpus * job.truth.duration_s
                    left -= 1
            number += 1
        return number, gpu_s

    def _sessions(self) -> Sessions:
        spec = self.spec
        machines = Machines(spec.cluster, spec.seed)
        return Sessions(spec.seed, People(spec.seed, spec.users, spec.profile, machines), machines, spec.profile)

    def jobs(self) -> Iterator[Generated[Draft]]:
        """All jobs in order of submission; only those of sittings under way are kept."""
        sessions, span_s, (count, _) = self._sessions(), self.span_s(), self._size
        waiting: list[tuple[float, int, Generated[Draft]]] = []
        made = issued = 0
        for number in range(count):
            start_s = self._start_s(number, count, span_s)
            while waiting and waiting[0][0] <= start_s:
                yield _numbered(waiting, issued)
                issued += 1
            for job in sessions.jobs(number):
                if made < self.spec.jobs:
                    heapq.heappush(waiting, (start_s + job.ask.submit_s, made, job))
                    made += 1
        while waiting:
            yield _numbered(waiting, issued)
            issued += 1

    def _start_s(self, number: int, count: int, span_s: float) -> float:
        """Evenly over the window, then pulled from the nights into the days."""
        even_s = span_s * (number + Draw(self.spec.seed, "start", number).between(0, 1)) / count
        if span_s < 2 * _DAY_S:
            return even_s
        night: float = tables().numbers["sessions"]["night"]
        turn = 2 * math.pi / _DAY_S
        into_day = math.sin(turn * (even_s - _QUIETEST_S)) + math.sin(turn * _QUIETEST_S)
        return max(0.0, even_s + night / turn * into_day)

    def tree(self, job: Generated[Draft]) -> Mapping[str, str]:
        """The files of the job's source tree by relative path."""
        return tree_of(job.recipe.program)

    def logs(
        self, job: Generated[Draft], start_s: float, nodes: tuple[str, ...]
    ) -> tuple[list[LogFile], FailureTruth | None]:
        """What the job prints when it starts at ``start_s`` on ``nodes``, and the cause where it ended badly."""
        return logs_of(job, start_s, nodes, Draw(self.spec.seed, "log", job.ask.job_id))


def _numbered(waiting: list[tuple[float, int, Generated[Draft]]], issued: int) -> Generated[Draft]:
    submit_s, _, job = heapq.heappop(waiting)
    return replace(job, ask=replace(job.ask, job_id=str(_FIRST_ID + issued), submit_s=round(submit_s)))
