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

from analyzers.failures.past.starts import ENDED_WELL, PROVEN, Background, Counts, Flags, Indexes, Starts, starts_of
from analyzers.types import FailureRecord

#: The chance that a good node is named at all in the time that is looked at.
ALPHA = 0.05
#: Shares of its jobs that a bad node ends, and shares of those that the platform tells of: each as likely as another.
_ENDS, _TOLD = np.meshgrid(np.linspace(0.05, 0.95, 19), np.array([0.1, 0.5]), indexing="ij")
_Q, _PHI = _ENDS.ravel(), _TOLD.ravel()
#: Before anything is known the platform blames a good node once in so many starts.
_PROVEN_EVERY = 2000.0
_PROVEN_WORTH = 1000.0
#: Of the nodes that failed beside one, so many of the worst are taken for the culprits, two at a time.
_MOST_RIVALS = 6
#: One failure, whoever tells it, takes no node out of service.
_FEWEST_FAILURES = 2
#: Powers of ten of evidence that must be left when one user's failures are taken away, where no platform says anything.
_LEFT_WITHOUT_ONE_USER = 1.0
_DAY_S = 86_400.0
_NONE: Indexes = np.zeros(0, dtype=np.int64)


@dataclass(frozen=True, slots=True)
class NodeStanding:
    """What is known of one node. ``failures`` may be its fault, ``proven`` of them the platform's word; ``expected`` is
    how many a good node would have seen; ``users`` whose jobs failed. ``evidence`` is log10 of the e-value, ``needed``
    the bar; ``ends_share`` the likely share of its jobs that it ends (5 %, mean, 95 %). ``beside``: nodes from which it
    can not be told apart."""

    node: str
    named: bool
    starts: int
    failures: int
    proven: int
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
    starts = starts_of(records)
    if not len(starts.kind):
        return ()
    return _Ranking(starts, max(nodes_total, len(starts.nodes)), alpha).standings()


class _Ranking:
    """The nodes of one set of starts; those that are named so far, with the share of jobs that they end."""

    def __init__(self, starts: Starts, nodes_total: int, alpha: float) -> None:
        self.starts = starts
        self.nodes_total, self.alpha = nodes_total, alpha
        self.background = Background(starts)
        self.named: dict[int, float] = {}
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
        """Name nodes one by one, the clearest first, until no other passes."""
        suspects = [int(node) for node in np.flatnonzero((self.failures > 1) | (self.proven > 0))]
        while True:
            self.rates = self._rates()
            evidence = {node: _log10_mean(self._bets(node)) for node in suspects}
            open_ = sorted((node for node in suspects if node not in self.named), key=lambda n: -evidence[n])
            if not any(self._passes(node, evidence) for node in open_):
                return self._told(suspects, evidence)

    def _needed(self) -> float:
        return float(np.log10(self.nodes_total / self.alpha))

    def _passes(self, node: int, evidence: dict[int, float]) -> bool:
        """Name the node if it reaches the bar, whichever others are taken for the culprits."""
        needed = self._needed()
        if self.failures[node] + self.proven[node] < _FEWEST_FAILURES:
            return False
        if evidence[node] < needed or not (self.proven[node] or self._holds_without_any_user(node)):
            return False
        rivals = [rival for rival in self._rivals(node) if self._evidence(rival, evidence) > 0]
        likely = sorted(rivals, key=lambda rival: -evidence[rival])[:_MOST_RIVALS]
        ends = {rival: _mean(self._bets(rival)) for rival in likely}
        pairs: list[tuple[int, ...]] = [*combinations(likely, 2)] or [(rival,) for rival in likely]
        for pair in pairs:
            if _log10_mean(self._bets(node, {rival: ends[rival] for rival in pair})) < needed:
                self.beside[node] = pair
                return False
        self.named[node] = _mean(self._bets(node))
        return True

    def _holds_without_any_user(self, node: int) -> bool:
        """Whether something is left when the failures of any one user are taken away: no one person decides."""
        users = set(self.starts.user[self.job_of[self.rows_of[node]]].tolist())
        return all(_log10_mean(self._bets(node, without_user=user)) >= _LEFT_WITHOUT_ONE_USER for user in users)

    def _evidence(self, node: int, known: dict[int, float]) -> float:
        if node not in known:
            known[node] = _log10_mean(self._bets(node))
        return known[node]

    def _rivals(self, node: int) -> list[int]:
        """Nodes that failed together with this one and are not named."""
        jobs = self.job_of[self.rows_of.get(node, _NONE)]
        others = np.unique(self.node_of[np.isin(self.job_of, jobs)])
        return [int(other) for other in others if other != node and int(other) not in self.named]

    def _rates(self) -> Counts:
        explained = np.zeros(len(self.starts.kind), dtype=np.bool_)
        for node in self.named:
            explained[self.job_of[self.rows_of.get(node, _NONE)]] = True
        return self.background.rates(explained)

    def _bets(
        self, node: int, rivals: Mapping[int, float] = MappingProxyType({}), without_user: int | None = None
    ) -> Counts:
        """The log of the bet's worth for each share and told share: bad always or, as likely, since some day."""
        rows = self.rows_of.get(node, _NONE)
        if without_user is not None:
            rows = rows[self.starts.user[self.job_of[rows]] != without_user]
        each = self._failures_worth(node, rows, {**self.named, **rivals})
        users, days = self.starts.user[self.job_of[rows]], self.day_of[self.job_of[rows]]
        proven_days = self.proven_days.get(node, _NONE)
        proven = self._proven_worth(node) if len(proven_days) else np.zeros(len(_Q))
        well_days = self.well_days.get(node, _NONE)

        def since(day: int) -> Counts:
            worth: Counts = np.count_nonzero(well_days >= day) * np.log1p(-_Q) + np.count_nonzero(
                proven_days >= day
            ) * np.asarray(proven)
            worth += _one_for_each(users[days >= day], each[days >= day])
            return worth

        turned = [since(int(day)) for day in np.unique(np.concatenate([days, proven_days]))]
        bets: Counts = np.logaddexp(since(0), _log_sum(turned) - np.log(self.days)) - np.log(2)
        return bets

    def _failures_worth(self, node: int, rows: Indexes, blamed: dict[int, float]) -> Counts:
        """The log of what each failure of unknown cause is worth, one row each."""
        rate = self.rates[rows]
        for other, ends in blamed.items():
            if other != node:
                here = np.isin(self.job_of[rows], self.job_of[self.rows_of.get(other, _NONE)])
                rate = np.where(here, 1 - (1 - rate) * (1 - ends), rate)
        bad: Counts = ((1 - _PHI) * _Q)[None, :] + (1 - _Q)[None, :] * rate[:, None]
        worth: Counts = np.log(bad) - np.log(rate)[:, None]
        return worth

    def _proven_worth(self, node: int) -> Counts:
        """The log of what one failure is worth that the platform blames the node for."""
        others = np.ones(len(self.proven), dtype=np.bool_)
        others[[node, *self.named]] = False
        blamed = float(self.proven[others].sum()) + _PROVEN_WORTH / _PROVEN_EVERY
        rate = blamed / (float(self.started[others].sum()) + _PROVEN_WORTH)
        worth: Counts = np.log(_PHI * _Q + (1 - _Q) * rate) - np.log(rate)
        return worth

    def _told(self, suspects: list[int], evidence: dict[int, float]) -> tuple[NodeStanding, ...]:
        starts = self.starts
        nobody: Flags = np.zeros(len(starts.kind), dtype=np.bool_)
        chance = self.background.base(nobody)[starts.size[starts.at_job]]
        expected = np.bincount(starts.at_node, weights=chance, minlength=len(starts.nodes))
        told = [
            NodeStanding(
                node=starts.nodes[node],
                named=node in self.named,
                starts=int(self.started[node]),
                failures=int(self.failures[node] + self.proven[node]),
                proven=int(self.proven[node]),
                users=self._users(node),
                expected=round(float(expected[node]), 2),
                evidence=round(evidence[node], 2),
                needed=round(self._needed(), 2),
                ends_share=_interval(self._bets(node)),
                beside=tuple(starts.nodes[other] for other in self.beside.get(node, ()) if node not in self.named),
            )
            for node in suspects
        ]
        return tuple(sorted(told, key=lambda each: (not each.named, -each.evidence, each.node)))

    def _users(self, node: int) -> int:
        starts = self.starts
        blamed = starts.at_job[(starts.at_node == node) & starts.culprit]
        rows = self.rows_of.get(node, _NONE)
        users = {starts.users[user] for user in starts.user[np.concatenate([blamed, self.job_of[rows]])]}
        return len(users - {""})


def _one_for_each(users: Indexes, each: Counts) -> Counts:
    """The sum over users of what their failures are worth together, but no more than the best single one of them."""
    worth = np.zeros(len(_Q))
    for user in set(users.tolist()):
        mine = each[users == user]
        worth += np.minimum(mine.sum(axis=0), mine.max(axis=0))
    return worth


def _log_sum(worths: list[Counts]) -> Counts:
    found: Counts = np.logaddexp.reduce(np.stack(worths), axis=0)
    return found


def _log10_mean(worth: Counts) -> float:
    highest = worth.max()
    return float((highest + np.log(np.exp(worth - highest).mean())) / np.log(10))


def _mean(worth: Counts) -> float:
    weight = np.exp(worth - worth.max())
    return float((weight * _Q).sum() / weight.sum())


def _interval(worth: Counts) -> tuple[float, float, float]:
    weight = np.exp(worth - worth.max())
    order = np.argsort(_Q, kind="stable")
    upto = np.cumsum(weight[order]) / weight.sum()
    low, high = (float(_Q[order][np.searchsorted(upto, share)]) for share in (0.05, 0.95))
    return round(low, 2), round(_mean(worth), 2), round(high, 2)
