"""The growing logs of the benchmark are what they say, and what is measured on them is bounded."""

from __future__ import annotations

from benchmarks.growing import FORMS, plans, write
from benchmarks.stalls import delays, false_alarms, is_uneven, record_times, times_left


def test_a_run_that_stops_dead_is_told_and_one_that_does_not_is_not() -> None:
    quiet = [write(plan) for plan in plans(len(FORMS), 3, stopping=False)]
    assert {run.plan.form for run in quiet} == set(FORMS)
    assert all(run.lines == sorted(run.lines, key=lambda line: line.at) for run in quiet)
    even = sorted((run for run in quiet if not is_uneven(run.plan)), key=lambda run: len(run.lines))
    alarms = [false_alarms(run) for run in even[:4]]
    looked = sum(looked for _, _, looked in alarms)
    assert looked >= 20
    assert sum(told for told, _, _ in alarms) <= 0.05 * looked
    stopped = [write(plan) for plan in plans(2, 4, stopping=True)]
    assert all(run.stopped is not None and record_times(run)[-1] <= run.stopped for run in stopped)
    assert all(None not in delays(run) for run in stopped)


def test_the_time_left_is_told() -> None:
    run = write(next(plans(1, 5, stopping=False)))
    found = [one for one in times_left(run, (0.5, 0.9)) if one is not None]
    assert len(found) == 2
    assert all(error < 0.5 for error, _ in found)


def test_a_run_stops_where_its_plan_says() -> None:
    for plan in plans(3 * len(FORMS), 6, stopping=True):
        run = write(plan)
        if run.stopped is None:  # no such place was left
            continue
        last = [line for line in run.lines if line.at <= run.stopped][-1]
        assert all(not line.is_step for line in run.lines if line.at > run.stopped)
        assert (run.due_s > 0) == (plan.stop != "training")
        announced = any(pause.shown in ("before", "counted") for pause in plan.pauses)
        if plan.stop == "due" and announced:
            assert "validation" not in last.text.lower()
