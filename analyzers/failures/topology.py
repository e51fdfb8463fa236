"""Who ran where: ranks, nodes, process ids, GPUs, addresses and pods, read from what launchers and libraries print."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

_HOST_NAME = r"[A-Za-z][A-Za-z0-9]*(?:[-.][A-Za-z0-9]+)*"
_EXPLICIT_HOST = re.compile(
    rf"\b(?:(?:host|hostname|node|nodename|node_name)\b ?[=: ]|(?:Host|Hostname|HOSTNAME|Node|Host name)\b ?[=:]) ?"
    rf"({_HOST_NAME})"
)
_STATED_HOST = re.compile(
    rf"\b(?:host|hostname|node|nodename|node_name|Host|Hostname|HOSTNAME|Node) ?[=:] ?({_HOST_NAME})"
)
_ON_HOST = re.compile(rf"[Pp]rocess:? (\d{{1,6}}) ?/ ?\d+ on ({_HOST_NAME})")
_RANK_ON = re.compile(
    rf"\b(?:[Rr]ank|[Pp]rocess) (\d{{1,6}})(?: ?(?:/|of) ?\d+)? (?:is |runs |running |starts )?on (?:host |node )?"
    rf"({_HOST_NAME})"
)
_A_DEVICE = re.compile(r"(?:gpu|cuda|device|dev|port|hpu|npu|tpu)\d*", re.I)
_BARE_HOST = re.compile(r"(?<![\w/.-])([a-z][a-z0-9]*(?:-[a-z0-9]+)*-[a-z]{0,8}\d+)(?![\w/.:-])")
_RANK_RANGE = re.compile(r"\branks?\b ?[=: ]? ?(\d{1,6}) ?(?:-|\.\.|to) ?(\d{1,6})")
_ONE_RANK = re.compile(
    r"(?<![\w_])(?<!local )(?<!Local )(?<!node )(?:global_)?rank ?[=: ] ?(\d{1,6})\b(?! ?(?:-|\.\.))"
)
_LOCAL_RANK = re.compile(r"\b[Ll]ocal[_ ]rank ?[=: ] ?(\d{1,3})\b")
_AGENT = re.compile(r"\blocal_rank: (\d{1,3}) \(pid: (\d{2,9})\)")
_PID = re.compile(r"\bpid[ =:]{1,2}(\d{2,9})\b")
_PCI = re.compile(r"\b(?:pci|PCI)[ =:]{1,2}((?:[0-9a-fA-F]{4,8}:)?[0-9a-fA-F]{2}:[0-9a-fA-F]{2})\b")
_GPU_PCI = re.compile(r"GPU ?(\d{1,2}) ?= ?PCI:((?:[0-9a-fA-F]{4,8}:)?[0-9a-fA-F]{2}:[0-9a-fA-F]{2})")
_IP = re.compile(r"(?<![\d.])(\d{1,3}(?:\.\d{1,3}){3})(?![\d.])")
_NCCL_RANK = re.compile(r"\brank (\d{1,6}) nranks (\d{1,6}) cudaDev (\d{1,3})")
_NCCL_PREFIX = re.compile(rf"(?<![A-Za-z0-9.-])({_HOST_NAME}):(\d+):\d+ \[(\d+)\]")
_POD = re.compile(r"\bpod[/=]([a-z0-9][a-z0-9.-]*)")
DESCRIBED_POD = re.compile(r"^Name: {2,}(\S{1,253})$")
_DESCRIBED_NODE = re.compile(r"^Node: {2,}([A-Za-z0-9][\w.-]{0,252})/[\d.a-f:]+$")
_ASSIGNED = re.compile(r"Successfully assigned (?:\S+/)?(\S+) to (\S+)")
_TABLE_HOST = re.compile(rf"^\s*host\s+: ({_HOST_NAME})")
_TABLE_RANK = re.compile(r"^\s*rank\s+: (\d{1,6}) \(local_rank: (\d{1,3})\)")
_TABLE_PID = re.compile(r"^\s*exitcode\s+: -?\d+ \(pid: (\d+)\)")
_RAY_TRAIN = re.compile(r"ip=([\d.]+), pid=(\d{2,9})\) world_rank=(\d{1,6})")
_MPI_RANK = re.compile(rf"rank (\d{{1,6}}) with PID (\d+) on node ({_HOST_NAME})")
_SRUN_TASKS = re.compile(rf"srun: error: ({_HOST_NAME}): tasks? (\d[\d,-]{{0,200}}): ")
_ROLE_POD = re.compile(r"^(?P<job>.+)-(?P<role>master|chief|launcher|head|worker)-(?P<index>\d{1,5})$")
_MOST_RANKS = 100_000
_NO_HOST = frozenset(
    {"rank", "ranks", "is", "the", "not", "clock", "name", "list", "status", "count", "id", "none", "to", "of"}
)
#: Maps in which what is said first stands.
_FIRST_STANDS = (
    "node_of_rank", "device_of_rank", "rank_of_pci", "device_of_pci", "node_of_ip", "node_of_pod", "ranks_of_pod",
    "local_of_pid",
)  # fmt: skip


@dataclass(slots=True)
class Topology:
    """Maps built while reading. Later facts never overwrite earlier ones; numbers out of range are left out.
    ``named`` are nodes that a line states (``host=``); ``node_list`` and ``world`` are the scheduler's node list and
    the number of ranks, as far as stated."""

    node_of_rank: dict[int, str] = field(default_factory=dict)
    device_of_rank: dict[int, int] = field(default_factory=dict)
    ranks_of_pid: dict[int, set[tuple[int, str | None]]] = field(default_factory=dict)
    rank_of_pci: dict[tuple[str, str], int] = field(default_factory=dict)
    device_of_pci: dict[str, int] = field(default_factory=dict)
    node_of_ip: dict[str, str] = field(default_factory=dict)
    node_of_pod: dict[str, str] = field(default_factory=dict)
    ranks_of_pod: dict[str, range] = field(default_factory=dict)
    ranks: set[int] = field(default_factory=set)
    nodes: set[str] = field(default_factory=set)
    named: set[str] = field(default_factory=set)
    local_of_pid: dict[int, int] = field(default_factory=dict)
    ranged: bool = False
    node_list: tuple[str, ...] = ()
    world: int = 0
    _described: str | None = None
    _table_host: str | None = None
    _table_rank: int | None = None

    def place(self, rank: int | None, node: str | None) -> None:
        """``rank`` runs on ``node``."""
        if rank is None or rank > _MOST_RANKS:
            return
        self.ranks.add(rank)
        if node and not _IP.fullmatch(node):
            self.node_of_rank.setdefault(rank, node)
            self.nodes.add(node)

    def add(self, other: Topology) -> None:
        """What is said in a later place; what was said before stands."""
        for name in _FIRST_STANDS:
            mine = getattr(self, name)
            for key, value in getattr(other, name).items():
                mine.setdefault(key, value)
        for pid, owners in other.ranks_of_pid.items():
            if len(self.ranks_of_pid) < _MOST_RANKS:
                self.ranks_of_pid.setdefault(pid, set()).update(owners)
        self.ranks |= other.ranks
        self.nodes |= other.nodes
        self.named |= other.named
        self.ranged = self.ranged or other.ranged
        self.node_list = self.node_list or other.node_list
        self.world = self.world or other.world

    def forget(self, node: str) -> None:
        """What was taken for a node is none."""
        self.nodes.discard(node)
        self.node_of_rank = {rank: where for rank, where in self.node_of_rank.items() if where != node}
        for owners in self.ranks_of_pid.values():
            mistaken = {owner for owner in owners if owner[1] == node}
            owners.difference_update(mistaken)
            owners.update((rank, None) for rank, _ in mistaken)

    def node(self, rank: int | None) -> str | None:
        """The node of a rank, where it was said."""
        return None if rank is None else self.node_of_rank.get(rank)

    def ranks_on(self, node: str) -> list[int]:
        """The ranks of a node, ascending."""
        return sorted(rank for rank, where in self.node_of_rank.items() if same_node(where, node))

    def rank_of_device(self, node: str | None, device: int | None) -> int | None:
        """The rank that uses the device of that index on the node."""
        if node is None or device is None:
            return None
        here = self.ranks_on(node)
        for rank in here:
            if self.device_of_rank.get(rank) == device:
                return rank
        return here[device] if self.ranged and device < len(here) else None

    def rank_of_process(self, pid: int | None, node: str | None) -> int | None:
        """The rank that has this process id on this node, when only one does."""
        owners = self.ranks_of_pid.get(pid or -1, set())
        fits = {rank for rank, where in owners if node is None or where is None or same_node(where, node)}
        if not fits and node is not None and (local := self.local_of_pid.get(pid or -1)) is not None:
            return self._local_rank(node, local)
        return fits.pop() if len(fits) == 1 else None

    def _local_rank(self, node: str, local: int) -> int | None:
        """The rank that is the node's ``local``-th, where that was said or all ranks of the job run there."""
        rank = self.rank_of_device(node, local)
        if rank is None and self.ranks == set(self.ranks_on(node)) == set(range(len(self.ranks))):
            return local if local in self.ranks else None
        return rank

    def rank_of_gpu(self, pci: str | None, node: str | None) -> int | None:
        """The rank that uses the GPU at this PCI address of the node."""
        if pci is None or node is None:
            return None
        bus = _bus(pci)
        for (where, address), rank in self.rank_of_pci.items():
            if address == bus and same_node(where, node):
                return rank
        return self.rank_of_device(node, self.device_of_pci.get(bus))

    def rank_of_pod(self, pod: str | None) -> int | None:
        """The rank of a pod that runs exactly one; by the training operators' order (master 0, then workers)."""
        if pod is None:
            return None
        if pod in self.ranks_of_pod:
            only = self.ranks_of_pod[pod]
            return only[0] if len(only) == 1 else None
        parts = _ROLE_POD.match(pod)
        if not parts or not self.ranks:
            return None
        mates = {
            name
            for name in (*self.node_of_pod, *self.ranks_of_pod)
            if (m := _ROLE_POD.match(name)) and m["job"] == parts["job"]
        }
        if len(mates) != len(self.ranks):
            return None
        has_master = any(not name.startswith(f"{parts['job']}-worker") for name in mates)
        if parts["role"] != "worker":
            return 0
        return int(parts["index"]) + (1 if has_master else 0)

    def learn(self, text: str, rank: int | None, node: str | None) -> None:
        """Take what one line says; ``rank`` and ``node`` are those of its prefix or file."""
        if nccl := _NCCL_PREFIX.search(text):
            node = nccl[1]
            self._process(rank, int(nccl[2]), node)
            if init := _NCCL_RANK.search(text):
                self.place(int(init[1]), node)
                self.device_of_rank.setdefault(int(init[1]), int(init[3]))
            if "Bootstrap" in text and (address := _IP.search(text)):
                self.node_of_ip.setdefault(address[1], node)
        if assigned := _ASSIGNED.search(text):
            self.node_of_pod.setdefault(assigned[1], assigned[2])
        if mpi := _MPI_RANK.search(text):
            self.place(int(mpi[1]), mpi[3])
            self._process(int(mpi[1]), int(mpi[2]), mpi[3])
        if ray := _RAY_TRAIN.search(text):
            self._process(int(ray[3]), int(ray[2]), None)
        if process := _ON_HOST.search(text):
            self.place(int(process[1]), process[2])
        if tasks := _SRUN_TASKS.search(text):
            for task in _numbers(tasks[2]):
                self.place(task, tasks[1])
        if (told := _RANK_ON.search(text)) and any(map(str.isdigit, told[2])) and not _A_DEVICE.fullmatch(told[2]):
            self.place(int(told[1]), told[2])
        if agent := _AGENT.search(text):
            self.local_of_pid.setdefault(int(agent[2]), int(agent[1]))
        for index, address in _GPU_PCI.findall(text):
            self.device_of_pci.setdefault(_bus(address), int(index))
        self._describe(text)
        self._table(text)
        self._launch_line(text, rank, node)

    def _launch_line(self, text: str, rank: int | None, node: str | None) -> None:
        hosts = _hosts(text)
        self.named.update(_STATED_HOST.findall(text))
        ranges = [(int(first), int(last)) for first, last in _RANK_RANGE.findall(text)]
        if not hosts and ranges:
            hosts = _BARE_HOST.findall(text)
        if not hosts:
            if rank is not None:
                self._about_rank(text, rank, node)
            return
        pods, addresses = _POD.findall(text), _IP.findall(text)
        for at, host in enumerate(hosts):
            self.nodes.add(host)
            if len(ranges) == len(hosts):
                self._place_range(*ranges[at], host)
            if len(pods) == len(hosts):
                self.node_of_pod.setdefault(pods[at], host)
                if len(ranges) == len(hosts):
                    self.ranks_of_pod.setdefault(pods[at], range(ranges[at][0], ranges[at][1] + 1))
            if len(addresses) == len(hosts):
                self.node_of_ip.setdefault(addresses[at], host)
        if not ranges:
            self._single_ranks(text, hosts, pods, rank)

    def _single_ranks(self, text: str, hosts: list[str], pods: list[str], rank: int | None) -> None:
        ones = [int(one) for one in _ONE_RANK.findall(text)] or ([rank] if rank is not None and len(hosts) == 1 else [])
        if len(hosts) == 1 and ones:
            self.place(ones[0], hosts[0])
            self._about_rank(text, ones[0], hosts[0])
        elif len(ones) == len(hosts):
            for one, host in zip(ones, hosts, strict=True):
                self.place(one, host)
        if len(ones) == len(pods):
            for one, pod in zip(ones, pods, strict=True):
                self.ranks_of_pod.setdefault(pod, range(one, one + 1))

    def _place_range(self, first: int, last: int, host: str) -> None:
        if first <= last < _MOST_RANKS and last - first < 1024:
            self.ranged = True
            for one in range(first, last + 1):
                self.place(one, host)

    def _about_rank(self, text: str, rank: int, node: str | None) -> None:
        if local := _LOCAL_RANK.search(text):
            self.device_of_rank.setdefault(rank, int(local[1]))
        if pid := _PID.search(text):
            self._process(rank, int(pid[1]), node)
        if node and (pci := _PCI.search(text)):
            self.rank_of_pci.setdefault((node, _bus(pci[1])), rank)

    def owns(self, rank: int | None, pid: int | None, node: str | None) -> None:
        """``rank`` speaks of the process ``pid`` as its own (itself or a worker of it)."""
        if pid is not None:
            self._process(rank, pid, node)

    def _process(self, rank: int | None, pid: int, node: str | None) -> None:
        if rank is not None and len(self.ranks_of_pid) < _MOST_RANKS:
            self.ranks_of_pid.setdefault(pid, set()).add((rank, node))

    def _describe(self, text: str) -> None:
        """`kubectl describe pods`: a pod's name, then its node."""
        if pod := DESCRIBED_POD.match(text):
            self._described = pod[1]
        elif (node := _DESCRIBED_NODE.match(text)) and self._described:
            self.node_of_pod.setdefault(self._described, node[1])
            self._described = None

    def _table(self, text: str) -> None:
        """torchrun's failure table: a host, then its rank, then its process."""
        if host := _TABLE_HOST.match(text):
            self._table_host = host[1]
        elif (rank := _TABLE_RANK.match(text)) and self._table_host:
            self._table_rank = int(rank[1])
            self.place(self._table_rank, self._table_host)
            self.device_of_rank.setdefault(self._table_rank, int(rank[2]))
        elif (pid := _TABLE_PID.match(text)) and self._table_rank is not None:
            self._process(self._table_rank, int(pid[1]), self._table_host)
            self._table_host = self._table_rank = None


def same_node(a: str, b: str) -> bool:
    """Whether two names mean the same node (with or without its domain)."""
    return a == b or a.partition(".")[0] == b.partition(".")[0]


def _hosts(text: str) -> list[str]:
    return [name for name in _EXPLICIT_HOST.findall(text) if name.lower() not in _NO_HOST]


def _numbers(ranges: str) -> list[int]:
    """``0-3,7`` as numbers; a range without end or beyond reason is left out."""
    found: list[int] = []
    for part in ranges.split(","):
        first, _, last = part.partition("-")
        if first.isdigit() and (last or first).isdigit() and 0 <= int(last or first) - int(first) < 1024:
            found.extend(range(int(first), int(last or first) + 1))
    return found


def _bus(address: str) -> str:
    """bus:device without the domain, in lower case."""
    return ":".join(address.lower().split(":")[-2:])
