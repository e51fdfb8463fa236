"""What the arithmetic of an architecture comes to: weights, operations and kept activations of one sample."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True, slots=True)
class Range:
    """A quantity that is not known exactly: the likely value between two that it hardly leaves."""

    low: float
    value: float
    high: float

    def times(self, factor: float) -> Range:
        """All three by a factor."""
        return Range(self.low * factor, self.value * factor, self.high * factor)


def exactly(value: float) -> Range:
    """A quantity without doubt."""
    return Range(value, value, value)


#: Kinds that keep a GPU's arithmetic units busy to a different degree (knowledge/efficiency.yaml).
Kind = Literal["transformer", "convolutional", "depthwise", "recurrent", "diffusion"]

#: Forward and backward pass together, in forward passes: the backward pass computes the gradients of inputs and of
#: weights, each with the forward pass's multiply-adds (Kaplan et al. 2020, arXiv:2001.08361, section 2.1).
PASSES_OF_A_STEP = 3.0
#: The same where the weights are frozen and only adapters learn: gradients of inputs, and of few weights.
PASSES_WITH_ADAPTERS = Range(2.0, 2.1, 3.0)


@dataclass(frozen=True, slots=True)
class Size:
    """A model and one sample of its input.

    ``forward_flops`` of one sample counts a multiply-add as two; ``attention_flops`` is the part of it that attention
    spends on comparing positions (what grows with the square of the length). ``active_parameters`` are those that one
    token passes through (fewer than ``parameters`` in a mixture of experts). ``kept`` are the activations (numbers, not
    bytes) of one sample that the backward pass needs, ``kept_scores`` those that unfused attention keeps on top,
    ``kept_recomputing`` those left when each block is recomputed; ``logits`` the outputs over a vocabulary.
    ``tokens`` of one sample (None: not a sequence).
    """

    kind: Kind
    parameters: float
    forward_flops: float
    kept: float
    active_parameters: float
    attention_flops: float = 0.0
    kept_scores: float = 0.0
    kept_recomputing: float | None = None
    logits: float = 0.0
    tokens: float | None = None
