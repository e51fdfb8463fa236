"""Puts aside, or casts doubt on, trouble that the job got over: at its start, for a moment, or by its own account."""

from __future__ import annotations

import re

from analyzers.failures.clearing import dismiss, latest_time
from analyzers.failures.events import Event, Scan, seconds_between
from analyzers.failures.signatures import STRONG
from analyzers.failures.topology import Topology, same_node

#: So many lines without another sign of trouble are said after a warning, or an error, that did not end the program.
LINES_AFTER_WARNING = 20
LINES_AFTER_ERROR = 12
BRIEF_OUTAGE_S = 60.0
_UPTIME = re.compile(r"^(?:<\d+>)?\[ *(\d{1,9}\.\d{3,6})\]")


def clear_started(scan: Scan) -> None:
    """What keeps a job from starting is over when the job makes a step (a gang steps only when all of it runs), or
    when the pod that it speaks of has written a log."""
    told = {event.file for event in scan.events}
    spoke = [name for name in scan.ranks_in if scan.ranks_in[name] or name in told]
    for event in scan.events:
        if event.signature.starting and event.pod and any(event.pod in name for name in spoke):
            dismiss(event, "the pod started all the same: it has written a log")
    steps = [line for stream in scan.streams.values() for line in (stream.progress, stream.success) if line is not None]
    if not steps:
        return
    latest = latest_time(steps)
    for event in scan.events:
        if not event.signature.starting or event.dismissed:
            continue
        until_step = seconds_between(event.time, latest) if event.time_exact else None
        if until_step is None or until_step > 0:
            dismiss(event, "the job started all the same, and made steps")


def doubt_talked_over(scan: Scan) -> None:
    """Casts doubt on what was only logged (as a warning; or as an error, when something else ended the program later)
    and after which the program said much else before anything failed: it did not end there."""
    per_file: dict[str, list[Event]] = {}
    for event in scan.events:
        if event.writer == "job" and event.signature.role != "informational":
            per_file.setdefault(event.file, []).append(event)
    for file, events in per_file.items():
        events.sort(key=lambda e: e.line)
        ended = max((e.line for e in events if not e.dismissed and not e.mild and e.weight >= STRONG), default=0)
        for event, following in zip(events, [*(e.line for e in events[1:]), scan.lines_in.get(file, 0)], strict=True):
            quiet = following - event.line
            overcome = event.mild or event.handled
            said_much = quiet > (LINES_AFTER_WARNING if overcome else LINES_AFTER_ERROR)
            if not event.fatal and said_much and (overcome or event.line < ended):
                event.outlived = True
                if event.handled:
                    dismiss(event, "the program said how it would go on without, and went on")


def clear_brief_outages(scan: Scan) -> None:
    """A file server that answered again within a minute kept nobody waiting long enough to fail."""
    answered = [event for event in scan.events if event.signature.id == "nfs-answered"]
    for event in scan.events:
        if event.signature.subcategory != "nfs" or event.writer == "job" or event.dismissed:
            continue
        for end in answered:
            if end.file == event.file and end.line > event.line and end.peer and end.peer in event.text:
                gap = _uptime_between(event, end)
                if gap is not None and gap <= BRIEF_OUTAGE_S:
                    dismiss(event, f"the server answered again {gap:.0f} s later (line {end.line})")
                break


def _uptime_between(a: Event, b: Event) -> float | None:
    """Seconds between two lines of a kernel's log, by its own clock or by the time of day."""
    first, second = _UPTIME.match(a.text), _UPTIME.match(b.text)
    if first and second:
        return float(second[1]) - float(first[1])
    return seconds_between(a.time, b.time) if a.time_exact and b.time_exact else None


def doubt_other_nodes(scan: Scan, topology: Topology) -> None:
    """Casts doubt on the loss of a node on which none of the job's pods is known to run, where others are."""
    own = set(topology.node_of_pod.values())
    for event in scan.events:
        lost = event.signature.subcategory == "node-lost" and event.writer == "platform"
        if lost and own and event.node and not any(same_node(event.node, node) for node in own):
            event.outlived = True


def clear_managed(scan: Scan) -> None:
    """A warning that itself says how the program goes on (``falling back to ...``) did not end it; something that did
    end it later in the file is left to be the cause."""
    ends: dict[str, int] = {}
    for event in scan.events:
        if event.fatal and not event.dismissed and event.weight >= STRONG:
            ends[event.file] = max(ends.get(event.file, 0), event.line)
    for event in scan.events:
        if event.handled and not event.fatal and not event.dismissed and event.line < ends.get(event.file, 0):
            dismiss(event, "the program said how it would go on without")
