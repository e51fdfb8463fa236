"""A synthetic job stream for a Kant-like cluster, and the table of reference policies on it.

Example: python -m benchmarks.kant_like --seeds 1 2 3 4 5
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import yaml
from numpy.typing import NDArray

from benchmarks import bounds, core_gangs, gfr_picture, kant_table
from benchmarks.baselines import gang_cluster, lifetime, node_choice
from schedmate.scheduler import POLICIES, Policy
from schedmate.scheduler.disruption import Disruption

MIX_FILE = Path(__file__).resolve().parent / "data" / "kant_like_mix.yaml"
DAY_S = 86400.0

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class JobRow:
    """One job as its user submits it, and how long it will run (seconds; `duration_s` is not known to a scheduler)."""

    submit_s: float
    gpus: int
    duration_s: float
    limit_s: float
    tenant: str


def load_mix(path: Path = MIX_FILE) -> dict[str, Any]:
    """Read a mix file."""
    mix: dict[str, Any] = yaml.safe_load(path.read_text(encoding="utf-8"))
    return mix


def jobs(seed: int, mix: dict[str, Any], days: float) -> list[JobRow]:
    """Draw the jobs of `days` days, in order of submission.

    Each size class gets as many jobs as its share of the offered GPU time holds, with submissions spread by the daily
    cycle (a Poisson process given its count) and runs scaled so that the class offers exactly its share: with wide
    gangs few and runs long-tailed, a free draw would move the load by several points from seed to seed.
    """
    rng = np.random.default_rng(seed)
    cluster = mix["cluster"]
    offered_gpu_s = mix["offered_load"] * cluster["nodes"] * cluster["gpus_per_node"] * days * DAY_S
    submits: list[Floats] = []
    durations: list[Floats] = []
    sizes: list[NDArray[np.int64]] = []
    for size in mix["sizes"]:
        target_s = offered_gpu_s * size["share"] / size["gpus"]
        run_s = _runs(rng, size, target_s, mix["min_run_s"], mix["max_run_s"])
        submits.append(_submissions(rng, len(run_s), days, mix["arrivals"]))
        durations.append(run_s)
        sizes.append(np.full(len(run_s), size["gpus"]))
    submit = np.concatenate(submits)
    order = np.argsort(submit, kind="stable")
    duration = np.concatenate(durations)[order]
    limit = _limits(rng, duration, mix["limits"])
    tenant = _tenants(rng, len(order), mix["tenants"])
    columns = (submit[order].tolist(), np.concatenate(sizes)[order].tolist(), duration.tolist(), limit.tolist(), tenant)
    return [JobRow(*row) for row in zip(*columns, strict=True)]


def predicted_runs(rows: list[JobRow], seed: int, log_sd: float) -> list[float]:
    """What a predictor with a log-normal error would say of each job's run, in seconds, never above its limit."""
    noise = np.random.default_rng([seed, 77]).normal(0.0, log_sd, len(rows))
    return [min(row.limit_s, row.duration_s * float(np.exp(e))) for row, e in zip(rows, noise, strict=True)]


def _runs(rng: np.random.Generator, size: dict[str, Any], target_s: float, min_s: float, max_s: float) -> Floats:
    """Runs in seconds that sum to `target_s`: a log-normal, cut at both ends."""

    def draw(count: int) -> Floats:
        sample = size["median_s"] * np.exp(rng.normal(0.0, size["log_sd"], count))
        return np.asarray(np.clip(sample, min_s, max_s))

    count = max(1, round(target_s / float(draw(20000).mean())))
    sample = draw(count)
    for _ in range(50):
        total = float(sample.sum())
        if abs(total / target_s - 1.0) < 1e-6:
            break
        sample = np.clip(sample * (target_s / total), min_s, max_s)
    return sample


def _submissions(rng: np.random.Generator, count: int, days: float, arrivals: dict[str, Any]) -> Floats:
    """Submission times in seconds by thinning against the daily cycle."""
    depth, peak_s = arrivals["daily_depth"], arrivals["peak_hour"] * 3600.0
    kept: list[Floats] = []
    missing = count
    while missing > 0:
        t = rng.uniform(0.0, days * DAY_S, 2 * missing + 8)
        rate = 1.0 + depth * np.cos(2 * np.pi * (t - peak_s) / DAY_S)
        t = t[rng.uniform(0.0, 1.0 + depth, len(t)) < rate][:missing]
        kept.append(t)
        missing -= len(t)
    return np.concatenate(kept) if kept else np.empty(0)


def _limits(rng: np.random.Generator, duration: Floats, limits: dict[str, Any]) -> Floats:
    """Requested limits in seconds, never below the run."""
    menu = np.asarray(limits["menu_s"], dtype=float)
    low, high = limits["factor"]
    guess = duration * rng.uniform(low, high, len(duration))
    rounded = menu[np.minimum(np.searchsorted(menu, guess), len(menu) - 1)]
    return np.where(rng.uniform(size=len(duration)) < limits["at_maximum"], menu[-1], rounded)


def _tenants(rng: np.random.Generator, count: int, tenants: dict[str, Any]) -> list[str]:
    weight = 1.0 / np.arange(1, tenants["count"] + 1) ** tenants["zipf_exponent"]
    return [f"tenant-{i:02d}" for i in rng.choice(tenants["count"], count, p=weight / weight.sum())]


@dataclass(frozen=True)
class Row:
    """A row of the table. Either a `reference` simulation, made from an empty cluster and a seed, or a policy of the
    scheduler core. `movable`: the share of the small jobs that save checkpoints and may be moved, if moves there are.
    """

    movable: float
    reference: Callable[[gang_cluster.Cluster, int], gang_cluster.Simulation] | None = None
    policy: Policy | None = None


def policies() -> dict[str, Row]:
    """Every row by name."""

    def still(queue: str, place: Callable[[int], gang_cluster.Place]) -> Row:
        return Row(0.0, lambda cluster, seed: gang_cluster.Simulation(cluster, place(seed), queue))

    def moving(share: float) -> Row:
        def make(cluster: gang_cluster.Cluster, seed: int) -> gang_cluster.Simulation:
            consolidate = lifetime.consolidate(MOST_PARTLY_USED)
            return gang_cluster.Simulation(cluster, lifetime.least_extension, "backfill", consolidate=consolidate)

        return Row(share, make)

    def ours(share: float, **changes: Any) -> Row:
        return Row(share, policy=replace(POLICIES["core"], **{"defragment": None, **changes}))

    return {
        "strict FIFO, best-fit": still("strict", node_choice.best_fit),
        "best-effort FIFO, best-fit": still("best-effort", node_choice.best_fit),
        "backfill, best-fit": still("backfill", node_choice.best_fit),
        "backfill, tight best-fit": still("backfill", lambda _: node_choice.tight_best_fit),
        "backfill, least-allocated": still("backfill", lambda _: node_choice.least_allocated),
        "backfill, least extension": still("backfill", lambda _: lifetime.least_extension),
        "+ consolidation, half movable": moving(0.5),
        "+ consolidation, all movable": moving(1.0),
        "core": ours(0.5),
        "core, moves, half movable": ours(0.5, defragment=Disruption()),
        "core, placement best-fit": ours(0.5, placement="best-fit"),
        "core, placement least-allocated": ours(0.5, placement="least-allocated"),
        "core, all movable but unmoved": ours(1.0),
        "core, moves, all movable": ours(1.0, defragment=Disruption()),
    }


MOST_PARTLY_USED = 3
"""Partly used nodes that consolidation leaves alone."""


def stream_of(rows: list[JobRow], seed: int, mix: dict[str, Any], movable_share: float) -> list[gang_cluster.Job]:
    """The jobs of a seed, with predictions, and which of the small ones may be moved."""
    predicted = predicted_runs(rows, seed, mix["prediction_log_sd"])
    movable = np.random.default_rng([seed, 78]).uniform(size=len(rows)) < movable_share
    node_gpus = mix["cluster"]["gpus_per_node"]
    return [
        gang_cluster.Job(row.submit_s, row.gpus, row.duration_s, row.limit_s, run_s, move and row.gpus < node_gpus)
        for row, run_s, move in zip(rows, predicted, movable.tolist(), strict=True)
    ]


def run_one(name: str, seed: int, mix: dict[str, Any], days: float) -> gang_cluster.Outcome:
    """One seed of one row."""
    row, warm_up_s = policies()[name], mix["run"]["warm_up_days"] * DAY_S
    stream = stream_of(jobs(seed, mix, days), seed, mix, row.movable)
    if row.policy is not None:
        return core_gangs.run(stream, mix["cluster"], row.policy, warm_up_s, days * DAY_S)
    if row.reference is None:
        raise ValueError(f"{name} is neither a reference nor a policy")
    found = row.reference(gang_cluster.Cluster(**mix["cluster"]), seed).run(stream, warm_up_s, days * DAY_S)
    if not found.moves:
        found.done_gpu_s = [bounds.done_by(stream, (day + 1) * DAY_S) for day in range(int(days))]
    return found


def main() -> None:
    """Print the table of policies."""
    mix = load_mix()
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, nargs="+", default=mix["run"]["seeds"])
    parser.add_argument("--days", type=float, default=mix["run"]["days"])
    parser.add_argument("--load", type=float, help="another offered load than the mix's, to see what saturates first")
    parser.add_argument("--prediction-sd", type=float, help="another error of predicted runs; 0 for perfect ones")
    parser.add_argument("--mix", type=Path, default=MIX_FILE, help="another mix than the committed one")
    parser.add_argument("--policy", action="append", choices=list(policies()), help="only this one; may be repeated")
    parser.add_argument("--bound", action="store_true", help="only the most that any policy could do")
    parser.add_argument("--processes", type=int, default=1)
    parser.add_argument("--results", type=Path, help="write every run here, and take those that are there as done")
    parser.add_argument("--against", action="store_true", help="also what each row has done, by seed, beside the first")
    parser.add_argument("--plot", type=Path, help="draw GFR over time of the first seed of each row as SVG")
    args = parser.parse_args()
    if args.results and (args.mix != MIX_FILE or args.prediction_sd is not None):
        parser.error("--results is for runs of the committed mix only")
    mix = load_mix(args.mix)
    mix["offered_load"] = args.load or mix["offered_load"]
    if args.prediction_sd is not None:
        mix["prediction_log_sd"] = args.prediction_sd
    print(f"synthetic mix {mix['name']}, load {mix['offered_load']}, {args.days:g} days, seeds {args.seeds}")
    names = [] if args.bound else args.policy or list(policies())
    for seed in args.seeds:
        print(bounds.words(seed, jobs(seed, mix, args.days), mix, args.days))
    if names:
        print(kant_table.heading())
    found: dict[str, list[kant_table.Kept]] = {}
    with ProcessPoolExecutor(args.processes) as pool:
        futures = {n: [pool.submit(_kept, args, mix, n, seed) for seed in args.seeds] for n in names}
        for name, each in futures.items():
            found[name] = [future.result() for future in each]
            counted_days = args.days - mix["run"]["warm_up_days"]
            print(kant_table.line(name, found[name], counted_days, _gpus(mix)), flush=True)
            if args.against and name != names[0]:
                print(kant_table.against(found[names[0]], found[name]), flush=True)
    if args.plot:
        series = {name: rows[0]["series"] for name, rows in found.items()}
        args.plot.write_text(gfr_picture.svg(series, mix["cluster"]["nodes"], args.days))


def _kept(args: argparse.Namespace, mix: dict[str, Any], name: str, seed: int) -> kant_table.Kept:
    def run() -> gang_cluster.Outcome:
        return run_one(name, seed, mix, args.days)

    return kant_table.kept(args.results, name, mix["offered_load"], args.days, seed, run)


def _gpus(mix: dict[str, Any]) -> int:
    gpus: int = mix["cluster"]["nodes"] * mix["cluster"]["gpus_per_node"]
    return gpus


if __name__ == "__main__":
    main()
