"""GPU memory of a training job by arithmetic: weights, gradients, optimizer states, activations, phase by phase.

A step peaks either where the loss has been computed (all activations, hardly a gradient) or in the optimizer's update
(all gradients, no activation); adding up everything would count memory twice that is never in use together.

Sources: Rajbhandari et al., "ZeRO" (SC'20) for model states and their sharding; Micikevicius et al., "Mixed Precision
Training" (ICLR'18) for 32-bit weights beside 16-bit arithmetic; Dettmers et al., "8-bit Optimizers" (ICLR'22); Shazeer
and Stern, "Adafactor" (ICML'18); Hu et al., "LoRA" (ICLR'22) and Dettmers et al., "QLoRA" (NeurIPS'23) for frozen
weights; Gao et al., "Estimating GPU Memory Consumption of Deep Learning Models" (ESEC/FSE'20) for what contexts and
allocators add. Activations: `predictors.activations`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from analyzers.source.arithmetic.sizing import parameters
from analyzers.types import SourceFacts
from predictors.activations import Activations, Arithmetic, activations
from predictors.types import Interval
from predictors.workload import Workload

_MIB = 1024.0**2
#: CUDA context and library workspaces, and blocks that the allocator caches or can not use, as a factor.
CONTEXT_MIB = 900.0
_SLACK = 1.06
_CONTEXT_LOW_MIB, _CONTEXT_HIGH_MIB = 450.0, 2_000.0
_SLACK_LOW, _SLACK_HIGH = 1.0, 1.2
_Z_80 = 1.2816
#: Bytes of optimizer state a parameter in 32 bits, by words in the optimizer's name, and those that its update needs
#: for a moment (PyTorch works on lists of all tensors at once, so that a temporary is as large as the weights).
_OPTIMIZERS: tuple[tuple[str, float, float], ...] = (
    ("8bit", 2.0, 0.0), ("8-bit", 2.0, 0.0), ("adafactor", 0.1, 8.0), ("adam", 8.0, 4.0), ("lamb", 8.0, 8.0),
    ("adadelta", 8.0, 8.0), ("adagrad", 4.0, 4.0), ("rmsprop", 4.0, 4.0), ("lion", 4.0, 4.0), ("lars", 4.0, 4.0),
    ("sgd", 4.0, 0.0),
)  # fmt: skip
#: Programs that hold weights, gradients and states in 16 bits have half of what is expected.
_LEAST_STATES = 0.5
_NOTHING = Interval(0.0, 0.0, 0.0)
_UNKNOWN_OPTIMIZER = (8.0, 4.0)
_WEIGHT_BYTES = 4.0
#: Adapters' weights as a share of the model's (LoRA of rank 8 to 16 beside two to four matrices a layer).
_ADAPTERS = 0.002
_DEFAULT_BATCH = 8.0
#: Few 32-bit words beside weights in few bits: scales, and what is not quantised (QLoRA).
_QUANTISED_MORE = 1.1
#: Of what the loss takes at its peak, the share that is added after the forward pass.
_LOSS_AFTER_FORWARD = 2.0 / 12.0
_SHARDING = (("zero3", 3), ("fsdp", 3), ("zero2", 2), ("zero1", 1))


@dataclass(frozen=True, slots=True)
class TrainingMemory:
    """MiB on one GPU. ``tensors`` is what lives in tensors at the peak, with an 80 % interval.

    ``weights``, ``gradients``, ``optimizer`` are the model's states as held on one GPU, ``a_sample`` what each sample
    of the batch adds, ``apart`` what the passes hold however large the batch is. ``update`` is the peak of the
    optimizer's step. ``batch``: of so many samples.
    """

    weights: float
    gradients: float
    optimizer: float
    a_sample: Interval
    apart: Interval
    update: float
    batch: float

    @property
    def tensors(self) -> Interval:
        """What lives in tensors at the peak."""
        return self._of_batch(self.batch)

    def total(self, batch: float | None = None) -> Interval:
        """With CUDA's context, workspaces and the allocator's slack: what a monitor shows, and what must fit."""
        tensors = self._of_batch(batch or self.batch)
        return Interval(
            CONTEXT_MIB + _SLACK * tensors.value,
            _CONTEXT_LOW_MIB + _SLACK_LOW * tensors.low,
            _CONTEXT_HIGH_MIB + _SLACK_HIGH * tensors.high,
        )

    def _of_batch(self, batch: float) -> Interval:
        passes = (apart + batch * each for apart, each in zip(_ends(self.apart), _ends(self.a_sample), strict=True))
        updates = (self.update, _LEAST_STATES * self.update, self.update)
        return Interval(*(max(pair) for pair in zip(passes, updates, strict=True)))


def _ends(interval: Interval) -> tuple[float, float, float]:
    return interval.value, interval.low, interval.high


def training_memory(size: Workload, facts: SourceFacts) -> TrainingMemory | None:
    """Memory of training, or of inference where the facts say so; None where the model's size is not known."""
    if size.parameters is None and (known := parameters(facts)) is not None:
        size = replace(size, parameters=known[0].value)
    states = _states(size, facts)
    if states is None or size.parameters is None:
        return None
    if _is_inference(facts):
        return _inference(size, facts)
    kept = activations(size, facts, _arithmetic(facts), frozen=states.frozen)
    if kept is None:
        return None
    return _peak(size, states, kept, facts)


@dataclass(frozen=True, slots=True)
class _States:
    """Bytes on one GPU. ``update`` are temporaries of the optimizer's step, ``buckets`` copies of gradients that data
    parallelism averages (PyTorch's unless told to use views); ``whole`` are all parameters, before sharding."""

    weights: float
    buckets: float
    gradients: float
    optimizer: float
    update: float
    whole: float
    frozen: bool


def _states(size: Workload, facts: SourceFacts) -> _States | None:
    count = size.parameters
    if count is None:
        return None
    parallelism = str(facts.value("parallelism") or "").lower()
    level = _level(facts)
    is_split = bool({"tp", "pp"} & set("".join(c if c.isalnum() else " " for c in parallelism).split()))
    shards = [max(1, size.gpus) if is_split or level >= least else 1 for least in (3, 2, 1)]
    state_bytes, update_bytes = _optimizer_bytes(facts)
    frozen = facts.value("adapters") is True
    weights, gradients, learned = _WEIGHT_BYTES * count, _WEIGHT_BYTES, count
    if level and not frozen and _arithmetic(facts) == "half":
        # Weights and gradients in 16 bits, and 32-bit weights with the optimizer's states (ZeRO, section 3.1).
        weights, gradients, state_bytes = 2.0 * count, 2.0, state_bytes + _WEIGHT_BYTES
    if frozen:
        bits = facts.value("weight_bits")
        each = _QUANTISED_MORE * bits / 8 if isinstance(bits, int | float) and not isinstance(bits, bool) else 2.0
        learned = _ADAPTERS * count
        weights = each * count + _WEIGHT_BYTES * learned
    return _States(
        weights / shards[0],
        gradients * learned if "ddp" in parallelism and not level else 0.0,
        gradients * learned / shards[1],
        state_bytes * learned / shards[2],
        update_bytes * learned / shards[2],
        count,
        frozen,
    )


def _optimizer_bytes(facts: SourceFacts) -> tuple[float, float]:
    name = str(facts.value("optimizer") or "").lower()
    return next(((states, update) for word, states, update in _OPTIMIZERS if word in name), _UNKNOWN_OPTIMIZER)


def _peak(size: Workload, states: _States, kept: Activations, facts: SourceFacts) -> TrainingMemory:
    recomputes = facts.value("activation_checkpointing") is True
    accumulates = (facts.value("grad_accum") or 1) != 1
    # Autocast's 16-bit copies of the weights are kept for the backward pass, except by blocks that are recomputed.
    casts = 2.0 * kept.cast * states.whole if _arithmetic(facts) == "autocast" and not states.frozen else 0.0
    batch = size.batch_per_gpu or _DEFAULT_BATCH
    a_sample = kept.kept + kept.loss
    if recomputes:
        # Then the copies go when the forward pass ends, a little before the loss takes the most.
        a_sample = kept.inputs + max(kept.block, kept.loss)
        casts = max(0.0, casts - batch * _LOSS_AFTER_FORWARD * kept.loss)
    early = 1.0 if accumulates else kept.early
    held = states.weights + states.optimizer + states.buckets
    apart = held + casts + early * states.gradients
    update = held + states.gradients + states.update
    high_sample = a_sample * math.exp(_Z_80 * kept.spread) + (0.0 if recomputes else kept.unfused)
    low_sample = a_sample * math.exp(-_Z_80 * kept.spread)
    return TrainingMemory(
        states.weights / _MIB,
        states.gradients / _MIB,
        states.optimizer / _MIB,
        Interval(a_sample / _MIB, low_sample / _MIB, high_sample / _MIB),
        Interval(apart / _MIB, _LEAST_STATES * apart / _MIB, (apart + (1.0 - early) * states.gradients) / _MIB),
        update / _MIB,
        batch,
    )


def _inference(size: Workload, facts: SourceFacts) -> TrainingMemory:
    width = 4.0 if _arithmetic(facts) == "single" else 2.0
    weights = width * (size.parameters or 0.0) / _MIB
    held = Interval(weights, _LEAST_STATES * weights, 2.0 * weights)
    return TrainingMemory(weights, 0.0, 0.0, _NOTHING, held, 0.0, size.batch_per_gpu or _DEFAULT_BATCH)


def _arithmetic(facts: SourceFacts) -> Arithmetic:
    """A stated 16-bit precision is taken as autocast, which is what libraries mean by it.

    Not so where frozen weights are loaded in 16 bits, and in engines that shard: they compute with 16-bit weights.
    """
    if str(facts.value("precision") or "fp32").lower() in ("fp32", "tf32"):
        return "single"
    return "half" if facts.value("adapters") is True or _level(facts) else "autocast"


def _level(facts: SourceFacts) -> int:
    """ZeRO's stage, 3 for FSDP, 0 for none."""
    parallelism = str(facts.value("parallelism") or "").lower()
    return next((level for name, level in _SHARDING if name in parallelism), 0)


def _is_inference(facts: SourceFacts) -> bool:
    return str(facts.value("workload_type") or "").lower().startswith(("infer", "eval", "serv"))
