"""Looking up published figures: data set sizes and image sizes, parameter counts of named models."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

import yaml


@dataclass(frozen=True, slots=True)
class DatasetEntry:
    """A published data set: its usual name, training samples, native image side in pixels, and its field."""

    name: str
    train_samples: int | None
    image_size: int | None
    task: str | None


def _plain(text: str) -> str:
    return re.sub(r"[^a-z0-9]", "", text.lower())


@cache
def _datasets() -> dict[str, DatasetEntry]:
    document = yaml.safe_load(files(__package__).joinpath("datasets.yaml").read_text(encoding="utf-8"))
    entries: dict[str, DatasetEntry] = {}
    for row in document["datasets"]:
        entry = DatasetEntry(row["name"], row.get("train_samples"), row.get("image_size"), row.get("task"))
        for name in [row["name"], *row.get("aliases", [])]:
            entries[_plain(name)] = entry
    return entries


@cache
def _models() -> dict[str, int]:
    document = yaml.safe_load(files(__package__).joinpath("models.yaml").read_text(encoding="utf-8"))
    return {_plain(name): int(count) for group in document["models"] for name, count in group["parameters"].items()}


def dataset_entry(name: str) -> DatasetEntry | None:
    """The entry of a data set by any of its names, versions and owners dropped, or None."""
    text = name.partition(":")[0]
    return _datasets().get(_plain(text)) or _datasets().get(_plain(text.rpartition("/")[2]))


def model_parameters(name: str) -> int | None:
    """The published parameter count of a model by its name, or None."""
    return _models().get(_plain(name)) or _models().get(_plain(name.rpartition("/")[2]))


def parameters_in_name(name: str) -> float | None:
    """A size written into a model's name, the way of most language models (``opt-1.3b``, ``pythia-410m``)."""
    last = name.rpartition("/")[2]
    found = re.findall(r"(?:^|[-_.])(\d+(?:\.\d+)?)(b|m)(?=$|[-_.])", last.lower())
    if len(found) != 1:
        return None
    number, unit = found[0]
    return float(number) * (1e9 if unit == "b" else 1e6)
