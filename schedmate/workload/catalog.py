"""The catalogue as data: models, datasets and styles of writing a training program."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Literal

import yaml

from schedmate.workload.params import read_data

TEMPLATES = Path(__file__).parent / "templates"
STYLES = TEMPLATES / "styles"


@dataclass(frozen=True, slots=True)
class Model:
    """What is trained. ``train_flops`` and ``activation_mib`` (half precision, nothing recomputed) are per sample."""

    name: str
    title: str
    params: float
    train_flops: float
    activation_mib: float
    datasets: tuple[str, ...]
    seq_len: int | None = None
    image_size: int | None = None
    shape: Mapping[str, int] | None = None

    @property
    def slug(self) -> str:
        """The name as part of a file name."""
        return self.name.rsplit("/", 1)[-1].lower().replace("_", "-")

    @property
    def input_kind(self) -> str:
        """What a sample is, for the cost of feeding it."""
        if self.image_size:
            return "image"
        if self.seq_len:
            return "text"
        return "audio" if "wav2vec" in self.name else "table"


@dataclass(frozen=True, slots=True)
class Style:
    """A way of writing and launching a training program, read from ``templates/styles/NAME/style.yaml``.

    ``program`` is the command without hyperparameters, ``options`` how each of them is given on the command line,
    ``launchers`` how users start it, ``quirks`` the habits that a program may show with their shares. ``step_limit`` is
    what a limit on steps does to epochs: cap them, win over them, or cut the first short and run no other.
    ``takes_dead_options``: its programs may declare options that they never read. ``batch_file`` is the style's own
    batch script; ``options_before``: its options are environment variables.
    """

    name: str
    entry: str
    log: str
    framework: str
    fact_framework: str
    program: str
    models: tuple[str, ...]
    batches: tuple[int, ...]
    gpus: tuple[int, ...]
    iterations: Literal["epochs", "steps"]
    options: Mapping[str, str]
    launchers: Mapping[str, float]
    precisions: tuple[str, ...]
    optimizers: tuple[str, ...]
    words: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    quirks: Mapping[str, float] = field(default_factory=dict)
    pins: Literal["command", "tree", "none"] = "command"
    validates: Literal["each", "shared", "none"] = "shared"
    counting: Literal["floor", "trainer"] = "floor"
    step_limit: Literal["caps", "wins", "first_epoch"] = "caps"
    batch_file: str | None = None
    options_before: bool = False
    evaluation: str | None = None
    accumulates: bool = False
    states_gpus: bool = True
    shards_state: bool = False
    recomputes: bool = False
    takes_dead_options: bool = False

    @property
    def folder(self) -> Path:
        """Where the templates of its tree are."""
        return STYLES / self.name


@cache
def models() -> Mapping[str, Model]:
    """All models by name."""
    found = {}
    for name, row in read_data("models").items():
        seq_len = row.get("seq_len")
        flops = float(row.get("train_flops") or 6.0 * float(row["token_params"]) * seq_len)
        shape = {key: int(row[key]) for key in ("layers", "hidden", "heads") if key in row}
        found[name] = Model(
            name=name,
            title=row["title"],
            params=float(row["params"]),
            train_flops=flops,
            activation_mib=float(row["activation_mib"]),
            datasets=tuple(row["datasets"]),
            seq_len=seq_len,
            image_size=row.get("image_size"),
            shape=shape or None,
        )
    return found


def dataset_samples(name: str) -> tuple[int, int]:
    """Training and validation samples of a dataset."""
    training, validation = read_data("datasets")[name]
    return int(training), int(validation)


@cache
def styles() -> Mapping[str, Style]:
    """All styles by name."""
    found = {}
    for path in sorted(STYLES.glob("*/style.yaml")):
        row = yaml.safe_load(path.read_text(encoding="utf-8"))
        row["words"] = {key: tuple(values) for key, values in (row.get("words") or {}).items()}
        for key in ("models", "batches", "gpus", "precisions", "optimizers"):
            row[key] = tuple(row[key])
        found[path.parent.name] = Style(name=path.parent.name, **row)
    return found
