"""What has been learned from a history by a moment: a trained model, or none, brought up to date with the jobs since.

A history only holds jobs that have ended. They are learned from in order of time, and never one that ended after the
moment that is asked about. Who asks about ever later moments pays for the new jobs only; who goes back in time pays for
the newest `RECENT_JOBS` of that time.
"""

from __future__ import annotations

import copy
import heapq
import math
from dataclasses import replace

from analyzers.ports import HistoryStore
from analyzers.types import JobRecord
from predictors.in_flight import InFlight, longest
from predictors.resources import Memory
from predictors.stacked import StackedDurations, ended_s

#: Without a trained model, or far behind it, no more than the newest jobs are learned from.
RECENT_JOBS = 2_000


class Learner:
    """``at(moment_s)`` -> the model as it could be known then; ``fresh()`` makes one where there is no trained one."""

    def __init__(
        self, history: HistoryStore, trained: StackedDurations | None = None, in_flight: InFlight | None = None
    ) -> None:
        """``trained``: a model that has learned from jobs up to its ``latest_s``; it is not changed. ``in_flight``:
        where starts are told, by whoever knows of them."""
        self._history = history
        self._trained = trained
        self._model: StackedDurations | None = None
        self._mark: tuple[object, int] | None = None
        self._waiting: list[tuple[float, int, JobRecord]] = []
        self._count = 0
        self._in_flight = InFlight() if in_flight is None else in_flight
        #: Those that the history holds as still running.
        self._held = InFlight()
        #: What peaks of memory tell, as `at` was last asked for.
        self.memory = Memory()

    def at(self, moment_s: float | None) -> StackedDurations:
        """The model with all that had ended by ``moment_s`` (None: with everything)."""
        mark, news = self._history.news(self._mark)
        same = self._mark is not None and mark[0] is self._mark[0]
        self._mark = mark
        behind = self._model is not None and moment_s is not None and moment_s < self._model.latest_s
        if self._model is None or not same or behind:
            self._start(moment_s)
            news = self._history.news(None)[1]
            self._waiting = []
            self._held = InFlight()
            known = [each for each in news if each.duration_s is not None and ended_s(each) <= self._known_to_s]
            self.memory.learn(sorted(known, key=ended_s))
        for record in news:
            if record.duration_s is None and record.ran_so_far_s:
                start_s = record.submit_s if record.start_s is None else record.start_s
                self._held.started(record, start_s, start_s + record.ran_so_far_s)
            elif record.duration_s is not None:
                self._held.ended(record.job_id, ended_s(record))
            if record.duration_s is not None and ended_s(record) > self._known_to_s:
                self._count += 1
                heapq.heappush(self._waiting, (ended_s(record), self._count, record))
        assert self._model is not None
        self._catch_up(self._model, moment_s)
        return self._model

    def _start(self, moment_s: float | None) -> None:
        usable = self._trained is not None and (moment_s is None or self._trained.latest_s <= moment_s)
        self._model = copy.deepcopy(self._trained) if usable else StackedDurations(queue_known=False, trains=False)
        assert self._model is not None
        self._known_to_s = self._model.latest_s
        self.memory = Memory()

    def _catch_up(self, model: StackedDurations, moment_s: float | None) -> None:
        due: list[JobRecord] = []
        last_s = math.inf if moment_s is None else moment_s
        while self._waiting and self._waiting[0][0] <= last_s:
            due.append(heapq.heappop(self._waiting)[2])
        self.memory.learn(due)
        now_s = moment_s if moment_s is not None else max([model.latest_s, *(ended_s(record) for record in due)])
        # Jobs that are learned from together may have the name of one before: each counts.
        newest = sorted(due[-RECENT_JOBS:], key=lambda record: (record.submit_s, ended_s(record)))
        named = [replace(each, job_id=f"{each.job_id}#{n}") for n, each in enumerate(newest)]
        told = {new.job_id for new, old in zip(named, newest, strict=True) if old.job_id in self._in_flight}
        self._in_flight.learned(record.job_id for record in due)
        if model.hears_of_starts:  # else nobody looks through what may be thousands
            model.lasting(longest([*self._held.at(now_s), *self._in_flight.at(now_s)]), now_s, told)
        if due:
            model.replay(named)
