"""Which rank runs in which pod, where every process of a job writes a file named like its pod."""

from __future__ import annotations

import re

from analyzers.failures.events import Event, Scan
from analyzers.failures.topology import Topology
from analyzers.logs.companions import LogFile, stem_of

_INDEX = re.compile(r"^(?P<set>.*[-_.])(?P<index>\d{1,6})$")


def place_by_pod(files: list[LogFile], scan: Scan, topology: Topology) -> None:
    """Join pods, their files, ranks and nodes. A rank is what the file's own lines say; else, in a set of pods that
    are numbered from 0 on (a stateful set, an indexed job), the pod's number."""
    pods = {*scan.pods, *topology.node_of_pod, *topology.ranks_of_pod}
    sets = {found["set"] for pod in pods if (found := _INDEX.match(pod))}
    own = {
        file.name: stem
        for file in files
        if file.kind in ("job", "rank") and (stem := _pod_of(stem_of(file.name), pods, sets))
    }
    numbered = _numbered(set(own.values()))
    events: dict[str, list[Event]] = {name: [] for name in own}
    for event in scan.events:
        if event.file in events and event.writer == "job":
            events[event.file].append(event)
    for name, pod in own.items():
        said = scan.ranks_in.get(name, set())
        rank = next(iter(said)) if len(said) == 1 else None if said else numbered.get(pod)
        for event in events[name]:
            event.pod = event.pod or pod
            event.rank = rank if event.rank is None else event.rank
        if rank is not None:
            topology.ranks_of_pod.setdefault(pod, range(rank, rank + 1))
            topology.place(rank, topology.node_of_pod.get(pod))


def _pod_of(stem: str, pods: set[str], sets: set[str]) -> str | None:
    """The pod that a file's name tells: a known one (also behind ``logs_``), or one more of a known set."""
    for pod in sorted(pods, key=len, reverse=True):
        if stem == pod or re.search(rf"(?:^|[_.]){re.escape(pod)}$", stem):
            return pod
    found = _INDEX.match(stem)
    return stem if found and found["set"] in sets else None


def _numbered(pods: set[str]) -> dict[str, int]:
    """Numbers of pods that differ in nothing else and count from 0 on without a gap."""
    parts = {pod: found for pod in pods if (found := _INDEX.match(pod))}
    if len(parts) < len(pods) or len({found["set"] for found in parts.values()}) != 1:
        return {}
    numbers = {pod: int(found["index"]) for pod, found in parts.items()}
    return numbers if sorted(numbers.values()) == list(range(len(numbers))) else {}
