"""One pass over the records of a trace into columns of numbers: a million jobs take about 100 bytes each."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from analyzers.types import JobRecord

Floats = NDArray[np.float64]
Codes = NDArray[np.int64]
_NAN = float("nan")
_WHOLE_MILLI = 1000
#: Fields whose presence decides what can be done with a trace.
FIELDS = (
    "start_s", "end_s", "eligible_s", "duration_s", "requested_s", "user", "tenant", "partition", "gpu_type", "nodes",
    "cpus", "memory_mib", "name", "command", "state", "attempts",
)  # fmt: skip
_TIMES = ("submit_s", "start_s", "end_s", "eligible_s", "duration_s", "requested_s")
_WORDS = ("user", "tenant", "partition", "gpu_type", "state")
UNKNOWN = -1


@dataclass(slots=True)
class Collected:
    """Columns of equal length, one entry a job. Times are seconds, NaN where unknown; ``gpus`` may be fractions of one.

    ``codes[field]`` holds for each job the position of its word in ``words[field]``, `UNKNOWN` where it has none.
    """

    times: dict[str, Floats]
    gpus: Floats
    attempts: Codes
    codes: dict[str, Codes]
    words: dict[str, list[str]]
    known: dict[str, int] = field(default_factory=dict)

    def __len__(self) -> int:
        return int(self.gpus.size)

    @property
    def sizes(self) -> Floats:
        """GPUs touched, whole ones: what a size bucket counts."""
        return np.ceil(self.gpus)


def collect(records: Iterable[JobRecord], advance: Callable[[int], None] = lambda n: None) -> Collected:
    """Go through the records once."""
    times = {name: array("d") for name in _TIMES}
    codes = {name: array("q") for name in _WORDS}
    numbers: dict[str, dict[str, int]] = {name: {} for name in _WORDS}
    gpus, attempts = array("d"), array("q")
    known = dict.fromkeys(FIELDS, 0)
    adders = [(name, times[name].append) for name in _TIMES]
    for record in records:
        for name, add in adders:
            value = getattr(record, name)
            add(_NAN if value is None else value)
        for name in _WORDS:
            word = getattr(record, name)
            of = numbers[name]
            codes[name].append(UNKNOWN if word is None else of.setdefault(word, len(of)))
        for name in FIELDS:
            if getattr(record, name) is not None:
                known[name] += 1
        gpus.append(record.gpus * (record.gpu_milli or _WHOLE_MILLI) / _WHOLE_MILLI)
        attempts.append(record.attempts or 0)
        advance(1)
    return Collected(
        {name: np.asarray(column, dtype=np.float64) for name, column in times.items()},
        np.asarray(gpus, dtype=np.float64),
        np.asarray(attempts, dtype=np.int64),
        {name: np.asarray(column, dtype=np.int64) for name, column in codes.items()},
        {name: list(of) for name, of in numbers.items()},
        known,
    )
