"""Public figures of GPU models: peak throughput and memory, from the vendors' data sheets."""

from __future__ import annotations

import re
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class GpuModel:
    """Dense peak rates in TFLOP/s (16 bit with matrix units where there are any; plain 32 bit) and memory in MiB."""

    name: str
    half_tflops: float
    single_tflops: float
    memory_mib: int

    @property
    def usable_mib(self) -> float:
        """What a program can have: error correction and the driver take a part (an 80 GiB A100 shows 79.2)."""
        return _USABLE * self.memory_mib


_USABLE = 0.975
_GIB = 1024
#: The longer name first: "A100" must not be read as "A10".
GPUS: tuple[GpuModel, ...] = (
    GpuModel("GB200", 2500, 80, 186 * _GIB),
    GpuModel("B200", 2250, 75, 180 * _GIB),
    GpuModel("H200", 989, 67, 141 * _GIB),
    GpuModel("H100", 989, 67, 80 * _GIB),
    GpuModel("H800", 989, 67, 80 * _GIB),
    GpuModel("H20", 148, 44, 96 * _GIB),
    GpuModel("A100", 312, 19.5, 40 * _GIB),
    GpuModel("A800", 312, 19.5, 80 * _GIB),
    GpuModel("A6000", 155, 38.7, 48 * _GIB),
    GpuModel("A40", 150, 37.4, 48 * _GIB),
    GpuModel("A30", 165, 10.3, 24 * _GIB),
    GpuModel("A10", 125, 31.2, 24 * _GIB),
    GpuModel("L40", 181, 90.5, 48 * _GIB),
    GpuModel("L4", 121, 30.3, 24 * _GIB),
    GpuModel("V100", 125, 15.7, 16 * _GIB),
    GpuModel("P100", 21, 10.6, 16 * _GIB),
    GpuModel("P40", 12, 11.8, 24 * _GIB),
    GpuModel("K80", 4.1, 4.1, 12 * _GIB),
    GpuModel("T4", 65, 8.1, 16 * _GIB),
    GpuModel("4090", 165, 82.6, 24 * _GIB),
    GpuModel("3090", 71, 35.6, 24 * _GIB),
    GpuModel("2080TI", 54, 13.4, 11 * _GIB),
    GpuModel("1080TI", 11.3, 11.3, 11 * _GIB),
    GpuModel("MI300X", 1307, 163, 192 * _GIB),
    GpuModel("MI250", 362, 45.3, 128 * _GIB),
)
#: What stands in where the type is not said: a data-centre card of the middle of the field.
TYPICAL = GpuModel("a typical data-centre GPU", 150, 20, 32 * _GIB)

_MEMORY_WORD = re.compile(r"(\d{1,3})\s*G(?:I?B)?\b", re.IGNORECASE)


def gpu_model(gpu_type: str | None) -> GpuModel | None:
    """The model that a scheduler's type name means, as in ``nvidia_a100-sxm4-80gb``; None when it is not known."""
    squashed = "".join(c for c in (gpu_type or "").upper() if c.isalnum())
    for gpu in GPUS:
        if gpu.name in squashed:
            stated = _MEMORY_WORD.search((gpu_type or "").replace("_", " ").replace("-", " "))
            memory_mib = int(stated[1]) * _GIB if stated and 4 <= int(stated[1]) <= 300 else gpu.memory_mib
            return GpuModel(gpu.name, gpu.half_tflops, gpu.single_tflops, memory_mib)
    return None
