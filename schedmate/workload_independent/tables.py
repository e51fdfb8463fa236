"""The committed tables: `data/zoo.yaml`, what people train, `data/distributions.yaml`, what they and machines do."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from importlib.resources import files
from typing import Any

import yaml

from prompts.errors import UserError


@dataclass(frozen=True, slots=True)
class Dataset:
    """A data set: samples, the side of an image or the length of a sequence, one core's milliseconds a sample."""

    name: str
    train: int
    val: int
    kind: str
    side: int
    classes: int
    cpu_ms: float


@dataclass(frozen=True, slots=True)
class Model:
    """A model and how people usually train it. ``adapter``: only low-rank adapters are trained."""

    name: str
    params: float
    eff: float
    batches: tuple[int, ...]
    epochs: tuple[int, ...]
    rates: tuple[float, ...]
    optimizer: str
    sets: tuple[str, ...]
    adapter: bool
    flops: float
    flops_per_token: float
    act_mib: float
    act_mib_per_token: float

    @property
    def is_language(self) -> bool:
        """Whether its cost grows with the length of a sequence."""
        return self.flops_per_token > 0

    def flops_per_sample(self, length: int) -> float:
        """Arithmetic of one training sample, forward and backward; ``length`` in tokens for language models."""
        return self.flops_per_token * self.params * length if self.is_language else self.flops

    def activations_mib(self, length: int) -> float:
        """Activations of one sample in training at half precision."""
        return self.act_mib_per_token * length if self.is_language else self.act_mib


@dataclass(frozen=True, slots=True)
class Tables:
    """Everything that is committed: plain values by name, as in the files."""

    datasets: Mapping[str, Dataset]
    models: Mapping[str, Model]
    numbers: Mapping[str, Any]

    def ends(self, profile: str) -> Mapping[str, float]:
        """Published shares of completed, cancelled and failed jobs."""
        known = self.numbers["ends"]
        if profile not in known:
            raise UserError(f"there is no profile {profile!r}", f"one of: {', '.join(known)}")
        shares: Mapping[str, float] = known[profile]
        return shares


def _model(name: str, row: Mapping[str, Any]) -> Model:
    return Model(
        name=name,
        params=float(row["params"]),
        eff=row["eff"],
        batches=tuple(row["batch"]),
        epochs=tuple(row["epochs"]),
        rates=tuple(row["lr"]),
        optimizer=row["optimizer"],
        sets=tuple(row["sets"]),
        adapter=row.get("adapter", False),
        flops=float(row.get("flops", 0.0)),
        flops_per_token=float(row.get("flops_per_token", 0.0)),
        act_mib=float(row.get("act_mib", 0.0)),
        act_mib_per_token=float(row.get("act_mib_per_token", 0.0)),
    )


@lru_cache(maxsize=1)
def tables() -> Tables:
    """Read the committed tables once."""
    data = files("schedmate.workload_independent") / "data"
    zoo = yaml.safe_load((data / "zoo.yaml").read_text())
    return Tables(
        datasets={name: Dataset(name, **row) for name, row in zoo["datasets"].items()},
        models={name: _model(name, row) for name, row in zoo["models"].items()},
        numbers=yaml.safe_load((data / "distributions.yaml").read_text()),
    )
