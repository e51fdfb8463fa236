"""The scoreboard: every policy on the real traces and on the synthetic workload, with confidence intervals.

Run: make results, or python benchmarks/results.py --data DIR [--shakes 10] [--only WORKLOAD] [--write docs/results.md]
[--short README.md]

The sweep is benchmarks/results.yaml; it is resumed if it was stopped. The tables replace what stands between the marks
in the file given with --write, a short one what stands between them in that of --short. Traces that are not in DIR are
named and left out. Policies are those that the scheduler has; a row that a trace can not support says why.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType
from typing import Any

from prompts.errors import UserError
from schedmate.console import progress
from schedmate.knowledge import NO_REQUESTED, uses_estimates
from schedmate.ports import ENGINES, load
from schedmate.simulator import policy_named
from schedmate.simulator.recorded import as_recorded
from schedmate.sweep.cells import read_records
from schedmate.sweep.run import Options, planned, run_sweep, told_of_traces
from schedmate.sweep.spec import Spec, read_spec

SPEC = Path(__file__).with_suffix(".yaml")
BEGIN, END = "<!-- scoreboard: made by `make results` -->", "<!-- end of the scoreboard -->"
TIMEOUT_S = 1800.0
KNOWS = {
    "requested": "requested times",
    "perfect": "true runtimes",
    "predicted": "predictions",
    "hostile": "hostile hints",
}
#: Metric, heading, how many digits, and by what it is multiplied.
COLUMNS = (
    ("jct_mean_s", "mean JCT s", 0, 1),
    ("queueing_mean_s", "mean queueing s", 0, 1),
    ("queueing_p99_s", "p99 queueing s", 0, 1),
    ("queueing_max_s", "longest s", 0, 1),
    ("delay_mean_s", "mean delay s", 0, 1),
    ("bounded_slowdown_mean", "bounded slowdown", 2, 1),
    ("sor_while_arriving", "SOR %, until the last submission", 1, 100),
    ("sor", "SOR %, until the last end", 1, 100),
    ("gfr", "GFR %", 1, 100),
)


#: Rows of the short table.
SHORT = (
    ("fifo", "perfect"), ("best-effort", "perfect"), ("easy", "requested"), ("easy", "perfect"), ("sjf", "perfect"),
    ("core", "requested"), ("core", "predicted"), ("core", "perfect"),
    ("patient", "requested"), ("patient", "predicted"), ("patient", "perfect"), ("srtf", "perfect"),
)  # fmt: skip


def present(spec: Spec) -> tuple[Spec, list[str]]:
    """The spec without workloads whose trace is not there, and the names of those."""
    here = tuple(each for each in spec.workloads if each.trace is None or each.trace.is_file())
    return replace(spec, workloads=here), [each.name for each in spec.workloads if each not in here]


#: Metric -> where it stands in what a trace records.
RECORDED = {
    "jct_mean_s": ("jct_s", "mean"),
    "queueing_mean_s": ("queueing_s", "mean"),
    "queueing_p99_s": ("queueing_s", "p99"),
    "queueing_max_s": ("queueing_s", "max"),
    "bounded_slowdown_mean": ("bounded_slowdown", "mean"),
}


def recorded_in(spec: Spec) -> dict[str, Mapping[str, Any]]:
    """The queues that the traces themselves record, by workload."""
    found = {}
    for workload in spec.workloads:
        jobs = () if workload.trace is None else read_records(workload)
        told = as_recorded(jobs, {job.job_id for job in jobs})
        if told is not None:
            found[workload.name] = told
    return found


def tables(
    rows: Sequence[Mapping[str, Any]], shake_s: float, recorded: Mapping[str, Mapping[str, Any]] = MappingProxyType({})
) -> str:
    """Markdown: a table a workload and load, at its own load with what the trace records."""
    parts = []
    for name, load_ in dict.fromkeys((row["workload"], row["load"]) for row in rows):
        own = [row for row in rows if (row["workload"], row["load"]) == (name, load_)]
        parts.append(_head(name, load_, own, shake_s))
        heads = ["policy", "knows", *(head for _, head, _, _ in COLUMNS), "JCT ratio"]
        bare = any(row["reason"] == NO_REQUESTED for row in own)
        told = [_row(row, bare) for row in own if row["metrics"] is not None]
        if name in recorded and load_ == 1:
            told.append(_recorded(recorded[name]))
        parts.append("\n".join([_line(heads), _line(["---"] * len(heads)), *told]) + "\n")
        parts += [f"{missing}\n" for missing in _missing(own)]
    return "\n".join(parts)


def _recorded(found: Mapping[str, Any]) -> str:
    cells = [
        f"{factor * found[RECORDED[key][0]][RECORDED[key][1]]:,.{digits}f}" if key in RECORDED else "n/a"
        for key, _, digits, factor in COLUMNS
    ]
    return _line(["as recorded", "what its own scheduler knew", *cells, ""])


def _missing(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """What can not be had, a sentence for every reason."""
    by_reason: dict[tuple[str, str], list[str]] = {}
    for row in rows:
        if row["metrics"] is None:
            by_reason.setdefault((row["reason"], row["estimates"]), []).append(f"`{row['policy']}`")
    return [f"n/a with {KNOWS[known]}: {', '.join(names)} ({why})." for (why, known), names in by_reason.items()]


def _head(name: str, load_: float, rows: Sequence[Mapping[str, Any]], shake_s: float) -> str:
    counted = next((row for row in rows if row["jobs"] is not None), rows[0])
    seeds = max(len(row["seeds"]) for row in rows)
    if rows[0]["synthetic"]:
        replicates = f"**Synthetic**: {rows[0]['note']}. Means over {seeds} workloads"
    else:
        replicates = f"{rows[0]['note']}. Means over {seeds} replays with submit times moved by up to {shake_s:.0f} s"
    jobs = "" if counted["jobs"] is None else f", {counted['jobs']:,} jobs each"
    at = "" if load_ == 1 else f" at {load_:g} times the load"
    why = next((row["fewer_because"] for row in rows if row.get("fewer_because")), None)
    few = "" if why is None else f" Where fewer replays are named: {why}."
    return f"### {name}{at}\n\n{replicates}{jobs}; ± is half of the 95 % confidence interval.{few}\n"


def _row(row: Mapping[str, Any], bare: bool) -> str:
    """``bare``: the trace has no requested times, so that who would look at them knows nothing."""
    knows = (
        "nothing of runtimes" if bare and row["estimates"] == "requested" else _knows(row["policy"], row["estimates"])
    )
    few = f" ({len(row['seeds'])} replays)" if row.get("fewer_because") else ""
    found = row["metrics"]
    cells = [_told(found[key], digits, factor) if key in found else "n/a" for key, _, digits, factor in COLUMNS]
    ratio = row["jct_ratio"]
    return _line([f"{row['policy']}{few}", knows, *cells, "" if ratio is None else _told(ratio, 3, 1)])


def _told(interval: Mapping[str, float | None], digits: int, factor: float) -> str:
    mean, low, high = interval["mean"], interval["low"], interval["high"]
    text = f"{factor * (mean or 0.0):,.{digits}f}"
    return text if low is None or high is None else f"{text} ±{factor * (high - low) / 2:,.{digits}f}"


def _line(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _column(workload: str, synthetic: bool) -> str:
    return f"{workload} (synthetic)" if synthetic and "synthetic" not in workload else workload


def short_table(rows: Sequence[Mapping[str, Any]]) -> str:
    """Markdown: mean delays of a few policies, a column a workload (at the load of the trace)."""
    own = [row for row in rows if row["load"] == 1]
    names = {row["workload"]: _column(row["workload"], row["synthetic"]) for row in own}
    found = {(row["workload"], row["policy"], row["estimates"]): row["metrics"] for row in own}
    lines = [_line(["policy", "knows", *names.values()]), _line(["---"] * (2 + len(names)))]
    for policy, estimates in SHORT:
        if not uses_estimates(policy_named(policy)):  # one row, whatever estimates it was crossed with
            estimates = next((row["estimates"] for row in own if row["policy"] == policy), estimates)
        cells = [_cell(found.get((name, policy, estimates))) for name in names]
        lines.append(_line([f"`{policy}`", _knows(policy, estimates), *cells]))
    return (
        "Mean delay in seconds (waiting; for the policy that evicts, what that costs as well) and half of its 95 % "
        "confidence interval, on public traces and on a synthetic workload; requested times where the trace has them, "
        "else nothing:\n\n" + "\n".join(lines) + "\n"
    )


def _cell(metrics: Mapping[str, Any] | None) -> str:
    return "n/a" if metrics is None else _told(metrics["delay_mean_s"], 0, 1)


def _knows(policy: str, estimates: str) -> str:
    return KNOWS.get(estimates, f"{estimates} hints") if uses_estimates(policy_named(policy)) else "nothing of runtimes"


def put_between(text: str, new: str, marks: tuple[str, str] = (BEGIN, END)) -> str:
    """The document with ``new`` between the marks. Raises `UserError` where these are missing."""
    before, begin, rest = text.partition(marks[0])
    _, end, after = rest.partition(marks[1])
    if not begin or not end:
        raise UserError("the marks of the table are not in the file", f"put {marks[0]} and {marks[1]} into it")
    return f"{before}{begin}\n\n{new}\n{end}{after}"


def main() -> int:
    """Run what is missing of the sweep and write the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--spec", type=Path, default=SPEC)
    parser.add_argument("--data", type=Path, required=True, help="folder of the traces")
    parser.add_argument("--out", type=Path, default=Path("results-out"))
    parser.add_argument("--shakes", type=int, help="replays of each, instead of what the spec says")
    parser.add_argument("--only", action="append", help="a workload; repeat for more")
    parser.add_argument("--workers", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--write", type=Path, help="document with the marks of the scoreboard")
    parser.add_argument("--short", type=Path, help="document with the same marks, for the short table")
    wanted = parser.parse_args()
    try:
        spec, missing = present(read_spec(wanted.spec, wanted.data))
        if wanted.shakes is not None:
            seeds = tuple(range(1, wanted.shakes + 1))
            spec = replace(spec, seeds=seeds or (0,), shake_s=spec.shake_s if seeds else 0.0)
        if wanted.only:
            spec = replace(spec, workloads=tuple(each for each in spec.workloads if each.name in wanted.only))
        groups = planned(spec)
        for line in told_of_traces(groups):
            print(line, file=sys.stderr)
        with progress("replaying", sum(len(group.cells) for group in groups)) as advance:
            summary = run_sweep(
                groups, Options(wanted.out, wanted.workers, TIMEOUT_S), load(ENGINES, "local")(), advance
            )
        text = tables(summary["rows"], spec.shake_s, recorded_in(spec))
        if wanted.write is None:
            print(text)
        for path, new in ((wanted.write, text), (wanted.short, short_table(summary["rows"]))):
            if path is not None:
                path.write_text(put_between(path.read_text(encoding="utf-8"), new), encoding="utf-8")
    except UserError as error:
        print(error, file=sys.stderr)
        return 2
    for name in missing:
        print(f"left out: {name}, its trace is not in {wanted.data}", file=sys.stderr)
    for failure in summary["failures"]:
        print(f"failed: {failure}", file=sys.stderr)
    return 1 if summary["failures"] else 0


if __name__ == "__main__":
    raise SystemExit(main())
