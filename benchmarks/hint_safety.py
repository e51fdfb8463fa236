"""What wrong hints cost, and who pays for it, with the gate and without.

Run: python -m benchmarks.hint_safety --data FOLDER [--only TRACE] [--shakes 3] [--jobs N] [--out FILE]
     [--svg FILE] [--write FILE]

FOLDER holds the public traces of benchmarks/results.yaml. Every replay is of the core (``--policy``), told of each job
one of: nothing (what is requested, where the trace has it), the truth, the truth with log-normal noise, the same of
all jobs, a minute of all jobs, what misleads, the opposite of the truth; and the truth but for one tenant, which says a
minute of all its jobs. Without the gate hints are believed; with it as far as they have proved to be worth it. Hints
are the word of users where the trace has them, else of tenants; eight tenants are drawn by the seed, for each user
where there are users, else for each job.

The gate is to have seen 500 ended jobs, so what counts are the jobs submitted after that many have ended without hints.

  JCT        mean JCT of these jobs, as a multiple of that without hints
  tenant     where one lies: mean queueing of the honest tenant that fares worst, and of all honest ones together, as a
             multiple of that where all tell the truth
  starts     guaranteed starts that were told, of jobs that have hard limits, and how many were late

Figures are means over shakes (submissions moved by up to 30 s, other tenants, liars and noise each time) with half of
their 95 % confidence interval; a ratio is taken shake by shake. ``--out`` keeps what was measured, a line a replay, and
what is there already is not measured again. With fewer ``--jobs`` the first ones of each trace are taken.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any
from zlib import crc32

import numpy as np
from numpy.typing import NDArray

from analyzers.types import JobRecord
from benchmarks.hint_safety_picture import svg
from benchmarks.results import put_between
from prompts.errors import UserError
from schedmate.knowledge import estimates_named
from schedmate.scheduler import ClusterSpec, Policy, Scheduler
from schedmate.scheduler.policies import GATED
from schedmate.scheduler.promises import is_told
from schedmate.simulator import policy_named
from schedmate.simulator.conditions import Conditions
from schedmate.simulator.intervals import Interval, paired_ratio
from schedmate.simulator.of_tenants import OfOwners
from schedmate.simulator.replay import replay
from schedmate.simulator.run_log import RunLog
from schedmate.simulator.shake import shaken
from schedmate.simulator.wrong_hints import TENANTS, Owners, liar_among
from schedmate.sweep.cells import cluster_of, read_records
from schedmate.sweep.spec import read_spec

SPEC = Path(__file__).with_name("results.yaml")
TRACES = ("philly_oct_w1", "itp_c04", "kth_sp2")
NOTHING, TRUTH, ONE_LIES = "requested", "perfect", "one-lies"

#: From perfect to hostile.
KINDS = (
    TRUTH, "noisy:0.5", "noisy:1", "noisy:2", ONE_LIES, "constant", "one-minute", "hostile", "reversed",
)  # fmt: skip
WORDS = {
    TRUTH: "perfect",
    "noisy:0.5": "noisy, sigma 0.5",
    "noisy:1": "noisy, sigma 1",
    "noisy:2": "noisy, sigma 2",
    ONE_LIES: "one tenant lies",
    "constant": "an hour of all",
    "one-minute": "a minute of all",
    "hostile": "hostile",
    "reversed": "reversed",
}

#: Where the table stands in a document.
MARKS = ("<!-- wrong hints: python -m benchmarks.hint_safety -->", "<!-- end of wrong hints -->")

#: What counts begins when so many jobs have ended.
SEEN = 500

#: Rounding of times that are sums.
_ROUNDING_S = 1e-6


class Watched(Scheduler):
    """Remembers the guaranteed starts that it told, and which came later."""

    def __init__(self, spec: ClusterSpec, policy: Policy) -> None:
        super().__init__(spec, policy)
        self._told_s: dict[str, float] = {}
        self.kept = self.late = 0

    def cycle(self, now: float) -> list[int]:
        """As ever."""
        started, state = super().cycle(now), self.state
        for slot in started:
            told_s = self._told_s.pop(state.table.present(slot).job_id, None)
            if told_s is not None:
                self.kept += now <= told_s + _ROUNDING_S
                self.late += now > told_s + _ROUNDING_S
        for plans in state.reservations.values():
            for plan in plans:
                if plan.guaranteed and (state.layer is None or is_told(state, plan)):
                    self._told_s.setdefault(state.table.present(plan.slot).job_id, plan.start_s)
        return started


@dataclass(frozen=True)
class Played:
    """Of each job, in the order of submission: its id, submission, start and end, in seconds."""

    ids: Sequence[str]
    submit_s: NDArray[np.float64]
    start_s: NDArray[np.float64]
    end_s: NDArray[np.float64]
    starts: int
    late: int


def play(records: Sequence[JobRecord], spec: ClusterSpec, policy: Policy, estimates: str, seed: int) -> Played:
    """One replay."""
    known, log = estimates_named(estimates, records, seed), RunLog()
    scheduler = Watched(spec, policy)
    replay(records, scheduler, OfOwners(Conditions().known(known, policy)), log)
    log.close()
    _, submit_s, start_s, end_s, *_ = log.job_columns()
    return Played(log.ids, submit_s, start_s, end_s, scheduler.kept + scheduler.late, scheduler.late)


def with_tenants(records: Sequence[JobRecord], seed: int) -> list[JobRecord]:
    """The jobs, each of one of eight tenants: that of its user where there is one."""
    return [
        replace(record, tenant=f"tenant-{crc32(f'{seed} {record.user or record.job_id}'.encode()) % TENANTS + 1}")
        for record in records
    ]


def rows_of(
    name: str, records: Sequence[JobRecord], spec: ClusterSpec, policy: str, seed: int, done: set[Any]
) -> Iterator[dict[str, Any]]:
    """What is measured with one shake: a row a replay, those that are there already left out."""
    wanted = [(kind, gated) for kind in KINDS for gated in (False, True)]
    if done.issuperset((name, policy, seed, kind, gated) for kind, gated in wanted):
        return
    jobs = with_tenants(shaken(records, seed), seed)
    tenant = {job.job_id: job.tenant or "" for job in jobs}
    liar = liar_among(jobs, Owners(seed), seed)
    without = play(jobs, spec, policy_named(policy), NOTHING, seed)
    since_s = float(np.sort(without.end_s)[min(SEEN, len(without.end_s)) - 1])
    if not (without.submit_s > since_s).any():
        raise UserError(f"{name}: no job is submitted after {SEEN} have ended", "give more --jobs")
    base_s = _jct_s(without, since_s)
    honest: dict[bool, dict[str, float]] = {}
    for kind, gated in wanted:
        if (name, policy, seed, kind, gated) in done and kind not in (TRUTH, ONE_LIES):
            continue
        found = play(jobs, spec, policy_named(policy + GATED * gated), kind, seed)
        row: dict[str, Any] = {"trace": name, "policy": policy, "seed": seed, "kind": kind, "gated": gated}
        row |= {"jobs": int((found.submit_s > since_s).sum()), "without_s": base_s, "jct_s": _jct_s(found, since_s)}
        row |= {"starts": found.starts, "late": found.late}
        if kind == TRUTH:
            honest[gated] = _queueing_s(found, since_s, tenant, liar)
        if kind == ONE_LIES:
            row["queueing_s"], row["honest_s"] = _queueing_s(found, since_s, tenant, liar), honest[gated]
        yield row


def _jct_s(found: Played, since_s: float) -> float:
    late = found.submit_s > since_s
    return float((found.end_s - found.submit_s)[late].mean())


def _queueing_s(found: Played, since_s: float, tenant: Mapping[str, str], liar: str) -> dict[str, float]:
    """Mean queueing of each honest tenant, and of all of them together by the name ``""``."""
    late = found.submit_s > since_s
    waits_s = (found.start_s - found.submit_s)[late]
    owners = np.array([tenant[each] for each in found.ids])[late]
    means = {"": float(waits_s[owners != liar].mean())}
    return means | {name: float(waits_s[owners == name].mean()) for name in sorted({*owners.tolist()} - {liar})}


def _told(interval: Interval | None) -> str:
    if interval is None:
        return "n/a"
    if interval.low is None or interval.high is None:
        return f"{interval.mean:.3f}"
    return f"{interval.mean:.3f} ±{(interval.high - interval.low) / 2:.3f}"


def jct_ratio(rows: Sequence[Mapping[str, Any]]) -> Interval | None:
    """Mean JCT by that without hints, over shakes."""
    return paired_ratio([row["jct_s"] for row in rows], [row["without_s"] for row in rows])


def tenant_ratios(rows: Sequence[Mapping[str, Any]]) -> tuple[Interval | None, Interval | None]:
    """Where one lies, the mean queueing of the honest tenant that fares worst (in each shake another one), and of all
    honest ones together, by that where all tell the truth."""
    worst = [max(row["queueing_s"][t] / row["honest_s"][t] for t in row["queueing_s"] if t) for row in rows]
    together = [row["queueing_s"][""] / row["honest_s"][""] for row in rows]
    return (Interval.of(worst), Interval.of(together)) if rows else (None, None)


def table(rows: Sequence[Mapping[str, Any]]) -> str:
    """Markdown."""
    head = ["trace", "hints", "gate", "JCT", "worst honest tenant", "all honest tenants", "starts", "late"]
    lines = [head, ["---"] * len(head)]
    for name in dict.fromkeys(row["trace"] for row in rows):
        for kind in KINDS:
            for gated in (False, True):
                own = [row for row in rows if (row["trace"], row["kind"], row["gated"]) == (name, kind, gated)]
                if not own:
                    continue
                tenants = map(_told, tenant_ratios(own)) if kind == ONE_LIES else ("", "")
                starts = f"{sum(row['starts'] for row in own):,}"
                late = str(sum(row["late"] for row in own))
                lines.append(
                    [name, WORDS[kind], "yes" if gated else "no", _told(jct_ratio(own)), *tenants, starts, late]
                )
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines)


def read_rows(path: Path | None) -> list[dict[str, Any]]:
    """What was measured before."""
    if path is None or not path.exists():
        return []
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def main() -> int:
    """Measure what is missing and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True, help="folder of the traces")
    parser.add_argument("--only", action="append", choices=TRACES, help="a trace; repeat for more")
    parser.add_argument("--policy", default="core")
    parser.add_argument("--shakes", type=int, default=3)
    parser.add_argument("--jobs", type=int, help="so many of each trace")
    parser.add_argument("--out", type=Path, help="file of what was measured")
    parser.add_argument("--svg", type=Path, help="file for the picture")
    parser.add_argument("--write", type=Path, help="document with the marks of the table")
    wanted = parser.parse_args()
    rows = [row for row in read_rows(wanted.out) if row["policy"] == wanted.policy]
    try:
        policy_named(wanted.policy + GATED)
        for workload in read_spec(SPEC, wanted.data).workloads:
            if workload.name not in (wanted.only or TRACES):
                continue
            records = read_records(workload)[: wanted.jobs]
            spec, _ = cluster_of(workload)
            for seed in range(1, 1 + wanted.shakes):
                done = {tuple(row[key] for key in ("trace", "policy", "seed", "kind", "gated")) for row in rows}
                for row in rows_of(workload.name, records, spec, wanted.policy, seed, done):
                    if (row["trace"], row["policy"], row["seed"], row["kind"], row["gated"]) not in done:
                        rows.append(row)
                        if wanted.out is not None:
                            with wanted.out.open("a", encoding="utf-8") as out:
                                out.write(json.dumps(row) + "\n")
                    print(f"{workload.name}, shake {seed}: {row['kind']}", file=sys.stderr)
        if wanted.write is not None:
            written = put_between(wanted.write.read_text(encoding="utf-8"), table(rows) + "\n", MARKS)
            wanted.write.write_text(written, encoding="utf-8")
    except UserError as error:
        print(error, file=sys.stderr)
        return 2
    print(table(rows))
    if wanted.svg is not None:
        wanted.svg.write_text(svg(curves(rows), [WORDS[kind] for kind in KINDS]), encoding="utf-8")
    return 0


def curves(rows: Sequence[Mapping[str, Any]]) -> dict[tuple[str, bool], list[float]]:
    """By trace and gate the JCT ratio of each kind, from perfect to hostile."""
    found = {}
    for name in dict.fromkeys(row["trace"] for row in rows):
        for gated in (False, True):
            own = [[r for r in rows if (r["trace"], r["kind"], r["gated"]) == (name, kind, gated)] for kind in KINDS]
            ratios = [jct_ratio(each) for each in own]
            if all(ratio is not None for ratio in ratios):
                found[name, gated] = [ratio.mean for ratio in ratios if ratio is not None]
    return found


if __name__ == "__main__":
    raise SystemExit(main())
