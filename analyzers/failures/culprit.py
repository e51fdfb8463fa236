"""Which rank and which node. Nobody is named without a reason, and no node on the job's own word alone."""

from __future__ import annotations

import re

from analyzers.failures.accounting import JobRow
from analyzers.failures.clearing import FAILED_TASK, where
from analyzers.failures.events import Event, Scan
from analyzers.failures.topology import Topology, same_node
from analyzers.types import NodeProof

_WHOLE_JOB_SHARE = 0.5
_HOSTS_THAT_AGREE = 2
_JOBS_THAT_AGREE = 2
_MPI_ABORT = re.compile(r"MPI_ABORT was invoked on rank (\d{1,6})")
#: Numbers in names of files that are none of a job.
_COUNTED = re.compile(
    r"(?:rank|task|worker|proc(?:ess)?|replica|chunk|part|shard|attempt|pid|step|epoch|checkpoint"
    r"|(?<![a-z])(?:it(?:er(?:ation)?)?|ckpt|seed|fold|trial|version|v|node|host|gpu|port)s?)[_.=-]?\d+",
    re.I,
)
_JOB_NUMBER = re.compile(r"\d{3,}")
_JOB_FOLDER = re.compile(r"(?:^|/)(?:jobs?|slurm|pbs)[_/-]?(\d{3,})(?=[/_.-])", re.I)
#: After these a process may not get to say a word.
_SILENCES = ("host-oom", "killed", "gpu-lost", "gpu-firmware", "gpu-ecc", "nvlink")
#: Of this many ranks one may be silent.
_SILENT_SHARE = 3


def node_proof(
    nodes: tuple[str, ...], cause: Event, supporting: list[Event], scan: Scan, topology: Topology
) -> NodeProof | None:
    """On whose word these nodes are named."""
    if not nodes:
        return None
    told = [event for event in (cause, *supporting, *_alike(cause, scan)) if event.proven]
    if any(event.node and same_node(event.node, node) for event in told for node in nodes) or (
        cause.signature.scope == "lost-node" and told
    ):
        return "platform"
    return "several-jobs" if _same_in_several_jobs(_alike(cause, scan), scan, topology) in nodes else "job-log"


def culprits(
    cause: Event, scan: Scan, topology: Topology, elsewhere: list[JobRow]
) -> tuple[tuple[int, ...], tuple[str, ...]]:
    """Ranks and nodes that the cause points at; empty where it is the whole job or not known."""
    signature = cause.signature
    if signature.scope == "job" or cause.hearsay:
        return (), ()
    if signature.scope == "peer":
        return (), _common_peer(cause, scan, topology)
    if signature.scope == "lost-node":
        named = [
            event.node
            for event in scan.events
            if event.signature.scope == "node" and event.signature.subcategory == "node-lost" and not event.dismissed
        ]
        return (), next(((node,) for node in named if node), ())
    if signature.role == "symptom":
        return _one(cause.rank), ()  # where a process died, which says nothing against the node
    alike = _alike(cause, scan)
    if signature.scope in ("node", "pod") and cause.writer != "job":
        nodes = {event.node for event in alike if event.node and event.writer != "job"}
        if len(nodes) > 1 and signature.category != "infrastructure-hardware":
            return (), ()
        victims = _victims_on(cause, scan, topology) if cause.rank is None else (cause.rank,)
        return victims, _cleared(cause.node, cause, scan, elsewhere)
    ranks = {event.rank for event in alike if event.rank is not None}
    against_node = signature.category.startswith("infrastructure") or signature.action == "cordon_node_and_restart"
    common = _same_in_several_jobs(alike, scan, topology) if against_node else None
    if len(ranks) > 1 and (node := _whole_node(ranks, topology)) is not None:
        trusted = not against_node or _trusted(cause, alike, scan, topology)
        return tuple(sorted(ranks)), _cleared(node if trusted else common, cause, scan, elsewhere)
    if len(ranks) > 1 and len(ranks) >= _WHOLE_JOB_SHARE * len(topology.ranks):
        return (), () if common is None else (common,)
    rank = cause.rank if cause.rank is not None or len(ranks) != 1 else min(ranks)
    node = where(cause, topology) or _named_by_all(alike)
    node = node or topology.node(rank)
    if against_node and not _trusted(cause, alike, scan, topology):
        node = common
    if rank is None:
        rank = _aborted_by(cause, scan)
    victims = _victims_on(cause, scan, topology) if rank is None else (rank,)
    return victims, _cleared(node, cause, scan, elsewhere)


def _whole_node(ranks: set[int], topology: Topology) -> str | None:
    """The node whose ranks these are, all of them and no others, where the job has ranks elsewhere."""
    nodes = {topology.node(rank) for rank in ranks}
    node = nodes.pop() if len(nodes) == 1 else None
    return node if node and set(topology.ranks_on(node)) == ranks and topology.ranks - ranks else None


def _alike(cause: Event, scan: Scan) -> list[Event]:
    """Events of the same kind in the attempt that counts, the cause among them."""
    return [
        event
        for event in scan.events
        if event.signature.category == cause.signature.category
        and event.signature.subcategory == cause.signature.subcategory
        and event.signature.role in ("root", "confirmation", "ambiguous")
        and (not event.dismissed or event is cause)
        and (event is cause or not (cause.fatal and event.mild))
    ]


def _named_by_all(alike: list[Event]) -> str | None:
    """The one node that lines of the same kind name, where the platform itself or the message says so."""
    nodes = {event.node for event in alike if event.node and event.signature.regex.groups and event.host_explicit}
    return nodes.pop() if len(nodes) == 1 else None


def _same_in_several_jobs(alike: list[Event], scan: Scan, topology: Topology) -> str | None:
    """The one node on which the same fault struck in logs of several jobs. What one job prints proves nothing about a
    node, but jobs with different numbers, on other nodes for the rest, do."""
    jobs: dict[str, set[str]] = {}
    files: set[str] = set()
    for event in alike:
        number = _job_number(event.file)
        if number is not None and event.writer == "job" and (node := where(event, topology)):
            jobs.setdefault(number, set()).add(node.partition(".")[0])
            files.add(event.file)
    common = set.intersection(*jobs.values()) if len(jobs) >= _JOBS_THAT_AGREE else set()
    if len(common) != 1:
        return None
    ran_on = {node for (file, _), places in scan.places.items() if file in files for node in places.values()}
    return common.pop() if {node.partition(".")[0] for node in ran_on} - common else None


def _job_number(file: str) -> str | None:
    """The number of the job that a file is of, as its name (or a folder that is called a job's) tells it."""
    folders, _, name = file.rpartition("/")
    numbers = _JOB_NUMBER.findall(_COUNTED.sub("", name)) or _JOB_FOLDER.findall(f"{folders}/")
    return numbers[-1] if numbers else None


def _trusted(cause: Event, alike: list[Event], scan: Scan, topology: Topology) -> bool:
    """A node is blamed for infrastructure on a platform's word, or when a launcher's prefix names the host. In a file
    that is one rank's own no launcher speaks for others: who reads as several there may be that rank alone. What one
    process calls its host counts where a launcher or the scheduler named it too."""
    if any(event.writer != "job" for event in alike):
        return True
    if not cause.host_explicit or cause.file in scan.of_many:
        return False
    known = (*topology.named, *topology.node_list)
    return not cause.own_name or any(same_node(cause.node or "", node) for node in known)


def _aborted_by(cause: Event, scan: Scan) -> int | None:
    """The rank that ended the others through MPI, where one alone did and the cause stands in the same file."""
    ranks = {int(told[1]) for e in scan.events if e.file == cause.file and (told := _MPI_ABORT.search(e.text))}
    return ranks.pop() if len(ranks) == 1 and cause.writer == "job" else None


def _victims_on(cause: Event, scan: Scan, topology: Topology) -> tuple[int, ...]:
    """The one rank that felt the cause directly (its own error follows from it), where no other did and it is not known
    to run elsewhere; or all ranks of the node, where each of them felt it and others do not run there. A network port
    serves all ranks of its node, so none of several is singled out."""
    if cause.signature.category == "infrastructure-network":
        one_each = len(topology.ranks) == len(set(topology.node_of_rank.values())) == len(topology.node_of_rank) > 1
        return tuple(topology.ranks_on(cause.node)) if cause.node and one_each else ()
    if cause.pci is not None:
        users = {
            event.rank for event in scan.events if event.pci == cause.pci and _not_elsewhere(event, cause, topology)
        }
        users.discard(None)
        if len(users) == 1:
            return _one(users.pop())
    felt = [
        event
        for event in scan.events
        if event.rank is not None
        and event.writer == "job"
        and not event.dismissed
        and event.signature.role != "echo"
        and (
            event.signature.subcategory in (cause.signature.subcategory, *cause.signature.explains)
            or (event.fatal and event.signature.role == "root" and event.explained_by is cause)
        )
        and event.signature.subcategory not in ("collective-timeout", "sigterm", "rendezvous", "nccl", "exit-code")
        and _not_elsewhere(event, cause, topology)
    ]
    ranks = {event.rank for event in felt}
    if not ranks and cause.signature.subcategory in _SILENCES:
        ranks = set(_fell_silent(cause, scan, topology))
    if not ranks and not topology.local_of_pid:  # else a task is a launcher of several ranks
        ranks = {event.rank for event in scan.events if _task_of(event, cause)}
    if len(ranks) == 1:
        return _one(ranks.pop())
    here = topology.ranks_on(cause.node) if cause.node else []
    return tuple(here) if here and ranks == set(here) and topology.ranks - ranks else ()


def _task_of(event: Event, cause: Event) -> bool:
    named = FAILED_TASK.search(event.text) is not None and event.node is not None and event.rank is not None
    return named and same_node(event.node or "", cause.node or "")


def _fell_silent(cause: Event, scan: Scan, topology: Topology) -> list[int]:
    """A killed process says nothing: the ranks without a word of the failure, where most of the others have one."""
    spoke = {event.rank for event in scan.events if event.writer == "job" and event.signature.role != "informational"}
    silent = [rank for rank in topology.ranks if rank not in spoke]
    here = [rank for rank in silent if (node := topology.node(rank)) is None or same_node(node, cause.node or "")]
    return here if len(silent) * _SILENT_SHARE <= len(topology.ranks) else []


def _not_elsewhere(event: Event, cause: Event, topology: Topology) -> bool:
    node = where(event, topology)
    return cause.node is not None and (node is None or same_node(node, cause.node))


def _common_peer(cause: Event, scan: Scan, topology: Topology) -> tuple[str, ...]:
    """The peer that at least two hosts name, if there is one that no one else outnumbers."""
    named: dict[str, set[str]] = {}
    for event in scan.events:
        if event.peer and not event.dismissed and event.signature.id == cause.signature.id:
            named.setdefault(event.peer, set()).add(where(event, topology) or event.file)
    ranked = sorted(named.items(), key=lambda item: -len(item[1]))
    if not ranked or len(ranked[0][1]) < _HOSTS_THAT_AGREE:
        return ()
    if len(ranked) > 1 and len(ranked[1][1]) == len(ranked[0][1]):
        return ()
    node = topology.node_of_ip.get(ranked[0][0])
    return (node,) if node else ()


def _cleared(node: str | None, cause: Event, scan: Scan, elsewhere: list[JobRow]) -> tuple[str, ...]:
    """No node is named when the same failure also happened on others (earlier attempts, other runs of the job)."""
    if node is None:
        return ()
    if cause.writer != "job" and cause.signature.role == "root":
        return (node,)
    if elsewhere:
        return ()
    for event in scan.events:
        other = event.node
        if event.dismissed.startswith("it belongs to an earlier attempt") and (
            event.signature.id == cause.signature.id and other and not same_node(other, node)
        ):
            return ()
    if recurs_on_other_node(cause, node, scan):
        return ()
    return (node,)


def recurs_on_other_node(cause: Event, node: str | None, scan: Scan) -> bool:
    """Whether an earlier attempt saw the same kind of failure on another node."""
    return any(
        event.dismissed.startswith("it belongs to an earlier attempt")
        and event.signature.category == cause.signature.category
        and event.signature.subcategory == cause.signature.subcategory
        and event.node is not None
        and (node is None or not same_node(event.node, node))
        for event in scan.events
    )


def _one(rank: int | None) -> tuple[int, ...]:
    return () if rank is None else (rank,)
