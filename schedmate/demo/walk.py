"""The whole walk over a workload: generate, read, predict, schedule, diagnose, watch. No step is skipped or faked."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path

from analyzers.failures import diagnose
from analyzers.history import MemoryHistoryStore
from analyzers.logs import read_progress
from analyzers.source import analyze
from analyzers.types import SourceFacts, Submission
from predictors.types import Prediction
from schedmate.demo.history import WalkedHints
from schedmate.demo.jobs import FOLDER, RunningLog, Workload, make_workload, write_running, write_runs, write_sources
from schedmate.demo.plays import PLAYS
from schedmate.demo.scores import Diagnosed, Watched
from schedmate.pipeline import Pipeline
from schedmate.scheduler import ClusterSpec
from schedmate.simulator import Estimates, Perfect, Requested, Result, simulate
from schedmate.workload import FailureTruth, WorkloadSpec
from schedmate.workload.folder import OutFolder
from schedmate.workload.records import record_of, submission_of

#: The snapshot of running jobs is taken at this share of the arrival window.
SNAPSHOT_AT = 0.6

Bar = Callable[[str, int | None], AbstractContextManager[Callable[[int], None]]]


@dataclass(frozen=True, slots=True)
class Walk:
    """Everything that came out of one walk. ``results`` by the key of the play."""

    spec: WorkloadSpec
    workload: Workload
    submissions: Mapping[str, Submission]
    facts: Mapping[str, SourceFacts]
    predictions: Mapping[str, Prediction]
    results: Mapping[str, Result]
    diagnosed: tuple[Diagnosed, ...]
    run_folders: Mapping[str, Path]
    watched: tuple[Watched, ...]
    snapshot_s: float


def walk(spec: WorkloadSpec, out: OutFolder, bar: Bar) -> Walk:
    """Run everything into ``out``; ``bar(title, total)`` gives a progress bar."""
    workload = make_workload(spec)
    with bar("writing source trees", None):
        write_sources(out, workload)
    submissions = {ask.job_id: submission_of(ask, out.root / FOLDER) for ask in workload.asks}
    facts = _read_sources(workload, submissions, bar)
    hints = WalkedHints(Pipeline(MemoryHistoryStore()), submissions, facts, workload.truth)
    results = _replay_all(spec, workload, hints, bar)
    # The logs are those of the cluster as it is today, under FIFO: their clocks come from that replay.
    today = results["fifo"]
    starts_s = dict(zip(today.job_ids, today.start_s.tolist(), strict=True))
    nodes = {job_id: today.placement(i).nodes for i, job_id in enumerate(today.job_ids)}
    snapshot_s = SNAPSHOT_AT * workload.span_s
    with bar("writing runtime logs", None):
        failed = write_runs(out, workload, starts_s, nodes)
        running = write_running(out, workload, starts_s, snapshot_s)
    return Walk(
        spec=spec,
        workload=workload,
        submissions=submissions,
        facts=facts,
        predictions=hints.predictions,
        results=results,
        diagnosed=_diagnose_all(workload, failed, bar),
        run_folders={job_id: folder for job_id, (folder, _) in failed.items()},
        watched=_watch_all(running, bar),
        snapshot_s=snapshot_s,
    )


def _read_sources(workload: Workload, submissions: Mapping[str, Submission], bar: Bar) -> dict[str, SourceFacts]:
    """Facts of every job. A sweep launches the same tree with the same words but for a value: read once per launch."""
    known: dict[tuple[str, str, int, int], SourceFacts] = {}
    found = {}
    with bar("reading sources", len(workload.asks)) as advance:
        for ask in workload.asks:
            key = (ask.tree, ask.command, ask.gpus, ask.nodes)
            if key not in known:
                known[key] = analyze(submissions[ask.job_id])
            found[ask.job_id] = known[key]
            advance(1)
    return found


def _replay_all(spec: WorkloadSpec, workload: Workload, hints: WalkedHints, bar: Bar) -> dict[str, Result]:
    records = [record_of(job.ask, job.truth) for job in workload.jobs]
    cluster = ClusterSpec.uniform(spec.cluster.nodes, spec.cluster.gpus_per_node)
    knowledge: dict[str, Estimates] = {"requested": Requested(), "predicted": hints, "perfect": Perfect()}
    results = {}
    with bar("predicting and scheduling", len(PLAYS)) as advance:
        for play in PLAYS:
            results[play.key] = simulate(records, cluster, play.policy, knowledge[play.knows], keep_placements=True)
            advance(1)
    return results


def _diagnose_all(
    workload: Workload, failed: Mapping[str, tuple[Path, FailureTruth]], bar: Bar
) -> tuple[Diagnosed, ...]:
    asks = {ask.job_id: ask for ask in workload.asks}
    found = []
    with bar("diagnosing failures", len(failed)) as advance:
        for job_id, (folder, cause) in failed.items():
            found.append(Diagnosed(asks[job_id], cause, diagnose(folder)))
            advance(1)
    return tuple(found)


def _watch_all(running: list[RunningLog], bar: Bar) -> tuple[Watched, ...]:
    found = []
    with bar("reading progress", len(running)) as advance:
        for log in running:
            found.append(Watched(log, read_progress(log.path, now=log.now)))
            advance(1)
    return tuple(found)
