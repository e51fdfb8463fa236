"""What bounds on waiting cost: the benchmark's own arithmetic."""

from __future__ import annotations

from dataclasses import replace

import pytest

from analyzers.types import JobRecord
from benchmarks.waiting_bounds import BOUNDS, CORE, OF_OLD, measured, synthetic, table, waits
from prompts.errors import UserError
from schedmate.scheduler import ClusterSpec
from schedmate.scheduler.policies import DAY_S
from schedmate.simulator import Requested, simulate

TWO = ClusterSpec.uniform(2, 8)


def jobs() -> list[JobRecord]:
    """A gang of all GPUs behind small jobs that never leave room for it before they end."""
    small = [JobRecord(f"s{at}", at * 3600.0, 7200.0, 4, requested_s=7200.0) for at in range(24 * 5)]
    return sorted([*small, JobRecord("wide", 60.0, 3600.0, 16, requested_s=3600.0 * 24)], key=lambda job: job.submit_s)


def test_what_waits_is_told_by_size() -> None:
    found = waits(simulate(jobs(), TWO, CORE, Requested()), TWO.gpus)
    assert found.longest_h == pytest.approx(found.large_h)
    assert found.large_h >= 4.0 > found.small_h
    assert waits(simulate(jobs()[:1], TWO, CORE, Requested()), TWO.gpus).large_h == 0.0


def test_a_shorter_bound_lets_the_wide_job_start_sooner() -> None:
    bounds = {days: replace(CORE, patience=None, starvation_bound_s=days * DAY_S) for days in (1, 2)}
    found = {days: waits(simulate(jobs(), TWO, policy, Requested()), TWO.gpus) for days, policy in bounds.items()}
    assert 24 <= found[1].large_h < 48 <= found[2].large_h


def test_every_bound_has_a_row_for_all_that_is_known() -> None:
    rows = list(table([measured(jobs()[:30], TWO)]))
    assert len(rows) == 2 + 2 * len(BOUNDS)
    told = {tuple(cell.strip() for cell in row.split("|")[1:3]): row.split("|")[3].strip() for row in rows[2:]}
    assert told["3 days; 6 backlogs", "no hints"] == "1.00"
    assert BOUNDS["3 days; 6 backlogs"] == OF_OLD


def test_a_workload_comes_at_the_load_that_is_asked_for() -> None:
    records, load = synthetic("semantic", 1, 60, 0.9)
    span_s = records[-1].submit_s - records[0].submit_s
    asked_s = sum(record.gpus * (record.duration_s or 0.0) for record in records)
    assert load == 0.9 == pytest.approx(asked_s / (128 * span_s))


def test_too_few_jobs_to_queue_for_long_are_told_of() -> None:
    with pytest.raises(UserError, match="never queue"):
        synthetic("semantic", 1, 3, None)
