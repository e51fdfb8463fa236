"""What to do about a failure, step by step, with what it costs when the verdict is wrong."""

from __future__ import annotations

from collections.abc import Iterator

from analyzers.failures.events import Scan, seconds_between
from analyzers.failures.limits import limit_change
from analyzers.failures.topology import Topology
from analyzers.failures.tracebacks import FRAME, LIBRARY
from analyzers.failures.wording import WHAT_TO_DO
from analyzers.logs.prefix import strip_prefix
from analyzers.types import Action, Checkpoint, CodePlace, Diagnosis, LimitChange, PlanStep, RecoveryPlan

#: Actions after which the job runs again, from its last checkpoint where there is one.
RUNS_AGAIN: frozenset[Action] = frozenset(
    {
        "restart_same_nodes", "cordon_node_and_restart", "retry_with_backoff", "requeue_from_checkpoint",
        "resubmit_longer_limit", "lower_gpu_memory", "raise_host_memory_or_reduce", "raise_shm",
        "free_storage_then_retry", "fix_code", "fix_config", "fix_environment", "fix_credentials", "fix_data_or_skip",
    }
)  # fmt: skip
_NO_PLAN: frozenset[Action] = frozenset({"none"})
#: In these the words of the action say it all; the others have steps of their own.
_ADVICE: frozenset[Action] = frozenset(
    {
        "raise_shm", "free_storage_then_retry", "fallback_to_previous_checkpoint", "fix_config", "fix_environment",
        "fix_credentials", "fix_data_or_skip", "rollback_and_investigate", "raise_host_memory_or_reduce",
        "lower_gpu_memory", "resubmit_longer_limit",
    }
)  # fmt: skip


def plan_of(
    found: Diagnosis, scan: Scan, topology: Topology, checkpoint: Checkpoint | None, share_done: float | None = None
) -> RecoveryPlan | None:
    """The plan; None for a healthy job. ``checkpoint`` is the last one that is whole, ``share_done`` how much of the
    whole run was done (0..1), where the logs say so."""
    if found.category == "none":
        return None
    ran_s = _positive(seconds_between(scan.first_time, scan.last_time))
    saved = checkpoint.time if checkpoint is not None else None
    lost_s = ran_s if saved is None else _positive(seconds_between(saved, scan.last_time))
    gpus = max(topology.world, len(topology.ranks)) or None
    return RecoveryPlan(
        steps=tuple(_steps(found, checkpoint, limit_change(found, ran_s, share_done))),
        lost_s=lost_s,
        wrong_s=ran_s,
        gpus=gpus,
        lost_gpu_hours=_gpu_hours(lost_s, gpus),
        wrong_gpu_hours=_gpu_hours(ran_s, gpus),
    )


def cost_in_words(plan: RecoveryPlan) -> str:
    """What is lost already, and what another run costs if the plan is wrong; empty where the logs have no times."""
    parts = []
    if plan.lost_s:
        saved = any(step.kind == "requeue_from_checkpoint" for step in plan.steps)
        since = "since the last checkpoint" if saved else "since the start"
        parts.append(f"{_spent(plan.lost_s, plan.lost_gpu_hours)} {since} must be done again")
    if plan.wrong_s:
        parts.append(f"if this is wrong, another run like it costs {_spent(plan.wrong_s, plan.wrong_gpu_hours)}")
    said = "; ".join(parts)
    return f"{said[:1].upper()}{said[1:]}." if said else ""


def _spent(seconds: float, gpu_hours: float | None) -> str:
    time = f"{seconds / 60:.0f} min" if seconds < 7200 else f"{seconds / 3600:.1f} h"
    return time if gpu_hours is None else f"{time} ({gpu_hours:,.1f} GPU hours)"


def _steps(found: Diagnosis, checkpoint: Checkpoint | None, change: LimitChange | None) -> Iterator[PlanStep]:
    if found.action in _NO_PLAN:
        yield PlanStep("advice", "Nothing is to be done before the cause is known." if found.category == "unknown"
                       else WHAT_TO_DO["none"])  # fmt: skip
        return
    if found.action == "cordon_node_and_restart":
        yield _exclusion(found)
    if place := _place(found):
        if found.action in ("fix_code", "fix_config"):
            yield PlanStep("fix_line", f"Correct {place.file}:{place.line} ({place.function}).", place=place)
    elif found.action == "fix_code":
        yield PlanStep("advice", WHAT_TO_DO["fix_code"])
    if change is not None:
        yield _limit(change)
    elif found.action in _ADVICE and not (place and found.action == "fix_config"):
        yield PlanStep("advice", WHAT_TO_DO[found.action])
    if found.action == "retry_with_backoff":
        yield PlanStep("wait", "Wait some minutes, longer each time.")
    if found.action in RUNS_AGAIN:
        yield _again(checkpoint)


def _exclusion(found: Diagnosis) -> PlanStep:
    if not found.culprit_nodes:
        return PlanStep("advice", "Find the node: no line names it. Its kernel's log would.")
    names = ", ".join(found.culprit_nodes)
    if found.node_proof == "job-log":
        says = f"Leave out {names} for the next run; only the job's own log names it, so confirm before it is drained."
    else:
        says = f"Take {names} out of service and leave it out of the next run."
    return PlanStep("exclude_nodes", says, nodes=found.culprit_nodes)


def _again(checkpoint: Checkpoint | None) -> PlanStep:
    if checkpoint is None:
        return PlanStep("restart", "Run it again from the start: the logs tell of no whole checkpoint.")
    step = f" (step {checkpoint.step})" if checkpoint.step is not None else ""
    name = checkpoint.path or "the last checkpoint"
    return PlanStep("requeue_from_checkpoint", f"Run it again from {name}{step}.", checkpoint=checkpoint.path,
                    checkpoint_step=checkpoint.step)  # fmt: skip


def _limit(change: LimitChange) -> PlanStep:
    if change.limit == "gpu-memory":
        free = "" if change.had is None else f" with {change.had:.0f} MiB free"
        says = f"Lower the memory needed per GPU: at last {change.needed:.0f} MiB were asked for{free}."
        return PlanStep("lower_memory", says, change=change)
    if change.limit == "time":
        says = f"Ask for {(change.to or 0) / 3600:.1f} h" + (
            f" instead of {change.had / 3600:.1f} h" if change.had else ""
        )
        return PlanStep("raise_limit", f"{says}.", change=change)
    had = f" instead of {change.had:.0f} MiB" if change.had else ""
    return PlanStep("raise_limit", f"Ask for {change.to:.0f} MiB of host memory{had}, or use less.", change=change)


def _place(found: Diagnosis) -> CodePlace | None:
    for line in found.evidence:
        frame = FRAME.match(strip_prefix(line.text).rest.strip())
        if frame is not None and not LIBRARY.search(frame["path"]):
            return CodePlace(frame["path"], int(frame["line"]), frame["where"] or "?")
    return None


def _gpu_hours(seconds: float | None, gpus: int | None) -> float | None:
    return None if seconds is None or gpus is None else round(seconds * gpus / 3600, 2)


def _positive(seconds: float | None) -> float | None:
    return None if seconds is None or seconds < 0 else seconds
