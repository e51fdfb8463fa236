"""How soon a stall is told, and how often one that is none, on growing logs of runs that never ran.

Each log of a run that ends well is looked at just before the end of every silence that is longer than usual: a stall
told there is a false alarm. Each log of a run that stops dead is looked at again and again from its stop on. Times
left are compared with what really was left, at a share of each run's time, and on all shares for the intervals.

Example: python -m benchmarks.stalls --runs 64
"""

from __future__ import annotations

import argparse
from bisect import bisect_right
from collections.abc import Sequence
from datetime import timedelta
from itertools import pairwise
from statistics import median
from typing import NamedTuple

from analyzers.logs.progress import assess
from analyzers.logs.tracker import Tracker
from analyzers.types import Progress
from benchmarks.growing import START, Plan, Run, plans, write

#: Shares of the run's time at which the time left is asked for, and those at which only the interval is.
CUTS = (0.10, 0.25, 0.50, 0.75)
ALL_CUTS = tuple(share / 100 for share in range(5, 95, 5))
#: A look is worth while where nothing was written for so many times the usual gap.
_LONG = 1.3
#: In gaps: how far apart looks at a job that has stopped are, and how much later than wanted one still is in time.
_STEP, _SLACK = 0.05, 0.25
#: So many gaps tell the usual one at the end of a log.
_LATELY = 24
_SOON_GAPS, _SOON_S = 3.0, 60.0
_CLASSES = (
    "in training",
    "at a step where a pause is due",
    "in a pause",
    "in training, even gaps",
    "in training, uneven gaps or hiccups",
)


class Reader:
    """One growing log and what is made of it at any later time."""

    def __init__(self, run: Run) -> None:
        self.run = run
        self.tracker = Tracker()
        self.tracker.begin("train.log", None)
        self.read = 0

    def at(self, seconds: float) -> Progress:
        """What the log says when that much time has passed; times may only grow."""
        while self.read < len(self.run.lines) and self.run.lines[self.read].at <= seconds:
            self.read += 1
            self.tracker.line(self.read, self.run.lines[self.read - 1].text)
        self.tracker.now = START + timedelta(seconds=seconds)
        self.tracker.end()
        return assess(self.tracker)


def record_times(run: Run) -> list[float]:
    """When a record was written, in seconds since the start."""
    return sorted({line.at for line in run.lines if line.is_step})


def usual_gap(run: Run) -> float:
    """Seconds from record to record lately, at the end of the log."""
    times = record_times(run)[-_LATELY:]
    return median(b - a for a, b in pairwise(times))


def silences(run: Run) -> list[tuple[float, float]]:
    """From which record to which nothing of training was written for longer than usual."""
    times = record_times(run)
    usual = median(b - a for a, b in pairwise(times))
    return [(a, b) for a, b in pairwise([0.0, *times]) if b - a > _LONG * usual]


def false_alarms(run: Run) -> tuple[int, int, int]:
    """How many of the longer silences are told as a stall, how many of those are hiccups of the file system, and how
    many silences there are. The end of each is looked at, and every moment just before something is written in it."""
    reader, told, away, looked = Reader(run), 0, 0, silences(run)
    times = [line.at for line in run.lines]
    for begin, end in looked:
        within = list(times[bisect_right(times, begin) : bisect_right(times, end - 1e-9)])
        moments = [at - 0.01 for at in [*within, end] if at - 0.01 > begin]
        if any(reader.at(moment).anomaly == "stall" for moment in moments):
            told += 1
            away += any(begin <= at <= end for at in run.hiccups)
    return told, away, len(looked)


def delays(run: Run) -> tuple[float | None, float | None]:
    """Seconds from the last record until the job is said to be quiet, and until the stall is told; None where it is not
    within the log."""
    reader = Reader(run)
    last, usual = record_times(run)[-1], usual_gap(run)
    assert run.stopped is not None
    begin, looks, quiet = max(run.stopped, last), 0, None
    while (wait := begin + looks * _STEP * usual) < run.end:
        looks += 1
        found = reader.at(wait)
        if quiet is None and found.quiet is not None:
            quiet = wait - last
        if found.anomaly == "stall":
            return quiet, wait - last
    return quiet, None


def times_left(run: Run, shares: Sequence[float]) -> list[tuple[float, bool] | None]:
    """At each share of the run's time: the error as a share of what was left, and whether the interval held it."""
    reader, found = Reader(run), []
    for share in shares:
        now = reader.at(share * run.end)
        records = [line.at for line in run.lines[: reader.read] if line.is_step]
        left = run.end - records[-1] if records else 0.0
        if now.eta_seconds is None or now.eta_range is None or left <= 0:
            found.append(None)
        else:
            found.append((abs(now.eta_seconds - left) / left, now.eta_range[0] <= left <= now.eta_range[1]))
    return found


def is_uneven(plan: Plan) -> bool:
    """Whether single gaps are much longer than others for no reason that a log could tell."""
    return plan.hiccups > 0 or plan.tail > 0


def report_alarms(runs: int, seed: int) -> None:
    """The table of false alarms."""
    by_form: dict[str, list[tuple[int, int, int]]] = {}
    by_pace: dict[bool, list[tuple[int, int, int]]] = {False: [], True: []}
    for plan in plans(runs, seed, stopping=False):
        found = false_alarms(write(plan))
        by_form.setdefault(plan.form, []).append(found)
        by_pace[is_uneven(plan)].append(found)
    print(
        "| runs that do not stall | runs | longer silences | told as a stall | at hiccups | others | runs with others |"
    )
    print("|---|---|---|---|---|---|---|")
    of_all = [("all with even gaps", by_pace[False]), ("all with uneven gaps or hiccups", by_pace[True])]
    for form, some in [*sorted(by_form.items()), *of_all]:
        told, away, looked = (sum(one[at] for one in some) for at in range(3))
        bad = sum(told > away for told, away, _ in some)
        print(f"| {form} | {len(some)} | {looked:,} | {told} | {away} | {told - away} | {bad} |")


class Late(NamedTuple):
    """How late a stall was told after the last record, beside the usual gap and the usual length of what was due."""

    seconds: float
    gap: float
    due_s: float

    @property
    def is_soon(self) -> bool:
        """Within three gaps, or a minute, and a quarter of a gap, as the usual gap itself is known to within a few per
        cent."""
        return self.seconds <= max(_SOON_GAPS * self.gap, _SOON_S) + _SLACK * self.gap

    @property
    def is_after_pause(self) -> bool:
        """So soon after twice the time that the pause usually takes."""
        return self._replace(seconds=self.seconds - 2 * self.due_s).is_soon


def report_delays(runs: int, seed: int) -> None:
    """The table of how soon real stalls are told."""
    print(
        "\n| stops dead | runs | quiet within 3 gaps or 60 s | stall told | within 3 gaps or 60 s | median gaps | "
        "90 % within gaps | within twice the pause and 3 gaps |"
    )
    print("|---|---|---|---|---|---|---|---|")
    found: dict[str, list[Late | None]] = {name: [] for name in _CLASSES}
    first = dict.fromkeys(_CLASSES, 0)
    for plan in plans(runs, seed + 1, stopping=True):
        run = write(plan)
        if run.stopped is None:
            continue
        quiet, late = delays(run)
        names = [_CLASSES[("training", "due", "pause").index(plan.stop)]]
        names += [_CLASSES[3 + is_uneven(plan)]] if plan.stop == "training" else []
        for name in names:
            found[name].append(None if late is None else Late(late, usual_gap(run), run.due_s))
            first[name] += quiet is not None and Late(quiet, usual_gap(run), 0.0).is_soon
    for name, some in found.items():
        told = [one for one in some if one is not None]
        if not told:
            continue
        ratios = sorted(one.seconds / one.gap for one in told)
        soon, after = (
            sum(some) / len(found[name]) for some in ([x.is_soon for x in told], [x.is_after_pause for x in told])
        )
        print(
            f"| {name} | {len(some)} | {first[name] / len(some):.0%} | {len(told)} | {soon:.0%} | "
            f"{median(ratios):.1f} | {ratios[int(0.9 * (len(ratios) - 1))]:.1f} | {after:.0%} |"
        )


def report_times_left(runs: int, seed: int) -> None:
    """The tables of the times left."""
    found = [times_left(write(plan), ALL_CUTS) for plan in plans(runs, seed + 2, stopping=False)]
    at_cuts = [times_left(write(plan), CUTS) for plan in plans(runs, seed + 2, stopping=False)]
    print("\n| share of the run's time | runs | told | median error | 90 % within | interval held |")
    print("|---|---|---|---|---|---|")
    for index, share in enumerate(CUTS):
        told = [one for run in at_cuts if (one := run[index]) is not None]
        errors = sorted(error for error, _ in told)
        held = sum(holds for _, holds in told)
        print(
            f"| {share:.0%} | {len(at_cuts)} | {len(told)} | {median(errors):.1%} | "
            f"{errors[int(0.9 * (len(errors) - 1))]:.0%} | {held / len(told):.0%} |"
        )
    everywhere = [one for run in found for one in run if one is not None]
    held = sum(holds for _, holds in everywhere)
    share = held / len(everywhere)
    print(f"\nOver {len(ALL_CUTS)} shares from 5 to 90 %: the interval held {held} of {len(everywhere)} ({share:.0%}).")


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=128, help="runs of each kind (default 128)")
    parser.add_argument("--seed", type=int, default=1)
    asked = parser.parse_args()
    report_alarms(asked.runs, asked.seed)
    report_delays(asked.runs, asked.seed)
    report_times_left(asked.runs, asked.seed)


if __name__ == "__main__":
    main()
