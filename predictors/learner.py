"""What has been learned from a history by a moment: a trained model, or none, brought up to date with the jobs since.

A history only holds jobs that have ended. They are learned from in order of their ends, and never one that ended after
the moment that is asked about. Without a trained model what has been learned is a matter of what is recorded alone, not
of when anyone asked:

- while jobs are few each is asked about as of its own submission (`hindsight`), and so are those that are told to run;
- then a model is made anew on a fixed schedule of ended jobs, from the newest `RECENT_JOBS`, each asked about at its
  submission; between, each job that has ended is asked about just before its end.

Who asks about ever later moments pays for the new jobs only, and now and then for the newest; so does who learns late
of a job that had ended before a few others (`settled`). All is learned anew for who goes back in time, learns of a job
much later than that, or of an end that takes the place of one that was known.
"""

from __future__ import annotations

import copy
import heapq
import math
from collections import deque
from collections.abc import Hashable, Sequence
from dataclasses import replace

from analyzers.ports import HistoryStore
from analyzers.types import JobRecord
from predictors.in_flight import InFlight, Started, longest
from predictors.resources import Memory
from predictors.settled import SETTLES_JOBS, Order, Settled, Settling, order
from predictors.site_durations import Flying
from predictors.stacked import FIRST_TRAINING_JOBS, Recalled, StackedDurations, ended_s

#: Without a trained model, or far behind it, no more than the newest jobs are learned from.
RECENT_JOBS = 2_000
#: Without one, all is learned anew when jobs are many enough for boosting, and whenever there are this much more of
#: them, or this many.
_GROWTH = 1.3
_MOST_BETWEEN = 1_000


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
        self._uses_trained = False
        self._waiting: list[tuple[float, float, str, int, JobRecord]] = []
        self._count = 0
        #: The order of the last job that was learned from, how many have been, and the newest of them.
        self._last: Order = -math.inf, -math.inf, ""
        self._ended = 0
        self._newest: deque[JobRecord] = deque(maxlen=RECENT_JOBS)
        self._settling = Settling()
        #: How many jobs the history must hold by what it has told of since all was learned anew, and those of them that
        #: had not ended; whether starts were told of meanwhile.
        self._told = 0
        self._open: set[str] = set()
        self._hears_starts = False
        self._in_flight = InFlight() if in_flight is None else in_flight
        #: Those that the history holds as still running.
        self._held = InFlight()
        #: Of each run that was told of while jobs were few, what was said of the job when it was submitted.
        self._recalled: dict[Hashable, Recalled] = {}
        #: What peaks of memory tell, as `at` was last asked for.
        self.memory = Memory()

    def at(self, moment_s: float | None) -> StackedDurations:
        """The model with all that had ended by ``moment_s`` (None: with everything)."""
        held = len(self._history)  # before its news: what is added meanwhile must not hide what was replaced
        mark, news = self._history.news(self._mark)
        same = self._mark is not None and mark[0] is self._mark[0]
        self._mark = mark
        behind = self._model is not None and moment_s is not None and moment_s < self._model.latest_s
        by_other = self._uses_trained != self._may_use_trained(moment_s)
        self._hear_of(news)
        if self._model is None or not same or behind or by_other or not self._in_order(news, held):
            self._start(moment_s)
            self._mark, news = self._history.news(None)
            self._hear_of(news)
            known = [each for each in news if each.duration_s is not None and ended_s(each) <= self._known_to_s]
            self.memory.learn(sorted(known, key=order))
        for record in news:
            if record.duration_s is None and record.ran_so_far_s:
                start_s = record.submit_s if record.start_s is None else record.start_s
                self._held.started(record, start_s, start_s + record.ran_so_far_s)
            elif record.duration_s is not None:
                self._held.ended(record.job_id, ended_s(record))
            if record.duration_s is not None and ended_s(record) > self._known_to_s:
                self._wait_for(record)
        self._catch_up(moment_s)
        assert self._model is not None
        return self._model

    def _start(self, moment_s: float | None) -> None:
        self._uses_trained = self._may_use_trained(moment_s)
        self._model = copy.deepcopy(self._trained) if self._uses_trained else self._untrained()
        assert self._model is not None
        self._known_to_s = self._model.latest_s
        self._last = -math.inf, -math.inf, ""
        self._ended = 0
        self._newest.clear()
        self._waiting = []
        self._held = InFlight()
        self._recalled = {}
        self._settling = Settling()
        self._told = 0
        self._open = set()
        self._hears_starts = False
        self.memory = Memory()

    def _may_use_trained(self, moment_s: float | None) -> bool:
        """Whether there is a trained model that knows of nothing after that moment."""
        return self._trained is not None and (moment_s is None or self._trained.latest_s <= moment_s)

    def _hear_of(self, news: Sequence[JobRecord]) -> None:
        """Count them: a job that had not ended may change or end, and is no other job then."""
        for record in news:
            self._told += record.job_id not in self._open
            (self._open.add if record.duration_s is None else self._open.discard)(record.job_id)

    def _untrained(self, *, few: bool = True) -> StackedDurations:
        return StackedDurations(queue_known=False, trains=False, by_site=few)

    def _in_order(self, news: Sequence[JobRecord], held: int) -> bool:
        """Whether none of these had ended before others that were learned from without it; or those were forgotten
        now, and will be learned from again. ``held``: how many jobs the history holds."""
        if self._uses_trained:
            return True
        if self._told > held:  # one took the place of a job that had ended: nothing says which
            return False
        first = min((order(each) for each in news if each.duration_s is not None), default=self._last)
        return first >= self._last or self._go_back(first, news)

    def _go_back(self, first: Order, news: Sequence[JobRecord]) -> bool:
        """To before the job of that order; False where nothing was kept of then, or it may not be what it would be."""
        found = self._settling.before(first)
        if found is None:
            return False
        settled, again = found
        if settled.few and (self._runs() or self._hears_starts or any(each.duration_s is None for each in news)):
            return False
        self._settling.back_to(settled)
        self._model, self.memory = settled.model(), settled.memory()
        self._last, self._ended = settled.last, settled.ended
        self._newest = deque(settled.newest, maxlen=RECENT_JOBS)
        for record in again:
            self._wait_for(record)
        return True

    def _wait_for(self, record: JobRecord) -> None:
        self._count += 1
        heapq.heappush(self._waiting, (*order(record), self._count, record))

    def _runs(self) -> dict[str, Started]:
        """Those that are told to have started, by the history or otherwise."""
        return {each.record.job_id: each for each in (*self._held.told(), *self._in_flight.told())}

    def _catch_up(self, moment_s: float | None) -> None:
        due: list[JobRecord] = []
        last_s = math.inf if moment_s is None else moment_s
        while self._waiting and self._waiting[0][0] <= last_s:
            due.append(heapq.heappop(self._waiting)[-1])
        if self._uses_trained:
            self._learn_on(due)
            return
        parts = self._parts(due)
        for part in parts:
            model = self._learn(part, moment_s)
            if (self._settling.due or len(parts) > 1) and not (self._hears_starts and model.hears_of_starts):
                self._settling.keep(Settled.of(self._last, self._ended, self._newest, model, self.memory))

    def _parts(self, due: list[JobRecord]) -> tuple[list[JobRecord], ...]:
        """Of many jobs the last ones apart, so that there is where to go back to; never so that more is made anew."""
        apart = max(len(due) - SETTLES_JOBS, _last_anew(self._ended + len(due)) - self._ended)
        return (due[:apart], due[apart:]) if 0 < apart < len(due) and not self._runs() else (due,)

    def _learn(self, due: Sequence[JobRecord], moment_s: float | None) -> StackedDurations:
        """What has ended since, without a trained model; the model after that."""
        assert self._model is not None
        self.memory.learn(due)
        self._settling.learned(due)
        if due:
            self._last = order(due[-1])
        anew_at = _last_anew(self._ended + len(due))
        crossing = max(0, anew_at - self._ended)
        self._ended += len(due)
        self._newest.extend(due[:crossing] if crossing else due)
        if crossing:
            self._model = self._untrained(few=False)
            self._model.replay(_named(sorted(self._newest, key=lambda record: (record.submit_s, *order(record)))))
            self._model.forget_rows()
            self._recalled = {}
            self._newest.extend(due[crossing:])
        if self._model.hears_of_starts:
            known_s = max([self._model.latest_s, *(ended_s(record) for record in due)])
            self._learn_few(self._model, due, known_s if moment_s is None else moment_s)
        else:
            self._model.observe_unasked(_named(due[crossing:]))
            self._in_flight.forget_ended()
        return self._model

    def _learn_on(self, due: Sequence[JobRecord]) -> None:
        """What has ended since the model was trained, those that are told of together in order of time."""
        assert self._model is not None
        self.memory.learn(due)
        self._in_flight.learned(record.job_id for record in due)
        if due:
            self._model.replay(_named(sorted(due[-RECENT_JOBS:], key=lambda record: (record.submit_s, *order(record)))))

    def _learn_few(self, model: StackedDurations, due: Sequence[JobRecord], now_s: float) -> None:
        """Each job is asked about as of its submission: those that are told to run before any end after that, the
        others of ``due`` likewise, so that nobody looks back further than has to be."""
        runs = self._runs()
        self._hears_starts = self._hears_starts or bool(runs)
        if due:  # of those known late what was said of jobs submitted since their ends is said anew
            for each in runs.values():
                if each.record.submit_s >= ended_s(due[0]):
                    self._recalled.pop(_run(each), None)
        asked: dict[Hashable, JobRecord] = {_run(each): each.record for each in runs.values()}
        asked = {run: record for run, record in asked.items() if run not in self._recalled}
        asked |= {number: each for number, each in enumerate(due) if each.job_id not in runs}
        waiting = deque(sorted(asked.items(), key=lambda item: (item[1].submit_s, item[1].job_id)))
        unasked: dict[Hashable, Recalled] = {}

        def recall(before_s: float) -> None:
            while waiting and waiting[0][1].submit_s < before_s:
                key, record = waiting.popleft()
                found = model.recall(record, self._flying(record.submit_s))
                (unasked if isinstance(key, int) else self._recalled)[key] = found

        for number, record in enumerate(due):
            at_s = ended_s(record)
            self._in_flight.ended(record.job_id, at_s)
            recall(at_s)
            run = runs.get(record.job_id)
            said = self._recalled.get(_run(run)) if run is not None else unasked.pop(number, None)
            if said is None:  # submitted when it ended, or told to be later
                said = model.recall(record, self._flying(record.submit_s))
            model.observe_late(record, said, told=run is not None)
        recall(now_s)  # of later ones not all may be known that had ended by then
        model.lasting(self._flying(now_s), now_s)

    def _flying(self, moment_s: float) -> list[Flying]:
        """What was in flight at that moment, with what had been said of it."""
        running = longest([*self._held.at(moment_s), *self._in_flight.at(moment_s)])
        return [(each, self._recalled[_run(each)][1]) for each in running if _run(each) in self._recalled]


def _last_anew(ended: int) -> int:
    """The last number of ended jobs, up to ``ended``, at which all is learned anew; 0 while they are few."""
    last, following = 0, FIRST_TRAINING_JOBS
    while following <= ended:
        last, following = following, min(math.ceil(following * _GROWTH), following + _MOST_BETWEEN)
        if following - last == _MOST_BETWEEN:
            return last + (ended - last) // _MOST_BETWEEN * _MOST_BETWEEN
    return last


def _named(records: Sequence[JobRecord]) -> list[JobRecord]:
    """Jobs that are learned from together may have the name of one before: each counts."""
    return [replace(each, job_id=f"{each.job_id}#{number}") for number, each in enumerate(records)]


def _run(started: Started) -> tuple[str, float]:
    return started.record.job_id, started.first_s
