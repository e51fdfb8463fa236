"""Transformers: parameters, operations and activations from width, depth, heads, vocabulary and the like.

Encoders (BERT), decoders (GPT, Llama, with grouped queries, gated feed-forward layers, mixtures of experts), and
encoder-decoders (T5, Whisper). Weights are counted matrix by matrix; operations are two for each weight a token
passes, plus what attention spends on comparing positions (Kaplan et al. 2020, arXiv:2001.08361; Narayanan et al. 2021,
arXiv:2104.04473). Causal attention is counted whole, as published figures do.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from analyzers.source.arithmetic.size import Size


@dataclass(frozen=True, slots=True)
class Transformer:
    """The shape of a transformer, in the names of this project (`from_config` translates those of libraries).

    ``inner`` is the width of the feed-forward layer (4 x ``width`` where absent), ``gated`` whether it has a third
    matrix (SwiGLU, GeGLU). ``kv_heads`` fewer than ``heads`` is grouped-query attention. ``biases``: on all matrices,
    on queries, keys and values only, or none. ``norm``: ``layer`` has two vectors, ``rms`` one, ``bare`` none.
    ``positions`` are learned ones. ``experts`` > 0 makes every ``expert_every``-th layer, after the first
    ``dense_layers``, a mixture in which a token passes ``experts_used`` of them (and ``shared_inner`` always).
    ``encoder_layers`` > 0 makes it an encoder-decoder, whose ``layers`` are the decoder's.
    """

    layers: int
    width: int
    heads: int = 1
    kv_heads: int | None = None
    head_width: int | None = None
    inner: int | None = None
    gated: bool = False
    vocabulary: int = 0
    tied: bool = True
    positions: int = 0
    segments: int = 0
    embedding_width: int | None = None
    biases: Literal["all", "qkv", "none"] = "all"
    mlp_biases: bool | None = None
    norm: Literal["layer", "rms", "bare"] = "layer"
    norms: int = 2
    head_norms: bool = False
    final_norm: bool = True
    embedding_norm: bool = False
    pooler: bool = False
    head: Literal["language", "masked", "none"] = "language"
    head_bias: bool = False
    head_share: float = 1.0
    same_layers: bool = False
    experts: int = 0
    experts_used: int = 1
    expert_inner: int | None = None
    expert_every: int = 1
    dense_layers: int = 0
    shared_inner: int = 0
    encoder_layers: int = 0
    encoder_positions: int = 0
    encoder_length: int | None = None
    relative_buckets: int = 0
    mel_bins: int = 0

    def __post_init__(self) -> None:
        if min(self.layers, self.width, self.heads) < 1 or self.width * self.layers > 10**9:
            raise ValueError("a transformer has at least one layer, head and column")

    @property
    def queries(self) -> int:
        """Width of all heads together."""
        return self.heads * (self.head_width or self.width // self.heads)

    @property
    def keys(self) -> int:
        """Width of all key (or value) heads together."""
        return (self.kv_heads or self.heads) * (self.head_width or self.width // self.heads)

    @property
    def hidden(self) -> int:
        """Width of the feed-forward layer."""
        return self.inner or 4 * self.width

    def norm_weights(self, width: int | None = None) -> int:
        """Weights of one normalisation."""
        return {"layer": 2, "rms": 1, "bare": 0}[self.norm] * (width or self.width)


def size(shape: Transformer, length: int) -> Size:
    """One sample of ``length`` tokens (of an encoder-decoder: of its output, the input being ``encoder_length``)."""
    decoder = _Stack(shape, shape.layers, cross=shape.encoder_layers > 0)
    tokens = float(length)
    source = float(shape.encoder_length or length) if shape.encoder_layers else 0.0
    total = decoder.weights + _embeddings(shape) + _head_weights(shape)
    active = decoder.active + _embeddings(shape) + _head_weights(shape)
    attention = decoder.comparing(tokens, tokens) + (decoder.comparing(tokens, source) if source else 0.0)
    # Keys and values of the source are computed once for each of its tokens, the rest for each output token.
    crossing = 2 * shape.width * shape.keys * shape.layers if source else 0
    work = 2 * tokens * (decoder.matrices - crossing) + 2 * source * crossing
    kept, scores, inputs = decoder.kept(tokens), decoder.scores(tokens, tokens), decoder.inputs(tokens)
    if source:
        encoder = _Stack(shape, shape.encoder_layers, cross=False)
        total += encoder.weights
        active += encoder.active
        attention += encoder.comparing(source, source)
        work += 2 * source * encoder.matrices + _audio_flops(shape, source)
        kept += encoder.kept(source) + tokens * 4 * shape.queries * shape.layers
        scores += encoder.scores(source, source) + decoder.scores(tokens, source)
        inputs += encoder.inputs(source)
    logits = tokens * shape.head_share * shape.vocabulary if shape.head != "none" else 0.0
    work += 2 * logits * (shape.embedding_width or shape.width)
    widest = max(kept / max(1, shape.layers + shape.encoder_layers), 0.0)
    return Size(
        kind="transformer",
        parameters=float(total),
        active_parameters=float(active),
        forward_flops=work + attention,
        attention_flops=attention,
        kept=kept,
        kept_scores=scores,
        kept_recomputing=inputs + widest,
        logits=logits,
        tokens=tokens + source,
    )


class _Stack:
    """Like layers on top of each other."""

    def __init__(self, shape: Transformer, layers: int, *, cross: bool) -> None:
        self.shape, self.layers, self.crosses = shape, layers, cross
        attention, attention_biases = _attention(shape)
        blocks = 2 if cross else 1
        sparse = _sparse_layers(shape, layers)
        dense = layers - sparse
        plain, plain_biases = _feed_forward(shape, shape.hidden)
        expert, expert_biases = _feed_forward(shape, shape.expert_inner or shape.hidden)
        shared, shared_biases = _feed_forward(shape, shape.shared_inner) if shape.shared_inner else (0, 0)
        router = shape.width * shape.experts
        passed = shape.experts_used * expert + shared + router
        #: Matrix weights that one token passes.
        self.matrices = layers * blocks * attention + dense * plain + sparse * passed
        norms = layers * (shape.norms + blocks - 1) * shape.norm_weights()
        heads = shape.queries // shape.heads
        norms += layers * 2 * shape.norm_weights(heads) if shape.head_norms else 0
        norms += shape.norm_weights() if shape.final_norm else 0
        vectors = layers * blocks * attention_biases + dense * plain_biases + norms
        vectors += shape.relative_buckets * shape.heads
        everywhere = self.matrices + vectors + sparse * (shape.experts_used * expert_biases + shared_biases)
        beyond = sparse * (shape.experts - shape.experts_used) * (expert + expert_biases)
        if shape.same_layers:  # one layer's weights, used again and again
            everywhere = everywhere // layers
        self.active = everywhere
        self.weights = everywhere + beyond

    def comparing(self, tokens: float, others: float) -> float:
        """Operations of comparing ``tokens`` positions with ``others``: scores and weighted sums."""
        return 4.0 * self.layers * self.shape.queries * tokens * others

    def kept(self, tokens: float) -> float:
        """Activations kept by fused attention and plain layers: inputs and outputs of norms and matrices."""
        shape = self.shape
        feed_forward = shape.hidden * (3 if shape.gated else 2)
        if shape.experts:
            inner = shape.experts_used * (shape.expert_inner or shape.hidden) + shape.shared_inner
            feed_forward = max(feed_forward, inner * (3 if shape.gated else 2)) if shape.dense_layers else inner * 3
        return tokens * self.layers * (4 * shape.width + 2 * shape.queries + 2 * shape.keys + feed_forward)

    def scores(self, tokens: float, others: float) -> float:
        """What unfused attention keeps: scores and probabilities (Korthikanti et al. 2022, arXiv:2205.05198)."""
        return 2.5 * self.layers * self.shape.heads * tokens * others

    def inputs(self, tokens: float) -> float:
        """Inputs of the layers, all that is kept when each is recomputed."""
        return tokens * self.layers * self.shape.width


def _attention(shape: Transformer) -> tuple[int, int]:
    """Matrix and bias weights of one attention block."""
    matrices = 2 * shape.width * shape.queries + 2 * shape.width * shape.keys
    biases = {"all": shape.queries + 2 * shape.keys + shape.width, "qkv": shape.queries + 2 * shape.keys, "none": 0}
    return matrices, biases[shape.biases]


def _feed_forward(shape: Transformer, inner: int) -> tuple[int, int]:
    """Matrix and bias weights of one feed-forward layer."""
    up = 2 if shape.gated else 1
    has_biases = shape.biases == "all" if shape.mlp_biases is None else shape.mlp_biases
    return (up + 1) * shape.width * inner, (up * inner + shape.width) if has_biases else 0


def _sparse_layers(shape: Transformer, layers: int) -> int:
    return max(0, layers - shape.dense_layers) // max(1, shape.expert_every) if shape.experts else 0


def _embeddings(shape: Transformer) -> int:
    width = shape.embedding_width or shape.width
    total = width * (shape.vocabulary + shape.positions + shape.segments)
    total += shape.width * shape.encoder_positions
    if shape.embedding_width and shape.embedding_width != shape.width:
        total += width * shape.width + shape.width
    if shape.embedding_norm:
        total += shape.norm_weights(width)
    if shape.mel_bins:  # two convolutions of three frames in front of the encoder
        total += 3 * shape.width * (shape.mel_bins + shape.width) + 2 * shape.width
    return total


def _head_weights(shape: Transformer) -> int:
    width = shape.embedding_width or shape.width
    total = shape.width * shape.width + shape.width if shape.pooler else 0
    if shape.head == "masked":
        total += shape.width * width + width + shape.norm_weights(width) + shape.vocabulary
    if shape.head != "none" and not shape.tied:
        total += width * shape.vocabulary
    if shape.head_bias:
        total += shape.vocabulary
    return total


def _audio_flops(shape: Transformer, frames: float) -> float:
    """The two convolutions in front of a speech encoder; the first runs at twice the encoder's length."""
    return 2 * 3 * shape.width * (2 * frames * shape.mel_bins + frames * shape.width) if shape.mel_bins else 0.0
