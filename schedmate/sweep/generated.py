"""The synthetic workload as replays see it: records, a cluster, and what may be known of each job."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from analyzers.history import MemoryHistoryStore
from analyzers.source import analyze
from analyzers.types import JobRecord, SourceFacts
from schedmate.demo.folder import OutFolder
from schedmate.demo.history import WalkedHints, replay_records, submission_of
from schedmate.demo.jobs import Workload, tree_name
from schedmate.demo.params import WorkloadSpec
from schedmate.demo.sessions import make_workload
from schedmate.demo.write import write_sources
from schedmate.knowledge import estimates_named
from schedmate.pipeline import Pipeline
from schedmate.scheduler import ClusterSpec
from schedmate.simulator import Estimates
from schedmate.sweep.spec import Generated


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
    workload = make_workload(spec)
    cluster = ClusterSpec.uniform(spec.cluster.nodes, spec.cluster.gpus_per_node)
    known = _hints(workload, spec) if estimates == "predicted" else estimates_named(estimates)
    return Made(replay_records(workload), cluster, known)


def _hints(workload: Workload, spec: WorkloadSpec) -> Estimates:
    with TemporaryDirectory(prefix="schedmate-sweep-") as folder:
        out = OutFolder(Path(folder) / "sources")
        try:
            folders = write_sources(out, workload, spec.seed)
            submissions = {ask.job_id: submission_of(ask, folders, spec.cluster.gpu_type) for ask in workload.asks}
            known: dict[tuple[str, str, int, int], SourceFacts] = {}
            facts = {}
            for ask in workload.asks:
                key = (tree_name(ask.project), ask.command, ask.gpus, ask.nodes)
                if key not in known:  # a sweep launches the same tree again and again
                    known[key] = analyze(submissions[ask.job_id])
                facts[ask.job_id] = known[key]
        finally:
            out.close()
    return WalkedHints(Pipeline(MemoryHistoryStore()), submissions, facts, workload.truth)
