"""Any generator's workload on disk, written job by job.

The truth goes to a file of its own (``truth.jsonl``) that nothing which predicts may read.
"""

from __future__ import annotations

import csv
import json
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import asdict, dataclass, field
from typing import Any, TypeVar

from schedmate.workload.folder import OutFolder
from schedmate.workload.records import TRACE_COLUMNS, WORK, record_of, trace_row
from schedmate.workload.rng import stream
from schedmate.workload.types import ClusterSpec, Generated, Generator, LogFile

R = TypeVar("R")

LOGS = "logs"
TRACE = "synthetic-trace.csv"
_README = """Synthetic workload: every file here was generated (generator {name}, seed {seed}). No job of it ever ran.

- workload.json         what it was drawn from, and what came out
- submissions.jsonl     the jobs as they are handed in
- {trace}   the same jobs as a trace with their durations, for `schedmate simulate`
- {work}/USER/PROJECT-vN/  source trees; {logs}/JOB/  logs, as on a cluster without a queue (each where asked for)
- truth.jsonl           what only the generator knows: read it to score results, never to predict
"""


@dataclass(slots=True)
class Written:
    """What was written: jobs by outcome, by style and by number of GPUs, trees, files of logs, GPU seconds."""

    jobs: int = 0
    trees: int = 0
    log_files: int = 0
    gpu_s: float = 0.0
    outcomes: Counter[str] = field(default_factory=Counter)
    styles: Counter[str] = field(default_factory=Counter)
    gpus: Counter[int] = field(default_factory=Counter)

    def count(self, job: Generated[Any]) -> None:
        """Count one job."""
        self.jobs += 1
        self.gpu_s += job.ask.gpus * job.truth.duration_s
        self.outcomes[job.truth.outcome] += 1
        self.styles[job.truth.style] += 1
        self.gpus[job.ask.gpus] += 1


def write_workload(
    generator: Generator[R],
    out: OutFolder,
    *,
    with_trees: bool = True,
    with_logs: bool = False,
    advance: Callable[[int], None] = lambda n: None,
) -> dict[str, Any]:
    """Write the whole workload below ``out`` and return its description (``workload.json``)."""
    spec = generator.spec
    out.write("README.txt", _README.format(name=generator.name, seed=spec.seed, trace=TRACE, work=WORK, logs=LOGS))
    written, seen = Written(), set[str]()
    with ExitStack() as files:
        submissions = files.enter_context(out.open("submissions.jsonl"))
        truths = files.enter_context(out.open("truth.jsonl"))
        trace = csv.writer(files.enter_context(out.open(TRACE)), lineterminator="\n")
        trace.writerow(TRACE_COLUMNS)
        for job in generator.jobs():
            submissions.write(_line(submission_row(job)))
            truths.write(_line({"job_id": job.ask.job_id, **asdict(job.truth)}))
            trace.writerow(trace_row(record_of(job.ask, job.truth)))
            written.count(job)
            if with_trees and job.ask.tree not in seen:
                seen.add(job.ask.tree)
                write_tree(out, f"{WORK}/{job.ask.tree}", generator.tree(job))
            if with_logs:
                nodes = _some_nodes(spec.seed, spec.cluster, job)
                logs, _ = generator.logs(job, job.ask.submit_s, nodes)
                written.log_files += write_logs(out, f"{LOGS}/{job.ask.job_id}", iter(logs))
            advance(1)
    written.trees = len(seen)
    described = description(generator, written)
    out.write("workload.json", json.dumps(described, indent=2) + "\n")
    return described


def submission_row(job: Generated[Any]) -> dict[str, Any]:
    """One line of ``submissions.jsonl``."""
    row = asdict(job.ask)
    tree = row.pop("tree")
    return {**row, "workdir": f"{WORK}/{tree}", "synthetic": True}


def write_tree(out: OutFolder, folder: str, files: Mapping[str, str]) -> None:
    """Write the files of one source tree."""
    for name, text in files.items():
        out.write(f"{folder}/{name}", text)


def write_logs(out: OutFolder, folder: str, logs: Iterator[LogFile]) -> int:
    """Write the logs of one job piece by piece; returns how many files."""
    count = 0
    for log in logs:
        with out.open(f"{folder}/{log.name}") as file:
            file.writelines(log.pieces)
        count += 1
    return count


def description(generator: Generator[Any], written: Written) -> dict[str, Any]:
    """What the workload was drawn from, and what came out."""
    spec, span_s = generator.spec, generator.span_s()
    return {
        "synthetic": True,
        "generator": generator.name,
        "seed": spec.seed,
        "profile": spec.profile,
        "cluster": {
            "nodes": spec.cluster.nodes,
            "gpus_per_node": spec.cluster.gpus_per_node,
            "gpu_type": spec.cluster.gpu_type,
        },
        "users": spec.users,
        "jobs": written.jobs,
        "source_trees": written.trees,
        "log_files": written.log_files,
        "span_s": span_s,
        "load": written.gpu_s / (spec.cluster.gpus * span_s),
        "outcomes": dict(sorted(written.outcomes.items())),
        "styles": dict(sorted(written.styles.items())),
        "gpus": {str(gpus): count for gpus, count in sorted(written.gpus.items())},
    }


def _some_nodes(seed: int, cluster: ClusterSpec, job: Generated[Any]) -> tuple[str, ...]:
    """Nodes for a job on a cluster without a queue."""
    order = stream(seed, "nodes", job.ask.job_id).permutation(cluster.nodes)
    return tuple(f"gpu-{int(index) + 1:02d}" for index in order[: job.ask.nodes])


def _line(row: Mapping[str, Any]) -> str:
    return json.dumps(row) + "\n"
