"""GPU memory of a training job by arithmetic: weights, gradients, optimizer states, activations.

Sources: Rajbhandari et al., "ZeRO" (SC'20) for model states and sharding; Korthikanti et al., "Reducing Activation
Recomputation in Large Transformer Models" (MLSys'23) for a layer's activations, 34 s b h bytes at 16 bit, 2 s b h when
recomputed; the shape of a transformer from its parameters, 12 layers x width^2 (Kaplan et al., 2020).
"""

from __future__ import annotations

import math

from analyzers.types import SourceFacts
from predictors.workload import Workload

_MIB = 1024.0**2
#: CUDA context, library workspaces and the allocator's slack.
CONTEXT_MIB = 900.0
_SLACK = 1.1
#: Bytes of optimizer state a parameter.
_STATE_BYTES = {"adam": 8.0, "lamb": 8.0, "lion": 4.0, "adafactor": 0.5, "sgd": 4.0, "rmsprop": 4.0, "adagrad": 4.0}
_UNKNOWN_STATE_BYTES = 8.0
_EIGHT_BIT_STATE_BYTES = 2.0
#: Width to depth of common transformers (GPT-2 64, Llama 7B 128, GPT-3 128).
_WIDTH_PER_LAYER = 100.0
_VOCABULARY = 40_000
#: Activations of image models a sample at 224 pixels and 32 bit, growing with size: ResNet-50 keeps about 95 MiB.
_IMAGE_MIB = 95.0
_IMAGE_PARAMETERS = 25e6
_IMAGE_EXPONENT = 0.5


def training_memory_mib(size: Workload, facts: SourceFacts) -> float | None:
    """MiB a GPU, or None where not even the parameter count is known."""
    if size.parameters is None:
        return None
    precision = str(facts.value("precision") or "fp32").lower()
    states_mib = _states_bytes(size, facts) * size.parameters / _MIB
    if _is_inference(facts):
        return CONTEXT_MIB + _SLACK * size.parameters * (2.0 if _is_half(precision) else 4.0) / _MIB
    batch = size.batch_per_gpu or 8.0
    activations_mib = _text_mib(size, batch, precision, facts) if size.is_text else _image_mib(size, batch, precision)
    return CONTEXT_MIB + _SLACK * (states_mib + activations_mib)


def _states_bytes(size: Workload, facts: SourceFacts) -> float:
    """Bytes a parameter of weights, gradients and optimizer states on one GPU."""
    optimizer = str(facts.value("optimizer") or "").lower()
    states = next((b for name, b in _STATE_BYTES.items() if name in optimizer), _UNKNOWN_STATE_BYTES)
    if "8bit" in optimizer or "8-bit" in optimizer:
        states = _EIGHT_BIT_STATE_BYTES
    weights, gradients = 4.0, 4.0  # autocast keeps 32-bit masters; a 16-bit copy and 16-bit gradients sum to the same
    parallelism = str(facts.value("parallelism") or "").lower()
    shards = max(1, size.gpus)
    if "zero3" in parallelism or "fsdp" in parallelism:
        return (weights + gradients + states) / shards
    if "zero2" in parallelism:
        return weights + (gradients + states) / shards
    if "zero1" in parallelism:
        return weights + gradients + states / shards
    if "tp" in parallelism.split() or "pp" in parallelism.split() or parallelism in ("tp", "pp"):
        return (weights + gradients + states) / shards
    return weights + gradients + states


def _text_mib(size: Workload, batch: float, precision: str, facts: SourceFacts) -> float:
    layers = max(1.0, math.cbrt((size.parameters or 0.0) / (12.0 * _WIDTH_PER_LAYER**2)))
    width = _WIDTH_PER_LAYER * layers
    a_layer = 2.0 if facts.value("activation_checkpointing") is True else 34.0
    scale = 1.0 if _is_half(precision) else 2.0
    tokens = batch * size.seq_len
    logits = tokens * _VOCABULARY * 6.0  # the output in 16 bit and its loss in 32
    return (tokens * width * layers * a_layer * scale + logits) / _MIB


def _image_mib(size: Workload, batch: float, precision: str) -> float:
    pixels = (size.image_size / 224.0) ** 2
    growth = math.pow((size.parameters or 0.0) / _IMAGE_PARAMETERS, _IMAGE_EXPONENT)
    return batch * _IMAGE_MIB * pixels * growth * (0.6 if _is_half(precision) else 1.0)


def _is_half(precision: str) -> bool:
    return precision not in ("fp32", "tf32")


def _is_inference(facts: SourceFacts) -> bool:
    return str(facts.value("workload_type") or "").lower().startswith(("infer", "eval", "serv"))
