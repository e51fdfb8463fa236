"""Victims for a gang that needs many nodes: nodes are cleared one after the other, the cheapest first.

A node costs what its victims do, each shared by all nodes that its going would help to clear: a gang that holds twenty
nodes is one victim, and its nodes come cheap. Once a victim is chosen its other nodes cost nothing more for it.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from heapq import heapify, heappop, heappush

import numpy as np

from schedmate.scheduler.cluster import Index
from schedmate.scheduler.demand import Demand
from schedmate.scheduler.eviction_rules import Candidate, Rules, Toll
from schedmate.scheduler.free_index import FreeIndex
from schedmate.scheduler.placement import View
from schedmate.scheduler.placement.fit import by_node
from schedmate.scheduler.pool_index import PoolIndex
from schedmate.scheduler.pool_layout import Ints
from schedmate.scheduler.vacated import Vacated, Victims

#: Groups of a required level in which nodes are cleared: those in which that seems cheapest.
MOST_GROUPS = 4

#: What lost GPU time weighs beside one more victim, at most.
LOST_WEIGHT = 1e-3

#: From a node to before another.
Span = tuple[int, int]


def clear_nodes(
    what_if: Vacated, cleared: Index, rules: Rules, candidates: Sequence[Candidate], most_gpus: float
) -> Victims | None:
    """Victims none of whom can stay; None where there are none, or where they can not be found node by node.
    ``cleared`` is the pool when all candidates have left, on which the gang has a placement. Nothing more is cleared
    where there is room enough by number and candidates of ``most_gpus`` have been chosen."""
    room = _Room(what_if, cleared, candidates)
    best: Victims | None = None
    for span in room.cheapest_spans():
        found = _Clearing(what_if, rules, candidates, room, span, most_gpus).run()
        if found is not None and (best is None or found.price < best.price):
            best = found
    return best


class _Room:
    """Replicas of the largest role by node: ``now`` and ``gained`` when all candidates have left. ``weight`` of each
    candidate, and the nodes that it helps to clear."""

    def __init__(self, what_if: Vacated, cleared: Index, candidates: Sequence[Candidate]) -> None:
        self._what_if = what_if
        self.need, self.now = _room(what_if.view(what_if.index), what_if.index, what_if.demand)
        self.gained = np.maximum(_room(what_if.view(cleared), cleared, what_if.demand)[1] - self.now, 0)
        most = max((each.lost_gpu_s for each in candidates), default=0.0) or 1.0
        gained = self.gained.tolist()
        self.weight = {each.slot: 1.0 + LOST_WEIGHT * each.lost_gpu_s / most for each in candidates}
        self.nodes = {
            each.slot: sorted(node for node in {share[0] for share in what_if.shares_of(each)} if gained[node])
            for each in candidates
        }
        self.there: dict[int, list[Candidate]] = {}
        for each in candidates:
            for node in self.nodes[each.slot]:
                self.there.setdefault(node, []).append(each)

    def cost(self, node: int, chosen: dict[int, Candidate], span: Span) -> float:
        """Of one more replica on a node."""
        first, end = span
        total = 0.0
        for each in self.there[node]:
            if each.slot not in chosen:
                nodes = self.nodes[each.slot]
                total += self.weight[each.slot] / (bisect_left(nodes, end) - bisect_left(nodes, first))
        return total / int(self.gained[node])

    def cheapest_spans(self) -> list[Span]:
        """Runs of nodes inside which the gang has to stay and could, by what clearing them seems to cost."""
        found: list[tuple[float, Span]] = []
        for span in _spans(self._what_if.index, self._what_if.demand):
            first, end = span
            missing = self.need - int(self.now[first:end].sum())
            if missing > int(self.gained[first:end].sum()):
                continue
            nodes = (np.flatnonzero(self.gained[first:end]) + first).tolist()
            seems = 0.0
            for cost, node in sorted((self.cost(node, {}, span), node) for node in nodes):
                if missing <= 0:
                    break
                seems += cost * min(missing, int(self.gained[node]))
                missing -= int(self.gained[node])
            found.append((seems, span))
        return [span for _, span in sorted(found)[:MOST_GROUPS]]


class _Clearing:
    """Clears nodes of one run until the gang fits, then puts back whoever may stay. Leaves ``what_if`` as it was."""

    def __init__(
        self,
        what_if: Vacated,
        rules: Rules,
        candidates: Sequence[Candidate],
        room: _Room,
        span: Span,
        most_gpus: float,
    ) -> None:
        self._what_if, self._rules, self._candidates, self._room, self._span = what_if, rules, candidates, room, span
        self._toll = Toll()
        self._chosen: dict[int, Candidate] = {}
        self._gpus, self._most_gpus = 0, most_gpus

    def run(self) -> Victims | None:
        """The victims, and where the gang goes."""
        try:
            return self._pruned() if self._is_enough_after_nodes() or self._is_enough_after_others() else None
        finally:
            for each in self._chosen.values():
                self._what_if.put_back(each)

    def _is_enough_after_nodes(self) -> bool:
        room, (first, end) = self._room, self._span
        nodes = (np.flatnonzero(room.gained[first:end]) + first).tolist()
        costs = {node: room.cost(node, self._chosen, self._span) for node in nodes}
        heap = [(cost, node) for node, cost in costs.items()]
        heapify(heap)
        have = int(room.now[first:end].sum())
        while True:
            if have >= room.need and self._is_enough():
                return True
            if not heap or (have >= room.need and self._gpus >= self._most_gpus):
                return False
            cost, node = heappop(heap)
            if costs.get(node) != cost:
                continue
            del costs[node]
            added = [each for each in room.there[node] if each.slot not in self._chosen]
            if not self._choose(added):
                continue
            have += int(room.gained[node])
            for other in {other for each in added for other in room.nodes[each.slot] if other in costs}:
                costs[other] = room.cost(other, self._chosen, self._span)
                heappush(heap, (costs[other], other))

    def _is_enough_after_others(self) -> bool:
        """Where nodes are not what is lacking: quota that others hold, or what roles need besides GPUs. As few of the
        others in their order as will do: more of them never make it worse, so that the number is found by halving.
        """
        others = self._others()
        if not others or not self._choose(others) or not self._is_enough():
            return False
        too_few, enough, chosen = 0, len(others), len(others)
        while enough > too_few + 1:
            middle = (too_few + enough) // 2
            self._choose_first(others, chosen, middle)
            chosen = middle
            if self._is_enough():
                enough = middle
            else:
                too_few = middle
        self._choose_first(others, chosen, enough)
        return True

    def _others(self) -> list[Candidate]:
        """Those not chosen that may leave beside them, in order, up to the limit in GPUs."""
        rules, toll, found, gpus = self._rules, self._toll, list[Candidate](), self._gpus
        for each in self._candidates:
            if gpus >= self._most_gpus:
                break
            if each.slot not in self._chosen and self._adds([each]):
                found.append(each)
                gpus += each.gpus
        # Without a reason beside all of them there is none beside fewer.
        kept = [each for each in found if rules.has_reason_for(each, toll)]
        for each in found:
            rules.add(toll, each, -1)
        return kept

    def _choose_first(self, others: Sequence[Candidate], chosen: int, wanted: int) -> None:
        """So many of the others, of which so many are chosen."""
        if wanted > chosen:
            self._choose(others[chosen:wanted])
        for each in others[wanted:chosen]:
            self._leave_out(each)

    def _leave_out(self, each: Candidate) -> None:
        """One of those that were chosen stays after all."""
        del self._chosen[each.slot]
        self._rules.add(self._toll, each, -1)
        self._what_if.put_back(each)
        self._gpus -= each.gpus

    def _choose(self, added: Sequence[Candidate]) -> bool:
        """Add all of them or none."""
        if not self._adds(added):
            return False
        self._what_if.free(added)
        self._chosen.update((each.slot, each) for each in added)
        self._gpus += sum(each.gpus for each in added)
        return True

    def _adds(self, added: Sequence[Candidate]) -> bool:
        """Add to what is held by all of them or none, if the rules allow all."""
        rules, toll = self._rules, self._toll
        for i, each in enumerate(added):
            if not rules.may_add(toll, each):
                for other in added[:i]:
                    rules.add(toll, other, -1)
                return False
            rules.add(toll, each)
        return True

    def _is_enough(self) -> bool:
        return (
            self._rules.has_quota(self._toll)
            and self._rules.has_reason(self._toll)
            and self._what_if.fits(self._what_if.index)
        )

    def _pruned(self) -> Victims | None:
        """Without those who may stay, the dearest first."""
        self._prune(sorted(self._chosen.values(), reverse=True))
        shares = self._what_if.place(self._what_if.index)
        return None if shares is None else Victims(tuple(sorted(self._chosen.values())), shares)

    def _prune(self, some: Sequence[Candidate]) -> None:
        """Leave out all of some that were chosen, or by halves as many as may stay: the same as one by one, because
        fewer victims never make it better."""
        for each in some:
            self._leave_out(each)
        if self._is_enough():
            return
        self._choose(some)
        if len(some) > 1:
            middle = len(some) // 2
            self._prune(some[:middle])
            self._prune(some[middle:])


def _room(view: View, index: Index, demand: Demand) -> tuple[int, Ints]:
    """Replicas of the largest role that the gang needs, and how many of them each node has room for."""
    if isinstance(view, PoolIndex):
        parts = view.layout.parts(demand)
        if isinstance(parts, str):
            return 1, np.zeros(view.layout.nodes, dtype=np.int64)
        part = max(parts, key=lambda each: each.gpus * each.replicas)
        need = demand.roles[part.role].least_replicas if demand.roles else part.replicas
        return need, np.maximum(by_node(view, part, view.layout.eligible(demand)), 0)
    size = min(demand.gpus, view.capacity)
    room = np.zeros(index.nodes if isinstance(index, FreeIndex) else 0, dtype=np.int64)
    for gpus in range(size, view.capacity + 1):
        room[_bits(view.masks[gpus])] = gpus // size
    return demand.gpus // size, room


def _bits(mask: int) -> list[int]:
    found = []
    while mask:
        low = mask & -mask
        found.append(low.bit_length() - 1)
        mask ^= low
    return found


def _spans(index: Index, demand: Demand) -> Iterator[Span]:
    """The runs of nodes of which one must hold the whole gang."""
    if not isinstance(index, PoolIndex):
        yield 0, index.nodes
        return
    layout, nodes = index.layout, index.layout.nodes
    if demand.required and demand.level in ("node", "island"):
        yield from ((node, node + 1) for node in range(nodes))
    elif demand.required and demand.level in layout.levels:
        starts = [layout.bounds[cell][0] for cell in layout.groups[demand.level].tolist()]
        yield from zip(starts, [*starts[1:], nodes], strict=True)
    else:
        yield 0, nodes
