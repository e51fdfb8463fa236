"""Training on a history, and whether what came of it is better than what there is on the newest jobs.

The newest jobs are kept apart: both models are asked about them in order of time, learning on from those that ended,
and neither has been trained on one of them. Only then is the better one trained on everything.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Sequence
from dataclasses import dataclass

from analyzers.types import JobRecord
from predictors.boosted_outcome import kind_of_end
from predictors.forecast import Forecast
from predictors.stacked import FIRST_TRAINING_JOBS, StackedDurations, ended_s
from prompts.errors import UserError

#: A model is judged by the newest fifth of the history, within these numbers of jobs.
_WINDOW_SHARE, LEAST_WINDOW_JOBS, _MOST_WINDOW_JOBS = 0.2, 50, 5_000
LEAST_JOBS = FIRST_TRAINING_JOBS + 2 * LEAST_WINDOW_JOBS
#: So many of the last jobs set the bounds.
_CALIBRATING_JOBS = 2_000
_JUDGED_LEVELS = (0.1, 0.5, 0.9)
_KINDS = ("completed", "failed", "cancelled", "timeout")


@dataclass(frozen=True, slots=True)
class Scores:
    """How good a model was on ``jobs`` that it had not been trained on.

    ``loss``: mean pinball loss of the 10, 50 and 90 % quantile of the logarithm of the runtime; what decides.
    ``mean_error_s``, ``median_error_s``: absolute, of the point. ``inside_80``: the share within the 80 % interval.
    ``brier``: of how jobs end, over all four ways; None where no probabilities were told.
    """

    jobs: int
    loss: float
    mean_error_s: float
    median_error_s: float
    inside_80: float
    brier: float | None = None


def trained_on(records: Sequence[JobRecord], seed: int = 0, trees: int = 80) -> StackedDurations:
    """A model trained once, on ended jobs in order of submission; the same records and seed predict the same."""
    model = StackedDurations(trees, seed=seed, queue_known=False, trains=False)
    first = max(min(len(records), FIRST_TRAINING_JOBS), len(records) - _CALIBRATING_JOBS)
    model.replay(records[:first])
    model.train()
    # The bounds are set by jobs that were not trained on, then these are trained on as well.
    model.replay(records[first:])
    model.train()
    return model


def newest(records: Sequence[JobRecord], after_s: float = -math.inf) -> tuple[list[JobRecord], list[JobRecord]]:
    """(older jobs, the newest to judge by), by when they ended, each in order of submission.

    ``after_s``: only jobs that ended later may be among the newest, so that a model of that time knows none of them.
    """
    by_end = sorted(records, key=ended_s)
    count = min(max(int(_WINDOW_SHARE * len(by_end)), LEAST_WINDOW_JOBS), _MOST_WINDOW_JOBS)
    first = max(len(by_end) - count, sum(ended_s(record) <= after_s for record in by_end))
    return _in_order(by_end[:first]), _in_order(by_end[first:])


def judged(model: StackedDurations, known: Sequence[JobRecord], window: Sequence[JobRecord]) -> Scores:
    """The model's scores on ``window``, having learned on from those of ``known`` that ended since it was trained.

    Jobs of the window are asked about at submission; those submitted before the last of ``known`` had ended are learned
    from and not counted. The model itself is not changed.

    Raises `UserError` where none is left to count.
    """
    asked = copy.deepcopy(model)
    since = [record for record in known if ended_s(record) > model.latest_s]
    if since:
        asked.replay(since)
    from_s = asked.latest_s
    said = zip(window, asked.replay(window), strict=True)
    counted = [(record, forecast) for record, forecast in said if forecast is not None and record.submit_s >= from_s]
    if len(counted) < LEAST_WINDOW_JOBS:
        raise UserError(
            f"{len(counted)} of the newest jobs were submitted after the others had ended, not {LEAST_WINDOW_JOBS}",
            "try again when more have ended",
        )
    return scores([record for record, _ in counted], [forecast for _, forecast in counted])


def scores(records: Sequence[JobRecord], forecasts: Sequence[Forecast]) -> Scores:
    """Compare what was said of ended jobs with what came."""
    loss, errors, inside, brier = 0.0, [], 0, []
    for record, forecast in zip(records, forecasts, strict=True):
        duration_s = record.duration_s or 0.0
        truth = math.log(max(1.0, duration_s))
        for level in _JUDGED_LEVELS:
            off = truth - math.log(forecast.quantile_s(level))
            loss += max(level * off, (level - 1.0) * off) / len(_JUDGED_LEVELS)
        errors.append(abs(forecast.point_s - duration_s))
        low, high = forecast.interval_s(0.8)
        inside += low <= max(1.0, duration_s) * (1 + 1e-9) and duration_s <= high * (1 + 1e-9)
        if forecast.ending is not None and kind_of_end(record):
            said = forecast.ending.outcome
            brier.append(sum((getattr(said, kind) - (kind == kind_of_end(record))) ** 2 for kind in _KINDS))
    jobs = len(errors)
    return Scores(
        jobs=jobs,
        loss=loss / jobs,
        mean_error_s=sum(errors) / jobs,
        median_error_s=sorted(errors)[jobs // 2],
        inside_80=inside / jobs,
        brier=sum(brier) / len(brier) if brier else None,
    )


#: So much worse on new jobs than on those it was judged by, and it is said to drift.
_LOSS_DRIFT, _INSIDE_DRIFT = 1.25, 0.1


def drift(then: Scores, now: Scores) -> list[str]:
    """In words, what has become clearly worse since the model was judged; empty where nothing has."""
    found = []
    if now.loss > _LOSS_DRIFT * then.loss:
        found.append(f"the loss has grown from {then.loss:.3f} to {now.loss:.3f}")
    if now.inside_80 < then.inside_80 - _INSIDE_DRIFT:
        found.append(f"{now.inside_80:.0%} are within their 80 % interval, {then.inside_80:.0%} were")
    return found


def _in_order(records: Sequence[JobRecord]) -> list[JobRecord]:
    return sorted(records, key=lambda record: (record.submit_s, record.job_id))
