"""GPU types by the names that schedulers give them, and what the estimate of a step's time makes of them."""

from __future__ import annotations

import pytest

from analyzers.source.arithmetic.speed import step_time
from analyzers.source.knowledge.architectures import architecture
from analyzers.source.knowledge.gpus import gpu_type, gpus
from benchmarks.source_numbers import Speed, speeds


@pytest.mark.parametrize(
    ("written", "name", "memory_gib"),
    [
        ("a100", "A100", 40), ("nvidia_a100-sxm4-80gb", "A100", 80), ("a100-80gb", "A100", 80), ("A10G", "A10", 24),
        ("NVIDIA-H100-80GB-HBM3", "H100", 80), ("h100-pcie", "H100-PCIe", 80), ("H100 PCIe", "H100-PCIe", 80),
        ("Tesla-V100-SXM2-32GB", "V100", 32), ("v100", "V100", 16), ("rtx4090", "RTX 4090", 24), ("l40s", "L40S", 48),
        ("NVIDIA GeForce RTX 2080 Ti", "RTX 2080 Ti", 11), ("mi300x", "MI300X", 192), ("gpu:t4", "T4", 16),
    ],
)  # fmt: skip
def test_a_type_is_known_by_the_names_of_schedulers(written: str, name: str, memory_gib: float) -> None:
    found = gpu_type(written)
    assert found is not None and (found.name, found.memory_gib) == (name, memory_gib)


@pytest.mark.parametrize("written", [None, "", "gpu", "part4", "a4000", "node-1002", "a100|h100", "x" * 10_000, "8"])
def test_what_is_no_known_type_is_none(written: str | None) -> None:
    assert gpu_type(written) is None


@pytest.mark.parametrize("gpu", gpus(), ids=lambda gpu: gpu.name)
def test_every_type_has_its_figures_and_source(gpu: object) -> None:
    found = gpu_type(gpu.name)  # type: ignore[attr-defined]
    assert found is not None and found.name == gpu.name and len(found.source) > 10  # type: ignore[attr-defined]
    assert found.memory_gbs > 100 and found.link_gbs > 10
    rates = found.tflops
    known = [rates[name] for name in ("fp32", "tf32", "bf16", "fp8") if name in rates]
    assert known == sorted(known) and rates.get("bf16", rates.get("fp16")) == rates.get("fp16")


@pytest.mark.parametrize("speed", list(speeds()), ids=lambda speed: speed.of)
def test_published_speeds_are_in_the_range(speed: Speed) -> None:
    assert speed.estimate_s.low <= speed.published_s <= speed.estimate_s.high
    assert speed.published_s / 2.5 <= speed.estimate_s.value <= 2.5 * speed.published_s


def test_a_step_gets_shorter_with_a_faster_gpu_more_of_them_and_half_precision() -> None:
    model, a100, h100 = architecture("gpt2"), gpu_type("a100"), gpu_type("h100")
    assert model is not None and a100 is not None and h100 is not None
    size = model.size(length=1024)

    def value(**other: object) -> float:
        given = {"gpu": a100, "precision": "bf16", "gpus": 1, "samples": 512.0, **other}
        return step_time(size, **given).value  # type: ignore[arg-type]

    assert value(gpu=h100) < value() < value(precision="tf32") < value(precision="fp32")
    assert value(gpus=8) < value() / 4 and value(samples=1024.0) > 1.8 * value()
    assert value(recomputing=True) == pytest.approx(4 / 3 * value(), rel=0.02)


def test_a_precision_that_is_not_told_widens_the_range() -> None:
    model, a100 = architecture("resnet50"), gpu_type("a100")
    assert model is not None and a100 is not None
    size = model.size()
    unknown, half = step_time(size, 1e4, a100), step_time(size, 1e4, a100, precision="amp-fp16")
    plain = step_time(size, 1e4, a100, precision="fp32")
    assert unknown.low <= half.low and unknown.high >= half.high and unknown.high >= plain.value
