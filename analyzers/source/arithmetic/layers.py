"""Walking a convolutional network layer by layer, adding up weights, operations and activations.

A network is described as a list of steps, ``{conv: [64, 7, 2]}``, each the name of a layer or block and its numbers
(`STEPS` here, and those that `blocks` adds). Only the shape of what flows is carried along: channels, rows, columns.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from analyzers.source.arithmetic.size import Kind, Size

#: A network of more steps is not read to its end.
STEPS_MAX = 2_000


class Walk:
    """What flows (``channels`` x ``rows`` x ``columns``) and what it has cost so far; multiply-adds count as one here.

    ``kept`` are activations that a backward pass needs, ``norm`` the weights of a normalisation for each channel.
    """

    def __init__(self, channels: int, rows: int, columns: int | None = None, *, norm: int = 2) -> None:
        self.channels, self.rows, self.columns = channels, rows, rows if columns is None else columns
        self.norm = norm
        self.weights = 0.0
        self.adds = 0.0
        self.depthwise_adds = 0.0
        self.attention_adds = 0.0
        self.kept = 0.0
        self.saved: list[tuple[int, int]] = []
        self.steps = 0

    @property
    def area(self) -> int:
        """Positions."""
        return self.rows * self.columns

    def conv(
        self, out: int, kernel: int = 3, stride: int = 1, *, groups: int = 1, bias: bool = False, norm: bool = True,
        padding: int | None = None, activation: bool = True,
    ) -> None:  # fmt: skip
        """A convolution with its normalisation and activation."""
        if out < 1 or kernel < 1 or stride < 1 or groups < 1:
            raise ValueError("sizes of a convolution are positive")
        edge = kernel // 2 if padding is None else padding
        self.rows = (self.rows + 2 * edge - kernel) // stride + 1
        self.columns = (self.columns + 2 * edge - kernel) // stride + 1
        if self.rows < 1 or self.columns < 1:
            raise ValueError("the image is too small for the network")
        weights = self.channels * out * kernel * kernel / groups
        self.weights += weights + (out if bias else 0) + (self.norm * out if norm else 0)
        self.adds += weights * self.area
        if groups > 1 and groups == self.channels:
            self.depthwise_adds += weights * self.area
        self.channels = out
        self.keep(out * self.area * ((1 if norm else 0) + (1 if activation else 0) or 1))

    def linear(self, out: int, *, bias: bool = True) -> None:
        """A matrix on each position."""
        self.weights += self.channels * out + (out if bias else 0)
        self.adds += self.channels * out * self.area
        self.channels = out
        self.keep(out * self.area)

    def pool(self, kernel: int, stride: int | None = None, padding: int = 0, *, ceil: bool = False) -> None:
        """A pooling window."""
        step = stride or kernel
        around = math.ceil if ceil else math.floor
        self.rows = int(around((self.rows + 2 * padding - kernel) / step)) + 1
        self.columns = int(around((self.columns + 2 * padding - kernel) / step)) + 1
        if self.rows < 1 or self.columns < 1:
            raise ValueError("the image is too small for the network")
        self.keep(self.channels * self.area)

    def pool_to(self, rows: int) -> None:
        """Pooling to a fixed size."""
        self.rows = self.columns = rows

    def flatten(self) -> None:
        """All numbers in one row of channels."""
        self.channels *= self.area
        self.rows = self.columns = 1

    def squeeze(self, inner: int) -> None:
        """Squeeze and excitation: two small matrices on the mean of each channel."""
        self.weights += 2 * self.channels * inner + inner + self.channels
        self.adds += 2 * self.channels * inner
        self.keep(self.channels * self.area)

    def normalise(self, weights: int | None = None) -> None:
        """A normalisation on its own."""
        self.weights += (self.norm if weights is None else weights) * self.channels
        self.keep(self.channels * self.area)

    def keep(self, numbers: float) -> None:
        """Activations kept for the backward pass."""
        self.kept += numbers

    def beside(self) -> Walk:
        """A branch that starts here; add it with `join`."""
        return Walk(self.channels, self.rows, self.columns, norm=self.norm)

    def join(self, *branches: Walk, concatenate: bool = False) -> None:
        """Take over the cost of branches, and the shape of the first (channels added up where concatenated)."""
        for branch in branches:
            self.weights += branch.weights
            self.adds += branch.adds
            self.depthwise_adds += branch.depthwise_adds
            self.attention_adds += branch.attention_adds
            self.kept += branch.kept
        first = branches[0]
        self.rows, self.columns = first.rows, first.columns
        self.channels = sum(b.channels for b in branches) if concatenate else first.channels

    def size(self, kind: Kind) -> Size:
        """The total."""
        return Size(
            kind=kind,
            parameters=self.weights,
            active_parameters=self.weights,
            forward_flops=2 * self.adds,
            attention_flops=2 * self.attention_adds,
            kept=self.kept,
        )


Step = Callable[..., None]


def _maxpool(walk: Walk, kernel: int, stride: int, padding: int = 0, ceil: int = 0) -> None:
    walk.pool(kernel, stride, padding, ceil=bool(ceil))


def _conv(walk: Walk, out: int, kernel: int = 3, stride: int = 1, groups: int = 1) -> None:
    walk.conv(out, kernel, stride, groups=groups)


def _plain_conv(walk: Walk, out: int, kernel: int = 3, stride: int = 1, padding: int | None = None) -> None:
    walk.conv(out, kernel, stride, bias=True, norm=False, padding=padding)


def _conv_bias(walk: Walk, out: int, kernel: int = 3) -> None:
    walk.conv(out, kernel, bias=True)


def _classes(walk: Walk, classes: int) -> None:
    walk.pool_to(1)
    walk.linear(classes)


#: Name in a description -> what it does. A description gives the numbers in order.
STEPS: dict[str, Step] = {
    "conv": _conv,
    "conv_bias": _conv_bias,
    "plain_conv": _plain_conv,
    "maxpool": _maxpool,
    "pool_to": Walk.pool_to,
    "flatten": Walk.flatten,
    "linear": Walk.linear,
    "norm": Walk.normalise,
    "classes": _classes,
}


def run(walk: Walk, description: Sequence[Mapping[str, Any]], *, classes: int | None = None) -> None:
    """Walk a description. ``classes`` replaces the size of its last step where that is a classifier.

    Errors: ``ValueError`` for a step that is not known, or an image too small for the network.
    """
    for position, entry in enumerate(description):
        ((name, given),) = entry.items()
        numbers = list(given) if isinstance(given, list | tuple) else [] if given is None else [given]
        step = STEPS.get(name)
        walk.steps += 1
        if step is None or walk.steps > STEPS_MAX:
            raise ValueError(f"unknown step {name!r}")
        if classes is not None and position == len(description) - 1 and name in ("classes", "linear"):
            numbers = [classes]
        step(walk, *numbers)
