"""Architectures by name: what published models look like, so that their sizes can be worked out for any input."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Any

from analyzers.source.arithmetic import blocks as _blocks  # noqa: F401  (adds its steps)
from analyzers.source.arithmetic.layers import Walk, run
from analyzers.source.arithmetic.recurrent import Recurrent, recurrent_size
from analyzers.source.arithmetic.size import Size
from analyzers.source.arithmetic.transformer import Transformer, size
from analyzers.source.arithmetic.unet import UNet, unet_size
from analyzers.source.arithmetic.vision import Vision, vision_size
from analyzers.source.knowledge.files import document, key

_FILES = ("convolutional.yaml", "vision.yaml", "language.yaml")
_IMAGE = 224


@dataclass(frozen=True, slots=True)
class Architecture:
    """A published model. ``image`` (pixels a side) or ``length`` (tokens) are those it is usually trained on.

    ``length`` is None where nothing is usual; parameters do not depend on it.
    """

    name: str
    source: str
    kind: str
    shape: Mapping[str, Any] = field(default_factory=dict)
    layers: tuple[Mapping[str, Any], ...] = ()
    image: int | None = None
    length: int | None = None

    @property
    def of_images(self) -> bool:
        """Whether one sample is an image (else a sequence)."""
        return bool(self.layers) or self.kind in ("vision", "unet")

    @property
    def translates(self) -> bool:
        """Whether it is an encoder-decoder over text: input and output have lengths of their own."""
        return bool(self.shape.get("encoder_layers")) and not self.shape.get("mel_bins")

    @property
    def latent(self) -> bool:
        """Whether the network sees latents and not pixels, so that a program's image size says nothing about them."""
        return self.kind in ("vision", "unet") and (self.image or _IMAGE) <= 64

    def size(self, *, image: int | None = None, length: int | None = None, classes: int | None = None) -> Size:
        """The arithmetic for one sample. ``ValueError`` where the input is too small for the network."""
        pixels = image or self.image or _IMAGE
        if self.layers:
            walk = Walk(3, pixels)
            run(walk, self.layers, classes=classes)
            return walk.size(self.kind)  # type: ignore[arg-type]
        if self.kind == "vision":
            vision = Vision(**self.shape)
            return vision_size(vision if classes is None else replace(vision, classes=classes), pixels)
        if self.kind == "unet":
            return unet_size(UNet(**self.shape), pixels)
        tokens = length or self.length or 1
        if self.kind == "recurrent":
            return recurrent_size(Recurrent(**self.shape), tokens)
        return size(Transformer(**self.shape), tokens)


@cache
def _all() -> dict[str, Architecture]:
    found: dict[str, Architecture] = {}
    for name in _FILES:
        for group in document("architectures", name)["architectures"]:
            for row in group["models"]:
                entry = Architecture(
                    row["name"], group["source"], group["kind"], {**group.get("like", {}), **row.get("shape", {})},
                    tuple(row.get("layers", ())), row.get("image"), row.get("length"),
                )  # fmt: skip
                for called in (row["name"], *row.get("aliases", ())):
                    found.setdefault(key(called), entry)
    return found


def architectures() -> list[Architecture]:
    """Every one that is described, once."""
    return list({entry.name: entry for entry in _all().values()}.values())


def architecture(name: str) -> Architecture | None:
    """The architecture that a model's name means, or None: owners and tags of a hub are looked past.

    A name in brackets after a class (``LitModel (resnet50)``) is not read: what the class makes of it is not known.
    """
    known = _all()
    last = name.strip().rpartition("/")[2]
    # The tag of timm's weights stands after a point (``resnet50.a1_in1k``), a size's fraction too (``opt-1.3b``).
    return known.get(key(name)) or known.get(key(last)) or known.get(key(last.partition(".")[0]))
