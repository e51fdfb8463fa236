"""The networks whose training memory is measured: configurations of `transformers` without weights, and a few of ours.

Needs the extra ``local`` (torch, transformers). Nothing is downloaded and no number is computed: under fake tensors a
network is its shapes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any
from unittest import mock

import torch
from torch import nn
from torch.nn import functional

Network = Callable[[Mapping[str, Any]], Any]


def network(build: Mapping[str, Any]) -> Any:
    """The network of a configuration's ``build``: ``ours`` names a builder here, ``config`` a class of transformers."""
    options = dict(build.get("options", {}))
    if "ours" in build:
        return _OURS[build["ours"]](**options)
    import transformers

    config = getattr(transformers, build["config"])(**options)
    if config.is_encoder_decoder:
        config.decoder_start_token_id = 0
    if "attention" in build:  # else what the library takes: fused where the model has it
        config._attn_implementation = build["attention"]
    # Drawing numbers for weights asks tensors for their values, which fake ones have not; so do rates of a schedule.
    with (
        mock.patch.object(transformers.PreTrainedModel, "initialize_weights", lambda _: None),
        mock.patch.object(torch, "linspace", _Evenly),
    ):
        model = getattr(transformers, build["class"])(config)
    model.train()
    return model


class _Evenly:
    """Evenly spaced numbers, without tensors."""

    def __init__(self, start: float, end: float, steps: int, **_: Any) -> None:
        self.values = [start + (end - start) * i / max(1, steps - 1) for i in range(steps)]

    def split(self, sizes: Sequence[int]) -> list[_Evenly]:
        parts = []
        for size in sizes:
            begin = sum(len(part.values) for part in parts)
            parts.append(_Evenly(0.0, 0.0, 0))
            parts[-1].values = self.values[begin : begin + size]
        return parts

    def tolist(self) -> list[float]:
        return self.values


class _Unet(nn.Module):
    """Ronneberger et al. 2015 (arXiv:1505.04597) with padding and batch normalisation, as usually programmed."""

    def __init__(self, width: int = 64, levels: int = 4, classes: int = 2) -> None:
        super().__init__()
        widths = [width * 2**level for level in range(levels + 1)]
        self.down = nn.ModuleList(_twice(a, b) for a, b in zip([3, *widths], widths, strict=False))
        self.up = nn.ModuleList(nn.ConvTranspose2d(2 * w, w, 2, stride=2) for w in reversed(widths[:-1]))
        self.merge = nn.ModuleList(_twice(2 * w, w) for w in reversed(widths[:-1]))
        self.head = nn.Conv2d(width, classes, 1)

    def forward(self, x: Any) -> Any:
        beside = []
        for level, step in enumerate(self.down):
            x = step(functional.max_pool2d(x, 2) if level else x)
            beside.append(x)
        beside.pop()
        for up, merge in zip(self.up, self.merge, strict=True):
            x = merge(torch.cat([beside.pop(), up(x)], dim=1))
        return self.head(x)


def _twice(into: int, out: int) -> Any:
    layers: list[Any] = []
    for a, b in ((into, out), (out, out)):
        layers += [nn.Conv2d(a, b, 3, padding=1, bias=False), nn.BatchNorm2d(b), nn.ReLU(inplace=True)]
    return nn.Sequential(*layers)


class _Dense(nn.Module):
    """A layer of a dense block: what it computes stands beside its input (Huang et al. 2016, arXiv:1608.06993)."""

    def __init__(self, into: int, growth: int) -> None:
        super().__init__()
        inner = 4 * growth
        self.layers = nn.Sequential(
            nn.BatchNorm2d(into), nn.ReLU(inplace=True), nn.Conv2d(into, inner, 1, bias=False),
            nn.BatchNorm2d(inner), nn.ReLU(inplace=True), nn.Conv2d(inner, growth, 3, padding=1, bias=False),
        )  # fmt: skip

    def forward(self, x: Any) -> Any:
        return torch.cat([x, self.layers(x)], dim=1)


def _densenet(blocks: tuple[int, ...] = (6, 12, 24, 16), growth: int = 32) -> Any:
    layers: list[Any] = [nn.Conv2d(3, 64, 7, 2, 3, bias=False), nn.BatchNorm2d(64), nn.ReLU(inplace=True)]
    layers.append(nn.MaxPool2d(3, 2, 1))
    width = 64
    for position, count in enumerate(blocks):
        for _ in range(count):
            layers.append(_Dense(width, growth))
            width += growth
        if position < len(blocks) - 1:
            layers += [nn.BatchNorm2d(width), nn.ReLU(inplace=True), nn.Conv2d(width, width // 2, 1, bias=False)]
            layers.append(nn.AvgPool2d(2))
            width //= 2
    layers += [nn.BatchNorm2d(width), nn.ReLU(inplace=True), nn.AdaptiveAvgPool2d(1), nn.Flatten()]
    return nn.Sequential(*layers, nn.Linear(width, 1000))


def _vgg(convolutions: tuple[int, ...] = (2, 2, 3, 3, 3), *, norm: bool = False) -> Any:
    """Simonyan and Zisserman 2014 (arXiv:1409.1556)."""
    layers: list[Any] = []
    into = 3
    for level, count in enumerate(convolutions):
        out = min(512, 64 * 2**level)
        for _ in range(count):
            layers += [nn.Conv2d(into, out, 3, padding=1), *([nn.BatchNorm2d(out)] * norm), nn.ReLU(inplace=True)]
            into = out
        layers.append(nn.MaxPool2d(2))
    classifier = [nn.Linear(512 * 49, 4096), nn.ReLU(True), nn.Dropout(), nn.Linear(4096, 4096), nn.ReLU(True)]
    return nn.Sequential(
        *layers, nn.AdaptiveAvgPool2d(7), nn.Flatten(), *classifier, nn.Dropout(), nn.Linear(4096, 1000)
    )


class _Residual(nn.Module):
    """A residual block (He et al. 2015, arXiv:1512.03385): basic where ``out`` is ``width``, else a bottleneck."""

    def __init__(self, into: int, width: int, out: int, stride: int) -> None:
        super().__init__()
        if out == width:
            parts = [(into, width, 3, stride), (width, width, 3, 1)]
        else:
            parts = [(into, width, 1, 1), (width, width, 3, stride), (width, out, 1, 1)]
        layers: list[Any] = []
        for a, b, kernel, step in parts:
            layers += [nn.Conv2d(a, b, kernel, step, kernel // 2, bias=False), nn.BatchNorm2d(b), nn.ReLU(True)]
        self.main = nn.Sequential(*layers[:-1])
        changes = stride != 1 or into != out
        self.shortcut = (
            nn.Sequential(nn.Conv2d(into, out, 1, stride, bias=False), nn.BatchNorm2d(out))
            if changes
            else nn.Identity()
        )

    def forward(self, x: Any) -> Any:
        out = self.main(x)
        out += self.shortcut(x)
        return functional.relu(out, inplace=True)


def _resnet(blocks: tuple[int, ...] = (3, 4, 6, 3), expand: int = 4, wide: int = 1) -> Any:
    layers: list[Any] = [nn.Conv2d(3, 64, 7, 2, 3, bias=False), nn.BatchNorm2d(64), nn.ReLU(True)]
    layers.append(nn.MaxPool2d(3, 2, 1))
    into = 64
    for level, count in enumerate(blocks):
        width = 64 * 2**level
        for position in range(count):
            out = width * expand
            layers.append(_Residual(into, width * wide, out, 2 if level and position == 0 else 1))
            into = out
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(into, 1000))


_OURS: dict[str, Network] = {"unet": _Unet, "densenet": _densenet, "vgg": _vgg, "resnet": _resnet}
