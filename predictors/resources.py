"""GPU memory, GPU utilisation and host memory: arithmetic first, corrected by what similar jobs were seen to use."""

from __future__ import annotations

import math
from collections.abc import Sequence

from analyzers.types import SourceFacts, Submission
from predictors.duration import Similar, evidence
from predictors.fitting import fit
from predictors.hardware import TYPICAL, gpu_model
from predictors.memory import CONTEXT_MIB, TrainingMemory, training_memory
from predictors.types import Fit, Interval
from predictors.workload import workload

_Z_80 = 1.2816
#: Trust in the arithmetic and in the published figures, in jobs' worth, and errors on the log scale.
_PRIOR_JOBS = 1.0
_COLD_SPREAD = 1.2
_COLD_GPU_SHARE = 0.35
_REPEAT_SPREAD = 0.1
#: Mean utilisation in use: 52 % on Philly (Jeon et al., ATC'19), far less on PAI (Weng et al., NSDI'22).
_UTILISATION = Interval(0.45, 0.03, 0.95)
#: A training process with its framework, GPU libraries and input workers, per GPU.
_HOST_MIB_PER_GPU = 8 * 1024.0
_HOST_SPREAD = 1.1


def gpu_memory_mib(submission: Submission, facts: SourceFacts, similar: Similar) -> tuple[Interval, str, Fit | None]:
    """Peak MiB a GPU with the reason in words; never above the memory of a known GPU type. Then whether it fits one."""
    gpu = gpu_model(submission.gpu_type)
    ceiling_mib = float(gpu.memory_mib) if gpu else math.inf
    size = workload(submission, facts)
    by_arithmetic = training_memory(size, facts)
    if by_arithmetic is None:
        centre, spread = (gpu or TYPICAL).memory_mib * _COLD_GPU_SHARE, _COLD_SPREAD
        reason = "GPU memory: the model's size is not known, so a wide guess"
    else:
        total = by_arithmetic.total()
        centre, spread = total.value, math.log(total.high / total.low) / (2 * _Z_80)
        reason = f"GPU memory: {_parts(by_arithmetic)} come to {total.value:,.0f} MiB"
    seen = [(record.peak_gpu_memory_mib, w) for (record, _), w in zip(similar, evidence(similar), strict=True)]
    interval, jobs = _corrected(centre, spread, seen)
    if by_arithmetic is not None and not jobs:
        interval = by_arithmetic.total()
    if jobs:
        reason = f"GPU memory: peaks of {jobs} similar jobs, beside the arithmetic"
    found = fit(gpu, size, facts, interval) if gpu and (jobs or by_arithmetic) else None
    if found is not None and found.verdict != "fits":
        reason += f"; {_may_not_fit(found)}"
    return _clipped(interval, min(CONTEXT_MIB / 2, ceiling_mib), ceiling_mib), reason, found


def _parts(memory: TrainingMemory) -> str:
    samples = f"{memory.batch:g} samples" if memory.batch != 1 else "1 sample"
    states = f"weights {memory.weights:,.0f}, gradients {memory.gradients:,.0f}, optimizer {memory.optimizer:,.0f}"
    return f"{states} and activations of {samples} {memory.batch * memory.a_sample.value:,.0f}"


def _may_not_fit(found: Fit) -> str:
    words = {"tight": "it may not fit", "unlikely": "it will hardly fit"}.get(found.verdict, "it does not fit")
    reason = f"of the {found.usable_mib:,.0f} MiB that a program can have of a GPU ({found.gpu}): {words}"
    if found.largest_batch is not None and found.verdict != "tight":
        reason += (
            f"; at most {found.largest_batch} samples a GPU would" if found.largest_batch else "; not one sample would"
        )
    if found.remedies and found.verdict != "tight":
        reason += f"; it would with {' or '.join(remedy.change for remedy in found.remedies[:3])}"
    return reason


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
