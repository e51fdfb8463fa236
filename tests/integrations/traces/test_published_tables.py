"""Helios, Acme and openb: what their columns mean."""

from __future__ import annotations

from pathlib import Path

import pytest

from prompts.errors import UserError
from schedmate.traces import open_trace

HELIOS = "job_id,user,vc,gpu_num,cpu_num,node_num,state,submit_time,start_time,end_time,duration,queue\n"
KALOS = (
    "job_id,user,node_num,gpu_num,cpu_num,mem_per_pod_GB,shared_mem_per_pod,type,state,submit_time,start_time,end_time,"
    "fail_time,stop_time,duration,queue,gpu_time\n"
)
PODS = "name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec,qos,pod_phase,creation_time,deletion_time,scheduled_time\n"


def test_helios(read) -> None:
    (record,), _ = read(
        HELIOS + "14,uX,vcJ,4,16,1,NODE_FAIL,2020-06-09 18:41:00,2020-06-09 18:42:00,2020-06-09 19:42:00,3600,60\n"
    )
    assert (record.user, record.tenant, record.gpus, record.cpus, record.nodes) == ("uX", "vcJ", 4, 16, 1)
    assert (record.duration_s, record.state, record.outcome) == (3600, "node_fail", "failed")
    assert record.submit_s == 1591699260  # 10:41 UTC
    assert record.partition is None  # the column called queue is a time


def test_helios_uses_the_duration_where_a_time_is_missing(read) -> None:
    (record,), _ = read(HELIOS + "14,uX,vcJ,4,16,1,FAILED,2020-06-09 18:41:00,,,77,60\n")
    assert (record.duration_s, record.start_s) == (77, None)


def test_the_duration_of_kalos_holds_the_queue_and_is_not_used(read) -> None:
    (record,), _ = read(
        KALOS + "dlc1,uf,8,64,960,1000,100.0,Other,CANCELLED,2023-05-17 11:28:42+00:00,2023-05-17 11:28:54+00:00,"
        "2023-05-17 11:30:04+00:00,,2023-05-17 11:30:04+00:00,82,12.0,5248.0\n"
    )
    assert (record.duration_s, record.start_s - record.submit_s) == (70, 12)
    assert (record.memory_mib, record.name) == (8 * 1000 * 1024, "Other")


def test_openb(read) -> None:
    records, notes = read(
        PODS
        + "a,6000,12288,1,460,V100M16|V100M32,BE,Succeeded,100,700,130\n"
        + "b,8000,1024,8,1000,nan,LS,Running,200,,210\n"
        + "c,8000,1024,1,1000,,LS,Pending,300,900,\n"
        + "d,8000,1024,1,1000,,LS,Failed,300,200,250\n"
        + "e,8000,1024,,1000,,LS,Failed,300,400,310\n"
    )
    first, second, third = records
    assert (first.gpus, first.gpu_milli, first.gpu_type, first.cpus) == (1, 460, "V100M16|V100M32", 6)
    assert (first.duration_s, first.start_s, first.partition, first.state) == (570, 130, "BE", "completed")
    assert (second.gpus, second.gpu_milli, second.state, second.duration_s) == (8, None, "running", None)
    assert (third.state, third.start_s, third.duration_s, third.end_s) == ("pending", None, None, None)
    assert notes.skipped == {"deleted before it was scheduled": 1, "num_gpu is missing": 1}


def test_a_node_list_is_told_apart(read) -> None:
    with pytest.raises(UserError, match="nodes, not of jobs"):
        read("sn,cpu_milli,memory_mib,gpu,model\nn1,64000,262144,2,P100\n")


def test_options_of_other_formats_are_refused(read) -> None:
    with pytest.raises(UserError, match="helios takes no option 'gpus'"):
        read(HELIOS + "x\n", "helios", gpus="y")


def test_the_published_openb_list(shared_data: Path) -> None:
    records, notes = open_trace(shared_data / "traces" / "openb_pod_list_default.csv.gz")
    found = list(records)
    assert len(found) == 8152 and not notes.skipped
    assert sum(r.gpu_milli is not None for r in found) > 1000
