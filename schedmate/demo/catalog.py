"""The catalogue as data: models, datasets and styles of writing a training program."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import yaml

HERE = Path(__file__).parent
TEMPLATES = HERE / "templates"


@dataclass(frozen=True, slots=True)
class Model:
    """What is trained. ``train_flops`` per sample; ``mfu`` is the true median fraction of peak (physics only)."""

    name: str
    title: str
    params: float
    train_flops: float
    activation_mib: float
    mfu: float
    datasets: tuple[str, ...]
    seq_len: int | None = None
    image_size: int | None = None
    shape: Mapping[str, int] | None = None


@dataclass(frozen=True, slots=True)
class Style:
    """A way of writing and launching a training program, read from ``templates/styles/NAME/style.yaml``."""

    name: str
    entry: str
    log: str
    launch: str
    models: tuple[str, ...]
    batches: tuple[int, ...]
    gpus: tuple[int, ...]
    iterations: str
    overrides: Mapping[str, str]
    words: Mapping[str, tuple[str, ...]]
    precision: str
    optimizer: str
    optimizer_bytes_per_param: float
    evaluation_launch: str | None = None
    shards_state: bool = False

    @property
    def folder(self) -> Path:
        """Where the templates of its tree are."""
        return TEMPLATES / "styles" / self.name


def _read(path: Path) -> dict[str, Any]:
    loaded: dict[str, Any] = yaml.safe_load(path.read_text(encoding="utf-8"))
    return loaded


@cache
def models() -> Mapping[str, Model]:
    """All models by name."""
    found = {}
    for name, row in _read(HERE / "data" / "models.yaml").items():
        seq_len = row.get("seq_len")
        flops = float(row.get("train_flops") or 6.0 * float(row["token_params"]) * seq_len)
        shape = {key: int(row[key]) for key in ("layers", "hidden", "heads") if key in row}
        found[name] = Model(
            name=name,
            title=row["title"],
            params=float(row["params"]),
            train_flops=flops,
            activation_mib=float(row["activation_mib"]),
            mfu=float(row["mfu"]),
            datasets=tuple(row["datasets"]),
            seq_len=seq_len,
            image_size=row.get("image_size"),
            shape=shape or None,
        )
    return found


@cache
def dataset_samples() -> Mapping[str, int]:
    """Training samples of each dataset."""
    return {name: int(count) for name, count in _read(HERE / "data" / "datasets.yaml").items()}


@cache
def styles() -> Mapping[str, Style]:
    """All styles by name."""
    found = {}
    for path in sorted((TEMPLATES / "styles").glob("*/style.yaml")):
        row = _read(path)
        row["words"] = {key: tuple(values) for key, values in (row.get("words") or {}).items()}
        for key in ("models", "batches", "gpus"):
            row[key] = tuple(row[key])
        found[path.parent.name] = Style(name=path.parent.name, **row)
    return found
