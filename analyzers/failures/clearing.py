"""Puts aside what can not be the cause: other attempts, other nodes, other times, and errors that were survived."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import datetime

from analyzers.failures.events import Event, Scan, before, seconds_between
from analyzers.failures.marks import JOB_ID
from analyzers.failures.topology import Topology, same_node
from analyzers.logs.prefix import strip_prefix
from analyzers.types import LogEvidence

_SOURCE_FILE = re.compile(r"\.(?:py|cc|cpp|cu|c|h|hpp|go|rs|java)$")
#: srun's report of a task that ended by itself and badly.
FAILED_TASK = re.compile(
    r"\btasks? [\d,-]+: (?:Exited with exit code [1-9]|Segmentation|Out Of Memory|Bus error|Aborted)"
)
#: A kernel line this long before the job's first or after its last line has nothing to do with it.
BEFORE_START_S = 900.0
AFTER_END_S = 900.0
#: Progress this long after a kernel line means that the job lived on.
OUTLIVED_AFTER_S = 300.0
#: So many lines of progress after an error of some rank show that it lived on; more where it looked like its end.
STEPS_TOGETHER = 5
STEPS_TOGETHER_FATAL = 20
CLOCKS_DIFFER_S = 30.0


def place_events(scan: Scan, topology: Topology) -> None:
    """Fill in rank and node of each event as far as the layout tells them."""
    for event in scan.events:
        if event.node in topology.node_of_pod:
            event.pod, event.node = event.node, topology.node_of_pod[event.node or ""]
        elif event.node in topology.node_of_ip:
            event.node = topology.node_of_ip[event.node or ""]
        elif event.node is not None and _no_host(event):
            event.node, event.host_explicit = None, False
        if event.node is None and event.pod:
            event.node = topology.node_of_pod.get(event.pod)
        if event.node is not None and event.node == event.pod:
            event.node = None
        if event.rank is None:
            event.rank = _rank_of(event, topology)
        if event.node is None and event.rank is not None and event.writer == "job":
            event.placed = scan.places.get((event.file, event.attempt), {}).get(event.rank)


def _no_host(event: Event) -> bool:
    """Whether what looked like a node is a source file, or an address that the line does not call a node's."""
    node = event.node or ""
    return _SOURCE_FILE.search(node) is not None or (
        node[:1].isdigit() and f"IP: {node}" not in event.text and not event.text.startswith(f"{node}: ")
    )


def _rank_of(event: Event, topology: Topology) -> int | None:
    for rank in (
        topology.rank_of_process(event.pid, event.node),
        topology.rank_of_gpu(event.pci, event.node),
        topology.rank_of_pod(event.pod),
        topology.rank_of_device(event.node, event.device),
    ):
        if rank is not None:
            return rank
    return None


def where(event: Event, topology: Topology) -> str | None:
    """The node an event belongs to: its own, else its rank's."""
    return event.node or event.placed or topology.node(event.rank)


def clear_attempts(scan: Scan) -> None:
    """Only the last attempt counts, unless nothing at all happened in it."""
    by_file: dict[str, list[Event]] = {}
    for event in scan.events:
        if event.signature.role != "informational":
            by_file.setdefault(event.file, []).append(event)
    for file, here in by_file.items():
        last = scan.last_attempt.get(file)
        if last is None:
            continue
        if not any(event.attempt == last for event in here):
            latest = max(here, key=lambda e: e.line)
            if any(
                s.file == file and any(m and m.line > latest.line for m in (s.progress, s.success))
                for s in scan.streams.values()
            ):
                latest_attempt = last
            else:
                latest_attempt = latest.attempt
        else:
            latest_attempt = last
        for event in here:
            if event.attempt != latest_attempt:
                dismiss(event, "it belongs to an earlier attempt; only the last one counts")


def clear_folders(scan: Scan) -> None:
    """Where attempts have folders of their own (attempt_0/, attempt_1/), only the highest counts."""
    numbered = {file: last for file, last in scan.last_attempt.items() if "attempt" in file and "/" in file}
    if not numbered:
        return
    latest = max(numbered.values())
    for event in scan.events:
        if event.file in numbered and numbered[event.file] < latest:
            dismiss(event, "it belongs to an earlier attempt; only the last one counts")


def clear_foreign(scan: Scan, topology: Topology) -> None:
    """Platform lines of other nodes, other pods and other times."""
    placed = bool(topology.ranks) and topology.ranks <= set(topology.node_of_rank)
    for event in scan.events:
        if event.writer == "platform" and not event.dismissed:
            event.dismissed = _why_foreign(event, scan, topology, placed)
            event.foreign = bool(event.dismissed)


def _why_foreign(event: Event, scan: Scan, topology: Topology, placed: bool) -> str:
    """Why a platform line has nothing to do with this job; empty where it may. ``placed``: all nodes are known."""
    if placed and event.node and not event.pod and not any(same_node(event.node, n) for n in topology.nodes):
        return f"{event.node} is not a node of this job"
    if other := _other_job(event, scan):
        return f"it speaks of job {other}, not of this one"
    if event.pod and not _own_pod(event.pod, scan, topology):
        return f"pod {event.pod} is not part of this job"
    early = seconds_between(event.time, scan.first_time)
    if early is not None and early > BEFORE_START_S:
        return "it is from before the job started"
    late = seconds_between(scan.last_time, event.time)
    return "it is from after the job had ended" if late is not None and late > AFTER_END_S else ""


def _other_job(event: Event, scan: Scan) -> str:
    """The number of another job that the line names; empty where it names this one or none."""
    named = {number for found in JOB_ID.findall(event.text) for number in found if number}
    return min(named) if named and scan.job_ids and not named & scan.job_ids else ""


def _own_pod(pod: str, scan: Scan, topology: Topology) -> bool:
    """Pods of one job share what stands before the role (``x-worker-0``, ``x-master-0``)."""
    families: dict[str, int] = {}
    for name in {*scan.pods, *topology.node_of_pod}:
        parts = name.split("-")
        for at, part in enumerate(parts):
            if part in ("master", "worker", "launcher", "chief", "head", "ps"):
                family = "-".join(parts[:at])
                families[family] = families.get(family, 0) + 1
    if not families:
        return True
    own = max(families, key=lambda family: families[family])
    return pod.startswith(own + "-") or pod == own


def clear_teardown(scan: Scan) -> None:
    """A step that is cancelled after one of its tasks failed was cancelled by its launcher, not by anybody. Where only
    the step is cancelled, and not the job, any trouble that was not overcome is as good as a failed task."""
    failed = [event for event in scan.events if FAILED_TASK.search(event.text)]
    lost = [e for e in scan.events if e.writer == "job" and e.signature.role != "informational" and not e.dismissed]
    whole_job = {e.file for e in scan.events if e.signature.id == "slurm-cancelled" and "*** JOB" in e.text}
    for event in scan.events:
        if event.signature.id != "slurm-cancelled":
            continue
        signs = failed if event.file in whole_job else [*failed, *lost]
        before_it = [other.line for other in signs if other.file == event.file and other.line < event.line]
        if before_it:
            dismiss(event, f"the launcher ends the rest of a step after a task failed (line {min(before_it)})")


def clear_outlived(scan: Scan) -> None:
    """Kernel lines that the job lived on after. Training is synchronous, so one rank's progress speaks for all; but
    clocks can be hours apart, so progress only casts doubt, and only a good end clears."""
    ends = [stream.success for stream in scan.streams.values() if stream.success]
    steps = [stream.progress for stream in scan.streams.values() if stream.progress]
    ended, stepped = latest_time(ends), latest_time(steps)
    for event in scan.events:
        of_a_node = event.signature.origin == "platform" or (event.signature.scope == "node" and event.pod is None)
        if not of_a_node or event.writer == "job" or event.dismissed or not event.time_exact:
            continue
        until_end, until_step = seconds_between(event.time, ended), seconds_between(event.time, stepped)
        if until_end is not None and until_end > 0:
            dismiss(event, "the job ended well after it")
        elif until_step is not None and until_step > OUTLIVED_AFTER_S:
            event.outlived = True


def latest_time(lines: list[LogEvidence]) -> datetime | None:
    """The latest time that stands on one of the lines."""
    latest: datetime | None = None
    for line in lines:
        moment = strip_prefix(line.text).time
        if moment is not None and (latest is None or before(latest, moment)):
            latest = moment
    return latest


def clear_survived(scan: Scan) -> None:
    """Errors that the program lived through: it went on making progress, or ended well, after them."""
    lived_on = _stepped_on(scan)
    per_file: dict[str, list[tuple[int, str]]] = {}
    for stream in scan.streams.values():
        for good in (stream.progress, stream.success):
            if good is not None:
                per_file.setdefault(stream.file, []).append((good.line, good.text))
    for event in scan.events:
        if event.dismissed or event.writer != "job" or event.signature.role == "informational":
            continue
        stream_ = scan.streams.get((event.file, event.rank)) or scan.streams.get((event.file, None))
        if stream_ is not None:
            steps = stream_.progress_count - event.progress_before
            needed = 1 if event.rank is not None or event.handled else 2
            went_on = stream_.progress if steps >= needed and stream_.rank == event.rank else None
            went_on = went_on or (stream_.success if stream_.success and stream_.success.line > event.line else None)
            if went_on is not None and went_on.line > event.line:
                event.survived = True
                dismiss(event, f"the program went on after it (line {went_on.line})")
                continue
        if (later_step := lived_on(event)) is not None:
            event.survived = True
            dismiss(event, f"all ranks step together, and steps followed ({later_step.file}:{later_step.line})")
            continue
        if not event.fatal:
            later = [line for line, _ in per_file.get(event.file, []) if line > event.line]
            if later and (event.handled or event.mild or event.rank is None):
                event.survived = True
                dismiss(event, f"the program went on after it (line {max(later)})")


def _stepped_on(scan: Scan) -> Callable[[Event], LogEvidence | None]:
    """Finds, for an event, a line of progress of any rank so long after it that its rank must have lived on: training
    is synchronous, so nobody makes many steps without a rank that failed."""
    few: dict[str, LogEvidence] = {}
    many: dict[str, LogEvidence] = {}
    for stream in scan.streams.values():
        for steps, latest in ((STEPS_TOGETHER, few), (STEPS_TOGETHER_FATAL, many)):
            step = stream.steps_ago(steps)
            if step is not None and (step.file not in latest or latest[step.file].line < step.line):
                latest[step.file] = step
    last, moment = None, None
    for step in few.values():
        at = strip_prefix(step.text).time
        if at is not None and (moment is None or before(moment, at)):
            last, moment = step, at

    def find(event: Event) -> LogEvidence | None:
        step = (many if event.fatal else few).get(event.file)
        if step is not None and step.line > event.line:
            return step
        if last is None or event.fatal or not event.time_exact or last.file == event.file:
            return None
        gap = seconds_between(event.time, moment)
        return last if gap is not None and gap > CLOCKS_DIFFER_S else None

    return find


def dismiss(event: Event, why: str) -> None:
    if not event.dismissed:
        event.dismissed = why
