"""Whether a training job fits a GPU type, the batch size that would, and what else would make it fit."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial

from analyzers.types import Fact, JsonValue, SourceFacts
from predictors.hardware import GpuModel
from predictors.memory import TrainingMemory, training_memory
from predictors.types import Fit, Interval, Remedy, Verdict
from predictors.workload import Workload

#: More samples of one GPU are not looked for.
_MOST_SAMPLES = 1 << 20
_SURE = 0.95


def fit(gpu: GpuModel, size: Workload, facts: SourceFacts, needed: Interval) -> Fit:
    """Judge ``needed``, the MiB that arithmetic and similar jobs say, against what a GPU has.

    How much a sample takes is from the arithmetic alone, scaled to ``needed`` where similar jobs have corrected it.
    """
    usable = gpu.usable_mib
    verdict = _verdict(needed, usable)
    found = training_memory(size, facts)
    answer = Fit(gpu.name, usable, verdict, needed, usable - needed.value)
    if found is None:
        return answer
    total = found.total()
    likely, upper = usable * total.value / needed.value, usable * total.high / needed.high
    answer = replace(
        answer,
        batch=int(size.batch_per_gpu) if size.batch_per_gpu else None,
        assumed_batch=None if size.batch_per_gpu else int(found.batch),
        largest_batch=_largest_batch(partial(_holds, found, likely)),
        safe_batch=_largest_batch(lambda samples: found.total(samples).high <= upper),
    )
    if verdict == "fits":
        return answer
    return replace(answer, remedies=_remedies(size, facts, usable, needed.value / total.value))


def _verdict(needed: Interval, usable: float) -> Verdict:
    if needed.high <= usable:
        return "fits"
    if needed.value <= usable:
        return "tight"
    return "unlikely" if needed.low <= usable else "does not fit"


def _largest_batch(holds: Callable[[int], bool]) -> int | None:
    """Most samples that hold; None where no number of them makes a difference."""
    if not holds(1):
        return 0
    if holds(_MOST_SAMPLES):
        return None
    low, high = 1, _MOST_SAMPLES
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if holds(middle) else (low, middle)
    return low


def _remedies(size: Workload, facts: SourceFacts, usable: float, scale: float) -> tuple[Remedy, ...]:
    """Single changes, and those together that leave what is learned as it is, if the present batch likely fits then."""
    found: list[Remedy] = []
    for change, values in _changes(size, facts):
        if change.startswith(_ZERO) and any(other.change.startswith(_ZERO) for other in found):
            continue  # a higher stage than the first that is enough only communicates more
        memory = training_memory(size, _changed(facts, values))
        if memory is None:
            continue
        needed = scale * memory.total().value
        if needed <= usable:
            most = _largest_batch(partial(_holds, memory, usable / scale))
            found.append(Remedy(change, needed, most))
    return tuple(found)


def _holds(memory: TrainingMemory, likely: float, samples: int) -> bool:
    return memory.total(samples).value <= likely


def _changes(size: Workload, facts: SourceFacts) -> list[tuple[str, dict[str, JsonValue]]]:
    """What the job does not do yet, the least invasive first."""
    changes: list[tuple[str, dict[str, JsonValue]]] = []
    together: dict[str, JsonValue] = {}
    if facts.value("activation_checkpointing") is not True:
        together["activation_checkpointing"] = True
        changes.append(("activation checkpointing", {"activation_checkpointing": True}))
    if str(facts.value("precision") or "fp32") in ("fp32", "tf32"):
        together["precision"] = "bf16"
        changes.append(("16-bit precision", {"precision": "bf16"}))
    for level in _stages(size, facts):
        together["parallelism"] = [f"zero{level}"]
        changes.append((f"{_ZERO}{level} over {size.gpus} GPUs", {"parallelism": [f"zero{level}"]}))
    if "adam" in str(facts.value("optimizer") or "adam").lower() and "8" not in str(facts.value("optimizer") or ""):
        changes.append(("an 8-bit optimizer", {"optimizer": "adamw8bit"}))
    if len(together) > 1:
        changes.append((f"{', '.join(_WORDS[name] for name in together)} together", together))
    if facts.value("workload_type") == "finetune" and facts.value("adapters") is not True:
        changes.append(("adapters (LoRA) instead of all weights", {"adapters": True}))
    return changes


_ZERO = "ZeRO stage "
_WORDS = {
    "activation_checkpointing": "checkpointing", "precision": "16 bits", "parallelism": f"{_ZERO}3",
}  # fmt: skip


def _stages(size: Workload, facts: SourceFacts) -> list[int]:
    """Stages of ZeRO beyond the one in use (FSDP: 3) that the job's GPUs could share; none for a divided model."""
    told = str(facts.value("parallelism") or "")
    if size.gpus < 2 or any(word in told for word in ("zero3", "fsdp", "tp", "pp")):
        return []
    used = next((level for level in (2, 1) if f"zero{level}" in told), 0)
    return [level for level in (1, 2, 3) if level > used]


def _changed(facts: SourceFacts, values: dict[str, JsonValue]) -> SourceFacts:
    return replace(facts, facts={**facts.facts, **{name: Fact(value, _SURE) for name, value in values.items()}})
