"""What the source says of a job, as numbers of its row; all -1 for a job of whose source nothing is known."""

from __future__ import annotations

import math

from analyzers.types import JobRecord
from predictors.features import UNKNOWN
from predictors.hardware import gpu_model
from predictors.memory import training_memory
from predictors.pace import Work, facts_of
from predictors.workload import number

_SIZES = ("epochs", "max_steps", "batch_size_per_gpu", "grad_accum", "learning_rate", "seq_len", "image_size",
          "model_params_approx")  # fmt: skip
_TRUTHS = ("checkpoints", "early_stopping", "resumable")
_KINDS = ("train", "finetune", "evaluate", "inference")
_UNITS = ("epochs", "steps", "operations")
NAMES: tuple[str, ...] = (
    *_SIZES, *_TRUTHS, *(f"workload: {kind}" for kind in _KINDS), "facts", "work", "unit of work", "work over request",
    "memory over the GPU's",
)  # fmt: skip
#: Logarithms are moved up by this: a learning rate's is below zero, and what is not known is -1.
_LIFT = 30.0


def fact_row(record: JobRecord, work: Work | None) -> list[float]:
    """The numbers of `NAMES`."""
    if not record.facts:
        return [UNKNOWN] * len(NAMES)
    facts = facts_of(record)
    sizes = (number(facts, name) for name in _SIZES)
    truths = (facts.value(name) for name in _TRUTHS)
    workload = str(facts.value("workload_type") or "")
    row = [UNKNOWN if size is None else _LIFT + math.log(size) for size in sizes]
    row += [float(truth) if isinstance(truth, bool) else UNKNOWN for truth in truths]
    row += [float(workload.startswith(kind)) for kind in _KINDS]
    row.append(float(len(record.facts)))
    if work is None:
        return [*row, UNKNOWN, UNKNOWN, UNKNOWN, UNKNOWN]
    row += [_LIFT + work.amount, float(_UNITS.index(work.unit))]
    timed = bool(record.requested_s) and work.unit != "epochs"
    row.append(_LIFT + work.amount - math.log(record.requested_s or 1.0) if timed else UNKNOWN)
    memory, gpu = training_memory(work.size, facts), gpu_model(record.gpu_type)
    known = memory is not None and gpu is not None
    row.append(_LIFT + math.log(memory.total().value / gpu.usable_mib) if known and memory and gpu else UNKNOWN)
    return row
