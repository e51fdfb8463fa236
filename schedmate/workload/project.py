"""A user's project: one program that many jobs are launched from."""

from __future__ import annotations

from dataclasses import dataclass

from schedmate.workload.catalog import Model, Style


@dataclass(frozen=True, slots=True)
class Hyper:
    """Hyperparameters. ``batch`` is per GPU; exactly one of ``epochs`` and ``max_steps`` ends the run."""

    epochs: int | None
    max_steps: int | None
    batch: int
    accum: int
    lr: str
    seed: int
    checkpoint_every: int = 1
    warmup: int = 0


@dataclass(frozen=True, slots=True)
class Person:
    """A user. ``efficiency`` multiplies what their programs reach; the rest is how they ask for time."""

    name: str
    tenant: str
    activity: float
    efficiency: float
    asks_maximum: bool
    limit_factor: float


@dataclass(frozen=True, slots=True)
class DeadOption:
    """An option that the program declares and never reads."""

    flag: str
    kind: str
    default: str

    @property
    def dest(self) -> str:
        """Its name as an attribute."""
        return self.flag.lstrip("-").replace("-", "_")


@dataclass(frozen=True, slots=True)
class Project:
    """A program as its user has it at one moment.

    ``hyper`` is what a plain launch runs with; ``written`` what the program itself has as defaults: they differ in
    ``pinned``, which the launcher (or a second configuration file) sets. ``words`` are this user's names for options,
    ``quirks`` the habits that this program shows, ``dead`` numbers of unused helpers in it. ``efficiency`` is the true
    multiplier on the model's median fraction of peak, ``input_s_per_sample`` the true cost of feeding a GPU a sample.
    """

    name: str
    user: Person
    style: Style
    model: Model
    dataset: str
    gpus: int
    nodes: int
    hyper: Hyper
    written: Hyper
    pinned: tuple[str, ...]
    launcher: str
    launch_variant: int
    precision: str
    optimizer: str
    version: int
    workers: int
    words: dict[str, str]
    quirks: frozenset[str]
    dead: tuple[int, ...]
    dead_options: tuple[DeadOption, ...]
    efficiency: float
    input_s_per_sample: float

    @property
    def gpus_per_node(self) -> int:
        """GPUs on each of its nodes."""
        return self.gpus // self.nodes

    @property
    def tree(self) -> str:
        """The folder of its source tree, relative to the workload's ``work`` folder."""
        return f"{self.user.name}/{self.name}-v{self.version}"
