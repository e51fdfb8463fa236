"""What predictions of a trace are compared with: the request, the user's last two jobs, boosting on metadata.

All see what the predictors see: jobs that had ended by the moment of asking.
"""

from __future__ import annotations

import heapq
import math
from collections import defaultdict
from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from analyzers.types import JobRecord
from predictors.stacked import ended_s

Floats = NDArray[np.float64]
_NO_REQUEST_S = 700.0  # what a baseline says of a job without request and without past
#: Users, by first appearance, that boosting takes as categories; later ones share the last.
_CATEGORIES = 254
_FIRST_TRAINING_JOBS = 300
_GROWTH = 1.3


def in_time(records: Sequence[JobRecord]) -> Iterator[tuple[JobRecord, list[JobRecord]]]:
    """Each job in order of submission with the jobs that ended since the one before."""
    running: list[tuple[float, int, JobRecord]] = []
    for number, record in enumerate(records):
        ended = []
        while running and running[0][0] <= record.submit_s:
            ended.append(heapq.heappop(running)[2])
        yield record, ended
        heapq.heappush(running, (ended_s(record), number, record))


def last_two(records: Sequence[JobRecord]) -> Floats:
    """The mean of the user's last two runtimes in seconds, the request where there are none; never above the request.

    Tsafrir, Etsion and Feitelson, IEEE TPDS 2007.
    """
    past: dict[str | None, list[float]] = defaultdict(list)
    guesses = []
    for record, ended in in_time(records):
        for job in ended:
            past[job.user] = [*past[job.user][-1:], job.duration_s or 0.0]
        seen = past[record.user]
        request_s = record.requested_s or _NO_REQUEST_S
        guess_s = sum(seen) / len(seen) if seen else request_s
        guesses.append(min(guess_s, record.requested_s) if record.requested_s else guess_s)
    return np.array(guesses)


def boosted_on_metadata(records: Sequence[JobRecord], *, of_request: bool) -> Floats | None:
    """Gradient boosting with L1 loss on what a submission says: user, request, size, hour, weekday. Seconds.

    Trained anew whenever 30 % more jobs have ended, as the predictor is. ``of_request``: the share of the request,
    weighted by it, is learned in place of the seconds (the same loss, and more careful). None: too few jobs to train.
    """
    from sklearn.ensemble import HistGradientBoostingRegressor

    users: dict[str | None, int] = {}
    rows = np.array([_metadata(record, users) for record in records])
    duration_s = np.array([record.duration_s or 0.0 for record in records])
    request_s = np.array([record.requested_s or math.nan for record in records])
    scale_s = np.nan_to_num(request_s, nan=86_400.0) if of_request else np.ones(len(records))
    guesses = np.where(np.isnan(request_s), _NO_REQUEST_S, request_s)
    varies = np.flatnonzero(rows.max(axis=0) > rows.min(axis=0))
    number_of = {id(record): number for number, record in enumerate(records)}
    known: list[int] = []
    model, next_training, start = None, _FIRST_TRAINING_JOBS, 0

    def answer(stop: int) -> None:
        if model is not None and stop > start:
            guesses[start:stop] = model.predict(rows[start:stop][:, varies]) * scale_s[start:stop]

    for number, (_record, ended) in enumerate(in_time(records)):
        known += [number_of[id(job)] for job in ended]
        if len(known) >= next_training:
            answer(number)
            model, start = (
                HistGradientBoostingRegressor(
                    loss="absolute_error",
                    max_iter=150,
                    learning_rate=0.05,
                    early_stopping=False,
                    categorical_features=[int(np.flatnonzero(varies == 0)[0])] if 0 in varies else None,
                    random_state=0,
                ),
                number,
            )
            model.fit(rows[known][:, varies], duration_s[known] / scale_s[known], sample_weight=scale_s[known])
            next_training = math.ceil(len(known) * _GROWTH)
    answer(len(records))
    if model is None:
        return None
    return np.clip(guesses, 1.0, np.where(np.isnan(request_s), np.inf, request_s))


def _metadata(record: JobRecord, users: dict[str | None, int]) -> list[float]:
    hour = record.submit_s / 3_600.0
    return [
        float(min(users.setdefault(record.user, len(users)), _CATEGORIES)),
        math.log(max(1.0, record.requested_s or 1.0)),
        math.log2(max(1, record.gpus)),
        hour % 24.0,
        hour / 24.0 % 7.0,
    ]
