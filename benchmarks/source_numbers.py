"""What the arithmetic on architectures comes to, beside published figures.

    python -m benchmarks.source_numbers

Prints a line for each model: parameters and operations as published, and how far the arithmetic is from them. The
published figures with their sources are in benchmarks/data/published_models.yaml. Then published speeds of training
beside the estimate's range (analyzers/source/knowledge/efficiency.yaml): the range was chosen to hold them, all of
well-tuned programs, so they show that the arithmetic is consistent and not how good the estimate is. Then training that
is published to fit GPUs of a size, with the largest batch used there, beside the estimate of its memory; the likely
value was not chosen by it (benchmarks/data/published_memory.yaml).
"""

from __future__ import annotations

import statistics
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from analyzers.source.arithmetic.memory import Setup, memory_mib
from analyzers.source.arithmetic.size import PASSES_OF_A_STEP, Range, Size
from analyzers.source.arithmetic.speed import step_time
from analyzers.source.knowledge.architectures import architecture
from analyzers.source.knowledge.gpus import gpu_type, measured_speeds

DATA = Path(__file__).parent / "data"
PUBLISHED = DATA / "published_models.yaml"
#: What the arithmetic promises: parameters, and operations of a step.
PARAMETERS_WITHIN, FLOPS_WITHIN = 0.05, 0.15


@dataclass(frozen=True, slots=True)
class Comparison:
    """One published figure (``quantity``) beside the arithmetic's."""

    model: str
    quantity: str
    published: float
    computed: float
    source: str
    unsure: str | None = None

    @property
    def error(self) -> float:
        """Relative to what is published."""
        return self.computed / self.published - 1

    @property
    def holds(self) -> bool:
        """Whether it is within what the arithmetic promises."""
        return abs(self.error) <= (PARAMETERS_WITHIN if "parameters" in self.quantity else FLOPS_WITHIN)


def comparisons(path: Path = PUBLISHED) -> Iterator[Comparison]:
    """Every published figure beside the arithmetic's."""
    for group in yaml.safe_load(path.read_text(encoding="utf-8"))["published"]:
        for row in group["models"]:
            found = architecture(row["model"])
            assert found is not None, row["model"]
            size = found.size(image=row.get("image"), length=row.get("length"))
            for quantity, computed in _quantities(row, size).items():
                yield Comparison(
                    row["model"], quantity, float(row[quantity]), computed, group["source"], row.get("unsure")
                )


def _quantities(row: dict[str, Any], size: Size) -> dict[str, float]:
    counted = size.forward_flops - (size.attention_flops if row.get("counts") == "weights" else 0.0)
    known = {
        "parameters": size.parameters,
        "active_parameters": size.active_parameters,
        "gmacs": size.forward_flops / 2e9,
        "gflops": size.forward_flops / 1e9,
        "training_flops": PASSES_OF_A_STEP * counted / (size.tokens or 1.0),
    }
    return {name: value for name, value in known.items() if name in row}


@dataclass(frozen=True, slots=True)
class Speed:
    """A published speed of training as seconds for a sample, beside the estimate's range. ``of`` says of what."""

    of: str
    published_s: float
    estimate_s: Range
    source: str


def speeds() -> Iterator[Speed]:
    """Every published speed beside the estimate, for a step so large that what is beside arithmetic vanishes."""
    for run, source in measured_speeds():
        found, gpu = architecture(run["model"]), gpu_type(run["gpu"])
        assert found is not None and gpu is not None, run
        size = found.size(image=run.get("image"), length=run.get("length"))
        gpus, samples = run.get("gpus", 1), 1e6
        took = step_time(
            size, samples, gpu, gpus=gpus, precision=run["precision"], recomputing=bool(run.get("checkpointing"))
        )
        of = f"{run['model']} on {gpus} {gpu.name}, {run['precision']}"
        yield Speed(of, 1 / run["per_s"], took.times(1 / samples), source)


@dataclass(frozen=True, slots=True)
class Fit:
    """Training that is published to fit a GPU of ``memory_gib``, beside the estimate in GiB. ``of`` says of what."""

    of: str
    memory_gib: float
    estimate_gib: Range
    source: str


def fits() -> Iterator[Fit]:
    """Every published fit beside the estimate."""
    for group in yaml.safe_load((DATA / "published_memory.yaml").read_text(encoding="utf-8"))["runs"]:
        for row in group["models"]:
            found = architecture(row["model"])
            assert found is not None, row["model"]
            names = ("samples", "gpus", "precision", "recomputing")
            setup = Setup(**{**group["setup"], **{name: row[name] for name in names if name in row}})
            needed = memory_mib(found.size(length=row.get("length")), setup)
            sample = f" of {row['length']}" if "length" in row else ""
            recomputing = ", recomputing" if setup.recomputing else ""
            of = f"{row['model']}, {row['samples']}{sample}, {setup.precision}{recomputing}"
            yield Fit(of, row["memory_gib"], needed.times(1 / 1024), group["source"])


def main() -> None:
    """Print the tables."""
    _print_sizes()
    _print_speeds()
    _print_memory()


def _print_sizes() -> None:
    rows = list(comparisons())
    print(f"{'model':26} {'quantity':18} {'published':>12} {'computed':>12} {'off by':>9}")
    for row in rows:
        mark = f"  not held: {row.unsure}" if row.unsure else "" if row.holds else "  MISSED"
        print(f"{row.model:26} {row.quantity:18} {row.published:12.4g} {row.computed:12.4g} {row.error:+9.2%}{mark}")
    for name, within in (("parameters", PARAMETERS_WITHIN), ("operations", FLOPS_WITHIN)):
        chosen = [r for r in rows if ("parameters" in r.quantity) == (name == "parameters") and not r.unsure]
        off = sorted(abs(r.error) for r in chosen)
        models = len({r.model for r in chosen})
        print(
            f"\n{name}: {sum(r.holds for r in chosen)} of {len(chosen)} figures of {models} models "
            f"within {within:.0%}; off by {statistics.median(off):.2%} (median), {off[-1]:.2%} (most)"
        )


def _print_speeds() -> None:
    print(f"\n{'training speed, per sample':44} {'published':>12} {'low':>10} {'estimate':>10} {'high':>10}")
    for speed in speeds():
        low, value, high = speed.estimate_s.low, speed.estimate_s.value, speed.estimate_s.high
        ratio = value / speed.published_s
        print(f"{speed.of:44} {speed.published_s:10.3g} s {low:10.3g} {value:10.3g} {high:10.3g}   x {ratio:.2f}")


def _print_memory() -> None:
    print(f"\n{'training that fits':44} {'a GPU of':>12} {'low':>10} {'estimate':>10} {'high':>10}")
    for fit in fits():
        low, value, high = fit.estimate_gib.low, fit.estimate_gib.value, fit.estimate_gib.high
        share = value / fit.memory_gib
        print(f"{fit.of:44} {fit.memory_gib:8.0f} GiB {low:10.1f} {value:10.1f} {high:10.1f}   {share:.0%} of it")


if __name__ == "__main__":
    main()
