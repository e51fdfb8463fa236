"""How well programs are read and jobs predicted on each of two independent generators. All of it is synthetic.

Run: python -m benchmarks.second_opinion [--jobs 400] [--seeds 1,2,3] [--generator independent] [--misses 5] [--json]

Both workloads go through the same pipeline, untouched: sources are read, and each job is predicted at its submission
from the jobs that had ended by then (on a cluster without a queue). Facts that a program leaves open are not scored; of
programs that nobody can know (foreign binaries) every fact that is claimed all the same is counted.
"""

from __future__ import annotations

import argparse
import heapq
import json
import tempfile
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from analyzers.failures import diagnose
from analyzers.history import MemoryHistoryStore
from analyzers.types import SourceFacts
from predictors.types import Prediction
from schedmate.demo.scores import Diagnosed, diagnosis_scores, fact_scores, prediction_scores
from schedmate.pipeline import Pipeline
from schedmate.workload import Ask, Generated, Generator, SemanticGenerator, Truth, WorkloadSpec
from schedmate.workload.folder import OutFolder
from schedmate.workload.records import submission_of
from schedmate.workload.writer import write_logs, write_workload
from schedmate.workload_independent import IndependentGenerator

GENERATORS = {"semantic": SemanticGenerator, "independent": IndependentGenerator}
#: Facts that both generators tell of and that are compared beyond numbers.
WORDS = ("framework", "precision", "workload_type", "early_stopping", "global_batch_size")
#: The names that `docs/json/analyze.md` knows: others can only be read otherwise.
FRAMEWORKS = {"pytorch", "pytorch-lightning", "jax", "tensorflow", "none"}
MOST_HEALTHY = 60
FAILURE_BINS = (0.0, 0.1, 0.2, 0.4, 1.0)


@dataclass
class Tried:
    """One generated workload, read and predicted."""

    asks: list[Ask]
    truth: dict[str, Truth]
    facts: dict[str, SourceFacts]
    predictions: dict[str, Prediction]
    diagnosed: list[Diagnosed] = field(default_factory=list)
    healthy: list[bool] = field(default_factory=list)


def tried(generator: Generator[Any], root: Path) -> Tried:
    """Write the workload below ``root``, then read and predict each job in order of submission."""
    out = OutFolder(root, "second-opinion")
    write_workload(generator, out)
    jobs = list(generator.jobs())
    pipeline = Pipeline(MemoryHistoryStore())
    result = Tried([job.ask for job in jobs], {job.ask.job_id: job.truth for job in jobs}, {}, {})
    running: list[tuple[float, str]] = []
    known: dict[tuple[str, str, int, int], SourceFacts] = {}
    submissions = {ask.job_id: submission_of(ask, root) for ask in result.asks}
    for ask in result.asks:
        while running and running[0][0] <= ask.submit_s:
            _, ended = heapq.heappop(running)
            true = result.truth[ended]
            pipeline.record_outcome(
                ended,
                submissions[ended],
                result.facts[ended],
                start_s=submissions[ended].submit_s or 0.0,
                duration_s=true.duration_s,
                outcome=true.outcome,
                peak_gpu_memory_mib=true.peak_gpu_memory_mib,
                mean_gpu_utilization=true.mean_gpu_utilization,
                peak_host_memory_mib=true.peak_host_memory_mib,
            )
        key = (ask.tree, ask.command, ask.gpus, ask.nodes)
        if key not in known:
            known[key] = pipeline.facts(submissions[ask.job_id])
        result.facts[ask.job_id] = known[key]
        result.predictions[ask.job_id] = pipeline.predict(submissions[ask.job_id], known[key])
        heapq.heappush(running, (ask.submit_s + result.truth[ask.job_id].duration_s, ask.job_id))
    result.diagnosed = list(_diagnosed(generator, jobs, out))
    result.healthy = list(_seen_healthy(generator, jobs, out))
    return result


def _diagnosed(generator: Generator[Any], jobs: Sequence[Generated[Any]], out: OutFolder) -> Iterator[Diagnosed]:
    for job in jobs:
        if job.truth.outcome not in ("failed", "timeout"):
            continue
        nodes = tuple(f"gpu-{index + 1:02d}" for index in range(job.ask.nodes))
        logs, cause = generator.logs(job, job.ask.submit_s, nodes)
        if cause is not None:
            write_logs(out, f"ended/{job.ask.job_id}", iter(logs))
            yield Diagnosed(job.ask, cause, diagnose(out.root / "ended" / job.ask.job_id))


def _seen_healthy(generator: Generator[Any], jobs: Sequence[Generated[Any]], out: OutFolder) -> Iterator[bool]:
    """Of completed jobs, whether their logs are found to be of healthy ones."""
    well = [job for job in jobs if job.truth.outcome == "completed"]
    for job in well[:: max(1, len(well) // MOST_HEALTHY)]:
        logs, _ = generator.logs(job, job.ask.submit_s, ("gpu-01",) * job.ask.nodes)
        write_logs(out, f"well/{job.ask.job_id}", iter(logs))
        yield diagnose(out.root / "well" / job.ask.job_id).category == "none"


def word_scores(result: Tried) -> dict[str, dict[str, int]]:
    """Facts that are words: right, wrong or open."""
    counts: dict[str, dict[str, int]] = {}
    for ask in result.asks:
        for name in WORDS:
            expected = result.truth[ask.job_id].facts.get(name)
            if expected is None or (name == "framework" and expected not in FRAMEWORKS):
                continue
            value = result.facts[ask.job_id].value(name)
            row = counts.setdefault(name, {"right": 0, "wrong": 0, "open": 0})
            row["open" if value is None else "right" if value == expected else "wrong"] += 1
    return counts


def failure_calibration(result: Tried) -> dict[str, Any]:
    """Said against true shares of bad ends (failed or timeout), in bins of what was said, and Brier scores."""
    outcomes = [result.predictions[ask.job_id].outcome for ask in result.asks]
    said = np.array([outcome.failed + outcome.timeout for outcome in outcomes])
    bad = np.array([result.truth[a.job_id].outcome in ("failed", "timeout") for a in result.asks], dtype=float)
    rows = []
    for low, high in pairwise(FAILURE_BINS):
        here = (said >= low) & ((said < high) | (high == 1.0))
        if here.any():
            rows.append(
                {
                    "from": low,
                    "to": high,
                    "jobs": int(here.sum()),
                    "said": float(said[here].mean()),
                    "true": float(bad[here].mean()),
                }
            )
    return {
        "brier": float(np.mean((said - bad) ** 2)),
        "base_rate_brier": float(bad.mean() * (1 - bad.mean())),
        "bins": rows,
    }


def by_style(result: Tried) -> dict[str, dict[str, float]]:
    """By style: jobs, median error factor and share inside the 80 % interval."""
    groups: dict[str, list[tuple[float, bool]]] = defaultdict(list)
    for ask in result.asks:
        true, said = result.truth[ask.job_id], result.predictions[ask.job_id].duration_s
        error = abs(np.log(max(said.p50, 1.0) / max(true.duration_s, 1.0)))
        groups[true.style].append((float(error), said.p10 <= true.duration_s <= said.p90))
    return {
        style: {
            "jobs": len(rows),
            "median_error_factor": float(np.exp(np.median([error for error, _ in rows]))),
            "within_p10_p90": float(np.mean([inside for _, inside in rows])),
        }
        for style, rows in sorted(groups.items())
    }


def claimed_of_unknowable(result: Tried) -> dict[str, int]:
    """Facts that were claimed with some confidence of programs of which nothing can be known."""
    counts: Counter[str] = Counter()
    for ask in result.asks:
        if result.truth[ask.job_id].style == "opaque":
            counts["jobs"] += 1
            for name, fact in result.facts[ask.job_id].facts.items():
                counts[name] += fact.value is not None and fact.confidence >= 0.5
    return {name: count for name, count in counts.items() if count}


def misses(result: Tried, most: int) -> list[dict[str, Any]]:
    """Wrong and open facts by style and fact, the commonest first, each with one example."""
    found: dict[tuple[str, str, str], list[dict[str, Any]]] = defaultdict(list)
    for ask in result.asks:
        true = result.truth[ask.job_id]
        for name, expected in true.facts.items():
            value = result.facts[ask.job_id].value(name)
            same = str(value).lower() == str(expected).lower()
            if isinstance(value, int | float) and isinstance(expected, int | float):
                same = bool(np.isclose(value, expected, rtol=0.01))
            if not same:
                kind = "open" if value is None else "wrong"
                row = {"tree": ask.tree, "command": ask.command, "read": value, "true": expected}
                found[(true.style, name, kind)].append(row)
    ordered = sorted(found.items(), key=lambda item: -len(item[1]))[:most]
    return [{"style": s, "fact": f, "kind": k, "jobs": len(rows), **rows[0]} for (s, f, k), rows in ordered]


def scores(result: Tried) -> dict[str, Any]:
    """Everything that is measured of one workload."""
    return {
        "prediction": prediction_scores(result.asks, result.truth, result.predictions),
        "facts": fact_scores(result.asks, result.truth, result.facts) | word_scores(result),
        "failure": failure_calibration(result),
        "diagnosis": diagnosis_scores(result.diagnosed) | {"healthy_right": float(np.mean(result.healthy))},
        "styles": by_style(result),
        "unknowable": claimed_of_unknowable(result),
    }


def table(rows: Mapping[str, Sequence[Mapping[str, Any]]]) -> list[str]:
    """Markdown: a column a generator, means over the seeds."""
    names = list(rows)
    lines = ["| | " + " | ".join(names) + " |", "|---" * (len(names) + 1) + "|"]

    def add(label: str, cell: Any) -> None:
        lines.append(f"| {label} | " + " | ".join(cell(rows[name]) for name in names) + " |")

    def mean(path: tuple[str, ...], form: str) -> Any:
        def cell(each: Sequence[Mapping[str, Any]]) -> str:
            values = []
            for row in each:
                value: Any = row
                for key in path:
                    value = value.get(key) if value is not None else None
                if value is not None:
                    values.append(float(value))
            return format(float(np.mean(values)), form) if values else "n/a"

        return cell

    told = (
        ("duration: median error, factor", ("prediction", "median_error_factor"), ".2f"),
        ("duration: within a factor of 2", ("prediction", "within_factor_2"), ".0%"),
        ("duration: median of predicted / true", ("prediction", "median_ratio"), ".2f"),
        ("duration: inside the 80 % interval", ("prediction", "within_p10_p90"), ".0%"),
        ("duration: below the 99 % quantile", ("prediction", "below_p99"), ".0%"),
        ("the user's limit instead: median error, factor", ("prediction", "requested", "median_error_factor"), ".1f"),
        ("GPU memory: inside the 80 % interval", ("prediction", "gpu_memory_within_interval"), ".0%"),
        ("GPU memory: median error, factor", ("prediction", "gpu_memory_median_error_factor"), ".2f"),
        ("bad end: Brier", ("failure", "brier"), ".3f"),
        ("bad end: Brier of always saying the base rate", ("failure", "base_rate_brier"), ".3f"),
        ("diagnosis: category right", ("diagnosis", "category_right"), ".0%"),
        ("diagnosis: action right", ("diagnosis", "action_right"), ".0%"),
        ("diagnosis: first line quoted is the cause", ("diagnosis", "evidence_right"), ".0%"),
        ("diagnosis: completed jobs found healthy", ("diagnosis", "healthy_right"), ".0%"),
    )
    for label, path, form in told:
        add(label, mean(path, form))
    for low, high in pairwise(FAILURE_BINS):

        def shares(each: Sequence[Mapping[str, Any]], low: float = low) -> str:
            found = [found for row in each for found in row["failure"]["bins"] if found["from"] == low]
            jobs = sum(row["jobs"] for row in found)
            said, true = (sum(row[name] * row["jobs"] for row in found) for name in ("said", "true"))
            return f"{said / jobs:.0%} / {true / jobs:.0%} ({jobs})" if jobs else "n/a"

        add(f"bad end, where said to be {low:.0%} to {high:.0%}: said / true (jobs)", shares)
    for fact in sorted({fact for each in rows.values() for row in each for fact in row["facts"]}):

        def cell(each: Sequence[Mapping[str, Any]], fact: str = fact) -> str:
            total: Counter[str] = Counter()
            for row in each:
                total.update(row["facts"].get(fact, {}))
            jobs = sum(total.values())
            return " / ".join(f"{total[kind] / jobs:.0%}" for kind in ("right", "wrong", "open")) if jobs else "n/a"

        add(f"`{fact}`: right / wrong / open", cell)
    return lines


def style_table(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """Markdown: a line a style, weighted by jobs over the seeds."""
    found: dict[str, list[Mapping[str, float]]] = defaultdict(list)
    for row in rows:
        for style, told in row["styles"].items():
            found[style].append(told)
    lines = ["| style | jobs | median error, factor | inside the 80 % interval |", "|---|---|---|---|"]
    for style, each in sorted(found.items()):
        weights = [told["jobs"] for told in each]
        factor = np.exp(np.average([np.log(told["median_error_factor"]) for told in each], weights=weights))
        inside = np.average([told["within_p10_p90"] for told in each], weights=weights)
        lines.append(f"| {style} | {sum(weights)} | {factor:.1f} | {inside:.0%} |")
    return lines


def main() -> None:
    """Try both generators and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--jobs", type=int, default=400)
    parser.add_argument("--seeds", default="1,2,3")
    parser.add_argument("--users", type=int, default=24)
    parser.add_argument(
        "--generator", action="append", choices=list(GENERATORS), help="repeat for more (default: both)"
    )
    parser.add_argument(
        "--misses", type=int, default=0, help="print so many kinds of misses of the first seed with an example each"
    )
    parser.add_argument("--json", action="store_true")
    wanted = parser.parse_args()
    rows: dict[str, list[dict[str, Any]]] = defaultdict(list)
    missed: dict[str, list[dict[str, Any]]] = {}
    for name in wanted.generator or list(GENERATORS):
        for seed in map(int, wanted.seeds.split(",")):
            spec = WorkloadSpec(seed=seed, jobs=wanted.jobs, users=wanted.users)
            with tempfile.TemporaryDirectory() as folder:
                result = tried(GENERATORS[name](spec), Path(folder) / "out")
            rows[name].append(scores(result))
            missed.setdefault(name, misses(result, wanted.misses))
    if wanted.json:
        print(json.dumps({"synthetic": True, "scores": rows, "misses": missed}, indent=1))
        return
    print(f"Synthetic: {wanted.jobs} jobs a seed, seeds {wanted.seeds}; means over the seeds, one core, no model.\n")
    print(*table(rows), sep="\n")
    for name, each in rows.items():
        print(f"\n{name}:\n", *style_table(each), sep="\n")
    for name, examples in missed.items():
        for row in examples:
            print(f"{name}: {json.dumps(row)}")


if __name__ == "__main__":
    main()
