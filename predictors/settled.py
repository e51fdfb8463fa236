"""Where learning stood a few jobs ago: to go on from there when a job becomes known that had ended before others.

Ends are recorded a little out of order all the time (a node reports late, two recorders), and to learn everything anew
for each such job takes up to a second. So what was learned is kept as it was one and two times `SETTLES_JOBS` jobs ago,
about; only what comes after is learned again, in the right order.
"""

from __future__ import annotations

import pickle
from collections.abc import Sequence
from dataclasses import dataclass

from analyzers.types import JobRecord
from predictors.resources import Memory
from predictors.stacked import StackedDurations, ended_s

#: What was learned is kept once in so many jobs, which takes tens of milliseconds.
SETTLES_JOBS = 32
#: When a job ended, was submitted, and its name: jobs are learned from in this order, however they were added.
Order = tuple[float, float, str]


def order(record: JobRecord) -> Order:
    """The place of an ended job among those that are learned from."""
    return ended_s(record), record.submit_s, record.job_id


@dataclass(frozen=True, slots=True)
class Settled:
    """What was learned up to and with the job of the order ``last``, and how many ``ended`` jobs that were."""

    last: Order
    ended: int
    newest: tuple[JobRecord, ...]
    few: bool
    _model: bytes
    _memory: Memory

    @staticmethod
    def of(last: Order, ended: int, newest: Sequence[JobRecord], model: StackedDurations, memory: Memory) -> Settled:
        """All of it as it is now, apart from what is learned on."""
        # In a fraction of the time that `copy.deepcopy` takes, which looks at each part of each job.
        body = pickle.dumps(model, protocol=5)
        return Settled(last, ended, tuple(newest), model.hears_of_starts, body, memory.copy())

    def model(self) -> StackedDurations:
        """A model to learn on with."""
        model: StackedDurations = pickle.loads(self._model)  # of this very process
        return model

    def memory(self) -> Memory:
        """What was learned of memory, to learn on with."""
        return self._memory.copy()


class Settling:
    """``learned(records)`` in order, ``keep(settled)`` when ``due``; ``before(order)``: where to go back to."""

    def __init__(self) -> None:
        self._kept: list[Settled] = []
        #: Those learned from since the first of them, and how many of these since the last.
        self._since: list[JobRecord] = []
        self._fresh = 0

    def learned(self, records: Sequence[JobRecord]) -> None:
        """These were learned from, after all others."""
        self._since.extend(records)
        self._fresh += len(records)

    @property
    def due(self) -> bool:
        """Whether enough was learned since something was kept."""
        return self._fresh >= SETTLES_JOBS

    def keep(self, settled: Settled) -> None:
        """What has been learned, now; of those before only the last is kept as well."""
        self._kept = [*self._kept[-1:], settled]
        self._since = self._after(self._kept[0])
        self._fresh = 0

    def before(self, place: Order) -> tuple[Settled, list[JobRecord]] | None:
        """The last that was kept before a job of that order, and the jobs to learn from again; None: there is none."""
        for settled in reversed(self._kept):
            if settled.last < place:
                return settled, self._after(settled)
        return None

    def back_to(self, settled: Settled) -> None:
        """What was learned since is forgotten."""
        self._kept = [each for each in self._kept if each.last <= settled.last]
        self._since = [each for each in self._since if order(each) <= settled.last]
        self._fresh = 0

    def _after(self, settled: Settled) -> list[JobRecord]:
        return [each for each in self._since if order(each) > settled.last]
