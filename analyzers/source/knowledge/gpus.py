"""GPU types by the names that schedulers give them, and how well training uses them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

from analyzers.source.arithmetic.size import Kind, Range
from analyzers.source.knowledge.files import document

#: What may stand right before a type's name, as in ``RTX4090``.
_BEFORE = "NVIDIA|TESLA|GEFORCE|QUADRO|RTX|AMD|INSTINCT|GPU"
_MEMORY_WORD = re.compile(r"(\d{1,3})\s*G(?:I?B)?\b", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Gpu:
    """A GPU type: memory in GiB, dense peaks in TFLOP/s by precision, bandwidths in GB/s (knowledge/gpus.yaml)."""

    name: str
    memory_gib: float
    tflops: Mapping[str, float]
    memory_gbs: float
    link: str
    link_gbs: float
    source: str

    def peaks(self, precision: str | None) -> list[tuple[float, bool]]:
        """Peaks in TFLOP/s that training in a precision may draw on, and whether each is of the matrix units.

        ``precision`` as the fact has it, None where it is not known. A precision without matrix units on this GPU runs
        on the plain ones; 32-bit training runs on TF32 where the library says so (PyTorch's convolutions, JAX).
        """
        plain, wanted = (self.tflops["fp32"], False), {"amp-fp16": "fp16"}.get(precision or "", precision or "")
        if precision is None:
            return [plain, *((self.tflops[name], True) for name in ("bf16", "fp16") if name in self.tflops)][:2]
        if wanted == "fp8" and wanted not in self.tflops:
            wanted = "bf16"
        if wanted == "fp32":
            return [plain, (self.tflops["tf32"], True)] if "tf32" in self.tflops else [plain]
        return [(self.tflops[wanted], True)] if wanted in self.tflops else [plain]


@cache
def _gpus() -> dict[str, Gpu]:
    found: dict[str, Gpu] = {}
    for row in document("gpus.yaml")["gpus"]:
        gpu = Gpu(
            row["name"], row["memory_gib"][0], row["tflops"], row["memory_gbs"], row["link"], row["link_gbs"],
            row["source"],
        )  # fmt: skip
        for called in (row["name"], *row.get("aliases", ())):
            found[called] = gpu
    return found


def gpus() -> list[Gpu]:
    """All types that are known."""
    return list({gpu.name: gpu for gpu in _gpus().values()}.values())


def gpu_type(name: str | None) -> Gpu | None:
    """The type that a scheduler's name means (``nvidia_a100-sxm4-80gb``), with the memory that the name states.

    None where no known type is named, or several are (``a100|h100``).
    """
    text = (name or "")[:200].upper()
    if len(re.split(r"[|,]", text)) > 1:
        return None
    for pattern, gpu in _patterns():
        written = pattern.search(text)
        if written:
            rest = text[: written.start()] + " " + text[written.end() :]
            stated = _MEMORY_WORD.search(rest.replace("_", " ").replace("-", " "))
            memory = float(stated[1]) if stated and 4 <= int(stated[1]) <= 300 else gpu.memory_gib
            return replace(gpu, memory_gib=memory)
    return None


@cache
def _patterns() -> list[tuple[re.Pattern[str], Gpu]]:
    """How each type may be written, the longest first: an H100-PCIe is not just an H100, an L40S no L40."""
    found = []
    for called, gpu in sorted(_gpus().items(), key=lambda item: -len(item[0])):
        apart = r"[\W_]*".join(re.findall(r"[A-Z0-9]+", called.upper()))
        found.append((re.compile(rf"(?:^|[\W_]|{_BEFORE}){apart}(?![0-9])"), gpu))
    return found


@cache
def _efficiency() -> dict[str, Any]:
    return document("efficiency.yaml")


def efficiency(kind: Kind, *, matrix: bool) -> Range:
    """The share of the peak that training a kind of model reaches."""
    return Range(**_efficiency()["efficiency"][kind]["matrix" if matrix else "vector"])


def several_gpus() -> Range:
    """What several GPUs reach together, of the speed of as many single ones."""
    return Range(**_efficiency()["several_gpus"])


def overhead_s() -> Range:
    """What a step takes beside its arithmetic, in seconds."""
    return Range(**_efficiency()["overhead_s"])


def measured_speeds() -> list[tuple[Mapping[str, Any], str]]:
    """Published speeds of training, each with its source."""
    return [(run, group["source"]) for group in _efficiency()["measured"] for run in group["runs"]]
