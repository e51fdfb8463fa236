"""The course of one job: when it starts to step, where it is cut, and what is true of it in the end."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

from analyzers.types import Outcome
from schedmate.workload_independent.draws import Draw
from schedmate.workload_independent.endings import Intent
from schedmate.workload_independent.physics import Costs
from schedmate.workload_independent.settings import Setting
from schedmate.workload_independent.tables import tables

#: A run that counts steps pauses to validate and to save after so many.
PAUSE_EVERY_STEPS = 1_000


@dataclass(frozen=True, slots=True)
class Course:
    """What was planned and what happened. ``stalled_s`` is lost to the file system, spread over the run."""

    outcome: Outcome
    duration_s: float
    steps_planned: int
    steps_done: int
    pauses_done: int
    stalled_s: float
    stopped_early: bool


def steps_of(run: Setting, samples: int, *, whole_batches: bool = False) -> tuple[int, int | None]:
    """Optimizer steps of a whole run and of one epoch (None where steps are counted)."""
    if run.steps is not None:
        return run.steps, None
    batches = samples / run.global_batch
    per_epoch = max(1, math.floor(batches) if whole_batches else math.ceil(batches))
    return per_epoch * (run.epochs or 1) * max(1, len(run.runs)), per_epoch


def course(
    run: Setting, costs: Costs, steps: int, per_epoch: int | None, intent: Intent, limit_s: float, draw: Draw
) -> Course:
    """Let the job run until it ends for whatever reason."""
    numbers = tables().numbers
    every = per_epoch or PAUSE_EVERY_STEPS
    stall = numbers["input"]
    at_work_s = costs.startup_s + steps * costs.step_s + steps // every * costs.pause_s
    stalls = at_work_s / stall["stall_every_s"] if draw.chance(stall["stall_users"]) else 0.0
    count = max(0, round(stalls + math.sqrt(stalls) * draw.noise()))
    stall_share = count * draw.log_between(*stall["stall_s"]) / at_work_s

    def clock(done: int) -> float:
        return (costs.startup_s + done * costs.step_s + done // every * costs.pause_s) * (1 + stall_share)

    def reached(second: float) -> tuple[int, int]:
        """Steps and pauses that are over by then."""
        left_s = max(0.0, second / (1 + stall_share) - costs.startup_s)
        blocks = min(steps // every, int(left_s // (every * costs.step_s + costs.pause_s)))
        inside_s = left_s - blocks * (every * costs.step_s + costs.pause_s)
        return min(steps, blocks * every + min(int(inside_s // costs.step_s), every)), blocks

    planned_s = clock(steps)
    done, pauses, end_s, outcome = steps, steps // every, planned_s, intent.outcome
    stopped = False
    if outcome == "completed" and run.patience and per_epoch and (run.epochs or 0) > run.patience + 2:
        stopped = draw.chance(numbers["pauses"]["early_ends"])
        if stopped:
            share = draw.between(*numbers["pauses"]["early_end_share"])
            epochs = max(run.patience + 1, round(share * (run.epochs or 1)))
            done = min(steps, epochs * per_epoch)
            pauses = done // every
            stopped = done < steps
            end_s = clock(done)
    elif outcome == "failed":
        end_s = _strikes_s(intent.at or "any", costs, clock, steps, per_epoch, draw)
        done, pauses = reached(end_s)
    elif outcome == "cancelled":
        early = numbers["cancelled_at"]
        end_s = min(0.98 * planned_s, early["floor_s"] + draw.wait(early["mean_share"] * planned_s))
        done, pauses = reached(end_s)
    if end_s > limit_s:
        outcome, end_s, stopped = "timeout", limit_s, False
        done, pauses = reached(end_s)
    return Course(
        outcome=outcome,
        duration_s=max(1.0, round(end_s, 1)),
        steps_planned=steps,
        steps_done=done,
        pauses_done=pauses,
        stalled_s=end_s * stall_share / (1 + stall_share),
        stopped_early=stopped,
    )


def _strikes_s(
    at: str, costs: Costs, clock: Callable[[int], float], steps: int, per_epoch: int | None, draw: Draw
) -> float:
    if at == "start":
        return costs.startup_s * draw.between(0.1, 1.0)
    if at == "first_steps":
        return clock(min(steps, draw.whole(0, 3))) + draw.between(0.2, 4)
    span = min(steps, per_epoch or steps) if at == "first_epoch" else steps
    return clock(int(span * draw.between(0.01, 0.99)))
