"""Streams the files of one job and keeps the lines that mean something, in bounded memory."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from itertools import accumulate

from analyzers.failures.block import Block
from analyzers.failures.events import Scan
from analyzers.failures.hosts import known_hosts, place_by_name, settle_labels
from analyzers.failures.marks import MARKS, Mark, is_last_step
from analyzers.failures.matcher import Matcher
from analyzers.failures.node_list import place_by_list
from analyzers.failures.parts import Part, joined
from analyzers.failures.pods import place_by_pod
from analyzers.failures.reading import FileReader
from analyzers.failures.rules import Job, Rules
from analyzers.failures.sampling import Share
from analyzers.failures.signatures import Signature
from analyzers.failures.topology import Topology
from analyzers.logs.companions import LogFile
from analyzers.logs.intake import Warn

#: A look at what was written goes no further than so many matches at a time.
_ENOUGH = 2000
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
        known, share = known_hosts(files), Share.of_each(len(files))

        def read(file: LogFile) -> Part:
            return self.reader(file, known, share, warn).read()

        return put_together(files, map(read, files), known)

    def reader(self, file: LogFile, known: frozenset[str], share: Share, warn: Warn) -> FileReader:
        """What reads one file, by itself; `put_together` joins what several found."""
        return FileReader(self._rules, Job(Scan(), Topology(), warn, known, share), file)

    def troubled(self, pieces: Sequence[bytes]) -> set[int]:
        """The indexes of those pieces (some lines each) in which one is more than a remark: for a look at what was just
        written to many files, much faster than reading each."""
        block = Block(1, b"\n".join(pieces))
        firsts = list(accumulate((piece.count(b"\n") + 1 for piece in pieces), initial=1))
        found: set[int] = set()
        for index, numbers in self._rules.matcher.candidates(block, _ENOUGH).lines.items():
            at = bisect_right(firsts, block.number(index)) - 1
            if at not in found and any(map(self._is_trouble, self._rules.confirmed(numbers, block.line(index)))):
                found.add(at)
        return found

    def _is_trouble(self, number: int) -> bool:
        """Whether what a pattern stands for is no remark; the number behind the signatures is that of Xids."""
        signatures = self._rules.signatures
        if number < len(signatures):
            return signatures[number].role != "informational"
        return number == len(signatures) or number == self._rules.marks["traceback"]


def put_together(files: list[LogFile], parts: Iterable[Part], known: frozenset[str]) -> tuple[Scan, Topology]:
    """What these files, of which there is a part each, tell of the one job."""
    scan, topology = joined(parts)
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
