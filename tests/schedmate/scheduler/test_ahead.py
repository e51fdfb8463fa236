"""Looking ahead: giving back many at once, and the first start found by steps against looking at every moment."""

from __future__ import annotations

import math
from dataclasses import replace

from hypothesis import given, settings
from hypothesis import strategies as st

from schedmate.scheduler import ClusterSpec, Demand, PoolSpec, Reservation, Role
from schedmate.scheduler.ahead import Ahead, Window, earliest
from schedmate.scheduler.cluster import Cluster
from schedmate.scheduler.cluster_types import Health, NodeShape
from schedmate.scheduler.expected_ends import ExpectedEnds
from schedmate.scheduler.leaning import ends_on
from schedmate.scheduler.placement import place
from schedmate.scheduler.pool_index import PoolIndex
from schedmate.scheduler.state import JobTable
from schedmate.scheduler.topology import Topology

CLUSTER = ClusterSpec.uniform(4, 4)
NODE = NodeShape(4, numa=2, nics=2, cpus_milli=6_000)
DETAILED = ClusterSpec(
    (PoolSpec.detailed("a", ((3, NODE), (1, replace(NODE, gpus=2))), Topology.regular(4, {"leaf": 2})),)
)


@st.composite
def demands(draw: st.DrawFn) -> Demand:
    """What can be asked of the detailed pool: one or two roles, CPUs, levels."""
    roles = tuple(
        Role(
            f"role-{number}",
            replicas := draw(st.integers(1, 3)),
            gpus := draw(st.sampled_from([4, 2, 1, 3, 0])),
            cpus_milli=draw(st.sampled_from([0, 2_000, 5_000] if gpus else [2_000])),
            nics=draw(st.sampled_from([0, 0, 1])) if gpus else 0,
            min_replicas=draw(st.sampled_from([None, None, max(1, replicas - 1)])),
        )
        for number in range(draw(st.sampled_from([1, 1, 2])))
    )
    level = draw(st.sampled_from([None, None, "node", "leaf"]))
    return Demand.of(roles, level=level, required=level is not None and draw(st.booleans()))


@st.composite
def running(draw: st.DrawFn, detailed: bool) -> tuple[Cluster, ExpectedEnds, JobTable]:
    """A pool with jobs on it that end at different times."""
    cluster = Cluster(DETAILED if detailed else CLUSTER)
    table, index = JobTable(), cluster.pools[0]
    ends = ends_on(index, table.shares)
    if isinstance(index, PoolIndex) and draw(st.booleans()):
        index.set_health(draw(st.integers(0, 1)), Health.CORDONED)
        index.set_bad(2, draw(st.integers(0, 3)))
    for _ in range(draw(st.integers(0, 8))):
        shares = place(index, draw(demands()) if detailed else Demand.plain(draw(st.integers(1, 9))))
        if shares is not None:
            index.take(shares)
            slot = table.slot()
            table.shares[slot], table.pools[slot] = shares, 0
            table.gpus[slot] = sum(share[1] for share in shares)
            ends.add(slot, float(draw(st.integers(1, 9))))
    return cluster, ends, table


@given(st.data(), st.booleans())
def test_giving_many_is_giving_one_by_one(data: st.DataObject, detailed: bool) -> None:
    cluster, ends, table = data.draw(running(detailed))
    slots = data.draw(st.lists(st.sampled_from([slot for _, slot in ends.order]), unique=True)) if ends.order else []
    single, many = cluster.pools[0].copy(), cluster.pools[0].copy()
    for slot in slots:
        single.give(table.shares[slot] or ())
    many.give_many(table.shares[slot] or () for slot in slots)
    assert single == many


@settings(max_examples=400, deadline=None)
@given(st.data(), st.booleans())
def test_the_first_start_is_that_of_looking_at_every_moment(data: st.DataObject, detailed: bool) -> None:
    """Times are whole seconds, so every moment can be looked at; beside other reservations as well."""
    cluster, ends, table = data.draw(running(detailed))
    now = float(data.draw(st.sampled_from([0, 0, 2])))
    asked = demands() if detailed else st.integers(1, 16).map(Demand.plain)
    others: list[Reservation] = []
    for number in range(data.draw(st.integers(0, 3))):
        window = Window(now + data.draw(st.integers(0, 6)), math.inf, float(data.draw(st.integers(1, 5))))
        found = earliest(Ahead(cluster.pools[0], ends, table, now), place, data.draw(asked), others, window)
        if found is not None:
            others.append(Reservation(100 + number, 0, found[0], found[1], {}, True, found[0] + window.span_s))
    asks, span_s = data.draw(asked), data.draw(st.sampled_from([1.0, 3.0, math.inf]))
    before_s = data.draw(st.sampled_from([math.inf, math.inf, 8.0]))
    found = earliest(Ahead(cluster.pools[0], ends, table, now), place, asks, others, Window(now, before_s, span_s))
    seconds = (now + t for t in range(40) if now + t < before_s)
    every = (t for t in seconds if _fits(cluster, ends, table, asks, others, t, span_s, now))
    assert (None if found is None else found[0]) == next(every, None)


def _fits(
    cluster: Cluster, ends: ExpectedEnds, table: JobTable, asks: Demand, others: list[Reservation], at_s: float,
    span_s: float, now: float,
) -> bool:  # fmt: skip
    """Whether there is a placement that is free from a moment on for as long as the gang stays, second by second."""
    index = cluster.pools[0].copy()
    for end_s, slot in ends.order:
        if end_s <= at_s and not 0.0 < now >= end_s:
            index.give(table.shares[slot] or ())
    taken = [other for other in others if other.start_s < at_s + span_s and at_s < other.end_s]
    moments = sorted({max(at_s, other.start_s) for other in taken})
    spares = []
    for moment in moments:
        then = cluster.pools[0].copy()
        for end_s, slot in ends.order:
            if end_s <= moment and not 0.0 < now >= end_s:
                then.give(table.shares[slot] or ())
        active = [other for other in taken if other.start_s <= moment < other.end_s]
        for other in active:
            spare = then.spare_beside(other.shares)
            for another in active:
                if another is not other:
                    spare = then.less(spare, another.shares)
            spares.append(spare)
    return place(index.restricted(spares) if spares else index, asks) is not None
