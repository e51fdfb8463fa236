"""The sweep: which cells there are, which are done, the engine for the others, and the summary over all."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any

from prompts.errors import UserError
from schedmate.files import write_whole
from schedmate.knowledge import why_not
from schedmate.ports import Engine, ItemFailed
from schedmate.simulator import policy_named
from schedmate.simulator.headline import HEADLINES
from schedmate.simulator.intervals import Interval, paired_ratio
from schedmate.sweep.cells import Cell, cluster_of, digest_of_inputs, read_records, read_trace, run_cell
from schedmate.sweep.spec import Spec, Workload
from schedmate.sweep.store import GO_ON, CellStore
from schedmate.trace_warnings import of_size, of_zone
from schedmate.traces import told_skips

Row = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Options:
    """How to run. ``timeout_s`` bounds each cell; ``fresh`` computes every cell again."""

    out: Path
    workers: int
    timeout_s: float
    fresh: bool = False


@dataclass(frozen=True, slots=True)
class Group:
    """The cells of one row: replicates that differ in their seed only. ``reason``: why there are none."""

    workload: Workload
    load: float
    policy: str
    estimates: str
    cells: tuple[Cell, ...]
    reason: str | None


def planned(spec: Spec) -> list[Group]:
    """All rows in the order of the spec. Reads every trace once, to know what it can support."""
    groups = []
    for workload in spec.workloads:
        inputs = digest_of_inputs(workload)
        records = () if workload.generated is not None else read_records(workload)
        if workload.generated is None:
            cluster_of(workload)  # a mistake in it is told now and not by every cell
        reasons = {
            run: None if workload.generated is not None else why_not(policy_named(run[0]), run[1], records)
            for run in spec.runs
        }
        for load, run in product(spec.loads, spec.runs):
            seeds = workload.seeds(run[0], spec.seeds)
            cells = [Cell(workload, *run, load, seed, spec.shake_s, inputs) for seed in seeds]
            groups.append(Group(workload, load, *run, () if reasons[run] else tuple(cells), reasons[run]))
    return groups


def told_of_traces(groups: Sequence[Group]) -> list[str]:
    """Lines for people about rows of the traces that were left out or odd, and how they are replayed."""
    found = []
    for workload in {group.workload.name: group.workload for group in groups}.values():
        if workload.trace is None:
            continue
        jobs, notes = read_trace(workload)
        found += told_skips(workload.trace, notes)
        odd = [
            *of_zone(notes, dict(workload.options).get("timezone", "")),
            *of_size(jobs, None, cluster_of(workload)[0].gpus),
        ]
        found += [f"{workload.trace}: {line}" for line in odd]
    return found


def run_sweep(
    groups: Sequence[Group], options: Options, engine: Engine, advance: Callable[[int], None] = lambda n: None
) -> Row:
    """Run every cell that is not done yet; the summary (docs/json/sweep.md), which is also written to ``out``.

    The summary depends on the cells alone: not on how many processes ran them, in what order, or in how many attempts.
    """
    store = CellStore(options.out)
    cells = _in_order(groups)
    found: dict[str, Row] = {}
    if not options.fresh:
        found = {cell.key: done for cell in cells if (done := store.get(cell.key)) is not None}
    waiting = [cell for cell in cells if cell.key not in found]
    advance(len(found))
    failures = []
    running = engine.map(run_cell, waiting, workers=options.workers, timeout_s=options.timeout_s)
    try:
        for cell, outcome in running:
            if isinstance(outcome, ItemFailed):
                failures.append({**_named(cell), "kind": outcome.kind, "message": outcome.message})
            else:
                store.put(cell.key, outcome)
                found[cell.key] = outcome
            advance(1)
    finally:
        _close(running)
    summary = {
        "metrics": HEADLINES,
        "cells": len(cells),
        "rows": list(_rows(groups, found)),
        "failures": sorted(failures, key=lambda each: [str(value) for value in each.values()]),
    }
    write_whole(options.out / "summary.json", _text(summary), GO_ON)
    return summary | {"already_done": len(cells) - len(waiting), "out": str(options.out)}


def _in_order(groups: Sequence[Group]) -> list[Cell]:
    """Cells of the same jobs one after the other, so that whoever runs them prepares these once."""
    place = {name: i for i, name in enumerate(dict.fromkeys(group.workload.name for group in groups))}
    cells = dict.fromkeys(cell for group in groups for cell in group.cells)
    return sorted(cells, key=lambda cell: (place[cell.workload.name], cell.load, cell.seed))


def _rows(groups: Sequence[Group], found: dict[str, Row]) -> Iterator[Row]:
    bases: dict[tuple[str, float], dict[int, Row]] = {}
    most = dict[str, int]()
    for group in groups:
        most[group.workload.name] = max(len(group.cells), most.get(group.workload.name, 0))
    for group in groups:
        done = [found[cell.key] for cell in group.cells if cell.key in found]
        whole = done and len(done) == len(group.cells)
        by_seed = {cell.seed: found[cell.key] for cell in group.cells} if whole else {}
        base = bases.setdefault((group.workload.name, group.load), by_seed) if whole else {}
        fewer = group.workload.fewer if 0 < len(group.cells) < most[group.workload.name] else None
        yield {
            "workload": group.workload.name,
            "note": group.workload.note,
            "synthetic": group.workload.generated is not None,
            "load": group.load,
            "policy": group.policy,
            "estimates": group.estimates,
            "reason": group.reason if not group.cells else None if whole else "cells of it failed",
            "seeds": [cell.seed for cell in group.cells],
            "jobs": done[0]["jobs"] if whole else None,
            "skipped": done[0]["skipped"] if whole else {},
            "metrics": _metrics(done) if whole else None,
            "jct_ratio": _ratio(by_seed, base) if whole else None,
            "fewer_because": None if fewer is None else fewer.why,
        }


def _ratio(done: dict[int, Row], base: dict[int, Row]) -> Row | None:
    both = [seed for seed in done if seed in base]
    means, others = ([rows[seed]["metrics"]["jct_mean_s"] for seed in both] for rows in (done, base))
    ratio = paired_ratio(means, others)
    return None if ratio is None else _plain(ratio)


def _metrics(done: Sequence[Row]) -> Row:
    return {
        name: _interval([each["metrics"][name] for each in done]) for name in HEADLINES if name in done[0]["metrics"]
    }


def _interval(values: Sequence[float]) -> Row:
    return _plain(Interval.of(values))


def _plain(interval: Interval) -> Row:
    return {"mean": interval.mean, "low": interval.low, "high": interval.high}


def _named(cell: Cell) -> Row:
    return {
        "workload": cell.workload.name,
        "load": cell.load,
        "policy": cell.policy,
        "estimates": cell.estimates,
        "seed": cell.seed,
    }


def _text(summary: Row) -> str:
    import json

    return json.dumps(summary, indent=1, allow_nan=False) + "\n"


def _close(running: Iterator[Any]) -> None:
    close = getattr(running, "close", None)
    if close is not None:
        close()


def all_na(groups: Sequence[Group]) -> UserError | None:
    """The error to tell where there is nothing to run at all."""
    if any(group.cells for group in groups):
        return None
    return UserError("nothing to sweep: no policy can run", groups[0].reason or "see docs/sweep.md")
