"""Looking ahead: giving back many at once, and the first start found by steps against looking at every moment."""

from __future__ import annotations

import math

from hypothesis import given, settings
from hypothesis import strategies as st

from schedmate.scheduler import ClusterSpec, Demand, Reservation, Role
from schedmate.scheduler.ahead import Ahead, Window, earliest
from schedmate.scheduler.cluster import Cluster
from schedmate.scheduler.expected_ends import ExpectedEnds
from schedmate.scheduler.placement import place
from schedmate.scheduler.state import JobTable

CLUSTER = ClusterSpec.uniform(4, 4)


@st.composite
def running(draw: st.DrawFn, detailed: bool) -> tuple[Cluster, ExpectedEnds, JobTable]:
    """A pool with jobs on it that end at different times."""
    cluster = Cluster(CLUSTER.in_detail() if detailed else CLUSTER)
    ends, table, index = ExpectedEnds(), JobTable(), cluster.pools[0]
    for _ in range(draw(st.integers(0, 8))):
        shares = place(index, Demand.plain(draw(st.integers(1, 9))))
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


@settings(max_examples=300, deadline=None)
@given(st.data(), st.booleans())
def test_the_first_start_is_that_of_looking_at_every_moment(data: st.DataObject, detailed: bool) -> None:
    """Times are whole seconds, so every moment can be looked at; beside other reservations as well."""
    cluster, ends, table = data.draw(running(detailed))
    asks = Demand.plain(data.draw(st.integers(1, 16)))
    if detailed and data.draw(st.booleans()):
        asks = Demand.of((Role(gpus=data.draw(st.integers(1, 4)), replicas=data.draw(st.integers(1, 3))),))
    span_s = data.draw(st.sampled_from([1.0, 3.0, math.inf]))
    others: list[Reservation] = []
    for number in range(data.draw(st.integers(0, 3))):
        window = Window(float(data.draw(st.integers(0, 6))), math.inf, float(data.draw(st.integers(1, 5))))
        ahead = Ahead(cluster.pools[0], ends, table, 0.0)
        demand = Demand.plain(data.draw(st.integers(1, 12)))
        found = earliest(ahead, place, demand, others, window)
        assert found is not None
        others.append(Reservation(100 + number, 0, found[0], found[1], {}, True, found[0] + window.span_s))
    ahead = Ahead(cluster.pools[0], ends, table, 0.0)
    found = earliest(ahead, place, asks, others, Window(0.0, math.inf, span_s))
    every = (float(t) for t in range(40) if _fits(cluster, ends, table, asks, others, float(t), span_s))
    assert (None if found is None else found[0]) == next(every, None)


def _fits(
    cluster: Cluster, ends: ExpectedEnds, table: JobTable, asks: Demand, others: list[Reservation], at_s: float,
    span_s: float,
) -> bool:  # fmt: skip
    """Whether there is a placement that is free from a moment on for as long as the gang stays, second by second."""
    index = cluster.pools[0].copy()
    for end_s, slot in ends.order:
        if end_s <= at_s:
            index.give(table.shares[slot] or ())
    taken = [other for other in others if other.start_s < at_s + span_s and at_s < other.end_s]
    moments = sorted({max(at_s, other.start_s) for other in taken})
    spares = []
    for moment in moments:
        then = cluster.pools[0].copy()
        for end_s, slot in ends.order:
            if end_s <= moment:
                then.give(table.shares[slot] or ())
        active = [other for other in taken if other.start_s <= moment < other.end_s]
        for other in active:
            spare = then.spare_beside(other.shares)
            for another in active:
                if another is not other:
                    spare = then.less(spare, another.shares)
            spares.append(spare)
    return place(index.restricted(spares) if spares else index, asks) is not None
