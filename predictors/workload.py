"""The work a job has to do, in numbers, from its facts: samples, tokens, operations. Missing facts stay missing."""

from __future__ import annotations

import re
from dataclasses import dataclass

from analyzers.source.knowledge.lookup import dataset_entry, model_parameters, parameters_in_name
from analyzers.types import SourceFacts, Submission

#: Training tokens of public text collections, by common tokenisers.
DATASET_TOKENS = {
    "wikitext103": 118e6, "wikitext2": 2.4e6, "wikitext": 118e6, "openwebtext": 9e9, "enwik8": 1e8, "shakespeare": 3e5,
    "tinystories": 4.7e8, "bookcorpus": 1e9, "wikipedia": 4e9, "allenaic4": 156e9, "thepile": 300e9,
    "slimpajama": 627e9, "redpajama": 1.2e12,
}  # fmt: skip
_TEXT_MODELS = re.compile(
    r"gpt|llama|bert|t5\b|bart|opt-|bloom|mistral|mixtral|qwen|falcon|pythia|phi|gemma|transformer|mamba|lm\b", re.I
)
_TEXT_TASKS = re.compile(r"lang|text|nlp|token|translat|summar|question|sft|llm|causal|sequence", re.I)
_IMAGE_WORDS = re.compile(
    r"vision|image|pixel|detect|segment|\bvit|vit_|swin|deit|beit|resnet|convnext|efficientnet|diffusion|unet|dit\b",
    re.I,
)
_DEFAULT_SEQ_LEN = 512
_DEFAULT_IMAGE_SIZE = 224
_DEFAULT_BATCH_PER_GPU = 32
#: Forward operations per parameter of image models at 224 pixels: 150 (EfficientNet) to 400 (ViT), ResNets about 310.
_IMAGE_OPS_PER_PARAMETER = 300.0
#: Small images go through small-image variants of the models, with fewer strides.
_SMALLEST_IMAGE = 64


@dataclass(frozen=True, slots=True)
class Workload:
    """What the facts say about size. ``steps`` are optimizer steps; ``samples_per_step`` over all GPUs."""

    parameters: float | None
    is_text: bool
    gpus: int
    batch_per_gpu: float | None
    samples_per_step: float | None
    steps: float | None
    seq_len: float
    image_size: float

    def operations_per_sample(self) -> float | None:
        """Operations of a training sample, forward and backward: 6 N a token (Kaplan et al., 2020)."""
        if self.parameters is None:
            return None
        if self.is_text:
            return 6.0 * self.parameters * self.seq_len
        pixels = (max(self.image_size, _SMALLEST_IMAGE) / _DEFAULT_IMAGE_SIZE) ** 2
        return 3.0 * _IMAGE_OPS_PER_PARAMETER * self.parameters * pixels


def workload(submission: Submission, facts: SourceFacts) -> Workload:
    """Put the facts together."""
    gpus = gpus_of(submission, facts)
    parameters = number(facts, "model_params_approx") or _parameters(str(facts.value("model") or ""))
    model, task = str(facts.value("model") or ""), str(facts.value("task") or "")
    is_image = number(facts, "image_size") is not None or bool(_IMAGE_WORDS.search(f"{model} {task}"))
    is_text = not is_image and bool(_TEXT_MODELS.search(model) or _TEXT_TASKS.search(task))
    seq_len = number(facts, "seq_len") or _DEFAULT_SEQ_LEN
    batch = number(facts, "batch_size_per_gpu")
    per_step = number(facts, "global_batch_size")
    if per_step is None and batch is not None:
        per_step = batch * gpus * (number(facts, "grad_accum") or 1)
    if batch is None and per_step is not None:
        batch = max(1.0, per_step / gpus / (number(facts, "grad_accum") or 1))
    return Workload(
        parameters,
        is_text,
        gpus,
        batch,
        per_step,
        _steps(facts, per_step or _DEFAULT_BATCH_PER_GPU * gpus, seq_len),
        seq_len,
        number(facts, "image_size") or _DEFAULT_IMAGE_SIZE,
    )


def gpus_of(submission: Submission, facts: SourceFacts) -> int:
    """GPUs that are asked for; else those that the facts say, else 1."""
    return submission.gpus or int(number(facts, "num_gpus") or 1) or 1


def number(facts: SourceFacts, name: str) -> float | None:
    """A fact as a positive number; None when it is absent, unsure, or no such number."""
    value = facts.value(name)
    if isinstance(value, list) and value:
        value = value[0]
    if isinstance(value, str):
        match = re.fullmatch(r"\s*(\d+(?:\.\d+)?(?:e[+-]?\d+)?)\s*([KMBT]?)\s*", value, re.IGNORECASE)
        value = float(match[1]) * {"": 1, "K": 1e3, "M": 1e6, "B": 1e9, "T": 1e12}[match[2].upper()] if match else None
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return float(value) if 0 < value < 1e18 else None


def _steps(facts: SourceFacts, samples_per_step: float, seq_len: float) -> float | None:
    steps = number(facts, "max_steps")
    if steps is not None:
        return steps
    epochs = number(facts, "epochs")
    samples = _samples(str(facts.value("dataset") or ""), seq_len)
    return None if epochs is None or samples is None else max(1.0, epochs * samples / samples_per_step)


def _parameters(model: str) -> float | None:
    """The published size of the named model: near enough where a changed head keeps it from being a fact."""
    return model_parameters(model) or parameters_in_name(model)


def _samples(dataset: str, seq_len: float) -> float | None:
    entry = dataset_entry(dataset)
    if entry is not None and entry.train_samples:
        return float(entry.train_samples)
    squashed = "".join(c for c in dataset.lower() if c.isalnum())
    for name in sorted(DATASET_TOKENS, key=len, reverse=True):
        if name in squashed:
            return max(1.0, DATASET_TOKENS[name] / seq_len)
    return None
