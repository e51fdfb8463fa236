"""What the scan keeps of a log: the few lines that carry meaning, each with who printed it and when."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from datetime import datetime
from typing import Literal

from analyzers.failures.flight_recorder import Stuck
from analyzers.failures.signatures import Signature
from analyzers.logs.companions import LogFile
from analyzers.logs.prefix import NO_YEAR
from analyzers.types import LogEvidence

#: Who wrote a line: a platform's own file, a line in a platform's form inside a job's log, or the job itself.
Writer = Literal["platform", "platform-form", "job"]

#: Lines of progress remembered of each stream.
RECENT_STEPS = 20


@dataclass(slots=True, eq=False)
class Event:
    """One meaningful line. ``order`` counts lines within the file; ``attempt`` counts from 0 in its file.

    ``time`` is that of a line above where the line itself has none (``time_exact`` is False then): a lower bound.
    ``dismissed`` is empty, or the reason why this line is no cause. ``fatal``: it ended a traceback or a process.
    ``host_explicit``: the line itself names the node; ``own_name``: one process does, behind its rank. ``mild``: logged
    as a warning or less. ``hearsay``: the job itself printed what only the scheduler can know. ``outlived``: the job
    went on long after it, or ran elsewhere.
    ``placed``: where the launch that the line belongs to had put its rank (each attempt has its own map).
    ``foreign``: it speaks of another job, node or time. ``survived``: it was put aside because the program went on.
    ``proven``: it stands in a file that is the platform's by its name.
    """

    file: str
    line: int
    text: str
    signature: Signature
    writer: Writer
    rank: int | None = None
    node: str | None = None
    placed: str | None = None
    pid: int | None = None
    pci: str | None = None
    peer: str | None = None
    pod: str | None = None
    device: int | None = None
    time: datetime | None = None
    time_exact: bool = True
    attempt: int = 0
    fatal: bool = False
    host_explicit: bool = False
    own_name: bool = False
    mild: bool = False
    hearsay: bool = False
    outlived: bool = False
    foreign: bool = False
    survived: bool = False
    proven: bool = False
    handled: bool = False
    progress_before: int = 0
    dismissed: str = ""
    explained_by: Event | None = None
    user_frame: LogEvidence | None = None

    @property
    def evidence(self) -> LogEvidence:
        """The line as evidence."""
        return LogEvidence(self.file, self.line, self.text)

    @property
    def weight(self) -> float:
        """How far this line alone carries a verdict."""
        doubt = (0.75 if self.mild else 1.0) * (0.6 if self.hearsay else 1.0) * (0.5 if self.outlived else 1.0)
        return self.signature.weight * doubt


@dataclass(slots=True)
class Stream:
    """What one process (a rank, or a file without ranks) did, as far as the verdict needs it: the last line of
    progress, of success and of an error being handled. Progress is counted from the first event of the file on."""

    file: str
    rank: int | None
    progress_count: int = 0
    progress: LogEvidence | None = None
    before_last: LogEvidence | None = None
    success: LogEvidence | None = None
    recent: deque[LogEvidence] = field(default_factory=lambda: deque(maxlen=RECENT_STEPS))

    def stepped(self, here: LogEvidence) -> None:
        """One more line of progress."""
        self.before_last, self.progress = self.progress, here
        self.recent.append(here)

    def steps_ago(self, steps: int) -> LogEvidence | None:
        """The line of progress after which at least ``steps - 1`` more came, where there were so many."""
        return self.recent[-steps] if len(self.recent) >= steps else None


@dataclass(slots=True)
class Scan:
    """Everything read from the files of one job. ``ranks_in``: who speaks in which file; ``labels``: hosts' names
    that stand before lines; ``places``: node by rank, of each attempt in each file; ``resumed``: the line that says
    that the job began from a checkpoint of an earlier run; ``lines_in``: how long each file is;
    ``stuck``: what the flight recorder's dumps show; ``of_many``: files named as one rank's own in which other ranks
    or several hosts speak all the same."""

    events: list[Event] = field(default_factory=list)
    streams: dict[tuple[str, int | None], Stream] = field(default_factory=dict)
    last_attempt: dict[str, int] = field(default_factory=dict)
    job_ids: set[str] = field(default_factory=set)
    pods: set[str] = field(default_factory=set)
    ranks_in: dict[str, set[int]] = field(default_factory=dict)
    of_many: set[str] = field(default_factory=set)
    labels: set[str] = field(default_factory=set)
    places: dict[tuple[str, int], dict[int, str]] = field(default_factory=dict)
    resumed: LogEvidence | None = None
    first_time: datetime | None = None
    last_time: datetime | None = None
    stuck: Stuck | None = None
    lines_in: dict[str, int] = field(default_factory=dict)
    accounting: list[tuple[LogFile, list[str]]] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)

    def stream(self, file: str, rank: int | None) -> Stream:
        """The stream of that rank in that file, made on first use."""
        key = (file, rank)
        if key not in self.streams:
            self.streams[key] = Stream(file, rank)
        return self.streams[key]

    def started(self, moment: datetime | None) -> None:
        """The job was running at this moment; the earliest one is taken as its start."""
        if moment is not None and (self.first_time is None or before(moment, self.first_time)):
            self.first_time = moment

    def printed(self, moment: datetime | None) -> None:
        """The job printed something at this moment; the latest one is taken as its end."""
        if moment is not None and (self.last_time is None or before(self.last_time, moment)):
            self.last_time = moment


def seconds_between(a: datetime | None, b: datetime | None) -> float | None:
    """Seconds from ``a`` to ``b``, or None where they can not be compared (a year or date is missing on one side)."""
    if a is None or b is None:
        return None
    a, b = a.replace(tzinfo=None), b.replace(tzinfo=None)
    try:
        if a.year != b.year and NO_YEAR in (a.year, b.year):
            if a.year == NO_YEAR:
                a = a.replace(year=b.year)
            else:
                b = b.replace(year=a.year)
        return (b - a).total_seconds()
    except ValueError:
        return None


def before(a: datetime, b: datetime) -> bool:
    """Whether ``a`` is surely before ``b``."""
    gap = seconds_between(a, b)
    return gap is not None and gap > 0
