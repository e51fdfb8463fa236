"""Which nodes end the jobs that run on them: a ranking that holds with three failures, looked at every day.

For each node the hypothesis "it is as good as any" is bet against: ``evidence`` is an e-value, the likelihood of what
happened if the node itself ended a share q of its jobs (averaged over q, and over having been bad always or since some
day), over that if it had no part in it. Under the hypothesis an e-value exceeds K with a chance of at most 1/K, however
often one looks (Ville; see Ramdas et al., "Game-theoretic statistics and safe anytime-valid inference", 2023). One of N
nodes is named from N / ALPHA on: then the chance that any good node is ever named is at most ALPHA. To hold only the
share of wrong names, as false discovery rates do, would be too little where a name takes a node out of service.

Who failed where is not enough where jobs share nodes: a node is only named if the bar is reached as well when any two
of the nodes that failed beside it, and that nothing speaks for, are taken for the culprits. What one user's jobs do
counts as one failure, and without any one user's something must be left, so that nobody can get a node out of service
alone; a platform's own word counts each time.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import combinations
from types import MappingProxyType

import numpy as np

from analyzers.failures.past.background import Background
from analyzers.failures.past.bets import (
    BY_LOG,
    BY_PLATFORM,
    ENDS,
    LOG_PRIOR,
    interval,
    log10_mean,
    log_sum,
    mean,
    one_for_each,
)
from analyzers.failures.past.starts import ENDED_WELL, PROVEN, Counts, Flags, Indexes, Starts, starts_of
from analyzers.types import FailureRecord

#: The chance that a good node is named at all in the time that is looked at.
ALPHA = 0.05
#: How likely a bad node is so from the beginning, rather than since a day that is as likely as another.
_FROM_THE_BEGINNING = 0.2
#: Before anything is known the platform blames a good node once in so many starts, which is worth as many as that; it
#: is never taken to do so less often than this.
_PROVEN_EVERY = 2000.0
_PROVEN_WORTH = 1000.0
_LOWEST_PROVEN_RATE = 1e-4
#: Of the nodes that failed beside one, so many of the worst are taken for the culprits, two at a time.
_MOST_RIVALS = 6
#: One failure is not blamed on a node for good, whoever tells it.
_FEWEST_FAILURES = 2
#: Fewer since it turned bad name no node, unless the platform itself tells of two.
_FEWEST_TO_NAME = 3
_PLATFORM_COUNTS = 1.5
#: Powers of ten of evidence that must be left when one user's failures are taken away, where no platform says anything.
_LEFT_WITHOUT_ONE_USER = 1.0
_DAY_S = 86_400.0
_NONE: Indexes = np.zeros(0, dtype=np.int64)


@dataclass(frozen=True, slots=True)
class NodeStanding:
    """What is known of one node. ``failures`` may be its fault, ``proven`` of them on the platform's word, ``by_log``
    on a job's log alone; ``expected`` is how many a good node would have seen; ``users`` whose jobs failed.
    ``evidence`` is log10 of the e-value, ``needed`` the bar; ``ends_share`` the likely share of its jobs that it ends
    (5 %, mean, 95 %). ``beside``: nodes from which it can not be told apart."""

    node: str
    named: bool
    starts: int
    failures: int
    proven: int
    by_log: int
    users: int
    expected: float
    evidence: float
    needed: float
    ends_share: tuple[float, float, float]
    beside: tuple[str, ...] = ()


def rank_nodes(
    records: Iterable[FailureRecord], *, nodes_total: int = 0, alpha: float = ALPHA
) -> tuple[NodeStanding, ...]:
    """All nodes with a failure that may be theirs, the worst first. ``records`` come in order of time; ``nodes_total``
    is how many nodes there are where not all of them have run a job."""
    return rank_starts(starts_of(records), nodes_total=nodes_total, alpha=alpha)


def rank_starts(starts: Starts, *, nodes_total: int = 0, alpha: float = ALPHA) -> tuple[NodeStanding, ...]:
    """The same from arrays that are there already."""
    if not len(starts.kind):
        return ()
    return _Ranking(starts, max(nodes_total, len(starts.nodes)), alpha).standings()


class _Ranking:
    """The nodes of one set of starts; those that are blamed so far, with the share of jobs that they end: what they
    explain is no background of the others, and they are named once they have ended enough jobs."""

    def __init__(self, starts: Starts, nodes_total: int, alpha: float) -> None:
        self.starts = starts
        self.nodes_total, self.alpha = nodes_total, alpha
        self.background = Background(starts)
        self.blamed: dict[int, float] = {}
        self.beside: dict[int, tuple[int, ...]] = {}
        count = len(starts.nodes)
        kind = starts.kind[starts.at_job]
        self.day_of: Indexes = ((starts.at_s - starts.at_s[0]) // _DAY_S).astype(np.int64)
        self.days = int(self.day_of[-1]) + 1
        self.started = np.bincount(starts.at_node, minlength=count)
        blamed = (kind == PROVEN) & starts.culprit
        self.proven = np.bincount(starts.at_node[blamed], minlength=count)
        self.proven_days = self._days_by_node(blamed)
        judged = self.background.judged
        self.job_of, self.node_of = starts.at_job[judged], starts.at_node[judged]
        self.failures = np.bincount(self.node_of, minlength=count)
        self.rows_of: dict[int, Indexes] = {
            int(node): np.flatnonzero(self.node_of == node) for node in np.unique(self.node_of)
        }
        wanted = (self.failures > 1) | (self.proven > 0)
        self.well_days = self._days_by_node((kind == ENDED_WELL) & wanted[starts.at_node])
        self.rates: Counts = np.zeros(0)

    def _days_by_node(self, chosen: Flags) -> dict[int, Indexes]:
        nodes, days = self.starts.at_node[chosen], self.day_of[self.starts.at_job[chosen]]
        order = np.argsort(nodes, kind="stable")
        ids, first = np.unique(nodes[order], return_index=True)
        return dict(zip(map(int, ids), np.split(days[order], first[1:]), strict=True)) if len(ids) else {}

    def standings(self) -> tuple[NodeStanding, ...]:
        """Blame nodes one by one, the clearest first, until no other passes."""
        suspects = [int(node) for node in np.flatnonzero((self.failures > 1) | (self.proven > 0))]
        while True:
            self.rates = self._rates()
            bets = {node: self._bets(node) for node in suspects}
            evidence = {node: log10_mean(bets[node]) for node in suspects}
            open_ = sorted((node for node in suspects if node not in self.blamed), key=lambda n: -evidence[n])
            if not any(self._passes(node, evidence) for node in open_):
                return self._told(bets, evidence)

    def _needed(self) -> float:
        return float(np.log10(self.nodes_total / self.alpha))

    def _passes(self, node: int, evidence: dict[int, float]) -> bool:
        """Blame the node if it reaches the bar, whichever others are taken for the culprits."""
        needed = self._needed()
        if self.failures[node] + self.proven[node] < _FEWEST_FAILURES:
            return False
        if evidence[node] < needed or not (self.proven[node] or self._holds_without_any_user(node)):
            return False
        rivals = [rival for rival in self._rivals(node) if self._evidence(rival, evidence) > 0]
        likely = sorted(rivals, key=lambda rival: -evidence[rival])[:_MOST_RIVALS]
        ends = {rival: mean(self._bets(rival)) for rival in likely}
        pairs: list[tuple[int, ...]] = [*combinations(likely, 2)] or [(rival,) for rival in likely]
        for pair in pairs:
            if log10_mean(self._bets(node, {rival: ends[rival] for rival in pair})) < needed:
                self.beside[node] = pair
                return False
        self.blamed[node] = mean(self._bets(node))
        return True

    def _ended_enough(self, node: int) -> bool:
        """Whether the bar is reached by enough failures since the node may have turned bad, one of each user."""
        users = len(np.unique(self.starts.user[self.job_of[self.rows_of.get(node, _NONE)]]))
        many = users + _PLATFORM_COUNTS * int(self.proven[node]) >= _FEWEST_TO_NAME
        return many and log10_mean(self._bets(node, fewest=_FEWEST_TO_NAME)) >= self._needed()

    def _holds_without_any_user(self, node: int) -> bool:
        """Whether something is left when the failures of any one user are taken away: no one person decides."""
        users = set(self.starts.user[self.job_of[self.rows_of[node]]].tolist())
        return all(log10_mean(self._bets(node, without_user=user)) >= _LEFT_WITHOUT_ONE_USER for user in users)

    def _evidence(self, node: int, known: dict[int, float]) -> float:
        if node not in known:
            known[node] = log10_mean(self._bets(node))
        return known[node]

    def _rivals(self, node: int) -> list[int]:
        """Nodes that failed together with this one and are not blamed."""
        jobs = self.job_of[self.rows_of.get(node, _NONE)]
        others = np.unique(self.node_of[np.isin(self.job_of, jobs)])
        return [int(other) for other in others if other != node and int(other) not in self.blamed]

    def _rates(self) -> Counts:
        explained = np.zeros(len(self.starts.kind), dtype=np.bool_)
        for node in self.blamed:
            explained[self.job_of[self.rows_of.get(node, _NONE)]] = True
        return self.background.rates(explained)

    def _bets(
        self,
        node: int,
        rivals: Mapping[int, float] = MappingProxyType({}),
        without_user: int | None = None,
        fewest: int = 1,
    ) -> Counts:
        """The log of the bet's worth for each share and way to show: bad always, or since some day with at least so
        many failures from then on, of each user one and each that the platform tells."""
        rows = self.rows_of.get(node, _NONE)
        if without_user is not None:
            rows = rows[self.starts.user[self.job_of[rows]] != without_user]
        each = self._failures_worth(node, rows, {**self.blamed, **rivals})
        users, days = self.starts.user[self.job_of[rows]], self.day_of[self.job_of[rows]]
        proven_days = self.proven_days.get(node, _NONE)
        proven = self._proven_worth(node, len(proven_days))
        well_days = self.well_days.get(node, _NONE)

        def since(day: int) -> Counts:
            worth: Counts = np.count_nonzero(well_days >= day) * np.log1p(-ENDS)
            worth += proven[proven_days >= day].sum(axis=0)
            worth += one_for_each(users[days >= day], each[days >= day])
            return worth

        def failures_since(day: int) -> float:
            told = int(np.count_nonzero(proven_days >= day))
            return len(np.unique(users[days >= day])) + _PLATFORM_COUNTS * told

        failed_days = map(int, np.unique(np.concatenate([days, proven_days])))
        turned = [since(day) for day in failed_days if fewest == 1 or failures_since(day) >= fewest]
        always = since(0) + np.log(_FROM_THE_BEGINNING)
        some_day = log_sum(turned) + np.log((1 - _FROM_THE_BEGINNING) / self.days) if turned else -np.inf
        bets: Counts = LOG_PRIOR + np.logaddexp(always, some_day)
        return bets

    def _failures_worth(self, node: int, rows: Indexes, blamed: dict[int, float]) -> Counts:
        """The log of what each failure is worth that the platform blames nobody for, one row each."""
        rate = self.rates[rows]
        for other, ends in blamed.items():
            if other != node:
                here = np.isin(self.job_of[rows], self.job_of[self.rows_of.get(other, _NONE)])
                rate = np.where(here, 1 - (1 - rate) * (1 - ends), rate)
        in_this_way = np.where(self.background.told[rows][:, None], BY_LOG, 1 - BY_PLATFORM - BY_LOG)
        worth: Counts = np.log(in_this_way * ENDS + (1 - ENDS) * rate[:, None]) - np.log(rate)[:, None]
        return worth

    def _proven_worth(self, node: int, count: int) -> Counts:
        """The log of what each failure is worth that the platform blames the node for, one row each: against how
        often it blames other nodes, and those before on this one."""
        if not count:
            return np.zeros((0, len(ENDS)))
        others = np.ones(len(self.proven), dtype=np.bool_)
        others[[node, *self.blamed]] = False
        blamed = float(self.proven[others].sum()) + _PROVEN_WORTH / _PROVEN_EVERY + np.arange(count)
        rate = np.maximum(blamed / (float(self.started[others].sum()) + _PROVEN_WORTH), _LOWEST_PROVEN_RATE)[:, None]
        worth: Counts = np.log(BY_PLATFORM * ENDS + (1 - ENDS) * rate) - np.log(rate)
        return worth

    def _told(self, bets: dict[int, Counts], evidence: dict[int, float]) -> tuple[NodeStanding, ...]:
        starts = self.starts
        nobody: Flags = np.zeros(len(starts.kind), dtype=np.bool_)
        chance = self.background.base(nobody)[starts.size[starts.at_job]]
        expected = np.bincount(starts.at_node, weights=chance, minlength=len(starts.nodes))
        told = [
            NodeStanding(
                node=starts.nodes[node],
                named=node in self.blamed and self._ended_enough(node),
                starts=int(self.started[node]),
                failures=int(self.failures[node] + self.proven[node]),
                proven=int(self.proven[node]),
                by_log=int(np.count_nonzero(self.background.told[self.rows_of.get(node, _NONE)])),
                users=self._users(node),
                expected=round(float(expected[node]), 2),
                evidence=round(evidence[node], 2),
                needed=round(self._needed(), 2),
                ends_share=interval(bets[node]),
                beside=tuple(starts.nodes[other] for other in self.beside.get(node, ()) if node not in self.blamed),
            )
            for node in bets
        ]
        return tuple(sorted(told, key=lambda each: (not each.named, -each.evidence, each.node)))

    def _users(self, node: int) -> int:
        starts = self.starts
        blamed = starts.at_job[(starts.at_node == node) & starts.culprit]
        rows = self.rows_of.get(node, _NONE)
        users = {starts.users[user] for user in starts.user[np.concatenate([blamed, self.job_of[rows]])]}
        return len(users - {""})
