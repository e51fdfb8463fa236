"""Small samples of every format, written for these tests, and a way to read them."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from analyzers.types import JobRecord
from schedmate.ports import TraceNotes
from schedmate.traces import open_trace

Read = Callable[..., tuple[list[JobRecord], TraceNotes]]

SAMPLES: dict[str, str] = {
    "csv": "id,submit,duration,gpus,user\n1,0,50,1,ann\n2,5,60,8,bob\n3,9,70,2,ann\n",
    "swf": "; UnixStartTime: 1000000000\n"
    + "".join(f"{i} {i * 10} 5 300 4 -1 -1 4 600 -1 1 7 3 2 1 1 -1 -1\n" for i in range(1, 4)),
    "sacct": "JobID|User|State|Submit|Start|End|ElapsedRaw|TimelimitRaw|AllocTRES\n"
    "1|ann|COMPLETED|2026-03-01T10:00:00|2026-03-01T10:00:05|2026-03-01T10:01:05|60|10|cpu=8,gres/gpu=1\n"
    "2|bob|FAILED|2026-03-01T10:01:00|2026-03-01T10:01:05|2026-03-01T10:02:05|60|10|cpu=8,gres/gpu=8\n"
    "3|ann|TIMEOUT|2026-03-01T10:02:00|2026-03-01T10:02:05|2026-03-01T10:12:05|600|10|cpu=8,gres/gpu=2\n",
    "sacct-json": json.dumps(
        {
            "meta": {"Slurm": {"release": "21.08.8"}},
            "jobs": [
                {
                    "job_id": i,
                    "user": "ann",
                    "state": {"current": "COMPLETED"},
                    "time": {"submission": 1000 * i, "start": 1000 * i + 5, "end": 1000 * i + 65, "elapsed": 60},
                    "tres": {"allocated": [{"type": "gres", "name": "gpu", "count": 2}], "requested": []},
                }
                for i in range(1, 4)
            ],
        }
    ),
    "philly": json.dumps(
        [
            {
                "status": "Pass",
                "vc": "vc1",
                "jobid": f"application_{i}",
                "user": "u1",
                "submitted_time": f"2017-10-0{i} 01:00:00",
                "attempts": [
                    {
                        "start_time": f"2017-10-0{i} 01:00:30",
                        "end_time": f"2017-10-0{i} 02:00:30",
                        "detail": [{"ip": "m1", "gpus": ["gpu0", "gpu1"]}],
                    }
                ],
            }
            for i in range(1, 4)
        ]
    ),
    "helios": "job_id,user,vc,gpu_num,cpu_num,node_num,state,submit_time,start_time,end_time,duration,queue\n"
    "1,ua,vcx,1,4,1,COMPLETED,2020-06-09 18:41:01,2020-06-09 18:41:11,2020-06-09 18:42:11,60,10\n"
    "2,ub,vcx,8,64,1,FAILED,2020-06-09 18:41:27,2020-06-09 18:41:27,2020-06-09 18:45:36,249,0\n"
    "3,ub,vcy,0,4,1,CANCELLED,2020-06-09 18:41:28,2020-06-09 18:41:30,2020-06-09 18:41:40,10,2\n",
    "acme": "job_id,user,node_num,gpu_num,cpu_num,type,state,submit_time,start_time,end_time,duration,queue,gpu_time\n"
    "1,ua,1,8,128,Other,FAILED,2023-03-01 00:18:22+08:00,2023-03-01 00:18:54+08:00,2023-03-01 00:20:51+08:00,117,32,9\n"
    "2,ub,2,16,256,Pretrain,COMPLETED,2023-03-01 00:23:58+08:00,2023-03-01 00:24:11+08:00,2023-03-01 01:09:04+08:00,"
    "2693,13,43088\n"
    "3,ub,1,0,16,Eval,TIMEOUT,2023-03-01 00:24:58+08:00,2023-03-01 00:25:11+08:00,2023-03-01 01:09:04+08:00,263,13,0\n",
    "openb": "name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec,qos,pod_phase,creation_time,deletion_time,"
    "scheduled_time\n"
    "p0,12000,16384,1,1000,,LS,Succeeded,0,500,3\np1,6000,12288,1,460,V100M16|V100M32,BE,Running,10,700,10\n"
    "p2,4000,8192,0,0,,LS,Failed,20,90,25\n",
    "schedmate": "job_id,submit_s,start_s,duration_s,gpus,user,state\n"
    "a,0,5,60,1,ann,completed\nb,1,,,0,bob,pending\nc,2,7,,4,ann,running\n",
}


@pytest.fixture
def read(tmp_path: Path) -> Read:
    """Write a text and read it as a trace: ``read(text, kind=None, name="t", **options)``."""

    def reading(
        text: str | bytes, kind: str | None = None, name: str = "t", **options: str
    ) -> tuple[list[JobRecord], TraceNotes]:
        path = tmp_path / name
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        records, notes = open_trace(path, kind, options)
        return list(records), notes

    return reading


@pytest.fixture(params=sorted(SAMPLES))
def sample(request: pytest.FixtureRequest) -> tuple[str, str]:
    """(format, text) of each sample of one file."""
    return request.param, SAMPLES[request.param]
