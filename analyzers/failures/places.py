"""Collects, while a file is read, who runs where: for the whole job, and for each attempt of the file by itself."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from analyzers.failures.events import Scan
from analyzers.failures.marks import JOB_ID
from analyzers.failures.node_list import learn_nodes, place_by_list
from analyzers.failures.recognise import POD_NAME
from analyzers.failures.topology import Topology
from analyzers.logs.companions import LogFile
from analyzers.logs.prefix import Prefix

MOST_LAYOUT_LINES = 5000


#: What each line has that tells of a rank, node, process, GPU, pod, address or job.
_TELLING = (
    "rank", "host", "node", "name:", "pid", "pci", "gpu", "process", "pod", "task", "assigned", "exitcode", "world",
    "job", "stepid", "slurm", " on ", "nccl", "*** step",
)  # fmt: skip
_PLACE_AND_PROCESS = re.compile(r":\d+:\d+ \[\d")


@dataclass(slots=True)
class Places:
    """Takes lines that tell of ranks and nodes; ``own`` is what was said since the attempt began."""

    scan: Scan
    topology: Topology
    own: Topology = field(default_factory=Topology)
    _lines: int = 0

    def learn(self, file: LogFile, text: str, prefix: Prefix) -> None:
        """Take what one line says."""
        self._lines += 1
        if self._lines > MOST_LAYOUT_LINES or (prefix.node is None and not _tells(text)):
            return
        rank = prefix.rank if prefix.rank is not None else file.rank
        for topology in (self.topology, self.own):
            topology.learn(text, rank, prefix.node)
            learn_nodes(text, topology)
        if file.rank is not None and prefix.node and not POD_NAME.search(prefix.node):
            self.topology.place(file.rank, prefix.node)
        for found in JOB_ID.findall(text) if file.kind != "scheduler" else ():
            self.scan.job_ids.update(number for number in found if number)

    def settle(self, file: LogFile, attempt: int, ranks: set[int]) -> None:
        """Keep who ran where in the attempt that ends here; the next one may run elsewhere."""
        self.own.ranks.update(ranks)
        place_by_list(self.own)
        if self.own.node_of_rank:
            self.scan.places[file.name, attempt] = self.own.node_of_rank
        self.own = Topology()


def _tells(text: str) -> bool:
    low = text.lower()
    return any(word in low for word in _TELLING) or _PLACE_AND_PROCESS.search(text) is not None
