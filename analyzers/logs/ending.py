"""Whether a log says, at its end, that the job is over: completed, failed, cancelled or out of time.

Only plain signs count, and any training record after one takes it back (a caught error, a requeued job). Why a job
failed is `analyzers.failures`' business; here it only matters that nothing more is to come.
"""

from __future__ import annotations

import re
from collections import deque
from dataclasses import dataclass
from typing import Literal, NamedTuple

from analyzers.logs.prefix import strip_prefix
from analyzers.logs.series import Record
from analyzers.types import Outcome

#: How sure a sign is. plain: said by the scheduler, the shell or the framework. traced: a Python traceback, which may
#: have been caught. passing: words that a batch script also prints after a failure.
Strength = Literal["plain", "traced", "passing"]


class Sign(NamedTuple):
    """A kind of line that ends a log; no sign where ``unless`` is found too."""

    outcome: Outcome
    strength: Strength
    pattern: re.Pattern[str]
    unless: re.Pattern[str] | None = None


#: A part is over, or something will be; the job is not.
_ONLY_A_PART = re.compile(
    r"(?i)\b(?:epoch|fold|round|stage|phase|trial|task|chunk|split|worker|rank|member|cycle|generation|dry|test|sanity)"
    r"s?\b ?[#:=]?(?: ?\d|\b(?= run))|n't\b"
    r"|\b(?:not|never|until|before|when|once|after|will|if|unless|while|every|each)\b"
)
_GOES_ON = re.compile(
    r"(?i)\b(?:re-?try|retries|retrying|re-?start(?:ing|ed)?|resum(?:e|ing|ed)|recover(?:ing|ed)|continu(?:e|ing)|"
    r"ignor(?:e|ing|ed)|skip(?:ping|ped)?|requeu(?:e|ing|ed)|fall(?:ing|s)? back|reconnect\w*|attempt \d)\b"
)
_RUN = r"(?:(?:pre-?|fine-?)?(?:train(?:ing)?|tun(?:e|ing))|optimi[sz]ation|fitting|experiment|simulation|run)"
_OVER = r"(?:completed?|finished|done|ended|over)"

#: Looked through in order; the first that fits a line speaks for it.
SIGNS: tuple[Sign, ...] = (
    Sign("timeout", "plain", re.compile(
        r"CANCELLED AT \S+ DUE TO TIME LIMIT|job killed: walltime \S+ exceeded limit|\bTERM_RUNLIMIT\b"
        r"|\bDeadlineExceeded\b|(?i:\bjob (?:has )?(?:exceeded|reached|hit) (?:its |the )?(?:wall-?)?"
        r"(?:time|run) ?limit)"
    )),
    Sign("failed", "plain", re.compile(r"CANCELLED AT \S+ DUE TO (?:NODE|JOB|TASK) ?FAIL")),
    Sign("cancelled", "plain", re.compile(
        r"\*\*\* (?:JOB|STEP) \S+ ON .{1,200}? CANCELLED|^KeyboardInterrupt\s*$|\bTERM_OWNER\b|scancel: Terminating job"
    )),
    Sign("failed", "plain", re.compile(
        r"^(?:\S+: line \d+: +\d+ +)?(?:Killed|Segmentation fault|Bus error|Aborted|Illegal instruction)\b"
        r"(?:\s{2,}|$| \(core)"
        r"|\(core dumped\)|^Fatal Python error:|\boom[-_ ]kill\b.{0,20}\bevent|^srun: error: .*(?:Out Of Memory|Killed|"
        r"Exited with exit code [1-9]|Segmentation fault|Aborted|Bus error)|\bChildFailedError\b"
        r"|^terminate called after throwing|^mpirun noticed that process rank|Primary job +terminated normally, but"
        r"|^panic: |\b[Ee]xit(?:ed)?(?: with)?(?: exit)? ?(?:code|status)\s*[:=]?\s*-?[1-9]\d{0,2}\b"
    ), _GOES_ON),
    Sign("failed", "traced", re.compile(
        r"Traceback \(most recent call last\)|^(?:[a-z_]\w{0,40}\.){0,6}[A-Z]\w{0,60}(?:Error|Exception): "
    )),
    Sign("cancelled", "traced", re.compile(
        r"(?i)\breceived (?:signal )?(?:SIG(?:TERM|INT|USR[12])|15|2)\b.{0,80}\b(?:exit|terminat|stopping|shut)"
    )),
    Sign("completed", "plain", re.compile(
        r"`Trainer\.fit` stopped: `max_|\btrain_runtime\b|\bSignaling Trainer to stop|(?i:^epoch \d+: early stopping)"
        r"|(?i:\bearly[- ]stop(?:ping|ped)(?: was)? (?:triggered|activated|at |after ))"
    )),
    Sign("completed", "plain", re.compile(
        rf"(?i)\b{_RUN}(?: (?:loop|job|process))?(?: (?:has|is|was))?(?: now| been)*(?: successfully)? {_OVER}\b"
        rf"|\b(?:finished|completed|done)(?: with)?(?: the)? {_RUN}\b"
        r"|\ball (?:epochs|steps|iterations) (?:are |have )?(?:completed?|finished|done)\b|\btotal training time\b"
    ), _ONLY_A_PART),
    Sign("completed", "passing", re.compile(
        r"(?i)\bjob (?:completed|finished|done)\b|^all done\b|\bexiting program\b"
    ), _ONLY_A_PART),
)  # fmt: skip

#: A traceback that stands under one of these is a message; the program goes on.
_HARMLESS = re.compile(
    r"^(?:Exception ignored in|(?:--- )?Logging error ---|Exception in thread )|Exception in callback"
)
_RAISED = re.compile(r"^(?:\[?\w+\]?:\s?)?[A-Za-z_][\w.]*(?:Error|Exception|Exit|Interrupt|Failure)\b(?::|\s*$)")
_TROUBLED = re.compile(r"\b(?:ERROR|CRITICAL|FATAL|WARN(?:ING)?|error|warning)\b|^\W?[EWF]\d{4} ")
#: So many ordinary lines with a time stamp after a traceback: it was caught.
_ORDINARY_LINES = 3


@dataclass(slots=True)
class End:
    """A log's end as said by ``line``, whose ``time`` is the latest known one."""

    outcome: Outcome
    strength: Strength
    line: Record


class EndWatch:
    """Keeps one file's last lines that are no training records, so many at most. `end` is what they amount to."""

    def __init__(self, most: int) -> None:
        self._lines: deque[tuple[Record, bool]] = deque(maxlen=most)

    def line(self, record: Record, *, is_stamped: bool) -> None:
        """Take a line that is no training record; ``is_stamped`` if it has a time of its own."""
        self._lines.append((record, is_stamped))

    def trained(self) -> None:
        """A training record shows that the job goes on."""
        self._lines.clear()

    def end(self) -> End | None:
        """How the file ends, or None when it does not say so."""
        reading = _Reading()
        for record, is_stamped in self._lines:
            reading.line(record, strip_prefix(record.text).rest, is_stamped)
        return reading.end


class _Reading:
    """Reads a file's last lines in order."""

    def __init__(self) -> None:
        self.end: End | None = None
        self._ordinary = 0
        self._before = ""
        self._tracing = False
        self._is_message = False

    def line(self, record: Record, rest: str, is_stamped: bool) -> None:
        sign = _read(rest)
        if sign is not None and sign.strength == "traced":
            sign = self._uncaught(sign, rest)
        if sign is not None:
            self._take(sign, record)
        if self.end is not None and self.end.line is not record:
            self._after(record, rest, is_stamped)
        self._before = rest

    def _uncaught(self, sign: Sign, rest: str) -> Sign | None:
        """The sign, unless it belongs to a traceback that stands there as a message."""
        if _HARMLESS.search(self._before):
            self._is_message = True
            return None
        was, self._is_message = self._is_message, False
        return None if was and _RAISED.match(rest) else sign

    def _take(self, sign: Sign, record: Record) -> None:
        if self.end is None or _outweighs(sign, self.end):
            self.end = End(sign.outcome, sign.strength, record)
            self._ordinary, self._tracing = 0, sign.strength == "traced"

    def _after(self, record: Record, rest: str, is_stamped: bool) -> None:
        now = self.end
        assert now is not None
        if self._tracing and _RAISED.match(rest):
            now.line, self._tracing = record, False
        if now.strength == "plain":
            return
        if _GOES_ON.search(rest, 0, 300):
            self.end = None
        elif is_stamped and not _TROUBLED.search(record.text, 0, 120):
            self._ordinary += 1
            if self._ordinary >= _ORDINARY_LINES:
                self.end = None


def _read(text: str) -> Sign | None:
    for sign in SIGNS:
        if sign.pattern.search(text, 0, 400):
            return sign if sign.unless is None or not sign.unless.search(text, 0, 400) else None
    return None


def _outweighs(sign: Sign, now: End) -> bool:
    """Whether a sign replaces the earlier one. What kills a job makes its other processes fail or be cancelled too."""
    if sign.outcome == "timeout":
        return now.outcome != "timeout"
    if now.outcome == "completed":
        return sign.outcome != "completed"
    if now.strength == "plain":
        return False
    return sign.strength == "plain" or now.strength == "passing"
