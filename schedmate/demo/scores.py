"""How good was it: predictions, facts, diagnoses and progress against the generator's own truth."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from analyzers.types import Diagnosis, JsonValue, Progress, SourceFacts
from predictors.types import Prediction
from schedmate.demo.jobs import RunningLog
from schedmate.workload import Ask, FailureTruth, Truth

#: Facts whose values are numbers: names of models and data sets are spelled too freely to be compared by text.
SCORED_FACTS = frozenset(
    {
        "num_gpus", "num_nodes", "batch_size_per_gpu", "learning_rate", "epochs", "max_steps", "seq_len", "grad_accum",
    }
)  # fmt: skip
#: A number counts as read when it is within this of the truth.
TOLERANCE = 0.01
ETA_TOLERANCE = 0.2


@dataclass(frozen=True, slots=True)
class Diagnosed:
    """One failed job: what was put into its logs and what was found there."""

    ask: Ask
    truth: FailureTruth
    found: Diagnosis

    @property
    def category_right(self) -> bool:
        """The category is the one that was put in."""
        return self.found.category == self.truth.category

    @property
    def rank_right(self) -> bool | None:
        """The culprit rank is named and no other; None where the cause has no single rank."""
        return set(self.found.culprit_ranks) == set(self.truth.ranks) if self.truth.ranks else None

    @property
    def node_right(self) -> bool | None:
        """The faulty node is named and no other; None where no node is at fault."""
        return set(self.found.culprit_nodes) == set(self.truth.nodes) if self.truth.nodes else None

    @property
    def evidence_right(self) -> bool:
        """The first line quoted as evidence is one of those that carry the cause."""
        if not self.found.evidence:
            return False
        quoted = " ".join(self.found.evidence[0].text.split())
        return any(_same_line(quoted, " ".join(line.split())) for line in self.truth.lines)

    @property
    def action_right(self) -> bool:
        """The proposed action is one that helps."""
        return self.found.action in self.truth.actions


def _same_line(quoted: str, line: str) -> bool:
    return bool(quoted) and (quoted in line or line in quoted)


def diagnosis_scores(cases: Sequence[Diagnosed]) -> dict[str, Any]:
    """Shares over all failed jobs, and by cause."""
    causes = sorted({case.truth.failure for case in cases})
    return {
        **_diagnosis_shares(cases),
        "by_cause": {cause: _diagnosis_shares([c for c in cases if c.truth.failure == cause]) for cause in causes},
    }


def _diagnosis_shares(cases: Sequence[Diagnosed]) -> dict[str, Any]:
    return {
        "jobs": len(cases),
        "category_right": share(case.category_right for case in cases),
        "rank_right": share(case.rank_right for case in cases),
        "node_right": share(case.node_right for case in cases),
        "evidence_right": share(case.evidence_right for case in cases),
        "action_right": share(case.action_right for case in cases),
    }


def share(answers: Iterable[bool | None]) -> float | None:
    """Share of yes among the answers that are not None; None without any."""
    counted = [answer for answer in answers if answer is not None]
    return sum(counted) / len(counted) if counted else None


def prediction_scores(
    asks: Sequence[Ask], truth: Mapping[str, Truth], predictions: Mapping[str, Prediction]
) -> dict[str, Any]:
    """Errors of the predicted median and coverage of the intervals, beside the user's limit taken as a prediction."""
    told = [(ask, truth[ask.job_id], predictions[ask.job_id]) for ask in asks if ask.job_id in predictions]
    actual = np.array([true.duration_s for _, true, _ in told])
    return {
        "jobs": len(told),
        "within_p10_p90": share(p.duration_s.p10 <= t.duration_s <= p.duration_s.p90 for _, t, p in told),
        "below_p99": share(t.duration_s <= p.duration_s.p99 for _, t, p in told),
        **_errors(np.array([p.duration_s.p50 for _, _, p in told]), actual),
        "requested": _errors(np.array([ask.limit_s for ask, _, _ in told]), actual),
        "gpu_memory_within_interval": share(
            p.gpu_memory_mib.low <= t.peak_gpu_memory_mib <= p.gpu_memory_mib.high for _, t, p in told
        ),
        "gpu_memory_median_error_factor": _errors(
            np.array([p.gpu_memory_mib.value for _, _, p in told]),
            np.array([t.peak_gpu_memory_mib for _, t, _ in told]),
        )["median_error_factor"],
        "completed_brier": float(
            np.mean([(p.outcome.completed - (t.outcome == "completed")) ** 2 for _, t, p in told])
        ),
    }


def _errors(said: np.ndarray, actual: np.ndarray) -> dict[str, float]:
    logs = np.log(np.maximum(said, 1.0) / np.maximum(actual, 1.0))
    return {
        "median_ratio": math.exp(float(np.median(logs))),
        "median_error_factor": math.exp(float(np.median(np.abs(logs)))),
        "within_factor_2": float(np.mean(np.abs(logs) <= math.log(2))),
    }


def fact_scores(asks: Sequence[Ask], truth: Mapping[str, Truth], facts: Mapping[str, SourceFacts]) -> dict[str, Any]:
    """Per fact: jobs where it was read right, read wrong, or left open. Only facts that the launch decides."""
    counts: dict[str, dict[str, int]] = {}
    for ask in asks:
        read = facts[ask.job_id]
        for name in sorted(SCORED_FACTS & truth[ask.job_id].facts.keys()):
            expected = truth[ask.job_id].facts[name]
            row = counts.setdefault(name, {"right": 0, "wrong": 0, "open": 0})
            value = read.value(name)
            row["open" if value is None else "right" if _equal(value, expected) else "wrong"] += 1
    return counts


def _equal(value: JsonValue, expected: JsonValue) -> bool:
    if isinstance(value, int | float) and isinstance(expected, int | float):
        return math.isclose(value, expected, rel_tol=TOLERANCE)
    return value == expected


@dataclass(frozen=True, slots=True)
class Watched:
    """One running job: its true place and what was read from its log."""

    log: RunningLog
    found: Progress

    @property
    def eta_right(self) -> bool:
        """The time left is within 20 % or five minutes of what the steps left will take."""
        if self.found.eta_seconds is None:
            return False
        return abs(self.found.eta_seconds - self.log.left_s) <= max(300.0, ETA_TOLERANCE * self.log.left_s)


def progress_scores(watched: Sequence[Watched]) -> dict[str, Any]:
    """Shares over the jobs that run at the snapshot. No anomaly was put into any of these logs."""
    return {
        "jobs": len(watched),
        "eta_right": share(case.eta_right for case in watched),
        "false_anomalies": sum(case.found.anomaly is not None for case in watched),
    }
