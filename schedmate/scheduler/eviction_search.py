"""The fewest running jobs whose going lets a waiting one start: found on a copy of the pool, by real placements.

What is found is minimal: with any one of the victims left where it is, the gang has no placement. Where the gang is one
replica, or few jobs may be evicted at all, it is also the cheapest: fewest victims, then least GPU time lost. For wider
gangs nodes are cleared one after the other, those first that cost least for each replica they make room for, and what
turns out not to be needed stays.

That holds among victims of one *excess*: no gang of a thousand GPUs goes for the sake of one where jobs of that size
would do, though these may be several.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import combinations

from schedmate.scheduler.clearing import clear_nodes
from schedmate.scheduler.cluster import Index
from schedmate.scheduler.cluster_types import Shares
from schedmate.scheduler.demand import Demand
from schedmate.scheduler.eviction_rules import Candidate, Rules, Toll
from schedmate.scheduler.free_index import FreeIndex
from schedmate.scheduler.pool_layout import Ints
from schedmate.scheduler.vacated import Vacated, Victims

#: Victims that hold up to twice what is asked for are alike in that, those up to so many times that, and so on.
EXCESS = 8

#: So many jobs are tried in all combinations.
FEW = 9

#: Placements tried for the cheapest victims of a single replica, before nodes are cleared one by one.
MOST_TRIED = 400

#: Combinations of victims looked at for a single replica, at most, and of victims on one node.
MOST_COMBINATIONS = 20_000
MOST_ON_A_NODE = 10


def find_victims(what_if: Vacated, rules: Rules, candidates: Sequence[Candidate]) -> Victims | None:
    """Victims for a gang that has no placement now, or no quota; ``candidates`` are least price first."""
    limits, single = excesses(what_if.demand, candidates), is_single(what_if.demand, what_if.index.capacity)
    if single and (one := _only_one(what_if, rules, candidates, limits[0])) is not None:
        return one
    all_gone = what_if.without(candidates)
    if not what_if.fits(all_gone):
        return None
    by_limit = [[each for each in candidates if each.gpus <= most_gpus] for most_gpus in limits]
    best: Victims | None = None
    for some, following, most_gpus in zip(by_limit, [*by_limit[1:], None], limits, strict=True):
        if following is not None and len(following) == len(some) > FEW and not single:
            continue  # nodes are cleared without regard to what victims hold in all: this would be the same search
        cleared = all_gone if len(some) == len(candidates) else what_if.without(some)
        found = _within(what_if, cleared, rules, some, most_gpus) if what_if.fits(cleared) else None
        best = best or found
        if found is not None and found.gpus <= most_gpus:
            best = found
            break
    if best is None:
        return None
    return best._replace(excess=next(i for i, most_gpus in enumerate(limits) if best.gpus <= most_gpus))


def _only_one(what_if: Vacated, rules: Rules, candidates: Sequence[Candidate], most_gpus: float) -> Victims | None:
    """For a single replica: the cheapest one victim that will do, holding no more than so many GPUs. That is what is
    found nearly always, and it needs no look at the others."""
    need, free, tried = max(what_if.demand.least_gpus, 1), _free(what_if.index), 0
    for each in candidates:
        if each.gpus > most_gpus or not rules.allow((each,)):
            continue
        if any(free[node] + gpus >= need for node, gpus in _gpus_by_node(what_if.shares_of(each)).items()):
            tried += 1
            shares = what_if.fits_without((each,))
            if shares is not None and is_due(what_if, rules, (each,), shares):
                return Victims((each,), shares)
            if tried >= MOST_TRIED:
                return None
    return None


def excesses(demand: Demand, candidates: Sequence[Candidate]) -> list[float]:
    """The most GPUs that victims hold by `Victims.excess`; the last is for all of them together."""
    widest, most_gpus, found = max((each.gpus for each in candidates), default=0), 2 * max(demand.least_gpus, 1), []
    while True:
        found.append(float(most_gpus))
        if most_gpus >= widest:
            return [*found, math.inf]
        most_gpus *= EXCESS


def _within(
    what_if: Vacated, cleared: Index, rules: Rules, candidates: Sequence[Candidate], most_gpus: float
) -> Victims | None:
    """Victims of some of the candidates, holding no more than so many GPUs if that can be had; ``cleared`` is the pool
    without all of them."""
    if len(candidates) <= FEW:
        return _cheapest(what_if, rules, candidates, most_gpus)
    if is_single(what_if.demand, what_if.index.capacity):
        found, certain = _on_one_node(what_if, rules, candidates, most_gpus)
        if certain:
            return found
    widest, asked = max(each.gpus for each in candidates), max(what_if.demand.least_gpus, 1)
    cleared_for = clear_nodes(what_if, cleared, rules, candidates, min(most_gpus, 2 * EXCESS * asked) + widest)
    return cleared_for if cleared_for is not None and is_due(what_if, rules, *cleared_for[:2]) else None


def is_due(what_if: Vacated, rules: Rules, chosen: Sequence[Candidate], shares: Shares) -> bool:
    """Whether those who are in nobody's way, and would go for the sake of quota alone, hold no more than is asked for
    but for the last of them: nobody makes up for what the job's tenant, or a plan, is above its limits without it."""
    nodes = {share[0] for share in shares}
    aside = [each.milli for each in chosen if nodes.isdisjoint(share[0] for share in what_if.shares_of(each))]
    return sum(aside) - max(aside, default=0) <= rules.milli


def is_single(demand: Demand, capacity: int) -> bool:
    """Whether a gang is one replica, on one node."""
    if demand.roles:
        return sum(role.least_replicas for role in demand.roles) == 1 and len(demand.roles) == 1
    return demand.gpus <= capacity


def _cheapest(what_if: Vacated, rules: Rules, candidates: Sequence[Candidate], most_gpus: float) -> Victims | None:
    """The best of all sets that will do."""
    for size in range(1, len(candidates) + 1):
        best: Victims | None = None
        for chosen in combinations(candidates, size):
            if sum(each.gpus for each in chosen) > most_gpus:
                continue
            if rules.allow(chosen) and (best is None or _price(chosen) < best.price):
                shares = what_if.fits_without(chosen)
                if shares is not None and is_due(what_if, rules, chosen, shares):
                    best = Victims(chosen, shares)
        if best is not None:
            return best
    return None


def _price(chosen: tuple[Candidate, ...]) -> tuple[float, ...]:
    return Victims(chosen, ()).price


def _on_one_node(
    what_if: Vacated, rules: Rules, candidates: Sequence[Candidate], most_gpus: float
) -> tuple[Victims | None, bool]:
    """For a single replica: the best set of victims on any one node, and whether nothing better was left untried."""
    need = max(what_if.demand.least_gpus, 1)
    free = _free(what_if.index)
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
                    if sum(each.gpus for each in chosen) <= most_gpus:
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
            if shares is not None and is_due(what_if, rules, chosen, shares):
                return Victims(chosen, shares), True
    # What fits no node by itself may need quota that is held elsewhere, or the nodes' other resources.
    return None, rules.has_quota(Toll())


def _free(index: Index) -> Sequence[int] | Ints:
    """By node, the GPUs of which nothing is in use."""
    return index.free if isinstance(index, FreeIndex) else index.count


def _gpus_by_node(shares: Shares) -> dict[int, int]:
    """GPUs that a job holds on each of its nodes; a part of one counts as one, because it may become whole."""
    found: dict[int, int] = {}
    for share in shares:
        found[share[0]] = found.get(share[0], 0) + (share[1] or (1 if len(share) > 3 and share[3] else 0))
    return found
