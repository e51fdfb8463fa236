"""Why a job waits, when it will start, and what would start it sooner: each of it tried before it is said."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from schedmate.scheduler.actions.reserve import earliest_start
from schedmate.scheduler.demand import Demand
from schedmate.scheduler.expected_ends import ExpectedEnds
from schedmate.scheduler.pool_index import PoolIndex
from schedmate.scheduler.topology import LEVELS
from schedmate.scheduler.transaction import asked_milli, milli_of
from schedmate.scheduler.trial import Trial
from schedmate.scheduler.types import Job
from schedmate.scheduler.what_if import Given, least, smaller, try_cycle

if TYPE_CHECKING:
    from schedmate.scheduler.scheduler import Scheduler

#: So many times others are taken out of the way before it is given up to say who is.
MOST_ROUNDS = 32

#: After so many times everybody who is before the job in the queue is.
LONG_QUEUE = 3

#: Of so many named ones each is tried without.
MOST_PRUNED = 24


@dataclass(frozen=True, slots=True)
class Blocker:
    """One thing that keeps a job from starting: were it gone, and nothing else changed, the job would start now.

    ``kind``: ``jobs`` (``running`` ones that have to end and ``waiting`` ones that go first), ``quota`` of ``tenant``,
    or ``health`` of ``nodes`` ("pool/number").
    """

    kind: str
    running: tuple[str, ...] = ()
    waiting: tuple[str, ...] = ()
    tenant: str = ""
    nodes: tuple[str, ...] = ()

    def words(self) -> str:
        """For people."""
        if self.kind == "quota":
            return f"the quota of tenant {self.tenant}"
        if self.kind == "health":
            return f"nodes that take no work: {_some(self.nodes)}"
        parts = [f"running {_some(self.running)}"] * bool(self.running)
        parts += [f"{_some(self.waiting)} before it in the queue"] * bool(self.waiting)
        return " and ".join(parts)


@dataclass(frozen=True, slots=True)
class Sooner:
    """A change with which the job would start now. ``kind``: ``smaller``, ``type``, ``level``, ``limit`` or ``quota``;
    ``job`` is the changed one, None where the change is not one of the job."""

    kind: str
    words: str
    job: Job | None = None


@dataclass(frozen=True, slots=True)
class Explanation:
    """About one job as of ``at_s``. ``verdict`` and ``reason`` are those of its `Decision`; ``ahead`` counts those that
    wait before it. ``expected_start_s`` lies between ``earliest_s`` and ``latest_s``; all None where it has no plan,
    and ``guaranteed_start_s`` where hard limits do not tell. ``hints``: how those about it are used, under gated
    policies."""

    job_id: str
    at_s: float
    verdict: str
    reason: str
    ahead: int = 0
    blockers: tuple[Blocker, ...] = ()
    expected_start_s: float | None = None
    earliest_s: float | None = None
    latest_s: float | None = None
    guaranteed_start_s: float | None = None
    sooner: tuple[Sooner, ...] = ()
    hints: str = ""

    def words(self) -> str:
        """One or two lines that an operator understands."""
        if self.verdict == "started":
            return f"{self.job_id} runs: {self.reason}"
        line = f"{self.job_id} waits: {self.reason}"
        if self.blockers:
            line += f"; would start now but for {', or but for '.join(each.words() for each in self.blockers)}"
        if self.expected_start_s is None and self.ahead:
            line += f"; {self.ahead} jobs wait before it"
        if self.hints:
            line += f"; {self.hints}"
        return line + (f"\nwould start now with {', or '.join(each.words for each in self.sooner)}" * bool(self.sooner))


def _some(names: Sequence[str]) -> str:
    shown = ", ".join(names[:4])
    return shown if len(names) <= 4 else f"{shown} and {len(names) - 4} more"


def explain(scheduler: Scheduler, slot: int, now: float) -> Explanation:
    """Costs some cycles of the scheduler, and leaves no trace. ``ValueError`` if the slot holds no job."""
    decision, state = scheduler.decision(slot, now), scheduler.state
    hints = "" if scheduler.hearing is None else scheduler.hearing.words(slot)
    found = Explanation(decision.job_id, now, decision.verdict, decision.reason, hints=hints)
    if state.table.shares[slot] is not None:
        return found
    expected_s, guaranteed_s = decision.expected_start_s, decision.guaranteed_start_s
    plan_s = guaranteed_s if expected_s is None else expected_s
    between = (None, None) if plan_s is None else _interval(scheduler, slot, now, plan_s)
    starts = try_cycle(scheduler, slot, now, Given()).starts  # then nothing is in its way, and no change is needed
    return replace(
        found,
        ahead=len(_before(scheduler, slot, now)),
        blockers=() if starts else tuple(_blockers(scheduler, slot, now)),
        expected_start_s=plan_s,
        earliest_s=between[0],
        latest_s=between[1],
        guaranteed_start_s=guaranteed_s,
        sooner=() if starts else tuple(_sooner(scheduler, slot, now)),
    )


def _blockers(scheduler: Scheduler, slot: int, now: float) -> Iterator[Blocker]:
    state, table = scheduler.state, scheduler.state.table
    layer, lane = state.layer, table.queue_lanes[slot]
    if layer is not None and lane is not None and _starts_without_quota(scheduler, slot, now):
        yield Blocker("quota", tenant=layer.tree.names[lane.tenant] or "the cluster")
    sick = [
        (pool, node)
        for pool in pools_of(scheduler, slot)
        if isinstance(index := state.cluster.pools[pool], PoolIndex)
        for node in sorted({*index.health, *index.bad})
    ]
    if sick and try_cycle(scheduler, slot, now, Given(healthy=sick)).starts:
        names = [f"{state.cluster.spec.pools[pool].name}/{node}" for pool, node in sick]
        at = _pruned(list(range(len(sick))), lambda few: _starts_healthy(scheduler, slot, now, [sick[i] for i in few]))
        yield Blocker("health", nodes=tuple(names[i] for i in at))
    for pool in pools_of(scheduler, slot):
        given = _in_the_way(scheduler, slot, pool, now)
        if given is not None:
            name = [job.job_id if (job := table.jobs[s]) else "" for s in (*given.ended, *given.gone)]
            yield Blocker("jobs", tuple(name[: len(given.ended)]), tuple(name[len(given.ended) :]))


def _starts_healthy(scheduler: Scheduler, slot: int, now: float, nodes: list[tuple[int, int]]) -> bool:
    return try_cycle(scheduler, slot, now, Given(healthy=nodes)).starts


def _pruned(given: list[int], suffices: Callable[[list[int]], bool]) -> list[int]:
    return least(given, suffices) if len(given) <= MOST_PRUNED else given


def _in_the_way(scheduler: Scheduler, slot: int, pool: int, now: float) -> Given | None:
    """The running jobs of a pool that have to end, and the waiting ones that have to go, for the job to start; None if
    nobody's going would help."""
    table = scheduler.state.table
    found = _to_end(scheduler, slot, pool)
    if found is None:
        return None
    running, gone = found, list[int]()
    for turn in range(MOST_ROUNDS):
        tried = try_cycle(scheduler, slot, now, Given(running, gone))
        if tried.starts:
            break
        there = set(gone)
        rivals = [*tried.before, *(_before(scheduler, slot, now) if turn == LONG_QUEUE else ())]
        more = [other for other in dict.fromkeys(rivals) if table.live[other] is not None and other not in there]
        if not more:
            return None
        gone += more
    else:
        return None
    gone = _pruned(gone, lambda few: try_cycle(scheduler, slot, now, Given(running, few)).starts)
    running = _pruned(running, lambda few: try_cycle(scheduler, slot, now, Given(few, gone)).starts)
    return Given(running, gone)


def _to_end(scheduler: Scheduler, slot: int, pool: int) -> list[int] | None:
    """Running jobs of a pool that leave room for the job and quota to its tenant when they end, the first to end first;
    None if all of them are too few."""
    state, table = scheduler.state, scheduler.state.table
    index, demand = state.cluster.pools[pool].copy(), table.demands[slot]
    running = [other for other in table.running() if table.pools[other] == pool]
    running.sort(key=lambda other: (_end_s(scheduler, other), other))
    milli, layer, lane = asked_milli(demand, state.cluster.spec.pools[pool]), state.layer, table.queue_lanes[slot]
    use = layer.use.copy() if layer is not None and layer.use is not None else None
    found: list[int] = []
    for other in (-1, *running):
        if other >= 0:
            index.give(table.shares[other] or ())
            found.append(other)
            theirs = table.queue_lanes[other]
            if use is not None and theirs is not None:
                use.charge(theirs.tenant, pool, -milli_of(table.demands[other], table.shares[other] or ()))
        quota = use is None or lane is None or use.bound(lane.tenant, pool, milli) < 0
        if quota and index.free_gpus >= demand.least_gpus and state.place(index, demand) is not None:
            return found
    return None


def _sooner(scheduler: Scheduler, slot: int, now: float) -> Iterator[Sooner]:
    job, state = scheduler.state.table.jobs[slot], scheduler.state
    if job is None:
        return
    layer, lane = state.layer, state.table.queue_lanes[slot]
    for changes in (_smaller, _other_types, _other_levels, _shorter):
        for change in changes(scheduler, slot, job, now):
            if change.job is not None and _would_start(scheduler, slot, now, change.job):
                yield change
                break
    if layer is not None and lane is not None and _starts_without_quota(scheduler, slot, now):
        yield Sooner("quota", f"more quota for {layer.tree.names[lane.tenant] or 'those without a tenant'}")


def _starts_without_quota(scheduler: Scheduler, slot: int, now: float) -> bool:
    return _meets_quota(scheduler, slot) and try_cycle(scheduler, slot, now, Given(no_quota=True)).starts


def _meets_quota(scheduler: Scheduler, slot: int) -> bool:
    """Whether quota does not allow the job on one of its pools, now or when a plan begins there."""
    state, layer, lane = scheduler.state, scheduler.state.layer, scheduler.state.table.queue_lanes[slot]
    if layer is None or layer.use is None or lane is None:
        return False
    for pool in lane.pools:
        milli = asked_milli(state.table.demands[slot], state.cluster.spec.pools[pool])
        uses = [layer.use, *(plan.use for plan in state.reservations.get(pool, ()) if plan.slot != slot)]
        if any(use is not None and use.bound(lane.tenant, pool, milli) >= 0 for use in uses):
            return True
    return False


def _would_start(scheduler: Scheduler, slot: int, now: float, job: Job) -> bool:
    try:
        return try_cycle(scheduler, slot, now, Given(), job).starts
    except ValueError:
        return False


def _smaller(scheduler: Scheduler, slot: int, job: Job, now: float) -> Iterator[Sooner]:
    demand = scheduler.state.table.demands[slot]
    per_node = max(scheduler.state.cluster.spec.pools[pool].gpus_per_node for pool in pools_of(scheduler, slot))
    for less in smaller(demand, per_node):
        words = f"{less.gpus} GPUs" if less.gpus != demand.gpus else "fewer replicas"
        yield Sooner("smaller", words, replace(job, gpus=less.gpus, demand=None if less.is_plain else less))


def _other_types(scheduler: Scheduler, slot: int, job: Job, now: float) -> Iterator[Sooner]:
    wanted, demand = pools_of(scheduler, slot), scheduler.state.table.demands[slot]
    for number, pool in enumerate(scheduler.state.cluster.spec.pools):
        if number not in wanted and not demand.gpu_types:
            yield Sooner("type", f"GPUs of type {pool.name}", replace(job, gpu_type=pool.name, gpu_types=()))


def _other_levels(scheduler: Scheduler, slot: int, job: Job, now: float) -> Iterator[Sooner]:
    demand = scheduler.state.table.demands[slot]
    if not demand.required or demand.level is None:
        return
    asked = demand.asked()
    for level in LEVELS[LEVELS.index(demand.level) + 1 :]:
        if level != "pool":
            wider = Demand.of(**{**asked, "level": level})
            yield Sooner("level", f"one {level} instead of one {demand.level}", replace(job, demand=wider))
    loose = Demand.of(**{**asked, "required": False})
    yield Sooner("level", f"{demand.level} preferred, not required", replace(job, demand=loose))


def _shorter(scheduler: Scheduler, slot: int, job: Job, now: float) -> Iterator[Sooner]:
    """A limit with which it has ended when others are to start."""
    starts_s = {plan.start_s for plans in scheduler.state.reservations.values() for plan in plans if plan.slot != slot}
    for start_s in sorted(starts_s, reverse=True):
        limit_s = math.floor(start_s - now)
        if 0 < limit_s < (math.inf if job.limit_s is None else job.limit_s):
            estimate_s = None if job.estimate_s is None else min(job.estimate_s, float(limit_s))
            shorter = replace(job, limit_s=float(limit_s), estimate_s=estimate_s)
            yield Sooner("limit", f"a time limit of {limit_s} s", shorter)


def pools_of(scheduler: Scheduler, slot: int) -> tuple[int, ...]:
    """The pools on which a job may run."""
    table = scheduler.state.table
    lane, plain = table.queue_lanes[slot], table.lanes[slot]
    if scheduler.state.layer is not None:
        return () if lane is None else lane.pools
    return () if plain is None else plain.pools


def _end_s(scheduler: Scheduler, slot: int) -> float:
    """When a running job is expected to end; infinite where nobody expects anything."""
    state = scheduler.state
    if state.layer is not None:
        return state.layer.ends[state.table.pools[slot]].ends_s[slot]
    return state.ends.ends_s[slot] if state.ends is not None else math.inf


def _before(scheduler: Scheduler, slot: int, now: float) -> list[int]:
    """Who waits before a job for one of its pools."""
    state, table = scheduler.state, scheduler.state.table
    mine = set(pools_of(scheduler, slot))
    trial = None if state.layer is None else Trial(state, scheduler.transaction, now)

    def place(other: int) -> tuple[float, ...]:
        lane = table.queue_lanes[other]
        return table.entries[other] if trial is None or lane is None else trial.place_of(lane, table.entries[other])

    own = place(slot)
    waiting = [other for other, entry in enumerate(table.live) if entry is not None and other != slot]
    return [other for other in waiting if place(other) < own and mine.intersection(pools_of(scheduler, other))]


def _interval(scheduler: Scheduler, slot: int, now: float, plan_s: float) -> tuple[float, float]:
    """Between when the job starts if all goes as well as its plan has it and nobody is before it, and if everything
    that runs lasts as long as is claimed with confidence."""
    state, table = scheduler.state, scheduler.state.table
    times_s = [plan_s]
    for pool in pools_of(scheduler, slot):
        soon, late = ExpectedEnds(), ExpectedEnds()
        for other in table.running():
            if table.pools[other] == pool:
                end_s = _end_s(scheduler, other)
                soon.add(other, end_s)
                late.add(other, max(end_s, table.starts_s[other] + table.assumed[other].within_s))
        for ends in (soon, late):
            plan = earliest_start(state, ends, slot, pool, now, guaranteed=False)
            times_s += [plan.start_s] if plan is not None else [math.inf] * (ends is late)
    return min(times_s), max(times_s)
