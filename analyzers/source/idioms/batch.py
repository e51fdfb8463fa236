"""Batch sizes, gradient accumulation, and the steps that follow from a known data set size."""

from __future__ import annotations

import math

from analyzers.source.idioms.named import base_name
from analyzers.source.idioms.resources import data_parallel_size
from analyzers.source.idioms.schedule import test_text
from analyzers.source.idioms.training import (
    Training,
    accumulates,
    accumulation_in,
    data_loop,
    is_estimator,
    slice_size,
    stepped_slice,
)
from analyzers.source.knowledge.lookup import dataset_entry
from analyzers.source.program.events import Call
from analyzers.source.program.values import ClassVal, Const, Ext, Func, Obj, Origin, Scaled, Seq, Unknown, Val
from analyzers.source.reading import Reading, as_flag, as_number, class_name

_LOADER_NAMES = ("DataLoader", "StatefulDataLoader")


def training_loader(reading: Reading, training: Training) -> Call | None:
    """The loader call that feeds the training loop."""
    for loop in reversed(training.loops):
        if data_loop(loop):
            found = _loader_call(loop.iterable)
            if found is not None and found.path != "deepspeed.initialize":
                return found
    loaders = [c for c in reading.calls if base_name(c.path) in _LOADER_NAMES and "data" in c.path.lower()]
    if not loaders:
        return None
    # Shuffling marks the training loader; a program that builds several builds it first.
    shuffled = [c for c in loaders if as_flag(c.kwargs.get("shuffle")) is True]
    return (shuffled or loaders)[0]


def _loader_call(value: Val | None, depth: int = 0) -> Call | None:
    if depth > 6 or value is None:
        return None
    if isinstance(value, Unknown):
        found = [_loader_call(option, depth + 1) for option in value.options]
        return next((f for f in found if f is not None), None)
    if not isinstance(value, Obj):
        return None
    for name in ("iterable", "loader"):
        if name in value.attrs:
            return _loader_call(value.attrs[name], depth + 1)
    if value.call is not None and base_name(value.call.path) in (*_LOADER_NAMES, "initialize"):
        return value.call
    if value.call is not None and value.call.receiver is not None:
        return _loader_call(value.call.receiver, depth + 1)
    return None


def offer_batches(reading: Reading, training: Training) -> None:
    """``batch_size_per_gpu``, ``global_batch_size``, ``grad_accum`` and, where it follows, ``max_steps``."""
    works = (
        training.call is not None
        or reading.value("workload_type") in ("eval", "inference")
        or reading.words_read_unseen
    )
    if not works:
        return
    learns = reading.value("workload_type") in ("train", "finetune", "other", None)
    per_device, total, origin, sure = _sizes(reading, training)
    stepped = stepped_slice(reading, training)
    if stepped is not None:  # what was collected is learned from in parts, with a step for each
        per_device, total, origin, sure = float(stepped[0]), None, stepped[1], 0.85
    part = next((size for loop in training.slices if (size := slice_size(loop)) is not None), None)
    if part is not None and per_device is None:
        return  # a batch of unknown size is worked through in parts
    pieces = math.ceil(per_device / part) if part is not None and per_device is not None else None
    accumulation: int | None
    if part is not None and pieces is not None and pieces > 1:
        per_device, accumulation = float(part), pieces
        reading.offer("grad_accum", pieces, 0.85, origin, "computed")
    else:
        accumulation = _accumulation(reading, training) if learns else None
    replicas = data_parallel_size(reading)
    if total is not None and per_device is None and replicas:
        if accumulation is not None and total % (replicas * accumulation) == 0:
            per_device = total / (replicas * accumulation)
    elif total is None and per_device is not None and replicas and (accumulation is not None or not learns):
        total = per_device * replicas * (accumulation or 1)
    elif (
        total is not None
        and per_device is not None
        and replicas
        and "grad_accum" not in reading.settings
        and "tp" in reading.settings
        and total % (per_device * replicas) == 0
    ):
        reading.offer("grad_accum", int(total / (per_device * replicas)), 0.8, origin, "computed")
    if per_device is not None and per_device > 0:
        reading.offer("batch_size_per_gpu", _whole(per_device), sure, origin)
    if total is not None and total > 0:
        reading.offer("global_batch_size", _whole(total), sure - 0.02, origin, "computed" if replicas != 1 else None)
    _steps(reading, training, replicas, accumulation)


def _whole(value: float) -> int | float:
    return int(value) if float(value).is_integer() else value


def _sizes(reading: Reading, training: Training) -> tuple[float | None, float | None, Origin | None, float]:
    """Samples per device and step, samples per optimizer step, where, and how sure."""
    per_device, total = reading.number("batch_per_device"), reading.number("global_batch")
    best = next((s for s in (per_device, total) if s is not None and s[1].confidence >= 0.85), None)
    if best is not None:
        return (
            float(per_device[0]) if per_device and per_device[1].confidence >= 0.85 else None,
            float(total[0]) if total and total[1].confidence >= 0.85 else None,
            best[1].origin, best[1].confidence,
        )  # fmt: skip
    scattered = "dp" in (reading.value("parallelism") or [])  # type: ignore[operator]
    loader = training_loader(reading, training)
    value: Val | None = None
    if loader is not None:
        value = loader.argument(1, "batch_size")
        if value is None and "sampler" not in loader.kwargs and "batch_sampler" not in loader.kwargs:
            value = Const(1, Origin(loader.origin.file, loader.origin.line, "default"))
    elif reading.value("framework") in ("jax", "tensorflow"):
        value = _pipeline_batch(reading)
        fitted = reading.settings.get("batch")
        if value is None and fitted is not None and fitted.confidence >= 0.85:  # model.fit(batch_size=...)
            value = fitted.value
    origin = _origin_of(value, loader)
    if isinstance(value, Scaled):
        return _from_scaled(value, reading, origin, scattered)
    number = as_number(value)
    sure = 0.9
    if number is None and loader is None:
        named = reading.number("batch_per_device") or reading.number("batch") or reading.number("global_batch")
        if named is not None:
            number, origin, sure = named[0], named[1].origin, named[1].confidence
    if number is None:
        return None, None, None, 0.0
    return (None, float(number), origin, sure) if scattered else (float(number), None, origin, sure)


def _origin_of(value: Val | None, loader: Call | None) -> Origin | None:
    origin = getattr(value, "origin", None)
    if isinstance(origin, Origin) and origin.file:
        return origin
    return loader.origin if loader is not None else None


def _from_scaled(
    value: Scaled, reading: Reading, origin: Origin | None, scattered: bool
) -> tuple[float | None, float | None, Origin | None, float]:
    if scattered and value.power == 1:  # 256 x devices, spread over the devices
        return value.coefficient, None, origin, 0.85
    if not scattered and value.power == -1:  # 256 / devices in each of as many processes
        nodes = reading.value("num_nodes")
        total = value.coefficient * (nodes if isinstance(nodes, int) else 1)
        return None, total, origin, 0.8
    return None, None, None, 0.0


def _pipeline_batch(reading: Reading) -> Val | None:
    for call in reading.calls:
        if call.name in ("batch", "padded_batch") and "()." in call.path:
            return call.argument(0, "batch_size")
    return None


def _accumulation(reading: Reading, training: Training) -> int | None:
    """Gradient accumulation steps; 1 where the loop was read and steps every time."""
    setting = reading.number("grad_accum")
    if setting is not None and setting[0] >= 1:
        reading.offer("grad_accum", int(setting[0]), max(0.7, setting[1].confidence), setting[1].origin)
        return int(setting[0])
    if training.call is None or training.trainer:
        if training.unseen or "open_trainer" in reading.settings:
            return None
        if "lightning" in reading.settings and training.trainer:
            reading.offer("grad_accum", 1, 0.85)
            return 1
        if training.call is not None and ("keras" in training.call.path or is_estimator(training.call)):
            reading.offer("grad_accum", 1, 0.8)
            return 1
        return None
    if training.call.name == "train_batch" or (
        "global_batch" in reading.settings and "batch_per_device" in reading.settings
    ):
        return None
    steps = [
        c
        for c in reading.calls
        if c.name in ("step", "update", "apply_gradients") and len(c.loops) == len(training.loops)
    ]
    # What the gradients wait for as well does not accumulate them.
    waits = [(call, tuple(g for g in call.guards if g not in training.call.guards)) for call in steps]
    for call, guards in waits:
        modulus = as_number(accumulation_in(guards))
        if modulus is not None:
            reading.offer("grad_accum", int(modulus), 0.8, call.origin)
            return int(modulus)
    if any(accumulates(guards) for call, guards in waits if "optim" in call.path.lower()) or any(
        "accum" in test_text(guard).lower() for _, guards in waits for guard in guards
    ):
        return None  # every so many batches, which is not known
    if reading.complete or steps:
        reading.offer("grad_accum", 1, 0.8)
        return 1
    return None


# --- steps from the size of the data ------------------------------------------------------------------------------


def _steps(reading: Reading, training: Training, replicas: int | None, accumulation: int | None) -> None:
    if "max_steps" in reading.facts or reading.value("iter_type") != "epoch":
        return
    epochs = reading.value("epochs")
    size = dataset_size(reading, training)
    if not isinstance(epochs, int) or size is None:
        return
    total, per_device = reading.value("global_batch_size"), reading.value("batch_size_per_gpu")
    drop = any(as_flag(c.kwargs.get("drop_remainder")) or as_flag(c.kwargs.get("drop_last")) for c in reading.calls)
    if isinstance(per_device, int) and replicas and accumulation and not drop:
        batches = math.ceil(math.ceil(size[0] / replicas) / per_device)
        steps = math.ceil(batches / accumulation)
    elif isinstance(total, int):
        steps = size[0] // total if drop else math.ceil(size[0] / total)
    else:
        return
    reading.offer("max_steps", steps * epochs, 0.7, size[1], "computed")


def dataset_size(reading: Reading, training: Training) -> tuple[int, Origin] | None:
    """Samples in the training set where the code or published figures fix it."""
    loader = training_loader(reading, training)
    data = loader.argument(0, "dataset") if loader is not None else None
    sampler = loader.kwargs.get("sampler") if loader is not None else None
    if sampler is not None and class_name(sampler) not in ("DistributedSampler", "RandomSampler", None):
        return None  # a sampler may draw any part of the data
    if data is None:
        call = reading.first("deepspeed.initialize")
        data = call.argument(4, "training_data") if call is not None else None
    if data is None and reading.value("framework") == "jax":
        name = reading.value("dataset")
        entry = dataset_entry(str(name)) if name else None
        return (entry.train_samples, Origin()) if entry is not None and entry.train_samples else None
    return _size_of(reading, data, 0)


def _size_of(reading: Reading, data: Val | None, depth: int) -> tuple[int, Origin] | None:
    if isinstance(data, Obj) and isinstance(data.cls, ClassVal):
        method = data.cls.attrs.get("__len__")
        if isinstance(method, Func):
            before = len(reading.calls)
            length = reading.machine.call(Func(method.node, method.frame, method.name, data), [], {}, data.origin)
            del reading.calls[before:]
            number = as_number(length)
            if number is not None:
                return int(number), data.origin
            if isinstance(length, Unknown) and length.detail[:1] == ("len",):
                return None
        return None
    if isinstance(data, Obj) and isinstance(data.cls, Ext) and data.call is not None:
        if data.cls.path.endswith("FakeData"):
            number = as_number(data.call.argument(0, "size") or Const(1000))
            return (int(number), data.origin) if number is not None else None
        if data.call.name in ("Subset", "ConcatDataset", "random_split"):
            return None
        entry = dataset_entry(data.cls.path.rpartition(".")[2]) if "datasets" in data.cls.path else None
        if entry is not None and entry.train_samples and "[]" not in data.cls.path:
            return entry.train_samples, data.origin
    if isinstance(data, Seq) and not data.open and len(data.items) > 1:
        return len(data.items), data.origin
    return None
