"""The outcome of a walk as plain data: what `schedmate demo --json` prints and the report shows."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from schedmate.demo.plays import BASELINE, PLAYS, Play
from schedmate.demo.scores import diagnosis_scores, fact_scores, prediction_scores, progress_scores
from schedmate.demo.walk import Walk
from schedmate.simulator import Result


def outcome(walk: Walk, root: Path, command: str) -> dict[str, Any]:
    """All figures. The same seed and version give the same object, whatever the machine (docs/json/demo.md)."""
    asks, truth = walk.workload.asks, walk.workload.truth
    cluster = walk.spec.cluster
    work_s = sum(ask.gpus * truth[ask.job_id].duration_s for ask in asks)
    return {
        "synthetic": True,
        "seed": walk.spec.seed,
        "command": command,
        "cluster": {"nodes": cluster.nodes, "gpus_per_node": cluster.gpus_per_node, "gpu_type": cluster.gpu_type},
        "workload": {
            "jobs": len(asks),
            "users": len({ask.user for ask in asks}),
            "source_trees": len(walk.workload.trees),
            "styles": len({true.style for true in truth.values()}),
            "span_s": walk.workload.span_s,
            "load": work_s / (cluster.gpus * walk.workload.span_s),
            "outcomes": _count(true.outcome for true in truth.values()),
            "gpus": {str(gpus): n for gpus, n in sorted(_count(ask.gpus for ask in asks).items())},
        },
        "policies": [policy_row(walk, play) for play in PLAYS],
        "facts": fact_scores(asks, truth, walk.facts),
        "prediction": prediction_scores(asks, truth, walk.predictions),
        "diagnosis": diagnosis_scores(walk.diagnosed),
        "progress": {"snapshot_s": walk.snapshot_s, **progress_scores(walk.watched)},
        "files": {
            "report": str(root / "report.html"),
            "result": str(root / "demo.json"),
            "workload": str(root / "workload"),
        },
    }


def policy_row(walk: Walk, play: Play) -> dict[str, Any]:
    """The metrics of one replay; ratios are against FIFO (below 1 is better)."""
    result, base = walk.results[play.key], walk.results[BASELINE]
    summary = result.summary()
    return {
        "key": play.key,
        "title": play.title,
        "policy": result.policy,
        "estimates": result.estimates,
        "jobs": summary["jobs"],
        "jct_s": summary["jct_s"],
        "queueing_s": summary["queueing_s"],
        "sor": summary["sor"],
        "sor_while_arriving": share_until(result, walk.workload.span_s),
        "gfr": summary["gfr"]["mean"],
        "makespan_s": summary["makespan_s"],
        "bounded_slowdown": summary["bounded_slowdown"]["mean"],
        "jct_ratio": _ratio(result, base),
        "jwtd_s": summary["jwtd_s"],
    }


def share_until(result: Result, until_s: float) -> float:
    """Mean GAR from the first moment until ``until_s``."""
    times_s, values = result.gar.times_s, result.gar.values
    inside = np.minimum(times_s, until_s)
    seconds = inside[-1] - inside[0]
    return float(np.dot(values[:-1], np.diff(inside)) / seconds) if seconds > 0 else 0.0


def _ratio(result: Result, base: Result) -> float:
    return float(result.jct_s.mean() / base.jct_s.mean())


def _count(values: Any) -> dict[Any, int]:
    counts: dict[Any, int] = {}
    for value in values:
        counts[value] = counts.get(value, 0) + 1
    return counts
