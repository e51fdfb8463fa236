"""One cell of a sweep: a pure function of (workload, policy, estimates, load, seed), run in a worker process."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from pathlib import Path
from typing import Any

import schedmate
from analyzers.types import JobRecord
from prompts.errors import UserError
from schedmate.knowledge import estimates_named
from schedmate.ports import TraceNotes
from schedmate.repeats import jobs_once
from schedmate.scheduler import ClusterSpec, Tenant
from schedmate.simulator import simulate
from schedmate.simulator.cluster_file import read_cluster, read_tenants, uniform_cluster
from schedmate.simulator.headline import headline
from schedmate.simulator.load import at_load
from schedmate.simulator.shake import shaken
from schedmate.simulator.still_running import as_far_as_it_got
from schedmate.simulator.warm_start import when_eligible
from schedmate.sweep.generated import generate
from schedmate.sweep.spec import Workload
from schedmate.traces import open_trace

#: What a cell's numbers can depend on, beside its inputs: all but what talks to people.
_ROOMS = ("analyzers", "predictors", "integrations", "schedmate")
_TALK = ("commands", "service", "report", "batch", "comparison")
_KINDS = (".py", ".j2", ".yaml", ".json", ".toml")


@dataclass(frozen=True, slots=True)
class Cell:
    """``inputs`` is the digest of the files it reads and of the code that runs it."""

    workload: Workload
    policy: str
    estimates: str
    load: float
    seed: int
    shake_s: float
    inputs: str

    @property
    def key(self) -> str:
        """The same for the same numbers: name of its file."""
        said = [self.policy, self.estimates, self.load, self.seed, self.shake_s, self.inputs]
        return hashlib.sha256(json.dumps(said).encode()).hexdigest()[:32]


def run_cell(cell: Cell) -> dict[str, Any]:
    """The headline metrics of one replay, and how many jobs it had."""
    workload = cell.workload
    around = workload.conditions
    if workload.generated is not None:
        made = generate(workload.generated, max(1, cell.seed), cell.load, cell.estimates)
        result = simulate(made.records, made.cluster, cell.policy, made.estimates, conditions=around)
    else:
        records = _shaken_records(workload, cell.load, cell.seed, cell.shake_s)
        cluster, tenants = cluster_of(workload)
        known = estimates_named(cell.estimates, records, max(1, cell.seed))
        result = simulate(records, cluster, cell.policy, known, tenants=tenants, conditions=around)
    if not result.job_ids:
        why = next(iter(result.skipped), "no job")
        raise UserError(f"workload {workload.name}: no job of it can be replayed on this cluster ({why})", "see nodes")
    return {"jobs": len(result.job_ids), "skipped": dict(result.skipped), "metrics": headline(result)}


@lru_cache(maxsize=1)
def _shaken_records(workload: Workload, load: float, seed: int, within_s: float) -> tuple[JobRecord, ...]:
    """Those of a seed; its cells come one after the other."""
    return tuple(shaken(at_load(read_records(workload), load), seed, within_s))


def read_records(workload: Workload) -> tuple[JobRecord, ...]:
    """The jobs of a trace, each once, in order of submission."""
    return read_trace(workload)[0]


@lru_cache(maxsize=2)
def read_trace(workload: Workload) -> tuple[tuple[JobRecord, ...], TraceNotes]:
    """The same, and what there is to tell of them. A worker reads a trace once and not for every cell."""
    if workload.trace is None:
        raise ValueError(f"workload {workload.name} has no trace")
    opened = partial(open_trace, workload.trace, workload.format, dict(workload.options))
    found, notes = jobs_once(opened, lambda jobs, _: list(jobs))
    records: Iterator[JobRecord] = _played(map(when_eligible, found), notes)
    if workload.cluster is None:  # equal nodes of unknown type take any
        records = (replace(record, gpu_type=None) if record.gpu_type else record for record in records)
    return tuple(sorted(records, key=lambda record: record.submit_s)), notes


def _played(records: Iterator[JobRecord], notes: TraceNotes) -> Iterator[JobRecord]:
    for record in records:
        played = as_far_as_it_got(record)
        if played is not record:
            notes.remark("still ran when the trace was written, played as far as it had got")
        yield played


def cluster_of(workload: Workload) -> tuple[ClusterSpec, tuple[Tenant, ...]]:
    """The cluster of a trace's workload and its tenants."""
    if workload.cluster is None:
        return uniform_cluster(workload.nodes, workload.gpus_per_node), ()
    cluster = read_cluster(workload.cluster)
    return cluster, read_tenants(workload.cluster, cluster)


def digest_of_inputs(workload: Workload) -> str:
    """Changes whenever the trace, the cluster, how they are read or any line of the code does."""
    digest = hashlib.sha256(_digest_of_code().encode())
    for path in (workload.trace, workload.cluster, *workload.files):
        digest.update(_digest_of_file(path).encode() if path is not None else b"none")
    said = [workload.format, workload.options, workload.nodes, workload.gpus_per_node, workload.asked]
    made = workload.generated and [workload.generated.jobs, workload.generated.load]
    digest.update(json.dumps([said, made]).encode())
    return digest.hexdigest()


def _digest_of_file(path: Path) -> str:
    try:
        with path.open("rb") as stream:
            return hashlib.file_digest(stream, "sha256").hexdigest()
    except OSError as error:
        raise UserError(f"{path}: {error.strerror or error}", "files of a sweep are beside its spec") from None


@lru_cache(maxsize=1)
def _digest_of_code() -> str:
    root, digest = Path(schedmate.__file__).parent.parent, hashlib.sha256()
    paths = [path for room in _ROOMS for path in (root / room).rglob("*") if path.suffix in _KINDS]
    for path in sorted(path for path in paths if path.relative_to(root).parts[1] not in _TALK):
        digest.update(path.relative_to(root).as_posix().encode() + b"\0" + path.read_bytes())
    return digest.hexdigest()
