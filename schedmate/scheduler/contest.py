"""The jobs of all demands that may start, by the place of the next one to look at, where they are many.

Those demands that fit somewhere are looked at, and of them the jobs that would run beyond only such plans beside which
they fit. Capacity only shrinks on the way, so this is the same as one walk through the queue.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from schedmate.scheduler.contenders import Contenders
from schedmate.scheduler.prospects import Prospects
from schedmate.scheduler.state import State
from schedmate.scheduler.trial import Trial


class Contest:
    """On some pools that have gained."""

    def __init__(self, state: State, trial: Trial, prospects: Sequence[Prospects]) -> None:
        self._state, self._trial = state, trial
        self._prospects = {each.pool: each for each in prospects}
        #: By pool, what fits since the last start there: group, plans beyond which it runs.
        self._fit: dict[int, set[tuple[int, int]]] = {}
        self._contenders = {each.pool: each.contenders() for each in prospects}

    def start_all(self) -> None:
        """Until nothing of any group may start."""
        while self._start_first():
            pass

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
            plan = self._trial.tentative_plan(entry[2])
            self._trial.start(entry[2], found)
            contenders.pass_first(number)
            self._fit.pop(found.pool, None)
            if plan is not None and plan[0] in self._contenders:
                self._contenders[plan[0]].without_plan(plan[1])
                self._fit.pop(plan[0], None)
            if found.pool in self._contenders:
                prospects = self._prospects[found.pool]
                self._contenders[found.pool].keep(prospects.room_now(), prospects.room_then())
            return True
        return False

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
