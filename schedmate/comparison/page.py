"""The report: one HTML file from the documents of one or several `schedmate simulate` runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from schedmate.comparison import nodes, over_time, owners, predicted, ratios, waits
from schedmate.comparison.axes import data_of
from schedmate.comparison.own_queue import recorded_in, recorded_run, told, with_recorded
from schedmate.comparison.runs import Run, differences, equal_by_chance, jct_ratios, same_jobs, with_delays
from schedmate.comparison.table import metric_rows
from schedmate.comparison.who_waits import who_waits
from schedmate.durations import short_duration
from schedmate.report import render_page

_HERE = Path(__file__).parent
#: Longer waits of a size of job are told where there are so many jobs of it, and the mean is so many times as long and
#: by so much longer.
_FEWEST_JOBS, _WORSE, _NOTICED_S = 10, 1.1, 60.0


def page(runs: Sequence[Run], command: str = "") -> str:
    """The whole page as text: what the documents lack the data for is named instead of drawn."""
    drawn = [run for run in runs if run.detail is not None]
    fair = owners.fairness(drawn) if drawn else None
    said = predicted.against_actual(drawn)
    recorded = recorded_in([run.document for run in runs])
    own = recorded_run(recorded, runs[0])
    return render_page(
        _HERE,
        "page.html.j2",
        runs=runs,
        same_jobs=same_jobs(runs),
        policies=len({run.policy for run in runs}),
        lede=lede(runs) + own_queue(recorded, runs),
        rows=metric_rows(runs) if recorded is None else with_recorded(metric_rows(runs), recorded),
        recorded=None if recorded is None else told(recorded),
        who=who_waits(drawn, recorded),
        data=data_of(runs),
        command=command,
        synthetic=any(run.synthetic for run in runs),
        warnings=[*differences(runs), *_warnings(runs)],
        without=[run.label for run in runs if run.detail is None],
        ratio=ratios.jct_ratio(runs).html if len(runs) > 1 and same_jobs(runs) else None,
        over_time=_over_time(drawn, own),
        waiting=waits.waiting(drawn, own).html if drawn else None,
        panels=[panel.html for panel in waits.waiting_by_size(drawn, own)],
        fairness=fair.html if fair else None,
        occupancy=[picture.html for run in drawn for picture in nodes.occupancy(run)],
        predicted=said.html if said else None,
    )


def _over_time(drawn: Sequence[Run], own: Run | None) -> list[str]:
    """Fragmentation only of those where it has a meaning; the trace's own queue first."""
    broken = [run for run in drawn if run.summary["gfr"]["mean"] is not None]
    every = [*([own] if drawn and own is not None and own.detail and "gar" in own.detail else []), *drawn]
    pictures = ((over_time.utilisation, every), (over_time.fragmentation, broken), (over_time.queue, every))
    return [draw(runs).html for draw, runs in pictures if runs]


def own_queue(recorded: Mapping[str, Any] | None, runs: Sequence[Run]) -> str:
    """What the trace says of its own queue, after the sentence on the policies."""
    if recorded is None:
        return ""
    mean, tail = (short_duration(recorded["queueing_s"][q]) for q in ("mean", "p99"))
    words = f" In the trace itself a job waited {mean} on average, one in a hundred over {tail}."
    best = min(runs, key=lambda run: float(run.summary["queueing_s"]["mean"]))
    price = longer_waits(best, recorded)
    return words + (f" Some wait longer under {best.label} than they did: {price}, on average." if price else "")


def lede(runs: Sequence[Run]) -> str:
    """The outcome in a sentence or two, whichever way it went."""
    first = runs[0]
    if len(runs) == 1:
        mean, tail = (short_duration(first.summary["queueing_s"][q]) for q in ("mean", "p99"))
        return f"Under {first.label} a job waited {mean} on average, one in a hundred over {tail}."
    key, what, least = (
        ("delay_s", "delay", "delays jobs")
        if with_delays([run.summary for run in runs])
        else ("queueing_s", "wait", "waits")
    )
    waits_s = [float(run.summary[key]["mean"]) for run in runs]
    best = min(range(len(runs)), key=lambda i: waits_s[i])
    told = "; ".join(f"{run.label} {short_duration(wait)}" for run, wait in zip(runs, waits_s, strict=True))
    words = f"Mean {what} by policy: {told}. "
    if what == "delay":
        words += "Delay is completion less runtime: jobs were evicted or broken off after their first start. "
    if not same_jobs(runs):
        return words + "These are different jobs: the figures can not be compared with each other."
    equal = [run for run in runs if run is not runs[best] and equal_by_chance(run, runs[best], key)]
    if equal:
        names = ", ".join(run.label for run in equal)
        words += f"{runs[best].label} and {names} are equal within chance, as far as shaken replays tell. "
    if first in equal or (equal and best == 0):
        return words.rstrip()
    if best == 0:
        return words + f"No other policy {least} less than {first.label}."
    words += _against(runs[best], first, "" if equal else f"{runs[best].label} {least} least; ")
    price = longer_waits(runs[best], first.summary)
    return words + (f" Not all jobs gain under {runs[best].label}: {price}, on average." if price else "")


def _against(run: Run, first: Run, before: str) -> str:
    ratio = jct_ratios([first, run])[1]
    if ratio is None:  # of other jobs: said before
        return before
    whose = "its mean completion time" if before else f"The mean completion time of {run.label}"
    sure = ""
    if ratio.low is not None and ratio.high is not None:
        sure = f" (95 % interval {ratio.low:.3f} to {ratio.high:.3f})"
        sure += ", which chance alone may explain" if ratio.low <= 1 <= ratio.high else ""
    return f"{before}{whose} is {ratio.mean:.3f} of {first.label}'s{sure}."


def longer_waits(run: Run, base: Mapping[str, Any]) -> str:
    """The sizes of jobs that pay for it: those whose mean wait is longer than in another summary, and by how much."""
    found = []
    for name, own in run.summary["jwtd_s"].items():
        other = base["jwtd_s"].get(name) or {}
        if own["mean"] is None or other.get("mean") is None or own["jobs"] < _FEWEST_JOBS:
            continue
        if own["mean"] > _WORSE * other["mean"] and own["mean"] - other["mean"] > _NOTICED_S:
            mean, before = short_duration(own["mean"]), short_duration(other["mean"])
            found.append(f"those of {name} GPU{'s' * (name != '1')} {mean} instead of {before}")
    return ", ".join(found)


def _warnings(runs: Sequence[Run]) -> list[str]:
    """Each once; with several documents it is said whose they are."""
    return list(
        dict.fromkeys(
            f"{run.source}: {each}" if run.source else str(each)
            for run in runs
            for each in run.document.get("warnings", [])
        )
    )
