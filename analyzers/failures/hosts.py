"""Which host a file's lines come from: the label that a launcher puts before them, or the host in the file's name.

Such a label is the launcher's word, but a program can print anything: a name counts only where it stands on many lines
or where another file knows it, and what looks like a counter (``step3:``, ``fold2``) is never a host.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from analyzers.failures.events import Scan
from analyzers.failures.topology import Topology, same_node
from analyzers.logs.companions import LogFile
from analyzers.logs.prefix import Prefix, strip_prefix

_HEAD_LINES = 200
_LABELLED_SHARE = 0.6
_FEWEST_LINES = 3
_NAME = r"[A-Za-z][A-Za-z0-9.-]{0,62}"
_LABEL = re.compile(rf"({_NAME}|\d{{1,3}}(?:\.\d{{1,3}}){{3}}): ?(?=\S|\s)")
_COUNTERS = re.compile(
    r"rank|gpu|cuda|device|dev|worker|task|proc(?:ess)?|replica|trial|run|exp(?:eriment)?|epoch|step|iter(?:ation)?|it"
    r"|batch|layer|block|stage|fold|phase|part|shard|line|chunk|file|model|ver(?:sion)?|train(?:er|-run)?|actor|learner"
    r"|env|agent|client|thread|stream|group|pod|role|default|loss|acc|top|test|val(?:id)?|eval|job|attempt|seed|round"
    r"|level|slurm|log|out(?:put)?|err|stdout|stderr|ckpt|checkpoint|python|sha|utf|master|launcher|chief|head"
)
_BEFORE_RANK = re.compile(rf"^({_NAME}?)[-_.](?:global[-_]?)?rank[-_.=]?\d{{1,6}}$", re.I)
_AFTER_RANK = re.compile(rf"^(?:global[-_]?)?rank[-_.=]?\d{{1,6}}[-_.@]({_NAME})$", re.I)
_ENDS_WITH_NUMBER = re.compile(r"[A-Za-z][A-Za-z0-9-]{0,62}\d(?:\.[A-Za-z][A-Za-z0-9.-]*)?")
#: Prefixes whose number counts from 0 on each node (torchrun's ``[default0]:``); others tell the rank in the whole job.
LOCAL_RANK = re.compile(r"\[(?!rank)[a-z_]+\d{1,6}\]:")
_ENDINGS = re.compile(r"(?:\.(?:log|txt|out|err|stdout|stderr|gz|xz|bz2))+$", re.I)


@dataclass(frozen=True, slots=True)
class Labels:
    """The hosts whose names stand before a file's lines. ``throughout``: most lines carry one."""

    hosts: frozenset[str] = frozenset()
    throughout: bool = False

    def prefix(self, text: str) -> Prefix:
        """As `strip_prefix`, with the host's label taken off first; the outermost label names the node."""
        host, body = self.split(text)
        if host is None:
            return strip_prefix(text)
        inner = strip_prefix(body)
        return inner._replace(node=inner.node if host[:1].isdigit() and inner.node else host)

    def split(self, text: str) -> tuple[str | None, str]:
        """The host's label, where the line has one, and what stands behind it."""
        found = _LABEL.match(text) if self.hosts else None
        if found is None or found[1] not in self.hosts:
            return None, text
        return found[1], text[found.end() :]


NO_LABELS = Labels()


def labels_of(lines: list[str], known: frozenset[str] = frozenset()) -> Labels:
    """The labels of a file, told by its first lines. ``known`` are hosts that other files name."""
    head = [line for line in lines[:_HEAD_LINES] if line.strip()]
    seen: Counter[str] = Counter()
    stamped: Counter[str] = Counter()
    for line in head:
        if found := _LABEL.match(line):
            seen[found[1]] += 1
            behind = strip_prefix(line[found.end() : found.end() + 200])
            stamped[found[1]] += behind.rank is not None or behind.time is not None
    likely = {host for host, count in seen.items() if count > 1 and looks_like_host(host)}
    throughout = sum(seen[host] for host in likely) >= max(_FEWEST_LINES, _LABELLED_SHARE * len(head))
    sure = likely if throughout else _only_label(head, likely, stamped)
    return Labels(frozenset(sure | {host for host in seen if host in known}), throughout)


def _only_label(head: list[str], likely: set[str], stamped: Counter[str]) -> set[str]:
    """Where only the logger's lines carry a label (a traceback has none): one name, from the first line on."""
    return {host for host in likely if len(likely) == 1 and stamped[host] > 1 and head[0].startswith(f"{host}:")}


def looks_like_host(name: str) -> bool:
    """Whether a name may be a node's: letters with a number, and the letters are no counter's name."""
    if re.fullmatch(r"\d{1,3}(?:\.\d{1,3}){3}", name):
        return True
    first = name.partition(".")[0].lower()
    word = re.sub(r"[\d_-]+$", "", first)
    return len(first) > 2 and any(c.isdigit() for c in first) and bool(word) and not _COUNTERS.fullmatch(word)


def known_hosts(files: Iterable[LogFile]) -> frozenset[str]:
    """Hosts whose kernel log or launcher's log lies in the folder."""
    return frozenset(file.node for file in files if file.node)


def settle_labels(scan: Scan, topology: Topology, known: frozenset[str]) -> None:
    """A logger's own name (``resnet50:``) stands before its lines too, so a label that nothing else confirms names no
    node: no other label like it with another number, no companion file, no line of the platform, no ``host=``."""
    shapes = Counter(_shape(host) for host in scan.labels)
    platform = {event.node for event in scan.events if event.writer != "job" and event.node}
    for host in scan.labels:
        confirmed = known | topology.named | platform
        if "-" in host or shapes[_shape(host)] > 1 or any(same_node(host, other) for other in confirmed):
            continue
        topology.forget(host)
        for event in scan.events:
            if event.node == host:
                event.node, event.host_explicit = None, False


def place_by_name(files: list[LogFile], scan: Scan, topology: Topology) -> None:
    """Use the hosts in the names of the job's own files, where the names prove to be hosts: another file knows the
    host, or the names differ only in their numbers and no rank speaks in the files of two of them."""
    known = known_hosts(files)
    named = {file.name: host for file in files if (host := host_in_name(file, known)) is not None}
    told = {host for host in named.values() if any(same_node(host, other) for other in (*topology.nodes, *known))}
    if not told and not _names_hosts(named, scan):
        return
    for name, host in named.items():
        if told and not any(_shape(host) == _shape(other) for other in told):
            continue
        for rank in scan.ranks_in.get(name, ()):
            topology.place(rank, host)
        for event in scan.events:
            if event.file == name and event.node is None and event.writer == "job":
                event.node, event.host_explicit = host, True


def host_in_name(file: LogFile, known: frozenset[str]) -> str | None:
    """What may be a host in the name of a job's file or of the folder that it lies in: one of ``known``, or a name
    that ends with a number and stands beside the rank, or alone."""
    if file.kind not in ("job", "rank"):
        return None
    path = Path(file.name)
    stem = _ENDINGS.sub("", path.name)
    for host in sorted(known, key=len, reverse=True):
        if re.search(rf"(?<![A-Za-z0-9]){re.escape(host)}(?![A-Za-z0-9])", stem):
            return host
    beside = _BEFORE_RANK.match(stem) or _AFTER_RANK.match(stem)
    candidates = [beside[1] if beside else stem, *path.parts[-2:-1]]
    return next((name for name in candidates if _ENDS_WITH_NUMBER.fullmatch(name) and looks_like_host(name)), None)


def _names_hosts(named: dict[str, str], scan: Scan) -> bool:
    ranks: dict[str, set[int]] = {}
    for name, host in named.items():
        ranks.setdefault(host, set()).update(scan.ranks_in.get(name, ()))
    everyone = [rank for here in ranks.values() for rank in here]
    return (
        len(ranks) > 1
        and len({_shape(host) for host in ranks}) == 1
        and all(ranks.values())
        and len(everyone) == len(set(everyone))
    )


def _shape(host: str) -> str:
    return re.sub(r"\d+", "#", host.partition(".")[0])
