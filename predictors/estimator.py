"""`StackedDurations` in scikit-learn's estimator contract, with data frames at the edges."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, RegressorMixin

from analyzers.types import JobRecord
from predictors.forecast import Forecast
from predictors.stacked import WINDOW_JOBS, StackedDurations

#: Columns of a frame of jobs. Only the first two are needed; what is missing or not a number is not known.
NEEDED = ("submit_s", "gpus")
OPTIONAL = ("start_s", "user", "name", "requested_s", "outcome")
#: A longer history is trained on once, and its last jobs set the intervals: it is not replayed with its old models.
_REPLAYED_JOBS = 50_000
_CALIBRATED_JOBS = 10_000


class DurationRegressor(RegressorMixin, BaseEstimator):  # type: ignore[misc]  # scikit-learn has no types
    """How long jobs run until they end for whatever reason, in seconds.

    Frames have one job a row and the columns `NEEDED` and, where known, `OPTIONAL`; times are seconds on one clock. A
    job is known to have ended at its start (or submission) plus its duration.

    Parameters
    ----------
    trees : of each boosted model.
    window : the newest ended jobs that are trained on.
    random_state : seed of the boosting; the same data give the same model.
    """

    def __init__(self, trees: int = 80, window: int = WINDOW_JOBS, random_state: int = 0) -> None:
        self.trees = trees
        self.window = window
        self.random_state = random_state

    def fit(self, X: pd.DataFrame, y: Any) -> DurationRegressor:  # noqa: N803 (scikit-learn's names)
        """Learn from ended jobs (jobs, columns) and their durations in seconds (jobs,), in order of time.

        Raises `ValueError` for a missing column, no jobs, or a duration that is no number of seconds.
        """
        self.model_ = StackedDurations(self.trees, self.window, self.random_state)
        self.n_jobs_seen_ = 0
        records = records_of(X, y)
        if not records:
            raise ValueError("no jobs to learn from")
        self._learn(records, None if len(records) <= _REPLAYED_JOBS else _CALIBRATED_JOBS)
        self.model_.train()
        return self

    def partial_fit(self, X: pd.DataFrame, y: Any) -> DurationRegressor:  # noqa: N803
        """Learn from further ended jobs, submitted after those seen before; the first call is a `fit`.

        The boosted models are trained anew by their own schedule, when the history has grown enough.
        """
        if not hasattr(self, "model_"):
            return self.fit(X, y)
        self._learn(records_of(X, y), None)
        return self

    def predict(self, X: pd.DataFrame) -> NDArray[np.float64]:  # noqa: N803
        """The median runtime in seconds (jobs,) of jobs submitted at their ``submit_s``, after all that was learned."""
        return np.array([forecast.point_s for forecast in self.forecasts(X)])

    def predict_quantiles(self, X: pd.DataFrame, levels: tuple[float, ...]) -> NDArray[np.float64]:  # noqa: N803
        """Seconds at ``levels`` (each in 0..1), (jobs, levels)."""
        return np.array([[each.quantile_s(level) for level in levels] for each in self.forecasts(X)])

    def forecasts(self, X: pd.DataFrame) -> list[Forecast]:  # noqa: N803
        """The whole `Forecast` of each job; nothing is learned from being asked."""
        return [self.model_.peek(record) for record in records_of(X, None)]

    def _learn(self, records: list[JobRecord], calibrate_last: int | None) -> None:
        numbered = [replace(each, job_id=str(self.n_jobs_seen_ + place)) for place, each in enumerate(records)]
        self.model_.replay(numbered, calibrate_last)
        self.n_jobs_seen_ += len(records)


def records_of(jobs: pd.DataFrame, duration_s: Any) -> list[JobRecord]:
    """The rows as records in order of submission; ``duration_s`` (jobs,) or None where they have not ended."""
    missing = [name for name in NEEDED if name not in jobs.columns]
    if missing:
        raise ValueError(f"the frame has no column {', '.join(missing)}")
    durations: list[Any] = [None] * len(jobs) if duration_s is None else [float(value) for value in duration_s]
    if len(durations) != len(jobs):
        raise ValueError(f"{len(jobs)} jobs but {len(durations)} durations")
    if not all(value is None or (np.isfinite(value) and value >= 0) for value in durations):
        raise ValueError("a duration is no number of seconds")
    present = [name for name in (*NEEDED, *OPTIONAL) if name in jobs.columns]
    rows = jobs[present].to_dict("records")
    made = [_record(row, str(place), durations[place]) for place, row in enumerate(rows)]
    return sorted(made, key=lambda record: record.submit_s)


def _record(row: Mapping[Any, Any], job_id: str, duration_s: float | None) -> JobRecord:
    known = {name: None if pd.isna(value) else value for name, value in row.items()}
    return JobRecord(
        job_id=job_id,
        submit_s=float(known["submit_s"] or 0.0),
        duration_s=duration_s,
        gpus=int(known["gpus"] or 0),
        start_s=_number(known.get("start_s")),
        user=_text(known.get("user")),
        name=_text(known.get("name")),
        requested_s=_number(known.get("requested_s")),
        outcome=known.get("outcome"),
    )


def _number(value: Any) -> float | None:
    return None if value is None else float(value)


def _text(value: Any) -> str | None:
    return None if value is None else str(value)
