"""`read_progress(path)`: how far a job is, how fast, how long still, and whether it is in trouble."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from statistics import median
from typing import BinaryIO

from analyzers.logs import anomaly
from analyzers.logs.checkpoints import restart_points
from analyzers.logs.choosing import choose, completed, other_work, timed, without_torn_end
from analyzers.logs.countless import from_epochs, from_losses, printable
from analyzers.logs.fields import Role
from analyzers.logs.formats import LogFormat, known_formats
from analyzers.logs.intake import discover, stream_blocks
from analyzers.logs.outlook import with_outlook
from analyzers.logs.pace import Counting, Interval, intervals, present_pace, printed_pace
from analyzers.logs.remaining import Remaining, remaining
from analyzers.logs.scan import Detail, feed, feed_blocks
from analyzers.logs.series import Record, Series
from analyzers.logs.standstill import is_trusted, quiet
from analyzers.logs.tracker import Tracker
from analyzers.types import Anomaly, Checkpoint, LogEvidence, Progress, Quiet

#: So many times more records without a step than with one: the steps are not the training's.
_BESIDE = 5
_READ_KINDS = frozenset({"rank", "node", "job"})


def _ignore(_: str) -> None:
    pass


def read_progress(
    path: Path,
    *,
    now: datetime | None = None,
    warn: Callable[[str], None] = _ignore,
    formats: tuple[LogFormat, ...] = (),
) -> Progress:
    """Read a training log (a file, or a folder of them) of any known or unknown format.

    ``now`` is the present time, for telling a stalled job from a running one (without a zone: the log's own clock);
    without it the latest time in the log itself serves. ``formats`` are tried before the known ones. What the log does
    not say is None in the result.

    Raises `UserError` when there is nothing readable at ``path``; a bad file in a folder is told to ``warn``.
    """
    tracker = _tracker(now, formats)
    found = [file for file in discover(Path(path), warn) if file.kind in _READ_KINDS]
    detail = Detail.of_each(len(found))
    for file in found:
        tracker.begin(file.name, file.rank)
        feed(file, tracker, warn, detail)
        tracker.end()
    return assess(tracker)


def read_progress_from(stream: BinaryIO, *, now: datetime | None = None) -> Progress:
    """As `read_progress`, from a pipe."""
    tracker = _tracker(now)
    tracker.begin("stdin", None)
    feed_blocks(stream_blocks(stream), tracker, Detail())
    tracker.end()
    return assess(tracker)


def _tracker(now: datetime | None, formats: tuple[LogFormat, ...] = ()) -> Tracker:
    return Tracker(
        now=now.replace(tzinfo=None) if now is not None else None,
        zone=now.tzinfo if now is not None else None,
        formats=(*formats, *known_formats()),
    )


def restart_point(path: Path, *, warn: Callable[[str], None] = _ignore) -> Checkpoint | None:
    """The latest checkpoint that a job's logs (a file, or a folder of them) tell to be written completely, or None.

    For a requeue: what the log only says to have begun, or to have failed, is left out. Raises `UserError` as
    `read_progress`.
    """
    return read_progress(path, warn=warn).checkpoint


def assess(tracker: Tracker) -> Progress:
    """What the tracker's series amount to."""
    safe, unsafe = restart_points(watch for some in tracker.saves.values() for watch in some.values())
    metrics = tuple((name, printable(value)) for name, value in sorted(tracker.measured.items()))
    return replace(_assess(tracker), checkpoint=safe, unsafe_checkpoint=unsafe, metrics=metrics)


def _assess(tracker: Tracker) -> Progress:
    main = choose(tracker)
    if main is not None and not _is_beside_epochs(main, tracker):
        return with_outlook(_Assessment(tracker, main).progress(), tracker, main)
    found = from_epochs(tracker)
    if found.format is None:
        main = other_work(tracker)
        found = _Assessment(tracker, main).progress() if main is not None else from_losses(tracker)
    return with_outlook(found, tracker, main)


def _is_beside_epochs(main: Series, tracker: Tracker) -> bool:
    """Whether training prints fractions of epochs, and steps only now and then (where a checkpoint is saved)."""
    epochs = [series.count for series in tracker.epochs_only.values() if series.fractional_epochs]
    return max(epochs, default=0) > _BESIDE * main.count


@dataclass
class _Assessment:
    """The main series with what other lines add to it."""

    tracker: Tracker
    main: Series

    def progress(self) -> Progress:
        records = without_torn_end(list(completed(self.main, self.tracker)))
        last = records[-1]
        per_epoch = _restarts_each_epoch(self.main, last, self.tracker)
        total = last.total or next((r.total for r in records[-5:] if r.total is not None and not per_epoch), None)
        total = total or self._planned("total", at_least=0 if per_epoch else last.step or 0)
        if per_epoch and last.total is None:
            total = self._planned("per_epoch") or total
        epochs = last.epochs or next((r.epochs for r in reversed(records) if r.epochs), None)
        epochs = epochs or self._planned("epochs", at_least=int(last.epoch or 0))
        counting = Counting(total if per_epoch else None)
        found = intervals(records, counting, self.tracker.whole_seconds)
        recent = records[-len(self.main.recent()) :]
        pace = self._pace(records, recent, found)
        losses = self._losses(records)
        done = not per_epoch and total is not None and (last.step or 0) >= total
        silence = None if done else self._quiet(last)
        trouble, evidence = self._trouble(records, found, losses, silence)
        later = self._later_epoch(last)
        left = self._steps_left(last, per_epoch, total, epochs) if pace is not None and later is None else None
        eta = remaining(left, pace, self._alike(found, pace)) if left is not None and pace is not None else None
        said = next((record.eta for record in reversed(records[-2:]) if record.eta is not None), None)
        if eta is None and said is not None and not (self.main.format and self.main.format.bar):
            eta = Remaining(said, said * 0.75, said * 1.25)
        if trouble == "stall":
            eta = None
        return Progress(
            current_step=last.step if later is None or not per_epoch else None,
            total_steps=total,
            current_epoch=last.epoch if later is None else later.epoch,
            total_epochs=epochs,
            seconds_per_step=pace,
            last_loss=printable(losses[-1][0]) if losses else None,
            eta_seconds=eta.seconds if eta is not None else None,
            eta_range=(eta.low, eta.high) if eta is not None else None,
            anomaly=trouble,
            evidence=tuple(dict.fromkeys((*evidence, (later or self.main.last or last).evidence()))),
            format=self._format_name(),
            quiet=silence,
        )

    def _later_epoch(self, last: Record) -> Record | None:
        """A later line without a step that is at least two epochs further: steps are logged too rarely to tell."""
        latest = self.tracker.epoch_lines.get(self.main.rank)
        if latest is None or latest.epoch is None or last.epoch is None or latest.order < last.order:
            return None
        return latest if latest.epoch >= last.epoch + 2 else None

    def _format_name(self) -> str:
        """The main series' format; a bare bar takes the name of the framework whose lines surround it."""
        own = self.main.format
        seen = self.tracker.formats_seen
        if own is not None and own.general and seen:
            return max(seen, key=lambda name: seen[name])
        return own.name if own is not None else "general"

    def _planned(self, role: Role, at_least: int = 1) -> int | None:
        """A total that the log announces (the one named most plainly) and the step has not passed."""
        announced = self.tracker.planned.get(role, {})
        fitting = [amount for _, amount in sorted(announced.items()) if amount >= at_least]
        if not fitting and role == "total":
            fitting = [amount for amount in self._said_once() if amount >= at_least]
        return fitting[0] if fitting else None

    def _said_once(self) -> Iterator[int]:
        """Numbers of steps that stand once, before the first record ("steps: 15000" in a configuration)."""
        begin = next(iter(self.main)).order
        for series in self.tracker.series.values():
            last = series.last
            plural = series.label.endswith(("steps", "iterations", "iters", "updates"))
            if plural and series.count == 1 and last is not None and last.order < begin and last.step:
                yield last.step

    def _pace(self, records: list[Record], recent: list[Record], found: list[Interval]) -> float | None:
        by_time = present_pace(found) if any(record.time is not None for record in recent) else None
        if by_time is not None and len(found) >= 2:
            return by_time
        return printed_pace(recent) or by_time or present_pace(found)

    def _alike(self, found: list[Interval], pace: float) -> list[Interval]:
        """The intervals since the pace became the present one, if they were told by time stamps."""
        if self.tracker.last_time is None:
            return []
        at = anomaly.slowdown([interval.pace for interval in found])
        since = [self._explained(interval, pace) for interval in (found[at:] if at is not None else found)]
        return since if since and 0.7 * pace < median(i.pace for i in since) < 1.5 * pace else []

    def _explained(self, interval: Interval, pace: float) -> Interval:
        """Whether a longer interval is known to hold an evaluation or a save."""
        if interval.pace < 1.6 * pace or not self.tracker.signs.between(interval.since, interval.end.order):
            return interval
        return replace(interval, is_explained=True)

    def _losses(self, records: list[Record]) -> list[tuple[float, Record]]:
        own = [(record.loss, record) for record in records if record.loss is not None]
        beside = self.tracker.loose.get(self.main.rank, ())
        plainest = min((loose.rank for loose in beside), default=0)  # "loss" of "value_loss", "entropy_loss", "loss"
        loose = [(loose.loss, loose.record) for loose in beside if loose.rank == plainest]
        return loose if len(loose) > 2 * len(own) else own or loose

    def _steps_left(self, last: Record, per_epoch: bool, total: int | None, epochs: int | None) -> float | None:
        """Steps to the end of the whole run."""
        if last.step is None:
            return None
        first = self._first_epoch()
        if per_epoch:
            if total is None or epochs is None or last.epoch is None:
                return None
            return max(0.0, (epochs - 1 - (int(last.epoch) - first)) * total + total - last.step)
        if total is not None:
            return max(0.0, float(total - last.step))
        per = self._planned("per_epoch")
        if epochs is not None and per is not None:
            return max(0.0, float(epochs * per - last.step))
        if epochs is not None and self.main.fractional_epochs and last.epoch:
            return max(0.0, (epochs - last.epoch) * last.step / last.epoch)
        return None

    def _first_epoch(self) -> int:
        """The number that the first epoch is printed with: 0 or 1."""
        known = self.main.format.epoch_from if self.main.format else None
        if self.main.first_epoch == 0:
            return 0
        return 1 if known is None else known

    def _trouble(
        self,
        records: list[Record],
        found: list[Interval],
        losses: list[tuple[float, Record]],
        silence: Quiet | None,
    ) -> tuple[Anomaly | None, tuple[LogEvidence, ...]]:
        verdict = anomaly.divergence([loss for loss, _ in losses])
        if verdict == "divergence":
            return "divergence", (losses[-1][1].evidence(),)
        broken = self.tracker.broken
        if broken is not None and broken.order > records[-1].order:
            return "divergence", (broken.evidence(),)
        if silence is not None and silence.seconds > silence.stall_after_s:
            return "stall", ()
        slow = self._slow(records, found)
        if slow is not None:
            return "slowdown", (slow.evidence(),)
        straggling = self._straggler()
        if straggling is not None:
            return "straggler", (straggling.evidence(),)
        return ("loss_spike", (losses[-1][1].evidence(),)) if verdict == "loss_spike" else (None, ())

    def _quiet(self, last: Record) -> Quiet | None:
        if self.tracker.finished_at >= last.order or not is_trusted(self.main):
            return None
        return quiet(self.tracker, timed(self.main, self.tracker))

    def _slow(self, records: list[Record], found: list[Interval]) -> Record | None:
        by_time = any(record.time is not None for record in records)
        said = [record for record in records if record.pace is not None]
        if by_time and len(found) >= len(said) / 4:
            at = anomaly.slowdown([interval.pace for interval in found])
            return found[at].end if at is not None else None
        at = anomaly.slowdown([record.pace or 0.0 for record in said])
        return said[at] if at is not None else None

    def _straggler(self) -> Record | None:
        alike = {s.rank: s for s in self.tracker.series.values() if s.label == self.main.label and s.rank is not None}
        paces: dict[int, float] = {}
        for rank, series in alike.items():
            said = [record.pace for record in series.recent()[-10:] if record.pace is not None]
            if rank is not None and len(said) >= 3:
                paces[rank] = median(said)
        slowest = anomaly.straggler(paces)
        if slowest is None:
            steps = {rank: s.last.step for rank, s in alike.items() if rank is not None and s.last and s.last.step}
            stride = max(1, self.main.covered // max(1, self.main.advanced))
            slowest = anomaly.lagging(steps, stride)
        return alike[slowest].last if slowest is not None else None


def _restarts_each_epoch(main: Series, last: Record, tracker: Tracker) -> bool:
    """Whether steps count within an epoch."""
    if main.fractional_epochs:
        return False
    if main.laps_with_new_epoch or main.new_epochs_without_lap:
        return main.laps_with_new_epoch > main.new_epochs_without_lap
    if last.epoch is None or last.total is None:
        return False
    return last.total not in tracker.planned.get("total", {}).values()
