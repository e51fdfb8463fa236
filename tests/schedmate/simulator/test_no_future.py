"""No policy sees the future: what happens after a moment changes no decision up to that moment."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from analyzers.types import JobRecord
from predictors import OnlineDurationPredictor
from schedmate.knowledge import uses_estimates
from schedmate.scheduler import POLICIES, ClusterSpec, PoolSpec, Tenant
from schedmate.simulator import (
    Estimates,
    Hostile,
    Perfect,
    Predicted,
    Preemptible,
    Requested,
    Restarts,
    Result,
    SizeClasses,
    simulate,
)

#: Pools known by counts, of one type and of two.
CLUSTERS = (ClusterSpec.uniform(2, 4), ClusterSpec((PoolSpec("a", 2, 4), PoolSpec("b", 1, 8))))
TENANTS = (Tenant("u0"), Tenant("u1", weight=2.0))


@dataclass(frozen=True)
class Middle:
    p50: float
    p90: float


class MeanOfEnded:
    """Predicts the mean runtime of the jobs that have ended; knows nothing else."""

    def __init__(self) -> None:
        self._ended: list[float] = []

    def quantiles(self, record: JobRecord) -> Middle:
        mean = sum(self._ended) / len(self._ended) if self._ended else 5.0
        return Middle(mean, 2 * mean)

    def observe(self, record: JobRecord) -> None:
        self._ended.append(record.duration_s or 0.0)


#: Estimates that are given and do not come from the true runtime of a job that has not ended.
HONEST: Mapping[str, Callable[[], Estimates]] = {
    "requested": Requested,
    "predicted": lambda: Predicted(MeanOfEnded()),
    "predicted by history": lambda: Predicted(OnlineDurationPredictor()),
    "requested, may be evicted": lambda: Preemptible(Requested(), Restarts(checkpoint_s=4.0, restart_s=1.0)),
}
#: Estimates that are the truth: of these jobs nothing but the arrivals to come is unknown.
TOLD: Mapping[str, Callable[[], Estimates]] = {
    "perfect": Perfect,
    "hostile": Hostile,
    "perfect, may be evicted": lambda: Preemptible(Perfect(), Restarts(checkpoint_s=4.0, restart_s=1.0)),
}

#: What a policy may be told by way of a trial that the truth does not change it.
HARMLESS: Mapping[str, Callable[[], Estimates]] = {**HONEST, **TOLD}


def kinds(policy: str, tenants: Sequence[Tenant]) -> Mapping[str, Callable[[], Estimates]]:
    """Of jobs that have not ended: the truth too where a policy looks at no runtimes, for then it must not matter."""
    if policy == "core":
        evicts = {"requested, small before large": lambda: SizeClasses(HONEST["requested, may be evicted"]())}
        return {**HONEST, **evicts}
    return HONEST if uses_estimates(POLICIES[policy], bool(tenants)) else HARMLESS


Decided = set[tuple[object, ...]]


@st.composite
def jobs(draw: st.DrawFn, name: str, first_s: int, fewest: int) -> list[JobRecord]:
    """Up to 12 records from a time on, in order; the largest fills every cluster, some outlive what they asked for."""
    row = st.tuples(
        st.integers(first_s, first_s + 20),
        st.integers(1, 8),
        st.integers(0, 12),
        st.integers(1, 14),
        st.integers(0, 2),
        st.sampled_from([None, "a", "b"]),
    )
    rows = sorted(draw(st.lists(row, min_size=fewest, max_size=12)), key=lambda r: r[0])
    return [
        JobRecord(
            f"{name}{i}", float(submit), float(runtime), gpus, user=f"u{user}", tenant=f"u{user}",
            gpu_type=gpu_type, requested_s=float(requested),
        )
        for i, (submit, gpus, runtime, requested, user, gpu_type) in enumerate(rows)
    ]  # fmt: skip


def play(
    records: Iterable[JobRecord], cluster: ClusterSpec, policy: str, estimates: Estimates, tenants: Sequence[Tenant]
) -> Result:
    if len(cluster.pools) == 1:
        records = [replace(record, gpu_type=None) for record in records]
    return simulate(records, cluster, policy, estimates, tenants=tenants, keep_placements=True)


def decided(result: Result, moment: float) -> Decided:
    """All starts up to a moment, where, and whether and when the job was stopped again by then."""
    return {
        (result.job_ids[stay.job], stay.from_s, stay.pool, stay.shares, None if stay.until_s > moment else stay.until_s)
        for stay in result.stays()
        if stay.from_s <= moment
    }


@st.composite
def tenants_for(draw: st.DrawFn, policy: str) -> Sequence[Tenant]:
    """None, or two; some policies know none."""
    return () if not POLICIES[policy].knows_tenants else draw(st.sampled_from([(), TENANTS]))


@pytest.mark.parametrize("policy", sorted(POLICIES))
@settings(max_examples=60, deadline=None)
@given(st.data(), st.sampled_from(CLUSTERS), st.integers(0, 40))
def test_other_runtimes_and_later_arrivals_change_nothing_before(
    policy: str, data: st.DataObject, cluster: ClusterSpec, moment: int
) -> None:
    """Other true runtimes of the jobs that have not ended by a moment, and other jobs after it."""
    records, tenants = data.draw(jobs("j", 0, 1)), data.draw(tenants_for(policy))
    of_policy = kinds(policy, tenants)
    known = of_policy[data.draw(st.sampled_from(sorted(of_policy)))]
    one = play(records, cluster, policy, known(), tenants)
    ended = {name for name, end_s in zip(one.job_ids, one.end_s, strict=True) if end_s <= moment}
    ran_s = {name: max(0.0, moment - from_s + 1) for name, from_s in zip(one.job_ids, one.start_s, strict=True)}
    other = [
        record
        if record.job_id in ended
        # Still not ended at the moment, but otherwise anything.
        else replace(record, duration_s=float(ran_s[record.job_id]) + data.draw(st.integers(0, 30)))
        for record in records
        if record.submit_s <= moment
    ]
    two = play([*other, *data.draw(jobs("k", moment + 1, 0))], cluster, policy, known(), tenants)
    assert decided(one, moment) == decided(two, moment)


@pytest.mark.parametrize("policy", sorted(POLICIES))
@settings(max_examples=40, deadline=None)
@given(st.data(), st.sampled_from(sorted(TOLD)), st.sampled_from(CLUSTERS), st.integers(0, 30))
def test_an_oracle_knows_of_no_job_before_it_is_submitted(
    policy: str, data: st.DataObject, kind: str, cluster: ClusterSpec, moment: int
) -> None:
    records, tenants = data.draw(jobs("j", 0, 1)), data.draw(tenants_for(policy))
    known = [record for record in records if record.submit_s <= moment]
    later = data.draw(jobs("k", moment + 1, 0))
    one, two = (play(each, cluster, policy, TOLD[kind](), tenants) for each in (records, [*known, *later]))
    assert decided(one, moment) == decided(two, moment)


@pytest.mark.parametrize("policy", ["sjf", "easy", "core", "patient", "conservative", "srtf"])
def test_one_that_does_see_it_is_caught(policy: str) -> None:
    """The property can fail: told the truth, a policy decides at 1 s by runtimes that differ from then on."""
    head = [JobRecord("run", 0.0, 10.0, 6), JobRecord("head", 1.0, 10.0, 8)]
    one, two = (
        play([*head, JobRecord("a", 1.0, a, 2), JobRecord("b", 1.0, b, 2)], CLUSTERS[0], policy, Perfect(), ())
        for a, b in ((3.0, 900_000.0), (900_000.0, 3.0))
    )
    assert decided(one, 1) != decided(two, 1)
