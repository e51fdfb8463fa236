"""Whether a job fits a GPU, the batch that would, and what else would make it fit."""

from __future__ import annotations

from dataclasses import replace

import pytest

from analyzers.history import MemoryHistoryStore
from analyzers.types import Fact, JobRecord, JsonValue, SourceFacts, Submission
from predictors import predict
from predictors.fitting import fit
from predictors.hardware import gpu_model
from predictors.memory import TrainingMemory, training_memory
from predictors.types import Fit
from predictors.workload import workload

LLAMA: dict[str, JsonValue] = {
    "model": "meta-llama/Llama-2-7b-hf", "workload_type": "finetune", "precision": "bf16", "optimizer": "adamw",
    "seq_len": 1024, "batch_size_per_gpu": 4, "num_gpus": 1,
}  # fmt: skip
RESNET: dict[str, JsonValue] = {
    "model": "resnet50", "workload_type": "train", "precision": "fp32", "optimizer": "sgd", "image_size": 224,
    "batch_size_per_gpu": 64, "num_gpus": 1,
}  # fmt: skip


def facts(known: dict[str, JsonValue], **more: JsonValue) -> SourceFacts:
    return SourceFacts({name: Fact(value, 0.9) for name, value in {**known, **more}.items() if value is not None})


def memory(known: dict[str, JsonValue], **more: JsonValue) -> TrainingMemory:
    told = facts(known, **more)
    found = training_memory(workload(Submission(""), told), told)
    assert found is not None
    return found


def judged(gpu_type: str, known: dict[str, JsonValue], **more: JsonValue) -> Fit:
    told, gpu = facts(known, **more), gpu_model(gpu_type)
    assert gpu is not None
    return fit(gpu, workload(Submission(""), told), told, memory(known, **more).total())


def test_what_does_not_fit_says_so_with_the_batch_and_the_changes_that_would() -> None:
    found = judged("a100-80gb", LLAMA, num_gpus=8, batch_size_per_gpu=8)
    assert found.verdict == "does not fit" and found.headroom_mib < -10_000
    assert found.largest_batch == 0  # weights and optimizer alone are more than it has
    named = [remedy.change for remedy in found.remedies]
    assert any(change.startswith("ZeRO") for change in named) and any("LoRA" in change for change in named)
    assert "activation checkpointing" not in named  # alone it would not be enough
    assert all(remedy.needed_mib <= found.usable_mib for remedy in found.remedies)


@pytest.mark.parametrize(("gpu_type", "batch"), [("T4", 512), ("V100", 512), ("a100-40gb", 1024)])
def test_the_largest_batch_fits_and_one_more_does_not(gpu_type: str, batch: int) -> None:
    found = judged(gpu_type, RESNET, batch_size_per_gpu=batch)
    most, safe = found.largest_batch, found.safe_batch
    assert most is not None and safe is not None and 0 < safe < most < batch
    assert memory(RESNET, batch_size_per_gpu=most).total().value <= found.usable_mib
    assert memory(RESNET, batch_size_per_gpu=most + 1).total().value > found.usable_mib
    assert judged(gpu_type, RESNET, batch_size_per_gpu=safe).verdict == "fits"
    assert judged(gpu_type, RESNET, batch_size_per_gpu=most).verdict == "tight"
    assert judged(gpu_type, RESNET, batch_size_per_gpu=most + 1).verdict in ("unlikely", "does not fit")


def test_what_fits_has_room_and_needs_no_change() -> None:
    found = judged("a100-80gb", RESNET)
    assert found.verdict == "fits" and found.headroom_mib > 50_000 and not found.remedies and found.batch == 64


def test_a_batch_that_nothing_says_is_called_assumed() -> None:
    found = judged("V100", RESNET, batch_size_per_gpu=None)
    assert found.batch is None and found.assumed_batch is not None and found.largest_batch


def test_similar_jobs_peaks_move_the_verdict_and_the_batch() -> None:
    asked = Submission("python train.py", name="r50", gpus=1, gpu_type="T4", submit_s=1e6)
    told = facts(RESNET, batch_size_per_gpu=100)
    before = predict(asked, told, MemoryHistoryStore([])).gpu_fit
    past = [
        JobRecord(
            str(i),
            100.0 * i,
            3600.0,
            1,
            name="r50",
            command="python train.py",
            outcome="completed",
            peak_gpu_memory_mib=14_600.0,
        )
        for i in range(40)
    ]
    seen = predict(asked, told, MemoryHistoryStore(past)).gpu_fit
    assert before is not None and seen is not None and before.verdict == "fits"
    assert seen.needed_mib.value > before.needed_mib.value and seen.headroom_mib < before.headroom_mib
    assert before.largest_batch is not None and seen.largest_batch is not None
    assert seen.largest_batch < before.largest_batch


def test_nothing_is_judged_without_a_known_gpu_or_model() -> None:
    nothing = MemoryHistoryStore([])
    assert predict(Submission("", gpu_type="T4"), SourceFacts(), nothing).gpu_fit is None
    assert predict(Submission("", gpu_type="abacus"), facts(RESNET), nothing).gpu_fit is None


def test_memory_of_phases_is_not_added_up() -> None:
    """Few samples of a large model peak in the update, many in the passes."""
    few, many = memory(LLAMA, batch_size_per_gpu=1), memory(LLAMA, batch_size_per_gpu=64)
    assert few.tensors.value == pytest.approx(few.update)
    assert (
        many.tensors.value == pytest.approx(many.apart.value + 64 * many.a_sample.value)
        and many.tensors.value > many.update
    )


@pytest.mark.parametrize(
    ("less", "more"),
    [
        ({"activation_checkpointing": True}, {}),
        ({"parallelism": ["zero3"], "num_gpus": 8}, {"parallelism": ["zero2"], "num_gpus": 8}),
        ({"parallelism": ["zero2"], "num_gpus": 8}, {"parallelism": ["zero1"], "num_gpus": 8}),
        ({"parallelism": ["zero1"], "num_gpus": 8}, {"parallelism": ["ddp"], "num_gpus": 8}),
        ({}, {"parallelism": ["ddp"], "num_gpus": 8}),
        ({"adapters": True, "weight_bits": 4}, {"adapters": True}),
        ({"adapters": True}, {}),
        ({"optimizer": "adamw8bit"}, {}),
        ({"optimizer": "sgd"}, {}),
        ({"seq_len": 512}, {}),
        ({"workload_type": "inference"}, {}),
        ({}, {"precision": "fp32", "batch_size_per_gpu": 4}),
    ],
)
def test_what_saves_memory_saves_memory(less: dict[str, JsonValue], more: dict[str, JsonValue]) -> None:
    small, large = (
        memory({**LLAMA, "batch_size_per_gpu": 16, **less}),
        memory({**LLAMA, "batch_size_per_gpu": 16, **more}),
    )
    if more.get("precision") == "fp32":
        small = memory({**LLAMA, "batch_size_per_gpu": 4})
    assert small.tensors.value <= large.tensors.value
    for each in (small, large):
        assert each.tensors.low <= each.tensors.value <= each.tensors.high


def test_the_bigger_of_two_batches_never_needs_less() -> None:
    sizes = [memory(LLAMA, batch_size_per_gpu=2**i).tensors.value for i in range(10)]
    assert sizes == sorted(sizes)


def test_a_fit_is_plain_values() -> None:
    found = judged("T4", LLAMA)
    assert replace(found) == found and isinstance(found.remedies, tuple)
