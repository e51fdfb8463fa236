"""What the arithmetic on architectures comes to, beside published figures.

    python -m benchmarks.source_numbers

Prints, each beside what is published and with its source in a data file:

- parameters and operations of models (data/published_models.yaml);
- speeds of training (analyzers/source/knowledge/efficiency.yaml). The efficiencies were chosen to hold them, and all
  are of well-tuned programs: they show that the arithmetic is consistent and not how good the estimate is;
- memory of training that fills a GPU, or was measured (data/published_memory.yaml), and the time of whole runs, from
  their facts (data/published_runs.yaml). The likely values were not chosen by these; the ResNet-50 among them is one
  of the programs that the efficiencies were taken from.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from analyzers.source.arithmetic.memory import CONTEXT, Setup, memory_mib
from analyzers.source.arithmetic.size import PASSES_OF_A_STEP, Range, Size
from analyzers.source.arithmetic.speed import step_time
from analyzers.source.knowledge.architectures import architecture
from analyzers.source.knowledge.gpus import gpu_type, measured_speeds
from analyzers.source.workload import workload
from analyzers.types import Fact, SourceFacts

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
    """Training that fills a GPU of ``published_gib``, or was ``measured`` to take so much, beside the estimate."""

    of: str
    published_gib: float
    estimate_gib: Range
    measured: bool
    source: str


def fits() -> Iterator[Fit]:
    """Every published fit and every measured peak beside the estimate."""
    document = yaml.safe_load((DATA / "published_memory.yaml").read_text(encoding="utf-8"))
    for measured in (False, True):
        for group in document["measured" if measured else "runs"]:
            for row in group["models"]:
                yield _fit(row, group, measured=measured)


def _fit(row: dict[str, Any], group: dict[str, Any], *, measured: bool) -> Fit:
    found = architecture(row["model"])
    assert found is not None, row["model"]
    names = ("samples", "gpus", "precision", "recomputing", "weight_bits")
    setup = Setup(**{**group["setup"], **{name: row[name] for name in names if name in row}})
    needed = memory_mib(found.size(length=row.get("length")), setup)
    published = row["memory_gib"] if not measured else row["measured_gb"] * 1e9 / 2**30
    if measured:
        needed = Range(needed.low - CONTEXT.low, needed.value - CONTEXT.value, needed.high - CONTEXT.high)
    words = [f"{row['model']}, {row['samples']}" + (f" of {row['length']}" if "length" in row else "")]
    words += [str(setup.precision)] + ["recomputing"] * bool(setup.recomputing) + ["adapters"] * setup.adapters
    words += [f"{setup.weight_bits} bits"] if setup.weight_bits else []
    return Fit(", ".join(words), published, needed.times(1 / 1024), measured, group["source"])


@dataclass(frozen=True, slots=True)
class Run:
    """A run (or a step of it) whose time is published, beside what follows from its facts."""

    of: str
    published_s: float
    estimate_s: Range


def runs() -> Iterator[Run]:
    """Every published run beside the estimate."""
    for row in yaml.safe_load((DATA / "published_runs.yaml").read_text(encoding="utf-8"))["runs"]:
        facts = SourceFacts({name: Fact(value, 0.9) for name, value in row["facts"].items()})
        found = workload(facts, row["gpu"]).derived["step_time_s" if "step_s" in row else "run_time_s"]
        estimate = Range(found.low, found.value, found.high)
        yield Run(row["source"], row.get("step_s") or row["seconds"], estimate)


def main() -> None:
    """Print the tables."""
    _print_sizes()
    _print_speeds()
    _print_memory()
    _print_runs()


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
    print(f"\n{'training that fits, or was measured':44} {'published':>12} {'low':>10} {'estimate':>10} {'high':>10}")
    for fit in fits():
        low, value, high = fit.estimate_gib.low, fit.estimate_gib.value, fit.estimate_gib.high
        kind = "measured" if fit.measured else "its size"
        share = f"{value / fit.published_gib:.0%} of {kind}"
        print(f"{fit.of:44} {fit.published_gib:8.1f} GiB {low:10.1f} {value:10.1f} {high:10.1f}   {share}")


def _print_runs() -> None:
    print(f"\n{'published':>12} {'low':>10} {'estimate':>10} {'high':>10}   whole runs, from their facts")
    for run in runs():
        low, value, high = run.estimate_s.low, run.estimate_s.value, run.estimate_s.high
        ratio = value / run.published_s
        print(f"{run.published_s:10.4g} s {low:10.3g} {value:10.3g} {high:10.3g}   x {ratio:.2f} {run.of}")


if __name__ == "__main__":
    main()
