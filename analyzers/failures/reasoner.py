"""From events to one cause: roots beat echoes, the earlier beats the later, the platform beats the job's own word."""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace

from analyzers.failures.clearing import where
from analyzers.failures.events import Event, Scan, seconds_between
from analyzers.failures.signatures import GENERIC_PRIORITY, STRONG, Signature
from analyzers.failures.topology import Topology, same_node

#: Below this weight the verdict is "unknown".
DECIDES = 0.4
#: Clocks of nodes differ and platforms report late: within this many seconds two lines are simultaneous.
SKEW_S = 5.0
REPORT_DELAY_S = 180.0
MOST_CALLS_SHOWN = 4

_WORK = re.compile(r"WorkNCCL\(SeqNum=(\d+), OpType=(\w+)(?:, NumelIn=(\d+))?")
_SUPPORTING = ("root", "confirmation", "ambiguous")

DESYNC = Signature(
    id="collective-outlier",
    pattern=r"\A\Z",
    role="root",
    category="user-code",
    subcategory="desync",
    action="fix_code",
    retryable=False,
    says="One rank waited in another collective than all others, so its code took another path",
    clue="the rank whose operation differs",
    weight=0.85,
    explains=frozenset({"collective-timeout", "python-exception", "runtime-error"}),
)


PARTED = replace(DESYNC, says="The ranks waited in different collectives, so their code took different paths")
ABSENT = replace(
    DESYNC,
    id="collective-absent",
    role="symptom",
    category="unknown",
    subcategory="no-cause-found",
    action="restart_same_nodes",
    retryable=True,
    says="One rank did not come to a collective that the others waited in",
    clue="what that rank was doing then",
    weight=0.3,
    explains=frozenset(),
)


@dataclass(slots=True)
class Finding:
    """The cause that was chosen, what supports it, and who is meant."""

    cause: Event | None
    supporting: list[Event] = field(default_factory=list)
    rivals: list[Event] = field(default_factory=list)
    suspects: tuple[int, ...] = ()


def find_cause(scan: Scan, topology: Topology) -> Finding:
    """Choose the cause among the events that were not put aside; marks the others as explained."""
    live = [event for event in scan.events if not event.dismissed and event.signature.role != "informational"]
    suspects = scan.stuck.ranks if scan.stuck is not None else _collectives(live, topology)
    causes = [event for event in live if event.signature.role in _SUPPORTING and event.weight > 0]
    _link(causes, live, topology)
    free = [event for event in causes if not _explained(event)]
    if not free:
        free = [event for event in live if event.signature.role == "symptom" and not _explained(event)]
    if not free:
        return Finding(None, suspects=suspects)
    strong = _without_survivors([event for event in free if event.weight >= STRONG])
    chosen = _first(strong) if strong else max(free, key=_telling)
    return Finding(chosen, _supporting(chosen, live, topology), [e for e in strong if e is not chosen], suspects)


def _telling(event: Event) -> tuple[float, bool, int]:
    """How much an event says that does not decide alone: by weight, by more than an exception's type, the earlier."""
    return event.weight, event.signature.priority > GENERIC_PRIORITY, -event.line


def _link(causes: list[Event], live: list[Event], topology: Topology) -> None:
    """Give every event the first of the causes that it follows from. Thousands of ranks may all print several causes,
    so a cause looks only at what follows from anything, and at the kinds that it is known to explain."""
    open_ = [event for event in live if event.explained_by is None]
    followers = [event for event in open_ if _follows_from_anything(event)]
    kinds: dict[str, list[Event]] = {}
    for event in open_:
        if not _follows_from_anything(event):
            kinds.setdefault(event.signature.subcategory, []).append(event)

    def left(cause: Event, events: list[Event]) -> list[Event]:
        remaining = []
        for event in events:
            if event is not cause and _explains(cause, event, topology):
                event.explained_by = cause
            else:
                remaining.append(event)
        return remaining

    for cause in causes:
        followers = left(cause, followers)
        own = {cause.signature.subcategory} if cause.writer != "job" else set()
        for kind in (cause.signature.explains | own) & kinds.keys():
            kinds[kind] = left(cause, kinds[kind])


def _follows_from_anything(event: Event) -> bool:
    return event.signature.role in ("echo", "symptom") and event.signature.weight < STRONG


def take_stuck(scan: Scan, topology: Topology) -> None:
    """What the flight recorder's dumps show becomes an event: a cause where a rank came with another operation, else
    the last thing that the absent ranks did (why they did not come is not told by it)."""
    if scan.stuck is None:
        return
    topology.ranks.update(scan.stuck.ranks)
    signature = (DESYNC if scan.stuck.ranks else PARTED) if scan.stuck.mismatch else ABSENT
    rank = scan.stuck.ranks[0] if len(scan.stuck.ranks) == 1 else None
    for call in scan.stuck.calls[:MOST_CALLS_SHOWN]:
        line = call.evidence
        scan.events.append(Event(line.file, line.line, line.text, signature, "job", rank, fatal=True))
    line = scan.stuck.waited_in.evidence
    scan.events.append(Event(line.file, line.line, line.text, replace(ABSENT, weight=ABSENT.weight / 2), "job"))


def _without_survivors(strong: list[Event]) -> list[Event]:
    """Where one of a kind ended its process, warnings of the same kind before it were overcome."""
    ended = {event.signature.id for event in strong if event.fatal}
    return [event for event in strong if event.fatal or not event.mild or event.signature.id not in ended]


def settle(cause: Event, supporting: list[Event]) -> Signature:
    """The cause's signature, sharpened by what stands beside it: a crash in the job's own native code is its own."""
    signature = cause.signature
    if signature.subcategory == "native-crash" and any(event.user_frame for event in (cause, *supporting)):
        return replace(signature, category="user-code", action="fix_code")
    return signature


def _explained(event: Event) -> bool:
    """Explained by something that is not, in a circle, explained by this event."""
    seen, at = {id(event)}, event.explained_by
    while at is not None and id(at) not in seen:
        seen.add(id(at))
        at = at.explained_by
    return event.explained_by is not None and at is None


def _explains(cause: Event, event: Event, topology: Topology) -> bool:
    if event.explained_by is cause or cause.explained_by is event:
        return False
    platform = cause.writer != "job"
    if not cause.signature.looks_back and _later(cause, event, REPORT_DELAY_S if platform else SKEW_S):
        return False
    if _follows_from_anything(event):
        return cause.weight >= STRONG or event.signature.subcategory in cause.signature.explains
    if cause.signature.scope != "job" and not _together(cause, event, topology):
        return False
    if event.signature.subcategory == cause.signature.subcategory and platform:
        sure = cause.signature.role in ("root", "confirmation")
        return sure and (event.writer == "job" or event.signature.priority < cause.signature.priority)
    return event.signature.subcategory in cause.signature.explains


def _later(a: Event, b: Event, slack_s: float) -> bool:
    """Whether ``a`` is surely later than ``b`` by more than the slack."""
    gap = seconds_between(b.time, a.time)
    if gap is not None and gap > slack_s and b.time_exact:
        return True
    if gap is not None and -gap > slack_s and a.time_exact:
        return False
    if a.file == b.file:
        return a.line > b.line and not (a.writer != "job" and slack_s >= REPORT_DELAY_S)
    return False


def _together(a: Event, b: Event, topology: Topology) -> bool:
    mine, other = where(a, topology), where(b, topology)
    if b.signature.scope == "peer":
        other = topology.node_of_ip.get(b.peer or "")
    return mine is None or other is None or same_node(mine, other)


def _first(events: list[Event]) -> Event:
    """The earliest; where the order is not known or too close, the more telling one."""
    chosen = events[0]
    for event in events[1:]:
        if _precedes(event, chosen):
            chosen = event
    return chosen


def _precedes(a: Event, b: Event) -> bool:
    if a.file == b.file:
        return a.line < b.line
    gap = seconds_between(a.time, b.time)
    if gap is not None and gap > SKEW_S and a.time_exact:
        return True
    if gap is not None and -gap > SKEW_S and b.time_exact:
        return False
    return _rank_of_evidence(a) > _rank_of_evidence(b)


def _rank_of_evidence(event: Event) -> tuple[bool, bool, float]:
    return (event.writer != "job", event.signature.priority > 20, event.weight)


def _supporting(chosen: Event, live: list[Event], topology: Topology) -> list[Event]:
    """Other lines that say the same, or that follow directly from the cause and are no mere echo."""
    found = [
        event
        for event in live
        if event is not chosen
        and event.signature.role in (*_SUPPORTING, "symptom")
        and event.weight >= 0.5
        and (event.signature.subcategory == chosen.signature.subcategory or event.explained_by is chosen)
        and _together(chosen, event, topology)
    ]
    return sorted(found, key=lambda e: (e.explained_by is not chosen, e.file, e.line))[:5]


def _collectives(live: list[Event], topology: Topology) -> tuple[int, ...]:
    """Who stands out among the ranks whose collective timed out: makes a cause of a rank that waited in another
    operation; returns those that are behind or that did not report at all."""
    waiting: dict[int, tuple[Event, int, tuple[str, str]]] = {}
    for event in live:
        work = _WORK.search(event.text)
        if work and event.rank is not None and event.rank not in waiting:
            waiting[event.rank] = (event, int(work[1]), (work[2], work[3] or ""))
    if len(waiting) < 2:
        absent = {e.rank for e in live if e.signature.id == "barrier-names-absent" and e.rank is not None}
        return tuple(sorted(absent)) if len(absent) == 1 else ()
    operations: dict[tuple[str, str], list[int]] = {}
    for rank, (_, _, operation) in waiting.items():
        operations.setdefault(operation, []).append(rank)
    if len(operations) == 2 and len(waiting) >= 3:
        fewest = min(operations.values(), key=len)
        if len(fewest) * 3 <= len(waiting):
            event = waiting[min(fewest)][0]
            event.signature = replace(DESYNC, scope="rank")
            return ()
    lowest = min(number for _, number, _ in waiting.values())
    behind = [rank for rank, (_, number, _) in waiting.items() if number == lowest]
    if len(behind) * 3 <= len(waiting):
        return tuple(sorted(behind))
    silent = sorted(topology.ranks - set(waiting))
    return tuple(silent) if silent and len(silent) * 3 <= len(topology.ranks) and len(waiting) >= 2 else ()
