"""The semantic workload: sessions placed in time, jobs in order of submission, trees and logs on demand."""

from __future__ import annotations

import heapq
import math
from collections.abc import Iterator, Mapping
from functools import cached_property
from itertools import islice

import numpy as np

from schedmate.workload.facts import facts_of, unread_options
from schedmate.workload.logs import logs_of
from schedmate.workload.params import parameters
from schedmate.workload.render import command_of, tree_files
from schedmate.workload.rng import stream
from schedmate.workload.sessions import Draft, sessions
from schedmate.workload.types import Ask, FailureTruth, Generated, LogFile, Truth, WorkloadSpec

#: Number of the first job, so that ids sort as they were submitted.
_FIRST_ID = 10_001


class SemanticGenerator:
    """Jobs as real programs, with true durations from a physical model. See `schedmate.workload.types.Generator`.

    The spec is walked twice: once to know how much work it is (that decides the length of the arrival window), and then
    for the jobs. Only jobs of sessions that have begun and not yet handed in everything are held.
    """

    name = "semantic"

    def __init__(self, spec: WorkloadSpec) -> None:
        self.spec = spec

    @cached_property
    def _size(self) -> tuple[int, float]:
        """(sessions, GPU seconds) of the whole workload."""
        count, jobs, work_s = 0, 0, 0.0
        for drafts in sessions(self.spec):
            taken = drafts[: self.spec.jobs - jobs]
            count, jobs = count + 1, jobs + len(taken)
            work_s += sum(draft.end.duration_s * draft.project.gpus for draft in taken)
            if jobs >= self.spec.jobs:
                return count, work_s
        raise AssertionError("sessions never end")

    def span_s(self) -> float:
        """Length of the arrival window: as asked for in days, else what the load makes it."""
        if self.spec.days is not None:
            return self.spec.days * 86_400.0
        return self._size[1] / (self.spec.load * self.spec.cluster.gpus)

    def jobs(self) -> Iterator[Generated[Draft]]:
        """All jobs in order of submission."""
        for number, (submit_s, draft) in enumerate(self._in_time()):
            yield self._generated(f"{_FIRST_ID + number}", float(round(submit_s)), draft)

    def tree(self, job: Generated[Draft]) -> Mapping[str, str]:
        """The files of the job's source tree by relative path."""
        return tree_files(job.recipe.project)

    def logs(
        self, job: Generated[Draft], start_s: float, nodes: tuple[str, ...]
    ) -> tuple[list[LogFile], FailureTruth | None]:
        """The logs that the job leaves when it starts at ``start_s`` on ``nodes``; the cause where it ended badly."""
        return logs_of(job, start_s, nodes, self.spec.seed)

    def _in_time(self) -> Iterator[tuple[float, Draft]]:
        count, _ = self._size
        begin = _Clock(self.span_s())
        rng = stream(self.spec.seed, "places")
        waiting: list[tuple[float, int, Draft]] = []
        serial, left = 0, self.spec.jobs
        for index, drafts in enumerate(islice(sessions(self.spec), count)):
            begin_s = begin((index + float(rng.random())) / count)
            while waiting and waiting[0][0] <= begin_s:
                submit_s, _, draft = heapq.heappop(waiting)
                yield submit_s, draft
            for draft in drafts[:left]:
                heapq.heappush(waiting, (begin_s + draft.offset_s, serial, draft))
                serial += 1
            left -= len(drafts[:left])
        while waiting:
            submit_s, _, draft = heapq.heappop(waiting)
            yield submit_s, draft

    def _generated(self, job_id: str, submit_s: float, draft: Draft) -> Generated[Draft]:
        project, end, run = draft.project, draft.end, draft.run
        evaluation = draft.kind == "evaluation"
        ask = Ask(
            job_id=job_id,
            submit_s=submit_s,
            user=project.user.name,
            tenant=project.user.tenant,
            name=_job_name(draft),
            tree=project.tree,
            command=command_of(project, draft.overrides, draft.limit_s, evaluation=evaluation),
            gpus=project.gpus,
            nodes=project.nodes,
            gpu_type=self.spec.cluster.gpu_type,
            limit_s=draft.limit_s,
        )
        truth = Truth(
            kind=draft.kind,
            style=project.style.name,
            duration_s=end.duration_s,
            outcome=end.outcome,
            steps_planned=run.steps,
            steps_per_epoch=run.steps_per_epoch,
            steps_done=end.steps,
            step_s=run.step.seconds,
            startup_s=run.startup_s,
            stopped_early=end.stopped_early,
            failure=end.failure,
            peak_gpu_memory_mib=draft.gpu_mib,
            mean_gpu_utilization=draft.utilization,
            communication_share=round(run.step.communication_share, 4),
            peak_host_memory_mib=draft.host_mib,
            facts=facts_of(draft),
            unread_options=unread_options(draft),
        )
        return Generated(ask, truth, draft)


def _job_name(draft: Draft) -> str:
    sweep = "-" + "-".join(draft.overrides.values())
    return draft.project.name + {"debug": "-debug", "evaluation": "-eval", "sweep": sweep}.get(draft.kind, "")


class _Clock:
    """Second at which a place in 0..1 lies: uniform in submissions, so that they follow the hours of the day."""

    def __init__(self, span_s: float) -> None:
        hours = np.arange(0, math.ceil(span_s / 3600) + 1)
        hourly = parameters()["hourly"]
        rate = np.array([hourly[int(hour) % 24] for hour in hours[:-1]], dtype=float)
        rate[-1] *= (span_s / 3600) - (len(rate) - 1)
        self._total = np.concatenate([[0.0], np.cumsum(rate)])
        self._edges = np.minimum(hours * 3600.0, span_s)

    def __call__(self, place: float) -> float:
        return float(np.interp(place * self._total[-1], self._total, self._edges))
