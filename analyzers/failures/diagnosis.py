"""`diagnose`: files in, one `Diagnosis` out. The order of the walk is here, the work is done in the other files."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path

from analyzers.failures.accounting import JobRow, fails_elsewhere, own_row, read_rows
from analyzers.failures.clearing import (
    clear_attempts,
    clear_folders,
    clear_foreign,
    clear_outlived,
    clear_survived,
    clear_teardown,
    place_events,
)
from analyzers.failures.events import Event, Scan
from analyzers.failures.flight_recorder import find_stuck, read_dumps
from analyzers.failures.joining import join_messages, recall
from analyzers.failures.overcome import (
    clear_brief_outages,
    clear_managed,
    clear_started,
    doubt_other_nodes,
    doubt_talked_over,
)
from analyzers.failures.reasoner import DECIDES, find_cause, take_stuck
from analyzers.failures.scan import Scanner
from analyzers.failures.signatures import FileSignatureStore, Signature, load_signatures
from analyzers.failures.timeline import Moment, moments
from analyzers.failures.topology import Topology
from analyzers.failures.verdict import all_well, is_healthy, not_known, verdict
from analyzers.logs.companions import LogFile
from analyzers.logs.intake import discover
from analyzers.ports import SignatureStore
from analyzers.types import Action, Category, Diagnosis

#: Building the automaton takes a second; until a process has read this much, or where one was kept, it is not built.
AUTOMATON_FROM_BYTES = 100_000

#: What a scheduler's last word means: category, subcategory, action, whether running it again helps, in words.
_STATES: dict[str, tuple[Category, str, Action, bool, str]] = {
    "TIMEOUT": (
        "scheduler-or-preemption", "time-limit", "resubmit_longer_limit", False, "The job reached its time limit",
    ),
    "DEADLINE": (
        "scheduler-or-preemption", "time-limit", "resubmit_longer_limit", False, "The job reached its deadline",
    ),
    "PREEMPTED": (
        "scheduler-or-preemption", "preemption", "requeue_from_checkpoint", True, "The job was preempted",
    ),
    "CANCELLED": ("scheduler-or-preemption", "user-cancel", "none", False, "The job was cancelled"),
    "NODE_FAIL": (
        "infrastructure-hardware", "node-lost", "cordon_node_and_restart", True, "The scheduler lost a node of the job",
    ),
    "BOOT_FAIL": ("infrastructure-hardware", "node-lost", "cordon_node_and_restart", True, "A node did not start"),
    "OUT_OF_MEMORY": (
        "resource-request", "host-oom", "raise_host_memory_or_reduce", False, "The job went over its memory",
    ),
}  # fmt: skip


def diagnose(
    path: Path,
    *,
    signatures: SignatureStore | None = None,
) -> Diagnosis:
    """Why the job whose log file, or folder of files, is at ``path`` failed.

    ``signatures`` defaults to those that come with the program. Raises `UserError` when nothing can be read.
    """
    return investigate(path, signatures=signatures)[0]


def investigate(path: Path, *, signatures: SignatureStore | None = None) -> tuple[Diagnosis, tuple[Moment, ...]]:
    """As `diagnose`, with what happened when on which rank."""
    found, scan, topology = examine(path, signatures=signatures)
    return found, moments(scan, topology, found)


def examine(path: Path, *, signatures: SignatureStore | None = None) -> tuple[Diagnosis, Scan, Topology]:
    """As `diagnose`, with what was read."""
    warnings: list[str] = []
    files = discover(Path(path), warnings.append)
    return _examined(files, _scanner_for(_texts(files), signatures), warnings)


class Diagnoser:
    """A set of signatures for any number of jobs; compiled once, and into an automaton when that pays."""

    def __init__(self, signatures: tuple[Signature, ...]) -> None:
        self._signatures = signatures
        self._bytes_read = 0
        self._scanner = Scanner(signatures, None)
        self._tried_automaton = self._scanner.is_compiled

    def examine(self, path: Path) -> tuple[Diagnosis, Scan, Topology]:
        """As the function `examine`."""
        warnings: list[str] = []
        files = discover(Path(path), warnings.append)
        self._bytes_read += sum(_size(file.path) for file in _texts(files))
        if not self._tried_automaton and self._bytes_read >= AUTOMATON_FROM_BYTES:
            self._tried_automaton = True
            self._scanner = Scanner(self._signatures, True)
        return _examined(files, self._scanner, warnings)


def _examined(files: list[LogFile], scanner: Scanner, warnings: list[str]) -> tuple[Diagnosis, Scan, Topology]:
    scan, topology = scanner.read(_texts(files), warnings.append)
    scan.stuck = find_stuck(read_dumps((file for file in files if file.kind == "recorder"), warnings.append))
    return conclude(scan, topology, warnings), scan, topology


def _texts(files: list[LogFile]) -> list[LogFile]:
    return [file for file in files if file.kind != "recorder"]


def conclude(scan: Scan, topology: Topology, warnings: list[str]) -> Diagnosis:
    """The verdict from what was read; no file is touched."""
    place_events(scan, topology)
    rows = [row for file, lines in scan.accounting for row in read_rows(file, lines)]
    own = own_row(rows, scan.job_ids, topology, scan.last_time)
    elsewhere = fails_elsewhere(rows, own)
    take_stuck(scan, topology)
    clear_attempts(scan)
    clear_folders(scan)
    clear_foreign(scan, topology)
    join_messages(scan)
    clear_survived(scan)
    recall(scan)
    clear_outlived(scan)
    clear_teardown(scan)
    clear_started(scan)
    clear_managed(scan)
    doubt_talked_over(scan)
    doubt_other_nodes(scan, topology)
    clear_brief_outages(scan)
    if own is not None:
        _take_state(own, scan)
    finding = find_cause(scan, topology)
    if finding.cause is not None and finding.cause.weight >= DECIDES:
        return verdict(finding, scan, topology, elsewhere, warnings)
    if is_healthy(scan, own, finding):
        return all_well(scan, own, warnings)
    return not_known(finding, scan, warnings)


@lru_cache(maxsize=1)
def _shipped_signatures() -> tuple[Signature, ...]:
    return load_signatures(FileSignatureStore())


@lru_cache(maxsize=2)
def _shipped(automaton: bool | None) -> Scanner:
    return Scanner(_shipped_signatures(), automaton)


_bytes_read = 0


def _scanner_for(files: list[LogFile], store: SignatureStore | None) -> Scanner:
    global _bytes_read
    size = sum(_size(file.path) for file in files)
    if store is not None:
        return Scanner(load_signatures(store), size >= AUTOMATON_FROM_BYTES or None)
    _bytes_read += size
    kept = _shipped(None)
    return kept if kept.is_compiled or _bytes_read < AUTOMATON_FROM_BYTES else _shipped(True)


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:
        return 0


def _take_state(own: JobRow, scan: Scan) -> None:
    """The scheduler's last word on this job becomes an event of its own, or clears everything."""
    if own.state == "COMPLETED":
        for event in scan.events:
            event.dismissed = event.dismissed or "the scheduler says that the job completed"
        return
    if own.state not in _STATES:
        return
    category, subcategory, action, retryable, says = _STATES[own.state]
    signature = Signature(
        id=f"state-{own.state.lower()}",
        pattern=r"\A\Z",
        role="root",
        category=category,
        subcategory=subcategory,
        action=action,
        retryable=retryable,
        says=says,
        scope="lost-node" if subcategory == "node-lost" else "job",
        origin="scheduler",
        priority=40,
        weight=0.9,
        explains=frozenset({"peer-lost", "sigterm", "killed", "exit-code", "collective-timeout", subcategory}),
    )
    line = own.evidence
    scan.events.append(Event(line.file, line.line, line.text, signature, "platform", time=own.end))
