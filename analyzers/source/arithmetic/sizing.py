"""From what was read about a model to its size: by its architecture where that is known, else roughly."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace

from analyzers.source.arithmetic.size import Range, Size, exactly
from analyzers.source.arithmetic.transformer import Transformer, size
from analyzers.source.knowledge.architectures import Architecture, architecture
from analyzers.source.knowledge.lookup import parameters_in_name
from analyzers.types import JsonValue, SourceFacts

#: Forward multiply-adds of an image model for each parameter at 224 pixels: SqueezeNet and ResNets 70 to 700, ViTs 200.
_IMAGE_ADDS = Range(40.0, 160.0, 500.0)
_IMAGE = 224
#: Smaller images go through variants of the models with fewer strides, of which nothing follows.
_SMALLEST_IMAGE = 64
_SMALL_IMAGE = 96
_SMALLEST_MODEL = 2e6
#: A part of a model, or two that are trained against each other: a count says nothing of the work on an image.
_PARTS = re.compile(r"linear|head|classifier\b|generator|discriminator|\bgan\b|mlp|probe|projector", re.I)
#: Activations an image model keeps for each multiply-add, ResNet-50's and ViT-B's being 0.005 and 0.0017.
_IMAGE_KEPT = 0.004
#: Of a language model's parameters, those that a token is multiplied with: embeddings may be most of a small one. The
#: upper end adds what attention costs.
_PASSED = Range(0.5, 1.0, 1.6)
#: Length of an encoder-decoder's output as a share of its input's: a summary, and a translation.
_OUTPUTS = (0.1, 0.25, 1.0)
#: Vocabularies where none is told: characters, and those of GPT-2 and beyond.
_VOCABULARIES = (64, 50_257, 130_000)
#: Depth of a transformer by its width: GPT-2 0.016, Llama-7B 0.008.
_LAYERS_PER_COLUMN = 0.01
#: How far a count read from a program may be from the named architecture's before it is another model.
_SAME_WITHIN = 0.12
_WORDS = re.compile(
    r"gpt|llama|bert|t5\b|bart|opt-|bloom|mistral|mixtral|qwen|falcon|pythia|gemma|transformer|\blm\b", re.I
)


@dataclass(frozen=True, slots=True)
class Sized:
    """A model's size for one sample, how much the operations may be off, and in words how it was found."""

    size: Size
    flops: Range
    parameters: Range
    how: str
    exact: bool


def sized(facts: SourceFacts) -> Sized | None:
    """The model's size for one sample of the input that the facts tell of; None where nothing follows.

    A named architecture is taken unless the program's own count of parameters contradicts it; then the shape that the
    program gives a transformer; then the count of parameters alone.
    """
    counted = _number(facts, "model_params_approx")
    name = str(facts.value("model") or "")
    named = architecture(name)
    if named is not None:
        found = _from_architecture(named, facts, counted)
        if found is not None:
            return found
    shape = facts.value("model_shape")
    length = _whole(facts, "seq_len")
    if isinstance(shape, Mapping) and length is not None:
        found = _from_shape(shape, length, counted)
        if found is not None:
            return found
    count = counted or parameters_in_name(name)
    return _from_count(count, facts, name) if count is not None else None


def parameters(facts: SourceFacts) -> tuple[Range, str] | None:
    """Parameters of the model with how they were found, also where its operations can not be told."""
    counted = _number(facts, "model_params_approx")
    if counted is not None:
        return exactly(counted), "as read from the program"
    name = str(facts.value("model") or "")
    named = architecture(name)
    if named is not None:
        count = named.size().parameters
        return Range(0.85 * count, count, 1.15 * count), f"of {named.name} ({named.source}); its head may be another"
    shape = facts.value("model_shape")
    if isinstance(shape, Mapping) and "vocabulary" in shape:
        built = _transformer(shape)
        if built is not None:
            return exactly(size(built, 1).parameters), "from the transformer's shape"
    written = parameters_in_name(name)
    return (Range(0.8 * written, written, 1.25 * written), "as written in the model's name") if written else None


def _from_architecture(named: Architecture, facts: SourceFacts, counted: float | None) -> Sized | None:
    image = None if named.latent else _whole(facts, "image_size")
    length = _whole(facts, "seq_len") or named.length
    if not named.of_images and length is None:
        return None
    try:
        found, flops = _of_lengths(named, length) if named.translates else _of_one(named, image, length)
    except ValueError:
        return None
    count = counted or found.parameters
    if abs(count / found.parameters - 1) > _SAME_WITHIN:
        return None
    small = named.of_images and (image or named.image or _IMAGE) < _SMALL_IMAGE
    if small and counted is not None and named.layers and not _only_other_classes(named, counted):
        return None  # the variants for small images have fewer strides: hardly other weights, many times the work
    sample = f"{image or named.image or _IMAGE} pixels" if named.of_images else f"{length} tokens"
    how = f"worked out for {named.name} ({named.source}), {sample}"
    spread = exactly(count) if counted else Range(0.85 * count, count, 1.15 * count)
    return Sized(found, flops, spread, how, True)


def _only_other_classes(named: Architecture, counted: float) -> bool:
    """Whether a count is that of the named network with some number of classes."""
    one, two = (named.size(classes=classes).parameters for classes in (1, 2))
    return counted >= one and (counted - one) % (two - one) == 0


def _of_one(named: Architecture, image: int | None, length: int | None) -> tuple[Size, Range]:
    found = named.size(image=image, length=length)
    return found, exactly(found.forward_flops)


def _of_lengths(named: Architecture, length: int | None) -> tuple[Size, Range]:
    """Of an encoder-decoder: ``length`` is that of its input, that of its output is not told."""
    shape = Transformer(**{**named.shape, "encoder_length": length})
    sizes = [size(shape, max(1, int(share * (length or 1)))) for share in _OUTPUTS]
    low, value, high = (each.forward_flops for each in sizes)
    return sizes[1], Range(low, value, high)


def _from_shape(shape: Mapping[str, JsonValue], length: int, counted: float | None) -> Sized | None:
    built = _transformer(shape)
    if built is None:
        return None
    how = f"from the transformer's shape ({built.layers} layers of {built.width}), {length} tokens"
    if "vocabulary" in shape or counted is None:
        vocabularies = (built.vocabulary,) * 3 if "vocabulary" in shape else _VOCABULARIES
        sizes = [size(replace(built, vocabulary=words), length) for words in vocabularies]
        flops, count = (Range(*(getattr(each, name) for each in sizes)) for name in ("forward_flops", "parameters"))
        if counted is not None:
            count = exactly(counted)
        return Sized(sizes[1], flops, count, how, "vocabulary" in shape)
    # What the program's count has beyond the layers is its vocabulary, and whatever else passes over every token.
    found = size(built, length)
    more = max(0.0, counted - found.parameters)
    found = replace(
        found, parameters=counted, active_parameters=counted - (found.parameters - found.active_parameters),
        forward_flops=found.forward_flops + 2 * more * length, logits=more / built.width * length,
    )  # fmt: skip
    return Sized(found, exactly(found.forward_flops), exactly(counted), how, True)


def _transformer(shape: Mapping[str, JsonValue]) -> Transformer | None:
    try:
        return Transformer(**shape)  # type: ignore[arg-type]
    except (TypeError, ValueError, ZeroDivisionError):
        return None


def _from_count(count: float, facts: SourceFacts, name: str) -> Sized | None:
    length, image = _number(facts, "seq_len"), _number(facts, "image_size")
    task = str(facts.value("task") or "")
    of_words = _WORDS.search(f"{name} {task}") is not None or "language" in task or "text" in task
    if length is not None and image is None and of_words:
        flops = _PASSED.times(2 * count * length)
        width = (count / _LAYERS_PER_COLUMN / 12) ** (1 / 3)  # 12 width^2 weights a layer (Kaplan et al. 2020)
        columns = length * _LAYERS_PER_COLUMN * width * width
        rough = Size(
            "transformer", count, flops.value, kept=16 * columns, active_parameters=count,
            kept_recomputing=2 * columns, tokens=length,
        )  # fmt: skip
        return Sized(rough, flops, exactly(count), f"two operations a parameter and token, {int(length)} tokens", False)
    if (
        image is not None
        and image >= _SMALLEST_IMAGE
        and count > _SMALLEST_MODEL
        and not _PARTS.search(f"{name} {task}")
    ):
        flops = _IMAGE_ADDS.times(2 * count * (image / _IMAGE) ** 2)
        kept = _IMAGE_KEPT * flops.value / 2
        rough = Size("convolutional", count, flops.value, kept=kept, active_parameters=count)
        return Sized(rough, flops, exactly(count), f"as image models of its size have, {int(image)} pixels", False)
    return None


def _number(facts: SourceFacts, name: str) -> float | None:
    value = facts.value(name)
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return float(value) if 0 < value < 1e16 else None


def _whole(facts: SourceFacts, name: str) -> int | None:
    value = _number(facts, name)
    return int(value) if value is not None and 1 <= value < 1e7 else None
