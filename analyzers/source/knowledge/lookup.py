"""Looking up published figures: data set sizes and image sizes, parameter counts of named models."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache, lru_cache

from analyzers.source.knowledge.architectures import architecture
from analyzers.source.knowledge.files import document, key


@dataclass(frozen=True, slots=True)
class DatasetEntry:
    """A published data set: its usual name, training samples, native image side in pixels, and its field.

    ``train_tokens`` of a text collection are as published, by the tokens (or words) that its source counts.
    """

    name: str
    train_samples: int | None
    image_size: int | None
    task: str | None
    train_tokens: int | None = None
    source: str = ""


#: What is said of so many names is kept: for one prediction dozens of ended jobs are read, most of a few models.
_KEPT_NAMES = 1_024


def _plain(text: str) -> str:
    return re.sub(r"[^a-z0-9]", "", text.lower())


@cache
def _datasets() -> dict[str, DatasetEntry]:
    entries: dict[str, DatasetEntry] = {}
    for row in document("datasets.yaml")["datasets"]:
        entry = DatasetEntry(
            row["name"], row.get("train_samples"), row.get("image_size"), row.get("task"), row.get("train_tokens"),
            row["source"],
        )  # fmt: skip
        for name in [row["name"], *row.get("aliases", [])]:
            entries[_plain(name)] = entry
    return entries


@cache
def _models() -> dict[str, int]:
    groups = document("models.yaml")["models"]
    return {key(name): int(count) for group in groups for name, count in group["parameters"].items()}


@lru_cache(_KEPT_NAMES)
def dataset_entry(name: str) -> DatasetEntry | None:
    """The entry of a data set by any of its names, versions and owners dropped, or None."""
    text = name.partition(":")[0]
    return _datasets().get(_plain(text)) or _datasets().get(_plain(text.rpartition("/")[2]))


@lru_cache(_KEPT_NAMES)
def model_parameters(name: str, classes: int | None = None) -> int | None:
    """The parameter count of a model by its name, or None: worked out from its architecture, else as published.

    ``classes`` is the size of its classifier where that is not the published one; then only the former will do.
    """
    known = architecture(name)
    if known is not None:
        return int(known.size(classes=classes).parameters)
    if classes is not None:
        return None
    return _models().get(key(name)) or _models().get(key(name.rpartition("/")[2]))


@lru_cache(_KEPT_NAMES)
def parameters_in_name(name: str) -> float | None:
    """A size written into a model's name, the way of most language models (``opt-1.3b``, ``pythia-410m``)."""
    last = name.rpartition("/")[2]
    found = re.findall(r"(?:^|[-_\s]|(?<!\d)\.)(\d+(?:\.\d+)?)(b|m)(?=$|[-_.\s])", last.lower())
    if len(found) != 1:
        return None
    number, unit = found[0]
    return float(number) * (1e9 if unit == "b" else 1e6)
