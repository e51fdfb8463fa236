"""The synthetic workload as replays see it: records, a cluster, and what may be known of each job."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from tempfile import TemporaryDirectory

from analyzers.history import MemoryHistoryStore
from analyzers.source import analyze
from analyzers.types import JobRecord, SourceFacts, Submission
from schedmate.demo.history import WalkedHints
from schedmate.demo.jobs import FOLDER, Workload, make_workload, write_sources
from schedmate.knowledge import estimates_named
from schedmate.pipeline import Pipeline
from schedmate.scheduler import ClusterSpec
from schedmate.simulator import Estimates
from schedmate.sweep.spec import Generated
from schedmate.workload import WorkloadSpec
from schedmate.workload.folder import OutFolder
from schedmate.workload.records import record_of, submission_of


@dataclass(frozen=True, slots=True)
class Made:
    """One generated workload."""

    records: Sequence[JobRecord]
    cluster: ClusterSpec
    estimates: Estimates


def generate(asked: Generated, seed: int, load: float, estimates: str) -> Made:
    """The workload of a seed, ``load`` times the load asked for.

    Predicted are hints from source, launch command and the jobs that have ended: the sources are written to a folder
    of their own, read, and gone when this returns.
    """
    spec = WorkloadSpec(seed=seed, jobs=asked.jobs, load=asked.load * load)
    workload = _workload(spec)
    cluster = ClusterSpec.uniform(spec.cluster.nodes, spec.cluster.gpus_per_node)
    records = [record_of(job.ask, job.truth) for job in workload.jobs]
    known = _hints(spec) if estimates == "predicted" else estimates_named(estimates, records, seed)
    return Made(records, cluster, known)


def _hints(spec: WorkloadSpec) -> Estimates:
    """Fresh ones, whose history is empty; what the sources say is read once for all policies."""
    submissions, facts = _read(spec)
    return WalkedHints(Pipeline(MemoryHistoryStore()), submissions, facts, _workload(spec).truth)


@lru_cache(maxsize=1)
def _workload(spec: WorkloadSpec) -> Workload:
    return make_workload(spec)


@lru_cache(maxsize=1)
def _read(spec: WorkloadSpec) -> tuple[dict[str, Submission], dict[str, SourceFacts]]:
    """By job, what was submitted and what source and command say of it."""
    workload = _workload(spec)
    with TemporaryDirectory(prefix="schedmate-sweep-") as folder:
        out = OutFolder(Path(folder) / "sources", "sweep")
        try:
            write_sources(out, workload)
            submissions = {ask.job_id: submission_of(ask, out.root / FOLDER) for ask in workload.asks}
            known: dict[tuple[str, str, int, int], SourceFacts] = {}
            facts = {}
            for ask in workload.asks:
                key = (ask.tree, ask.command, ask.gpus, ask.nodes)
                if key not in known:  # a sweep launches the same tree again and again
                    known[key] = analyze(submissions[ask.job_id])
                facts[ask.job_id] = known[key]
        finally:
            out.close()
    return submissions, facts
