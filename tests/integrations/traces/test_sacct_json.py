"""sacct --json: releases that write numbers bare and in objects, states, arrays, components, steps."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from prompts.errors import UserError
from schedmate.traces import format_name_of, open_trace


def job(**changes: Any) -> dict[str, Any]:
    """A job as releases before 23.02 write it."""
    return {
        "job_id": 7,
        "name": "train",
        "user": "ann",
        "account": "vision",
        "partition": "gpu",
        "allocation_nodes": 2,
        "array": {"job_id": 0, "task_id": None, "task": None},
        "het": {"job_id": 0, "job_offset": None},
        "state": {"current": "COMPLETED", "reason": "None"},
        "time": {"submission": 1000, "eligible": 1010, "start": 1060, "end": 4660, "elapsed": 3600, "limit": 120},
        "tres": {
            "requested": [{"type": "gres", "name": "gpu", "id": 1001, "count": 8}],
            "allocated": [
                {"type": "cpu", "name": "", "id": 1, "count": 32},
                {"type": "mem", "name": "", "id": 2, "count": 65536},
                {"type": "node", "name": "", "id": 4, "count": 2},
                {"type": "gres", "name": "gpu", "id": 1001, "count": 8},
                {"type": "gres", "name": "gpu:a100", "id": 1002, "count": 8},
            ],
        },
        "steps": [],
        **changes,
    }


def number(value: float, **flags: bool) -> dict[str, Any]:
    return {"set": True, "infinite": False, "number": value, **flags}


def dump(*jobs: dict[str, Any]) -> str:
    return json.dumps({"meta": {"Slurm": {"release": "23.11"}}, "jobs": list(jobs), "warnings": [], "errors": []})


def test_every_field_as_older_releases_write_it(read) -> None:
    (record,), notes = read(dump(job()))
    assert (record.job_id, record.name, record.user, record.tenant, record.partition) == (
        "7", "train", "ann", "vision", "gpu",
    )  # fmt: skip
    assert (record.gpus, record.gpu_type, record.nodes, record.cpus, record.memory_mib) == (8, "a100", 2, 32, 65536)
    assert (record.submit_s, record.eligible_s, record.start_s, record.end_s) == (1000, 1010, 1060, 4660)
    assert (record.duration_s, record.requested_s, record.state) == (3600, 7200, "completed")
    assert notes.epoch_s == 0


def test_the_same_as_newer_releases_write_it(read) -> None:
    newer = job(
        state={"current": ["COMPLETED"], "reason": "None"},
        time={"submission": 1000, "eligible": 1010, "start": 1060, "end": 4660, "elapsed": 3600, "limit": number(120)},
        array={"job_id": 0, "task_id": number(0, set=False), "task": ""},
        het={"job_id": 0, "job_offset": number(0, set=False)},
    )
    assert read(dump(newer))[0] == read(dump(job()))[0]


@pytest.mark.parametrize(
    "limit", [None, number(0, set=False), number(0, infinite=True), 0, "UNLIMITED", True, number(float("nan"))]
)
def test_no_limit(read, limit: Any) -> None:
    (record,), _ = read(dump(job(time={**job()["time"], "limit": limit})))
    assert record.requested_s is None


def test_running_waiting_and_flags_of_states(read) -> None:
    jobs = (
        job(job_id=1, state={"current": ["RUNNING", "COMPLETING"]}, time={**job()["time"], "end": 0}),
        job(job_id=2, state={"current": ["PENDING", "REQUEUED"]}, time={**job()["time"], "start": 0, "end": 0}),
        job(job_id=3, state={"current": ["CANCELLED"]}, time={**job()["time"], "start": 0, "elapsed": 0}),
    )
    records, _ = read(dump(*jobs))
    assert [(r.state, r.start_s, r.duration_s) for r in records] == [
        ("running", 1060, None),
        ("pending", None, None),
        ("cancelled", None, None),
    ]


def test_arrays_components_and_attempts(read) -> None:
    again = [{**job()["time"], "start": start, "end": start + 3600} for start in (5000, 9000)]
    jobs = (
        job(job_id=11, array={"job_id": 10, "task_id": number(3), "task": ""}),
        job(job_id=20, het={"job_id": 20, "job_offset": number(0)}),
        job(job_id=21, het={"job_id": 20, "job_offset": number(1)}),
        job(job_id=30, state={"current": ["NODE_FAIL"]}),
        job(job_id=30, state={"current": ["PENDING", "REQUEUED"]}, time=again[0]),
        job(job_id=30, restart_cnt=1, time=again[1]),
        job(
            job_id=40,
            array={"job_id": 40, "task_id": number(0, set=False), "task": "4-5"},
            state={"current": ["PENDING"]},
            time={"submission": 5},
        ),
    )
    records, _ = read(dump(*jobs))
    assert [(r.job_id, r.gpus, r.attempts) for r in records] == [
        ("10_3", 8, None), ("20", 16, None), ("30", 8, 3), ("40_4", 8, None), ("40_5", 8, None),
    ]  # fmt: skip
    assert records[2].duration_s == 10800


def test_steps_measure(read) -> None:
    step = {"tres": {"requested": {"max": [{"type": "mem", "count": 2 << 20}, {"type": "gres", "name": "gpumem",
            "count": 5 << 20}]}}}  # fmt: skip
    records, _ = read(dump(job(steps=[step, {}, 5]), job(job_id=8)))
    assert (records[0].peak_host_memory_mib, records[0].peak_gpu_memory_mib) == (2, 5)
    assert records[1].peak_host_memory_mib is None


@pytest.mark.parametrize(
    ("bad", "reason"),
    [
        (job(time={}), "submit time is missing"),
        (job(job_id=None), "job id is missing"),
        ("text", "not an object"),
        (job(time={"submission": 1, "start": 9, "end": 5}), "ends before it starts"),
    ],
)
def test_bad_jobs_are_counted(read, bad: Any, reason: str) -> None:
    records, notes = read(dump(bad, job()))
    assert len(records) == 1 and notes.skipped == {reason: 1} and notes.examples == [f"job 1: {reason}"]


def test_control_characters_and_half_characters_in_names(read) -> None:
    text = dump(job(name="a\x00b\nc")).replace("ann", "\\ud800x")
    (record,), _ = read(text.replace("\\u0000", "\x00").replace("\\n", "\n"))
    assert record.name == "a\x00b\nc" and record.user == "\ufffdx"


@pytest.mark.parametrize("cut", [60, 200, 700])
def test_a_cut_file_is_one_line(read, cut: int) -> None:
    with pytest.raises(UserError) as error:
        read(dump(job())[:-cut], "sacct-json")
    assert "\n" not in str(error.value)


def test_a_file_without_jobs_is_one_line(read) -> None:
    with pytest.raises(UserError, match="no JSON array 'jobs'"):
        read('{"meta": {"Slurm": {}}, "nodes": []}')
    with pytest.raises(UserError, match="no usable job"):
        read(dump())


@pytest.mark.parametrize("text", ['{"jobs":[]}', '{\n  "jobs": [\n  ],\n "errors": []\n}', dump()])
def test_a_dump_of_a_time_without_jobs_says_so(tmp_path: Path, text: str) -> None:
    path = tmp_path / "jobs.json"
    path.write_text(text)
    assert format_name_of(path) == "sacct-json"
    with pytest.raises(UserError, match=r"jobs.json: no usable job in it: it has no jobs; dump a time"):
        list(open_trace(path)[0])
