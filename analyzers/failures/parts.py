"""Joins what the files of a job tell: each is read by itself, and what an earlier one says stands."""

from __future__ import annotations

from collections.abc import Iterable
from copy import copy
from dataclasses import dataclass, fields, replace

from analyzers.failures.events import Event, Scan
from analyzers.failures.keeping import MOST_EVENTS
from analyzers.failures.topology import Topology
from analyzers.logs.companions import LogFile

#: What no file tells by itself, or what is not simply added up.
_NOT_ADDED = frozenset({"events", "resumed", "first_time", "last_time", "stuck"})
_ADDED = tuple(each.name for each in fields(Scan) if each.name not in _NOT_ADDED)


@dataclass(frozen=True, slots=True)
class Part:
    """What one file tells. ``ranks``: who speaks in it."""

    file: LogFile
    scan: Scan
    topology: Topology
    ranks: frozenset[int]

    def copied(self) -> Part:
        """One whose events and streams a verdict may change without changing these."""
        twins = {id(event): copy(event) for event in self.scan.events}
        for event in twins.values():
            if event.explained_by is not None:
                event.explained_by = twins.get(id(event.explained_by), event.explained_by)
        events: list[Event] = list(twins.values())
        streams = {key: copy(stream) for key, stream in self.scan.streams.items()}
        return replace(self, scan=replace(self.scan, events=events, streams=streams))


def joined(parts: Iterable[Part]) -> tuple[Scan, Topology]:
    """What the files tell together, in their order. Events and streams are handed over, not copied."""
    scan, topology = Scan(), Topology()
    for part in parts:
        _add(part, scan, topology)
    return scan, topology


def _add(part: Part, scan: Scan, topology: Topology) -> None:
    found = part.scan
    scan.events.extend(found.events[: max(0, MOST_EVENTS - len(scan.events))])
    for name in _ADDED:
        whole, more = getattr(scan, name), getattr(found, name)
        if isinstance(whole, list):
            whole.extend(more)
        else:  # a map or a set
            whole.update(more)
    scan.resumed = found.resumed or scan.resumed
    scan.started(found.first_time)
    scan.printed(found.last_time)
    topology.add(part.topology)
    node = topology.node(part.file.rank)
    for rank in part.ranks:
        topology.place(rank, node)
