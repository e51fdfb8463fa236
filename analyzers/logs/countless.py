"""Progress of logs that print no step: epochs, whole or as a fraction that grows, or nothing but losses."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Sequence
from dataclasses import replace

from analyzers.logs import anomaly
from analyzers.logs.pace import Counting, intervals, present_pace
from analyzers.logs.remaining import remaining
from analyzers.logs.series import Record
from analyzers.logs.standstill import stands_still
from analyzers.logs.tracker import Tracker
from analyzers.types import Anomaly, Progress

#: Fractions of an epoch are printed to two places: what is compared lies so far apart, or a share of all there is.
_FAR_APART = 0.1
_LEAST_PARTS = 12
#: Fractions of an epoch are counted in these parts.
_PARTS = 1_000_000


def from_epochs(tracker: Tracker) -> Progress:
    """Progress of a log that only counts epochs."""
    series = max(tracker.epochs_only.values(), key=lambda s: s.count, default=None)
    last = series.last if series is not None else None
    told = last is not None and series is not None and (series.count >= 2 or last.loss is not None or last.epochs)
    if series is None or last is None or not told:
        return Progress()
    epochs = last.epochs or next(iter(tracker.planned.get("epochs", {}).values()), None)
    total = next(iter(tracker.planned.get("total", {}).values()), None)
    is_fraction = series.fractional_epochs > 0
    records = _fractions(series.records()) if is_fraction else _whole_epochs(series.records())
    found = intervals(records, Counting(), tracker.whole_seconds)
    pace = present_pace(found)
    losses = [record.loss for record in series if record.loss is not None]
    first = 0 if is_fraction or series.first_epoch == 0 else 1
    done = (last.epoch or 0) + (0 if is_fraction else 1 - first)
    left = max(0.0, epochs - done) * (_PARTS if is_fraction else 1) if epochs is not None else None
    trouble = _of_losses(losses)
    is_over = (left is not None and left == 0) or tracker.finished_at > last.order
    if trouble is None and is_fraction and not is_over and stands_still(tracker, series):
        trouble = "stall"
    eta = remaining(left, pace, found) if left is not None and pace is not None and trouble != "stall" else None
    per_step = pace * _PARTS * epochs / total if is_fraction and pace and epochs and total else None
    return Progress(
        total_steps=total if is_fraction else None,
        current_epoch=last.epoch,
        total_epochs=epochs,
        seconds_per_step=per_step,
        last_loss=printable(losses[-1]) if losses else None,
        eta_seconds=eta.seconds if eta is not None else None,
        eta_range=(eta.low, eta.high) if eta is not None else None,
        anomaly=trouble,
        evidence=(last.evidence(),),
        format=series.format.name if series.format else "general",
    )


def _whole_epochs(records: list[Record]) -> list[Record]:
    return [
        replace(record, step=int(record.epoch or 0)) for record in records if record.epoch == int(record.epoch or 0)
    ]


def _fractions(records: list[Record]) -> list[Record]:
    """Records whose epochs lie so far apart that the rounding of what is printed is small."""
    epochs = [record.epoch or 0.0 for record in records]
    apart = min(_FAR_APART, (max(epochs) - min(epochs)) / _LEAST_PARTS)
    kept: list[Record] = []
    for record in records:
        if not kept or abs((record.epoch or 0.0) - (kept[-1].epoch or 0.0)) >= apart:
            kept.append(record)
    return [replace(record, step=round(_PARTS * (record.epoch or 0.0))) for record in kept]


def from_losses(tracker: Tracker) -> Progress:
    """What is left when a log counts nothing: its losses."""
    losses = max(tracker.loose.values(), key=len, default=deque())
    if len(losses) < 3:
        return Progress()
    last = losses[-1]
    return Progress(
        last_loss=printable(last.loss),
        anomaly=_of_losses([loose.loss for loose in losses]),
        evidence=(last.record.evidence(),),
        format="general",
    )


def _of_losses(losses: Sequence[float]) -> Anomaly | None:
    verdict = anomaly.divergence(losses)
    return "divergence" if verdict == "divergence" else "loss_spike" if verdict == "loss_spike" else None


def printable(loss: float) -> float | str:
    """A loss as it is shown."""
    return loss if math.isfinite(loss) else "nan" if math.isnan(loss) else "inf"
