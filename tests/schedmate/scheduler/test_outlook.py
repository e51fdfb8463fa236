"""The outlook: what it learns, and that its tables are the expectation that they claim to be."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from schedmate.scheduler import POLICIES, ClusterSpec, Demand, Job, PoolSpec, Scheduler
from schedmate.scheduler.cluster_types import NodeShape
from schedmate.scheduler.demand import Role
from schedmate.scheduler.outlook import FIRST_LOOK, HAZARD, Outlook, Waste
from schedmate.scheduler.pool_layout import Part, PoolLayout

CPUS_MILLI = 4000


def small(cpus_milli: int, milli_gpu: int = 0, gpus: int = 0) -> Demand:
    return Demand.of((Role(gpus=gpus, milli_gpu=milli_gpu, cpus_milli=cpus_milli),), shareable=milli_gpu > 0)


def pool(name: str = "a", nodes: int = 2, gpus: int = 2) -> PoolSpec:
    return PoolSpec.detailed(name, ((nodes, NodeShape(gpus, cpus_milli=CPUS_MILLI)),))


def test_nothing_is_concluded_before_enough_was_seen() -> None:
    outlook = Outlook()
    waste = Waste(PoolLayout(pool()), outlook)
    for _ in range(FIRST_LOOK - 1):
        outlook.observe(small(1000, 500))
    assert not waste.ready()
    outlook.observe(small(1000, 500))
    assert waste.ready()


def test_tables_are_those_of_the_time_when_it_was_enough_whenever_somebody_looks() -> None:
    costs = []
    for looks_at_once in (True, False):
        outlook = Outlook()
        waste = Waste(PoolLayout(pool()), outlook)
        for i in range(FIRST_LOOK + 50):
            outlook.observe(small(1000, 500) if i < FIRST_LOOK else small(3000, gpus=1))
            if looks_at_once:
                waste.ready()
        assert waste.ready()
        left = np.array([[1000, 1000], [500, 1000]])
        costs.append(waste.cost(Part(0, 1, 0, 500, cpus_milli=1000), np.array([4000, 3000]), left)[0].tolist())
    assert costs[0] == costs[1]


def test_the_cost_on_a_node_is_that_among_many_also_when_more_was_learned() -> None:
    outlook = Outlook()
    waste = Waste(PoolLayout(pool()), outlook)
    part, cpus_milli, left = Part(0, 1, 0, 500, cpus_milli=1000), [4000, 3000], [[1000, 1000], [500, 1000]]
    known = []
    for kind in (small(1000, 500), small(3000, gpus=1)):
        for _ in range(FIRST_LOOK):
            outlook.observe(kind)
        assert waste.ready()
        costs = waste.cost(part, np.array(cpus_milli), np.array(left))[0].tolist()
        for _ in range(2):
            assert [waste.cost_on(part, cpu, tuple(row)) for cpu, row in zip(cpus_milli, left, strict=True)] == costs
        known.append(costs)
    assert known[0] != known[1]


def test_what_was_recalled_is_what_was_known() -> None:
    old, new = Outlook(), Outlook()
    for i in range(250):
        old.observe(small(1000 + i % 3))
    new.observe(small(9000))
    new.recall(old)
    assert new == old
    for outlook in (old, new):
        outlook.observe(small(2000))
    assert new == old
    new.observe(small(2000))
    assert new != old


@settings(max_examples=15)
@given(
    st.lists(
        st.tuples(st.sampled_from([0, 1000, 2000, 3000]), st.sampled_from([200, 500, 1000, 2000]), st.integers(1, 9)),
        min_size=1,
        max_size=4,
        unique_by=lambda kind: kind[:2],
    )
)
def test_strandings_are_the_expected_ends_of_random_arrivals(kinds: list[tuple[int, int, int]]) -> None:
    """Against the recursion written down for one state at a time, with the CPU in its own steps."""
    outlook = Outlook()
    total = sum(count for _, _, count in kinds)
    for cpus_milli, gpu_milli, count in kinds:
        demand = small(cpus_milli, gpus=gpu_milli // 1000) if gpu_milli >= 1000 else small(cpus_milli, gpu_milli)
        for _ in range(count * -(-FIRST_LOOK // total)):
            outlook.observe(demand)
    waste = Waste(PoolLayout(pool()), outlook)
    assert waste.ready()
    step_milli = waste._cpu_step_milli
    seen: dict[tuple[int, int], float] = {}

    def end(cpu_steps: int, gpu_milli: int) -> float:
        if gpu_milli == 0:
            return 0.0
        if (cpu_steps, gpu_milli) not in seen:
            value, weight = HAZARD * gpu_milli, HAZARD
            for cpus_milli, asked, count in settled:
                need = -(-cpus_milli // step_milli)
                if asked <= gpu_milli and need <= cpu_steps:
                    value += count * end(cpu_steps - need, gpu_milli - asked)
                    weight += count
            seen[cpu_steps, gpu_milli] = value / weight
        return seen[cpu_steps, gpu_milli]

    counted = sum(outlook.settled.values())
    settled = [
        (role.cpus_milli, role.milli_gpu or role.gpus * 1000, count / counted)
        for demand, count in outlook.settled.items()
        for role in demand.roles
    ]
    for cpus_milli in (0, 1500, CPUS_MILLI):
        for gpu_milli in (0, 500, 1000, 2000):
            got = waste._stranding(np.array([cpus_milli]), np.array([gpu_milli]))[0]
            assert got == pytest.approx(end(cpus_milli // step_milli, gpu_milli), abs=1e-6)


def test_small_jobs_leave_the_cpus_that_others_need_on_the_pool_that_has_few() -> None:
    """Jobs that want a lot of CPU a GPU have come; so one that wants little goes where CPU is short already."""
    rich = PoolSpec.detailed("rich", ((1, NodeShape(2, cpus_milli=20_000)),))
    poor = PoolSpec.detailed("poor", ((1, NodeShape(2, cpus_milli=2000)),))
    scheduler, restarted = (Scheduler(ClusterSpec((rich, poor)), POLICIES["core"]) for _ in range(2))
    heavy, light = small(10_000, gpus=1), small(100, gpus=1)

    def where(demand: Demand, scheduler: Scheduler = scheduler, **more: tuple[str, ...]) -> str:
        slot = scheduler.submit(Job("j", demand.gpus, 0.0, demand=demand, **more))  # type: ignore[arg-type]
        assert scheduler.cycle(0.0) == [slot]
        placed = scheduler.decision(slot).placement
        scheduler.end(slot, 0.0)
        assert placed is not None
        return placed.pool

    assert where(light) == "rich", "the first that has room, while nothing is known"
    for _ in range(FIRST_LOOK):
        assert where(heavy) == "rich"
    assert where(light) == "poor"
    assert where(light, gpu_types=("rich", "poor")) == "rich", "an order of preference stands"
    assert where(light, restarted) == "rich"
    assert scheduler.outlook is not None
    restarted.recall(scheduler.outlook)
    assert where(light, restarted) == "poor", "and what was learned can be handed on"


def test_pools_known_by_counts_learn_nothing() -> None:
    scheduler = Scheduler(ClusterSpec.uniform(1, 8), POLICIES["core"])
    assert scheduler.outlook is None
    with pytest.raises(ValueError, match="counts only"):
        scheduler.recall(Outlook())
