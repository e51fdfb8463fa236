"""A first estimate of how long a training step takes. It is rough: a range, not a number to plan by."""

from __future__ import annotations

import math

from analyzers.source.arithmetic.size import PASSES_OF_A_STEP, Range, Size
from analyzers.source.knowledge.gpus import Gpu, efficiency, overhead_s, several_gpus


def step_time(
    size: Size, samples: float, gpu: Gpu, *, gpus: int = 1, precision: str | None = None, recomputing: bool = False,
    passes: float = PASSES_OF_A_STEP,
) -> Range:  # fmt: skip
    """Seconds of a training step of ``samples`` over ``gpus`` of a type.

    Operations over peak and typical efficiency (knowledge/efficiency.yaml), plus what a step takes besides. Waiting for
    data is not in it. ``passes`` are forward and backward pass in forward passes; ``recomputing`` activations costs one
    more. Where the precision leaves open which units are used, the range reaches over both.
    """
    operations = (passes + (1.0 if recomputing else 0.0)) * size.forward_flops * samples / gpus
    found = [_on(size, operations, peak, gpus, matrix=matrix) for peak, matrix in gpu.peaks(precision)]
    middle = math.exp(sum(math.log(each.value) for each in found) / len(found))
    return Range(min(each.low for each in found), middle, max(each.high for each in found))


def _on(size: Size, operations: float, peak_tflops: float, gpus: int, *, matrix: bool) -> Range:
    share, aside = efficiency(size.kind, matrix=matrix), overhead_s()
    together = several_gpus() if gpus > 1 else Range(1.0, 1.0, 1.0)
    ideal = operations / (peak_tflops * 1e12)
    return Range(
        ideal / (share.high * together.high) + aside.low,
        ideal / (share.value * together.value) + aside.value,
        ideal / (share.low * together.low) + aside.high,
    )
