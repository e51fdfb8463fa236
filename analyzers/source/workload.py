"""What a job will do in numbers, as far as its facts say: steps, tokens, operations, memory, a first step time.

Everything follows by arithmetic from what was read and from published figures (knowledge/*.yaml); nothing is learned
here. A quantity that can not be known is absent. One that is not known exactly is a range.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

from analyzers.source.arithmetic.memory import Setup, memory_mib
from analyzers.source.arithmetic.size import PASSES_OF_A_STEP, PASSES_WITH_ADAPTERS, Range, exactly
from analyzers.source.arithmetic.sizing import Sized, parameters, sized
from analyzers.source.arithmetic.speed import step_time
from analyzers.source.knowledge.gpus import Gpu, gpu_type
from analyzers.source.knowledge.lookup import DatasetEntry, dataset_entry
from analyzers.types import JsonValue, SourceFacts

#: Every derived quantity with its unit, in the order in which they build on each other; the JSON contract.
QUANTITIES: Mapping[str, str] = {
    "parameters": "parameters", "active_parameters": "parameters a token", "samples_per_step": "samples",
    "tokens_per_step": "tokens", "dataset_samples": "samples", "steps": "optimizer steps", "tokens": "tokens",
    "flops_per_step": "operations", "flops": "operations", "gpu_memory_mib": "MiB a GPU", "step_time_s": "seconds",
    "run_time_s": "seconds",
}  # fmt: skip
#: A training set may be less than what is published of it: a part is held out, or left out.
_OF_THE_DATA = Range(0.8, 1.0, 1.0)
#: Which model states are divided, as in ZeRO: optimizer states from 1 on, gradients from 2, weights from 3.
_SHARDING = (("zero3", 3), ("fsdp", 3), ("zero2", 2), ("zero1", 1))
_LEARNS = ("train", "finetune", "other")


@dataclass(frozen=True, slots=True)
class Derived:
    """One quantity: its likely value between ``low`` and ``high`` (the same where it is exact), and how it follows."""

    value: float
    low: float
    high: float
    unit: str
    how: str


@dataclass(frozen=True, slots=True)
class Workload:
    """Derived quantities by the names in ``QUANTITIES``; what can not be known is absent."""

    derived: Mapping[str, Derived] = field(default_factory=dict)

    def value(self, name: str) -> float | None:
        """A quantity's likely value, or None."""
        found = self.derived.get(name)
        return None if found is None else found.value


def workload(facts: SourceFacts, gpu: str | None = None, gpus: int | None = None) -> Workload:
    """What follows from the facts of a job.

    ``gpu`` is the type it will run on, by any name (the one that its launch asks for where it is not given), ``gpus``
    how many it was given; then what source and launch say about that does not count. Steps, tokens and operations are
    those of training; of other work only the model's size and its memory are told.
    """
    asked = facts.request.get("gpu_type")
    kind = gpu_type(gpu or (str(asked.value) if asked is not None else None))
    found = _Workload(facts, kind, gpus)
    found.model()
    found.steps()
    found.work()
    return Workload({name: found.derived[name] for name in QUANTITIES if name in found.derived})


class _Workload:
    """Puts the quantities together, each from those before it."""

    def __init__(self, facts: SourceFacts, gpu: Gpu | None, gpus: int | None) -> None:
        self.facts, self.gpu = facts, gpu
        self.sized: Sized | None = sized(facts)
        self.gpus = gpus or self.whole("num_gpus")
        self.learns = facts.value("workload_type") in _LEARNS
        self.derived: dict[str, Derived] = {}

    def put(self, name: str, value: Range, how: str) -> None:
        """Keep a quantity that is a sensible number."""
        if all(math.isfinite(v) and v > 0 for v in (value.low, value.value, value.high)):
            self.derived[name] = Derived(value.value, value.low, value.high, QUANTITIES[name], how)

    def get(self, name: str) -> Range | None:
        """A quantity derived before."""
        known = self.derived.get(name)
        return None if known is None else Range(known.low, known.value, known.high)

    def whole(self, name: str) -> int | None:
        """A fact that is a whole number above zero."""
        value = self.facts.value(name)
        if isinstance(value, bool) or not isinstance(value, int | float):
            return None
        return int(value) if 1 <= value < 1e15 else None

    # --- the model ------------------------------------------------------------------------------------------------

    def model(self) -> None:
        """``parameters``, and ``active_parameters`` where they are fewer."""
        known = parameters(self.facts)
        if self.sized is not None:
            self.put("parameters", self.sized.parameters, self.sized.how)
            size = self.sized.size
            if size.active_parameters < 0.99 * size.parameters:
                self.put("active_parameters", exactly(size.active_parameters), self.sized.how)
        elif known is not None:
            self.put("parameters", *known)

    # --- steps ----------------------------------------------------------------------------------------------------

    def steps(self) -> None:
        """Samples and tokens of a step, ``dataset_samples``, and ``steps``."""
        per_step, how = self._samples()
        if per_step is not None:
            self.put("samples_per_step", exactly(per_step), how)
        length = self.whole("seq_len")
        if per_step is not None and length is not None and self.learns:
            self.put("tokens_per_step", exactly(per_step * length), f"{per_step:g} samples of {length} tokens")
        data = dataset_entry(str(self.facts.value("dataset") or ""))
        if data is not None and data.train_samples:
            self.put("dataset_samples", exactly(data.train_samples), f"published size of {data.name} ({data.source})")
        if not self.learns:
            return
        stated, epochs = self.whole("max_steps"), self.whole("epochs")
        if stated is not None:
            self.put("steps", exactly(stated), "as read from the program")
        elif epochs is not None and per_step and data is not None:
            self._steps_of_epochs(epochs, per_step, data, length)
        steps, tokens = self.get("steps"), self.get("tokens_per_step")
        if steps is not None and tokens is not None:
            self.put("tokens", steps.times(tokens.value), "steps x tokens of a step")

    def _steps_of_epochs(self, epochs: int, per_step: float, data: DatasetEntry, length: int | None) -> None:
        if data.train_samples:
            steps = exactly(epochs * math.ceil(data.train_samples / per_step))
            self.put(
                "steps", Range(_OF_THE_DATA.low * steps.low, steps.value, steps.high),
                f"{epochs} epochs of {data.train_samples:,} samples / {per_step:g} a step, if all are used",
            )  # fmt: skip
        elif data.train_tokens and length:
            steps = exactly(max(1.0, epochs * data.train_tokens / (per_step * length)))
            self.put(
                "steps", Range(0.5 * steps.low, steps.value, 2.0 * steps.high),
                f"{epochs} epochs of about {data.train_tokens:,} tokens ({data.source}) / {per_step * length:g} a step",
            )  # fmt: skip

    def _samples(self) -> tuple[float | None, str]:
        total = self.whole("global_batch_size")
        if total is not None:
            return float(total), "as read from the program"
        each, accumulated = self.whole("batch_size_per_gpu"), self.whole("grad_accum")
        if each is None or self.gpus is None or accumulated is None or self._model_is_split():
            return None, ""
        return float(each * self.gpus * accumulated), f"{each} x {self.gpus} GPUs x {accumulated} accumulated"

    def _model_is_split(self) -> bool:
        return bool({"tp", "pp"} & self._parallel())

    def _parallel(self) -> set[str]:
        value = self.facts.value("parallelism")
        return {str(name) for name in value} if isinstance(value, list) else set()

    # --- what it costs --------------------------------------------------------------------------------------------

    def work(self) -> None:
        """Operations, memory, and the time of a step."""
        known = self.sized
        if known is None:
            return
        self.put_memory(known)
        per_step, steps = self.get("samples_per_step"), self.get("steps")
        if per_step is None or not self.learns:
            return
        adapted = self.facts.value("adapters") is True
        passes = PASSES_WITH_ADAPTERS if adapted else exactly(PASSES_OF_A_STEP)
        one = known.flops.times(per_step.value)
        flops = Range(one.low * passes.low, one.value * passes.value, one.high * passes.high)
        kind = "forward and backward pass (weights frozen)" if adapted else "forward and backward pass"
        self.put("flops_per_step", flops, f"{kind} of {per_step.value:g} samples, {known.how}")
        if steps is not None:
            whole = Range(flops.low * steps.low, flops.value * steps.value, flops.high * steps.high)
            self.put("flops", whole, "steps x operations of a step")
        if self.gpu is None or not self.gpus:
            return
        precision = self.facts.value("precision")
        took = step_time(
            known.size, per_step.value, self.gpu, gpus=self.gpus,
            precision=str(precision) if precision is not None else None,
            recomputing=self.facts.value("activation_checkpointing") is True, passes=passes.value,
        )  # fmt: skip
        off = (flops.low / flops.value, flops.high / flops.value)
        took = Range(took.low * off[0], took.value, took.high * off[1])
        self.put(
            "step_time_s", took,
            f"rough: operations over what {self.gpus} {self.gpu.name} usually reach; waiting for data is not in it",
        )  # fmt: skip
        if steps is not None:
            lasts = Range(took.low * steps.low, took.value * steps.value, took.high * steps.high)
            self.put("run_time_s", lasts, "rough: steps x time of a step, without start, evaluation and early end")

    def put_memory(self, known: Sized) -> None:
        """``gpu_memory_mib``, where the samples that one GPU holds are known, and it holds the whole model."""
        samples, gpus = self._samples_on_a_gpu(), self.gpus or 1
        if samples is None or self._model_is_split():
            return  # into how many parts the model is split is not a fact
        parallel = self._parallel()
        sharding = next((level for name, level in _SHARDING if name in parallel), 0)
        if sharding and not self.gpus:
            return  # how much of the states one GPU holds depends on how many there are
        setup = Setup(
            samples=samples, gpus=gpus, precision=_text(self.facts.value("precision")),
            optimizer=_text(self.facts.value("optimizer")), sharding=sharding,
            replicated="ddp" in parallel, recomputing=_switch(self.facts.value("activation_checkpointing")),
            learns=self.learns, adapters=self.facts.value("adapters") is True, weight_bits=self.whole("weight_bits"),
        )  # fmt: skip
        low_high = (0.6, 1.8) if not known.exact else (1.0, 1.0)
        needed = memory_mib(known.size, setup)
        needed = Range(needed.low * low_high[0], needed.value, needed.high * low_high[1])
        how = f"weights, gradients, optimizer and activations of {samples:g} samples a GPU, {known.how}"
        if self.gpu is not None and needed.low > self.gpu.memory_gib * 1024:
            how += f"; more than the {self.gpu.memory_gib:g} GiB of a {self.gpu.name}"
        self.put("gpu_memory_mib", needed, how)

    def _samples_on_a_gpu(self) -> float | None:
        each = self.whole("batch_size_per_gpu")
        if each is not None:
            return float(each)
        total, accumulated = self.whole("global_batch_size"), self.whole("grad_accum")
        if total is None or accumulated is None or self.gpus is None:
            return None
        return max(1.0, total / (self.gpus * accumulated))


def _text(value: JsonValue) -> str | None:
    return value if isinstance(value, str) else None


def _switch(value: JsonValue) -> bool | None:
    return value if isinstance(value, bool) else None
