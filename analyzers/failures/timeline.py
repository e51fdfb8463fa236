"""What happened when, rank by rank: the points of a picture of a failure."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import Literal

from analyzers.failures.clearing import where
from analyzers.failures.events import Event, Scan, seconds_between
from analyzers.failures.topology import Topology
from analyzers.logs.prefix import strip_prefix
from analyzers.types import Diagnosis, LogEvidence

Kind = Literal["progress", "put-aside", "evidence"]
_MOST_MOMENTS = 5000


@dataclass(frozen=True, slots=True)
class Moment:
    """One line that means something. ``at_s``: seconds since the first moment that has a time; None where the line
    has none and no line above it either."""

    kind: Kind
    rank: int | None
    node: str | None
    at_s: float | None
    line: LogEvidence


def moments(scan: Scan, topology: Topology, found: Diagnosis) -> tuple[Moment, ...]:
    """The last progress of each process, the lines that were put aside and the evidence, in the order of the input."""
    quoted = {(line.file, line.line) for line in found.evidence}
    dated = [*_progress(scan, topology), *_events(scan.events, topology, quoted)][:_MOST_MOMENTS]
    start: datetime | None = None
    for time, _ in dated:
        if time is not None and (start is None or (seconds_between(time, start) or 0.0) > 0):
            start = time
    return tuple(
        Moment(moment.kind, moment.rank, moment.node, seconds_between(start, time), moment.line)
        for time, moment in dated
    )


def _progress(scan: Scan, topology: Topology) -> Iterator[tuple[datetime | None, Moment]]:
    for stream in scan.streams.values():
        for line in (*list(stream.recent)[:1], stream.progress):
            if line is not None:
                time = strip_prefix(line.text).time
                yield time, Moment("progress", stream.rank, topology.node(stream.rank), None, line)


def _events(
    events: list[Event], topology: Topology, quoted: set[tuple[str, int]]
) -> Iterator[tuple[datetime | None, Moment]]:
    for event in events:
        is_evidence = (event.file, event.line) in quoted
        if not is_evidence and (event.foreign or event.signature.role == "informational"):
            continue
        kind: Kind = "evidence" if is_evidence else "put-aside"
        yield event.time, Moment(kind, event.rank, where(event, topology), None, event.evidence)
