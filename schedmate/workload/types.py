"""What every generator of workloads makes: jobs as they are handed in, the truth that only it knows, files and logs.

A second generator implements `Generator` and is written to disk, replayed and scored by the same code. ``R`` is its
own recipe of a job: whatever it needs to write the job's tree and logs later, so that nothing is written that no one
asks for.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Generic, Literal, Protocol, TypeVar

from analyzers.types import Category, JsonValue, Outcome

R = TypeVar("R")

#: Why a job was submitted.
Kind = Literal["single", "debug", "sweep", "evaluation"]
#: Date of second 0 of a workload, only for time stamps in logs (a Monday, UTC).
EPOCH = datetime(2026, 3, 2)


def moment(seconds: float) -> datetime:
    """The date of a second on the workload's clock."""
    return EPOCH + timedelta(seconds=seconds)


@dataclass(frozen=True, slots=True)
class ClusterSpec:
    """One pool of identical nodes. The defaults are the published figures of an A100 server, one NIC per GPU."""

    nodes: int = 16
    gpus_per_node: int = 8
    gpu_type: str = "A100-80GB"
    #: Dense bf16 peak, FLOP/s (data sheet).
    peak_flops: float = 312e12
    gpu_memory_mib: int = 81_920
    #: NVLink inside a node and one 200 Gbit/s NIC per GPU between nodes, as usable bytes/s.
    intra_node_bytes_s: float = 200e9
    inter_node_bytes_s: float = 18e9

    @property
    def gpus(self) -> int:
        """All GPUs of the cluster."""
        return self.nodes * self.gpus_per_node


@dataclass(frozen=True, slots=True)
class WorkloadSpec:
    """Size of the workload.

    ``load`` is GPU time asked for over GPU time offered while jobs arrive; ``days`` fixes the length of the arrival
    window instead. ``profile`` names the published shares of outcomes and sizes (``data/parameters.yaml``).
    """

    seed: int = 1
    jobs: int = 400
    users: int = 24
    load: float = 0.95
    days: float | None = None
    profile: str = "philly"
    cluster: ClusterSpec = field(default_factory=ClusterSpec)


@dataclass(frozen=True, slots=True)
class Ask:
    """A job as handed in: everything a scheduler could know before it runs.

    ``tree`` is the folder of its source tree, relative to the workload's ``work`` folder. Several jobs may share one.
    """

    job_id: str
    submit_s: float
    user: str
    tenant: str
    name: str
    tree: str
    command: str
    gpus: int
    nodes: int
    gpu_type: str
    limit_s: float


@dataclass(frozen=True, slots=True)
class Truth:
    """What really happens. Whoever predicts or schedules may not read it before the job has ended.

    ``duration_s`` runs until the job ends for whatever reason, ``step_s`` is wall time per optimizer step without
    pauses, ``communication_share`` the part of it in which GPUs wait for each other, ``failure`` the cause that is put
    into a failed job's logs. ``facts`` are what code and launch decide, in the names of `analyzers.types.FACT_NAMES`:
    only what a careful reader could know. ``unread_options`` are declared by the program and used nowhere.
    """

    kind: Kind
    style: str
    duration_s: float
    outcome: Outcome
    steps_planned: int
    steps_per_epoch: int | None
    steps_done: int
    step_s: float
    startup_s: float
    stopped_early: bool
    failure: str | None
    peak_gpu_memory_mib: float
    mean_gpu_utilization: float
    communication_share: float
    peak_host_memory_mib: float
    facts: Mapping[str, JsonValue]
    unread_options: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Generated(Generic[R]):
    """One job. ``recipe`` is the generator's own; who reads only ``ask`` sees no truth."""

    ask: Ask
    truth: Truth
    recipe: R


@dataclass(frozen=True, slots=True)
class FailureTruth:
    """The cause that was put into a failed job's logs. ``lines`` are texts that count as evidence."""

    failure: str
    category: Category
    subcategory: str
    actions: tuple[str, ...]
    ranks: tuple[int, ...]
    nodes: tuple[str, ...]
    lines: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class LogFile:
    """One file of a job's logs, by name, as pieces of text to be written one after the other."""

    name: str
    pieces: Iterator[str]


class Generator(Protocol[R]):
    """A source of jobs. The same spec gives the same jobs, trees and logs, to the last byte."""

    #: Told in every file and report, so that two generators are never taken for one another.
    name: str
    spec: WorkloadSpec

    def span_s(self) -> float:
        """Length of the arrival window in seconds."""

    def jobs(self) -> Iterator[Generated[R]]:
        """All jobs in order of submission, in memory that does not grow with their number."""

    def tree(self, job: Generated[R]) -> Mapping[str, str]:
        """The files of the job's source tree by relative path."""

    def logs(
        self, job: Generated[R], start_s: float, nodes: tuple[str, ...]
    ) -> tuple[list[LogFile], FailureTruth | None]:
        """The logs that the job leaves when it starts at ``start_s`` on ``nodes``; the cause where it ended badly."""
