"""The building blocks of convolutional networks, as steps of a description.

Each block's source is the paper it comes from; where libraries differ from the paper (the stride of a bottleneck
stands on its 3x3 convolution), the libraries are followed, for they are what is trained.
"""

from __future__ import annotations

import math

from analyzers.source.arithmetic.layers import STEPS, Walk


def basic(walk: Walk, width: int, count: int, stride: int = 1, squeeze: int = 0) -> None:
    """Residual blocks of two 3x3 convolutions (He et al. 2015, arXiv:1512.03385).

    ``squeeze`` > 0 ends each with a squeeze and excitation narrower by that factor (Hu et al. 2017, arXiv:1709.01507).
    """
    for i in range(count):
        step = stride if i == 0 else 1
        shortcut, main = walk.beside(), walk.beside()
        main.conv(width, 3, step)
        main.conv(width, 3)
        if squeeze:
            main.squeeze(width // squeeze)
        if step != 1 or shortcut.channels != width:
            shortcut.conv(width, 1, step, activation=False)
        _add(walk, main, shortcut, width)


def bottleneck(
    walk: Walk, width: int, out: int, count: int, stride: int = 1, groups: int = 1, squeeze: float = 0.0,
    squeeze_end: int = 0,
) -> None:  # fmt: skip
    """Residual blocks of a 3x3 convolution between two 1x1 (He et al. 2015); grouped: ResNeXt, RegNet.

    ``squeeze`` is the share of the block's input channels in a squeeze and excitation (RegNetY); ``squeeze_end`` > 0
    ends the block with one narrower by that factor (SE-ResNet).
    """
    for i in range(count):
        step = stride if i == 0 else 1
        shortcut, main = walk.beside(), walk.beside()
        main.conv(width, 1)
        main.conv(width, 3, step, groups=groups)
        if squeeze:
            main.squeeze(round(squeeze * walk.channels))
        main.conv(out, 1)
        if squeeze_end:
            main.squeeze(out // squeeze_end)
        if step != 1 or shortcut.channels != out:
            shortcut.conv(out, 1, step, activation=False)
        _add(walk, main, shortcut, out)


def regnet(walk: Walk, width: int, count: int, group_width: int, squeeze: float = 0.0) -> None:
    """A stage of RegNet (Radosavovic et al. 2020, arXiv:2003.13678): bottlenecks that do not narrow."""
    bottleneck(walk, width, width, count, 2, max(1, width // min(group_width, width)), squeeze)


def mobile(
    walk: Walk, expand: float, out: int, count: int, stride: int = 1, kernel: int = 3, squeeze: float = 0.0
) -> None:
    """Inverted residuals (Sandler et al. 2018, arXiv:1801.04381), with squeeze and excitation in EfficientNet.

    ``expand`` is the factor of the middle width; ``squeeze`` the share of the block's input channels.
    """
    for i in range(count):
        inside = _divisible(walk.channels * expand)
        _inverted(walk, inside, out, stride if i == 0 else 1, kernel, int(squeeze * walk.channels))


def mobile_wide(walk: Walk, inside: int, out: int, kernel: int, stride: int, squeezes: int) -> None:
    """One inverted residual with its middle width given (Howard et al. 2019, arXiv:1905.02244: MobileNetV3)."""
    _inverted(walk, inside, out, stride, kernel, _divisible(inside / 4) if squeezes else 0)


def _inverted(walk: Walk, inside: int, out: int, stride: int, kernel: int, squeeze: int) -> None:
    main = walk.beside()
    if inside != walk.channels:
        main.conv(inside, 1)
    main.conv(inside, kernel, stride, groups=inside)
    if squeeze:
        main.squeeze(max(1, squeeze))
    main.conv(out, 1, activation=False)
    walk.join(main)


def _divisible(value: float, by: int = 8) -> int:
    """The nearest multiple, not more than a tenth below (as in MobileNet's own code)."""
    rounded = max(by, int(value + by / 2) // by * by)
    return rounded + by if rounded < 0.9 * value else rounded


#: EfficientNet-B0 after its first convolution: expand, out, count, stride, kernel (arXiv:1905.11946, table 1).
_EFFICIENT = (
    (1, 16, 1, 1, 3), (6, 24, 2, 2, 3), (6, 40, 2, 2, 5), (6, 80, 3, 2, 3), (6, 112, 3, 1, 5), (6, 192, 4, 2, 5),
    (6, 320, 1, 1, 3),
)  # fmt: skip


def efficientnet(walk: Walk, width: float, depth: float) -> None:
    """EfficientNet up to its classifier: B0 scaled in width and depth (Tan and Le 2019, arXiv:1905.11946)."""
    walk.conv(_divisible(32 * width), 3, 2)
    for expand, out, count, stride, kernel in _EFFICIENT:
        mobile(walk, expand, _divisible(out * width), math.ceil(count * depth), stride, kernel, 0.25)
    walk.conv(4 * walk.channels, 1)


def fused_mobile(walk: Walk, expand: float, out: int, count: int, stride: int = 1, kernel: int = 3) -> None:
    """Inverted residuals whose first two convolutions are one (Tan and Le 2021, arXiv:2104.00298)."""
    for i in range(count):
        main = walk.beside()
        step = stride if i == 0 else 1
        if expand == 1:
            main.conv(out, kernel, step)
        else:
            main.conv(round(walk.channels * expand), kernel, step)
            main.conv(out, 1, activation=False)
        walk.join(main)


def dense(walk: Walk, growth: int, count: int, bottleneck_factor: int = 4) -> None:
    """A dense block: each layer sees all before it (Huang et al. 2016, arXiv:1608.06993)."""
    for _ in range(count):
        main = walk.beside()
        main.normalise()
        main.conv(bottleneck_factor * growth, 1)
        main.conv(growth, 3, norm=False, activation=False)
        before = walk.channels
        walk.join(main)
        walk.channels = before + growth


def transition(walk: Walk, out: int) -> None:
    """Between dense blocks: half the channels, half the rows."""
    walk.normalise()
    walk.conv(out, 1, norm=False)
    walk.pool(2, 2)


def fire(walk: Walk, narrow: int, wide: int) -> None:
    """SqueezeNet's block: 1x1 and 3x3 side by side after a narrow 1x1 (Iandola et al. 2016, arXiv:1602.07360)."""
    walk.conv(narrow, 1, bias=True, norm=False)
    small, large = walk.beside(), walk.beside()
    small.conv(wide, 1, bias=True, norm=False)
    large.conv(wide, 3, bias=True, norm=False)
    walk.join(small, large, concatenate=True)


def inception(walk: Walk, one: int, narrow3: int, three: int, narrow5: int, five: int, pooled: int) -> None:
    """GoogLeNet's block of four branches (Szegedy et al. 2014, arXiv:1409.4842); libraries use 3x3 for its 5x5."""
    branches = [walk.beside() for _ in range(4)]
    branches[0].conv(one, 1)
    branches[1].conv(narrow3, 1)
    branches[1].conv(three, 3)
    branches[2].conv(narrow5, 1)
    branches[2].conv(five, 3)
    branches[3].pool(3, 1, 1)
    branches[3].conv(pooled, 1)
    walk.join(*branches, concatenate=True)


def shuffle(walk: Walk, out: int, count: int) -> None:
    """ShuffleNetV2's units: half of the channels passes by (Ma et al. 2018, arXiv:1807.11164)."""
    half = out // 2
    left, right = walk.beside(), walk.beside()
    left.conv(left.channels, 3, 2, groups=left.channels, activation=False)
    left.conv(half, 1)
    right.conv(half, 1)
    right.conv(half, 3, 2, groups=half, activation=False)
    right.conv(half, 1)
    walk.join(left, right, concatenate=True)
    for _ in range(count - 1):
        main = walk.beside()
        main.channels = half
        main.conv(half, 1)
        main.conv(half, 3, groups=half, activation=False)
        main.conv(half, 1)
        walk.join(main)
        walk.channels = out


def convnext(walk: Walk, count: int) -> None:
    """ConvNeXt blocks: a 7x7 depthwise convolution, then two matrices (Liu et al. 2022, arXiv:2201.03545)."""
    width = walk.channels
    for _ in range(count):
        main = walk.beside()
        main.conv(width, 7, groups=width, bias=True, activation=False)
        main.linear(4 * width)
        main.keep(4 * width * main.area)
        main.linear(width)
        walk.join(main)
        walk.weights += width  # the scale of the residual


def patch(walk: Walk, out: int, side: int, normed: int = 1) -> None:
    """A convolution whose windows do not overlap, with a normalisation after it (or, for 0, before it)."""
    if not normed:
        walk.normalise()
    walk.conv(out, side, side, bias=True, norm=bool(normed), padding=0, activation=False)


def swin(walk: Walk, count: int, heads: int, window: int = 7) -> None:
    """Swin blocks: attention in windows, then two matrices (Liu et al. 2021, arXiv:2103.14030)."""
    width = walk.channels
    padded = (-(-walk.rows // window) * window) * (-(-walk.columns // window) * window)
    for _ in range(count):
        walk.normalise()
        walk.linear(3 * width)
        walk.attention_adds += 2 * padded * window * window * width
        walk.adds += 2 * padded * window * window * width
        walk.keep(padded * window * window * heads)
        walk.channels = width
        walk.linear(width)
        walk.weights += (2 * window - 1) ** 2 * heads
        walk.normalise()
        walk.linear(4 * width)
        walk.keep(4 * width * walk.area)
        walk.linear(width)


def merge(walk: Walk) -> None:
    """Swin's merging of 2x2 positions to one of twice the width."""
    walk.rows, walk.columns = -(-walk.rows // 2), -(-walk.columns // 2)
    width = walk.channels
    walk.channels = 4 * width
    walk.normalise()
    walk.linear(2 * width, bias=False)


def _add(walk: Walk, main: Walk, shortcut: Walk, out: int) -> None:
    walk.join(main, shortcut)
    walk.channels = out


STEPS.update({
    "basic": basic, "bottleneck": bottleneck, "regnet": regnet, "mobile": mobile, "mobile_wide": mobile_wide,
    "fused_mobile": fused_mobile, "efficientnet": efficientnet, "dense": dense, "transition": transition,
    "fire": fire, "inception": inception, "shuffle": shuffle, "convnext": convnext, "patch": patch, "swin": swin,
    "merge": merge,
})  # fmt: skip
