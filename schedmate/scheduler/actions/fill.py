"""Start later jobs that delay nobody who has a reservation. What may start is told by `Trial`.

Without gained capacity only the jobs that are new since the last cycle are looked at. Otherwise those demands that fit
somewhere are, and of them the jobs that would run beyond only such plans beside which they fit. Capacity only shrinks
on the way, so this is the same as one walk through the queue.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from schedmate.scheduler.beside import free_on
from schedmate.scheduler.bounds import MOST_PLANS, Bound, News, PlanBound, Rooms
from schedmate.scheduler.classes import Asks, Looked
from schedmate.scheduler.cluster_types import UNLIMITED
from schedmate.scheduler.contenders import NOBODY, Contenders
from schedmate.scheduler.free_index import FreeIndex
from schedmate.scheduler.promises import bound_before, place_in_lane, plan_rank, rank
from schedmate.scheduler.state import State
from schedmate.scheduler.transaction import Transaction, asked_milli
from schedmate.scheduler.trial import Place, Trial
from schedmate.scheduler.types import Reservation


def fill(state: State, tx: Transaction, now: float) -> None:
    """Runs after `admit`."""
    layer, fresh = state.layer, state.fresh
    if layer is None:
        return
    planned = sum(1 << pool for pool in state.reservations) if state.policy.starts_by_plan else 0
    gained = layer.gained & ~planned
    if planned:  # where all have plans nobody starts but by them
        fresh = [slot for slot in fresh if (lane := state.table.queue_lanes[slot]) and not lane.pool_bits & planned]
    if gained or fresh:
        trial = Trial(state, tx, now)
        if gained:
            Contest(state, trial, gained, now).start_all()
        _start_fresh(state, trial, fresh, gained)
    layer.gained = 0
    if state.fresh:
        state.fresh = []


def _start_fresh(state: State, trial: Trial, fresh: list[int], gained: int) -> None:
    """Those that are new, on pools on which nobody else could start."""
    table, reserved = state.table, trial.layer.queue.reserved
    waiting: list[tuple[Place, int]] = []
    for slot in fresh:
        entry, lane = table.live[slot], table.queue_lanes[slot]
        if entry is not None and lane is not None and lane.pool_bits & ~gained and slot not in reserved:
            waiting.append((trial.place_of(lane, entry), slot))
    waiting.sort()
    for _, slot in waiting:
        found = trial.find(slot)
        if found is not None:
            trial.start(slot, found)


#: In place of what a group asks for that can not fit.
_NEVER = UNLIMITED + 1


class Contest:
    """The jobs of all demands that may start on a pool that has gained, by the place of the next one to look at."""

    def __init__(self, state: State, trial: Trial, gained: int, now: float) -> None:
        self._state, self._trial, self._now = state, trial, now
        self._clocks = [trial.beside.verdicts(pool).clock for pool in range(len(state.cluster.pools))]
        self._room: dict[int, NDArray[np.int64]] = {}
        #: By pool, what fits since the last start there: group, plans beyond which it runs.
        self._fit: dict[int, set[tuple[int, int]]] = {}
        self._contenders = {
            pool: self._promising(pool) for pool in range(len(state.cluster.pools)) if gained >> pool & 1
        }

    def start_all(self) -> None:
        """Until nothing of any group may start."""
        while self._start_first():
            pass
        queue = self._trial.layer.queue
        for pool in self._contenders:
            settled = self._trial.settled(pool)._replace(clock=self._clocks[pool])
            then = self._room_then(pool, len(settled.rooms))
            queue.looked[pool] = Looked(settled, tuple(self._plan_bounds(pool)), then)
            queue.bounds[pool].see()

    def _start_first(self) -> bool:
        """Look at the first of each class in order until one has been started; whether there may be more to start."""
        for pool, number in self._in_order():
            contenders = self._contenders[pool]
            if not contenders.is_left(number):
                continue
            entry = contenders.first_of(number)
            if self._state.table.live[entry[2]] is not entry:  # it has started on another pool
                contenders.pass_first(number)
                return True
            if not self._fits(pool, contenders, number):
                contenders.drop_like(number)
                continue
            found = self._trial.find(entry[2])
            if found is None:
                contenders.drop(number)
                continue
            planned = [len(self._plans(each)) for each in range(len(self._clocks))]
            self._trial.start(entry[2], found)
            contenders.pass_first(number)
            self._room.pop(found.pool, None)
            self._fit.pop(found.pool, None)
            self._look_again([each for each, count in enumerate(planned) if len(self._plans(each)) < count])
            if found.pool in self._contenders:
                now = self._room_on(found.pool)
                self._contenders[found.pool].keep(now, self._room_then(found.pool, len(now)))
            return True
        return False

    def _look_again(self, pools: Sequence[int]) -> None:
        """Somebody with a tentative plan has started: on the pools of which it is gone others may start that kept away
        from it."""
        for pool in pools:
            self._fit.pop(pool, None)
            self._contenders[pool] = self._promising(pool)

    def _in_order(self) -> Iterator[tuple[int, int]]:
        """Pools and numbers of classes there by the place of the first of each."""
        left = {pool: each.left() for pool, each in self._contenders.items()}
        left = {pool: numbers for pool, numbers in left.items() if len(numbers)}
        if not left:
            return iter(())
        standings_s = self._trial.standings_s(self._tenants_of(left))
        places = np.concatenate([self._contenders[p].places(left[p], standings_s) for p in left], axis=1)
        pools = np.concatenate([np.full(len(numbers), pool) for pool, numbers in left.items()])
        numbers = np.concatenate(list(left.values()))
        order = np.lexsort((numbers, pools, *places[::-1]))
        return zip(pools[order].tolist(), numbers[order].tolist(), strict=True)

    def _tenants_of(self, left: Mapping[int, NDArray[np.int64]]) -> list[int]:
        tenants = [set(self._contenders[pool].kind.tenant[numbers].tolist()) for pool, numbers in left.items()]
        return sorted(set().union(*tenants))

    def _fits(self, pool: int, contenders: Contenders, number: int) -> bool:
        """Whether what a class asks for has a placement on its pool beside the plans beyond which it runs."""
        key = int(contenders.kind.group[number]), int(contenders.kind.late[number])
        known = self._fit.setdefault(pool, set())
        if key not in known:
            if not self._trial.beside.fits(pool, self._trial.layer.queue.groups[key[0]].demand, key[1]):
                return False
            known.add(key)
        return True

    def _promising(self, pool: int) -> Contenders:
        """The jobs that might start on a pool that has gained."""
        plans, may_fit = self._plan_bounds(pool), self._may_fit(pool)
        if not may_fit.any():
            return NOBODY
        rooms = self._rooms_on(pool, may_fit)
        return self._trial.layer.queue.bounds[pool].contenders(
            self._news(pool, plans),
            plans if len(plans) <= MOST_PLANS else None,
            self._now,
            self._bound,
            rooms,
        )

    def _news(self, pool: int, plans: Sequence[PlanBound]) -> News | None:
        """What has changed on a pool since none of its jobs could start; None if that is not known."""
        layer = self._trial.layer
        last = layer.queue.looked[pool]
        if last is None or last.settled.undone != layer.undone:
            return None
        there = {id(plan.origin): now for plan, now in zip(self._plans(pool), plans, strict=True)}
        uses = [(plan.slot, plan.guaranteed, plan.use) for plan in self._plans(pool)]
        instead = {(slot, kind): (now, use) for (slot, kind, use), now in zip(uses, plans, strict=True)}
        gone = list[tuple[NDArray[np.int64], NDArray[np.int64] | None]]()
        for plan, before, left in zip(last.settled.plans, last.bounds, last.then, strict=True):
            now = there.get(id(plan.origin))
            if now is None:
                new, use = instead.get((plan.slot, plan.guaranteed), (None, None))
                alike = new is not None and use is not None and new.binds_no_less(before)
                gone.append((left, use.rooms(pool) if alike and use is not None else None))
            elif now.rank > before.rank or now.bound_before < before.bound_before or now.behind != before.behind:
                return None  # it binds fewer
        verdicts, since, needs = layer.verdicts[pool], last.settled.clock, self._asks(pool).needs
        gained, beside = needs <= verdicts.most_freed(since), self._trial.beside
        nodes = verdicts.freed_since(free_on(self._state.cluster.pools[pool]), since)
        if nodes is None:
            return News(gained, last.settled.rooms, gone)
        return News(gained, last.settled.rooms, gone, needs, lambda late: beside.most_left(pool, nodes, late))

    def _asks(self, pool: int) -> Asks:
        """What all groups ask of a pool."""
        queue, index, spec = (
            self._trial.layer.queue,
            self._state.cluster.pools[pool],
            self._state.cluster.spec.pools[pool],
        )
        known = queue.asks[pool]
        new = queue.groups[len(known.milli) :]
        if new:
            verdicts = self._trial.layer.verdicts[pool]
            rows = [
                (verdicts.need(index.capacity, g.demand), g.demand.least_gpus, asked_milli(g.demand, spec)) for g in new
            ]
            known = queue.asks[pool] = Asks(*np.concatenate((known, np.array(rows, dtype=np.int64).T), axis=1))
        return known

    def _plans(self, pool: int) -> tuple[Reservation, ...]:
        return self._state.reservations.get(pool, ())

    def _room_on(self, pool: int) -> NDArray[np.int64]:
        """By tenant, what quota leaves on a pool; nothing where the queue is barred."""
        room = self._room.get(pool)
        if room is None:
            room = self._room[pool] = self._trial.rooms(pool)
        return room

    def _rooms_on(self, pool: int, may_fit: NDArray[np.bool_]) -> Rooms:
        """What quota leaves on a pool, now and when its plans begin, and what those groups ask for that may fit."""
        now = self._room_on(pool)
        return Rooms(now, self._room_then(pool, len(now)), np.where(may_fit, self._asks(pool).milli, _NEVER))

    def _may_fit(self, pool: int) -> NDArray[np.bool_]:
        """By number of a group, whether what is free could hold one of its jobs, were it not for anybody else. Most are
        too large for the holes of a full pool, so that they need not be sorted out one by one."""
        asks, index = self._asks(pool), self._state.cluster.pools[pool]
        most = index.levels.bit_length() - 1 if isinstance(index, FreeIndex) else int(index.count.max())
        return (asks.needs <= most) & (asks.gpus <= index.free_gpus)

    def _room_then(self, pool: int, tenants: int) -> NDArray[np.int64]:
        """What quota leaves when the plans of a pool begin; shape (plans, tenants)."""
        uses = [plan.use for plan in self._plans(pool)]
        then = [np.full(tenants, UNLIMITED, dtype=np.int64) if use is None else use.rooms(pool) for use in uses]
        return np.array(then, dtype=np.int64).reshape(len(uses), tenants)

    def _plan_bounds(self, pool: int) -> list[PlanBound]:
        """The plans of a pool, as `Trial.late` reads them."""
        state = self._state
        return [
            PlanBound(
                plan.start_s,
                plan_rank(state, plan),
                plan.guaranteed or plan.locked or bool(plan.victims),
                plan.guaranteed and not plan.victims and plan.start_s > self._now,
                bound_before(state, plan),
                _behind(state, plan),
            )
            for plan in self._plans(pool)
        ]

    def _bound(self, slot: int) -> Bound:
        """What `Trial.late` knows of a waiting job."""
        table = self._state.table
        assumed, job, lane = table.assumed[slot], table.jobs[slot], table.queue_lanes[slot]
        leaves_s = math.inf
        hints = job.hints if job is not None and job.preemptible else None
        if job is not None and hints is not None and hints.confidence >= self._state.policy.confidence:
            leaves_s = max(assumed.within_s, job.min_run_s)
        tenant, number, shift_s = (0, 0, 0.0) if lane is None else (lane.tenant, lane.number, lane.shift_s)
        since = table.since[slot]
        return Bound(
            assumed.within_s, assumed.limit_s, leaves_s, rank(self._state, slot), since, tenant, number, shift_s
        )


def _behind(state: State, plan: Reservation) -> tuple[float, float, int] | None:
    """Where the job of a tentative plan stands, and its tenant."""
    lane = state.table.queue_lanes[plan.slot]
    return (*place_in_lane(state, plan.slot), 0 if lane is None else lane.tenant) if plan.tentative else None
