"""How soon bad nodes are named on a simulated month, and how many good ones with them.

    python -m benchmarks.lemons [--seeds 20] [--first 0] [--look-every 1] [--only TEXT]

A hundred nodes of which two are bad, jobs of 1 to 16 nodes in a month, 5 % of which fail for reasons of their own. Most
of those reasons are found in the log (code, data, limits); of the rest nobody knows the cause. From some day of the
first half of the month on a bad node ends a share of the jobs that run on it, until it is named; in some of those the
kernel's log says so, in some the job's own log tells of broken hardware, on which node or not, in the others nothing
does. Where a job's log tells, a share of the other failures is such hardware trouble as well, once, on a good node. One
more user's code fails most times, everywhere, and its log does not say why; in some settings another one prints lines
of broken hardware on purpose, on one good node or wherever it runs. Everything here is synthetic. The ranking is asked
after each failure that may be a node's, so a name counts as false even if it is taken back later.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from statistics import median
from typing import Any, Literal

import numpy as np

from analyzers.failures.past.lemons import rank_starts
from analyzers.failures.past.starts import starts_of
from analyzers.types import FailureRecord

NODES, USERS, JOBS, LEMONS = 100, 40, 2500, 2
BACKGROUND = 0.05
SIZES, SIZE_SHARES = (1, 2, 4, 8, 16), (0.5, 0.2, 0.15, 0.1, 0.05)
MONTH_S = 30 * 86_400.0
CRASHER_FAILS = 0.7
CRASHER_SHARE = 0.02
FORGED_JOBS = 50
STRIKES = 3


@dataclass(frozen=True, slots=True)
class Setting:
    """``ends``: share of its jobs that a bad node ends; ``told``: share of those in which the platform says so,
    ``by_log``: in which only the job's log does, and ``names`` the node in a share of these; ``open``: share of the
    other failures whose cause nobody knows, ``hardware``: that are a good node's hardware, told as a bad node's are.
    ``forger``: where one more user prints lines of broken hardware: nowhere, on one good node, or everywhere."""

    name: str
    ends: float
    told: float
    open: float = 0.3
    sizes: tuple[float, ...] = SIZE_SHARES
    by_log: float = 0.0
    names: float = 1.0
    hardware: float = 0.0
    forger: Literal["", "one node", "everywhere"] = ""


BOTH = Setting("ends 80 %, kernel or job's log tell nine of ten", 0.8, 0.45, by_log=0.45, hardware=0.05)
SETTINGS = (
    Setting("ends 80 %, kernel log tells nine of ten", 0.8, 0.9),
    Setting("ends 80 %, kernel log tells half", 0.8, 0.5),
    Setting("ends 50 %, kernel log tells half", 0.5, 0.5),
    Setting("ends 30 %, kernel log tells half", 0.3, 0.5),
    Setting("ends 80 %, nothing tells", 0.8, 0.0),
    Setting("ends 50 %, nothing tells", 0.5, 0.0),
    Setting("ends 50 %, half told, no background cause known", 0.5, 0.5, open=1.0),
    Setting("ends 80 %, nothing tells, jobs of 8 and 16 nodes", 0.8, 0.0, sizes=(0.0, 0.0, 0.0, 0.5, 0.5)),
    Setting("no bad node", 0.0, 0.0),
    BOTH,
    replace(BOTH, name="the same, the job's log names the node in half", names=0.5),
    replace(BOTH, name="the same, the job's log never names the node", names=0.0),
    replace(BOTH, name="the same, one background failure in ten is hardware", hardware=0.1),
    replace(BOTH, name="the same, a forger on one good node", forger="one node"),
    replace(BOTH, name="the same, a forger wherever it runs", forger="everywhere"),
    Setting("ends 50 %, kernel or job's log tell half", 0.5, 0.25, by_log=0.25, hardware=0.05),
    Setting("ends 80 %, only the job's log tells nine of ten", 0.8, 0.0, by_log=0.9, hardware=0.05),
    Setting("the same, never naming the node", 0.8, 0.0, by_log=0.9, names=0.0, hardware=0.05),
    Setting("no bad node, kernel and jobs' logs tell, forger", 0.0, 0.5, by_log=0.5, hardware=0.1, forger="one node"),
    Setting("no bad node, only jobs' logs tell, forger", 0.0, 0.0, by_log=0.9, hardware=0.1, forger="one node"),
)


def month(setting: Setting, seed: int) -> tuple[list[FailureRecord], list[set[str]], tuple[str, ...]]:
    """A month's ends of jobs in order of time, for each the bad nodes that ended it, and all bad nodes."""
    rng = np.random.default_rng([seed, 7])
    lemons = tuple(f"n{node:03d}" for node in rng.choice(NODES, LEMONS, replace=False)) if setting.ends else ()
    popular = rng.dirichlet(np.full(USERS, 0.5)) * (1 - CRASHER_SHARE)
    who = np.append(popular, CRASHER_SHARE)
    bad_from = dict(zip(lemons, rng.uniform(0, MONTH_S / 2, LEMONS), strict=False))
    records, ended_by = [], []
    for job, at_s in enumerate(np.sort(rng.uniform(0, MONTH_S, JOBS))):
        user = int(rng.choice(USERS + 1, p=who))
        size = int(rng.choice(SIZES, p=setting.sizes))
        nodes = tuple(f"n{node:03d}" for node in rng.choice(NODES, size, replace=False))
        bad = [node for node in nodes if at_s >= bad_from.get(node, MONTH_S) and rng.random() < setting.ends]
        end = _end(rng, user, nodes, bad, setting)
        records.append(
            FailureRecord(
                f"j{job}", float(at_s), user=f"u{user}", work=f"w{rng.integers(4)}", nodes=nodes, nodes_told=True, **end
            )
        )
        ended_by.append(set(bad))
    if setting.forger:
        records, ended_by = _with_forger(records, ended_by, lemons, setting, seed)
    return records, ended_by, lemons


def _end(
    rng: np.random.Generator, user: int, nodes: tuple[str, ...], bad: list[str], setting: Setting
) -> dict[str, Any]:
    """How a job ends: category, and who is told to be at fault by whom."""
    if bad:
        return _hardware(rng, bad[0], setting.told, setting)
    if rng.random() < (CRASHER_FAILS if user == USERS else BACKGROUND):
        if user == USERS:
            return {"category": "unknown"}
        cause = rng.random()
        if setting.open <= cause < setting.open + setting.hardware:
            node = nodes[int(rng.integers(len(nodes)))]
            return _hardware(rng, node, setting.told / (setting.told + setting.by_log), setting)
        return {"category": "unknown" if cause < setting.open else "user-code"}
    return {"category": "none"}


def _hardware(rng: np.random.Generator, node: str, told: float, setting: Setting) -> dict[str, Any]:
    """A failure that is this node's fault: ``told`` by the platform, by the job's own log, or by nobody."""
    who = rng.random()
    if who < told:
        return {"category": "infrastructure-hardware", "culprits": (node,), "node_fault": True}
    if who >= told + setting.by_log:
        return {"category": "unknown"}
    named = (node,) if setting.names == 1 or rng.random() < setting.names else ()
    return {"category": "infrastructure-hardware", "accused": named, "node_fault": True}


def _with_forger(
    records: list[FailureRecord], ended_by: list[set[str]], lemons: tuple[str, ...], setting: Setting, seed: int
) -> tuple[list[FailureRecord], list[set[str]]]:
    """The month with jobs of one more user, each on one node, whose output says that this node's hardware is broken."""
    rng = np.random.default_rng([seed, 11])
    good = [node for number in range(NODES) if (node := f"n{number:03d}") not in lemons]
    target = good[int(rng.integers(len(good)))]
    forged = []
    for job, at_s in enumerate(rng.uniform(0, MONTH_S, FORGED_JOBS)):
        node = target if setting.forger == "one node" else good[int(rng.integers(len(good)))]
        forged.append(
            FailureRecord(
                f"f{job}", float(at_s), "infrastructure-hardware", user="forger", work=f"w{job}", nodes=(node,),
                nodes_told=True, node_fault=True, accused=(node,),
            )
        )  # fmt: skip
    both = sorted([*zip(records, ended_by, strict=True), *((each, set()) for each in forged)], key=lambda e: e[0].at_s)
    return [record for record, _ in both], [bad for _, bad in both]


@dataclass(slots=True)
class Outcome:
    """One month: failures of each bad node until it was named (None: not in this month), good nodes that were named,
    and good nodes that a rule of three strikes would have named."""

    until: dict[str, int | None] = field(default_factory=dict)
    false: set[str] = field(default_factory=set)
    struck: set[str] = field(default_factory=set)


def play(setting: Setting, seed: int, look_every: int = 1) -> Outcome:
    """Ask for the ranking after each (or each so many-th) failure that may be a node's, and after each of a bad one."""
    records, ended_by, lemons = month(setting, seed)
    outcome = Outcome(until=dict.fromkeys(lemons))
    strikes: dict[str, int] = {}
    failed = dict.fromkeys(lemons, 0)
    out_s: dict[str, float] = {}
    looks = 0
    starts = starts_of(records)
    for record, bad in zip(records, ended_by, strict=True):
        if _is_avoided(record, bad, out_s):
            continue
        if record.category in ("none", "user-code"):
            continue
        for node in bad:
            failed[node] += 1
        for node in record.nodes:
            strikes[node] = strikes.get(node, 0) + 1
        looks += 1
        if not bad and looks % look_every:
            continue
        so_far = int(np.searchsorted(starts.at_s, record.at_s, side="right"))
        for standing in rank_starts(starts.first(so_far), nodes_total=NODES):
            if not standing.named:
                break
            if standing.node not in lemons:
                outcome.false.add(standing.node)
            elif outcome.until[standing.node] is None:
                outcome.until[standing.node] = failed[standing.node]
                out_s[standing.node] = record.at_s
                month_left = zip(records, ended_by, strict=True)
                starts = starts_of(each for each, by in month_left if not _is_avoided(each, by, out_s))
    outcome.struck = {node for node, count in strikes.items() if count >= STRIKES and node not in lemons}
    return outcome


def _is_avoided(record: FailureRecord, bad: set[str], out_s: dict[str, float]) -> bool:
    """Whether all nodes that end the job are out of service by then: it uses others."""
    return bool(bad) and all(record.at_s > out_s.get(node, MONTH_S) for node in bad)


def rows(seeds: range, look_every: int, only: str = "") -> Iterator[tuple[Setting, list[Outcome], float]]:
    """The outcomes of each setting with the CPU seconds that they took."""
    for setting in (each for each in SETTINGS if only in each.name):
        begin = time.process_time()
        outcomes = [play(setting, seed, look_every) for seed in seeds]
        yield setting, outcomes, time.process_time() - begin


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--look-every", type=int, default=1)
    parser.add_argument("--only", default="", help="settings with this in their name")
    given = parser.parse_args()
    seeds = range(given.first, given.first + given.seeds)
    print(
        f"{NODES} nodes, {LEMONS} bad, {JOBS} jobs a month, {BACKGROUND:.0%} fail by themselves; {given.seeds} months\n"
    )
    print(f"{'setting':<50} {'named':>9} {'within 3':>9} {'median':>7} {'most':>5} {'false':>6} {'3 strikes':>10}")
    for setting, outcomes, seconds in rows(seeds, given.look_every, given.only):
        until = [count for outcome in outcomes for count in outcome.until.values()]
        named = [count for count in until if count is not None]
        soon = sum(count <= STRIKES for count in named)
        false = sum(len(outcome.false) for outcome in outcomes)
        struck = sum(len(outcome.struck) for outcome in outcomes)
        print(
            f"{setting.name:<50} {f'{len(named)}/{len(until)}':>9} {f'{soon}/{len(until)}':>9} "
            f"{median(named) if named else '-':>7} {max(named, default='-'):>5} {false:>6} {struck:>10}"
        )
        print(f"  {seconds:.0f} s of CPU", file=sys.stderr)
    print("\nnamed: bad nodes named by the end of the month; within 3, median, most: failures of a bad node until then")
    print("false: good nodes ever named; 3 strikes: good nodes that had three failed jobs of unknown cause")


if __name__ == "__main__":
    main()
