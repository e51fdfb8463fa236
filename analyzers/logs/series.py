"""A series of progress records in bounded memory: all of its recent past, a thinned-out older past."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass

from analyzers.logs.formats import LogFormat
from analyzers.logs.limits import USUAL, Limits
from analyzers.logs.pauses import GapWatch, Silence
from analyzers.types import LogEvidence

_MAX_EVIDENCE = 400


@dataclass(slots=True)
class Record:
    """One progress record. ``order`` counts records over the whole input; ``lap`` grows when the step falls back;
    ``time`` is in Unix seconds (or seconds on a clock without a year); ``gap`` counts the stretches of the input that
    were passed over before it; ``arrived`` is when a follower saw it, of a log without time stamps; the rest as in
    `Reading`."""

    file: str
    number: int
    text: str
    order: int
    lap: int
    step: int | None = None
    total: int | None = None
    epoch: float | None = None
    epochs: int | None = None
    loss: float | None = None
    time: float | None = None
    elapsed: float | None = None
    pace: float | None = None
    eta: float | None = None
    gap: int = 0
    arrived: float | None = None

    @property
    def at(self) -> float | None:
        """Its time, or else when it was seen."""
        return self.time if self.time is not None else self.arrived

    def evidence(self) -> LogEvidence:
        """The line this was read from."""
        return LogEvidence(self.file, self.number, self.text[:_MAX_EVIDENCE])


class Series:
    """Records of one kind from one rank, in order of appearance.

    ``started`` is the first step, ``travelled`` where the last record is in steps of the whole run, as far as known.
    """

    def __init__(self, label: str, rank: int | None, limits: Limits = USUAL) -> None:
        self.label = label
        self.rank = rank
        self.format: LogFormat | None = None
        self.is_eval = False
        self.is_other = False
        self.is_mined = False
        self.count = 0
        self.advanced = 0
        self.covered = 0
        self.laps_with_new_epoch = 0
        self.new_epochs_without_lap = 0
        self.first_epoch: float | None = None
        self.fractional_epochs = 0
        self.started = 0.0
        self.travelled = 0.0
        self.gaps = GapWatch()
        self._older: list[Record] = []
        self._most_older = limits.older
        self._stride = 1
        self._recent: deque[Record] = deque(maxlen=limits.recent)

    def add(self, record: Record) -> None:
        """Append one record, giving it its lap; the same step again replaces the record (bars redraw)."""
        previous = self.last
        if previous is not None:
            record.lap = previous.lap
            self._compare(previous, record)
            self._travel(previous, record)
        else:
            self.started = self.travelled = float(record.step or 0)
        if record.epoch is not None:
            if self.first_epoch is None:
                self.first_epoch = record.epoch
            self.fractional_epochs += record.epoch != int(record.epoch)
        if previous is not None and self._redraws(previous, record):
            self._keep_known(previous, record)
            self._recent[-1] = record
            return
        self.count += 1
        if len(self._recent) == self._recent.maxlen:
            self._age(self._recent[0])
        self._recent.append(record)

    def _compare(self, previous: Record, record: Record) -> None:
        """How the record follows on the one before. Over a gap, restarts may have been passed over: they are not
        counted, and where steps restart without an epoch a new stretch begins."""
        new_epoch = None not in (previous.epoch, record.epoch) and record.epoch != previous.epoch
        if record.step is None or previous.step is None:
            return
        if record.gap != previous.gap:
            new_epoch = False
            if record.lap and record.epoch is None and not self.is_mined and record.step >= previous.step:
                record.lap += 1
        if record.step < previous.step:
            record.lap += 1
            self.laps_with_new_epoch += new_epoch
        else:
            self.new_epochs_without_lap += new_epoch and record.step > previous.step
            self.advanced += record.step > previous.step
            self.covered += record.step - previous.step

    def _travel(self, previous: Record, record: Record) -> None:
        """How far the run has come, and how long the way from the record before took."""
        is_new = None not in (previous.epoch, record.epoch) and int(record.epoch or 0) != int(previous.epoch or 0)
        if previous.at is not None and record.at is not None and previous.gap == record.gap:
            passed = record.at - previous.at
            if passed > 0 and record.file == previous.file:
                self.gaps.gap(Silence(previous.order, record.order, self.travelled, previous.at, passed, is_new))
        here, before = record.step or 0, previous.step or 0
        if here >= before:
            self.travelled += here - before
        elif is_new:
            self.travelled += here + max(0, (previous.total or before) - before)
        else:
            self.travelled = float(here)

    @staticmethod
    def _redraws(previous: Record, record: Record) -> bool:
        return record.step is not None and record.step == previous.step and record.epoch == previous.epoch

    @staticmethod
    def _keep_known(previous: Record, record: Record) -> None:
        """A redrawn bar keeps what the earlier drawing said and this one does not."""
        if record.loss is None:
            record.loss = previous.loss
        if previous.time is not None:
            record.time = previous.time
        if previous.arrived is not None:
            record.arrived = previous.arrived
        if previous.elapsed is not None:
            record.elapsed = previous.elapsed
        record.pace = record.pace or previous.pace

    def _age(self, record: Record) -> None:
        if self.count % self._stride == 0:
            self._older.append(record)
            if len(self._older) > self._most_older:
                self._older = self._older[::2]
                self._stride *= 2

    @property
    def last(self) -> Record | None:
        """The latest record."""
        return self._recent[-1] if self._recent else None

    def __iter__(self) -> Iterator[Record]:
        yield from self._older
        yield from self._recent

    def records(self) -> list[Record]:
        """What is kept, in order."""
        return [*self._older, *self._recent]

    def recent(self) -> list[Record]:
        """The recent past without gaps."""
        return list(self._recent)
