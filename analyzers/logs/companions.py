"""What a file among a job's logs is, told by its name and by how it begins."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

#: rank: one process. node: one node's launcher or agent. job: output of the whole job (slurm-N.out, train.log, and
#: whatever else is not recognised). kernel: dmesg, journal or syslog of a node,
#: or the log of one of its own services (kubelet, device plug-in, health checker). scheduler: sacct, scontrol or a
#: Slurm daemon's log. kubernetes: events or a described pod.
#: recorder: a dump of PyTorch's flight recorder (the collectives of one rank), which is no text.
Kind = Literal["rank", "node", "job", "kernel", "scheduler", "kubernetes", "recorder"]


@dataclass(frozen=True, slots=True)
class LogFile:
    """One file to read. ``name`` is relative to the path that was asked for; ``rank`` and ``node`` are hints.
    ``named``: its name says that it is a platform's own, it belongs to root or to who reads it, and no line of a job
    stands at its head; its text alone proves nothing, a program can print anything.
    """

    path: Path
    name: str
    kind: Kind = "job"
    rank: int | None = None
    node: str | None = None
    named: bool = False


_NO_LOG = frozenset(
    f".{ending}"
    for group in (
        ("py", "pyc", "ipynb", "c", "cc", "cpp", "cu", "cuh", "h", "hpp", "so", "o", "a", "whl"),
        ("pt", "pth", "ckpt", "safetensors", "bin", "onnx", "npy", "npz", "pkl", "h5", "parquet", "arrow", "feather"),
        ("png", "jpg", "jpeg", "gif", "svg", "pdf", "mp4", "zip", "tar", "tgz", "db", "sqlite"),
    )
    for ending in group
)

_RANK_NAME = re.compile(r"(?:^|[^a-z])(?:global[_-]?)?rank[_.=-]?(\d{1,6})(?!\d)", re.I)
_WORKER_NAME = re.compile(r"(?:^|[^a-z])(?:worker|task|proc(?:ess)?|replica)[_.=-](\d{1,6})(?!\d)", re.I)
_ATTEMPT_FOLDER = re.compile(r"(?:^|/)attempt_\d+/(\d{1,6})/(?:stdout|stderr|error)\b")
_NODE_NAME = re.compile(
    r"^(?:node|host)[_=-](.+?)(?:_(?:torchrun|mpirun|srun|ray|launcher|agent|deepspeed|accelerate))?$"
)
_LAUNCHER_NAME = re.compile(r"^(.+?)[_.](?:torchrun|mpirun|ray|raylet|launcher|agent)$")
_KERNEL_NAME = re.compile(r"(?:^|[_.-])(?:dmesg|kern(?:el)?|journal(?:ctl)?|syslog|messages)(?:[_.-]|$)", re.I)
_SCHEDULER_NAME = re.compile(r"(?:^|[_.-])(?:sacct|scontrol|squeue|slurmctld|slurmd|slurmdbd)(?:[_.-]|\d|$)", re.I)
_KUBERNETES_NAME = re.compile(r"(?:k8s|kubernetes|kubectl).*(?:event|describe)|(?:^|[_.-])events(?:[_.-]|$)", re.I)

#: Logs of a node's own services, told by name; what is left of the name is the node's.
_SERVICE_NAME = re.compile(
    r"(?:^|[_.-])(?:nvidia-device-plugin|device-plugin|dcgm(?:-exporter)?|dcgmi|kubelet|containerd|node-problem-detector"
    r"|npd|nvidia-fabricmanager|fabricmanager|nvsm|gpud|nhc|lbnl-nhc)(?:[_.-]|$)",
    re.I,
)

_RECORDER_NAME = re.compile(
    r"(?:nccl_trace|comm_lib_trace|fr_trace|flight_?recorder|nccl_dump|_dump)[\w.-]*\.(?:pkl|bin)$"
)
_RECORDER_TEXT = re.compile(
    rb'"(?:comm_lib_version|nccl_version|nccl_comm_state|pg_config)": ?|"entries": ?\[\{"(?:collective_seq_id|frames)"'
)
_DESCRIBES_NAME = re.compile(r"(?:^|[_.-])(?:describe|pods?|events?|kubectl|k8s)(?:[_.-]|$)", re.I)
#: What batch systems name the file that a job's own output goes to.
OUTPUT_NAME = re.compile(
    r"(?:^|/)(?:slurm-\d[\w.-]*\.(?:out|err)|[\w.-]+\.[oe]\d+(?:[.-]\d+)?|std(?:out|err)(?:\.\w+)?)(?:\.(?:gz|xz|bz2|zst))?$"
)
_PROGRAM_LINE = re.compile(
    r"\b(?:[Ss]tep|[Ee]poch|[Ii]ter(?:ation)?)\b[ =:\[]{0,4}\d|\bloss\b[ =:]|\w(?:Error|Exception)\b: |^Traceback|\d%\|"
    r"|^(?:srun|slurmstepd|mpirun): "
)
#: What only a job prints; a scheduler's daemons speak of "step 4711.0".
_JOB_LINE = re.compile(
    r"\b(?:[Ss]tep|[Ee]poch|[Ii]ter(?:ation)?)\b[ =:\[]{0,4}\d+(?![\d.])|\bloss\b[ =:]"
    r"|^\w*(?:Error|Exception)\b: |^Traceback|\bhost(?:name)?=|^\[?(?:rank|default)[ _]?\d"
)
_OUTPUT_ENDING = re.compile(r"\.(?:out|err|stdout|stderr)(?:\.(?:gz|xz|bz2|zst|\d{1,3}))*$", re.I)
_SAYS_RANK = re.compile(
    r"(?<![Ll]ocal[ _])(?<![Nn]ode[ _])\b(?:rank|process)[ =:]{1,2}(\d{1,6}) ?(?:of|/|out of) ?\d"
    r"|\bRANK=(\d{1,6})\b(?! ?-)"
    r"|(?<![Ll]ocal[ _])(?<![Nn]ode[ _])\brank[ =:]{1,2}(\d{1,6})\b.{0,60}\bworld(?:_size| size)?[ =:]"
)
_SYSLOG_HOST = re.compile(
    r"^(?:[A-Z][a-z]{2} [ \d]\d \d\d:\d\d:\d\d|\d{4}-\d\d-\d\dT[\d:.,]+(?:Z|[+-]\d\d:?\d\d)?) ([\w.-]+) ", re.M
)
_KERNEL_LINE = re.compile(
    r"^(?:<\d+>)?\[\s*\d+\.\d{6}\]|^\[[A-Z][a-z]{2} [A-Z][a-z]{2} [ \d]\d |^kern +:[a-z]+ +: |^\S.{0,60} kernel: "
)
_SYSLOG_LINE = re.compile(_SYSLOG_HOST.pattern + r"[\w./@-]+(?:\[\d+\])?: ")
_SCHEDULER_TEXT = re.compile(
    r"^\s*JobI[Dd]\s.*\bState\b|^JobI[Dd]\|.*State|^\s*JobId=\d+\s+JobName=|^NodeName=\S+ Arch="
    r"|^\s*\{\s*\"(?:jobs|nodes|meta)\":"
    r"|^\[[\dT:.-]+\] (?:error: |debug\d?: )?(?:_slurm_rpc_|slurmctld|slurmd |sched: )",
    re.M,
)
_KUBERNETES_TEXT = re.compile(
    r"^(?:NAMESPACE\s+)?LAST SEEN\s+TYPE\s+REASON|^\s*\"?kind\"?: \"?Event(?:List)?\b|^Events:\s*$|^Events:\s+<none>"
    r"|^Namespace: {2,}\S+\n(?:.*\n){0,8}Node: {2,}\S",
    re.M,
)
_SUFFIXES = re.compile(r"(?:\.(?:log|txt|out|err|json|jsonl|csv|stdout|stderr|gz|xz|bz2|zst|\d{1,3}))+$", re.I)
_DIGITS = re.compile(r"(\d+)")
_HOST = re.compile(r"[A-Za-z0-9][\w.-]*")


def is_no_log(name: str) -> bool:
    """Whether a file's name alone says that it is code, weights, a picture or an archive."""
    if _RECORDER_NAME.search(name):
        return False
    return Path(name).suffix.lower() in _NO_LOG or ".tfevents." in name


def recorder_dump(path: Path, name: str, head: bytes) -> LogFile | None:
    """The file as a dump of the flight recorder, told by how it begins; None where it is something else."""
    pickled = head.startswith(b"\x80") and b"version" in head[:64] and b"pg_config" in head[:256]
    if not pickled and not (head.startswith(b"{") and _RECORDER_TEXT.search(head[:4096])):
        return None
    said = _RANK_NAME.search(name)
    numbers = [said.group(1)] if said else _DIGITS.findall(stem_of(name))
    return LogFile(path, name, "recorder", rank=int(numbers[-1][-7:]) if numbers else None)


def stem_of(name: str) -> str:
    """A file's name without its folder and the endings of logs."""
    return _SUFFIXES.sub("", Path(name).name)


def sort_key(name: str) -> list[tuple[int, str]]:
    """Natural order: rank_2 before rank_10."""
    return [(int(part), "") if part.isdigit() else (-1, part) for part in _DIGITS.split(name)]


def describe(path: Path, name: str, head: str) -> LogFile:
    """What the file is, from its relative ``name`` and the text it begins with."""
    stem = stem_of(name)
    lines = [line for line in head.split("\n")[:60] if line.strip()][:40]
    rank = _rank(name, stem, lines)
    own_words = OUTPUT_NAME.search(name) is not None or (rank is not None and _RANK_NAME.search(name) is not None)
    if not own_words and (platform := _platform(path, name, stem, head, lines)) is not None:
        return platform
    if rank is not None:
        return LogFile(path, name, "rank", rank=rank)
    node = _NODE_NAME.match(stem) or _LAUNCHER_NAME.match(stem)
    if node:
        return LogFile(path, name, "node", node=node.group(1))
    return LogFile(path, name)


def _platform(path: Path, name: str, stem: str, head: str, lines: list[str]) -> LogFile | None:
    """The file as a platform's own, told by its name or by how most of it looks; None where it is a job's."""
    if any(_JOB_LINE.search(line) for line in lines) and _KUBERNETES_TEXT.search(head) is None:
        return None
    kubernetes = _KUBERNETES_NAME.search(stem) is not None and "Normal" in head
    if kubernetes or (_KUBERNETES_TEXT.search(head) and not _speaks_of_steps(lines)):
        told = kubernetes or _DESCRIBES_NAME.search(stem) is not None
        return LogFile(path, name, "kubernetes", named=told and _is_platforms(path, name, lines))
    scheduler = _SCHEDULER_NAME.search(stem) is not None
    if scheduler or (_SCHEDULER_TEXT.search(head) and not _speaks_of_steps(lines)):
        return LogFile(path, name, "scheduler", named=scheduler and _is_platforms(path, name, lines))
    kernel = sum(1 for line in lines if _KERNEL_LINE.match(line)) / max(1, len(lines))
    syslog = sum(1 for line in lines if _SYSLOG_LINE.match(line)) / max(1, len(lines))
    named = _KERNEL_NAME.search(stem) is not None and (max(kernel, syslog) >= 0.2 or "dmesg" in stem)
    if named or kernel >= 0.5 or "-- Journal begins" in head[:200]:
        node = _kernel_node(_KERNEL_NAME, stem, head, named)
        return LogFile(path, name, "kernel", node=node, named=named and _is_platforms(path, name, lines))
    if _SERVICE_NAME.search(stem):
        node = _kernel_node(_SERVICE_NAME, stem, head, True)
        return LogFile(path, name, "kernel", node=node, named=_is_platforms(path, name, lines))
    return None


def _is_platforms(path: Path, name: str, lines: list[str]) -> bool:
    """Whether a file that is named as a platform's may be one: not named as a job's output, nor another user's, nor
    with a job's own lines at its head."""
    if _OUTPUT_ENDING.search(name) or any(_JOB_LINE.search(line) for line in lines):
        return False
    try:
        return path.stat().st_uid in (0, os.geteuid())
    except OSError:
        return False


def _speaks_of_steps(lines: list[str]) -> bool:
    """Whether lines among the first are a program's: of training, an exception, or a launcher's end of it."""
    return any(_PROGRAM_LINE.search(line) for line in lines)


def _rank(name: str, stem: str, lines: list[str]) -> int | None:
    """The rank that the name tells, or else the lines, or else the worker's number in the name (where a master has a
    file too, worker 0 is not rank 0)."""
    for pattern, text in ((_ATTEMPT_FOLDER, name), (_RANK_NAME, name)):
        if found := pattern.search(text):
            return int(found.group(1))
    said = _own_rank(lines)
    worker = _WORKER_NAME.search(stem)
    return said if said is not None or worker is None else int(worker.group(1))


def _own_rank(lines: list[str]) -> int | None:
    """The rank that a process gives itself where it begins; none where several are named."""
    named = {
        int(rank) for line in lines for found in _SAYS_RANK.finditer(line[:400]) for rank in found.groups() if rank
    }
    return named.pop() if len(named) == 1 else None


def _kernel_node(service: re.Pattern[str], stem: str, head: str, named: bool) -> str | None:
    host = _SYSLOG_HOST.search(head)
    if host:
        return host.group(1)
    rest = service.sub("_", stem).strip("_.-")
    return rest if named and _HOST.fullmatch(rest) else None
