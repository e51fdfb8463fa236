"""Pictures over time: utilisation, fragmentation, and the queue by size of job."""

from __future__ import annotations

from collections.abc import Sequence

from schedmate.comparison.axes import data_of, rows
from schedmate.comparison.runs import Run
from schedmate.report import Figure, Plot, figure, linear
from schedmate.report.scale import percent
from schedmate.simulator.metrics import SIZE_BUCKETS

ROW_PX = 74
QUEUE_PX = 96
_WINDOW = "Shown is the time from the first submission until a little after the last start."


def utilisation(runs: Sequence[Run]) -> Figure:
    """GAR over time, a row a run."""
    told = ", ".join(
        f"{run.label} {_percent(run.summary['sor_while_arriving'])}"
        for run in runs
        if "sor_while_arriving" in run.summary
    )

    def one(run: Run, plot: Plot) -> str:
        _filled(plot, run, "gar")
        if "sor_while_arriving" not in run.summary:  # what the trace records
            return "of the GPUs of the cluster that is replayed"
        return f"{_percent(run.summary['sor_while_arriving'])} until the last submission"

    return figure(
        "GPUs in use over time",
        f"Share of the GPUs that is allocated, a row a policy. Means until the last submission: {told}.",
        f"GAR: allocated over schedulable GPUs, in per cent, mean of each of 200 equal stretches. {_WINDOW} "
        f"{data_of(runs)}",
        lambda width: rows(runs, width, ROW_PX, linear(0, 1, percent, (0, 0.5, 1)), one, "allocated GPUs"),
    )


def fragmentation(runs: Sequence[Run]) -> Figure:
    """GFR over time, a row a run."""
    most = max(max(run.detail["gfr"]) for run in runs if run.detail)
    top = next(each for each in (0.1, 0.2, 0.5, 1.0) if most <= each or each == 1.0)

    def one(run: Run, plot: Plot) -> str:
        _filled(plot, run, "gfr")
        return f"{_percent(run.summary['gfr']['mean'])} on average"

    return figure(
        "Nodes in part used over time",
        "Share of the nodes of which some but not all GPUs are allocated, a row a policy.",
        "GFR: nodes with some but not all GPUs allocated over all healthy GPU nodes, in per cent, mean of each "
        f"stretch; a job that needs whole nodes can not use them. The mean at the right is until the last end. "
        f"{data_of(runs)}",
        lambda width: rows(runs, width, ROW_PX, linear(0, top, percent, (0, top / 2, top)), one, "nodes in part used"),
    )


def queue(runs: Sequence[Run]) -> Figure:
    """GPUs that waiting jobs ask for, stacked by size of job."""
    stacks = {run.label: _stacked(run) for run in runs}
    most = max((max(stack[-1][1]) for stack in stacks.values() if stack), default=1.0)
    sizes = [
        name for name, _, _ in SIZE_BUCKETS if any(run.detail and name in run.detail["waiting_gpus"] for run in runs)
    ]

    def one(run: Run, plot: Plot) -> str:
        below = [0.0] * len(_times(run))
        times = _times(run)
        for name, above in stacks[run.label]:
            lower = _held(times, below)
            upper = _held(times, above)
            plot.band(lower, upper, f"q{[size for size, _, _ in SIZE_BUCKETS].index(name)}")
            below = above
        return f"at most {max(below):,.0f} GPUs"

    def draw(width: int) -> tuple[str, float]:
        axis = linear(0, max(most, 1.0), lambda v: f"{v:,.0f}", _three(max(most, 1.0)))
        marks, height = rows(runs, width, QUEUE_PX, axis, one, "GPUs waited for")
        return marks + _legend(sizes, width, height + 8), height + 26

    return figure(
        "The queue by size of job",
        "GPUs that waiting jobs ask for, stacked by the size of the job, a row a policy.",
        "GPUs (vertical) asked for by jobs that wait for their first start, mean of each stretch, stacked by the size "
        f"of the job in GPUs: the stronger the colour, the larger. {data_of(runs)}",
        draw,
    )


def _stacked(run: Run) -> list[tuple[str, list[float]]]:
    total = [0.0] * len(_times(run))
    found = []
    for name, series in (run.detail or {})["waiting_gpus"].items():
        total = [a + b for a, b in zip(total, series, strict=True)]
        found.append((name, total))
    return found


def _times(run: Run) -> list[float]:
    starts = (run.detail or {})["start_s"]
    return [each - starts[0] for each in starts]


def _held(times: list[float], values: list[float]) -> list[tuple[float, float]]:
    """Steps: every value until the next."""
    step = times[1] - times[0] if len(times) > 1 else 1.0
    return [point for t, v in zip(times, values, strict=True) for point in ((t, v), (t + step, v))]


def _filled(plot: Plot, run: Run, key: str) -> None:
    if run.detail is None:
        return
    points = list(zip(_times(run), run.detail[key], strict=True))
    points.append((run.detail["end_s"] - run.detail["start_s"][0], run.detail[key][-1]))
    plot.area(points, f"{run.style} soft").steps(points, f"{run.style} thin")


def _legend(sizes: Sequence[str], width: int, y: float) -> str:
    """Squares of the colours with the sizes they stand for."""
    parts: list[str] = []
    x = 58.0
    for number, (name, _, _) in enumerate(SIZE_BUCKETS):
        if name in sizes:
            parts.append(
                f'<rect class="area q{number}" x="{x:.0f}" y="{y - 10:.0f}" width="12" height="12"/>'
                f'<text x="{x + 17:.0f}" y="{y:.0f}">{name.replace(">", "&gt;")}{" GPU" if not parts else ""}</text>'
            )
            x += min(84.0, (width - 70) / len(sizes))
    return "".join(parts)


def _three(most: float) -> tuple[float, ...]:
    digits = 10.0 ** (len(str(int(most))) - 1)
    step = next(f * digits for f in (0.5, 1.0, 2.0, 5.0) if most / (f * digits) < 4) if most >= 2 else 1.0
    return tuple(step * i for i in range(int(most / step) + 1))


def _percent(value: float | None) -> str:
    return "n/a" if value is None else percent(value)
