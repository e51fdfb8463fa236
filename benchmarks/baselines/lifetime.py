"""Prototypes for few partly used nodes: jobs that end together share a node, and leftovers are moved together."""

from __future__ import annotations

from benchmarks.baselines.gang_cluster import Allowed, Cluster, Consolidate, Job, Move

WORTH_MOVING_S = 900.0
"""A job expected to end sooner is left to end."""

REST_AFTER_MOVE_S = 7200.0
"""How long a moved job is left alone."""


def exit_s(cluster: Cluster, node: int, now_s: float) -> float:
    """When the node is expected to be empty if nothing is added."""
    return max((job.predicted_end_s(now_s) for job in cluster.running[node]), default=now_s)


def least_extension(cluster: Cluster, job: Job, now_s: float, allowed: Allowed) -> int | None:
    """The partly used node whose expected emptying the job delays least, the fullest among equals; else a free node."""
    end_s = now_s + job.predicted_s
    best: tuple[float, int, int] | None = None
    for free in range(job.gpus, cluster.gpus_per_node):
        for node in cluster.by_free[free]:
            if not allowed(node):
                continue
            found = (max(0.0, end_s - exit_s(cluster, node, now_s)), free, node)
            if best is None or found < best:
                best = found
    if best is not None:
        return best[2]
    return min((node for node in cluster.free_nodes() if allowed(node)), default=None)


def consolidate(most_partly_used: int, every_s: float = 30.0) -> Consolidate:
    """Move jobs, whenever more nodes than so many are partly used, so that each round frees or fills one.

    First: a partly used node whose jobs can all move, and all find room in fuller ones, is emptied. Else: a hole is
    filled exactly by one job of the emptiest partly used node that has such a job. Else: a full node of movable jobs is
    opened as the donor of such jobs, provided that at least two holes wait for them. The smallest holes come first, and
    of several jobs the one whose end is nearest to the target's.
    """
    last_s = float("-inf")

    def moves(cluster: Cluster, now_s: float) -> list[Move]:
        nonlocal last_s
        if now_s - last_s < every_s or cluster.partly_used() <= most_partly_used:
            return []
        last_s = now_s
        partly = [node for free in range(1, cluster.gpus_per_node) for node in cluster.by_free[free]]
        partly.sort(key=lambda node: (-cluster.free[node], node))
        for node in partly:
            if found := _empty(cluster, node, partly, now_s):
                return found
        for target in reversed(partly):
            for donor in partly:
                if cluster.free[donor] < cluster.free[target] or donor == target:
                    break
                move = _exact_fill(cluster, donor, target, now_s)
                if move is not None:
                    return [move]
        return _open_donor(cluster, partly, now_s)

    return moves


def _empty(cluster: Cluster, node: int, targets: list[int], now_s: float) -> list[Move]:
    """Where all jobs of the node can go, largest first, each into the tightest hole; empty if not all can."""
    jobs = sorted(cluster.running[node], key=lambda job: -job.gpus)
    if not all(_may_move(job, now_s) for job in jobs):
        return []
    holes = {n: cluster.free[n] for n in targets if n != node and cluster.free[n] <= cluster.free[node]}
    found: list[Move] = []
    for job in jobs:
        target = min((n for n in holes if holes[n] >= job.gpus), key=lambda n: (holes[n], n), default=None)
        if target is None:
            return []
        holes[target] -= job.gpus
        found.append((job, target))
    return found


def _exact_fill(cluster: Cluster, donor: int, target: int, now_s: float) -> Move | None:
    hole, target_exit_s = cluster.free[target], exit_s(cluster, target, now_s)
    jobs = [job for job in cluster.running[donor] if job.gpus == hole and _may_move(job, now_s)]
    job = min(jobs, key=lambda job: abs(job.predicted_end_s(now_s) - target_exit_s), default=None)
    return None if job is None else (job, target)


def _open_donor(cluster: Cluster, targets: list[int], now_s: float) -> list[Move]:
    """One move out of the full node of movable jobs with most jobs that would each fill one of the targets."""
    best: tuple[int, Move] | None = None
    for donor in cluster.by_free[0]:
        if not cluster.running[donor][0].movable or not all(_may_move(job, now_s) for job in cluster.running[donor]):
            continue
        fills = [move for target in targets if (move := _exact_fill(cluster, donor, target, now_s)) is not None]
        useful = min(len(fills), len(cluster.running[donor]))
        if useful >= 2 and (best is None or useful > best[0]):
            best = useful, fills[-1]
    return [] if best is None else [best[1]]


def _may_move(job: Job, now_s: float) -> bool:
    rested = job.moved_s < 0 or now_s - job.moved_s >= REST_AFTER_MOVE_S
    return job.movable and rested and job.predicted_end_s(now_s) - now_s >= WORTH_MOVING_S
