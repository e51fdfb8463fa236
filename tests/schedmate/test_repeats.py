"""Jobs of overlapping dumps: each once, by the row that got farthest."""

from __future__ import annotations

import random
from dataclasses import replace

from hypothesis import given, settings
from hypothesis import strategies as st

from analyzers.types import JobRecord
from schedmate.ports import TraceNotes
from schedmate.repeats import SAME_ID, TWICE, jobs_once, progress_of

WAITS = JobRecord("a", 5, None, 1, state="pending")
RUNS = replace(WAITS, state="running", start_s=7, ran_so_far_s=3.0)
RAN_ON = replace(RUNS, ran_so_far_s=9.0)
ENDED = replace(WAITS, state="failed", start_s=7, duration_s=20.0, end_s=27)
STAGES = [WAITS, RUNS, RAN_ON, ENDED]


def once(rows: list[JobRecord]) -> tuple[list[JobRecord], TraceNotes]:
    return jobs_once(lambda: (iter(rows), TraceNotes(rows=len(rows))), lambda jobs, _: list(jobs))


@settings(max_examples=200, deadline=None)
@given(st.data())
def test_the_row_that_got_farthest_wins_wherever_it_stands(data: st.DataObject) -> None:
    rows = [
        replace(stage, job_id=name, submit_s=submit)
        for name in "abc"
        for submit in (5, 6)
        for stage in data.draw(st.lists(st.sampled_from(STAGES), max_size=4))
    ]
    random.Random(data.draw(st.integers(0, 99))).shuffle(rows)
    jobs, notes = once(rows)
    expected = {(row.job_id, row.submit_s): row for row in sorted(rows, key=progress_of)}
    found = {(job.job_id.partition("#")[0], job.submit_s): job for job in jobs}
    assert {key: replace(job, job_id=key[0]) for key, job in found.items()} == expected
    assert len(jobs) == len(expected) == notes.rows == len({job.job_id for job in jobs})
    assert notes.skipped.get(TWICE, 0) == len(rows) - len(expected)
    assert notes.remarks.get(SAME_ID, 0) == len(expected) - len({name for name, _ in expected})


def test_the_trace_is_read_again_only_where_a_better_row_came_later() -> None:
    read = []

    def times(rows: list[JobRecord]) -> int:
        read.clear()

        def opened() -> tuple[list[JobRecord], TraceNotes]:
            read.append(rows)
            return rows, TraceNotes()

        jobs_once(opened, lambda jobs, _: list(jobs))
        return len(read)

    assert times([ENDED, replace(WAITS, job_id="b")]) == times([ENDED, RUNS, WAITS]) == times([RUNS, RUNS]) == 1
    assert times([WAITS, RUNS, RAN_ON, ENDED]) == 2


def test_how_far_a_row_without_a_state_got() -> None:
    assert progress_of(JobRecord("a", 0, 5, 1)) == progress_of(ENDED) > progress_of(RAN_ON)
    assert progress_of(RAN_ON) > progress_of(RUNS) > progress_of(WAITS) == progress_of(JobRecord("a", 0, None, 1))
