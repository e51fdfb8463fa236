"""Transformers on patches of an image: classifiers (ViT, DeiT) and denoisers (DiT)."""

from __future__ import annotations

from dataclasses import dataclass, replace

from analyzers.source.arithmetic.size import Size
from analyzers.source.arithmetic.transformer import Transformer, size

#: Width of the sinusoids that a diffusion step is told by (Peebles and Xie 2022, arXiv:2212.09748).
_STEP_SINUSOIDS = 256


@dataclass(frozen=True, slots=True)
class Vision:
    """A transformer over patches of ``patch`` x ``patch`` pixels (Dosovitskiy et al. 2020, arXiv:2010.11929).

    ``prefix`` tokens stand before those of the patches (the class token). ``denoiser`` makes it a DiT with adaLN-Zero
    blocks: it gives back ``outputs`` channels for each pixel and is told the step and one of ``classes`` + 1 labels.
    """

    layers: int
    width: int
    heads: int
    patch: int
    inner: int | None = None
    channels: int = 3
    prefix: int = 1
    classes: int = 1000
    denoiser: bool = False
    outputs: int = 8


def vision_size(shape: Vision, image: int) -> Size:
    """One image of ``image`` x ``image`` pixels (of latent pixels, for a latent denoiser)."""
    patches = (image // shape.patch) ** 2
    if patches < 1:
        raise ValueError("the image is smaller than a patch")
    tokens = patches + (0 if shape.denoiser else shape.prefix)
    body = Transformer(
        layers=shape.layers, width=shape.width, heads=shape.heads, inner=shape.inner, head="none",
        norm="bare" if shape.denoiser else "layer", positions=tokens, final_norm=not shape.denoiser,
    )  # fmt: skip
    found = size(body, tokens)
    pixels = shape.channels * shape.patch**2
    weights = pixels * shape.width + shape.width + (0 if shape.denoiser else shape.prefix * shape.width)
    adds = float(patches * pixels * shape.width)
    if shape.denoiser:
        more, once = _conditioning(shape)
        out = shape.outputs * shape.patch**2
        weights += more + shape.width * out + out
        adds += once + patches * shape.width * out
    else:
        weights += shape.width * shape.classes + shape.classes
        adds += shape.width * shape.classes
    parameters = found.parameters + weights
    return replace(
        found,
        kind="diffusion" if shape.denoiser else "transformer",
        parameters=parameters,
        active_parameters=parameters,
        forward_flops=found.forward_flops + 2 * adds,
        tokens=None,
    )


def _conditioning(shape: Vision) -> tuple[int, int]:
    """Weights, and multiply-adds of a sample, of what tells the blocks step and label."""
    width = shape.width
    step = _STEP_SINUSOIDS * width + width * width + 2 * width
    shifts = shape.layers * (6 * width * width + 6 * width) + 2 * width * width + 2 * width
    return step + shifts + (shape.classes + 1) * width, step + shifts
