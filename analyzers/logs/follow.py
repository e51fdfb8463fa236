"""Follows logs that are being written: what was added since the last look, however many files there are.

Polls, opens only what has grown, reads the more of it the fewer files there are, and keeps little of
each. A file that is rotated, replaced or truncated goes on as the same log.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from glob import escape
from pathlib import Path

from analyzers.logs.anomaly import stall_after_s
from analyzers.logs.companions import LogFile
from analyzers.logs.intake import CHUNK_BYTES, Cutter, discover
from analyzers.logs.limits import SPARE, USUAL
from analyzers.logs.packed import is_packed
from analyzers.logs.plain import Plain
from analyzers.logs.progress import assess
from analyzers.logs.scan import Detail, feed, feed_blocks
from analyzers.logs.tracker import Tracker
from analyzers.types import Progress
from prompts.errors import UserError

#: Of all that is added in a second, about so much is read line by line; the rest is sampled.
_READ_BYTES_PER_S = 96 * 1024
_LEAST_READ_BYTES = 200
#: Up to so many logs are kept in full.
_FEW = 16
_READ_KINDS = frozenset({"rank", "node", "job"})
_GROWTHS = 32

Warn = Callable[[str], None]


@dataclass(slots=True)
class Followed:
    """One log and what is known of it. ``progress`` is as of the last `Follower.assess`."""

    file: LogFile
    tracker: Tracker
    progress: Progress = field(default_factory=Progress)
    is_packed: bool = False
    _offset: int = 0
    _inode: int = 0
    _plain: Plain = field(default_factory=Plain)
    _cutter: Cutter = field(default_factory=Cutter)
    _told_rest: bool = True
    _is_copy: bool = False
    #: A file that began anew may be a copy up to where it was before, while it grows at each look.
    _copied_to: int = 0
    _moves: deque[float] = field(default_factory=lambda: deque(maxlen=_GROWTHS))
    _step: tuple[int | None, float | None] = (None, None)

    def read(self, detail: Detail, warn: Warn, arrived: float | None = None) -> bool:
        """Read what was added; True when something was. ``arrived`` is when, in seconds; None for what was there
        before. What a file begins with may be a copy of what was there before, and tells no time either."""
        self.tracker.arrived = None if self._is_copy else arrived
        try:
            stat = self.file.path.stat()
            if stat.st_size == self._offset and stat.st_ino == self._inode:
                self._copied_to = 0
                return self._tell_rest()
            is_anew = stat.st_ino != self._inode or stat.st_size < self._offset
            self._is_copy = is_anew or not self._offset or self._offset < self._copied_to
            self.tracker.arrived = arrived if is_anew or not self._is_copy else None
            if is_anew:
                if self._inode and stat.st_ino != self._inode:
                    self._read_rotated(detail)
                self._start_anew(stat.st_ino)
                self.tracker.arrived = None
            if stat.st_size == 0:
                return False
            with self.file.path.open("rb") as stream:
                stream.seek(self._offset)
                feed_blocks(self._blocks(stream.read1, stat.st_size), self.tracker, detail)
        except FileNotFoundError:
            return False  # between the two halves of a rotation
        except OSError as error:
            warn(f"{self.file.path}: cannot be read now ({error.strerror})")
            return False
        self._told_rest = False
        return True

    def _read_rotated(self, detail: Detail) -> None:
        """What was written to the old file after the last look, where it lies beside the new one (``train.log.1``)."""
        path = self.file.path
        for other in path.parent.glob(f"{escape(path.name)}?*"):
            stat = other.stat()
            if stat.st_ino != self._inode or stat.st_size < self._offset:
                continue
            with other.open("rb") as stream:
                stream.seek(self._offset)
                feed_blocks(self._blocks(stream.read1, stat.st_size), self.tracker, detail)
            self._told_rest = False
            self._tell_rest()
            return

    def _start_anew(self, inode: int) -> None:
        self._copied_to, self._offset, self._inode = self._offset, 0, inode
        self._plain, self._cutter = Plain(), Cutter()

    def _blocks(self, read: Callable[[int], bytes], until: int) -> Iterator[tuple[int, bytes]]:
        while self._offset < until:
            chunk = read(min(CHUNK_BYTES, until - self._offset))
            if not chunk:
                return
            self._offset += len(chunk)
            block = self._cutter.push(self._plain.text(chunk))
            if block is not None:
                yield block

    def _tell_rest(self) -> bool:
        """A last line without an end counts once nothing follows it (it may be read again when something does)."""
        rest = None if self._told_rest else self._cutter.rest()
        self._told_rest = True
        if rest is None:
            return False
        feed_blocks([rest], self.tracker, Detail())
        return True

    def assess(self, now: datetime, passed_s: float) -> None:
        """What the log amounts to at ``now``; ``passed_s`` are the follower's own seconds, for logs that only count
        epochs and have no times."""
        self.tracker.now = (now - timedelta(seconds=self.tracker.lags.behind_s())).replace(tzinfo=None)
        self.tracker.end()
        found = assess(self.tracker)
        step = found.current_step, found.current_epoch
        if step != self._step:
            self._step = step
            self._moves.append(passed_s)
        if found.anomaly is None and found.ended is None and self._is_still(found, passed_s):
            found = replace(found, anomaly="stall", eta_seconds=None, eta_range=None)
        self.progress = found

    def _is_still(self, found: Progress, passed_s: float) -> bool:
        """Whether a log without time stamps, and without steps that were seen coming, has not moved for far longer than
        it used to."""
        is_seen = found.current_step is not None and not self._is_copy
        if "time" not in found.not_understood or is_seen or len(self._moves) < 4:
            return False
        return passed_s - self._moves[-1] > stall_after_s(list(self._moves))


class Follower:
    """All logs at a path. Call `poll` again and again; then `assess` some of them.

    Raises `UserError` when the path can not be read at all.
    """

    def __init__(self, path: Path, warn: Warn, every_s: float) -> None:
        self.logs: dict[str, Followed] = {}
        self._path, self._warn, self._every_s = path, warn, every_s
        self._known: dict[Path, LogFile] = {}
        self._turn: deque[str] = deque()
        self._begun = datetime.now().astimezone()
        self.look()

    def look(self) -> None:
        """Look for logs that are new at the path."""
        told: list[str] = []
        try:
            found = [file for file in discover(self._path, told.append, self._known) if file.path not in self._known]
        except UserError:
            if not self.logs:
                raise
            return
        found = [file for file in found if file.kind in _READ_KINDS]
        limits = USUAL if len(self.logs) + len(found) <= _FEW else SPARE
        detail = Detail.of_each(len(self.logs) + len(found))
        for file in found:
            self._known[file.path] = file
            here = datetime.now(self._begun.tzinfo)
            tracker = Tracker(now=here.replace(tzinfo=None), zone=here.tzinfo, limits=limits)
            tracker.begin(file.name, file.rank)
            log = self.logs[file.name] = Followed(file, tracker, is_packed=_is_packed(file.path))
            self._turn.append(file.name)
            if log.is_packed:
                feed(file, tracker, self._warn, detail)  # it grows no more
            else:
                log.read(detail, self._warn)

    def poll(self, passed_s: float = 0.0) -> list[Followed]:
        """Read what was added everywhere; the logs that have grown. ``passed_s`` are the follower's own seconds, which
        are the times of what is added to a log without time stamps."""
        arrived = self._own_time(passed_s).replace(tzinfo=UTC).timestamp()
        share = max(_LEAST_READ_BYTES, int(_READ_BYTES_PER_S * self._every_s / max(1, len(self.logs))))
        detail = Detail(0, 0, share)
        return [log for log in self.logs.values() if not log.is_packed and log.read(detail, self._warn, arrived)]

    def _own_time(self, passed_s: float) -> datetime:
        """The time on the wall when the follower began, and so many seconds."""
        return self._begun + timedelta(seconds=passed_s)

    def assess(self, most: int, passed_s: float) -> list[Followed]:
        """Assess the logs whose turn it is, so many at most."""
        now = datetime.now(self._begun.tzinfo)  # no summer time begins or ends in it
        done = []
        for _ in range(min(most, len(self._turn))):
            self._turn.rotate(-1)
            log = self.logs[self._turn[-1]]
            is_stamped = log.tracker.last_time is not None
            log.assess(now if is_stamped else self._own_time(passed_s), passed_s)
            done.append(log)
        return done


def _is_packed(path: Path) -> bool:
    try:
        with path.open("rb") as raw:
            return is_packed(raw.read(6))
    except OSError:
        return False
