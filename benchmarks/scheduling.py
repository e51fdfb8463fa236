"""What predicted runtimes are worth to a scheduler: mean bounded slowdown on KTH SP2, every variant in one run.

Run: python -m benchmarks.scheduling --data DIR [--jobs N] [--shakes 10] [--only WORDS]

DIR holds kth_sp2.swf.gz (Parallel Workloads Archive; acknowledge Lars Malinowsky), replayed on one pool of 100
processors. Jobs are ended at their requested times. Predictions are made when a job is submitted to the replay, from
jobs that have ended in it by then. With --shakes every variant is replayed so many times more, with each submission
moved by up to 30 s; ± is twice the standard error of their mean.
"""

from __future__ import annotations

import argparse
import sys
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from analyzers.types import JobRecord
from predictors import OnlineDurationPredictor
from prompts.errors import UserError
from schedmate.scheduler import POLICIES, ClusterSpec, Job, Policy
from schedmate.scheduler.assumptions import doubled, stated
from schedmate.simulator import Estimates, Perfect, Predicted, Requested, shaken, simulate
from schedmate.simulator.headline import headline
from schedmate.traces import open_trace

TRACE, PROCESSORS = "kth_sp2.swf.gz", 100
#: What is said of a job without request and without past, in seconds.
_NOTHING_KNOWN_S = 700.0
SJBF = POLICIES["easy-predicted-sjbf"]


@dataclass(frozen=True)
class Point:
    """A prediction without an interval, in seconds."""

    p50: float

    @property
    def p90(self) -> float:
        """The same."""
        return self.p50


class LastTwo:
    """The mean of the user's last two runtimes, never above the request, which stands in where there are none.

    Tsafrir, Etsion and Feitelson, IEEE TPDS 2007.
    """

    def __init__(self) -> None:
        self._ran_s: dict[str | None, list[float]] = defaultdict(list)

    def quantiles(self, record: JobRecord) -> Point:
        """Of a job that is submitted."""
        seen, asked_s = self._ran_s[record.user], record.requested_s
        said_s = sum(seen) / len(seen) if seen else asked_s or _NOTHING_KNOWN_S
        return Point(min(said_s, asked_s) if asked_s else said_s)

    def observe(self, record: JobRecord) -> None:
        """It has ended."""
        self._ran_s[record.user] = [*self._ran_s[record.user][-1:], record.duration_s or 0.0]


class PerfectOrder(Perfect):
    """The true runtime as a hint, by which an order may go; the estimate is the requested time."""

    name = "perfect order"

    def job(self, record: JobRecord) -> Job:
        """As for `Perfect`, but for the estimate."""
        return replace(super().job(record), estimate_s=record.requested_s)


@dataclass(frozen=True)
class Variant:
    """A row: a policy and what it knows. ``sees``: it is told true runtimes, as nobody is."""

    policy: Policy
    estimates: Callable[[], Estimates]
    sees: bool = False


def variants() -> Mapping[str, Variant]:
    """Every row by name; the first is what others are compared with."""
    easy, kant, core = (POLICIES[name] for name in ("easy", "kant", "core"))
    by_request = replace(SJBF, name="sjbf-by-request", assume=stated)

    def experts() -> Estimates:
        return Predicted(OnlineDurationPredictor())

    return {
        "EASY, requested times": Variant(easy, Requested),
        "EASY, perfect times, arrival order": Variant(easy, Perfect, sees=True),
        "EASY, predictions, arrival order": Variant(easy, experts),
        "shortest first, requested times": Variant(SJBF, Requested),
        "shortest first, last two": Variant(SJBF, lambda: Predicted(LastTwo())),
        "shortest first, perfect times": Variant(SJBF, Perfect, sees=True),
        "perfect order, admitted by requested times": Variant(by_request, PerfectOrder, sees=True),
        "easy-predicted-sjbf, predictions": Variant(SJBF, experts),
        "easy-predicted-sjbf, predictions, outlived ones doubled": Variant(replace(SJBF, correct=doubled), experts),
        "kant, requested times": Variant(kant, Requested),
        "kant, predictions": Variant(kant, experts),
        "core, requested times": Variant(core, Requested),
        "core, predictions": Variant(core, experts),
        "core, predictions, outlived ones doubled": Variant(replace(core, correct=doubled), experts),
    }


def measured(records: Sequence[JobRecord], variant: Variant) -> dict[str, float]:
    """The headline numbers of one replay."""
    return headline(simulate(records, ClusterSpec.uniform(1, PROCESSORS), variant.policy, variant.estimates()))


def row(name: str, found: Mapping[str, float], base: float, shaken_slowdowns: Sequence[float]) -> str:
    """One line of the table; ``base`` is the slowdown of the first row."""
    slowdown = found["bounded_slowdown_mean"]
    cells = [name, f"{slowdown:.1f}", f"{100 * (1 - slowdown / base):.0f} %"]
    if shaken_slowdowns:
        values = np.array(shaken_slowdowns)
        error = 2 * values.std(ddof=min(1, len(values) - 1)) / np.sqrt(len(values))
        cells.append(f"{values.mean():.1f} ±{error:.1f}")
    for key in ("queueing_mean_s", "queueing_p99_s", "queueing_max_s"):
        cells.append(f"{found[key]:,.0f}")
    return "| " + " | ".join(cells) + " |"


def tell(records: Sequence[JobRecord], shakes: int, only: str) -> None:
    """Print the table."""
    heads = ["variant", "mean bounded slowdown", "below EASY"]
    heads += [f"mean of {shakes} shaken"] if shakes else []
    heads += ["mean queueing s", "p99 s", "longest s"]
    print("| " + " | ".join(heads) + " |", "|" + "---|" * len(heads), sep="\n")
    moved = [shaken(records, seed) for seed in range(1, shakes + 1)]
    base = 0.0
    for name, variant in variants().items():
        if base and only not in name:
            continue
        found = measured(records, variant)
        base = base or found["bounded_slowdown_mean"]
        others = [measured(each, variant)["bounded_slowdown_mean"] for each in moved]
        print(row(name, found, base, others), flush=True)


def main() -> None:
    """Read the arguments, print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True, help=f"the folder of {TRACE}")
    parser.add_argument("--jobs", type=int, help="only the first N jobs")
    parser.add_argument("--shakes", type=int, default=0, help="so many replays more of each variant")
    parser.add_argument("--only", default="", help="only variants whose name holds this, beside the first")
    wanted = parser.parse_args()
    try:
        stream, _ = open_trace(wanted.data / TRACE)
        records = sorted(stream, key=lambda record: record.submit_s)[: wanted.jobs]
    except UserError as error:
        sys.exit(str(error))
    print(f"{TRACE}: {len(records):,} jobs, one pool of {PROCESSORS} processors\n")
    tell(records, max(0, wanted.shakes), wanted.only)


if __name__ == "__main__":
    main()
