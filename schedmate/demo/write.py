"""Everything a workload leaves on disk: source trees, the list of submissions, logs of ended and of running jobs.

The truth goes to a file of its own (``workload/truth.jsonl``) that nothing in the walk reads.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from schedmate.demo import params
from schedmate.demo.folder import OutFolder
from schedmate.demo.jobs import Ask, FailureTruth, Truth, Workload, tree_name
from schedmate.demo.logs.failure import Scene, write_failure
from schedmate.demo.logs.training import Trail
from schedmate.demo.logs.training import write as training_log
from schedmate.demo.render import tree_files
from schedmate.demo.rng import stream

WORK = "workload/work"
RUNS = "workload/runs"
RUNNING = "workload/running"
_README = """Synthetic workload of `schedmate demo` (seed {seed}): every file here was generated.

- work/USER/PROJECT-vN/  source trees; submissions.jsonl  the launch commands
- runs/JOB/              logs of ended jobs; running/JOB.log  logs of jobs still running at the snapshot
- truth.jsonl            what the generator knows: read only to score the results
"""


@dataclass(frozen=True, slots=True)
class RunningLog:
    """The log of a job at the moment of the snapshot, with what is true of it."""

    job_id: str
    path: Path
    now: datetime
    step: int
    steps_planned: int
    left_s: float
    completes: bool


def moment(seconds: float) -> datetime:
    """The date of a second on the workload's clock."""
    return datetime.fromisoformat(params.EPOCH_DATE).replace(tzinfo=None) + timedelta(seconds=seconds)


def write_sources(out: OutFolder, workload: Workload, seed: int) -> dict[str, Path]:
    """Write trees, submissions and truth; returns the folder of every tree by name."""
    out.write("workload/README.txt", _README.format(seed=seed))
    folders = {}
    for name, project in workload.trees.items():
        for path, text in tree_files(project).items():
            out.write(f"{WORK}/{name}/{path.as_posix()}", text)
        folders[name] = out.root / WORK / name
    out.write("workload/submissions.jsonl", "".join(_line(_submission(ask)) for ask in workload.asks))
    out.write("workload/truth.jsonl", "".join(_line(_truth(ask, workload.truth[ask.job_id])) for ask in workload.asks))
    return folders


def write_runs(
    out: OutFolder,
    workload: Workload,
    starts_s: Mapping[str, float],
    nodes: Mapping[str, tuple[int, ...]],
    seed: int,
) -> dict[str, tuple[Path, FailureTruth]]:
    """Write the logs of all ended jobs; returns folder and true cause of those that ended badly.

    ``nodes`` are the indices of the nodes that a job ran on.
    """
    failed = {}
    for ask in workload.asks:
        truth, start_s = workload.truth[ask.job_id], starts_s[ask.job_id]
        log = training_log(_trail(ask, truth, start_s, truth.duration_s, seed))
        if truth.outcome in ("failed", "timeout"):
            rng = stream(seed, "failure", ask.job_id)
            names = tuple(f"gpu-{index + 1:02d}" for index in nodes[ask.job_id])
            scene = Scene(ask, truth, names, moment(start_s + truth.duration_s), log, rng)
            files, cause = write_failure(scene)
            failed[ask.job_id] = (out.root / RUNS / ask.job_id, cause)
        else:
            end = "" if truth.outcome == "completed" else _cancel_line(ask, start_s + truth.duration_s)
            files = {f"slurm-{ask.job_id}.out": log + end}
        for name, text in files.items():
            out.write(f"{RUNS}/{ask.job_id}/{name}", text)
    return failed


def write_running(
    out: OutFolder, workload: Workload, starts_s: Mapping[str, float], now_s: float, seed: int
) -> list[RunningLog]:
    """Write the logs, as far as they had got, of the jobs that train at ``now_s``."""
    found = []
    for ask in workload.asks:
        truth, start_s = workload.truth[ask.job_id], starts_s[ask.job_id]
        ran_s, end_s = now_s - start_s, start_s + truth.duration_s
        if not (ran_s > truth.startup_s * 1.5 and now_s < end_s):
            continue
        trail = _trail(ask, truth, start_s, ran_s, seed)
        path = out.write(f"{RUNNING}/{ask.job_id}.log", training_log(trail))
        found.append(
            RunningLog(
                job_id=ask.job_id,
                path=path,
                now=moment(now_s),
                step=trail.steps_done,
                steps_planned=trail.steps_planned,
                left_s=(trail.steps_planned - trail.steps_done) * trail.pace_s,
                completes=truth.outcome == "completed" and truth.steps_done == truth.steps_planned,
            )
        )
    return found


def _trail(ask: Ask, truth: Truth, start_s: float, ran_s: float, seed: int) -> Trail:
    """What the job had done after ``ran_s`` seconds, at the pace of its whole run."""
    startup_s = min(truth.startup_s, 0.9 * truth.duration_s)
    pace_s = (truth.duration_s - startup_s) / truth.steps_done if truth.steps_done else truth.step_s
    steps = min(truth.steps_done, max(0, int((ran_s - startup_s) / pace_s + 1e-6)))
    return Trail(
        project=replace(ask.project, gpus=ask.gpus, nodes=ask.nodes),
        hyper=truth.hyper,
        start=moment(start_s),
        startup_s=startup_s,
        pace_s=pace_s,
        steps_done=steps,
        steps_planned=truth.steps_planned,
        steps_per_epoch=truth.steps_per_epoch,
        rng=stream(seed, "log", ask.job_id),
    )


def _cancel_line(ask: Ask, end_s: float) -> str:
    when = f"{moment(end_s):%Y-%m-%dT%H:%M:%S}"
    return f"slurmstepd: error: *** STEP {ask.job_id}.0 ON gpu-01 CANCELLED AT {when} ***\n"


def _line(row: Mapping[str, Any]) -> str:
    return json.dumps(row, sort_keys=False) + "\n"


def _submission(ask: Ask) -> dict[str, Any]:
    return {
        "job_id": ask.job_id,
        "submit_s": ask.submit_s,
        "user": ask.project.user,
        "tenant": ask.project.tenant,
        "name": ask.name,
        "workdir": f"work/{tree_name(ask.project)}",
        "command": ask.command,
        "gpus": ask.gpus,
        "nodes": ask.nodes,
        "limit_s": ask.limit_s,
    }


def _truth(ask: Ask, truth: Truth) -> dict[str, Any]:
    return {"job_id": ask.job_id, "kind": ask.kind, "style": ask.project.style.name, **asdict(truth)}
