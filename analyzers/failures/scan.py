"""Streams the files of one job and keeps the lines that mean something, in bounded memory."""

from __future__ import annotations

from analyzers.failures.events import Scan
from analyzers.failures.hosts import known_hosts, place_by_name, settle_labels
from analyzers.failures.marks import MARKS, Mark, is_last_step
from analyzers.failures.matcher import Matcher
from analyzers.failures.node_list import place_by_list
from analyzers.failures.pods import place_by_pod
from analyzers.failures.reading import FileReader, Job, Rules
from analyzers.failures.sampling import Share
from analyzers.failures.signatures import Signature
from analyzers.failures.topology import Topology
from analyzers.logs.companions import LogFile
from analyzers.logs.intake import Warn

_XID_LINE = r"Xid \(PCI:"


class Scanner:
    """Compiled once for a set of signatures; `read` then takes any number of jobs."""

    def __init__(self, signatures: tuple[Signature, ...], automaton: bool | None = True) -> None:
        first_mark = len(signatures) + 1
        numbers: dict[Mark, int] = {mark: first_mark + at for at, (mark, _) in enumerate(MARKS)}
        self._rules = Rules(signatures, Matcher(expressions(signatures), automaton), first_mark, numbers)

    @property
    def is_compiled(self) -> bool:
        """Whether large logs are read fast."""
        return self._rules.matcher.is_compiled

    def read(self, files: list[LogFile], warn: Warn) -> tuple[Scan, Topology]:
        """All files of one job, in the order given."""
        scan, topology = Scan(), Topology()
        known = known_hosts(files)
        job = Job(scan, topology, warn, known, Share.of_each(len(files)))
        for file in files:
            FileReader(self._rules, job, file).read()
        _last_steps(scan)
        settle_labels(scan, topology, known)
        place_by_name(files, scan, topology)
        place_by_list(topology)
        place_by_pod(files, scan, topology)
        return scan, topology


def expressions(signatures: tuple[Signature, ...]) -> list[str]:
    """What the matcher looks for: the signatures, Xid lines, then the marks."""
    return [*(s.pattern for s in signatures), _XID_LINE, *(pattern.pattern for _, pattern in MARKS)]


def _last_steps(scan: Scan) -> None:
    """A process whose last line of progress is, by its counters, the last of all has ended well so far."""
    for stream in scan.streams.values():
        last = stream.progress
        if last is not None and is_last_step(last.text) and (stream.success is None or stream.success.line < last.line):
            stream.success = last
