"""What goes wrong in a replay: cancellations, failures, broken hardware, bad places, and a start amid a trace."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from analyzers.types import JobRecord
from prompts.errors import UserError
from schedmate.scheduler import POLICIES, ClusterSpec, PoolSpec
from schedmate.scheduler.cluster_types import NodeShape
from schedmate.scheduler.topology import Topology
from schedmate.simulator import Conditions, Restarts, Result, simulate
from schedmate.simulator.failures import Failures
from schedmate.simulator.fault_plan import Fault, FaultModel, FaultPlan, read_faults
from schedmate.simulator.mishaps import GIVEN_UP
from schedmate.simulator.slowdown import Slowdown, read_slowdown
from schedmate.simulator.warm_start import warm_start

ONE = ClusterSpec.uniform(1, 8)
TEN = ClusterSpec.uniform(10, 8)
TWO = ClusterSpec.uniform(2, 8)
EVERY = sorted(POLICIES)


def row(name: str, submit_s: float, runtime_s: float | None, gpus: int, **more: object) -> JobRecord:
    return JobRecord(name, submit_s, runtime_s, gpus, user="u", **more)  # type: ignore[arg-type]


def play(
    records: Sequence[JobRecord], conditions: Conditions, policy: str = "fifo", cluster: ClusterSpec = ONE
) -> Result:
    return simulate(records, cluster, policy, conditions=conditions, keep_placements=True)


def times(result: Result) -> dict[str, tuple[float, float]]:
    pairs = zip(result.start_s.tolist(), result.end_s.tolist(), strict=True)
    return dict(zip(result.job_ids, pairs, strict=True))


# Cancellations -----------------------------------------------------------------------------------------------------


def gave_up(name: str, submit_s: float, end_s: float, gpus: int) -> JobRecord:
    return row(name, submit_s, None, gpus, outcome="cancelled", end_s=end_s, state="cancelled")


CANCELLED = [row("a", 0, 100, 8), gave_up("b", 1, 60, 8), row("c", 2, 10, 8)]


@pytest.mark.parametrize("policy", ["fifo", "easy", "core", "tiresias", "multifactor"])
def test_a_job_that_is_cancelled_in_the_queue_bars_it_until_then(policy: str) -> None:
    """The head gives up at 60: whatever it barred can go then."""
    small = [row("a", 0, 100, 6), gave_up("b", 1, 60, 8), row("c", 2, 500, 2)]
    result = play(small, Conditions(cancellations=True, restarts=None), policy)
    assert result.job_ids == ["a", "c"]
    if policy == "fifo":
        assert times(result) == {"a": (0, 100), "c": (60, 560)}
    assert result.mishaps.cancelled_waiting + result.mishaps.cancelled_running == 1
    assert result.waiting_jobs[-1] == 0
    assert result.allocated_gpus[-1] == 0


def test_without_being_asked_nothing_is_cancelled() -> None:
    assert play(CANCELLED, Conditions()).skipped == {"cancelled before it ran": 1}
    assert play(CANCELLED, Conditions(cancellations=True)).skipped == {}


def test_a_job_that_runs_by_then_is_cancelled_while_it_runs() -> None:
    result = play([row("a", 0, 20, 8), gave_up("b", 1, 60, 8), row("c", 2, 10, 8)], Conditions(cancellations=True))
    assert times(result) == {"a": (0, 20), "c": (60, 70)}
    assert (result.mishaps.cancelled_waiting, result.mishaps.cancelled_running) == (0, 1)
    assert [(stay.job, stay.from_s, stay.until_s) for stay in result.stays()] == [(0, 0, 20), (-1, 20, 60), (1, 60, 70)]
    assert result.summary()["cancelled"] == {"waiting": 0, "running": 1}


# Failures ----------------------------------------------------------------------------------------------------------


def test_attempts_of_the_trace_are_played_as_runs_that_wait_between() -> None:
    """In its old place the second run of a goes before b; as the longer one it goes after it."""
    records = [row("a", 0, 100, 8, attempts=2), row("b", 10, 30, 8)]
    first = play(records, Conditions(failures=Failures()))
    assert [(stay.job, stay.from_s, stay.until_s) for stay in first.stays()] == [
        (0, 0, 50),
        (0, 50, 100),
        (1, 100, 130),
    ]
    shortest = play(records, Conditions(failures=Failures()), "sjf")
    assert times(shortest) == {"a": (0, 130), "b": (50, 80)}
    assert (shortest.mishaps.failed_runs, shortest.mishaps.failed_gpu_s, shortest.delay_s.tolist()) == (
        1,
        0.0,
        [30.0, 40.0],
    )


@pytest.mark.parametrize("policy", EVERY)
def test_runs_that_end_at_one_moment_are_followed_each_by_its_own(policy: str) -> None:
    """Two jobs that took two and three runs of 50 s."""
    records = [row("a", 0, 100, 3, attempts=2), row("b", 0, 150, 5, attempts=3)]
    result = play(records, Conditions(failures=Failures()), policy)
    assert times(result) == {"a": (0, 100), "b": (0, 150)}
    assert (result.mishaps.failed_runs, result.gar.integral() * 8) == (3, 3 * 100 + 5 * 150)
    assert dict(zip(result.job_ids, result.gpus.tolist(), strict=True)) == {"a": 3, "b": 5}


def test_runs_of_a_job_that_was_refused_are_nobody_elses() -> None:
    """``a`` is larger than the cluster; ``b`` is cancelled while it runs, and ``c`` comes in its place."""
    records = [row("a", 0, 100, 9, attempts=2), gave_up("b", 0, 20, 8), row("c", 25, 10, 8)]
    result = play(records, Conditions(failures=Failures(), cancellations=True))
    assert times(result) == {"c": (25, 35)} and result.mishaps.failed_runs == 0


@settings(max_examples=60, deadline=None)
@given(st.sampled_from(EVERY), st.integers(0, 5), st.floats(0.0, 1.0))
def test_failed_runs_are_lost_and_all_work_is_done(policy: str, seed: int, share: float) -> None:
    records = [row(f"j{i}", float(i % 3), 10.0 + i, 1 + i % 8, requested_s=40.0) for i in range(12)]
    records.sort(key=lambda record: record.submit_s)
    conditions = Conditions(failures=Failures(share, seed))
    result = play(records, conditions, policy)
    assert result.job_ids == [record.job_id for record in records]
    work = sum(record.gpus * (record.duration_s or 0.0) for record in records)
    least = work + result.mishaps.failed_gpu_s + result.lost_gpu_s
    assert least - 1e-6 <= result.gar.integral() * 8 <= least + result.restart_gpu_s + 1e-6
    assert times(play(records, conditions, policy)) == times(result)


def test_a_seed_decides_who_fails_and_nothing_else_does() -> None:
    records = [row(f"j{i}", 0, 10, 1) for i in range(200)]
    runs = [Failures(0.3, seed=4).runs_s(record) for record in records]
    assert runs[::-1] == [Failures(0.3, seed=4).runs_s(record) for record in records[::-1]]
    assert runs != [Failures(0.3, seed=5).runs_s(record) for record in records]
    assert 200 * 0.15 < sum(len(each) > 1 for each in runs) < 200 * 0.45
    assert all(each[-1] == 10 and len(each) <= 3 for each in runs)
    assert all(Failures(1.0, most=2).runs_s(record)[1:] == (10,) for record in records)


@pytest.mark.parametrize("wrong", [{"share": 1.1}, {"share": -0.1}, {"most": 0}])
def test_failures_that_can_not_be_are_refused(wrong: dict[str, float]) -> None:
    with pytest.raises(ValueError, match="can not fail"):
        Failures(**wrong)  # type: ignore[arg-type]


# Faults ------------------------------------------------------------------------------------------------------------


def broken(*faults: Fault, **more: object) -> Conditions:
    return Conditions(faults=FaultPlan(faults), **more)  # type: ignore[arg-type]


DOWN = (Fault(30.0, "down", "gpu", 0), Fault(80.0, "repair", "gpu", 0))


@pytest.mark.parametrize("policy", EVERY)
def test_a_node_that_breaks_stops_its_jobs_until_it_is_repaired(policy: str) -> None:
    result = play([row("a", 0, 100, 8, requested_s=100.0)], broken(*DOWN), policy)
    if POLICIES[policy].ranking is None:
        assert times(result) == {"a": (0, 180)}
    else:  # which can save their state, and take two minutes to start
        assert times(result) == {"a": (0, 180 + 120)}
    assert (result.mishaps.faults, result.mishaps.interrupted, result.evictions) == (1, 1, 0)
    assert result.lost_gpu_s == 8 * 30
    assert result.summary()["faults"] == {"events": 1, "jobs_interrupted": 1, "jobs_failed": 0}


def test_what_was_saved_is_kept() -> None:
    result = play([row("a", 0, 100, 8)], broken(*DOWN, restarts=Restarts(checkpoint_s=20.0, restart_s=5.0)), "core")
    assert times(result) == {"a": (0, 80 + 5 + 80)}
    assert (result.lost_gpu_s, result.restart_gpu_s) == (8 * 10, 8 * 5)


def test_what_is_broken_is_not_schedulable() -> None:
    """Half the cluster is down for 50 of 100 s: all of what there is was allocated."""
    records = [row("a", 0, 100, 8), row("b", 0, 30, 8)]
    result = play(records, broken(Fault(30.0, "down", "gpu", 1), Fault(80.0, "repair", "gpu", 1)), cluster=TWO)
    assert result.gar.values.tolist() == [1.0, 1.0, 0.5, 0.0]
    assert result.sor() == pytest.approx((8 * 100 + 8 * 30) / (16 * 100 - 8 * 50))


def test_a_bad_gpu_is_not_used() -> None:
    result = play(
        [row("a", 50, 10, 8)], broken(Fault(0.0, "bad_gpu", "gpu", 0, 3), Fault(90.0, "good_gpu", "gpu", 0, 3))
    )
    assert times(result) == {"a": (140, 150)}


def test_who_can_never_start_again_is_left_out_and_counted() -> None:
    result = play(
        [row("a", 0, 10, 8), row("b", 5, 10, 8), row("c", 6, 10, 1)], broken(Fault(7.0, "bad_gpu", "gpu", 0, 0))
    )
    assert result.job_ids == []
    assert result.skipped == {"never ended: too little of the cluster was left": 3}


@settings(max_examples=40, deadline=None)
@given(st.sampled_from(EVERY), st.integers(0, 4))
def test_drawn_faults_are_the_same_and_every_job_ends(policy: str, seed: int) -> None:
    records = [row(f"j{i}", float(i), 20.0 + i, 1 + i % 16, requested_s=60.0) for i in range(15)]
    model = FaultModel(seed, node_mtbf_s=150.0, node_repair_s=20.0, gpu_mtbf_s=900.0, gpu_repair_s=30.0)
    conditions = Conditions(faults=FaultPlan(model=model), restarts=Restarts(5.0, 0.0, 1.0))
    result = play(records, conditions, policy, TWO)
    assert result.job_ids == [record.job_id for record in records]
    assert times(result) == times(play(records, conditions, policy, TWO))
    held = sum(sum(share[1] for share in stay.shares) * (stay.until_s - stay.from_s) for stay in result.stays())
    work = sum(record.gpus * (record.duration_s or 0.0) for record in records)
    assert work + result.lost_gpu_s - 1e-6 <= held <= work + result.lost_gpu_s + result.restart_gpu_s + 1e-6


OFTEN = FaultPlan(model=FaultModel(3, node_mtbf_s=100.0, node_repair_s=10.0))


@pytest.mark.parametrize("policy", ["fifo", "easy", "core", "tiresias"])
def test_what_outlasts_the_hardware_and_saves_nothing_counts_as_failed(policy: str) -> None:
    """Put back five times, as Slurm does; the sixth time it is given up, and the others go on as if it were not."""
    never = Restarts(None, 0.0, 0.0)
    records = [row("long", 0, 10_000, 8, requested_s=10_000.0), row("short", 1, 5, 8, requested_s=10_000.0)]
    result = play(records, Conditions(faults=OFTEN, restarts=never), policy)
    assert result.job_ids == ["short"]
    assert result.skipped == {GIVEN_UP: 1}
    assert result.examples == (f"job long: {GIVEN_UP}",)
    assert result.mishaps.given_up == 1
    assert result.mishaps.interrupted >= 6
    assert result.waiting_s.min() >= 0
    once = play(records, Conditions(faults=OFTEN, restarts=never, requeues=0), policy)
    assert once.mishaps.interrupted <= 2


def test_who_saves_anything_in_between_is_never_given_up() -> None:
    conditions = Conditions(faults=OFTEN, restarts=Restarts(20.0, 0.0, 0.0))
    result = play([row("long", 0, 5_000, 8)], conditions)
    assert result.job_ids == ["long"]
    assert result.mishaps.interrupted > 10


def test_a_gang_that_never_finds_enough_hardware_at_once_is_left_out_in_the_end() -> None:
    """Of ten nodes that are broken most of the time all are hardly ever there together."""
    plan = FaultPlan(model=FaultModel(1, node_mtbf_s=40_000.0, node_repair_s=400_000.0))
    result = play([row("all", 0, 10, 80), row("one", 0, 10, 8)], Conditions(faults=plan), "best-effort", TEN)
    assert result.job_ids == ["all", "one"]
    result = play([row("one", 0, 10, 8), row("all", 50_000, 10, 80)], Conditions(faults=plan), "best-effort", TEN)
    assert result.job_ids == ["one"]
    assert result.skipped == {"never ended: too little of the cluster was left": 1}


def test_the_next_job_in_the_place_of_one_that_gave_up_starts_afresh() -> None:
    """b runs, loses its node, and is cancelled while it waits again: c waits since its own submission."""
    faults = (Fault(10.0, "down", "gpu", 0), Fault(90.0, "repair", "gpu", 0))
    result = play([gave_up("b", 0, 50, 8), row("c", 60, 10, 8)], broken(*faults, cancellations=True), "core")
    assert times(result) == {"c": (90, 100)}


def test_drawn_faults_have_the_mean_that_was_asked_for() -> None:
    model, cluster = FaultModel(7, node_mtbf_s=100.0, node_repair_s=25.0), ClusterSpec.uniform(50, 1).in_detail()
    until_s, down, since, faults = 20_000.0, 0.0, dict[int, float](), 0
    for fault in FaultPlan(model=model).faults(cluster):
        if fault.at_s > until_s:
            break
        if fault.kind == "down":
            since[fault.node], faults = fault.at_s, faults + 1
        else:
            down += fault.at_s - since.pop(fault.node)
    assert down / (50 * until_s) == pytest.approx(25 / 125, rel=0.05)
    assert faults == pytest.approx(50 * until_s / 125, rel=0.05)


def test_a_file_of_faults_may_be_csv_or_yaml(tmp_path: Path) -> None:
    table, tree = tmp_path / "f.csv", tmp_path / "f.yaml"
    table.write_text("at,kind,pool,node,gpu\n1h,down,gpu,0,\n90,bad_gpu,gpu,0,3\n")
    tree.write_text(
        "events:\n  - {at: 1h, kind: down, node: 0}\n  - {at: 90, kind: bad_gpu, node: 0, gpu: 3}\n"
        "generate: {seed: 2, node_mtbf: 90d}\n"
    )
    told = (Fault(3600.0, "down", "gpu", 0), Fault(90.0, "bad_gpu", "gpu", 0, 3))
    assert [fault._replace(where="") for fault in read_faults(table).told] == list(told)
    assert [fault._replace(where="") for fault in read_faults(tree).told] == list(told)
    assert [fault.where for fault in read_faults(table).told] == [f"{table}: line 2", f"{table}: line 3"]
    assert read_faults(tree).model == FaultModel(2, node_mtbf_s=90 * 86400.0)
    assert [fault.at_s for fault in FaultPlan(told).faults(ONE.in_detail())] == [90.0, 3600.0]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("events: [{at: 1h, kind: melts, node: 0}]", "kind 'melts' is not known"),
        ("events: [{at: 1h, kind: down, node: 0, gpu: 1}]", "down is about a whole node"),
        ("events: [{at: 1h, kind: bad_gpu, node: 0}]", "bad_gpu is about one gpu"),
        ("events: [{kind: down, node: 0}]", "says no time"),
        ("events: [{at: 1h, kind: down}]", "says no node"),
        ("events: [{at: soon, kind: down, node: 0}]", "not a length of time"),
        ("events: [{at: 1h, kind: down, node: -1}]", "not a whole number"),
        ("generate: {seed: 1}", "nothing ever breaks"),
        ("generate: {node_mtfb: 1d}", "no such key"),
        ("[]", "is not a mapping"),
        ("events: {", "not YAML"),
    ],
)
def test_a_wrong_file_of_faults_is_refused_in_words(tmp_path: Path, text: str, words: str) -> None:
    path = tmp_path / "faults.yaml"
    path.write_text(text)
    with pytest.raises(UserError, match=words):
        read_faults(path)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "f.csv: is empty"),
        ("time,what,node\n1h,down,0\n", "f.csv: line 1: no column at and no column kind"),
        ("at,kind\n1h,down\n", "f.csv: line 1: no column node"),
        ("at,kind,node,rack\n1h,down,0,1\n", "f.csv: line 1: no such column: 'rack'"),
        ("at,kind,node\n1h,down,0\n\n2h,burns,0\n", "f.csv: line 4: kind 'burns' is not known"),
        ("at,kind,node\n1h,down,0,7\n", "f.csv: line 2: more cells"),
        ("at,kind,node\n1h,down\n", "f.csv: line 2: says no node"),
        ("at,kind,node,gpu\n1h,down,0,1\n", "f.csv: line 2: down is about a whole node"),
    ],
)
def test_a_wrong_table_of_faults_is_refused_with_its_line(tmp_path: Path, text: str, words: str) -> None:
    path = tmp_path / "f.csv"
    path.write_text(text)
    with pytest.raises(UserError, match=words) as told:
        read_faults(path)
    assert told.value.hint


def test_a_place_that_there_is_not_is_told_with_its_line(tmp_path: Path) -> None:
    path = tmp_path / "f.csv"
    path.write_text("at, kind, node\n1h, down, 0\n1h, down, 5\n")
    with pytest.raises(UserError, match=r"f.csv: line 3: a fault on gpu/5: there is no such place"):
        play([row("a", 0, 1, 1)], Conditions(faults=read_faults(path)))


@pytest.mark.parametrize(("pool", "node", "gpu"), [("h100", 0, None), ("gpu", 1, None), ("gpu", 0, 8)])
def test_places_that_there_are_not_are_refused(pool: str, node: int, gpu: int | None) -> None:
    fault = Fault(0.0, "down" if gpu is None else "bad_gpu", pool, node, gpu)
    with pytest.raises(UserError, match="there is no"):
        play([row("a", 0, 1, 1)], broken(fault))


# Slow-down ---------------------------------------------------------------------------------------------------------

SLOW = Slowdown(beyond_nodes=0.5, beyond_groups=0.25, shared_gpu=0.2)
LEAVES = PoolSpec.detailed("gpu", ((6, NodeShape(4)),), topology=Topology(leaf=(0, 2, 4)))


@pytest.mark.parametrize(
    ("shares", "factor"),
    [
        (((0, 4),), 1.0),
        (((0, 2), (1, 2)), 1.5),
        (((0, 4), (1, 4)), 1.0),
        (((1, 4), (2, 4)), 1.25),
        (((0, 1), (2, 1), (4, 2)), 1.0 + 0.5 * 2 + 0.25 * 2),
        (((0, 0, 1, 500),), 1.2),
    ],
)
def test_how_much_longer_it_takes_where_it_is(shares: tuple[tuple[int, ...], ...], factor: float) -> None:
    assert SLOW.factor(LEAVES, shares) == pytest.approx(factor)  # type: ignore[arg-type]


#: After 10 s one of the two nodes under each leaf switch is free; x takes both, and would fit under one.
SPREAD = [
    row("a", 0, 500, 8), row("b", 0, 10, 8), row("c", 0, 500, 8), row("d", 0, 10, 8), row("x", 20, 100, 16),
]  # fmt: skip
FOUR = ClusterSpec((PoolSpec.detailed("gpu", ((4, NodeShape(8)),), topology=Topology(leaf=(0, 2))),))


def test_a_spread_job_takes_longer() -> None:
    result = play(SPREAD, Conditions(slowdown=SLOW), cluster=FOUR)
    assert result.placement(4).nodes == (1, 3)
    assert times(result)["x"] == (20, 20 + 125)
    assert times(play(SPREAD, Conditions(), cluster=FOUR))["x"] == (20, 120)


def test_saved_work_is_counted_at_the_pace_of_its_run() -> None:
    """After 60 s at 1.25 times its time, all of them saved, 52 of its 100 s are left, which take 65 s."""
    faults = FaultPlan((Fault(80.0, "down", "gpu", 1), Fault(81.0, "repair", "gpu", 1)))
    conditions = Conditions(slowdown=SLOW, faults=faults, restarts=Restarts(20.0, 0.0, 0.0))
    result = play(SPREAD, conditions, cluster=FOUR)
    assert [stay.until_s - stay.from_s for stay in result.stays() if stay.job == 4] == [60, 65]


def test_the_usual_numbers_say_where_they_are_from(tmp_path: Path) -> None:
    assert read_slowdown().beyond_nodes == pytest.approx(114.8 / 98.0 - 1, abs=5e-4)
    path = tmp_path / "mine.yaml"
    path.write_text(
        "beyond_nodes: {value: 0.1}\nbeyond_groups: {value: 0, source: x}\nshared_gpu: {value: 0, source: x}\n"
    )
    with pytest.raises(UserError, match="beyond_nodes: needs a value and its source"):
        read_slowdown(path)


# A stretch of the trace --------------------------------------------------------------------------------------------

HISTORY = [
    row("gone", 0, 50, 8, start_s=0.0, end_s=50.0),
    row("runs", 10, 200, 6, start_s=50.0, end_s=250.0, requested_s=300.0),
    row("waits", 20, 30, 4, start_s=250.0, end_s=280.0),
    row("held", 30, 30, 2, start_s=300.0, end_s=330.0, eligible_s=150.0),
    row("comes", 120, 10, 2, start_s=120.0, end_s=130.0),
    row("later", 400, 10, 2, start_s=400.0, end_s=410.0),
]


@pytest.mark.parametrize("policy", EVERY)
def test_a_stretch_begins_with_what_ran_and_waited(policy: str) -> None:
    warm, played = warm_start(HISTORY, 100.0, 300.0)
    assert [each.record.job_id for each in warm.running] == ["runs"]
    assert [(record.job_id, record.submit_s) for record in played] == [("waits", 20), ("comes", 120), ("held", 150)]
    result = play(played, Conditions(warm=warm), policy)
    assert result.times_s[0] == 100
    assert result.allocated_gpus[0] >= 2
    assert set(result.job_ids) == {"waits", "comes", "held"}
    assert result.start_s.min() >= 100
    if policy in ("fifo", "easy", "best-effort"):
        began = {name: start for name, (start, _) in times(result).items()}
        assert began["waits"] == 250
        assert began["comes"] == (250 if policy == "fifo" else 120)
        assert began["held"] == (250 if policy == "fifo" else 150)


def test_time_without_any_hardware_counts_for_nothing() -> None:
    """As by hand: 1,880 GPU seconds of the 260 s in which eight GPUs were there."""
    jobs = [row("a", 0, 100, 8), row("b", 10, 100, 8), row("c", 20, 50, 4)]
    faults = (Fault(10.0, "down", "gpu", 0), Fault(30.0, "repair", "gpu", 0))
    result = play(jobs, Conditions(faults=FaultPlan(faults)))
    assert result.end_s.max() == 280
    assert result.sor() == pytest.approx(1880 / 2080)
    assert result.sor(20.0) == pytest.approx(1.0)


def test_what_ran_then_and_fits_no_pool_is_left_out_and_counted() -> None:
    typed = [row("runs", 0, 200, 6, start_s=50.0, end_s=250.0, gpu_type="other"), *HISTORY[2:5]]
    warm, played = warm_start(typed, 100.0, 300.0)
    assert [each.record.job_id for each in warm.running] == ["runs"]
    result = play(played, Conditions(warm=warm))
    assert sum(result.skipped.values()) == 1
    assert times(result)["waits"] == (100, 130), "nothing is in its way"


def test_without_a_warm_start_the_cluster_is_empty() -> None:
    _, played = warm_start(HISTORY, 100.0, 300.0)
    assert times(play(played, Conditions()))["waits"] == (20, 50)
