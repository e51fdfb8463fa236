"""Starts of jobs on nodes as arrays, and in what way each of them speaks against which nodes."""

from __future__ import annotations

from array import array
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from analyzers.types import FailureRecord

#: Failures that a node may be at fault for. The others (code, data, limits, a cancel) say nothing about it.
SUSPECT = frozenset({"unknown", "infrastructure-hardware", "infrastructure-network"})
#: How a start ended: a failure of unknown cause; one that the platform blames a node for; one that only logs of jobs
#: tell to be a node's fault.
ENDED_WELL, FAILED, PROVEN, TOLD = 0, 1, 2, 3
_SIZES = (1, 4, 16)
#: How many classes of sizes there are.
SIZE_CLASSES = len(_SIZES) + 1

Counts = npt.NDArray[np.float64]
Indexes = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True, eq=False)
class Starts:
    """Jobs in order of time. ``kind``, ``user``, ``work`` and ``size`` (a class of sizes) have one entry for each job;
    ``at_job`` and ``at_node`` one for each node of each job, ``culprit`` tells where it is blamed: by the platform, or
    by logs of jobs, which may mean any of the job's nodes; ``by_chance`` is the share of such blame that would meet the
    node if those were wrong."""

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
    by_chance: Counts

    def first(self, jobs: int) -> Starts:
        """What was known after so many of these jobs."""
        rows = int(np.searchsorted(self.at_job, jobs))
        at_node, user = self.at_node[:rows], self.user[:jobs]
        return Starts(
            nodes=self.nodes[: int(at_node.max(initial=-1)) + 1],
            users=self.users[: int(user.max(initial=-1)) + 1],
            at_s=self.at_s[:jobs],
            kind=self.kind[:jobs],
            user=user,
            work=self.work[:jobs],
            size=self.size[:jobs],
            at_job=self.at_job[:rows],
            at_node=at_node,
            culprit=self.culprit[:rows],
            by_chance=self.by_chance[:rows],
        )


def starts_of(records: Iterable[FailureRecord]) -> Starts:
    """The starts that say something about nodes: those whose nodes the scheduler told or the platform blamed."""
    nodes: dict[str, int] = {}
    users: dict[str, int] = {}
    works: dict[tuple[str, str], int] = {}
    kind, user, work, size = array("b"), array("q"), array("q"), array("q")
    at_job, at_node, culprit, by_chance, at_s = array("q"), array("q"), array("b"), array("d"), array("d")
    for record in records:
        how = kind_of(record)
        proven = {short_name(node) for node in record.culprits} if how == PROVEN else set()
        ran_on = list(dict.fromkeys(map(short_name, record.nodes))) if record.nodes_told else sorted(proven)
        if how is None or not ran_on:
            continue
        blamed = proven or (_accused(record, ran_on) if how == TOLD else set())
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
            by_chance.append(1.0 if node == ran_on[0] else len(blamed) / len(ran_on))
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
        by_chance=np.array(by_chance, dtype=np.float64),
    )


def _whole(column: array[int]) -> Indexes:
    return np.array(column, dtype=np.int64)


def kind_of(record: FailureRecord) -> int | None:
    """How a start counts; None where it says nothing about a node."""
    if record.category == "none":
        return ENDED_WELL
    if record.culprits and (record.node_fault or record.category.startswith("infrastructure")):
        return PROVEN
    if record.node_fault:
        return TOLD
    return FAILED if record.category in SUSPECT else None


def _accused(record: FailureRecord, ran_on: list[str]) -> set[str]:
    """Which of its nodes a job's logs mean: those that they name, or any of them where they name none. A node that the
    job did not run on is none of them."""
    return {short_name(node) for node in record.accused} & set(ran_on) or set(ran_on)


def short_name(node: str) -> str:
    """A node's name without its domain."""
    return node.partition(".")[0]
