"""GPU memory, GPU utilisation and host memory: arithmetic first, corrected by what similar jobs were seen to use."""

from __future__ import annotations

import copy
import math
from collections.abc import Sequence

from analyzers.types import JobRecord, SourceFacts, Submission
from predictors.duration import Similar, evidence
from predictors.fitting import fit
from predictors.hardware import TYPICAL, gpu_model
from predictors.memory import CONTEXT_MIB, TrainingMemory, training_memory
from predictors.pace import facts_of
from predictors.site_peaks import Guess, Looks, SitePeaks
from predictors.types import Fit, Interval
from predictors.workload import gpus_of, workload

_Z_80 = 1.2816
#: Trust in the published figures of utilisation, in jobs' worth; errors of the guesses of memory on the log scale.
_PRIOR_JOBS = 1.0
_COLD_SPREAD = 1.2
_COLD_GPU_SHARE = 0.35
#: Mean utilisation in use: 52 % on Philly (Jeon et al., ATC'19), far less on PAI (Weng et al., NSDI'22).
_UTILISATION = Interval(0.45, 0.03, 0.95)
#: A training process with its framework, GPU libraries and input workers, per GPU.
_HOST_MIB_PER_GPU = 8 * 1024.0
_HOST_SPREAD = 1.1


class Memory:
    """What is learned of memory: ``learn(records)`` of jobs in order of their ends."""

    def __init__(self) -> None:
        looks = Looks()
        self._gpu = SitePeaks(
            lambda record: record.peak_gpu_memory_mib, lambda record: _gpu_guess(*_as_asked(record))[0], looks
        )
        self._host = SitePeaks(
            lambda record: record.peak_host_memory_mib, lambda record: _host_guess(*_as_asked(record)), looks
        )

    def copy(self) -> Memory:
        """The same, to be learned on apart from this one."""
        other = copy.copy(self)
        other._gpu, other._host = self._gpu.copy(), self._host.copy()
        return other

    def learn(self, records: Sequence[JobRecord]) -> None:
        """Jobs have ended."""
        self._gpu.learn(records)
        self._host.learn(records)

    def gpu_mib(
        self, submission: Submission, facts: SourceFacts, record: JobRecord, similar: Similar
    ) -> tuple[Interval, str, Fit | None]:
        """Peak MiB a GPU with the reason in words, never above the memory of a known GPU type; whether it fits one.

        ``record``: the submission as the record that it would become.
        """
        gpu = gpu_model(submission.gpu_type)
        ceiling_mib = float(gpu.memory_mib) if gpu else math.inf
        guess, by_arithmetic = _gpu_guess(submission, facts)
        seen = self._gpu.corrected(record, guess, similar)
        if seen is not None:
            interval, jobs = seen
            plural = "s" if jobs != 1 else ""
            reason = f"GPU memory: peaks of {jobs} ended job{plural}, those alike most, beside the arithmetic"
        elif by_arithmetic is not None:
            interval = by_arithmetic.total()
            reason = f"GPU memory: {_parts(by_arithmetic)} come to {interval.value:,.0f} MiB"
        else:
            interval = _around(guess)
            reason = "GPU memory: the model's size is not known, so a wide guess"
        found = fit(gpu, workload(submission, facts), facts, interval) if gpu and (seen or by_arithmetic) else None
        if found is not None and found.verdict != "fits":
            reason += f"; {_may_not_fit(found)}"
        return _clipped(interval, min(CONTEXT_MIB / 2, ceiling_mib), ceiling_mib), reason, found

    def host_mib(
        self, submission: Submission, facts: SourceFacts, record: JobRecord, similar: Similar
    ) -> tuple[Interval, str | None]:
        """Peak MiB of the whole job on its hosts, never above what the launch asks for; the reason where it is cut."""
        guess = _host_guess(submission, facts)
        seen = self._host.corrected(record, guess, similar)
        interval = seen[0] if seen is not None else _around(guess)
        asked = facts.request.get("memory_mib")
        if asked is None or not isinstance(asked.value, int | float) or interval.high <= asked.value:
            return interval, None
        reason = f"host memory: cut at the {asked.value / 1024:,.4g} GiB asked for"
        if interval.value > asked.value:
            reason += f"; such jobs take about {interval.value / 1024:,.0f} GiB, so it may be killed for its memory"
        return _clipped(interval, 0.0, asked.value), reason


def _as_asked(record: JobRecord) -> tuple[Submission, SourceFacts]:
    """An ended job as far as its memory could be guessed when it was submitted."""
    return Submission("", gpus=record.gpus or None, gpu_type=record.gpu_type), facts_of(record)


def _gpu_guess(submission: Submission, facts: SourceFacts) -> tuple[Guess, TrainingMemory | None]:
    by_arithmetic = training_memory(workload(submission, facts), facts)
    if by_arithmetic is None:
        centre_mib = (gpu_model(submission.gpu_type) or TYPICAL).memory_mib * _COLD_GPU_SHARE
        return (math.log(centre_mib), _COLD_SPREAD), None
    total = by_arithmetic.total()
    return (math.log(total.value), math.log(total.high / total.low) / (2 * _Z_80)), by_arithmetic


def _host_guess(submission: Submission, facts: SourceFacts) -> Guess:
    return math.log(_HOST_MIB_PER_GPU * gpus_of(submission, facts)), _HOST_SPREAD


def _around(guess: Guess) -> Interval:
    centre, reach = guess[0], _Z_80 * guess[1]
    return Interval(math.exp(centre), math.exp(centre - reach), math.exp(centre + reach))


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


def _clipped(interval: Interval, low: float, high: float) -> Interval:
    def clip(value: float) -> float:
        return min(max(value, low), high)

    return Interval(clip(interval.value), clip(interval.low), clip(interval.high))
