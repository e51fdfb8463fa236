"""What moving running jobs may cost, and what it has cost so far: the budget of defragmentation, as data.

A move is an eviction and a start on another place in the same cycle: the job goes on from its last checkpoint, so it
costs the GPU time since then and the time of starting up again.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

#: The span of time that the budgets are for.
HOUR_S = 3600.0

#: Budgets in moves are for so many GPUs, so that one policy suits clusters of any size.
BUDGET_GPUS = 1000


@dataclass(frozen=True, slots=True)
class Disruption:
    """When running jobs are moved so that broken nodes become whole, and the most that it may cost.

    Parameters
    ----------
    every_s : it is looked for moves no more often than this on each pool.
    moves : the most moves in any hour for each 1,000 GPUs of the cluster; at least one.
    lost_share : the most GPU time that moves may cost in any hour, as a share of the cluster's.
    price : the most that moves may cost, as a share of the GPU time that they make usable.
    moves_per_job : no job is moved more often in all. rest_s : nor again within this time.
    tenant_share : of the hour's budgets no tenant bears more than its share of the GPUs in use times this.
    left_broken : broken nodes, as a share of all, that are no reason to move anything; a blocked job is.
    fresh_s : to make broken nodes whole a job is moved only if it has saved its state within this time. Whoever shares
        a node may leave it one by one.
    """

    every_s: float = 60.0
    moves: float = 50.0
    lost_share: float = 0.005
    price: float = 0.05
    moves_per_job: int = 8
    rest_s: float = 600.0
    tenant_share: float = 1.5
    left_broken: float = 0.002
    fresh_s: float = 60.0

    def __post_init__(self) -> None:
        amounts = (self.every_s, self.moves, self.lost_share, self.price, self.rest_s, self.left_broken)
        if not all(0 <= amount < math.inf for amount in amounts) or self.moves_per_job < 0 or not self.fresh_s >= 0:
            raise ValueError("the budget of moves needs finite amounts from 0")
        if not self.tenant_share >= 1:
            raise ValueError("a tenant that is alone must be able to bear the whole budget: its share times 1 or more")

    def moves_per_hour(self, gpus: int) -> int:
        """Of a cluster of so many GPUs."""
        return max(1, int(self.moves * gpus / BUDGET_GPUS)) if self.moves else 0


class Paid(NamedTuple):
    """A move that was made: when, whose job it was, and the GPU time that it cost."""

    at_s: float
    tenant: int
    gpu_s: float


class Moved(NamedTuple):
    """How often the job with this sequence number was moved, and when last."""

    sequence: int
    times: int
    last_s: float


@dataclass(frozen=True, slots=True)
class Ledger:
    """Moves of the last hour, and by slot how often those that run were moved. ``looked_s``: by pool, when it was last
    looked for moves. Replaced and never changed, so that a discarded cycle leaves no trace."""

    looked_s: Mapping[int, float] = field(default_factory=dict)
    paid: tuple[Paid, ...] = ()
    jobs: Mapping[int, Moved] = field(default_factory=dict)

    def due(self, pools: int, by_s: float) -> int:
        """The one of so many pools that has not been looked at for longest, -1 if all have been after ``by_s``."""
        oldest = min(range(pools), key=lambda pool: self.looked_s.get(pool, -math.inf))
        return oldest if self.looked_s.get(oldest, -math.inf) <= by_s else -1

    def looked(self, pool: int, now: float) -> Ledger:
        """With a pool looked at."""
        return Ledger({**self.looked_s, pool: now}, self.paid, self.jobs)

    def since(self, from_s: float) -> tuple[Paid, ...]:
        """The moves after a time."""
        return tuple(each for each in self.paid if each.at_s > from_s)

    def of(self, slot: int, sequence: int) -> Moved:
        """What is known of the job in ``slot``."""
        found = self.jobs.get(slot)
        return found if found is not None and found.sequence == sequence else Moved(sequence, 0, -math.inf)

    def entered(self, moves: Iterable[tuple[int, int, Paid]], running: Mapping[int, int], now: float) -> Ledger:
        """With ``moves`` (slot, sequence, price) of now; forgets jobs that are not ``running`` (sequences by slot)."""
        moves = list(moves)
        jobs = {slot: each for slot, each in self.jobs.items() if running.get(slot) == each.sequence}
        jobs |= {slot: Moved(sequence, self.of(slot, sequence).times + 1, now) for slot, sequence, _ in moves}
        return Ledger(self.looked_s, (*self.since(now - HOUR_S), *(paid for _, _, paid in moves)), jobs)
