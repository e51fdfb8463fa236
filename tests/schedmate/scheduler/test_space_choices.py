"""Which of several placements is taken, on pools described in detail: worked examples."""

from __future__ import annotations

import math

import pytest

from schedmate.scheduler.cluster import Cluster
from schedmate.scheduler.cluster_types import ClusterSpec, DeviceShare, Health, NodeShape, PoolSpec, Profile, Shares
from schedmate.scheduler.demand import NO_LEANING, Demand, Leaning, Role
from schedmate.scheduler.devices import choose, choose_with_nics, islands_with, near_nics
from schedmate.scheduler.expected_ends import ExpectedEnds
from schedmate.scheduler.free_index import FreeIndex
from schedmate.scheduler.leaning import ends_on, leaning
from schedmate.scheduler.placement import place, why_not
from schedmate.scheduler.pool_index import PoolIndex
from schedmate.scheduler.pool_layout import PoolLayout
from schedmate.scheduler.topology import Topology
from schedmate.scheduler.types import Hints

PLAIN = NodeShape(8)


def pool(nodes: int, shape: NodeShape = PLAIN, **groups: int) -> PoolIndex:
    return PoolIndex(PoolLayout(PoolSpec.detailed("p", ((nodes, shape),), Topology.regular(nodes, groups))))


def occupy(index: PoolIndex, used: dict[int, int]) -> None:
    """So many GPUs of each node, lowest first."""
    index.take(tuple(DeviceShare(node, gpus, (1 << gpus) - 1) for node, gpus in used.items()))


def nodes_of(shares: Shares | None) -> dict[int, int]:
    assert shares is not None
    return {share[0]: sum(other[1] for other in shares if other[0] == share[0]) for share in shares}


def placed(index: PoolIndex, demand: Demand, leaning: Leaning = NO_LEANING) -> dict[int, int]:
    return nodes_of(place(index, demand, leaning))


# --- topology and devices


def test_regular_groups_nest_and_the_last_holds_what_is_left() -> None:
    topology = Topology.regular(10, {"hbd": 2, "leaf": 3, "spine": 6})
    assert topology == Topology(hbd=(0, 2, 3, 5, 6, 8, 9), leaf=(0, 3, 6, 9), spine=(0, 6))
    with pytest.raises(ValueError, match="spine group begins inside a leaf group"):
        Topology(leaf=(0, 4), spine=(0, 3))
    with pytest.raises(ValueError, match="begin at node 0"):
        Topology(leaf=(1, 4))


@pytest.mark.parametrize(
    ("islands", "numa", "free", "gpus", "chosen"),
    [
        (1, 1, 0b11110110, 3, 0b00010110),
        (2, 1, 0b11110111, 3, 0b00000111),  # the broken island holds them: the whole one stays whole
        (2, 1, 0b11110111, 4, 0b11110000),
        (2, 1, 0b11110111, 5, 0b11110001),  # one island whole, the rest from the other
        (2, 4, 0b00001101, 2, 0b00001100),  # inside the island, one NUMA domain
        (4, 2, 0b01010110, 2, 0b00000110),  # no island holds two; one NUMA domain does
        (1, 2, 0b11111111, 8, 0b11111111),
    ],
)
def test_few_islands_and_numa_domains_are_broken(islands: int, numa: int, free: int, gpus: int, chosen: int) -> None:
    assert choose(NodeShape(8, islands, numa), free, gpus) == chosen


def test_nics_are_near_their_gpus() -> None:
    shape = NodeShape(8, 1, 2, 4)
    assert near_nics(shape, 0b11000011) == 0b1001
    assert choose_with_nics(shape, 0xFF, 2, 0b1110, 1) == (0b1100, 0b0010)  # the NIC of GPUs 0 and 1 is taken
    assert choose_with_nics(shape, 0b11, 2, 0b1110, 2) == (
        0b11,
        0b0110,
    )  # one is near, then the same NUMA domain
    assert islands_with(NodeShape(8, 2), 0b10110111, 3) == [0b1111, 0b11110000]


# --- one replica


def test_a_small_job_goes_to_the_fullest_node_that_fits() -> None:
    index = pool(4)
    occupy(index, {1: 5, 2: 6})
    assert placed(index, Demand.plain(2)) == {2: 2}
    assert placed(index, Demand.plain(3)) == {1: 3}
    assert placed(index, Demand.plain(4)) == {0: 4}, "a whole node is broken only when nothing else fits"


def test_among_equal_nodes_and_for_whole_ones_the_most_broken_group_is_taken() -> None:
    index = pool(6, leaf=3)
    occupy(index, {0: 4, 3: 4, 4: 6})
    assert placed(index, Demand.plain(4)) == {3: 4}
    assert placed(index, Demand.plain(8)) == {5: 8}


def test_jobs_that_end_together_share_a_node() -> None:
    index = pool(4)
    for node, end_s in ((0, 10_000.0), (1, 90_000.0)):
        occupy(index, {node: 4 + node})
        index.exits.add(((node, 4),), end_s)
    assert placed(index, Demand.plain(2)) == {1: 2}, "the fullest, with nothing known"
    assert placed(index, Demand.plain(2), Leaning(10_300.0)) == {1: 2}, "neither is delayed by much: the fullest"
    assert placed(index, Demand.plain(2), Leaning(90_000.0)) == {1: 2}
    index.exits.remove(((1, 4),), 90_000.0)
    index.exits.add(((1, 4),), 1_000.0)
    assert placed(index, Demand.plain(2), Leaning(10_000.0)) == {0: 2}, "node 1 would be empty at 1,000 s otherwise"
    assert placed(index, Demand.plain(4), Leaning(10_000.0)) == {0: 4}


def test_larger_resources_decide_where_gpus_alone_would_not() -> None:
    spec = PoolSpec.detailed("p", ((1, NodeShape(8, cpus_milli=8000)), (1, NodeShape(8, cpus_milli=64000))))
    index = PoolIndex(PoolLayout(spec))
    assert placed(index, Demand.of((Role(gpus=1, cpus_milli=4000),))) == {0: 1}
    assert placed(index, Demand.of((Role(gpus=1, cpus_milli=9000),))) == {1: 1}
    assert placed(index, Demand.of((Role(replicas=4, gpus=1, cpus_milli=4000),))) == {1: 4}


# --- gangs


def test_a_gang_goes_to_the_tightest_group_that_holds_it() -> None:
    index = pool(12, leaf=4)
    occupy(index, {4: 8, 8: 8, 9: 8})
    assert placed(index, Demand.plain(16)) == {10: 8, 11: 8}
    assert placed(index, Demand.plain(24)) == {5: 8, 6: 8, 7: 8}
    assert placed(index, Demand.plain(20)) == {5: 8, 6: 8, 7: 4}
    assert set(placed(index, Demand.plain(32))) == {0, 1, 2, 3}


def test_a_wider_gang_takes_whole_groups_and_the_tightest_remainder_under_one_spine() -> None:
    index = pool(16, leaf=4, spine=8)
    occupy(index, {4: 8, 5: 8, 12: 8})
    assert set(placed(index, Demand.plain(48))) == {0, 1, 2, 3, 6, 7}
    assert set(placed(index, Demand.plain(56))) == {8, 9, 10, 11, 13, 14, 15}
    assert len(placed(index, Demand.plain(80))) == 10, "wider than a spine: as much as the pool has"


@pytest.mark.parametrize(
    ("terms", "nodes"),
    [
        ({}, {0, 1, 4, 5}),
        ({"heavy": True}, {8, 9, 10, 11}),
        ({"level": "hbd"}, {8, 9, 10, 11}),
        ({"level": "hbd", "required": True}, {8, 9, 10, 11}),
    ],
)
def test_scale_up_domains_are_for_gangs_that_talk_much(terms: dict[str, object], nodes: set[int]) -> None:
    index = pool(12, hbd=4, leaf=12)
    occupy(index, {2: 8, 3: 8, 6: 8, 7: 8})
    assert set(placed(index, Demand.of(gpus=32, **terms))) == nodes  # type: ignore[arg-type]


def test_a_required_level_is_never_crossed_and_a_preferred_one_gives_way() -> None:
    index = pool(8, leaf=4)
    occupy(index, {0: 8, 4: 8})
    assert place(index, Demand.of(gpus=32, level="leaf", required=True)) is None
    assert len(placed(index, Demand.of(gpus=32, level="leaf"))) == 4
    assert place(index, Demand.of(gpus=16, level="hbd", required=True)) is None, "there are no such groups"


def test_the_whole_gang_must_fit_the_domain_before_its_first_replica_is_placed() -> None:
    index = pool(4, hbd=2)
    occupy(index, {0: 6, 1: 4, 2: 2, 3: 2})
    demand = Demand.of((Role("leader", 1, gpus=2), Role("follower", 1, gpus=6)), level="hbd", required=True)
    assert placed(index, demand) == {2: 6, 3: 2}, "the leader alone would fit the fullest domain"


def test_roles_start_together() -> None:
    index = pool(3, NodeShape(8, cpus_milli=32_000))
    demand = Demand.of((Role("server", 2, cpus_milli=8_000), Role("worker", 4, gpus=4, cpus_milli=10_000)))
    shares = place(index, demand)
    assert shares is not None
    by_role = {role: [s for s in shares if isinstance(s, DeviceShare) and s.role == role] for role in (0, 1)}
    assert sum(share.gpus for share in by_role[1]) == 16
    assert sum(share.cpus_milli for share in by_role[0]) == 16_000


def test_fleeting_gangs_do_not_break_groups_that_are_free_as_a_whole() -> None:
    index = pool(12, leaf=4)
    occupy(index, {4: 8, 5: 8, 6: 8, 8: 8, 9: 8, 10: 8})
    assert set(placed(index, Demand.plain(16))) <= {0, 1, 2, 3}
    assert set(placed(index, Demand.plain(16), Leaning(fleeting=True))) == {7, 11}
    assert len(placed(index, Demand.plain(24), Leaning(fleeting=True))) == 3, "there is no other way"


def test_gangs_that_end_together_share_a_group() -> None:
    index = pool(8, leaf=4)
    occupy(index, {0: 8, 4: 8})
    index.exits.add(((0, 8),), 100.0)
    index.exits.add(((4, 8),), 50_000.0)
    assert set(placed(index, Demand.plain(16), Leaning(50_000.0))) <= {5, 6, 7}
    assert set(placed(index, Demand.plain(16), Leaning(200.0))) <= {1, 2, 3}


def test_an_elastic_gang_takes_what_there_is_above_its_minimum() -> None:
    index = pool(4)
    occupy(index, {0: 8})
    for least, replicas in ((1, 3), (3, 3), (4, None)):
        shares = place(index, Demand.of((Role(replicas=8, gpus=8, min_replicas=least),)))
        assert (None if shares is None else len(shares)) == replicas


def test_one_node_and_one_island() -> None:
    index = pool(3, NodeShape(8, 2))
    occupy(index, {0: 2, 1: 5})
    roles = (Role("a", 2, gpus=2), Role("b", 2, gpus=1))
    assert placed(index, Demand.of(roles, level="node", required=True)) == {0: 6}
    three = place(index, Demand.of((Role(gpus=3),), level="island", required=True))
    assert three is not None
    assert [(share[0], share[2]) for share in three] == [(1, 0b11100000)]
    occupy(index, {2: 1})
    four = Demand.of((Role(replicas=2, gpus=2),), level="island", required=True)
    found = place(index, four)
    assert found is not None
    assert sum(share[2] for share in found) == 0b11110000
    assert place(index, Demand.of((Role(gpus=5),), level="island", required=True)) is None


# --- zones, parts of GPUs, types


def test_small_services_are_spread_inside_their_zone_and_others_keep_out() -> None:
    web = NodeShape(4, zone="web")
    spec = PoolSpec.detailed("p", ((3, web), (2, NodeShape(4))), Topology.regular(5, {"leaf": 5}))
    index = PoolIndex(PoolLayout(spec))
    service = Demand.of((Role("replica", 3, gpus=1),), zone="web", spread=True)
    assert placed(index, service) == {0: 1, 1: 1, 2: 1}
    assert placed(index, Demand.of((Role("replica", 4, gpus=1),), zone="web", spread=True)) == {0: 2, 1: 1, 2: 1}
    assert placed(index, Demand.plain(8)) == {3: 4, 4: 4}
    assert place(index, Demand.plain(12)) is None
    packed = Demand.of((Role("replica", 2, gpus=1),), zone="web")
    assert placed(index, packed) == {0: 2}
    with pytest.raises(ValueError, match="dedicated zone"):
        Demand.of(gpus=1, spread=True)
    with pytest.raises(ValueError, match="spread or kept together"):
        Demand.of(gpus=1, spread=True, zone="web", level="node")


def test_parts_fill_a_shared_gpu_and_only_jobs_that_allow_it_share() -> None:
    index = pool(2, NodeShape(2))
    part = Demand.of((Role(milli_gpu=400),), shareable=True)
    for _ in range(2):
        shares = place(index, part)
        assert shares is not None
        assert shares[0][:3] == (0, 0, 1)
        index.take(shares)
    alone = place(index, Demand.of((Role(milli_gpu=100),)))
    assert alone is not None
    assert alone[0][:4] == (0, 1, 2, 0), "a job that does not share gets a whole GPU"
    assert Demand.of((Role(milli_gpu=100),)).gpus == 1


def test_slices_are_bounded_by_compute_and_memory() -> None:
    slices = (Profile("small", 142, 5), Profile("large", 428, 20))
    spec = PoolSpec.detailed("p", ((1, NodeShape(1)),), gpu_memory_mib=40, profiles=slices)
    index = PoolIndex(PoolLayout(spec))
    large, small = (Demand.of((Role(profile=name),)) for name in ("large", "small"))
    for _ in range(2):
        shares = place(index, large)
        assert shares is not None
        index.take(shares)
    assert place(index, small) is None, "144 milli are left, and no memory"
    assert place(index, Demand.of((Role(milli_gpu=100),), shareable=True)) is None, "a sliced GPU is not time-shared"
    assert place(index, Demand.of((Role(profile="huge"),))) is None


def test_types_in_order_of_preference_and_the_smallest_memory_that_is_enough() -> None:
    sizes = (("h100", 80), ("a100", 40), ("t4", 16))
    cluster = Cluster(ClusterSpec(tuple(PoolSpec(name, 2, 8, gpu_memory_mib=mib) for name, mib in sizes)))
    one = Demand.plain(1)
    assert cluster.pools_for(one) == (0, 1, 2)
    assert cluster.pools_for(one, gpu_memory_mib=10) == (2, 1, 0)
    assert cluster.pools_for(one, gpu_memory_mib=17) == (1, 0, 2)
    assert cluster.pools_for(one, gpu_memory_mib=99) == (0, 1, 2)
    assert cluster.pools_for(one, gpu_type="a100") == (1,)
    detailed = Cluster(ClusterSpec(tuple(PoolSpec(name, 2, 8, gpu_memory_mib=mib) for name, mib in sizes)).in_detail())
    assert detailed.pools_for(Demand.of(gpus=8, gpu_types=("t4", "h100"))) == (2, 0)
    assert detailed.pools_for(Demand.of((Role(gpus=1, gpu_memory_mib=30),))) == (0, 1)
    assert detailed.pools_for(Demand.plain(17)) == ()
    assert detailed.why_never(Demand.plain(17), 0) == "asks for 17 GPUs, pool h100 has 16"


# --- health and reasons


def test_health_is_part_of_the_view() -> None:
    cluster = Cluster(ClusterSpec((PoolSpec.detailed("p", ((3, PLAIN),)),)))
    index = cluster.pools[0]
    assert isinstance(index, PoolIndex)
    cluster.set_bad(0, 0, 3, True)
    cluster.set_health(0, 1, Health.CORDONED)
    assert (index.free_gpus, placed(index, Demand.plain(8))) == (15, {2: 8})
    assert placed(index, Demand.plain(7)) == {0: 7}
    assert place(index, Demand.plain(16)) is None
    assert why_not(cluster.spec.pools[0], index, Demand.plain(16)) == (
        "needs 16 GPUs, 15 of pool p are free (1 nodes take no work, 1 GPUs are bad)"
    )
    cluster.set_bad(0, 0, 3, False)
    cluster.set_health(0, 1, Health.HEALTHY)
    assert index == PoolIndex(index.layout)
    with pytest.raises(ValueError, match="no node 3"):
        cluster.set_health(0, 3, Health.DOWN)
    with pytest.raises(ValueError, match="known by counts only"):
        Cluster(ClusterSpec.uniform(1)).set_health(0, 0, Health.DOWN)


@pytest.mark.parametrize(
    ("demand", "words"),
    [
        (Demand.plain(40), "asks for 40 GPUs, pool p has 32"),
        (Demand.plain(25), "needs 25 GPUs, 23 of pool p are free"),
        (Demand.plain(20), "needs 2 x 8 GPUs on one node; pool p has room for 1 now"),
        (
            Demand.of((Role(replicas=3, gpus=7),), level="leaf", required=True),
            "must fit one leaf group; needs 3 x 7 GPUs on one node, the best of the 2 groups of pool p has room for 2",
        ),
        (Demand.of(gpus=4, level="spine", required=True), "pool p has no spine groups"),
        (Demand.of(gpus=8, level="island", required=True), "needs 8 GPUs on one island; no island of pool p"),
        (Demand.of((Role(replicas=3, gpus=1, cpus_milli=9000),)), "room for 0 now, for want of CPUs"),
        (Demand.of((Role(gpus=1, nics=1),)), "room for 0 now, for want of NICs"),
        (Demand.of((Role(profile="half"),)), "pool p has no slices half"),
        (Demand.of((Role(gpus=1, gpu_memory_mib=50),)), "a GPU of pool p has 40 MiB, 50 are asked for"),
        (Demand.of(gpus=8, selector=frozenset({("row", "a")})), "no node of pool p has the labels"),
        (Demand.of(gpus=1, gpu_types=("q",)), "GPUs of type p are not acceptable"),
        (Demand.of((Role("a", 1, gpus=8), Role("b", 3, gpus=4))), "the roles fit pool p one by one but not together"),
    ],
)
def test_every_refusal_has_a_reason(demand: Demand, words: str) -> None:
    shape = NodeShape(8, 2, cpus_milli=8000)
    spec = PoolSpec.detailed("p", ((4, shape),), Topology.regular(4, {"leaf": 2}), gpu_memory_mib=40)
    index = PoolIndex(PoolLayout(spec))
    occupy(index, {0: 7, 1: 1, 2: 1})
    assert place(index, demand) is None
    assert words in why_not(spec, index, demand)


# --- from hints to placement


@pytest.mark.parametrize(
    ("hints", "expected"),
    [
        (None, Leaning()),
        (Hints(), Leaning()),
        (Hints(failure_probability=0.7), Leaning(None, True)),
        (Hints(5000.0, 9000.0, failure_probability=0.2), Leaning(5100.0, False)),
        (Hints(5.0, 60.0), Leaning(105.0, True)),
    ],
)
def test_what_hints_say_about_the_place(hints: Hints | None, expected: Leaning) -> None:
    assert leaning(hints, 100.0) == expected


def test_ends_are_kept_by_node_on_pools_in_detail() -> None:
    index, shares = pool(2), [((0, 8),), ((0, 8), (1, 8)), None]
    ends = ends_on(index, shares)
    ends.add(0, 10.0)
    ends.add(1, 20.0)
    assert index.exits.exit_s.tolist() == [20.0, 20.0]
    assert ends.remove(1) == 20.0
    assert index.exits.exit_s.tolist() == [10.0, -math.inf]
    assert type(ends_on(FreeIndex(2, 8), shares)) is ExpectedEnds
