"""GPU memory of a training job by arithmetic, as a range: model states, activations, and what the libraries take.

Sources: Rajbhandari et al. 2020 (ZeRO, arXiv:1910.02054) for model states and their sharding; Korthikanti et al. 2022
(arXiv:2205.05198) for what attention keeps; the documentation of PyTorch for copies of gradients and weights. What
differs between programs and can not be seen in facts is the range: fused attention or not, weights in 32 bits or in 16,
copies of gradients, freed and cached blocks.
"""

from __future__ import annotations

from dataclasses import dataclass

from analyzers.source.arithmetic.size import Range, Size, exactly

_MIB = 1024.0**2
#: The CUDA context, the libraries' workspaces and communication buffers, in MiB.
CONTEXT = Range(450.0, 900.0, 2_500.0)
#: The allocator's cached and unusable blocks, as a factor on what is in use.
_SLACK = Range(1.0, 1.08, 1.3)
#: Longer sequences than this are hardly trained with attention that keeps its scores: those would not fit.
_FUSED_BEYOND = 2048.0
#: Bytes of optimizer state a parameter in 32 bits, by words in the optimizer's name; the first that fits.
_STATES: tuple[tuple[str, Range], ...] = (
    ("8bit", Range(2.0, 2.1, 2.5)),
    ("8-bit", Range(2.0, 2.1, 2.5)),
    ("adafactor", Range(0.02, 0.1, 4.0)),
    ("adam", exactly(8.0)),
    ("lamb", exactly(8.0)),
    ("adadelta", exactly(8.0)),
    ("adagrad", exactly(4.0)),
    ("rmsprop", Range(4.0, 4.0, 12.0)),
    ("lion", exactly(4.0)),
    ("lars", exactly(4.0)),
    ("sgd", Range(0.0, 4.0, 4.0)),
)
#: Weights of adapters as a share of the model's (Hu et al. 2021, arXiv:2106.09685; larger in programs of today).
_ADAPTERS = Range(0.0005, 0.005, 0.03)
_UNKNOWN_STATES = Range(0.0, 8.0, 8.0)


@dataclass(frozen=True, slots=True)
class Setup:
    """How a model is trained: ``precision`` and ``optimizer`` as the facts have them (None: not known).

    ``samples`` are those of one forward pass on one GPU, ``gpus`` all of the job; ``sharding`` is 0 to 3 as in ZeRO
    (FSDP: 3), ``replicated`` whether gradients are averaged over GPUs that hold the whole model. A model that is itself
    divided (tensor or pipeline parallel) is not one of these. With ``adapters`` the model's own weights are frozen;
    ``weight_bits`` are those that they are loaded in, where that is fewer than the precision's.
    """

    samples: float
    gpus: int = 1
    precision: str | None = None
    optimizer: str | None = None
    sharding: int = 0
    replicated: bool = False
    recomputing: bool | None = None
    learns: bool = True
    adapters: bool = False
    weight_bits: int | None = None


def memory_mib(size: Size, setup: Setup) -> Range:
    """Peak MiB on one GPU."""
    used = _plus(_model_states(size, setup), _activations(size, setup)).times(1 / _MIB)
    return _plus(CONTEXT, _times(_SLACK, used))


def _half(precision: str | None) -> bool:
    return precision in ("amp-fp16", "bf16", "fp8")


def optimizer_bytes(optimizer: str | None) -> Range:
    """Bytes of optimizer state for each parameter."""
    name = (optimizer or "").lower()
    return next((states for word, states in _STATES if word in name), _UNKNOWN_STATES)


def _model_states(size: Size, setup: Setup) -> Range:
    """Bytes of weights, gradients and optimizer states on one GPU."""
    count = size.parameters
    if not setup.learns:
        weights = Range(2.0, 2.0, 4.0) if _half(setup.precision) else Range(2.0, 4.0, 4.0)
        return _times(weights, _held(count, setup, whole=setup.sharding < 3))
    if setup.adapters:
        return _adapted_states(size, setup)
    half = _half(setup.precision)
    # Autocast keeps weights and gradients in 32 bits and casts as it goes; a program may also load 16-bit weights.
    weights = Range(2.0, 4.0, 6.0) if half else exactly(4.0)
    gradients = Range(2.0, 4.0, 4.0) if half else exactly(4.0)
    states = optimizer_bytes(setup.optimizer)
    if half:  # states in 16 bits beside 16-bit weights, or a 32-bit copy of the weights beside them
        states = Range(states.low / 2, states.value, states.high + 4.0)
    elif states.high:
        states = Range(states.low, states.value, states.high + 4.0)  # what the update itself needs, for a moment
    # Data parallelism averages gradients in buckets: a copy where the program does not ask for views.
    buckets = Range(0.0, 4.0, 4.0) if setup.replicated and setup.sharding == 0 else exactly(0.0)
    total = exactly(0.0)
    for part, sharded_from in ((weights, 3), (gradients, 2), (states, 1), (buckets, 4)):
        total = _plus(total, _times(part, _held(count, setup, whole=setup.sharding < sharded_from)))
    return total


def _adapted_states(size: Size, setup: Setup) -> Range:
    """Frozen weights in 16 bits (or fewer, or 32), and few that learn, with all that belongs to them in 32 bits."""
    frozen = Range(2.0, 2.0, 4.0)
    if setup.weight_bits is not None:  # scales beside the weights; embeddings and norms stay in 16 bits
        frozen = Range(1.0, 1.1, 1.4).times(setup.weight_bits / 8)
    weights = _times(frozen, _held(size.parameters, setup, whole=setup.sharding < 3))
    each = 8.0 + optimizer_bytes(setup.optimizer).value
    return _plus(weights, _times(_ADAPTERS, exactly(size.parameters * each)))


def _held(count: float, setup: Setup, *, whole: bool) -> Range:
    """How many parameters' worth of a state one GPU holds: all, or its share and a little of what passes through."""
    share = count / max(1, setup.gpus)
    return exactly(count) if whole else Range(share, share, 1.1 * share)


def _activations(size: Size, setup: Setup) -> Range:
    """Bytes of activations of one forward pass on one GPU."""
    width = 2.0 if _half(setup.precision) else 4.0
    # Autocast leaves normalisations, losses and what follows them in 32 bits.
    widths = Range(width, 1.2 * width, 1.5 * width) if _half(setup.precision) else exactly(width)
    if not setup.learns:
        share = setup.samples * size.kept
        return Range(0.0, 0.03 * width * share, 0.3 * 4.0 * share)
    kept = Range(size.kept, size.kept, 1.25 * size.kept)
    if size.kind in ("convolutional", "depthwise"):  # activations in place keep one number of a pair
        kept = Range(0.55 * size.kept, size.kept, 1.3 * size.kept)
    unfused = size.kept_scores * min(1.0, _FUSED_BEYOND / max(1.0, size.tokens or 1.0))
    scores = Range(0.0, 0.0 if _half(setup.precision) else unfused, unfused)
    if setup.recomputing is not False and size.kept_recomputing is not None:
        small = size.kept_recomputing
        if setup.recomputing:
            kept, scores = Range(small, small, 1.6 * small), Range(0.0, 0.0, 0.05 * unfused)
        else:
            kept = Range(small, kept.value, kept.high)
    elif setup.recomputing:
        kept = Range(0.15 * size.kept, 0.4 * size.kept, size.kept)
    logits = Range(4.0 * size.logits, 8.0 * size.logits, 14.0 * size.logits)
    part = _plus(_times(_plus(kept, scores), widths), logits)
    return part.times(setup.samples)


def _times(one: Range, other: Range) -> Range:
    return Range(one.low * other.low, one.value * other.value, one.high * other.high)


def _plus(one: Range, other: Range) -> Range:
    return Range(one.low + other.low, one.value + other.value, one.high + other.high)
