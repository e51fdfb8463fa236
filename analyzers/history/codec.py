"""One job record as one line of JSON and back. Fields at their default are left out."""

from __future__ import annotations

import dataclasses
import json
import sys
from collections.abc import Mapping
from functools import lru_cache
from operator import attrgetter
from typing import Any, get_args

from analyzers.types import JobRecord, Outcome, State
from prompts.redaction import redact, redact_tree

_FIELDS = {f.name for f in dataclasses.fields(JobRecord)}
_TEXTS = ("user", "tenant", "name", "command", "gpu_type", "fingerprint", "partition", "workdir")
_NUMBERS = (
    "start_s", "requested_s", "peak_gpu_memory_mib", "mean_gpu_utilization", "peak_host_memory_mib", "eligible_s",
    "end_s", "cpus", "memory_mib", "ran_so_far_s",
)  # fmt: skip
#: Those that can not be below 0: there they say nothing, and the record is good without.
_SIZES = (
    "requested_s", "peak_gpu_memory_mib", "mean_gpu_utilization", "peak_host_memory_mib", "cpus", "memory_mib",
)  # fmt: skip
_COUNTS = ("nodes", "gpu_milli", "attempts")
_ALL_NUMBERS = ("submit_s", "duration_s", "gpus", *_NUMBERS, *_COUNTS)
#: Times, and what is multiplied.
_ADDED_UP = frozenset(("submit_s", "duration_s", "start_s", "end_s", "ran_so_far_s", "gpus"))
#: Those of which a record that is below 0 is refused.
_NEVER_BELOW_0 = frozenset(("duration_s", "gpus", *_COUNTS))
_numbers_of = attrgetter(*_ALL_NUMBERS)
#: Larger numbers are garbage and would overflow further on; the comparison also refuses NaN and infinities.
MAX_NUMBER = 1e15
#: Comparing with it is exact, also of a whole number that is larger.
LARGEST_FLOAT = sys.float_info.max
_OUTCOMES = frozenset(get_args(Outcome))
_STATES = frozenset(get_args(State))


class BadRecordError(ValueError):
    """A line that holds no job record, or a record that no line can hold; the text is the reason."""


def encode(record: JobRecord) -> str:
    """The record as JSON without a line end, secrets redacted; `BadRecordError` for one that could not be read back."""
    values = {name: value for name in _FIELDS if (value := getattr(record, name)) is not None}
    for name in ("name", "command"):
        if name in values:
            values[name] = _redacted(values[name])
    if not values["facts"]:
        del values["facts"]
    _check(values)
    try:
        if "facts" in values:
            values["facts"] = redact_tree(dict(values["facts"]))
        return json.dumps(values, sort_keys=True, separators=(",", ":"), allow_nan=False)
    except (TypeError, ValueError, RecursionError):
        raise BadRecordError("facts are no JSON values") from None


def decode(line: str | bytes) -> JobRecord:
    """The record of one line. Unknown fields are ignored, so that an older release reads a newer store."""
    try:
        values = json.loads(line)
    except (ValueError, RecursionError):
        raise BadRecordError("not JSON") from None
    if not isinstance(values, dict):
        raise BadRecordError("not a JSON object")
    _check(values)
    values.setdefault("duration_s", None)
    for name in _SIZES:
        if values.get(name) is not None and values[name] < 0:
            values[name] = None
    return JobRecord(**{name: value for name, value in values.items() if name in _FIELDS})


def _check(values: Mapping[str, Any]) -> None:
    if not isinstance(values.get("job_id"), str):
        raise BadRecordError("job_id is no text")
    if not _is_number(values.get("submit_s")):
        raise BadRecordError("submit_s is no number")
    duration_s = values.get("duration_s")
    if duration_s is not None and not (_is_number(duration_s) and duration_s >= 0):
        raise BadRecordError("duration_s is no number of 0 or more")
    if not _is_whole(values.get("gpus")):
        raise BadRecordError("gpus is no whole number of 0 or more")
    for name in _TEXTS:
        if values.get(name) is not None and not isinstance(values[name], str):
            raise BadRecordError(f"{name} is no text")
    for name in _NUMBERS:
        if values.get(name) is not None and not _is_number(values[name]):
            raise BadRecordError(f"{name} is no number")
    for name in _COUNTS:
        if values.get(name) is not None and not _is_whole(values[name]):
            raise BadRecordError(f"{name} is no whole number")
    if values.get("outcome") is not None and values["outcome"] not in _OUTCOMES:
        raise BadRecordError("outcome is none of " + ", ".join(sorted(_OUTCOMES)))
    if values.get("state") is not None and values["state"] not in _STATES:
        raise BadRecordError("state is none of " + ", ".join(sorted(_STATES)))
    if not isinstance(values.get("facts", {}), Mapping):
        raise BadRecordError("facts is no object")


def check_numbers(record: JobRecord) -> None:
    """`BadRecordError` where a number of the record is none (NaN), or one that can not be reckoned with: too large for
    a float or, of those that are added up, for a sum; or below 0 where nothing can be. What else there may be to say
    of a record is `encode`'s: of the others an absurd one says nothing, and the record is good without."""
    for name, value in zip(_ALL_NUMBERS, _numbers_of(record), strict=True):
        if value is None:
            continue
        most = MAX_NUMBER if name in _ADDED_UP else LARGEST_FLOAT
        if not -most <= value <= most:
            raise BadRecordError(f"{name} is no number")
        if value < 0 and name in _NEVER_BELOW_0:
            raise BadRecordError(f"{name} is no number of 0 or more")


@lru_cache(65_536)  # names and commands repeat
def _redacted(text: str) -> str:
    return redact(text)


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and -MAX_NUMBER <= value <= MAX_NUMBER


def _is_whole(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= MAX_NUMBER
