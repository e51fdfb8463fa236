"""Predicted GPU memory of training beside what PyTorch's own tracker measures.

    python -m benchmarks.gpu_memory             # the table: no torch needed, the measured figures are a data file
    python -m benchmarks.gpu_memory --measure   # measures what is not measured yet (extra `local`; some minutes)

The configurations are in data/gpu_memory/configurations.yaml, with what the prediction is told about each; what was
measured in data/gpu_memory/measured.json. Half of the configurations, chosen by a hash of their names before anything
was predicted, was looked at while the arithmetic was written (``seen``); the other half was not (``kept back``), until
it was. Those that are ``later`` were added after that.
The first table tells it for the facts that are handed over and for those that the source reader finds in a program that
trains the configuration (memory_programs.py). Measured and predicted are bytes in tensors: what context, libraries
and fragmentation take on a GPU is in neither.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import math
import statistics
import tempfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from analyzers.source import analyze
from analyzers.types import Fact, SourceFacts, Submission
from benchmarks.memory_programs import program
from predictors.memory import TrainingMemory, training_memory
from predictors.workload import workload

DATA = Path(__file__).parent / "data" / "gpu_memory"
CONFIGURATIONS = DATA / "configurations.yaml"
#: ZeRO's K for Adam in mixed precision.
_ZERO_STATE_BYTES = 12
MEASURED = DATA / "measured.json"


@dataclass(frozen=True, slots=True)
class Configuration:
    """One training run: how its network is built, how it is trained, what is ``told`` about the model."""

    name: str
    build: Mapping[str, Any]
    told: Mapping[str, Any]
    train: Mapping[str, Any]

    @property
    def part(self) -> str:
        """``seen`` while the arithmetic was written, ``kept back`` (by its name) until it was, or added ``later``."""
        if self.train.get("later"):
            return "later"
        return "seen" if hashlib.sha256(self.name.encode()).digest()[0] % 2 == 0 else "kept back"


def configurations(path: Path = CONFIGURATIONS) -> Iterator[Configuration]:
    """All of them, in the file's order."""
    document = yaml.safe_load(path.read_text(encoding="utf-8"))
    for run in document["runs"]:
        network = document["networks"][run["network"]]
        yield Configuration(_name(run), network["build"], network["told"], run)


def _name(run: Mapping[str, Any]) -> str:
    words = [run["network"], f"{run['batch']}x{run.get('image') or run['length']}", run.get("precision", "fp32")]
    words.append(run["optimizer"])
    words += [word for word in ("checkpointing",) if run.get(word)]
    words += [f"{word} {run[word]}" for word in ("weights", "frozen", "grad_accum") if word in run]
    words += [f"zero{run['zero']} of {run['gpus']}"] if "zero" in run else []
    return " ".join(words)


def measure(path: Path = MEASURED) -> None:
    """Measure what is not measured yet, writing after each."""
    from benchmarks.memory_measuring import measure as measured

    known: dict[str, Any] = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    for each in configurations():
        if each.name in known:
            continue
        known[each.name] = measured({"build": each.build, "train": each.train})
        lines = (f"{json.dumps(name)}: {json.dumps(found)}" for name, found in sorted(known.items()))
        path.write_text("{\n" + ",\n".join(lines) + "\n}\n", encoding="utf-8")
        print(f"{each.name}: {known[each.name]['passes']['Total']:,.0f} MiB", flush=True)


def facts_of(each: Configuration) -> SourceFacts:
    """Exactly what the prediction is told: what a program's source says, and nothing of how it was built here."""
    train = each.train
    known: dict[str, Any] = {**each.told, "workload_type": "finetune" if "frozen" in train else "train"}
    known |= {"batch_size_per_gpu": train["batch"], "optimizer": train["optimizer"].partition("_")[0]}
    known |= {"precision": train.get("precision", "fp32"), "grad_accum": train.get("grad_accum", 1)}
    known |= {"image_size": train["image"]} if "image" in train else {"seq_len": train["length"]}
    known["num_gpus"] = train.get("gpus", 1)
    if "zero" in train:
        known["parallelism"] = [f"zero{train['zero']}"]
    if train.get("checkpointing"):
        known["activation_checkpointing"] = True
    if isinstance(train.get("frozen"), int):
        known["adapters"] = True
    if train.get("task") == "classify":
        known.setdefault("task", "text-classification")
    return SourceFacts({name: Fact(value, 0.9) for name, value in known.items()})


def predicted(facts: SourceFacts) -> TrainingMemory | None:
    """What the predictor says from facts alone."""
    return training_memory(workload(Submission(""), facts), facts)


def measured_mib(train: Mapping[str, Any], found: Mapping[str, Any]) -> float:
    """The peak on one GPU: as measured, with what ZeRO divides divided (Rajbhandari et al. 2020, sections 3 and 5).

    Beside 16-bit weights and gradients stand 12 bytes a parameter for Adam: states and weights in 32 bits. Stage 1
    divides those (and with them what an update needs), stage 2 gradients, stage 3 weights too.
    """
    level, gpus = train.get("zero", 0), train.get("gpus", 1)
    if not level:
        return float(max(found[phase]["Total"] for phase in ("passes", "update")))
    phases = []
    for phase in ("passes", "update"):
        parts = {kind: mib for kind, mib in found[phase].items() if kind != "Total"}
        parts["Optstate"] = _ZERO_STATE_BYTES * found["learned"] / 2**20
        if level > 1:  # measured without gradients
            parts["Gradient"] = 2 * found["learned"] / 2**20
        divided = {"Optstate": 1, "Temp": 1 if phase == "update" else 4, "Gradient": 2, "Parameter": 3}
        phases.append(sum(mib / (gpus if level >= divided.get(kind, 4) else 1) for kind, mib in parts.items()))
    return float(max(phases))


@dataclass(frozen=True, slots=True)
class Comparison:
    """One configuration: MiB in tensors as measured and as predicted (None: no answer)."""

    configuration: Configuration
    measured: float
    predicted: TrainingMemory | None

    @property
    def error(self) -> float | None:
        """Relative to what was measured; below zero where too little was predicted."""
        return None if self.predicted is None else self.predicted.tensors.value / self.measured - 1


def facts_read(each: Configuration) -> SourceFacts | None:
    """What the source reader finds in a program that trains this configuration (memory_programs.py)."""
    written = program(each.told, each.train)
    if written is None:
        return None
    files, command = written
    with tempfile.TemporaryDirectory() as folder:
        for name, text in files.items():
            Path(folder, name).write_text(text, encoding="utf-8")
        return analyze(Submission(command, workdir=Path(folder)))


def comparisons(told: Callable[[Configuration], SourceFacts | None] = facts_of) -> list[Comparison]:
    """Every configuration that was measured, predicted from what is ``told``; not those of which that is nothing."""
    known = json.loads(MEASURED.read_text(encoding="utf-8"))
    rows = []
    for each in configurations():
        facts = told(each) if each.name in known else None
        if facts is not None:
            rows.append(Comparison(each, measured_mib(each.train, known[each.name]), predicted(facts)))
    return rows


def summary(rows: list[Comparison]) -> dict[str, float]:
    """Errors over rows that have an answer, and how many have one."""
    errors = [row.error for row in rows if row.error is not None]
    off = sorted(abs(error) for error in errors)
    answers = [(row.measured, row.predicted) for row in rows if row.predicted is not None]
    return {
        "configurations": len(rows),
        "answered": len(errors),
        "median_error": statistics.median(off),
        "p90_error": off[min(len(off) - 1, math.ceil(0.9 * len(off)) - 1)],
        "under_by_10": sum(error < -0.1 for error in errors) / len(errors),
        "above_high": sum(mib > each.tensors.high for mib, each in answers) / len(errors),
        "within": sum(each.tensors.low <= mib <= each.tensors.high for mib, each in answers) / len(errors),
    }


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--measure", action="store_true", help="measure what is not measured yet (extra `local`)")
    if parser.parse_args().measure:
        measure()
        return
    rows = comparisons()
    print("| facts | part | configurations | answered | median error | 90th percentile | under by over 10 % |", end="")
    print(" within `low` to `high` | above `high` |\n|---|---|---:|---:|---:|---:|---:|---:|---:|")
    for facts, chosen in (("handed over", rows), ("as read", comparisons(facts_read))):
        print("\n".join(summary_lines(facts, chosen)))
    print("\n| configuration | part | measured MiB | predicted | low to high | error |\n|---|---|---:|---:|---:|---:|")
    for row in rows:
        print(line(row))


def summary_lines(facts: str, rows: list[Comparison]) -> list[str]:
    """A row of the first table for each part of the configurations."""
    lines = []
    for name, part in _parts(rows).items():
        found = summary(part)
        keys = ("median_error", "p90_error", "under_by_10", "within", "above_high")
        shares = " | ".join(f"{found[key]:.1%}" for key in keys)
        lines.append(f"| {facts} | {name} | {found['configurations']} | {found['answered']} | {shares} |")
    return lines


def _parts(rows: list[Comparison]) -> dict[str, list[Comparison]]:
    parts = {part: [row for row in rows if row.configuration.part == part] for part in ("seen", "kept back", "later")}
    return {name: found for name, found in {**parts, "all": rows}.items() if found}


def line(row: Comparison) -> str:
    """A row of the second table."""
    part = row.configuration.part
    if row.predicted is None:
        return f"| {row.configuration.name} | {part} | {row.measured:,.0f} | - | - | - |"
    low, high = row.predicted.tensors.low, row.predicted.tensors.high
    found = f"{row.predicted.tensors.value:,.0f} | {low:,.0f} to {high:,.0f} | {row.error:+.0%}"
    return f"| {row.configuration.name} | {part} | {row.measured:,.0f} | {found} |"


if __name__ == "__main__":
    main()
