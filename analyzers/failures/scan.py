"""Streams the files of one job and keeps the lines that mean something, in bounded memory."""

from __future__ import annotations

import re
from collections.abc import Callable, Container
from dataclasses import dataclass, field, replace

from analyzers.failures.events import Event, Scan
from analyzers.failures.hosts import NO_LABELS, Labels, known_hosts, labels_of, place_by_name, settle_labels
from analyzers.failures.marks import GIVES_UP, JOB_ID, MARKS, PREVIOUS, PROGRESS, Mark, is_last_step
from analyzers.failures.matcher import LINE_CHARS, Matcher
from analyzers.failures.node_list import learn_nodes, place_by_list
from analyzers.failures.pods import place_by_pod
from analyzers.failures.recognise import POD_NAME, Around, recognise
from analyzers.failures.signatures import Signature
from analyzers.failures.topology import Topology
from analyzers.failures.tracebacks import Raised, Traceback
from analyzers.logs.companions import LogFile
from analyzers.logs.intake import clean, read_blocks, segments
from analyzers.logs.prefix import Prefix
from analyzers.types import LogEvidence
from prompts.redaction import shortened

#: Events kept of one signature in one attempt of one file: of one rank (the first ones and the last), of all ranks.
MOST_PER_RANK = 4
MOST_PER_FILE = 2000
MOST_ECHOES_PER_FILE = 40
MOST_EVENTS = 100_000
HEAD_LINES = 80
MOST_LAYOUT_LINES = 5000
MOST_ACCOUNTING_LINES = 20_000
HANDLED_WITHIN_LINES = 4
#: Whether a program went on after an error is looked for in this many lines after it and at the end of the file.
WATCH_LINES = 3000
TAIL_LINES = 2000
GENERIC_PRIORITY = 20
#: The traceback of an exception that Python ignored is no longer than this.
IGNORED_LINES = 40

_ATTEMPT_FOLDER = re.compile(r"(?:^|/)attempt[_-](\d{1,4})(?:/|$)")
_RANKS = re.compile(r"\branks? \d+ ?(?:-|\.\.) ?\d+")

_IGNORED = re.compile(r"Exception ignored in|sys\.unraisablehook|Error in atexit._run_exitfuncs")
_SPAWNED = re.compile(r"-- Process (\d{1,5}) terminated with the following error")
_ENDS = frozenset({"time-limit", "preemption", "user-cancel", "node-lost", "launcher-summary"})

_ALL_RANKS = -1

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
        known = known_hosts(files)
        for file in files:
            _FileReader(self, file, scan, topology, warn, known).read()
        _last_steps(scan)
        settle_labels(scan, topology, known)
        place_by_name(files, scan, topology)
        place_by_list(topology)
        place_by_pod(files, scan, topology)
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
    known: frozenset[str] = frozenset()
    labels: Labels = NO_LABELS
    attempt: int = 0
    resume_attempt: int | None = None
    kept: dict[tuple[str, int, int | None], list[int]] = field(default_factory=dict)
    open: dict[int | None, tuple[Traceback, list[Event]]] = field(default_factory=dict)
    recent: dict[int | None, Event] = field(default_factory=dict)
    watch_from: int = 1
    watch_to: int = 0
    tail: list[tuple[int, list[str]]] = field(default_factory=list)
    layout_lines: int = 0
    over: bool = False
    own: Topology = field(default_factory=Topology)
    ignored: dict[int | None, int] = field(default_factory=dict)
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
                self.labels = labels_of(lines, self.known)
                self.scan.labels.update(self.labels.hosts)
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
        self.tail = [*self.tail[-1:], (first, lines)]
        hits = self.scanner.matcher.hits(text, lines)
        self._window(first, lines, {index for index, found in hits.items() if min(found) < self.scanner.first_mark})
        worth = sorted(hits)
        at, index = 0, 0
        while index < len(lines):
            if not self.open and first + index > self.watch_to:  # else every line counts
                while at < len(worth) and worth[at] < index:
                    at += 1
                if at >= len(worth):
                    return
                index = worth[at]
            self.index = index
            self._line(first + index, lines[index], hits.get(index, []))
            index += 1

    def _line(self, number: int, line: str, hits: list[int]) -> None:
        if "\r" not in line and "\b" not in line:
            self._segment(number, line, hits)
            return
        for part in segments(line):
            self._segment(number, part, [hit for hit in hits if self._fits(hit, part)])

    def _fits(self, hit: int, part: str) -> bool:
        return self.scanner.matcher.patterns[hit].search(part[:LINE_CHARS]) is not None

    def _segment(self, number: int, text: str, hits: list[int]) -> None:
        text = shortened(text, LINE_CHARS).rstrip()
        matched = [hit for hit in hits if hit < self.scanner.first_mark]
        marks: set[Mark] = {MARKS[hit - self.scanner.first_mark][0] for hit in hits if hit >= self.scanner.first_mark}
        progress = not matched and number <= self.watch_to and is_progress(text)
        if not hits and not progress and not self.open:
            return
        prefix = self.labels.prefix(text)
        rank = self.file.rank if prefix.rank is None else prefix.rank
        if rank is not None:
            self.ranks_here.add(rank)
        here = LogEvidence(self.file.name, number, text)
        self._turning_points(marks, here, prefix)
        raised, in_stack = self._traceback(rank, prefix, here, "traceback" in marks)
        if in_stack:
            return
        if rank is None and raised is not None:
            rank = self._spawned()
        around = Around(self.lines, self.index, self.labels)
        event = recognise(self.file, self.scanner.signatures, here, prefix, rank, matched, raised, around)
        if event is not None:
            event.attempt = self.attempt
            self._keep(event, rank, handled="handled" in marks and not GIVES_UP.search(text))
        elif "handled" in marks:
            self._handled(rank, here)
        stream = self.scan.stream(self.file.name, rank)
        if progress:
            stream.progress_count += 1
            stream.stepped(here)
        if "success" in marks and (event is None or event.signature.role == "informational"):
            stream.success = here

    def _turning_points(self, marks: set[Mark], here: LogEvidence, prefix: Prefix) -> None:
        text = here.text
        if "layout" in marks:
            self._layout(text, prefix)
        if self.file.kind in ("kernel", "scheduler", "kubernetes"):
            return
        if "resumed" in marks:
            self.scan.resumed = here
        starts_anew = self.over and ("begin" in marks or "resumed" in marks)
        if starts_anew or ("attempt" in marks and prefix.rank is None):
            self._new_attempt(text)

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

    def _spawned(self) -> int | None:
        """The process that `torch.multiprocessing` says the traceback at hand comes from."""
        for line in self.lines[max(0, self.index - IGNORED_LINES * 2) : self.index][::-1]:
            if found := _SPAWNED.match(line):
                return int(found[1])
        return None

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
        if event.pod:
            self.scan.pods.add(event.pod)
        self.topology.place(event.rank, event.node if event.node and not event.pod else None)
        if event.writer == "job" and rank is not None:
            self.topology.owns(rank, event.pid, event.node)
        stream = self.scan.stream(self.file.name, rank)
        event.progress_before, event.handled = stream.progress_count, handled
        self._check_ignored(event, rank)
        self.over = self.over or _ends_attempt(event)
        trace = self.open.get(rank)
        if trace is not None and event.fatal:
            trace[1].append(event)
        if event.signature.role != "informational":
            self.watch_from = event.line if self.watch_to == 0 else self.watch_from
            self.watch_to = event.line + WATCH_LINES
            self.recent[rank] = event
        self._store(event)

    def _check_ignored(self, event: Event, rank: int | None) -> None:
        """What Python says to ignore is no failure: the exception below the line, with a traceback or without."""
        if _IGNORED.search(event.text):
            self.ignored[rank] = event.line
            return
        said = self.ignored.get(rank)
        if said is None or event.line - said > IGNORED_LINES or event.signature.role == "informational":
            return
        if event.fatal or event.line == said + 1:
            event.dismissed = f"Python ignored this exception (line {said}); the program went on"
            del self.ignored[rank]

    def _store(self, event: Event) -> None:
        """Keep the first events of a kind and the last one; the last may be fatal where the first were survived."""
        everyone = self.kept.setdefault((event.signature.id, event.attempt, _ALL_RANKS), [])
        slots = self.kept.setdefault((event.signature.id, event.attempt, event.rank), [])
        echo = event.signature.weight == 0
        full = len(everyone) >= (MOST_ECHOES_PER_FILE if echo else MOST_PER_FILE)
        if len(slots) < MOST_PER_RANK and not full and len(self.scan.events) < MOST_EVENTS:
            everyone.append(len(self.scan.events))
            slots.append(len(self.scan.events))
            self.scan.events.append(event)
        elif slots and not echo:
            self.scan.events[slots[-1]] = event

    def _handled(self, rank: int | None, here: LogEvidence) -> None:
        recent = self.recent.get(rank)
        if recent is not None and here.line - recent.line <= HANDLED_WITHIN_LINES and not GIVES_UP.search(here.text):
            recent.handled = True

    # -- the rest of the file -----------------------------------------------------------------------------------

    def _new_attempt(self, text: str) -> None:
        self.recent.clear()
        self.over = False
        self._settle_places()
        if PREVIOUS.search(text):
            self.resume_attempt, self.attempt = self.attempt, -1
        elif self.resume_attempt is not None:
            self.attempt, self.resume_attempt = self.resume_attempt, None
        else:
            self.attempt += 1

    def _settle_places(self) -> None:
        """Keep who ran where in the attempt that ends here; the next one may run elsewhere."""
        self.own.ranks.update(self.ranks_here)
        place_by_list(self.own)
        if self.own.node_of_rank:
            self.scan.places[self.file.name, self.attempt] = self.own.node_of_rank
        self.own = Topology()

    def _check_kind(self, lines: list[str]) -> None:
        """A file with lines of ranks is the job's, however many lines of the kernel were mixed into it."""
        if self.file.kind == "kernel" and any(
            self.labels.prefix(line[:LINE_CHARS]).rank is not None or _RANKS.search(line[:LINE_CHARS])
            for line in lines[:HEAD_LINES]
        ):
            self.file = replace(self.file, kind="job", node=None)

    def _head(self, lines: list[str]) -> None:
        if self.file.kind in ("kernel", "scheduler"):
            return
        for line in lines[:HEAD_LINES]:
            prefix = self.labels.prefix(line[:LINE_CHARS])
            if prefix.rank is not None:
                self.ranks_here.add(prefix.rank)
            self._layout(line[:LINE_CHARS], prefix)

    def _layout(self, text: str, prefix: Prefix) -> None:
        self.layout_lines += 1
        if self.layout_lines > MOST_LAYOUT_LINES:
            return
        rank = prefix.rank if prefix.rank is not None else self.file.rank
        self.topology.learn(text, rank, prefix.node)
        learn_nodes(text, self.topology)
        self.own.learn(text, rank, prefix.node)
        learn_nodes(text, self.own)
        if self.file.rank is not None and prefix.node and not POD_NAME.search(prefix.node):
            self.topology.place(self.file.rank, prefix.node)
        for found in JOB_ID.findall(text) if self.file.kind != "scheduler" else ():
            self.scan.job_ids.update(number for number in found if number)

    def _window(self, first: int, lines: list[str], hits: Container[int]) -> None:
        """When the job began (told only by a quiet line at the head of a file) and when it last printed something."""
        if self.file.kind in ("kernel", "scheduler", "kubernetes"):
            return
        head = [line for index, line in enumerate(lines[:5]) if index not in hits] if first == 1 else []
        for line in head:
            self.scan.started(self.labels.prefix(line[:LINE_CHARS]).time)
        for line in lines[-5:]:
            self.scan.printed(self.labels.prefix(line[:LINE_CHARS]).time)

    def _read_tail(self) -> None:
        """Progress at the end of the file that was not watched: after the watch it counts, before it it only dates."""
        mixed = self.file.rank is None or bool(self.ranks_here - {self.file.rank})
        ends = [(first + at, line) for first, lines in self.tail for at, line in enumerate(lines)][-TAIL_LINES:]
        for number, line in ends:
            text = shortened(segments(line)[-1], LINE_CHARS).rstrip()
            if self.watch_from <= number <= self.watch_to or not is_progress(text):
                continue
            rank = self.labels.prefix(text).rank if mixed else None
            stream = self.scan.stream(self.file.name, self.file.rank if rank is None else rank)
            here = LogEvidence(self.file.name, number, text)
            if number > self.watch_to:
                stream.progress_count += 1
                stream.stepped(here)
            elif stream.progress is None or stream.progress.line < number:
                stream.stepped(here)

    def _finish(self) -> None:
        for rank in list(self.open):
            self._close(rank)
        self._read_tail()
        self._settle_places()
        self.scan.last_attempt[self.file.name] = self.attempt
        own = set() if self.file.rank is None else {self.file.rank}
        self.scan.ranks_in[self.file.name] = own or set(self.ranks_here)
        node = self.topology.node(self.file.rank)
        for rank in self.ranks_here:
            self.topology.place(rank, node)


def _ends_attempt(event: Event) -> bool:
    """Whether the line says that all processes of the launch are over; a launch after it is a new attempt."""
    return event.signature.subcategory in _ENDS or (event.writer != "job" and event.signature.id == "launcher-teardown")


def _last_steps(scan: Scan) -> None:
    """A process whose last line of progress is, by its counters, the last of all has ended well so far."""
    for stream in scan.streams.values():
        last = stream.progress
        if last is not None and is_last_step(last.text) and (stream.success is None or stream.success.line < last.line):
            stream.success = last


def is_progress(text: str) -> bool:
    """Whether a line reports a step of the training (a tracker's summary does not)."""
    return PROGRESS.search(text) is not None and not text.startswith("wandb:")


def is_table(lines: list[str]) -> bool:
    """Whether a scheduler's file is accounting (a table or JSON of jobs) and not a daemon's log."""
    head = [line for line in lines[:40] if line.strip()][:3]
    return any("JobState=" in line for line in lines[:40]) or (
        bool(head)
        and (
            (head[0].lstrip().startswith(("{", "[")) and ('"' in head[0] or head[0].strip() in ("{", "[")))
            or any(re.search(r"\bJobID(?:Raw)?\b", line) and "State" in line for line in head)
        )
    )
