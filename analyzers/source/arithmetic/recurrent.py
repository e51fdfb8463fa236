"""Recurrent networks: LSTM, GRU and plain ones over an embedding, with an output over the vocabulary."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from analyzers.source.arithmetic.size import Size

GATES = {"lstm": 4, "gru": 3, "rnn": 1}


@dataclass(frozen=True, slots=True)
class Recurrent:
    """Layers of ``hidden`` cells (the last of ``last_hidden``) over an embedding of ``width``.

    ``tied``: the output uses the embedding's weights. Biases are counted twice, as cuDNN and PyTorch keep them.
    """

    layers: int
    hidden: int
    width: int
    vocabulary: int
    cell: Literal["lstm", "gru", "rnn"] = "lstm"
    last_hidden: int | None = None
    tied: bool = False
    directions: int = 1


def layer_weights(cell: str, width: int, hidden: int) -> tuple[int, int]:
    """Matrix and bias weights of one layer in one direction."""
    gates = GATES[cell]
    return gates * hidden * (width + hidden), 2 * gates * hidden


def recurrent_size(shape: Recurrent, length: int) -> Size:
    """One sample of ``length`` steps."""
    matrices = vectors = 0
    width = shape.width
    kept = 0.0
    for layer in range(shape.layers):
        last = layer == shape.layers - 1
        hidden = (shape.last_hidden or shape.hidden) if last else shape.hidden
        more, biases = layer_weights(shape.cell, width, hidden)
        matrices += shape.directions * more
        vectors += shape.directions * biases
        kept += shape.directions * hidden * (GATES[shape.cell] + 2)
        width = hidden * shape.directions
    output = width * shape.vocabulary
    weights = shape.width * shape.vocabulary + matrices + vectors + shape.vocabulary + (0 if shape.tied else output)
    return Size(
        kind="recurrent",
        parameters=float(weights),
        active_parameters=float(weights),
        forward_flops=2.0 * length * (matrices + output),
        kept=length * kept,
        logits=float(length * shape.vocabulary),
        tokens=float(length),
    )
