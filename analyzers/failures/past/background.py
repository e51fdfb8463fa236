"""How often a job would have failed whatever node it ran on: what each failure is weighed against."""

from __future__ import annotations

import numpy as np

from analyzers.failures.past.starts import ENDED_WELL, FAILED, SIZE_CLASSES, TOLD, Counts, Flags, Indexes, Starts

#: Before anything is known a job of any size fails with this chance, worth so many starts.
PRIOR_RATE, PRIOR_STARTS = 0.05, 20.0
#: What is known of all jobs counts like so many starts of this user; what is known of the user like so many of this
#: work: after one failure of a work every third start of it is expected to fail, on whatever node.
USER_STARTS, WORK_STARTS = 10.0, 2.0
#: No failure is taken for less likely: what a user never saw elsewhere proves nothing by itself.
_LOWEST_RATE = 0.01
#: Before anything is known one job in so many is told by its log to have met broken hardware, which is worth as many
#: starts: little, for it must not outweigh what is seen.
TOLD_EVERY = 20.0
#: Nor is that taken for rarer than this, however many short jobs somebody runs beside the others.
LOWEST_TOLD_RATE = 0.002


class Background:
    """How likely each failure was if the node that is looked at were a good one.

    That is what other jobs of that size, of that user and of that very work did elsewhere, and on this node before:
    someone whose code fails everywhere proves nothing, nor does a job that is started over and over on one node.
    Failures that logs of jobs call a node's fault are compared with such failures only. They are rare, and a rate of
    few events is easily taken for too low; with one event more, and those of this node before, the worth of what is
    weighed against it is on average hardly more than it should be (for a Poisson count C of mean m, m E[1 / (C + 1)] is
    less than 1).
    """

    def __init__(self, starts: Starts) -> None:
        self._starts = starts
        how = starts.kind[starts.at_job]
        judged = (how == FAILED) | ((how == TOLD) & starts.culprit)
        #: Indexes into ``at_job`` of the failures that are judged, and which of them are told.
        self.judged: Indexes = np.flatnonzero(judged)
        self.told: Flags = how[self.judged] == TOLD
        unknown, told = self.judged[~self.told], self.judged[self.told]
        self._unknown = {name: _Before(starts, group, unknown) for name, group in _groups(starts, "user", "work")}
        self._told = {
            name: _Before(starts, group, told) for name, group in _groups(starts, "all", "size", "user", "work")
        }
        self._unknown_rows = unknown

    def base(self, explained: Flags) -> Counts:
        """The chance of a failure of either kind by class of size; ``explained`` marks jobs whose failure has a node to
        blame already."""
        size = self._starts.size
        counted, failed = self._counted((FAILED, TOLD), explained)
        overall = _shrunk(PRIOR_RATE, PRIOR_STARTS, failed.sum(), counted.sum())
        return np.array(
            [
                _shrunk(overall, PRIOR_STARTS, failed[size == c].sum(), counted[size == c].sum())
                for c in range(SIZE_CLASSES)
            ]
        )

    def rates(self, explained: Flags) -> Counts:
        """The chance of each judged failure."""
        found = np.zeros(len(self.judged))
        found[~self.told] = self._unknown_rates(explained)
        if self.told.any():
            found[self.told] = self._told_rates(explained)
        return found

    def _unknown_rates(self, explained: Flags) -> Counts:
        counted, failed = self._counted((FAILED,), explained)
        work_failed, work_started = (self._unknown["work"].elsewhere(each) for each in (failed, counted))
        user_failed, user_started = (self._unknown["user"].elsewhere(each) for each in (failed, counted))
        base = self._base_elsewhere(failed, counted)
        of_user = (USER_STARTS * base + user_failed - work_failed) / (USER_STARTS + user_started - work_started)
        of_work = (WORK_STARTS * of_user + work_failed) / (WORK_STARTS + work_started)
        return np.clip(of_work, _LOWEST_RATE, 1 - _LOWEST_RATE)

    def _told_rates(self, explained: Flags) -> Counts:
        """Hardware breaks under anybody's job: no size, user or work is taken to see it less often than all do. Whose
        logs tell of it elsewhere may be wrong on purpose, and about any node; else the blame meets one of the job's
        nodes as often as another, but for the first one, whose word is often that of the whole job."""
        counted, told = self._counted((TOLD,), explained)
        counted += self._counted((FAILED,), explained)[1]
        (all_told, all_started), (size_told, size_started), (user_told, user_started), (work_told, work_started) = (
            (self._told[name].elsewhere(told), self._told[name].elsewhere(counted))
            for name in ("all", "size", "user", "work")
        )
        overall = np.maximum((1 + all_told) / (TOLD_EVERY + all_started), LOWEST_TOLD_RATE)
        of_size = (PRIOR_STARTS * overall + size_told) / (PRIOR_STARTS + size_started)
        base = np.maximum(overall, of_size) * self._starts.by_chance[self.judged[self.told]]
        of_user = (USER_STARTS * base + user_told - work_told) / (USER_STARTS + user_started - work_started)
        of_work = (WORK_STARTS * of_user + work_told) / (WORK_STARTS + work_started)
        return np.clip(np.maximum(base, of_work), 0.0, 1 - _LOWEST_RATE)

    def _base_elsewhere(self, failed: Counts, counted: Counts) -> Counts:
        """The chance of each failure of unknown cause from all jobs of its size that ran on other nodes."""
        starts, nodes = self._starts, len(self._starts.nodes)
        size, node = starts.size[starts.at_job[self._unknown_rows]], starts.at_node[self._unknown_rows]
        left = []
        for weight in (failed, counted):
            by_size = np.bincount(starts.size, weights=weight, minlength=SIZE_CLASSES)
            key = starts.at_node * SIZE_CLASSES + starts.size[starts.at_job]
            here = np.bincount(key, weights=weight[starts.at_job], minlength=nodes * SIZE_CLASSES)
            left.append(by_size - here.reshape(nodes, SIZE_CLASSES))
        overall = [(PRIOR_RATE * PRIOR_STARTS, PRIOR_STARTS)[at] + side.sum(axis=1) for at, side in enumerate(left)]
        towards = (overall[0] / overall[1])[node]
        found: Counts = (towards * PRIOR_STARTS + left[0][node, size]) / (PRIOR_STARTS + left[1][node, size])
        return found

    def _counted(self, kinds: tuple[int, ...], explained: Flags) -> tuple[Counts, Counts]:
        """Which jobs are counted, and which of them failed in one of these ways."""
        kind = self._starts.kind
        failed = np.isin(kind, kinds) & ~explained
        return ((kind == ENDED_WELL) | failed).astype(np.float64), failed.astype(np.float64)


def _groups(starts: Starts, *names: str) -> list[tuple[str, Indexes]]:
    known = {"all": np.zeros_like(starts.user), "size": starts.size, "user": starts.user, "work": starts.work}
    return [(name, known[name]) for name in names]


class _Before:
    """For each judged failure: what the other jobs of the same group (a user's, a work's) did elsewhere, and those on
    the same node before it."""

    def __init__(self, starts: Starts, group: Indexes, judged: Indexes) -> None:
        self._starts, self._group = starts, group
        key = starts.at_node * (int(group.max(initial=0)) + 1) + group[starts.at_job]
        same = np.flatnonzero(np.isin(key, np.unique(key[judged])))
        self._order = same[np.argsort(key[same], kind="stable")]
        ordered = key[self._order]
        first = np.ones(len(ordered), dtype=np.bool_)
        first[1:] = ordered[1:] != ordered[:-1]
        self._run = np.cumsum(first) - 1
        place = np.zeros(len(key), dtype=np.int64)
        place[self._order] = np.arange(len(ordered))
        self._place = place[judged]
        self._jobs = starts.at_job[judged]

    def elsewhere(self, weight: Counts) -> Counts:
        """The sum of ``weight`` (one for each job)."""
        total = np.bincount(self._group, weights=weight, minlength=1)[self._group[self._jobs]]
        here = weight[self._starts.at_job[self._order]]
        so_far = np.cumsum(here)
        by_run = np.bincount(self._run, weights=here, minlength=1)
        before_run = np.cumsum(by_run) - by_run
        run = self._run[self._place]
        before = so_far[self._place] - here[self._place] - before_run[run]
        found: Counts = total - by_run[run] + before
        return found


def _shrunk(towards: float, worth: float, failed: float, started: float) -> float:
    return float((towards * worth + failed) / (worth + started))
