"""Turns lines into series of records, passing over most of the dense ones in a large file."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from datetime import datetime, tzinfo

from analyzers.logs.checkpoints import Saved, SaveWatch
from analyzers.logs.clock import Clock, Lags, present_after
from analyzers.logs.ending import End, EndWatch
from analyzers.logs.fields import Role
from analyzers.logs.formats import LogFormat, known_formats
from analyzers.logs.limits import USUAL, Limits
from analyzers.logs.mining import Candidate
from analyzers.logs.pauses import PauseKind, Signs, kind_of
from analyzers.logs.prefix import strip_prefix, time_within
from analyzers.logs.reading import Reading, read_line
from analyzers.logs.remarks import BROKEN, EVAL_BEGINS, FINISHED, PAUSING, named_interval
from analyzers.logs.saving import Save, may_save, read_save
from analyzers.logs.series import Record, Series
from analyzers.logs.table import Table

#: A date that a line holds but does not begin with is its time stamp within so many characters.
_STAMP_WITHIN = 100
_BLOCK_LINES = 20
#: Totals that are named equally plainly; the first that the step has not passed counts.
_MAX_PLANNED = 4
#: A bar within so many lines of the words for an evaluation is its own.
_EVAL_WITHIN = 8


@dataclass(slots=True)
class Loose:
    """A training loss on a line without a step; ``rank`` tells how plainly it is named (lower is better)."""

    order: int
    loss: float
    record: Record
    rank: int


@dataclass(slots=True)
class Context:
    """What was last said on lines without a step, per file and rank."""

    epoch: float | None = None
    epochs: int | None = None


@dataclass
class Tracker:
    """Everything read so far. Feed it with `line`; the series are in ``series`` afterwards.

    ``now`` has no zone of its own; ``zone`` is the one it was given in. ``stamps`` are the latest times in the file
    that goes on longest, ``stamped`` the last line that has one, ``since_stamp`` how many lines follow it;
    ``begins`` and ``latest`` are the first and last times in each file. ``arrived`` is when the lines to come were
    seen, in seconds, where that is known: it counts in a file without time stamps; ``lags`` are how much later than
    their time stamps the latest lines were seen.
    """

    now: datetime | None = None
    zone: tzinfo | None = None
    limits: Limits = USUAL
    formats: tuple[LogFormat, ...] = field(default_factory=known_formats)
    series: dict[tuple[int | None, str], Series] = field(default_factory=dict)
    epochs_only: dict[int | None, Series] = field(default_factory=dict)
    epoch_lines: dict[int | None, Record] = field(default_factory=dict)
    loose: dict[int | None, deque[Loose]] = field(default_factory=dict)
    planned: dict[Role, dict[tuple[int, int], int]] = field(default_factory=dict)
    formats_seen: dict[str, int] = field(default_factory=dict)
    order: int = 0
    last_time: float | None = None
    arrived: float | None = None
    lags: Lags = field(default_factory=Lags)
    finished_at: int = -1
    signs: Signs = field(default_factory=lambda: Signs(USUAL.signs))
    intervals: dict[PauseKind, int] = field(default_factory=dict)
    broken: Record | None = None
    whole_seconds: bool = True
    stamps: deque[float] = field(default_factory=deque)
    stamped: Record | None = None
    since_stamp: int = 0
    ends: dict[str, End] = field(default_factory=dict)
    trained: dict[str, float | None] = field(default_factory=dict)
    saves: dict[str, dict[int | None, SaveWatch]] = field(default_factory=dict)
    measured: dict[str, float] = field(default_factory=dict)
    _clock: Clock = field(default_factory=Clock)
    spans: dict[str, tuple[int, int]] = field(default_factory=dict)
    begins: dict[str, float] = field(default_factory=dict)
    latest: dict[str, float] = field(default_factory=dict)
    _latest: dict[int | None, Record] = field(default_factory=dict)
    _contexts: dict[int | None, Context] = field(default_factory=dict)
    _table: Table = field(default_factory=Table)
    _watch: EndWatch = field(default_factory=lambda: EndWatch(USUAL.last_lines))
    _stamps: deque[float] = field(default_factory=deque)
    _stamped: Record | None = None
    _since_stamp: int = 0
    _gaps: int = 0
    _number: int = -1
    _line_time: datetime | None = None
    _eval_at: int = -_EVAL_WITHIN
    _mined: int = 0
    _reached: dict[int | None, Record] = field(default_factory=dict)
    _is_saving: bool = False
    _trained_at: int = -1
    _firsts: dict[tuple[int | None, str], int] = field(default_factory=dict)
    _file: str = ""
    _file_rank: int | None = None

    def begin(self, file: str, rank: int | None) -> None:
        """A new file begins; ``rank`` is the one its name gives."""
        self._file, self._file_rank = file, rank
        self._clock = Clock(self.now, self.zone)
        self._watch, self._stamps, self._stamped, self._since_stamp = (
            EndWatch(self.limits.last_lines),
            deque(maxlen=self.limits.stamps),
            None,
            0,
        )
        self._table = Table()
        self._reached, self._is_saving = {}, False
        self.spans[file] = (self.order, self.order)

    def end(self) -> None:
        """The file that was begun is over, or as far as it has been written."""
        self.spans[self._file] = (self.spans[self._file][0], self.order)
        end = self._watch.end()
        if end is not None:
            self.ends[self._file] = end
        else:
            self.ends.pop(self._file, None)
        if self._stamps and (not self.stamps or self._stamps[-1] >= self.stamps[-1]):
            self.stamps, self.stamped, self.since_stamp = self._stamps, self._stamped, self._since_stamp

    def gap(self) -> None:
        """Some of the file is passed over here."""
        self._gaps += 1
        self._latest.clear()

    def present(self, last: float) -> float | None:
        """``now`` in seconds, or None when it is not given; see `present_after`."""
        return present_after(self.now, last) if self.now is not None else None

    def recency(self, record: Record) -> float:
        """Where in its file a record stands, from 0 (beginning) to 1 (end)."""
        start, end = self.spans.get(record.file, (0, 0))
        return (record.order - start) / max(1, end - start)

    def line(self, number: int, text: str) -> bool:
        """Take one line, or one drawing of its bar; True when it said something about progress."""
        self.order += 1
        told = self._line(number, text)
        if may_save(text):
            told = self._save(number, text) or told
        elif self._is_saving and "Traceback (most recent" in text:
            self._note_save(Save("failed"), number, text, None)
        return told

    def _line(self, number: int, text: str) -> bool:
        if number != self._number:
            self._number, self._line_time = number, None
        if self._table.may_be(text):
            row = self._table.row(text)
            if row is not None:
                self.measured.update(row.measured or {})
                self._enter(row, number, text)
                return True
        reading = read_line(text, self.formats)
        if reading is None or reading.step is None:
            self._plain(number, text, reading.time if reading is not None else None)
            self._note(number, text)
        if reading is None:
            return False
        if reading.measured:
            self.measured.update(reading.measured)
        if not reading.says_something:
            return True
        self._enter(reading, number, text)
        return True

    def _save(self, number: int, text: str) -> bool:
        """A line that may tell of a checkpoint."""
        prefix = strip_prefix(text)
        save = read_save(prefix.rest)
        if save is None:
            return False
        self._note_save(save, number, text, prefix.rank if prefix.rank is not None else self._file_rank)
        return True

    def _note_save(self, save: Save, number: int, text: str, rank: int | None) -> None:
        record = Record(self._file, number, text[: self.limits.text], self.order, 0, time=self._clock.last)
        reached = self._reached.get(rank) or self._reached.get(None)
        if save.says == "failed" and save.path is None and save.step is None:
            for watch in self._watches(rank):
                watch.failed(Saved(save, record, reached))
            return
        watches = self.saves.setdefault(self._file, {})
        if rank in watches or len(watches) < self.limits.series:
            watches.setdefault(rank, SaveWatch()).line(save, record, reached)
            self._is_saving = True
        if save.says in ("begun", "part", "staged", "done"):
            self.signs.say("save", self.order, self._at, self._trained_at)

    def _watches(self, rank: int | None) -> list[SaveWatch]:
        """What follows the checkpoints of a rank of this file; where lines have no rank, of all of them."""
        known = self.saves.get(self._file, {})
        return [watch for other, watch in known.items() if rank is None or other is None or rank == other]

    def _goes_on(self, record: Record | None, rank: int | None) -> None:
        """Training has gone on to a record, or is done."""
        if record is not None:
            self._reached[rank], self._trained_at = record, record.order
        if self._is_saving:
            for watch in self._watches(rank):
                watch.trained(record)
            self._is_saving = any(watch.pending for watch in self._watches(None))

    def _plain(self, number: int, text: str, time: datetime | None) -> None:
        """A line without a step: its time, and what it says about the job's end."""
        if not text or text.isspace():
            return
        begins = strip_prefix(text).time if time is None or self.arrived is not None else None
        time = time or begins or time_within(text, _STAMP_WITHIN)
        self._line_time = self._line_time or time
        self._since_stamp += 1
        if time is not None:
            self._stamp(self._clock.seconds(time), number, text, is_own=begins is not None)
        record = Record(self._file, number, text[: self.limits.text], self.order, 0, time=self._clock.last)
        self._watch.line(record, is_stamped=time is not None)

    def _stamp(self, time: float, number: int, text: str, *, is_own: bool = True) -> None:
        """A line has a time; ``is_own``: when it was written, rather than one that it may speak of."""
        self.last_time = self.latest[self._file] = time
        if self.arrived is not None and is_own:
            self.lags.note(self.arrived, time)
        self.begins.setdefault(self._file, time)
        self._stamps.append(time)
        self._since_stamp = 0
        if self._stamped is None or self._stamped.order != self.order:
            self._stamped = Record(self._file, number, text[: self.limits.text], self.order, 0, time=time)

    def _note(self, number: int, text: str) -> None:
        """A line that counts nothing may still say that the job is done, pauses, or has a broken loss."""
        if FINISHED.search(text, 300):
            self.finished_at = self.order
            self._goes_on(None, None)
        if BROKEN.search(text, 500):
            self.broken = Record(self._file, number, text[: self.limits.text], self.order, 0)
        named = named_interval(text)
        if named is not None:
            self.intervals[named[0]] = named[1]
        elif PAUSING.search(text, 300):
            self._sign(text)
        if "***" in text and EVAL_BEGINS.search(text, 0, 300):
            self._eval_at = self.order

    def _sign(self, text: str) -> None:
        self.signs.say(kind_of(text), self.order, self._at, self._trained_at)

    @property
    def _at(self) -> float | None:
        """The latest time in the file; of one without time stamps when the line was seen."""
        return self._clock.last if self._clock.last is not None else self.arrived

    def _enter(self, reading: Reading, number: int, text: str) -> None:
        rank = reading.rank if reading.rank is not None else self._file_rank
        for role, priority, amount in reading.planned:
            told = self.planned.setdefault(role, {})
            index = sum(known == priority for known, _ in told)
            if index < _MAX_PLANNED and amount not in told.values():
                told[priority, index] = amount
        said = reading.time or self._line_time  # a collector's stamp stands once before all drawings of a bar
        time = self._clock.seconds(said) if said is not None else None
        if time is not None:
            self._stamp(time, number, text)
            self.whole_seconds = self.whole_seconds and self._clock.whole_seconds
        if reading.format is not None and not reading.format.general:
            self.formats_seen[reading.format.name] = self.formats_seen.get(reading.format.name, 0) + 1
        if self.finished_at == self.order:
            return
        if reading.is_eval:
            self.signs.say("eval", self.order, self._at, self._trained_at)
        record = Record(
            self._file, number, text[: self.limits.text], self.order, 0, reading.step, reading.total, reading.epoch,
            reading.epochs, reading.loss, time, reading.elapsed, reading.pace, reading.eta, self._gaps,
            self.arrived if self._clock.last is None else None,
        )  # fmt: skip
        context = self._contexts.setdefault(rank, Context())
        if record.step is None and record.epoch is not None:
            self.epoch_lines[rank] = record
        if record.step is None and reading.is_eval:
            return
        if record.step is None:
            self._without_step(reading, record, rank, context)
            for candidate in reading.mined:
                self._mine(candidate, record, rank, context)
            return
        if record.epoch is None:
            record.epoch, record.epochs = context.epoch, record.epochs or context.epochs
        self._add(self._series(reading, rank), record)
        if not reading.is_eval:
            self._latest[rank] = record

    def _add(self, series: Series, record: Record) -> None:
        """Enter a record; one that goes on with training shows that the job does."""
        last = series.last
        moved = last is None or record.step != last.step or record.epoch != last.epoch
        known = series.advanced >= (4 if series.is_mined else 1) or record.loss is not None or record.epoch is not None
        if moved and known and not (series.is_eval or series.is_other):
            self._watch.trained()
            self.trained[self._file] = record.time
            self._goes_on(record, series.rank)
        series.add(record)

    def _mine(self, candidate: Candidate, record: Record, rank: int | None, context: Context) -> None:
        key = (rank, candidate.label)
        found = self.series.get(key)
        if found is None:
            if self._mined >= self.limits.mined:
                return
            self._mined += 1
            found = self.series[key] = Series(candidate.label, rank, self.limits)
            found.is_mined, found.is_other = True, candidate.is_other
        if candidate.is_left:  # counts down from where it was first seen
            first = self._firsts.setdefault(key, candidate.step)
            candidate = candidate._replace(step=first - candidate.step, total=first)
            if candidate.step < 0:
                return
        mined = Record(
            record.file, record.number, record.text, record.order, 0, candidate.step, candidate.total, context.epoch,
            loss=record.loss, time=record.time, elapsed=record.elapsed, pace=record.pace, eta=record.eta,
            gap=record.gap, arrived=record.arrived,
        )  # fmt: skip
        self._add(found, mined)

    def _without_step(self, reading: Reading, record: Record, rank: int | None, context: Context) -> None:
        latest = self._latest.get(rank)
        if latest is not None and record.order - latest.order <= _BLOCK_LINES and latest.file == record.file:
            for name in ("pace", "elapsed", "eta"):  # a record printed as a block, one value a line
                if getattr(latest, name) is None:
                    setattr(latest, name, getattr(record, name))
        if reading.epoch is not None:
            context.epoch = reading.epoch
            context.epochs = reading.epochs or context.epochs
            only = self.epochs_only.setdefault(rank, Series("epoch", rank, self.limits))
            only.format = only.format or reading.format
            if only.last is not None and only.last.epoch is not None and reading.epoch > only.last.epoch:
                self._watch.trained()
                self._goes_on(record, rank)
            only.add(record)
        if reading.loss is not None:
            losses = self.loose.setdefault(rank, deque(maxlen=self.limits.loose))
            losses.append(Loose(record.order, reading.loss, record, reading.loss_rank))

    def _series(self, reading: Reading, rank: int | None) -> Series:
        key = (rank, f"{'eval ' if reading.is_eval else ''}{reading.label}")
        found = self.series.get(key)
        if found is None:
            if len(self.series) >= self.limits.series:
                key = (None, "overflow")
            found = self.series.setdefault(key, Series(reading.label, rank, self.limits))
            found.is_eval = reading.is_eval or self._is_announced(reading)
            found.is_other = reading.is_other
        found.format = reading.format or found.format
        return found

    def _is_announced(self, reading: Reading) -> bool:
        """Whether a bar of a new length follows on the words for an evaluation."""
        is_bar = reading.format is not None and reading.format.bar
        return is_bar and self.order - self._eval_at <= _EVAL_WITHIN
