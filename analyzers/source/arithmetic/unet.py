"""The U-Nets of diffusion models: residual blocks told the step, attention on the coarser levels.

Ho et al. 2020 (arXiv:2006.11239), Dhariwal and Nichol 2021 (arXiv:2105.05233), Rombach et al. 2022 (arXiv:2112.10752).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from analyzers.source.arithmetic.layers import Walk
from analyzers.source.arithmetic.size import Size


@dataclass(frozen=True, slots=True)
class UNet:
    """A U-Net of ``width`` x ``multiples`` channels, level by level, with ``blocks`` residual blocks on each.

    ``attention`` names the levels (0 the finest) with attention. With a ``context`` width each attention is a
    transformer block that also attends to ``context_length`` vectors of that width (the text). ``shifts``: the step
    scales and shifts (two numbers a channel) rather than only shifts. ``resample``: how levels are joined.
    """

    width: int
    multiples: Sequence[int]
    blocks: int
    attention: Sequence[int]
    channels: int = 3
    outputs: int | None = None
    context: int = 0
    context_length: int = 77
    shifts: bool = False
    resample: Literal["conv", "block"] = "conv"
    classes: int = 0


def unet_size(shape: UNet, image: int) -> Size:
    """One image of ``image`` x ``image`` pixels (latent ones, for a latent model)."""
    walk = Walk(shape.channels, image)
    told = 4 * shape.width
    walk.weights += shape.width * told + told + told * told + told + shape.classes * told
    walk.conv(shape.width, bias=True, norm=False, activation=False)
    skips = [walk.channels]
    levels = range(len(shape.multiples))
    for level in levels:
        for _ in range(shape.blocks):
            _residual(shape, walk, shape.width * shape.multiples[level])
            if level in shape.attention:
                _attend(shape, walk)
            skips.append(walk.channels)
        if level != levels[-1]:
            _resample(shape, walk, down=True)
            skips.append(walk.channels)
    _residual(shape, walk, walk.channels)
    _attend(shape, walk)
    _residual(shape, walk, walk.channels)
    for level in reversed(levels):
        for _ in range(shape.blocks + 1):
            walk.channels += skips.pop()
            _residual(shape, walk, shape.width * shape.multiples[level])
            if level in shape.attention:
                _attend(shape, walk)
        if level != 0:
            _resample(shape, walk, down=False)
    walk.normalise()
    walk.conv(shape.outputs or shape.channels, bias=True, norm=False, activation=False)
    return walk.size("diffusion")


def _residual(shape: UNet, walk: Walk, out: int) -> None:
    main, shortcut = walk.beside(), walk.beside()
    told = 4 * shape.width
    main.normalise()
    main.conv(out, bias=True, norm=False)
    step = out * (2 if shape.shifts else 1)
    main.weights += told * step + step
    main.adds += told * step
    main.normalise()
    main.conv(out, bias=True, norm=False)
    if shortcut.channels != out:
        shortcut.conv(out, 1, bias=True, norm=False, activation=False)
    walk.join(main, shortcut)


def _attend(shape: UNet, walk: Walk) -> None:
    width, area = walk.channels, walk.area
    if not shape.context:
        walk.normalise()
        walk.linear(3 * width)
        _compare(walk, width, area)
        walk.linear(width)
        return
    walk.normalise()
    walk.linear(width)
    for others, of in ((area, width), (shape.context_length, shape.context)):
        walk.normalise()
        walk.linear(width, bias=False)
        walk.weights += 2 * of * width
        walk.adds += 2 * of * width * others
        _compare(walk, width, others)
        walk.linear(width)
    walk.normalise()
    walk.linear(8 * width)
    walk.channels = 4 * width
    walk.linear(width)
    walk.linear(width)


def _compare(walk: Walk, width: int, others: int) -> None:
    adds = 2 * walk.area * others * width
    walk.attention_adds += adds
    walk.adds += adds
    walk.channels = width


def _resample(shape: UNet, walk: Walk, *, down: bool) -> None:
    if not down:
        walk.rows, walk.columns = 2 * walk.rows, 2 * walk.columns
    if shape.resample == "conv":
        walk.conv(walk.channels, 3, 2 if down else 1, bias=True, norm=False, activation=False)
        return
    if down:
        walk.rows, walk.columns = walk.rows // 2, walk.columns // 2
    _residual(shape, walk, walk.channels)
