"""Alibaba PAI: the tables joined, with and without header lines, packed or not."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest

from analyzers.types import JobRecord
from prompts.errors import UserError
from schedmate.ports import TraceNotes
from schedmate.traces import format_name_of, open_trace

JOBS = (
    "j1,i1,ann,Terminated,1000.0,5000.0\n"
    "j2,i2,bob,Failed,2000.0,2500.0\n"
    "j3,i3,bob,Running,3000.0,\n"
    "j4,i4,ann,Terminated,3000.0,4000.0\n"
    "j5,i5,ann,Terminated,,4000.0\n"
)
TASKS = (
    "j1,ps,1.0,Terminated,1010.0,4990.0,600.0,10.0,0.0,\n"
    "j1,worker,2.0,Terminated,1020.0,4990.0,400.0,20.0,50.0,V100\n"
    "j2,tensorflow,1.0,Failed,2100.0,2500.0,,,200.0,MISC\n"
    "j3,x,1.0,Running,3100.0,,100.0,1.0,100.0,T4\n"
    "j5,x,1.0,Running,3100.0,,100.0,1.0,100.0,T4\n"
    "torn,row\n"
)
INSTANCES = (
    "j1,worker,a,w1,i1,Terminated,1030.0,4990.0,m1\n"
    "j1,worker,b,w2,i1,Terminated,1005.0,4990.0,m2\n"
    "j1,ps,c,w3,i1,Terminated,1030.0,4990.0,m1\n"
)
TAGS = "i1,ann,,g17,bert\ni2,bob,,g18,\n"


def tables(folder: Path, **texts: str | None) -> Path:
    found = {"job": JOBS, "task": TASKS, "instance": INSTANCES, "group_tag": TAGS, **texts}
    for table, text in found.items():
        if text is not None:
            (folder / f"pai_{table}_table.csv").write_text(text)
    return folder / "pai_job_table.csv"


def read(path: Path) -> tuple[list[JobRecord], TraceNotes]:
    records, notes = open_trace(path)
    return list(records), notes


def test_the_tables_are_joined(tmp_path: Path) -> None:
    records, notes = read(tables(tmp_path))
    first, second, third = records
    assert (first.gpus, first.gpu_milli, first.gpu_type) == (2, 500, "V100")
    assert (first.cpus, first.memory_mib, first.nodes) == (14, 50 * 1024, 2)
    assert (first.submit_s, first.start_s, first.end_s, first.duration_s) == (1000, 1005, 5000, 3995)
    assert (first.user, first.name, first.state) == ("ann", "bert", "completed")
    assert (second.gpus, second.gpu_milli, second.name, second.outcome) == (2, None, "g18", "failed")
    assert (third.state, third.start_s, third.duration_s) == ("running", 3100, None)
    assert notes.skipped == {
        "task table: not 10 columns": 1,
        "no task of it is in the task table": 1,
        "start_time (the submission) is no number": 1,
    }


def test_instances_and_tags_may_be_missing(tmp_path: Path) -> None:
    records, _ = read(tables(tmp_path, instance=None, group_tag=None))
    assert (records[0].start_s, records[0].nodes, records[0].name) == (1010, None, None)


def test_any_table_leads_to_the_others_packed_and_with_headers_too(tmp_path: Path) -> None:
    expected, _ = read(tables(tmp_path))
    header = "job_name,task_name,inst_num,status,start_time,end_time,plan_cpu,plan_mem,plan_gpu,gpu_type\n"
    (tmp_path / "pai_task_table.csv").unlink()
    (tmp_path / "pai_task_table.csv.gz").write_bytes(gzip.compress((header + TASKS).encode()))
    assert format_name_of(tmp_path / "pai_task_table.csv.gz") == "pai"
    assert read(tmp_path / "pai_task_table.csv.gz")[0] == expected


def test_a_table_alone_says_what_is_missing(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"pai_task_table\.csv is not beside it"):
        read(tables(tmp_path, task=None))
