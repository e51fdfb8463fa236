"""The replays of one or several documents of `schedmate simulate --json`, named so that they can be told apart."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from prompts.errors import UserError
from schedmate.simulator.intervals import Interval, paired_ratio

#: More than these could not be told apart in a picture.
MOST_RUNS = 8


@dataclass(frozen=True, slots=True)
class Run:
    """One policy of one document. ``style`` is its colour, as a class of the style sheet; ``source`` names the document
    where there are several."""

    label: str
    style: str
    policy: str
    document: Mapping[str, Any]
    summary: Mapping[str, Any]
    source: str = ""

    @property
    def detail(self) -> Mapping[str, Any] | None:
        """What the pictures are drawn from; None in a document that was made without."""
        return self.summary.get("detail")

    @property
    def synthetic(self) -> bool:
        """Whether whoever made the document said that its jobs were generated."""
        return bool(self.document.get("synthetic"))


@dataclass(frozen=True, slots=True)
class Ratio:
    """Mean JCT over that of the first run. ``low`` and ``high`` are None where there is nothing to judge it by."""

    mean: float
    low: float | None
    high: float | None
    n: int


def check_number(replays: int) -> None:
    """Raises `UserError` for more replays than can be told apart."""
    if replays > MOST_RUNS:
        raise UserError(f"{replays} replays to compare", f"at most {MOST_RUNS} can be told apart: give fewer")


def runs_of(documents: Sequence[tuple[str, Mapping[str, Any]]]) -> list[Run]:
    """All policies of all documents in order; with several documents the label begins with the document's name."""
    found = [(name, document, policy) for name, document in documents for policy in document["policies"]]
    check_number(len(found))
    labels = [policy if len(documents) == 1 else f"{name}: {policy}" for name, _, policy in found]
    if len(set(labels)) < len(labels):  # files of the same name in different folders
        labels = [f"{number} {label}" for number, label in enumerate(labels, 1)]
    return [
        Run(label, f"c{number}", policy, document, document["policies"][policy], name if len(documents) > 1 else "")
        for number, (label, (name, document, policy)) in enumerate(zip(labels, found, strict=True))
    ]


def jct_ratios(runs: Sequence[Run]) -> list[Ratio | None]:
    """Against the first run; with an interval where both were shaken in the same ways. None for other jobs."""
    return [_ratio(run, runs[0]) if same_jobs([run, runs[0]]) else None for run in runs]


def _ratio(run: Run, base: Run) -> Ratio:
    own, other = run.summary.get("shakes"), base.summary.get("shakes")
    if own and other and all(own[key] == other[key] for key in ("seeds", "within_s")):
        interval: Interval | None = paired_ratio(own["metrics"]["jct_mean_s"], other["metrics"]["jct_mean_s"])
        if interval is not None:
            return Ratio(interval.mean, interval.low, interval.high, interval.n)
    mean = other_mean = float(base.summary["jct_s"]["mean"])
    mean = float(run.summary["jct_s"]["mean"])
    return Ratio(mean / other_mean if other_mean else 1.0, None, None, 1)


def same_jobs(runs: Sequence[Run]) -> bool:
    """Whether all the runs are of the same jobs: what is not can not be compared. Documents that do not say which jobs
    they are of are taken for the same if they are of one file and as many jobs."""
    keys = {run.document.get("jobs_key") for run in runs}
    if len({run.summary["jobs"] for run in runs}) > 1 or len(keys - {None}) > 1:
        return False
    return None not in keys or len({run.document["trace"] for run in runs}) == 1


def equal_by_chance(run: Run, other: Run, key: str) -> bool:
    """Whether the difference in mean ``key`` may be chance; False where the replays were not shaken.

    By the 95 % interval of the differences, replay by replay, where both were shaken in the same ways; by whether the
    ranges overlap where not.
    """
    shakes = [each.summary.get("shakes") or {} for each in (run, other)]
    own, others = (each.get("metrics", {}).get(f"{key[:-2]}_mean_s") for each in shakes)
    if not own or not others:
        return False
    if shakes[0]["seeds"] == shakes[1]["seeds"] and shakes[0]["within_s"] == shakes[1]["within_s"]:
        apart = Interval.of([a - b for a, b in zip(own, others, strict=True)])
        return apart.low is None or apart.high is None or apart.low <= 0 <= apart.high
    return bool(max(min(own), min(others)) <= min(max(own), max(others)))


def differences(runs: Sequence[Run]) -> list[str]:
    """What is not the same in all runs, so that comparing them may mean little; in words."""
    found = []
    if same_jobs(runs):
        pass
    elif len({run.document["trace"] for run in runs}) > 1:
        found.append("the runs are of different traces: " + ", ".join(sorted({run.document["trace"] for run in runs})))
    elif len({run.summary["jobs"] for run in runs}) > 1:
        found.append("the runs are of different numbers of jobs")
    else:
        found.append("the runs are of different jobs of one trace")
    if len({json.dumps(run.document["cluster"]) for run in runs}) > 1:
        found.append("the runs are on different clusters")
    return found


def with_delays(summaries: Sequence[Mapping[str, Any]]) -> bool:
    """Whether waiting until the first start tells too little, because jobs were evicted or lost their GPUs after it;
    then delay (completion less runtime) is what is to be compared, if all the summaries have it."""
    return all("delay_s" in each for each in summaries) and any(
        each.get("evictions") or each.get("failures") or each.get("faults") for each in summaries
    )
