"""What a forward pass leaves in GPU memory for the backward pass, by architecture.

Sources: Korthikanti et al., "Reducing Activation Recomputation in Large Transformer Models" (MLSys'23), for which
tensors of a transformer's layer are kept; Chen et al., "Training Deep Nets with Sublinear Memory Cost" (2016), for
recomputation; Dao et al., "FlashAttention" (NeurIPS'22), for attention that keeps no scores; PyTorch's documentation
of autocast for which operations stay in 32 bits. Counted is what PyTorch's usual modules keep, tensor by tensor.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Literal

from analyzers.source.arithmetic.layers import Walk, run
from analyzers.source.arithmetic.sizing import sized
from analyzers.source.arithmetic.transformer import Transformer
from analyzers.source.arithmetic.transformer import size as transformer_size
from analyzers.source.knowledge.architectures import Architecture, architecture
from analyzers.types import SourceFacts
from predictors.workload import Workload

#: How numbers are kept: all in 32 bits, autocast (weights and sums in 32 bits, products in 16), all in 16 bits.
Arithmetic = Literal["single", "autocast", "half"]

_SINGLE_BYTES, _HALF_BYTES = 4.0, 2.0
#: Loss over a vocabulary at its peak: logarithms of probabilities, and two gradients, in 32 bits (PyTorch).
_LOSS_BYTES = 12.0
#: Scores of attention that is not fused: probabilities in 32 bits, in 16 bits, dropout's mask and what it leaves.
_SCORE_BYTES = 9.0
#: Longer sequences than this are hardly trained with unfused attention.
_UNFUSED_UP_TO = 2048.0
#: Families whose attention adds a bias to the scores, and the share of programs in which it is not fused for that:
#: libraries came to fuse T5's lately.
#: BLOOM's has no dropout, and so keeps two thirds of the bytes above.
_UNFUSED = ((re.compile(r"^(?:.*/)?(?:flan-|m|by)?t5", re.I), 0.5), (re.compile(r"^(?:.*/)?bloom", re.I), 0.67))
#: Families whose GELU is written out in elementary operations (``gelu_new``), each of which keeps its operands.
_ELEMENTARY_GELU = re.compile(r"^(?:.*/)?(?:gpt2|distilgpt2|gpt-neo|gpt-j|bloom|albert|phi|flan-t5|t5-v1_1)", re.I)
_RELU = re.compile(r"^(?:.*/)?(?:opt-|t5-|whisper)", re.I)
_DROPOUT = re.compile(r"^(?:.*/)?(?:gpt2|distilgpt2|opt|t5|flan-t5|bert|distilbert|roberta|xlm|albert)", re.I)
#: Image networks that keep more than outputs of convolutions, normalisations and activations, in 32 bits and under
#: autocast: SiLU and the like need their input too, as ReLU6 does where it is not in place (padding may be a step of
#: its own then); a dense block concatenates its inputs anew for each layer; layer normalisations stay in 32 bits.
_KEEPS_MORE = (
    (re.compile(r"efficientnet|mobilenet_?v3", re.I), 1.4, 1.4),
    (re.compile(r"mobilenet|mnasnet", re.I), 1.5, 1.5),
    (re.compile(r"densenet", re.I), 1.4, 1.4),
    (re.compile(r"convnext", re.I), 1.2, 1.37),
    (re.compile(r"swin", re.I), 1.02, 1.25),
)
#: Where a maximum was, as a 64-bit number.
_INDEX_BYTES = 8.0
#: The last layers of a convolutional network have most of its weights and few of its activations.
_EARLY_GRADIENTS = 0.6
#: Families that compute queries, keys and values with one matrix; autocast copies the input of each matrix by itself.
_FUSED_QUERIES = re.compile(r"^(?:.*/)?(?:gpt-?\d?$|gpt2|distilgpt2|gpt-neox|pythia|bloom|mpt|falcon)", re.I)
_UNET = re.compile(r"u-?net", re.I)
_UNET_PARAMETERS, _UNET_KEPT_PER_PIXEL = 31e6, 1_450.0
#: Of a convolutional network, what is left where its blocks are recomputed: their inputs, and one block.
_RECOMPUTED_SHARE = 0.38
#: Outputs of an encoder-decoder as a share of its inputs: a summary.
_OUTPUT_SHARE = 0.25
#: Width to depth of common transformers (GPT-2 64, Llama 7B 128, GPT-3 128), and a vocabulary where none is told.
_WIDTH_PER_LAYER = 80.0
_VOCABULARY = 50_257
#: Kept by image networks for each parameter at 224 pixels (ResNet-50: 0.86, ViT-B: 0.5).
_KEPT_PER_PARAMETER = 0.75
_USUAL_PIXELS = 224.0


@dataclass(frozen=True, slots=True)
class Activations:
    """Bytes of one sample: ``kept`` by all layers, or with recomputation ``inputs`` of blocks and one ``block``.

    ``loss`` is what the loss takes on top at its peak, ``unfused`` what attention would add that keeps its scores.
    ``cast`` is the share of the parameters that autocast copies to 16 bits, ``early`` the share of the gradients that
    are there while hardly an activation is freed yet. ``spread`` is how far the whole may be off on the log scale,
    because of how the model was found.
    """

    kept: float
    inputs: float
    block: float
    loss: float = 0.0
    unfused: float = 0.0
    cast: float = 1.0
    early: float = 0.0
    spread: float = 0.15


def activations(size: Workload, facts: SourceFacts, arithmetic: Arithmetic, *, frozen: bool) -> Activations | None:
    """Those of the model that the facts tell of; None where nothing is known of its size."""
    name = str(facts.value("model") or "")
    named = architecture(name)
    shape = _shape(named, facts)
    if shape is not None and not size_contradicts(named, size):
        style = name if named is not None else _style(shape, name, facts)
        return _of_transformer(shape, style, size, facts, arithmetic, frozen=frozen)
    if named is not None and named.kind == "vision" and not size_contradicts(named, size):
        return _of_patches(named, size, arithmetic, frozen=frozen)
    width = _SINGLE_BYTES if arithmetic == "single" else _HALF_BYTES
    if _UNET.search(name) and named is None and size.parameters:
        numbers = _UNET_KEPT_PER_PIXEL * math.sqrt(size.parameters / _UNET_PARAMETERS) * size.image_size**2
        return _of_image(numbers, width, 0.3)
    found = sized(facts)
    if found is not None and found.exact and named is not None and named.of_images:
        return _of_network(named, name, size, found.size.kept, width)
    if size.parameters is None:
        return None
    if size.is_text:
        guess = replace(_guessed(size.parameters), gated=bool(re.search(r"llama|mistral|qwen", name, re.I)))
        style = _style(guess, name, facts)
        return replace(_of_transformer(guess, style, size, facts, arithmetic, frozen=frozen), spread=0.5)
    numbers = _KEPT_PER_PARAMETER * size.parameters * (size.image_size / _USUAL_PIXELS) ** 2
    return _of_image(numbers, width, 0.6)


def _style(shape: Transformer, name: str, facts: SourceFacts) -> str:
    """The family that a decoder of one's own is programmed like: GPT-2, whose code most of them descend from."""
    return "gpt2" if shape.norm == "layer" and not shape.gated and _predicts_words(shape, facts) else name


def size_contradicts(named: Architecture | None, size: Workload) -> bool:
    """Whether the program's own count of parameters is not that of the model it names."""
    if named is None or size.parameters is None:
        return False
    return abs(math.log(size.parameters / max(1.0, named.size().parameters))) > 0.3


def _shape(named: Architecture | None, facts: SourceFacts) -> Transformer | None:
    if named is not None and named.kind == "transformer" and not named.layers:
        return Transformer(**named.shape)
    told = facts.value("model_shape")
    if not isinstance(told, Mapping):
        return None
    try:
        return Transformer(**told)  # type: ignore[arg-type]
    except (TypeError, ValueError, ZeroDivisionError):
        return None


def _guessed(parameters: float) -> Transformer:
    layers = max(1, round(math.cbrt(parameters / (12.0 * _WIDTH_PER_LAYER**2))))
    width = max(1, round(_WIDTH_PER_LAYER * layers))
    return Transformer(layers=layers, width=width, heads=max(1, width // 64), vocabulary=_VOCABULARY)


def _of_transformer(
    shape: Transformer, name: str, size: Workload, facts: SourceFacts, arithmetic: Arithmetic, *, frozen: bool
) -> Activations:
    tokens = float(size.seq_len)
    layer = _Layer(shape, name, arithmetic, frozen=frozen)
    kept, inputs, block = (
        shape.layers * tokens * layer.kept,
        shape.layers * tokens * layer.stream,
        tokens * layer.kept,
    )
    pairs = float(shape.layers) * shape.heads * tokens * tokens
    outputs = tokens
    if shape.encoder_layers:
        source, outputs = tokens, max(1.0, _OUTPUT_SHARE * tokens)
        crossing = outputs * layer.crossing + source * layer.crossed
        kept = shape.encoder_layers * source * layer.kept + shape.layers * (outputs * layer.kept + crossing)
        inputs = (shape.encoder_layers * source + shape.layers * outputs) * layer.stream
        block = max(source * layer.kept, outputs * layer.kept + crossing)
        pairs = shape.heads * (shape.encoder_layers * source**2 + shape.layers * outputs * (outputs + source))
    scores = _SCORE_BYTES * pairs
    unfused = scores if tokens <= _UNFUSED_UP_TO else 0.0
    share = next((share for pattern, share in _UNFUSED if pattern.search(name)), 0.0)
    kept, block = kept + share * scores, block + share * scores / (shape.layers + shape.encoder_layers)
    unfused *= 1.0 - share
    ends = outputs * layer.norm + tokens * layer.stream
    vocabulary = shape.vocabulary if _predicts_words(shape, facts) else 0
    # The embedding is looked up and not multiplied, except where it is the output's matrix too.
    looked_up = shape.vocabulary * (0 if vocabulary and shape.tied else 1) + shape.positions
    total = transformer_size(shape, 1).parameters
    cast = max(0.0, 1.0 - looked_up * (shape.embedding_width or shape.width) / max(1.0, total))
    return Activations(
        kept + ends, inputs + ends, block, _LOSS_BYTES * outputs * vocabulary, unfused, 0.0 if frozen else cast,
    )  # fmt: skip


def _predicts_words(shape: Transformer, facts: SourceFacts) -> bool:
    """An encoder alone predicts words only where the task says so; all others unless it says something else."""
    task = str(facts.value("task") or "")
    if re.search(r"classif|answering|regress|embedding", task, re.I):
        return False
    return shape.head != "none" or bool(re.search(r"language|mask|mlm|pre-?train", task, re.I))


class _Layer:
    """Bytes that one layer keeps of one token (of width ``shape.width``).

    ``stream`` is the sum that the layers add to, ``norm`` what a normalisation keeps with the matrix behind it.
    ``crossing`` and ``crossed`` are an output token's and an input token's part in attention between the two.
    """

    def __init__(self, shape: Transformer, name: str, arithmetic: Arithmetic, *, frozen: bool) -> None:
        product = _SINGLE_BYTES if arithmetic == "single" else _HALF_BYTES
        whole = _HALF_BYTES if arithmetic == "half" else _SINGLE_BYTES
        width = float(shape.width)
        self.stream = whole * width
        # A frozen matrix does not need its input; adapters beside some matrices do.
        matrix_input = product * width
        if shape.norm == "rms":  # in elementary operations, in 32 bits: its input, its result before the weights
            self.norm = _SINGLE_BYTES * width + (0.0 if frozen else whole * width) + matrix_input
        else:
            self.norm = self.stream + matrix_input
        copies = 0.0
        if arithmetic == "autocast":
            copies = product * width * ((0 if _FUSED_QUERIES.search(name) else 2) + (1 if shape.gated else 0))
        mask = width if _DROPOUT.search(name) else 0.0
        attention = product * (2 * shape.queries + 2 * shape.keys)
        self.crossing = self.norm + mask + product * 2 * shape.queries
        self.crossed = product * 2 * shape.keys
        self.kept = (
            copies + shape.norms * self.norm + attention + _feed_forward(shape, name, product, frozen=frozen) + 2 * mask
        )


def _feed_forward(shape: Transformer, name: str, product: float, *, frozen: bool) -> float:
    """Bytes of a token: inputs of the matrices, and what the function between them keeps."""
    inner = float(shape.hidden)
    if shape.experts:
        inner = shape.experts_used * (shape.expert_inner or shape.hidden) + float(shape.shared_inner)
    result = 0.0 if frozen else product  # the second matrix's input
    if _ELEMENTARY_GELU.search(name):  # operands of the cube, tanh and products, most of them in 32 bits
        function = 3 * _SINGLE_BYTES + product
    elif _RELU.search(name) and not shape.gated:
        function = 0.0 if result and shape.norm != "rms" else product + 1.0  # with dropout behind it: T5
    else:
        function = product
    if shape.gated:
        function += 2 * product  # both operands of the gate's product
    return inner * (function + result)


def _of_patches(named: Architecture, size: Workload, arithmetic: Arithmetic, *, frozen: bool) -> Activations:
    """Transformers over patches of an image: like an encoder, with as many tokens as patches."""
    shape = named.shape
    pixels = float(named.image or size.image_size) if named.latent else size.image_size
    tokens = (pixels // shape["patch"]) ** 2 + (0 if shape.get("denoiser") else 1)
    body = Transformer(shape["layers"], shape["width"], shape["heads"], inner=shape.get("inner"), head="none")
    layer = _Layer(body, named.name, arithmetic, frozen=frozen)
    ends = tokens * (layer.norm + layer.stream)
    kept = shape["layers"] * tokens * layer.kept
    scores = _SCORE_BYTES * shape["layers"] * shape["heads"] * tokens * tokens
    inputs = shape["layers"] * tokens * layer.stream
    return Activations(kept + ends, inputs + ends, tokens * layer.kept, unfused=scores, cast=0.0 if frozen else 1.0)


def _of_network(named: Architecture, name: str, size: Workload, numbers: float, width: float) -> Activations:
    """A described network of layers: what they keep, the images themselves, and where each maximum was."""
    factors = next((each[1:] for each in _KEEPS_MORE if each[0].search(name)), (1.0, 1.0))
    more = factors[0] if width == _SINGLE_BYTES else factors[1]
    found = _of_image(more * numbers, width, 0.15)
    walk, indices, flat = Walk(3, int(named.image or _USUAL_PIXELS if named.latent else size.image_size)), 0.0, False
    for entry in named.layers:
        run(walk, [entry])
        indices += walk.channels * walk.area if "maxpool" in entry else 0.0
        flat = flat or "flatten" in entry
    extra = _INDEX_BYTES * indices + 3 * size.image_size**2 * _SINGLE_BYTES
    # Matrices over all positions of an image hold nearly all weights and come first in the backward pass.
    return replace(found, kept=found.kept + extra, inputs=found.inputs + extra, early=1.0 if flat else found.early)


def _of_image(numbers: float, width: float, spread: float) -> Activations:
    kept = numbers * width
    return Activations(kept, _RECOMPUTED_SHARE * kept, 0.0, early=_EARLY_GRADIENTS, spread=spread)
