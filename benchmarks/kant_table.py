"""What is kept of each run of `benchmarks.kant_like`, by row, load and seed, and the table of it."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks import gfr_picture
from benchmarks.baselines.gang_cluster import Outcome

SIZES = ("1-4", "8-64", "65-512", ">512")

Kept = dict[str, Any]


def kept(folder: Path | None, name: str, load: float, days: float, seed: int, run: Callable[[], Outcome]) -> Kept:
    """The numbers of one run: those in ``folder`` if it has been done before, else it is done and written there."""
    if folder is None:
        return _numbers(run(), days)
    path = folder / f"{re.sub('[^a-z0-9]+', '-', name.lower()).strip('-')}-load-{load:g}-seed-{seed}.json"
    if not path.exists():
        numbers = {"policy": name, "load": load, "days": days, "seed": seed, **_numbers(run(), days)}
        folder.mkdir(parents=True, exist_ok=True)
        beside = path.with_suffix(".part")
        beside.write_text(json.dumps(numbers))
        beside.replace(path)
    found: Kept = json.loads(path.read_text())
    if found["days"] != days:
        raise ValueError(f"{path} is of {found['days']} days")
    return found


def heading() -> str:
    """Above the lines of the table."""
    waits = f"mean wait min {' / '.join(SIZES)}"
    return (
        f"{'policy':<33}{'GFR %':>7}{'sd':>6}{'SOR %':>7}{'sd':>6}{'good %':>8}  {waits:<39}moves/d lost %"
        f"{'done %':>8}{'delay min':>11}"
    )


def line(name: str, rows: Sequence[Kept], counted_days: float, gpus: int) -> str:
    """The means over the seeds of one row. *done*: useful work by the end of submissions, in per cent of what the
    cluster could have done since the very beginning; *delay*: see `work.mean_delay_s`."""
    ddof = min(1, len(rows) - 1)
    gfr, sor, good = (np.array([row[key] for row in rows]) for key in ("gfr", "sor", "goodput"))
    waits = []
    for size in SIZES:
        count = sum(row["waits"][size][0] for row in rows if size in row["waits"])
        total_s = sum(row["waits"][size][1] for row in rows if size in row["waits"])
        waits.append(f"{total_s / count / 60:.1f}" if count else "-")
    done = np.array([row["done_gpu_s"][-1] / (gpus * row["days"] * 86400) for row in rows])
    delay_s = np.array([row["delay_s"] for row in rows], dtype=float)
    return (
        f"{name:<33}{gfr.mean():>7.2f}{gfr.std(ddof=ddof):>6.2f}{sor.mean():>7.2f}{sor.std(ddof=ddof):>6.2f}"
        f"{good.mean():>8.2f}  {' / '.join(waits):<39}{np.mean([row['moves'] for row in rows]) / counted_days:>7.0f}"
        f"{(sor - good).mean():>7.3f}{100 * done.mean():>8.2f}{delay_s.mean() / 60:>11.2f}"
    )


def against(still: Sequence[Kept], moved: Sequence[Kept]) -> str:
    """By seed: how much more useful work had been done by the end of each day with moves, in GPU hours, and how much
    sooner a GPU second of it was done on average over the whole run."""
    lines = []
    for a, b in zip(still, moved, strict=True):
        more = [(y - x) / 3600 for x, y in zip(a["done_gpu_s"], b["done_gpu_s"], strict=True)]
        by_day = " ".join(f"{each:+.0f}" for each in more)
        sooner_s = a["delay_s"] - b["delay_s"]
        lines.append(
            f"  seed {a['seed']}: a GPU second of work is done {sooner_s:+.1f} s sooner ({b['delay_s']:.0f} s late); "
            f"GPU hours more by the end of each day: {by_day}"
        )
    return "\n".join(lines)


def _numbers(outcome: Outcome, days: float) -> Kept:
    numbers = {
        name: getattr(outcome, name)
        for name in ("gfr", "sor", "goodput", "moves", "moved_gpu_s", "unstarted", "done_gpu_s", "delay_s")
    }
    waits = {size: (len(each), float(np.sum(each))) for size, each in outcome.waits_s.items()}
    return {**numbers, "waits": waits, "series": gfr_picture.averages(outcome.series, days)}
