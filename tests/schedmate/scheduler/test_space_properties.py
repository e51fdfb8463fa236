"""Pools described in detail: what must hold whatever is placed, freed, broken and repaired."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Iterator
from itertools import combinations
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from schedmate.scheduler.cluster_types import DeviceShare, Health, NodeShape, PoolSpec, Profile, Shares
from schedmate.scheduler.demand import Demand, Leaning, Role
from schedmate.scheduler.placement import fits, place, why_not
from schedmate.scheduler.placement.fit import by_node, holds
from schedmate.scheduler.pool_index import PoolIndex
from schedmate.scheduler.pool_layout import Part, PoolLayout
from schedmate.scheduler.topology import Topology

GPU_MIB = 40
SLICES = (Profile("half", 500, 20), Profile("third", 300, 10))


@st.composite
def shapes(draw: st.DrawFn) -> NodeShape:
    gpus, islands, numa = draw(st.sampled_from([(1, 1, 1), (2, 1, 2), (4, 2, 1), (4, 2, 2), (4, 1, 2)]))
    return NodeShape(
        gpus,
        islands,
        numa,
        draw(st.sampled_from([0, gpus, max(1, gpus // 2)])),
        draw(st.none() | st.integers(1, 8)),
        draw(st.none() | st.integers(1, 8)),
        draw(st.none() | st.integers(1, 8)),
        frozenset(draw(st.sets(st.sampled_from([("row", "a"), ("os", "new")]), max_size=1))),
        frozenset(draw(st.sampled_from([(), (), ("old",)]))),
        draw(st.sampled_from([None, None, None, "web"])),
    )


@st.composite
def pools(draw: st.DrawFn, most_nodes: int = 6) -> PoolSpec:
    found = draw(st.lists(st.tuples(st.integers(1, 3), shapes()), min_size=1, max_size=3))
    while sum(count for count, _ in found) > most_nodes:
        found.pop()
    found = found or [(1, NodeShape(2))]
    nodes = sum(count for count, _ in found)
    sizes = {level: draw(st.integers(1, 3)) for level in draw(st.sets(st.sampled_from(["hbd", "leaf", "spine"])))}
    topology = Topology.regular(nodes, sizes)
    return PoolSpec.detailed("p", tuple(found), topology, gpu_memory_mib=GPU_MIB, profiles=SLICES)


@st.composite
def roles(draw: st.DrawFn) -> Role:
    kind = draw(st.sampled_from(["gpus", "gpus", "milli", "slice", "none"]))
    replicas = draw(st.integers(1, 4))
    few = st.sampled_from([0, 0, 1, 2])
    return Role(
        replicas=replicas,
        gpus=draw(st.sampled_from([1, 2, 3, 4])) if kind == "gpus" else 0,
        milli_gpu=draw(st.sampled_from([100, 300, 500, 700])) if kind == "milli" else 0,
        profile=draw(st.sampled_from(["half", "third"])) if kind == "slice" else None,
        gpu_memory_mib=draw(st.sampled_from([0, 10])) if kind != "none" else 0,
        nics=draw(few) if kind == "gpus" else 0,
        cpus_milli=draw(few),
        memory_mib=draw(few),
        disk_mib=draw(few),
        min_replicas=draw(st.none() | st.integers(1, replicas)),
    )


@st.composite
def demands(draw: st.DrawFn) -> Demand:
    if draw(st.booleans()):
        return Demand.plain(draw(st.integers(1, 12)))
    many = tuple(draw(st.lists(roles(), max_size=3)))
    zone = draw(st.sampled_from([None, None, "web"]))
    spread = zone is not None and draw(st.booleans())
    levels = ["island", "node", "hbd", "leaf", "spine", "pool"]
    return Demand.of(
        many,
        gpus=0 if many else draw(st.integers(1, 12)),
        level=None if spread else draw(st.none() | st.sampled_from(levels)),
        required=draw(st.booleans()),
        selector=frozenset(draw(st.sampled_from([(), (), (("row", "a"),)]))),
        tolerations=frozenset(draw(st.sampled_from([(), ("old",)]))),
        zone=zone,
        heavy=draw(st.booleans()),
        spread=spread,
        shareable=draw(st.booleans()),
    )


leanings = st.builds(Leaning, st.none() | st.floats(0, 1e5), st.booleans())


def group_of(spec: PoolSpec, level: str, node: int) -> int:
    return max(start for start in (spec.topology.starts(level) or (0,)) if start <= node)


def check_gang(layout: PoolLayout, demand: Demand, shares: Shares) -> None:
    """The gang is whole, on nodes that let it in, inside what it requires."""
    spec, parts = layout.spec, layout.parts(demand)
    assert not isinstance(parts, str)
    for part in parts:
        mine = [share for share in shares if isinstance(share, DeviceShare) and share.role == part.role]
        if not demand.roles:
            continue
        replicas = sum(share.replicas for share in mine)
        role = demand.roles[part.role]
        assert role.least_replicas <= replicas <= role.replicas
        for share in mine:
            assert share.gpus == part.gpus * share.replicas == (0 if part.milli else share.devices.bit_count())
            assert (share.milli, share.sliced) == (part.milli, part.sliced)
            assert share.nics.bit_count() == part.nics * share.replicas
            assert share[7:10] == tuple(amount * share.replicas for amount in part[7:10])
    if not demand.roles:
        assert sum(share[1] for share in shares) == demand.gpus
    nodes = {share[0] for share in shares}
    for node in nodes:
        shape = layout.shapes[node]
        assert demand.selector <= shape.labels
        assert shape.taints <= demand.tolerations
        assert shape.zone == demand.zone
    if demand.required and demand.level in ("node", "island"):
        assert len(nodes) <= 1
        if demand.level == "island":
            devices = sum({share[2] for share in shares if share[1]})
            for node in nodes:
                length = layout.shapes[node].gpus // layout.shapes[node].islands
                assert len({i // length for i in range(layout.shapes[node].gpus) if devices >> i & 1}) <= 1
    elif demand.required and demand.level in spec.topology.levels:
        assert len({group_of(spec, demand.level, node) for node in nodes}) <= 1


def check_node(layout: PoolLayout, node: int, running: list[Shares], bad: int) -> None:
    """Nothing on the node is promised twice."""
    shape = layout.shapes[node]
    here = [share for shares in running for share in shares if isinstance(share, DeviceShare) and share.node == node]
    whole = [share for share in here if not share.milli]
    parts = [share for share in here if share.milli]
    for a, b in combinations(whole, 2):
        assert not a.devices & b.devices
        assert not a.nics & b.nics
    taken = sum(share.devices for share in whole)
    assert taken < 1 << shape.gpus
    assert sum(share.nics for share in whole) < 1 << shape.nics
    for device in range(shape.gpus):
        on = [share for share in parts if share.devices == 1 << device]
        assert sum(share.milli for share in on) <= 1000
        assert sum(share.device_memory_mib for share in on) <= GPU_MIB
        assert len({share.sliced for share in on}) <= 1
        assert not (on and taken >> device & 1)
    for most, used in (
        (shape.cpus_milli, sum(share.cpus_milli for share in here)),
        (shape.memory_mib, sum(share.memory_mib for share in here)),
        (shape.disk_mib, sum(share.disk_mib for share in here)),
    ):
        assert most is None or used <= most


@settings(max_examples=400, deadline=None)
@given(st.data(), pools())
def test_nothing_is_taken_twice_and_the_index_equals_one_made_anew(data: st.DataObject, spec: PoolSpec) -> None:
    layout = PoolLayout(spec)
    index, running = PoolIndex(layout), list[Shares]()
    for _ in range(data.draw(st.integers(1, 12))):
        what = data.draw(st.sampled_from(["start", "start", "start", "end", "health", "bad"]))
        node = data.draw(st.integers(0, spec.nodes - 1))
        if what == "start":
            demand, leaning = data.draw(demands()), data.draw(leanings)
            before = index.copy()
            shares = place(index, demand, leaning)
            assert index == before, "placing changes nothing"
            parts, eligible = layout.parts(demand), layout.eligible(demand)
            for part in () if isinstance(parts, str) else parts:
                assert (holds(index, part, eligible) == (by_node(index, part, eligible) > 0)).all()
            if shares is None:
                assert why_not(spec, index, demand)
            else:
                check_gang(layout, demand, shares)
                assert all(share[0] not in index.health for share in shares)
                bad_used = [share for share in shares if share[2] & index.bad.get(share[0], 0)]
                assert not bad_used
                index.take(shares)
                running.append(shares)
        elif what == "end" and running:
            index.give(running.pop(data.draw(st.integers(0, len(running) - 1))))
        elif what == "health":
            index.set_health(node, data.draw(st.sampled_from(Health)))
        elif what == "bad":
            index.set_bad(node, data.draw(st.integers(0, (1 << layout.shapes[node].gpus) - 1)))
        for each in range(spec.nodes):
            check_node(layout, each, running, index.bad.get(each, 0))
        assert PoolIndex.rebuilt(PoolLayout(spec), running, index.condition) == index
    for shares in running:
        index.give(shares)
    assert PoolIndex.rebuilt(layout, [], index.condition) == index, "what is given back leaves no trace"


@settings(max_examples=300, deadline=None)
@given(st.data(), pools())
def test_hints_never_decide_whether_there_is_a_placement(data: st.DataObject, spec: PoolSpec) -> None:
    index = filled(data, PoolLayout(spec))
    demand, leaning = data.draw(demands()), data.draw(leanings)
    if not demand.elastic:
        assert (place(index, demand) is None) == (place(index, demand, leaning) is None)


@settings(max_examples=600, deadline=None)
@given(st.data(), pools())
def test_numbers_alone_tell_whether_there_is_a_placement(data: st.DataObject, spec: PoolSpec) -> None:
    index, demand = filled(data, PoolLayout(spec)), data.draw(demands())
    assert fits(index, demand) == (place(index, demand) is not None)


def filled(data: st.DataObject, layout: PoolLayout) -> PoolIndex:
    index = PoolIndex(layout)
    for _ in range(data.draw(st.integers(0, 5))):
        shares = place(index, data.draw(demands()))
        if shares is not None:
            index.take(shares)
    if data.draw(st.booleans()):
        index.set_health(data.draw(st.integers(0, layout.nodes - 1)), Health.CORDONED)
    return index


@settings(max_examples=300, deadline=None)
@given(st.data(), pools())
def test_what_runs_beside_a_plan_leaves_it_room(data: st.DataObject, spec: PoolSpec) -> None:
    layout = PoolLayout(spec)
    index, running = PoolIndex(layout), list[Shares]()
    for _ in range(data.draw(st.integers(0, 4))):
        shares = place(index, data.draw(demands()))
        if shares is not None:
            index.take(shares)
            running.append(shares)
    ending = [shares for shares in running if data.draw(st.booleans())]
    ahead = index.copy()
    for shares in ending:
        ahead.give(shares)
    plan = place(ahead, data.draw(demands()))
    if plan is None:
        return
    spare = ahead.spare_beside(plan)
    for _ in range(3):
        beside = place(index.restricted([spare]), data.draw(demands()))
        if beside is not None:
            index.take(beside)
            spare = index.less(spare, beside)
    for shares in ending:
        index.give(shares)
    index.take(plan)  # raises if anything of it is gone


def assignments(
    room: list[list[int]], needs: list[tuple[int, tuple[int, ...]]], at: int = 0, least_node: int = 0
) -> Iterator[None]:
    """Yields if all ``needs`` (replicas, amounts) fit the nodes' ``room``: every way is tried."""
    flat = [amounts for replicas, amounts in needs for _ in range(replicas)]
    if at == len(flat):
        yield None
        return
    same = at > 0 and flat[at] == flat[at - 1]
    for node in range(least_node if same else 0, len(room)):
        if all(have >= need for have, need in zip(room[node], flat[at], strict=True)):
            room[node] = [have - need for have, need in zip(room[node], flat[at], strict=True)]
            yield from assignments(room, needs, at + 1, node)
            room[node] = [have + need for have, need in zip(room[node], flat[at], strict=True)]


def exists(index: PoolIndex, demand: Demand, parts: tuple[Part, ...]) -> bool:
    layout, level = index.layout, demand.level if demand.required else None
    eligible = layout.eligible(demand)
    usable = [
        node for node in range(layout.nodes) if node not in index.health and (eligible is None or bool(eligible[node]))
    ]
    if level == "node":
        groups = [[node] for node in usable]
    elif level in layout.spec.topology.levels:
        starts = {group_of(layout.spec, level, node) for node in usable}
        groups = [[n for n in usable if group_of(layout.spec, level, n) == start] for start in starts]
    else:
        groups = [usable]
    big = 10**9
    needs = [(part.replicas, (part.gpus, part.nics, part.cpus_milli, part.memory_mib, part.disk_mib)) for part in parts]
    for group in groups:
        room = [
            [
                index.free[n].bit_count(),
                0 if index.nics is None else index.nics[n].bit_count(),
                big if index.cpus_milli is None else int(index.cpus_milli[n]),
                big if index.memory_mib is None else int(index.memory_mib[n]),
                big if index.disk_mib is None else int(index.disk_mib[n]),
            ]
            for n in group
        ]
        if next(assignments(room, needs), False) is None:
            return True
    return False


@st.composite
def complete_demands(draw: st.DrawFn) -> Demand:
    """Those for which a placement is promised whenever there is one: one role of any kind, or several that ask for GPUs
    only, each a multiple of the next."""
    level = draw(st.none() | st.sampled_from(["node", "hbd", "leaf", "spine", "pool"]))
    terms: dict[str, Any] = {"level": level, "required": draw(st.booleans()), "heavy": draw(st.booleans())}
    kind = draw(st.sampled_from(["plain", "one", "several"]))
    if kind == "plain":
        return Demand.of(gpus=draw(st.integers(1, 14)), **terms)
    few, replicas = st.sampled_from([0, 0, 1, 2, 3]), st.integers(1, 5)
    if kind == "one":
        gpus = draw(st.integers(1, 4))
        role = Role("w", draw(replicas), gpus, 0, None, 0, draw(few), draw(few), draw(few), draw(few))
        return Demand.of((role,), **terms)
    sizes = draw(st.lists(st.sampled_from([1, 2, 4]), min_size=2, max_size=3))
    return Demand.of(tuple(Role(f"r{i}", draw(replicas), gpus) for i, gpus in enumerate(sizes)), **terms)


@settings(max_examples=600, deadline=None)
@given(st.data(), pools(most_nodes=5))
def test_a_placement_is_found_whenever_there_is_one(data: st.DataObject, spec: PoolSpec) -> None:
    layout = PoolLayout(spec)
    index, demand = filled(data, layout), data.draw(complete_demands())
    parts = layout.parts(demand)
    if not isinstance(parts, str):
        shares = place(index, demand)
        assert (shares is not None) == exists(index, demand, parts)
        index.take(shares or ())


@settings(max_examples=300, deadline=None)
@given(st.data(), pools(most_nodes=4), st.integers(1, 8), st.sampled_from([100, 300, 500, 700]), st.booleans())
def test_parts_of_gpus_are_placed_whenever_devices_have_room(
    data: st.DataObject, spec: PoolSpec, replicas: int, milli: int, memory: bool
) -> None:
    layout = PoolLayout(spec)
    index = filled(data, layout)
    memory_mib = 10 if memory else 0
    demand = Demand.of((Role("w", replicas, milli_gpu=milli, gpu_memory_mib=memory_mib),), shareable=True)
    eligible, room = layout.eligible(demand), 0
    for node in range(spec.nodes):
        if node in index.health or (eligible is not None and not eligible[node]):
            continue
        devices = [(1000, GPU_MIB)] * index.free[node].bit_count()
        devices += [(d.milli, d.memory_mib) for d in index.partial.get(node, ()) if not d.sliced]
        room += sum(min(left // milli, left_mib // memory_mib if memory else 99) for left, left_mib in devices)
    assert (place(index, demand) is not None) == (room >= replicas)


@given(demands())
def test_equal_demands_are_one_object(demand: Demand) -> None:
    assert pickle.loads(pickle.dumps(demand)) is demand
    assert copy.deepcopy(demand) is demand
    assert hash(demand) == hash(copy.copy(demand))
