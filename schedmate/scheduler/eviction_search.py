"""The fewest running jobs whose going lets a waiting one start: found on a copy of the pool, by real placements.

What is found is minimal: with any one of the victims left where it is, the gang has no placement. Where the gang is one
replica, or few jobs may be evicted at all, it is also the cheapest: fewest victims, then least GPU time lost. For wider
gangs nodes are cleared one after the other, those first that cost least for each replica they make room for, and what
turns out not to be needed stays.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations

from schedmate.scheduler.clearing import clear_nodes
from schedmate.scheduler.cluster_types import Shares
from schedmate.scheduler.demand import Demand
from schedmate.scheduler.eviction_rules import Candidate, Rules, Toll
from schedmate.scheduler.free_index import FreeIndex
from schedmate.scheduler.vacated import Vacated, Victims

#: So many jobs are tried in all combinations.
FEW = 9

#: Placements tried for the cheapest victims of a single replica, before nodes are cleared one by one.
MOST_TRIED = 400

#: Combinations of victims looked at for a single replica, at most, and of victims on one node.
MOST_COMBINATIONS = 20_000
MOST_ON_A_NODE = 10


def find_victims(what_if: Vacated, rules: Rules, candidates: Sequence[Candidate]) -> Victims | None:
    """Victims for a gang that has no placement now, or no quota; ``candidates`` are least price first."""
    cleared = what_if.without(candidates)
    if not what_if.fits(cleared):
        return None
    if len(candidates) <= FEW:
        return _cheapest(what_if, rules, candidates)
    if is_single(what_if.demand, what_if.index.capacity):
        found, certain = _on_one_node(what_if, rules, candidates)
        if certain:
            return found
    return clear_nodes(what_if, cleared, rules, candidates)


def is_single(demand: Demand, capacity: int) -> bool:
    """Whether a gang is one replica, on one node."""
    if demand.roles:
        return sum(role.least_replicas for role in demand.roles) == 1 and len(demand.roles) == 1
    return demand.gpus <= capacity


def _cheapest(what_if: Vacated, rules: Rules, candidates: Sequence[Candidate]) -> Victims | None:
    """The best of all sets that will do."""
    for size in range(1, len(candidates) + 1):
        best: Victims | None = None
        for chosen in combinations(candidates, size):
            if rules.allow(chosen) and (best is None or _price(chosen) < best.price):
                shares = what_if.fits_without(chosen)
                best = best if shares is None else Victims(chosen, shares)
        if best is not None:
            return best
    return None


def _price(chosen: tuple[Candidate, ...]) -> tuple[float, ...]:
    return Victims(chosen, ()).price


def _on_one_node(what_if: Vacated, rules: Rules, candidates: Sequence[Candidate]) -> tuple[Victims | None, bool]:
    """For a single replica: the best set of victims on any one node, and whether nothing better was left untried."""
    need = max(what_if.demand.least_gpus, 1)
    free = what_if.index.free if isinstance(what_if.index, FreeIndex) else what_if.index.count
    nodes: dict[int, list[tuple[int, Candidate]]] = {}
    for each in candidates:
        for node, gpus in _gpus_by_node(what_if.shares_of(each)).items():
            nodes.setdefault(node, []).append((gpus, each))
    least: dict[int, list[int]] = {}
    for node, there in nodes.items():
        gained, wanted = 0, need - int(free[node])
        for count, gpus in enumerate(sorted((gpus for gpus, _ in there), reverse=True), 1):
            gained += gpus
            if gained >= wanted:
                least.setdefault(count, []).append(node)
                break
    tried, open_nodes = 0, list[int]()
    for size in range(1, max(map(len, nodes.values()), default=0) + 1):
        open_nodes += least.get(size, ())
        sets: list[tuple[tuple[float, ...], tuple[Candidate, ...]]] = []
        for node in open_nodes:
            there, wanted = nodes[node], need - int(free[node])
            if len(there) < size:
                continue
            if len(there) > MOST_ON_A_NODE:
                return None, False
            for some in combinations(there, size):
                if sum(gpus for gpus, _ in some) >= wanted:
                    chosen = tuple(each for _, each in some)
                    sets.append((_price(chosen), chosen))
            if len(sets) > MOST_COMBINATIONS:
                return None, False
        for _, chosen in sorted(sets):
            if not rules.allow(chosen):
                continue
            tried += 1
            if tried > MOST_TRIED:
                return None, False
            shares = what_if.fits_without(chosen)
            if shares is not None:
                return Victims(chosen, shares), True
    # What fits no node by itself may need quota that is held elsewhere, or the nodes' other resources.
    return None, rules.has_quota(Toll())


def _gpus_by_node(shares: Shares) -> dict[int, int]:
    """GPUs that a job holds on each of its nodes; a part of one counts as one, because it may become whole."""
    found: dict[int, int] = {}
    for share in shares:
        found[share[0]] = found.get(share[0], 0) + (share[1] or (1 if len(share) > 3 and share[3] else 0))
    return found
