"""GPU memory, GPU utilisation and host memory: arithmetic first, corrected by what similar jobs were seen to use."""

from __future__ import annotations

import math
from collections.abc import Sequence

from analyzers.types import SourceFacts, Submission
from predictors.duration import Similar, evidence
from predictors.hardware import TYPICAL, gpu_model
from predictors.memory import CONTEXT_MIB, training_memory_mib
from predictors.types import Interval
from predictors.workload import workload

_Z_80 = 1.2816
#: Trust in the arithmetic and in the published figures, in jobs' worth, and their errors on the log scale.
_PRIOR_JOBS = 1.0
_ARITHMETIC_SPREAD = 0.6
_COLD_SPREAD = 1.2
_COLD_GPU_SHARE = 0.35
_REPEAT_SPREAD = 0.1
#: Mean utilisation in use: 52 % on Philly (Jeon et al., ATC'19), far less on PAI (Weng et al., NSDI'22).
_UTILISATION = Interval(0.45, 0.03, 0.95)
#: A training process with its framework, GPU libraries and input workers, per GPU.
_HOST_MIB_PER_GPU = 8 * 1024.0
_HOST_SPREAD = 1.1


def gpu_memory_mib(submission: Submission, facts: SourceFacts, similar: Similar) -> tuple[Interval, str]:
    """Peak MiB a GPU with the reason in words; never above the memory of a known GPU type."""
    gpu = gpu_model(submission.gpu_type)
    ceiling_mib = float((gpu or TYPICAL).memory_mib) if gpu else math.inf
    by_arithmetic = training_memory_mib(workload(submission, facts), facts)
    if by_arithmetic is None:
        centre, spread = (gpu or TYPICAL).memory_mib * _COLD_GPU_SHARE, _COLD_SPREAD
        reason = "GPU memory: the model's size is not known, so a wide guess"
    else:
        centre, spread = by_arithmetic, _ARITHMETIC_SPREAD
        reason = f"GPU memory: weights, gradients, optimizer and activations come to {by_arithmetic:,.0f} MiB"
        if by_arithmetic > ceiling_mib and gpu:
            reason += f", more than the {gpu.memory_mib:,} MiB of a {gpu.name}: it may not fit"
    seen = [(record.peak_gpu_memory_mib, w) for (record, _), w in zip(similar, evidence(similar), strict=True)]
    interval, jobs = _corrected(centre, spread, seen)
    if jobs:
        reason = f"GPU memory: peaks of {jobs} similar jobs, beside the arithmetic"
    return _clipped(interval, min(CONTEXT_MIB / 2, ceiling_mib), ceiling_mib), reason


def host_memory_mib(submission: Submission, facts: SourceFacts, similar: Similar) -> tuple[Interval, str | None]:
    """Peak MiB of the whole job on its hosts, never above what the launch asks for; the reason where that cuts it."""
    gpus = workload(submission, facts).gpus
    seen = [(record.peak_host_memory_mib, w) for (record, _), w in zip(similar, evidence(similar), strict=True)]
    interval, _ = _corrected(_HOST_MIB_PER_GPU * gpus, _HOST_SPREAD, seen)
    asked = facts.request.get("memory_mib")
    if asked is None or not isinstance(asked.value, int | float) or interval.high <= asked.value:
        return interval, None
    reason = f"host memory: cut at the {asked.value / 1024:,.4g} GiB asked for"
    if interval.value > asked.value:
        reason += f"; such jobs take about {interval.value / 1024:,.0f} GiB, so it may be killed for its memory"
    return _clipped(interval, 0.0, asked.value), reason


def gpu_utilization(similar: Similar) -> Interval:
    """Mean utilisation over the run, 0..1."""
    seen = [
        (min(1.0, record.mean_gpu_utilization), w)
        for (record, _), w in zip(similar, evidence(similar), strict=True)
        if record.mean_gpu_utilization is not None
    ]
    jobs = sum(w for _, w in seen)
    mean = sum(v * w for v, w in seen) / jobs if jobs else 0.0
    keep = _PRIOR_JOBS / (_PRIOR_JOBS + jobs)
    value = keep * _UTILISATION.value + (1 - keep) * mean
    deviation = math.sqrt(sum(w * (v - mean) ** 2 for v, w in seen) / jobs) if jobs else 0.0
    low = keep * _UTILISATION.low + (1 - keep) * (mean - _Z_80 * deviation - 0.03)
    high = keep * _UTILISATION.high + (1 - keep) * (mean + _Z_80 * deviation + 0.03)
    return _clipped(Interval(value, low, high), 0.0, 1.0)


def _corrected(centre: float, spread: float, seen: Sequence[tuple[float | None, float]]) -> tuple[Interval, int]:
    """Shrink towards what was seen, on the log scale. Returns the interval and how many jobs were seen."""
    logs = [(math.log(value), weight) for value, weight in seen if value is not None and value > 0 and weight > 0]
    total = sum(weight for _, weight in logs)
    keep = _PRIOR_JOBS / (_PRIOR_JOBS + total)
    mean = sum(v * w for v, w in logs) / total if total else 0.0
    middle = keep * math.log(centre) + (1 - keep) * mean
    # The spread among those seen, the doubt about the prior, and how far the two disagree: none may be left out.
    among = sum(w * (v - mean) ** 2 for v, w in logs) / total if total else 0.0
    between = keep * (1 - keep) * (math.log(centre) - mean) ** 2 if total else 0.0
    deviation = math.sqrt(keep * spread**2 + (1 - keep) * (among + _REPEAT_SPREAD**2) + between)
    reach = _Z_80 * deviation
    return Interval(math.exp(middle), math.exp(middle - reach), math.exp(middle + reach)), len(logs)


def _clipped(interval: Interval, low: float, high: float) -> Interval:
    def clip(value: float) -> float:
        return min(max(value, low), high)

    return Interval(clip(interval.value), clip(interval.low), clip(interval.high))
