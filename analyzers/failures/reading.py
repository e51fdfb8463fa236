"""The walk through one file: from block to block, and in a block from one line that matters to the next."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace

from analyzers.failures.above import Above
from analyzers.failures.block import Block, numbered
from analyzers.failures.events import Event
from analyzers.failures.hosts import LOCAL_RANK, NO_LABELS, Labels, labels_of
from analyzers.failures.keeping import HANDLED_WITHIN_LINES, Keeper
from analyzers.failures.lookup import described_pod, rank_of_traceback
from analyzers.failures.marks import GIVES_UP, MARKS, PREVIOUS, Mark
from analyzers.failures.matcher import LINE_CHARS
from analyzers.failures.parts import Part
from analyzers.failures.places import Places
from analyzers.failures.progressing import Watch
from analyzers.failures.recognise import CRASH_STACK_LINES, FATAL_ERROR, Around, recognise
from analyzers.failures.rules import Job, Rules, is_table
from analyzers.failures.sampling import Sampling
from analyzers.failures.stacks import Stacks
from analyzers.failures.steps import is_progress
from analyzers.logs.companions import LogFile
from analyzers.logs.intake import read_pieces
from analyzers.logs.prefix import Prefix
from analyzers.types import LogEvidence
from prompts.redaction import shortened

LABEL_LINES = 200
MOST_ACCOUNTING_LINES = 20_000
#: So many matches of a block are always told.
_FEW_MATCHES = 500
#: After a block with too many matches to tell all, so many blocks are sampled at once.
_CROWDED_BLOCKS = 16
#: In the middle of a block, it is chosen again what to read after so many attempts of a file.
_MOST_RENEWED = 16
#: Of what these marks say, nothing is left out.
_ALWAYS: tuple[Mark, ...] = ("attempt", "begin", "resumed", "success")

_ATTEMPT_FOLDER = re.compile(r"(?:^|/)attempt[_-](\d{1,4})(?:/|$)")
_RANKS = re.compile(r"\branks? \d+ ?(?:-|\.\.) ?\d+")
_ENDS = frozenset({"time-limit", "preemption", "user-cancel", "node-lost", "launcher-summary"})


@dataclass(slots=True)
class FileReader:
    """The walk through one file."""

    rules: Rules
    job: Job
    file: LogFile
    labels: Labels = NO_LABELS
    attempt: int = 0
    resume_attempt: int | None = None
    over: bool = False
    ranks_here: set[int] = field(default_factory=set)
    hosts_here: set[str] = field(default_factory=set)
    crowded: int = 0
    matches: int = 0
    renewed: int = 0
    accounting: list[str] = field(default_factory=list)
    stacks: Stacks = field(default_factory=Stacks)
    above: Above = field(default_factory=Above)
    keeper: Keeper = field(init=False)
    places: Places = field(init=False)
    watch: Watch = field(init=False)
    sampling: Sampling = field(init=False)

    def __post_init__(self) -> None:
        marks = self.rules.marks
        self.keeper = Keeper(self.job.scan)
        self.places = Places(self.job.scan, self.job.topology)
        self.watch = Watch(self.job.share.steps)
        always = frozenset(marks[mark] for mark in _ALWAYS)
        self.sampling = Sampling(self.job.share, always, frozenset({marks["handled"]}), HANDLED_WITHIN_LINES)
        folder = _ATTEMPT_FOLDER.search(self.file.name)
        self.attempt = int(folder[1]) if folder else 0
        if self.file.rank is not None:
            self.job.topology.ranks.add(self.file.rank)

    def read(self) -> Part:
        """Read it from its beginning to its end."""
        return self.finish(numbered(read_pieces(self.file, self.job.warn)))

    def finish(self, blocks: Iterable[Block]) -> Part:
        """Read what is left of the file."""
        for block, is_last in _with_last(blocks):
            self.take(block, is_last)
        if self.accounting and is_table(self.accounting):
            self.job.scan.accounting.append((self.file, self.accounting))
        self._finish()
        return Part(self.file, self.job.scan, self.job.topology, frozenset(self.ranks_here))

    def take(self, block: Block, is_last: bool) -> None:
        """Read the next block."""
        if block.first == 1:
            self._begin(block.lines(0, LABEL_LINES))
        if self.file.kind == "scheduler" and len(self.accounting) < MOST_ACCOUNTING_LINES:
            self.accounting.extend(block.lines(0, MOST_ACCOUNTING_LINES - len(self.accounting)))
        if not is_table(self.accounting):
            self._block(block, is_last)
        self.job.scan.lines_in[self.file.name] = block.number(len(block) - 1)

    # -- from line to line --------------------------------------------------------------------------------------

    def _block(self, block: Block, is_last: bool) -> None:
        self.watch.enter(block)
        worth = self._worth(block, is_last)
        self._window(block, worth)
        due, at, attempt = self.sampling.due(block, worth, 0, is_last, self.crowded > 0), 0, self.attempt
        everything = range(len(self.rules.matcher.expressions))
        index, lines = 0, len(block)
        while index < lines:
            while at < len(due) and due[at] < index:
                at += 1
            if not self.stacks.open:  # else every line counts
                until = due[at] if at < len(due) else lines
                self._between(block, index, until, worth)
                index = until
                if index >= lines:
                    return
            is_due = at < len(due) and due[at] == index
            self._line(block, index, worth.get(index, everything if is_due else ()))
            index += 1
            if self.attempt != attempt and self.renewed < _MOST_RENEWED:  # what was common before may be new now
                due, at, attempt = self.sampling.due(block, worth, index, is_last, self.crowded > 0), 0, self.attempt
                self.renewed += 1

    def _worth(self, block: Block, is_last: bool) -> dict[int, tuple[int, ...]]:
        """The lines that some pattern may fit. Where they are very many, some of each kind."""
        most = 0 if self.crowded else max(self.job.share.matches - self.matches, _FEW_MATCHES)
        worth, found = self.rules.matcher.candidates(block, most, self.job.share.ending_bytes if is_last else 0)
        self.matches += found
        self.crowded = self.crowded - 1 if self.crowded else _CROWDED_BLOCKS if found >= most else 0
        return worth

    def _between(self, block: Block, start: int, stop: int, worth: dict[int, tuple[int, ...]]) -> None:
        """Progress between two lines that are read, as far as it is looked for."""
        for step in self.watch.steps(block, start, stop, self._is_mixed):
            if all(number >= self.rules.first_mark for number in worth.get(step.line, ())):
                self._step(block.number(step.line), step.text)

    @property
    def _is_mixed(self) -> bool:
        """Whether several processes may speak in the file."""
        return self.file.rank is None or bool(self.ranks_here - {self.file.rank})

    def _line(self, block: Block, index: int, numbers: Iterable[int]) -> None:
        text = block.line(index)
        hits = self.rules.confirmed(numbers, text)
        text = shortened(text, LINE_CHARS).rstrip()
        number = block.number(index)
        first_mark = self.rules.first_mark
        matched = [hit for hit in hits if hit < first_mark]
        marks: set[Mark] = {MARKS[hit - first_mark][0] for hit in hits if hit >= first_mark}
        progress = not matched and self.watch.covers(number) and is_progress(text)
        if not hits and not progress and not self.stacks.open:
            return
        prefix = self.labels.prefix(text)
        self._listen(text, prefix)
        rank = self._speaker(prefix)
        here = LogEvidence(self.file.name, number, text)
        self._turning_points(marks, here, prefix)
        raised, in_stack = self.stacks.feed(rank, prefix, here, "traceback" in marks)
        if in_stack:
            return
        if rank is None and raised is not None:
            rank = rank_of_traceback(block, index)
        event = None
        if matched or raised is not None:
            around = self._around(block, index, text, prefix)
            event = recognise(self.file, self.rules.signatures, here, prefix, rank, matched, raised, around)
        if event is not None:
            event.attempt = self.attempt
            if event.pod is None and self.file.kind == "kubernetes" and text[:1] == " ":
                event.pod = described_pod(block, index)
            self._keep(event, rank, handled="handled" in marks and not GIVES_UP.search(text))
        elif "handled" in marks:
            self.keeper.handled(rank, here)
        stream = self.job.scan.stream(self.file.name, rank)
        if progress:
            stream.progress_count += 1
            stream.stepped(here)
        if "success" in marks and (event is None or event.signature.role == "informational"):
            stream.success = here

    def _speaker(self, prefix: Prefix) -> int | None:
        rank = self.file.rank if prefix.rank is None else prefix.rank
        if rank is not None:
            self.ranks_here.add(rank)
        return rank

    def _listen(self, text: str, prefix: Prefix) -> None:
        """Whether others speak in a rank's own file. One process can print any prefix there, so none names a node."""
        own = self.file.rank
        if own is None:
            return
        if prefix.node is not None:
            self.hosts_here.add(prefix.node.partition(".")[0])
        foreign = prefix.rank not in (None, own) and not LOCAL_RANK.search(text[:200])
        if foreign or len(self.hosts_here) > 1:
            self.job.scan.of_many.add(self.file.name)

    def _around(self, block: Block, index: int, text: str, prefix: Prefix) -> Around:
        """The lines around one, where anything is read from them."""
        crashed = FATAL_ERROR in text
        if prefix.time is not None and not crashed:
            return Around([text], 0, self.labels)
        above = self.above.dated(block, index, self.labels)
        below = block.lines(index, index + CRASH_STACK_LINES) if crashed else [text]
        return Around([*above, *below], len(above), self.labels)

    def _step(self, number: int, text: str) -> None:
        rank = self._speaker(self.labels.prefix(text))
        stream = self.job.scan.stream(self.file.name, rank)
        stream.progress_count += 1
        stream.stepped(LogEvidence(self.file.name, number, text))

    # -- what lines do ------------------------------------------------------------------------------------------

    def _keep(self, event: Event, rank: int | None, handled: bool) -> None:
        scan, topology = self.job.scan, self.job.topology
        if event.pod:
            scan.pods.add(event.pod)
        topology.place(event.rank, event.node if event.node and not event.pod else None)
        if event.writer == "job" and rank is not None:
            topology.owns(rank, event.pid, event.node)
        event.progress_before, event.handled = scan.stream(self.file.name, rank).progress_count, handled
        self.keeper.check_ignored(event, rank)
        self.over = self.over or ends_attempt(event)
        self.stacks.hold(rank, event)
        if event.signature.role != "informational":
            self.watch.begin(event.line)
        self.keeper.keep(event, rank)

    def _turning_points(self, marks: set[Mark], here: LogEvidence, prefix: Prefix) -> None:
        text = here.text
        if "layout" in marks:
            self.places.learn(self.file, text, prefix)
        if self.file.kind in ("kernel", "scheduler", "kubernetes"):
            return
        if "resumed" in marks:
            self.job.scan.resumed = here
        starts_anew = self.over and ("begin" in marks or "resumed" in marks)
        if starts_anew or ("attempt" in marks and prefix.rank is None):
            self._new_attempt(text)

    def _new_attempt(self, text: str) -> None:
        self.keeper.recent.clear()
        self.sampling.forget()
        self.over = False
        self.places.settle(self.file, self.attempt, self.ranks_here)
        if PREVIOUS.search(text):
            self.resume_attempt, self.attempt = self.attempt, -1
        elif self.resume_attempt is not None:
            self.attempt, self.resume_attempt = self.resume_attempt, None
        else:
            self.attempt += 1

    # -- the beginning and the end ------------------------------------------------------------------------------

    def _begin(self, lines: list[str]) -> None:
        self.labels = labels_of(lines, self.job.known)
        self.job.scan.labels.update(self.labels.hosts)
        heads = [line[:LINE_CHARS] for line in lines[: self.job.share.head]]
        if self.file.kind == "kernel" and any(
            self.labels.prefix(head).rank is not None or _RANKS.search(head) for head in heads
        ):  # a file with lines of ranks is the job's, however many lines of the kernel were mixed into it
            self.file = replace(self.file, kind="job", node=None)
        if self.file.kind in ("kernel", "scheduler"):
            return
        for head in heads:
            prefix = self.labels.prefix(head)
            self._listen(head, prefix)
            if prefix.rank is not None:
                self.ranks_here.add(prefix.rank)
            self.places.learn(self.file, head, prefix)

    def _window(self, block: Block, worth: dict[int, tuple[int, ...]]) -> None:
        """When the job began (told only by a quiet line at the head of a file) and when it last printed something."""
        if self.file.kind in ("kernel", "scheduler", "kubernetes"):
            return
        first_mark = self.rules.first_mark
        for index, line in enumerate(block.lines(0, 5) if block.first == 1 else []):
            numbers = self.rules.confirmed(worth.get(index, ()), line)
            if not numbers or min(numbers) >= first_mark:
                self.job.scan.started(self.labels.prefix(line[:LINE_CHARS]).time)
        for line in block.lines(len(block) - 5, len(block)):
            self.job.scan.printed(self.labels.prefix(line[:LINE_CHARS]).time)

    def _finish(self) -> None:
        self.stacks.close_all()
        mixed = self._is_mixed
        for number, text, counts in self.watch.ending(mixed):
            rank = self.labels.prefix(text).rank if mixed else None
            stream = self.job.scan.stream(self.file.name, self.file.rank if rank is None else rank)
            if counts:
                stream.progress_count += 1
            elif stream.progress is not None and stream.progress.line >= number:
                continue
            stream.stepped(LogEvidence(self.file.name, number, text))
        self.places.settle(self.file, self.attempt, self.ranks_here)
        self.job.scan.last_attempt[self.file.name] = self.attempt
        own = set() if self.file.rank is None else {self.file.rank}
        self.job.scan.ranks_in[self.file.name] = own or set(self.ranks_here)


def _with_last(blocks: Iterable[Block]) -> Iterator[tuple[Block, bool]]:
    """Each block with whether it is the last one."""
    before: Block | None = None
    for block in blocks:
        if before is not None:
            yield before, False
        before = block
    if before is not None:
        yield before, True


def ends_attempt(event: Event) -> bool:
    """Whether the line says that all processes of the launch are over; a launch after it is a new attempt."""
    return event.signature.subcategory in _ENDS or (event.writer != "job" and event.signature.id == "launcher-teardown")
