"""From one line to an event: what it means, who wrote it, and which process, GPU, pod and node it names."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from datetime import datetime

from analyzers.failures.events import Event, Writer
from analyzers.failures.hosts import LOCAL_RANK, NO_LABELS, Labels
from analyzers.failures.matcher import LINE_CHARS
from analyzers.failures.signatures import Signature, xid_signature
from analyzers.failures.tracebacks import FRAME, LIBRARY, Raised
from analyzers.logs.companions import OUTPUT_NAME, LogFile
from analyzers.logs.prefix import Prefix
from analyzers.types import LogEvidence
from prompts.redaction import shortened

TIME_WITHIN_LINES = 40
CRASH_STACK_LINES = 12
#: Below it Python's fault handler prints where each thread was.
FATAL_ERROR = "Fatal Python error"
#: NVLink Xids that say on the line whether they were fatal.
NVLINK5_XIDS = range(144, 151)

POD_NAME = re.compile(r"-(?:master|worker|launcher|chief|head)-\d+$")
_CLOCK = re.compile(r"\d\d:\d\d:\d\d|\b1\d{9}\b")
_XID = re.compile(r"Xid \(PCI:(?P<pci>[0-9a-fA-F:.]+)\): (?P<number>\d{1,3})\b(?P<rest>.*)")
_STEP_FORM = re.compile(r"^(?:slurmstepd|srun|sbatch|salloc|PBS|mpirun|prolog|epilog)\b|\*\*\* (?:JOB|STEP) \d")
_KERNEL_FORM = re.compile(
    r"\bkernel: |^(?:kmsg|dmesg): ?\[|^NVRM: |^kern  :"
    r"|^\s{0,4}\[ {0,6}\d{1,9}\.\d{3,6}\]|^(?:Memory cgroup out|Out) of memory: Kill"
)
_SCHEDULER_FORM = re.compile(
    r"^(?:slurmstepd|srun|sbatch|salloc|scancel|scontrol|slurm\w*|PBS|prolog|epilog|mpirun|\[?prolog)\b|slurmctld|slurmd\b"
)
_KUBERNETES_FORM = re.compile(r"^(?:event|kubelet|Warning|Normal|\d+[smhd]\d*[smhd]?)\b|\bpod/|\bReason:|node/")
_SRUN_TASK = re.compile(r"srun: error: (?P<node>[A-Za-z][\w.-]*): tasks? (?P<rank>\d{1,6}): ")
_STEP_DAEMON = re.compile(r"^slurmstepd-(?P<node>[A-Za-z][\w.-]{0,62}): ")
_NODE_WORD = re.compile(r"\bnode[=/](?P<node>[A-Za-z][\w.-]*)|\bon node (?P<node2>[A-Za-z][\w.-]*)")
_POD_WORD = re.compile(r"\bpod/(?P<pod>[a-z0-9][a-z0-9.-]*[a-z0-9])")
_PID_WORD = re.compile(r"\bpid(?:=|: |(?:\(s\))? )(\d+)")
_HOST_LABEL = re.compile(r"\[(?P<node>[a-z][a-z0-9.]*-[a-z0-9.-]*\d)\]\s(?:task=(?P<rank>\d{1,6})\s)?")
_DEVICE_PREFIX = re.compile(r"(?<![\w.-])[A-Za-z][\w.-]*:\d+:\d+ \[(\d{1,3})\]")
_COMPOSER_RANK = re.compile(r"rank(\d{1,6})\[\d+\]")
_MILD = re.compile(r"(?<!NCCL )\bWARN\b|\b(?:WARNING|INFO|DEBUG|UserWarning|RuntimeWarning|warning)\b[:\s\]]")
_UNKNOWN_EXCEPTION = Signature(
    id="python-unknown-exception",
    pattern=r"\A\Z",
    role="root",
    category="user-code",
    subcategory="python-exception",
    action="fix_code",
    retryable=False,
    says="The code raised an exception that it did not handle",
    clue="the innermost line of its own code in the traceback",
    priority=14,
    weight=0.85,
    family="python",
)
#: Names of processes that stand where hosts do.
_NO_NODE = re.compile(r"(?:(?:local|global)[-_.]?)?(?:rank|default|pid|step|epoch|task)[-_.=]?\d*", re.I)
#: What only the process itself says of its host: NCCL's prefix (host, process, thread, device), a system log's line.
_OWN_NAME = re.compile(
    r"(?<![\w.-])[A-Za-z][\w.-]*:\d+:\d+ \[\d+\]|\d\d:\d\d:\d\d\S* [A-Za-z][\w.-]* [\w./-]+(?:\[\d+\])?: "
)


@dataclass(frozen=True, slots=True)
class Around:
    """The lines of the block that a line stands in, its index there, and the hosts' labels of the file."""

    lines: list[str]
    index: int
    labels: Labels = NO_LABELS


def recognise(
    file: LogFile,
    signatures: tuple[Signature, ...],
    here: LogEvidence,
    prefix: Prefix,
    rank: int | None,
    matched: list[int],
    raised: Raised | None,
    around: Around,
) -> Event | None:
    """The event that a line is, or None. ``matched`` are indexes of the signatures (or, beyond them, of an Xid) that
    fit it, ``raised`` the exception when it ends a traceback."""
    signature = _best(signatures, here.text, matched, raised is not None)
    if raised is not None and (signature is None or signature.priority < _UNKNOWN_EXCEPTION.priority):
        signature = _UNKNOWN_EXCEPTION
    if signature is None:
        return None
    if raised is not None and signature.raised_weight:
        signature = replace(signature, weight=signature.raised_weight)
    if rank is None and (composer := _COMPOSER_RANK.match(prefix.rest)):
        rank = int(composer[1])
    label, body = around.labels.split(here.text)
    event = Event(here.file, here.line, here.text, signature, _writer(file, body, prefix), rank)
    event.proven = file.named and event.writer == "platform"
    event.time, event.time_exact = prefix.time or _time_above(around), prefix.time is not None
    event.node = prefix.node or (file.node if file.kind == "kernel" else None)
    if boxed := _HOST_LABEL.match(here.text):
        event.node = event.node or boxed["node"]
        event.rank = rank if rank is not None or not boxed["rank"] else int(boxed["rank"])
    event.host_explicit = event.node is not None and (label is None or around.labels.throughout)
    of_one = prefix.rank is not None or file.rank is not None
    event.own_name = of_one and _OWN_NAME.search(here.text[:LINE_CHARS]) is not None
    _details(event, prefix)
    if raised is not None:
        event.fatal, event.user_frame = True, raised.user_frame
    elif event.writer == "job" and _MILD.search(here.text[:200]):
        event.mild = not event.signature.category.startswith("infrastructure")
    elif event.signature.role == "symptom" and "NCCL WARN" in here.text[:200]:
        event.mild = True  # NCCL warns of what it then does without; what fails is raised by somebody
    if FATAL_ERROR in here.text:
        event.fatal, event.user_frame = True, _crashed_in(here, prefix, around)
    _check_origin(event)
    return event


def _time_above(around: Around) -> datetime | None:
    """The time of the nearest line above that has one; tracebacks carry none themselves."""
    for line in around.lines[max(0, around.index - TIME_WITHIN_LINES) : around.index][::-1]:
        if _CLOCK.search(line[:200]) and (moment := around.labels.prefix(line[:LINE_CHARS]).time) is not None:
            return moment
    return None


def _crashed_in(here: LogEvidence, prefix: Prefix, around: Around) -> LogEvidence | None:
    """The innermost frame that the fault handler prints below a crash, when it is in the job's own code."""
    for offset in range(1, CRASH_STACK_LINES):
        if around.index + offset >= len(around.lines):
            break
        text = shortened(around.lines[around.index + offset], LINE_CHARS).rstrip()
        below = around.labels.prefix(text)
        if below.rank == prefix.rank and (frame := FRAME.match(below.rest.strip())):
            own = not LIBRARY.search(frame["path"])
            return LogEvidence(here.file, here.line + offset, text) if own else None
    return None


def _best(signatures: tuple[Signature, ...], text: str, matched: list[int], has_raised: bool) -> Signature | None:
    found = [signatures[hit] for hit in matched if hit < len(signatures)]
    if has_raised:  # what ended a traceback is no mere note, whoever writes such notes elsewhere
        found = [s for s in found if s.role != "informational"] or found
    if len(found) < len(matched) and (xid := _XID.search(text)):
        signature = xid_signature(int(xid["number"]))
        if int(xid["number"]) in NVLINK5_XIDS and "Nonfatal" in xid["rest"]:
            signature = replace(signature, role="informational", weight=0.0, priority=45)
        found.append(signature)
    return max(found, key=lambda s: s.priority, default=None)


def _details(event: Event, prefix: Prefix) -> None:
    """Process, GPU, pod, task and node that the line itself names."""
    text = event.text
    named = event.signature.regex.search(text[:LINE_CHARS])
    groups = {k: v for k, v in (named.groupdict() if named else {}).items() if v}
    node = next((groups[k] for k in ("node", "node2", "node3", "node4") if k in groups), None)
    if daemon := _STEP_DAEMON.match(text):
        node = node or daemon["node"]
    if srun := _SRUN_TASK.search(text):
        node, event.rank = srun["node"], int(srun["rank"])
    if node is None and event.writer != "job" and (word := _NODE_WORD.search(text)):
        node = word["node"] or word["node2"]
    if node is not None and not _NO_NODE.fullmatch(node):
        event.node, event.host_explicit = node, True
        event.own_name = event.own_name or event.writer == "job"
    if "rank" in groups:
        event.rank = int(groups["rank"])
        if prefix.rank not in (None, event.rank) and not LOCAL_RANK.search(text[:200]) and event.writer == "job":
            event.node, event.host_explicit = None, False  # one rank's word for another's place
    elif "task" in groups and event.rank is None:
        event.rank = int(groups["task"])
    pid = groups.get("pid") or groups.get("pid2") or next(iter(_PID_WORD.findall(text)), None)
    event.pid = int(pid) if pid and len(pid) < 10 else None
    event.peer = groups.get("peer")
    if xid := _XID.search(text):
        event.pci = xid["pci"]
    if pod := _POD_WORD.search(text):
        event.pod = pod["pod"]
    elif prefix.node and POD_NAME.search(prefix.node):
        event.pod = prefix.node
    if device := _DEVICE_PREFIX.search(text):
        event.device = int(device[1])


def _writer(file: LogFile, text: str, prefix: Prefix) -> Writer:
    if file.kind == "scheduler" and _KERNEL_FORM.search(text[:200]):
        return "job"  # no scheduler writes a kernel's lines
    if file.kind in ("kernel", "scheduler", "kubernetes"):
        return "platform"
    if prefix.rank is not None:
        return "job"
    if OUTPUT_NAME.search(file.name):
        return "platform-form" if _STEP_FORM.search(text[:200]) else "job"
    if file.kind == "rank":
        return "job"
    if _SCHEDULER_FORM.search(text[:200]):
        return "platform-form"
    return "platform-form" if _KERNEL_FORM.search(text[:200]) or _KUBERNETES_FORM.search(text) else "job"


def _check_origin(event: Event) -> None:
    """What only the platform can know does not count, or counts as hearsay, when the job itself printed it."""
    origin = event.signature.origin
    if origin == "any" or event.writer != "job":
        return
    event.node, event.host_explicit = None, False
    if origin == "platform":
        event.dismissed = "the job itself printed this; only the kernel's own log would prove it"
    else:
        event.hearsay = True
