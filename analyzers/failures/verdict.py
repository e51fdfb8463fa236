"""Puts a `Diagnosis` together from what was found: the cause and what supports it, good health, or no answer."""

from __future__ import annotations

import re
from dataclasses import replace

from analyzers.failures import wording
from analyzers.failures.accounting import JobRow
from analyzers.failures.culprit import culprits, node_proof, recurs_on_other_node
from analyzers.failures.events import Event, Scan
from analyzers.failures.reasoner import Finding, settle
from analyzers.failures.signatures import STRONG
from analyzers.failures.time_limit import time_limit_notes
from analyzers.failures.topology import Topology
from analyzers.types import Diagnosis, Echo, LogEvidence

MOST_ECHOES = 30
MOST_EVIDENCE = 6
#: Echoes that a job which ended well does not print.
_SPEAKS_OF_FAILURE = frozenset({"exit-code", "abort", "launcher-summary"})


def verdict(
    finding: Finding, scan: Scan, topology: Topology, elsewhere: list[JobRow], warnings: list[str]
) -> Diagnosis:
    """What the cause that was found says about the job. ``elsewhere``: the job's failures on other nodes."""
    cause = finding.cause
    assert cause is not None
    signature = cause.signature = settle(cause, finding.supporting)
    limited = signature.subcategory == "time-limit"
    if limited and scan.resumed is not None:
        signature = cause.signature = replace(signature, action="requeue_from_checkpoint", retryable=True)
    if signature.id == "loss-scale-exhausted" and not any(stream.progress for stream in scan.streams.values()):
        # It never trained: there is nothing to go back to, the setup is wrong.
        signature = cause.signature = replace(signature, action="fix_code")
    ranks, nodes = culprits(cause, scan, topology, elsewhere)
    ranks = ranks or (finding.suspects if signature.role == "symptom" else ())
    recurs = bool(elsewhere) or recurs_on_other_node(cause, cause.node, scan)
    notes = ["The same failure happened on other nodes, so the nodes are not to blame."] if recurs else []
    notes.extend(time_limit_notes(cause, scan) if limited else [])
    proof = node_proof(nodes, cause, finding.supporting, scan, topology)
    unproven = f" {wording.UNPROVEN}" if proof == "job-log" and signature.action == "cordon_node_and_restart" else ""
    echoes = _echoes(finding, scan)
    told = _most_telling(cause, finding.supporting)
    evidence = _evidence(told, cause, finding.supporting)
    return Diagnosis(
        category=signature.category,
        subcategory=signature.subcategory,
        confidence=_confidence(finding, recurs),
        culprit_ranks=ranks,
        culprit_nodes=nodes,
        node_proof=proof,
        evidence=evidence,
        echoes=echoes,
        retryable=signature.retryable,
        action=signature.action,
        summary=wording.summary(cause, ranks, nodes),
        explanation=wording.explanation(
            wording.Told(cause, told, signature.action, len(finding.supporting), len(echoes), tuple(notes)),
            many=len(topology.ranks) > 1,
        )
        + unproven,
        warnings=tuple(warnings),
    )


def _confidence(finding: Finding, recurs: bool) -> float:
    cause = finding.cause
    assert cause is not None
    value = 0.97 * min(1.0, cause.weight)
    if cause.weight >= STRONG and cause.writer == "job" and not cause.fatal:
        value -= 0.04
    if any(rival.signature.category != cause.signature.category for rival in finding.rivals):
        value -= 0.12
    if cause.user_frame is not None and wording.is_asynchronous(cause):
        value -= 0.07
    if recurs and cause.signature.category == "user-code":
        value = max(value, 0.9)
    if cause.signature.role in ("symptom", "ambiguous") and finding.supporting:
        value += 0.08
    return round(max(0.05, min(0.98, value)), 2)


def _evidence(told: Event, cause: Event, supporting: list[Event]) -> tuple[LogEvidence, ...]:
    lines = [told.evidence, cause.evidence, *(event.evidence for event in supporting)]
    if cause.user_frame is not None:
        lines.insert(2, cause.user_frame)
    return tuple(dict.fromkeys(lines))[:MOST_EVIDENCE]


def _most_telling(cause: Event, supporting: list[Event]) -> Event:
    """The line that says most about the same failure of the same process: a kernel's own assertion says more than the
    exception that it led to."""
    same = [
        event
        for event in supporting
        if (event.file, event.rank) == (cause.file, cause.rank)
        and event.writer == cause.writer
        and event.signature.subcategory == cause.signature.subcategory
        and event.signature.priority > cause.signature.priority
        and event.weight >= STRONG
    ]
    return min(same, key=lambda e: (-e.signature.priority, e.line), default=cause)


def _echoes(finding: Finding, scan: Scan) -> tuple[Echo, ...]:
    used = {id(event) for event in (finding.cause, *finding.supporting)}
    left = [event for event in scan.events if id(event) not in used]
    seen: set[tuple[str, str]] = set()
    left = [event for event in left if event.signature.role != "informational" or not _said_before(event, seen)]
    telling = sorted(left, key=lambda e: (e.signature.role == "informational", -e.signature.weight))
    kept = sorted(telling[:MOST_ECHOES], key=lambda e: (e.file, e.line))
    return tuple(Echo(e.file, e.line, e.text, wording.reason_for_echo(e)) for e in kept)


def _said_before(event: Event, seen: set[tuple[str, str]]) -> bool:
    """Whether a line that differs from this one only in its numbers was met already; remembers this one."""
    key = (event.file, re.sub(r"\d+", "#", event.text))
    known = key in seen
    seen.add(key)
    return known


def is_healthy(scan: Scan, own: JobRow | None, finding: Finding) -> bool:
    """Whether nothing is left that speaks of a failure."""
    if own is not None:
        return own.state in ("COMPLETED", "RUNNING")
    bad = [e for e in scan.events if not e.dismissed and e.signature.role not in ("informational",)]
    if not bad:
        return True
    ended_well = any(stream.success for stream in scan.streams.values())
    return ended_well and all(
        event.signature.subcategory == "logged-error"
        or (event.signature.role == "echo" and event.signature.subcategory not in _SPEAKS_OF_FAILURE)
        for event in bad
    )


def all_well(scan: Scan, own: JobRow | None, warnings: list[str]) -> Diagnosis:
    """The job ended well, or shows no failure."""
    successes = [stream.success for stream in scan.streams.values() if stream.success]
    progress = [stream.progress for stream in scan.streams.values() if stream.progress]
    evidence = ([own.evidence] if own else []) + successes[:3]
    if not evidence:
        evidence = progress[-1:]
    sure = 0.95 if own is not None and own.state == "COMPLETED" else 0.92 if successes else 0.75 if progress else 0.5
    echoes = _echoes(Finding(None), scan)
    survived = f" {len(echoes)} frightening line{'s' * (len(echoes) > 1)} did not end it." if echoes else ""
    done = bool(successes) or (own is not None and own.state == "COMPLETED")
    ended = "ended well" if done else "is running" if own is not None else "shows no failure"
    return Diagnosis(
        category="none",
        subcategory="none",
        confidence=sure,
        evidence=tuple(evidence),
        echoes=echoes,
        retryable=None,
        action="none",
        summary=f"The job {ended}.",
        explanation=f"The job {ended}.{survived} {wording.WHAT_TO_DO['none']}",
        warnings=tuple(warnings),
    )


def not_known(finding: Finding, scan: Scan, warnings: list[str]) -> Diagnosis:
    """The job failed, and no line says why; what comes closest is quoted."""
    left = [e for e in scan.events if not e.dismissed and e.signature.role != "informational"]
    telling = sorted(left, key=lambda e: (-e.weight, e.file, e.line))[:3]
    timed_out = any(e.signature.subcategory in ("collective-timeout", "cuda-hang") for e in left)
    who = wording.subject(finding.suspects, ())
    hint = f" The others waited for {who}; look there first." if who else ""
    what = telling[0].signature.says if telling else "The job failed"
    used = Finding(telling[0], telling[1:]) if telling else Finding(None)
    return Diagnosis(
        category="unknown",
        subcategory="no-cause-found",
        confidence=0.3 if who else 0.2,
        culprit_ranks=finding.suspects,
        evidence=tuple(e.evidence for e in telling),
        echoes=_echoes(used, scan),
        retryable=True if timed_out else None,
        action="restart_same_nodes" if timed_out else "none",
        summary=f"{what}, but no line says why.",
        explanation=f"Only after-effects were found, no cause.{hint} Add the logs of all ranks, the nodes' kernel logs "
        "and the scheduler's record to the folder and ask again.",
        warnings=tuple(warnings),
    )
