"""What a run is set to, whose it is, and the program that says so."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from schedmate.workload_independent.tables import Dataset, Model

JsonValue = Any


@dataclass(frozen=True, slots=True)
class Setting:
    """The numbers that decide how long a run takes. Exactly one of ``epochs`` and ``steps`` is set.

    ``batch`` is per GPU, ``length`` the tokens of a sequence (None for other data), ``rate`` the peak learning rate.
    ``runs`` are values tried one after the other in the same job.
    """

    gpus: int
    nodes: int
    batch: int
    accum: int
    epochs: int | None
    steps: int | None
    rate: float
    precision: str
    workers: int
    length: int | None
    patience: int | None
    seed: int
    runs: tuple[float, ...] = ()

    @property
    def gpus_per_node(self) -> int:
        """GPUs on each node."""
        return self.gpus // self.nodes

    @property
    def global_batch(self) -> int:
        """Samples of one optimizer step."""
        return self.batch * self.gpus * self.accum


@dataclass(frozen=True, slots=True)
class Project:
    """One piece of work of one user: what is trained, written how, with this user's words for things."""

    user: str
    tenant: str
    name: str
    style: str
    model: Model
    dataset: Dataset
    key: str
    words: Mapping[str, str]
    quirks: Mapping[str, bool]
    launcher: str


@dataclass(frozen=True, slots=True)
class Program:
    """A launch: command, files as ``path -> template``, what the templates are filled with, and what is true of it.

    ``facts`` hold what code and launch decide and nothing else; ``log`` names the format that it writes.
    """

    command: str
    files: Mapping[str, str]
    context: Mapping[str, Any]
    facts: Mapping[str, JsonValue]
    log: str
    compiles: bool = False
    unread: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Draft:
    """The generator's own notes on a job: from ``program`` its files are made, from the rest its logs."""

    project: Project
    base: Setting
    run: Setting
    program: Program
    steps_per_epoch: int | None
    cause: str | None = None
