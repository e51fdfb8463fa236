"""Streams the files of one job and keeps the lines that mean something, in bounded memory."""

from __future__ import annotations

import re
from collections.abc import Callable, Container
from dataclasses import dataclass, field, replace
from datetime import datetime

from analyzers.failures.events import Event, Scan, Stream, Writer
from analyzers.failures.marks import GIVES_UP, MARKS, PREVIOUS, Mark
from analyzers.failures.matcher import LINE_CHARS, Matcher
from analyzers.failures.signatures import Signature, xid_signature
from analyzers.failures.topology import Topology
from analyzers.failures.tracebacks import FRAME, LIBRARY, Raised, Traceback
from analyzers.logs.companions import LogFile
from analyzers.logs.intake import clean, read_blocks, segments
from analyzers.logs.prefix import Prefix, strip_prefix
from analyzers.types import LogEvidence

#: Events kept of one signature: in one attempt of one file, and of all files together.
MOST_PER_FILE = 24
MOST_PER_SIGNATURE = 4000
HEAD_LINES = 80
MOST_LAYOUT_LINES = 5000
MOST_ACCOUNTING_LINES = 20_000
HANDLED_WITHIN_LINES = 4
TIME_WITHIN_LINES = 40
GENERIC_PRIORITY = 20
CRASH_STACK_LINES = 12

_XID = re.compile(r"Xid \(PCI:(?P<pci>[0-9a-fA-F:.]+)\): (?P<number>\d{1,3})\b(?P<rest>.*)")
_KERNEL_FORM = re.compile(
    r"\bkernel: |^\s{0,4}\[ {0,6}\d{1,9}\.\d{3,6}\]|^NVRM: |^(?:Memory cgroup out|Out) of memory: Kill|^kern  :"
)
_SCHEDULER_FORM = re.compile(
    r"^(?:slurmstepd|srun|sbatch|salloc|scancel|scontrol|slurm\w*|PBS|prolog|epilog|mpirun|\[?prolog)\b|slurmctld|slurmd\b"
)
_KUBERNETES_FORM = re.compile(r"^(?:event|kubelet|Warning|Normal|\d+[smhd]\d*[smhd]?)\b|\bpod/|\bReason:|node/")
_SRUN_TASK = re.compile(r"srun: error: (?P<node>[A-Za-z][\w.-]*): tasks? (?P<rank>\d{1,6}): ")
_NODE_WORD = re.compile(r"\bnode[=/](?P<node>[A-Za-z][\w.-]*)|\bon node (?P<node2>[A-Za-z][\w.-]*)")
_POD_WORD = re.compile(r"\bpod/(?P<pod>[a-z0-9][a-z0-9.-]*[a-z0-9])")
_PID_WORD = re.compile(r"\bpid=(\d+)")
_HOST_LABEL = re.compile(r"\[(?P<node>[a-z][a-z0-9.]*-[a-z0-9.-]*\d)\]\s(?:task=(?P<rank>\d{1,6})\s)?")
_DEVICE_PREFIX = re.compile(r"[A-Za-z][\w.-]*:\d+:\d+ \[(\d{1,3})\]")
_JOB_ID = re.compile(r"\b(?:StepId|JobId|SLURM_JOB_ID|SLURM_JOBID)=(\d+)|\*\*\* (?:JOB|STEP) (\d+)|\bjob[ =](\d{3,})\b")
_ATTEMPT_FOLDER = re.compile(r"(?:^|/)attempt[_-](\d{1,4})(?:/|$)")
_MILD = re.compile(r"\b(?:WARNING|INFO|DEBUG|UserWarning|RuntimeWarning|warning)\b[:\s\]]")
_NOT_PROGRESS = ("wandb:",)
_RANKS = re.compile(r"\branks? \d+ ?(?:-|\.\.) ?\d+")
_POD_NAME = re.compile(r"-(?:master|worker|launcher|chief|head)-\d+$")

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

Warn = Callable[[str], None]


class Scanner:
    """Compiled once for a set of signatures; `read` then takes any number of jobs."""

    def __init__(self, signatures: tuple[Signature, ...], matcher: Matcher | None = None) -> None:
        self.signatures = signatures
        self.matcher = matcher or Matcher(patterns(signatures))
        self.first_mark = len(signatures) + 1

    def read(self, files: list[LogFile], warn: Warn) -> tuple[Scan, Topology]:
        """All files of one job, in the order given."""
        scan, topology = Scan(), Topology()
        for file in files:
            _FileReader(self, file, scan, topology, warn).read()
        return scan, topology


def patterns(signatures: tuple[Signature, ...]) -> list[re.Pattern[str]]:
    """What the matcher looks for: the signatures, Xid lines, then the marks."""
    return [*(s.regex for s in signatures), re.compile(r"Xid \(PCI:"), *(pattern for _, pattern in MARKS)]


@dataclass(slots=True)
class _FileReader:
    """The walk through one file."""

    scanner: Scanner
    file: LogFile
    scan: Scan
    topology: Topology
    warn: Warn
    attempt: int = 0
    resume_attempt: int | None = None
    kept: dict[tuple[str, int], int] = field(default_factory=dict)
    open: dict[int | None, tuple[Traceback, list[Event]]] = field(default_factory=dict)
    recent: dict[int | None, Event] = field(default_factory=dict)
    pending: bool = False
    raw_progress: tuple[int, str] | None = None
    layout_lines: int = 0
    ranks_here: set[int] = field(default_factory=set)
    lines: list[str] = field(default_factory=list)
    index: int = 0

    def read(self) -> None:
        folder = _ATTEMPT_FOLDER.search(self.file.name)
        self.attempt = int(folder[1]) if folder else 0
        if self.file.rank is not None:
            self.topology.ranks.add(self.file.rank)
        accounting: list[str] = []
        for first, block in read_blocks(self.file, self.warn):
            text = clean(block)
            lines = text.split("\n")
            if first == 1:
                self._check_kind(lines)
                self._head(lines)
            if self.file.kind == "scheduler" and len(accounting) < MOST_ACCOUNTING_LINES:
                accounting.extend(lines[: MOST_ACCOUNTING_LINES - len(accounting)])
            if not is_table(accounting):
                self._block(first, text, lines)
            self.scan.lines += len(lines)
        if accounting and is_table(accounting):
            self.scan.accounting.append((self.file, accounting))
        self._finish()

    def _block(self, first: int, text: str, lines: list[str]) -> None:
        self.lines = lines
        hits = self.scanner.matcher.hits(text, lines)
        self._window(first, lines, {index for index, found in hits.items() if min(found) < self.scanner.first_mark})
        worth = sorted(hits)
        at, index = 0, 0
        while True:
            if self.open:  # inside a traceback every line counts
                if index >= len(lines):
                    return
            else:
                while at < len(worth) and worth[at] < index:
                    at += 1
                if at >= len(worth):
                    return
                index = worth[at]
            self.index = index
            self._line(first + index, lines[index], hits.get(index, []))
            index += 1

    def _line(self, number: int, line: str, hits: list[int]) -> None:
        if "\r" in line or "\b" in line:
            for part in segments(line):
                inside = [hit for hit in hits if self.scanner.matcher.patterns[hit].search(part[:LINE_CHARS])]
                if inside or self.open:
                    self._segment(number, part, inside)
        else:
            self._segment(number, line, hits)

    def _segment(self, number: int, text: str, hits: list[int]) -> None:
        text = text[:LINE_CHARS].rstrip()
        matched = [hit for hit in hits if hit < self.scanner.first_mark]
        marks: set[Mark] = {MARKS[hit - self.scanner.first_mark][0] for hit in hits if hit >= self.scanner.first_mark}
        if marks == {"progress"} and not matched and not self.open and not self.pending:
            self.raw_progress = (number, text)
            return
        prefix = strip_prefix(text)
        rank = self.file.rank if prefix.rank is None else prefix.rank
        if rank is not None:
            self.ranks_here.add(rank)
        here = LogEvidence(self.file.name, number, text)
        if "layout" in marks:
            self._layout(text, prefix)
        if "attempt" in marks and prefix.rank is None and self.file.kind not in ("kernel", "scheduler", "kubernetes"):
            self._new_attempt(text)
        raised, in_stack = self._traceback(rank, prefix, here, "traceback" in marks)
        if in_stack:
            return
        event = self._event(here, prefix, rank, matched, raised)
        if event is not None:
            self._keep(event, rank, handled="handled" in marks and not GIVES_UP.search(text))
        elif "handled" in marks:
            self._handled(rank, here)
        if event is None or event.signature.role == "informational":
            self._good_news(marks, rank, here)

    # -- what a line can be ------------------------------------------------------------------------------------

    def _event(
        self, here: LogEvidence, prefix: Prefix, rank: int | None, matched: list[int], raised: Raised | None
    ) -> Event | None:
        signature = self._best(here.text, matched)
        if raised is not None and (signature is None or signature.priority < _UNKNOWN_EXCEPTION.priority):
            signature = _UNKNOWN_EXCEPTION
        if signature is None:
            return None
        event = Event(here.file, here.line, here.text, signature, self._writer(here.text, prefix), rank)
        event.time, event.attempt = prefix.time or self._time_above(), self.attempt
        event.time_exact = prefix.time is not None
        event.node = prefix.node or (self.file.node if self.file.kind == "kernel" else None)
        if label := _HOST_LABEL.match(here.text):
            event.node = event.node or label["node"]
            event.rank = rank if rank is not None or not label["rank"] else int(label["rank"])
        event.host_explicit = event.node is not None
        self._details(event, prefix)
        if raised is not None:
            event.fatal, event.user_frame = True, raised.user_frame
        elif event.writer == "job" and _MILD.search(here.text[:200]):
            event.mild = not event.signature.category.startswith("infrastructure")
        if "Fatal Python error" in here.text:
            event.fatal, event.user_frame = True, self._crashed_in(here, prefix)
        self._check_origin(event)
        return event

    def _time_above(self) -> datetime | None:
        """The time of the nearest line above that has one; tracebacks carry none themselves."""
        for line in self.lines[max(0, self.index - TIME_WITHIN_LINES) : self.index][::-1]:
            moment = strip_prefix(line[:LINE_CHARS]).time
            if moment is not None:
                return moment
        return None

    def _crashed_in(self, here: LogEvidence, prefix: Prefix) -> LogEvidence | None:
        """The innermost frame that the fault handler prints below a crash, when it is in the job's own code."""
        for offset in range(1, CRASH_STACK_LINES):
            if self.index + offset >= len(self.lines):
                break
            text = self.lines[self.index + offset][:LINE_CHARS].rstrip()
            below = strip_prefix(text)
            if below.rank == prefix.rank and (frame := FRAME.match(below.rest.strip())):
                own = not LIBRARY.search(frame["path"])
                return LogEvidence(here.file, here.line + offset, text) if own else None
        return None

    def _best(self, text: str, matched: list[int]) -> Signature | None:
        signatures = self.scanner.signatures
        found = [signatures[hit] for hit in matched if hit < len(signatures)]
        if len(found) < len(matched) and (xid := _XID.search(text)):
            signature = xid_signature(int(xid["number"]))
            if 144 <= int(xid["number"]) <= 150 and "Nonfatal" in xid["rest"]:
                signature = replace(signature, role="informational", weight=0.0, priority=45)
            found.append(signature)
        return max(found, key=lambda s: s.priority, default=None)

    def _details(self, event: Event, prefix: Prefix) -> None:
        """Process, GPU, pod, task and node that the line itself names."""
        text = event.text
        named = event.signature.regex.search(text[:LINE_CHARS])
        groups = {k: v for k, v in (named.groupdict() if named else {}).items() if v}
        node = next((groups[k] for k in ("node", "node2", "node3", "node4") if k in groups), None)
        if srun := _SRUN_TASK.search(text):
            node, event.rank = srun["node"], int(srun["rank"])
        if node is None and event.writer != "job" and (word := _NODE_WORD.search(text)):
            node = word["node"] or word["node2"]
        if node is not None:
            event.node, event.host_explicit = node, True
        if "rank" in groups:
            event.rank = int(groups["rank"])
        elif "task" in groups and event.rank is None:
            event.rank = int(groups["task"])
        pid = groups.get("pid") or groups.get("pid2") or next(iter(_PID_WORD.findall(text)), None)
        event.pid = int(pid) if pid and len(pid) < 10 else None
        event.peer = groups.get("peer")
        if xid := _XID.search(text):
            event.pci = xid["pci"]
        if pod := _POD_WORD.search(text):
            event.pod = pod["pod"]
            self.scan.pods.add(pod["pod"])
        elif prefix.node and _POD_NAME.search(prefix.node):
            event.pod = prefix.node
        if device := _DEVICE_PREFIX.search(text):
            event.device = int(device[1])

    def _writer(self, text: str, prefix: Prefix) -> Writer:
        if self.file.kind in ("kernel", "scheduler", "kubernetes"):
            return "platform"
        if prefix.rank is not None:
            return "job"
        if _SCHEDULER_FORM.search(text[:200]):
            return "platform-form"
        if self.file.kind == "rank":
            return "job"
        return "platform-form" if _KERNEL_FORM.search(text[:200]) or _KUBERNETES_FORM.search(text) else "job"

    def _check_origin(self, event: Event) -> None:
        origin = event.signature.origin
        if origin == "any" or event.writer != "job":
            return
        event.node, event.host_explicit = None, False
        if origin == "platform":
            event.dismissed = "the job itself printed this; only the kernel's own log would prove it"
        else:
            event.mild = True

    def _traceback(
        self, rank: int | None, prefix: Prefix, here: LogEvidence, begins: bool
    ) -> tuple[Raised | None, bool]:
        """Feed the open traceback of this process, or open one. Returns the exception that this line ends with, and
        whether the line is part of the stack."""
        trace = self.open.get(rank)
        if begins and (trace is None or not trace[0].raised):
            self.open[rank] = (Traceback(), [])
            return None, False
        if trace is None:
            return None, False
        reader, _ = trace
        seen = len(reader.raised)
        before_rest = here.text[: len(here.text) - len(prefix.rest)]
        indentation = before_rest[len(before_rest.rstrip(" \t")) :]
        in_stack = reader.feed(indentation + prefix.rest, here)
        if reader.done:
            self._close(rank)
            if begins:
                self.open[rank] = (Traceback(), [])
        return (reader.raised[-1] if len(reader.raised) > seen else None), in_stack

    def _close(self, rank: int | None) -> None:
        """A traceback is over: of a chain of exceptions the most telling one stays, the others are put aside."""
        reader, events = self.open.pop(rank)
        if len(events) < 2:
            return
        direct = any(raised.direct_cause_of_next for raised in reader.raised)
        telling = any(event.signature.priority > GENERIC_PRIORITY for event in events)
        ordered = events if direct or telling else events[::-1]
        best = max(ordered, key=lambda e: (e.signature.priority > GENERIC_PRIORITY, e.weight))
        for event in events:
            if event is not best and not event.dismissed:
                event.dismissed = "it belongs to the same chain of exceptions as the line that is quoted"
                event.explained_by = best

    # -- what is kept ------------------------------------------------------------------------------------------

    def _keep(self, event: Event, rank: int | None, handled: bool) -> None:
        key = (event.signature.id, event.attempt)
        count = self.kept[key] = self.kept.get(key, 0) + 1
        self.topology.place(event.rank, event.node if event.node and not event.pod else None)
        stream = self.scan.stream(self.file.name, rank)
        event.progress_before, event.handled = stream.progress_count, handled
        trace = self.open.get(rank)
        if trace is not None and event.fatal:
            trace[1].append(event)
        if event.signature.role != "informational":
            self.pending = True
            self.recent[rank] = event
        limit = MOST_PER_FILE if event.signature.role in ("root", "confirmation", "ambiguous", "symptom") else 4
        if count <= limit and len(self.scan.events) < MOST_PER_SIGNATURE * 20:
            self.scan.events.append(event)

    def _handled(self, rank: int | None, here: LogEvidence) -> None:
        recent = self.recent.get(rank)
        if recent is not None and here.line - recent.line <= HANDLED_WITHIN_LINES and not GIVES_UP.search(here.text):
            recent.handled = True

    def _good_news(self, marks: set[Mark], rank: int | None, here: LogEvidence) -> None:
        if not marks & {"progress", "success"} or here.text.startswith(_NOT_PROGRESS):
            return
        stream = self.scan.stream(self.file.name, rank)
        if "progress" in marks:
            stream.progress_count += 1
            stream.progress = here
        if "success" in marks:
            stream.success = here

    # -- the rest of the file -----------------------------------------------------------------------------------

    def _new_attempt(self, text: str) -> None:
        self.recent.clear()
        if PREVIOUS.search(text):
            self.resume_attempt, self.attempt = self.attempt, -1
        elif self.resume_attempt is not None:
            self.attempt, self.resume_attempt = self.resume_attempt, None
        else:
            self.attempt += 1

    def _check_kind(self, lines: list[str]) -> None:
        """A file with lines of ranks is the job's, however many lines of the kernel were mixed into it."""
        if self.file.kind == "kernel" and any(
            strip_prefix(line[:LINE_CHARS]).rank is not None or _RANKS.search(line[:LINE_CHARS])
            for line in lines[:HEAD_LINES]
        ):
            self.file = replace(self.file, kind="job", node=None)

    def _head(self, lines: list[str]) -> None:
        if self.file.kind in ("kernel", "scheduler"):
            return
        for line in lines[:HEAD_LINES]:
            self._layout(line[:LINE_CHARS], strip_prefix(line[:LINE_CHARS]))

    def _layout(self, text: str, prefix: Prefix) -> None:
        self.layout_lines += 1
        if self.layout_lines > MOST_LAYOUT_LINES:
            return
        rank = prefix.rank if prefix.rank is not None else self.file.rank
        self.topology.learn(text, rank, prefix.node)
        if self.file.rank is not None and prefix.node and not _POD_NAME.search(prefix.node):
            self.topology.place(self.file.rank, prefix.node)
        for found in _JOB_ID.findall(text):
            self.scan.job_ids.update(number for number in found if number)

    def _window(self, first: int, lines: list[str], hits: Container[int]) -> None:
        """When the job began (told only by a quiet line at the head of a file) and when it last printed something."""
        if self.file.kind in ("kernel", "scheduler", "kubernetes"):
            return
        head = [line for index, line in enumerate(lines[:5]) if index not in hits] if first == 1 else []
        for line in head:
            self.scan.started(strip_prefix(line[:LINE_CHARS]).time)
        for line in lines[-5:]:
            self.scan.printed(strip_prefix(line[:LINE_CHARS]).time)

    def _finish(self) -> None:
        for rank in list(self.open):
            self._close(rank)
        if self.raw_progress is not None:
            number, text = self.raw_progress
            rank = strip_prefix(text).rank
            stream: Stream = self.scan.stream(self.file.name, self.file.rank if rank is None else rank)
            stream.progress = stream.progress or LogEvidence(self.file.name, number, text)
        self.scan.last_attempt[self.file.name] = self.attempt
        node = self.topology.node(self.file.rank)
        for rank in self.ranks_here:
            self.topology.place(rank, node)


def is_table(lines: list[str]) -> bool:
    """Whether a scheduler's file is accounting (a table or JSON of jobs) and not a daemon's log."""
    head = [line for line in lines[:40] if line.strip()][:3]
    return bool(head) and (
        (head[0].lstrip().startswith(("{", "[")) and ('"' in head[0] or head[0].strip() in ("{", "[")))
        or any(re.search(r"\bJobID(?:Raw)?\b", line) and "State" in line for line in head)
    )
