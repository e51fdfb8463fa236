"""Starts of jobs on nodes as arrays, and how often a job would have failed whatever node it ran on."""

from __future__ import annotations

from array import array
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from analyzers.types import FailureRecord

#: Failures that a node may be at fault for. The others (code, data, limits, a cancel) say nothing about it.
SUSPECT = frozenset({"unknown", "infrastructure-hardware", "infrastructure-network"})
ENDED_WELL, FAILED, PROVEN = 0, 1, 2
#: Before anything is known a job of any size fails with this chance, worth so many starts.
PRIOR_RATE, PRIOR_STARTS = 0.05, 20.0
#: What is known of all jobs counts like so many starts of this user; what is known of the user like so many of this
#: work: after one failure of a work every third start of it is expected to fail, on whatever node.
USER_STARTS, WORK_STARTS = 10.0, 2.0
_SIZES = (1, 4, 16)
#: No failure is taken for less likely: what a user never saw elsewhere proves nothing by itself.
_LOWEST_RATE = 0.01

Counts = npt.NDArray[np.float64]
Indexes = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True, eq=False)
class Starts:
    """Jobs in order of time. ``kind``, ``user``, ``work`` and ``size`` (a class of sizes) have one entry for each job;
    ``at_job`` and ``at_node`` one for each node of each job, ``culprit`` tells where the platform blamed it."""

    nodes: tuple[str, ...]
    users: tuple[str, ...]
    at_s: Counts
    kind: Indexes
    user: Indexes
    work: Indexes
    size: Indexes
    at_job: Indexes
    at_node: Indexes
    culprit: Flags


def starts_of(records: Iterable[FailureRecord]) -> Starts:
    """The starts that say something about nodes: those whose nodes the scheduler told or the platform blamed."""
    nodes: dict[str, int] = {}
    users: dict[str, int] = {}
    works: dict[tuple[str, str], int] = {}
    kind, user, work, size = array("b"), array("q"), array("q"), array("q")
    at_job, at_node, culprit, at_s = array("q"), array("q"), array("b"), array("d")
    for record in records:
        how = kind_of(record)
        blamed = {short_name(node) for node in record.culprits} if how == PROVEN else set()
        ran_on = list(dict.fromkeys(map(short_name, record.nodes))) if record.nodes_told else sorted(blamed)
        if how is None or not ran_on:
            continue
        job = len(kind)
        kind.append(how)
        at_s.append(record.at_s)
        user.append(users.setdefault(record.user, len(users)))
        work.append(works.setdefault((record.user, record.work), len(works)))
        size.append(sum(len(ran_on) > most for most in _SIZES))
        for node in ran_on:
            at_job.append(job)
            at_node.append(nodes.setdefault(node, len(nodes)))
            culprit.append(node in blamed)
    return Starts(
        nodes=tuple(nodes),
        users=tuple(users),
        at_s=np.array(at_s, dtype=np.float64),
        kind=_whole(kind),
        user=_whole(user),
        work=_whole(work),
        size=_whole(size),
        at_job=_whole(at_job),
        at_node=_whole(at_node),
        culprit=np.array(culprit, dtype=np.bool_),
    )


def _whole(column: array[int]) -> Indexes:
    return np.array(column, dtype=np.int64)


def kind_of(record: FailureRecord) -> int | None:
    """How a start counts; None where it says nothing about a node."""
    if record.category == "none":
        return ENDED_WELL
    if record.culprits and record.category.startswith("infrastructure"):
        return PROVEN
    return FAILED if record.category in SUSPECT else None


def short_name(node: str) -> str:
    """A node's name without its domain."""
    return node.partition(".")[0]


class Background:
    """How likely each failure was if the node that is looked at were a good one.

    That is what other jobs of that size, of that user and of that very work did elsewhere, and on this node before:
    someone whose code fails everywhere proves nothing, nor does a job that is started over and over on one node.
    """

    def __init__(self, starts: Starts) -> None:
        self._starts = starts
        failed = starts.kind[starts.at_job] == FAILED
        #: Indexes into ``at_job`` of the failures that are judged.
        self.judged: Indexes = np.flatnonzero(failed)
        self._by_work = _Before(starts, starts.work, self.judged)
        self._by_user = _Before(starts, starts.user, self.judged)

    def base(self, explained: Flags) -> Counts:
        """The chance by class of size; ``explained`` marks jobs whose failure has a node to blame already."""
        starts = self._starts
        counted, failed = self._counted(explained)
        overall = _shrunk(PRIOR_RATE, PRIOR_STARTS, failed.sum(), counted.sum())
        classes = len(_SIZES) + 1
        return np.array(
            [
                _shrunk(overall, PRIOR_STARTS, failed[starts.size == c].sum(), counted[starts.size == c].sum())
                for c in range(classes)
            ]
        )

    def rates(self, explained: Flags) -> Counts:
        """The chance of each judged failure."""
        starts = self._starts
        counted, failed = self._counted(explained)
        jobs = starts.at_job[self.judged]
        work_failed, work_started = self._by_work.elsewhere(failed), self._by_work.elsewhere(counted)
        user_failed = self._by_user.elsewhere(failed) - work_failed
        user_started = self._by_user.elsewhere(counted) - work_started
        base = self._base_elsewhere(failed, counted, jobs)
        of_user = (USER_STARTS * base + user_failed) / (USER_STARTS + user_started)
        of_work = (WORK_STARTS * of_user + work_failed) / (WORK_STARTS + work_started)
        return np.clip(of_work, _LOWEST_RATE, 1 - _LOWEST_RATE)

    def _base_elsewhere(self, failed: Counts, counted: Counts, jobs: Indexes) -> Counts:
        """The chance of each judged failure from all jobs of its size that ran on other nodes."""
        starts, classes, nodes = self._starts, len(_SIZES) + 1, len(self._starts.nodes)
        size, node = starts.size[jobs], starts.at_node[self.judged]
        left = []
        for weight in (failed, counted):
            by_size = np.bincount(starts.size, weights=weight, minlength=classes)
            key = starts.at_node * classes + starts.size[starts.at_job]
            here = np.bincount(key, weights=weight[starts.at_job], minlength=nodes * classes).reshape(nodes, classes)
            left.append(by_size - here)
        overall = [(PRIOR_RATE * PRIOR_STARTS, PRIOR_STARTS)[at] + side.sum(axis=1) for at, side in enumerate(left)]
        towards = (overall[0] / overall[1])[node]
        found: Counts = (towards * PRIOR_STARTS + left[0][node, size]) / (PRIOR_STARTS + left[1][node, size])
        return found

    def _counted(self, explained: Flags) -> tuple[Counts, Counts]:
        kind = self._starts.kind
        failed = (kind == FAILED) & ~explained
        return ((kind == ENDED_WELL) | failed).astype(np.float64), failed.astype(np.float64)


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
