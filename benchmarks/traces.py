"""How fast each trace format is read, and what memory a long trace takes.

Each format's file is made up here, with as many jobs as asked for. Nothing is kept of the jobs but their number, as if
they were converted, except in the row ``describe``, which keeps what a description needs. Speed is by CPU time of the
process that reads; peak memory is that process's own, less what it had before it opened the file.

Example: python -m benchmarks.traces --jobs 100000 --formats csv,sacct
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path

BEGIN_S = 1_760_000_000
KIB_PER_MIB = 1024


def moment(seconds: int) -> str:
    """A local time as dumps write it."""
    return datetime.fromtimestamp(BEGIN_S + seconds, UTC).strftime("%Y-%m-%d %H:%M:%S")


def csv_lines(jobs: int) -> Iterator[str]:
    """Five columns, the least that is useful."""
    yield "job_id,submit,duration,gpus,user"
    for i in range(jobs):
        yield f"{i},{i * 7},{i * 37 % 9999 + 1},{1 << i % 5},user{i % 300}"


def swf_lines(jobs: int) -> Iterator[str]:
    """All eighteen numbers."""
    for i in range(jobs):
        yield f"{i + 1} {i * 7} {i % 500} {i * 37 % 9999 + 1} 4 -1 -1 4 7200 -1 1 {i % 300} 3 {i % 40} 1 1 -1 -1"


def sacct_lines(jobs: int) -> Iterator[str]:
    """A job and one step each; only the jobs are counted."""
    yield "JobID|JobName|User|Account|Partition|State|Submit|Start|End|ElapsedRaw|TimelimitRaw|ReqTRES|AllocTRES|MaxRSS"
    for i in range(jobs):
        tres = f"billing=8,cpu=8,gres/gpu:a100={1 << i % 4},gres/gpu={1 << i % 4},mem=64G,node=1"
        times = "|".join(moment(i * 7 + late).replace(" ", "T") for late in (0, 60, 660))
        yield f"{i}|train{i % 40}|user{i % 300}|team|gpu|COMPLETED|{times}|600|1440|{tres}|{tres}|"
        yield f"{i}.batch|batch||team||COMPLETED|{times}|600||||{i % 4096 + 1}M"


def json_lines(jobs: int) -> Iterator[str]:
    """``sacct --json`` of a release after 23.02."""
    yield '{"meta": {"slurm": {}}, "jobs": ['
    gpus = '[{"type": "cpu", "name": "", "count": 8}, {"type": "gres", "name": "gpu", "count": 2}]'
    limit = '{"set": true, "infinite": false, "number": 1440}'
    for i in range(jobs):
        at = BEGIN_S + i * 7
        times = f'"submission": {at}, "start": {at + 60}, "end": {at + 660}, "elapsed": 600, "limit": {limit}'
        yield (
            f'{{"job_id": {i + 1}, "user": "user{i % 300}", "account": "team", "partition": "gpu", "name": "train", '
            f'"state": {{"current": ["COMPLETED"]}}, "time": {{{times}}}, "steps": [], '
            f'"tres": {{"requested": {gpus}, "allocated": {gpus}}}}}{"," if i < jobs - 1 else ""}'
        )
    yield "]}"


def philly_lines(jobs: int) -> Iterator[str]:
    """One attempt a job."""
    yield "["
    for i in range(jobs):
        detail = '[{"ip": "m1", "gpus": ["gpu0", "gpu1"]}]'
        attempt = f'{{"start_time": "{moment(i * 7 + 60)}", "end_time": "{moment(i * 7 + 660)}", "detail": {detail}}}'
        yield (
            f'{{"status": "Pass", "vc": "v", "jobid": "application_{i}", "user": "u{i % 300}", '
            f'"submitted_time": "{moment(i * 7)}", "attempts": [{attempt}]}}{"," if i < jobs - 1 else ""}'
        )
    yield "]"


def helios_lines(jobs: int) -> Iterator[str]:
    """Twelve columns with local times."""
    yield "job_id,user,vc,gpu_num,cpu_num,node_num,state,submit_time,start_time,end_time,duration,queue"
    for i in range(jobs):
        times = ",".join(moment(i * 7 + late) for late in (0, 60, 660))
        yield f"{i},u{i % 300},vc{i % 20},{1 << i % 4},16,1,COMPLETED,{times},600,60"


def acme_lines(jobs: int) -> Iterator[str]:
    """Thirteen columns with zoned times."""
    yield "job_id,user,node_num,gpu_num,cpu_num,type,state,submit_time,start_time,end_time,duration,queue,gpu_time"
    for i in range(jobs):
        times = ",".join(moment(i * 7 + late) + "+08:00" for late in (0, 60, 660))
        yield f"{i},u{i % 300},1,{1 << i % 4},16,Other,COMPLETED,{times},600,60,600"


def openb_lines(jobs: int) -> Iterator[str]:
    """Eleven columns of numbers."""
    yield (
        "name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec,qos,pod_phase,creation_time,deletion_time,scheduled_time"
    )
    for i in range(jobs):
        yield f"pod-{i},8000,30517,1,{460 if i % 2 else 1000},,LS,Succeeded,{i * 7},{i * 7 + 700},{i * 7 + 5}"


def common_lines(jobs: int) -> Iterator[str]:
    """A common form of the fields that most traces have."""
    yield "job_id,submit_s,start_s,duration_s,gpus,user,state"
    for i in range(jobs):
        yield f"{i},{i * 7},{i * 7 + 60},{i * 37 % 9999 + 1},{1 << i % 5},user{i % 300},completed"


FORMATS: dict[str, Callable[[int], Iterator[str]]] = {
    "csv": csv_lines, "schedmate": common_lines, "swf": swf_lines, "sacct": sacct_lines, "sacct-json": json_lines,
    "philly": philly_lines, "helios": helios_lines, "acme": acme_lines, "openb": openb_lines,
}  # fmt: skip


def pai_tables(folder: Path, jobs: int) -> Path:
    """Job, task and instance tables of one task and one instance a job."""
    with (
        (folder / "pai_job_table.csv").open("w") as job,
        (folder / "pai_task_table.csv").open("w") as task,
        (folder / "pai_instance_table.csv").open("w") as instance,
    ):
        for i in range(jobs):
            job.write(f"{i:024x},i{i},u{i % 300},Terminated,{i * 7}.0,{i * 7 + 700}.0\n")
            task.write(f"{i:024x},worker,1.0,Terminated,{i * 7 + 5}.0,{i * 7 + 700}.0,600.0,29.3,50.0,T4\n")
            instance.write(f"{i:024x},worker,a,b,c,Terminated,{i * 7 + 5}.0,{i * 7 + 700}.0,m{i % 1000}\n")
    return folder / "pai_job_table.csv"


def made(folder: Path, name: str, jobs: int) -> Path:
    """The file of a format."""
    if name == "pai":
        return pai_tables(folder, jobs)
    path = folder / name
    with path.open("w") as stream:
        stream.writelines(line + "\n" for line in FORMATS[name](jobs))
    return path


def measure(path: Path, name: str, describe: bool) -> dict[str, float]:
    """Read a file in this process."""
    from schedmate.trace_summary import collect
    from schedmate.traces import open_trace

    open_trace(path, name)  # what is imported on the way is not the trace's
    before_mib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / KIB_PER_MIB
    since_s = time.process_time()
    records, _ = open_trace(path, name)
    jobs = len(collect(records)) if describe else sum(1 for _ in records)
    spent_s = time.process_time() - since_s
    peak_mib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / KIB_PER_MIB
    return {"jobs": jobs, "jobs_per_s": round(jobs / spent_s), "peak_mib": round(peak_mib - before_mib)}


def row(name: str, path: Path, describe: bool = False) -> dict[str, float | str]:
    """A format measured in a process of its own, so that peaks do not add up."""
    words = [sys.executable, "-m", "benchmarks.traces", "--measure", str(path), "--formats", name]
    done = subprocess.run([*words, *(["--describe"] if describe else [])], check=True, capture_output=True, text=True)
    return {"format": f"{name}, describe" if describe else name, **json.loads(done.stdout)}


def main() -> int:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--jobs", type=int, default=1_000_000)
    parser.add_argument("--formats", default=",".join([*FORMATS, "pai"]), help="with commas between")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--measure", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--describe", action="store_true", help=argparse.SUPPRESS)
    wanted = parser.parse_args()
    if wanted.measure:
        print(json.dumps(measure(wanted.measure, wanted.formats, wanted.describe)))
        return 0
    rows = []
    for name in wanted.formats.split(","):
        if name not in (*FORMATS, "pai"):
            parser.error(f"no format {name}; there are {', '.join([*FORMATS, 'pai'])}")
        with tempfile.TemporaryDirectory() as folder:
            path = made(Path(folder), name, wanted.jobs)
            rows.append(row(name, path))
            if name == "schedmate":
                rows.append(row(name, path, describe=True))
    if wanted.json:
        print(json.dumps({"rows": rows}))
        return 0
    print(f"{'format':20} {'jobs':>10} {'jobs/s':>10} {'peak MiB':>9}")
    for each in rows:
        print(f"{each['format']:20} {each['jobs']:>10,} {each['jobs_per_s']:>10,} {each['peak_mib']:>9,}")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
