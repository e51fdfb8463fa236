"""What a workload is made of: projects, jobs as they are handed in, and the truth that only the generator knows."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from analyzers.types import Category, Outcome
from schedmate.demo.catalog import Model, Style

Kind = Literal["single", "debug", "sweep", "evaluation"]


@dataclass(frozen=True, slots=True)
class Hyper:
    """Hyperparameters. ``batch`` is per GPU; exactly one of ``epochs`` and ``max_steps`` ends the run."""

    epochs: int | None
    max_steps: int | None
    batch: int
    accum: int
    lr: str
    seed: int
    early_stopping: bool
    checkpoint_every: int
    warmup: int


@dataclass(frozen=True, slots=True)
class Project:
    """A user's program: one source tree that many jobs are launched from.

    ``words`` are this user's names for options; ``efficiency`` is the true multiplier on the model's median fraction
    of peak, and ``input_s_per_sample`` the true cost of feeding one sample to one GPU.
    """

    name: str
    user: str
    tenant: str
    style: Style
    model: Model
    dataset: str
    samples: int
    gpus: int
    nodes: int
    hyper: Hyper
    version: int
    workers: int
    words: dict[str, str]
    efficiency: float
    input_s_per_sample: float

    @property
    def gpus_per_node(self) -> int:
        """GPUs on each of its nodes."""
        return self.gpus // self.nodes


@dataclass(frozen=True, slots=True)
class Ask:
    """A job as handed in: everything a scheduler could know before it runs."""

    job_id: str
    submit_s: float
    project: Project
    kind: Kind
    name: str
    command: str
    gpus: int
    nodes: int
    limit_s: float
    overrides: dict[str, str]


@dataclass(frozen=True, slots=True)
class Truth:
    """What really happens. The walk hands these to the simulator and to nobody else until the job has ended."""

    duration_s: float
    outcome: Outcome
    hyper: Hyper
    steps_planned: int
    steps_per_epoch: int | None
    steps_done: int
    step_s: float
    startup_s: float
    failure: str | None
    peak_gpu_memory_mib: float
    mean_gpu_utilization: float
    peak_host_memory_mib: float


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
class Workload:
    """Jobs in order of submission, the truth by job, and the length of the arrival window in seconds."""

    asks: tuple[Ask, ...]
    truth: dict[str, Truth]
    span_s: float
    trees: dict[str, Project] = field(default_factory=dict)


def tree_name(project: Project) -> str:
    """The folder of a project's tree, relative to the workload's ``work`` folder."""
    return f"{project.user}/{project.name}-v{project.version}"
