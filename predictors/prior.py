"""What is known about a job's duration before any job like it was seen: published figures, the limit, the physics.

Sources: Weng et al., "MLaaS in the Wild" (NSDI'22): half of the instances end within 23 minutes, 90 % within 4.5 h.
Hu et al., "Characterization and Prediction of Deep Learning Workloads" (SC'21): median 206 s, mean 6,652 s on Helios.
Jeon et al. (ATC'19), Philly: 69.3 % pass, 13.5 % are killed, 17.2 % fail. Mu'alem and Feitelson (IEEE TPDS 2001) and
Lee et al. (JSSPP 2004): the used share of a requested time is spread over the whole range, with a peak near nothing.
"""

from __future__ import annotations

from dataclasses import dataclass

from analyzers.durations import short_duration
from analyzers.types import SourceFacts, Submission
from predictors.hardware import TYPICAL, gpu_model
from predictors.mixture import Mixture, bells, between, mix
from predictors.workload import Workload, workload

#: Between the published medians (206 s and 23 min), wide enough to reach both 90 % points.
_MEDIAN_S = 700.0
_SPREAD = 2.3
#: Bigger jobs run longer in every published trace, roughly with the square root of their size.
_SIZE_EXPONENT = 0.5
_MAX_SIZE_FACTOR = 8.0
#: Shares of the limit that jobs use, as equally likely values.
_USED_SHARES = (0.002, 0.01, 0.03, 0.08, 0.16, 0.28, 0.42, 0.58, 0.75, 0.95)
_SHARE_SPREAD = 0.3
#: Model FLOPs utilisation of ordinary training code: from 5 % when waiting for input to 55 % when tuned.
_UTILISATION = 0.25
_PHYSICS_SPREAD = 1.2
#: Input, launch and logging take this much of each step however small the model is.
_STEP_OVERHEAD_S = 0.03
_STARTUP_S = 60.0
#: A training step of a model of unknown size: tens of milliseconds to seconds.
_UNKNOWN_STEP_S = 0.3
_UNKNOWN_STEP_SPREAD = 1.5
#: Share of jobs that do not reach their end: 30.7 % of Philly's.
ENDS_EARLY = 0.3
_EARLIEST_END_S = 15.0
#: What a prior is worth in jobs: where the source tells how much work there is, and where only figures of others do.
_TOLD_JOBS = 3.0
_PUBLISHED_JOBS = 2.0


@dataclass(frozen=True, slots=True)
class Prior:
    """A distribution worth ``mixture.mass`` jobs of evidence, and where it comes from in words.

    ``told``: what the source says of the work, in words, which is worth telling also where the prior counts no more.
    """

    mixture: Mixture
    reasons: tuple[str, ...]
    told: tuple[str, ...] = ()


def duration_prior(submission: Submission, facts: SourceFacts) -> Prior:
    """The distribution before any similar job was seen; worth more jobs where the facts say how much work there is."""
    size = workload(submission, facts)
    run_s = physics_s(size, submission.gpu_type, facts)
    if run_s is not None:
        spread = _UNKNOWN_STEP_SPREAD if size.parameters is None else _PHYSICS_SPREAD
        end = bells([run_s], [spread], [1.0 - ENDS_EARLY])
        early = between(_EARLIEST_END_S, run_s, ENDS_EARLY)
        prior = mix([end, early]).scaled(_TOLD_JOBS)
        told = _told(size, run_s, submission)
        return Prior(prior, (f"{told}; {_counts_as(_TOLD_JOBS)}",), (told,))
    factor = min(_MAX_SIZE_FACTOR, max(1, size.gpus) ** _SIZE_EXPONENT)
    published = bells([_MEDIAN_S * factor], [_SPREAD], [1.0])
    reason = f"published GPU clusters: half of the jobs of this size end within {short_duration(_MEDIAN_S * factor)}"
    if not submission.limit_s:
        return Prior(published.scaled(_PUBLISHED_JOBS), (f"{reason}; {_counts_as(_PUBLISHED_JOBS)}",))
    shares = [share * submission.limit_s for share in _USED_SHARES]
    used = bells(shares, [_SHARE_SPREAD] * len(shares), [1.0 / len(shares)] * len(shares))
    by_limit = f"limit of {short_duration(submission.limit_s)}: jobs use anything from nothing to all of theirs"
    half = _counts_as(0.5 * _PUBLISHED_JOBS)
    return Prior(mix([published, used]).scaled(_PUBLISHED_JOBS), (f"{by_limit}; {half}", f"{reason}; {half}"))


def _counts_as(jobs: float) -> str:
    """How much a reason weighs beside the similar jobs, which say how many they are worth."""
    return f"counts as {jobs:g} job{'s' if jobs != 1 else ''}"


def physics_s(size: Workload, gpu_type: str | None, facts: SourceFacts) -> float | None:
    """Seconds that the steps take on these GPUs, or None when the facts do not say how many there are."""
    if size.steps is None:
        return None
    operations = size.operations_per_sample()
    if operations is None:
        return _STARTUP_S + size.steps * _UNKNOWN_STEP_S
    gpu = gpu_model(gpu_type) or TYPICAL
    half = str(facts.value("precision") or "").lower() not in ("", "fp32")
    rate = (gpu.half_tflops if half else gpu.single_tflops) * 1e12 * _UTILISATION * size.gpus
    samples_per_step = size.samples_per_step or 32.0 * size.gpus
    return _STARTUP_S + size.steps * (operations * samples_per_step / rate + _STEP_OVERHEAD_S)


def _told(size: Workload, run_s: float, submission: Submission) -> str:
    where = (gpu_model(submission.gpu_type) or TYPICAL).name
    model = f"a {_count(size.parameters)}-parameter model" if size.parameters else "a model of unknown size"
    return (
        f"source: {size.steps:,.0f} steps of {model} on {size.gpus} x {where}, "
        f"about {short_duration(run_s)} if it runs to the end"
    )


def _count(value: float) -> str:
    for size, letter in ((1e9, "B"), (1e6, "M"), (1e3, "K")):
        if value >= size:
            return f"{value / size:.3g}{letter}"
    return f"{value:.0f}"
