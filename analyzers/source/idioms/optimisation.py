"""Optimizer, learning rate, precision and activation checkpointing."""

from __future__ import annotations

import math
import re

from analyzers.source.idioms.bounds import bounds
from analyzers.source.idioms.training import Training
from analyzers.source.program.events import Call
from analyzers.source.program.values import Bound, Const, Ext, Func, Map, Obj, Origin, Seq, Unknown, Val
from analyzers.source.reading import Reading, as_flag, as_number, as_text

#: Optimizer classes by lower-case name -> (usual name, default learning rate or None).
_OPTIMIZERS: dict[str, tuple[str, float | None]] = {
    name.lower(): (name, rate)
    for name, rate in {
        "Adam": 1e-3, "AdamW": 1e-3, "SGD": 1e-3, "Adadelta": 1.0, "Adagrad": 1e-2, "RMSprop": 1e-2, "Adamax": 2e-3,
        "NAdam": 2e-3, "RAdam": 1e-3, "LBFGS": 1.0, "ASGD": 1e-2, "Rprop": 1e-2, "SparseAdam": 1e-3, "Adafactor": None,
        "FusedAdam": 1e-3, "DeepSpeedCPUAdam": 1e-3, "FusedLAMB": 1e-3, "LAMB": None, "Lion": 1e-4, "Adam8bit": 1e-3,
        "AdamW8bit": 1e-3, "PagedAdamW8bit": 1e-3, "PagedAdamW32bit": 1e-3, "LARS": None, "Muon": None,
        "FusedSGD": None, "Shampoo": None, "NovoGrad": None,
    }.items()
}  # fmt: skip
_SURE_OF_ARGUMENT = 0.92
_OPTIMIZER_HOMES = (
    "torch.optim", "optim", "apex", "deepspeed", "bitsandbytes", "transformers", "optax", "keras", "tensorflow",
    "torch_optimizer", "timm", "lion_pytorch", "flax.optim", "lightning", "fairscale", "pytorch_optimizer",
)  # fmt: skip
_KERAS_SGD_LR = 1e-2
#: Parameters of optax and Keras schedules that are rates, and where those stand that are not (only) the first.
_RATE_NAMES = ("init_value", "end_value", "peak_value", "schedules", "initial_learning_rate", "value", "warmup_target")
_SCHEDULE_RATES: dict[str, tuple[int, ...]] = {
    "warmup_cosine_decay_schedule": (0, 1, 4), "warmup_constant_schedule": (0, 1),
    "warmup_exponential_decay_schedule": (0, 1), "linear_schedule": (0, 1), "polynomial_schedule": (0, 1),
    "cosine_onecycle_schedule": (1,), "linear_onecycle_schedule": (1,), "PolynomialDecay": (0, 2),
    "CosineDecay": (0, 5),
}  # fmt: skip


def optimizer_calls(reading: Reading) -> list[Call]:
    """Optimizer constructions that were reached, in order."""
    found = []
    for call in reading.calls:
        if call.path.startswith(_OPTIMIZER_HOMES) and "()." not in call.path and _optimizer_of(call) is not None:
            found.append(call)
    return found


_OF_TENSORFLOW = {"GradientDescentOptimizer": "SGD", "MomentumOptimizer": "SGD", "RMSPropOptimizer": "RMSprop"}
#: Optimizers that work through another one.
_WRAPPERS = re.compile(
    r"SAM|Lookahead|FP16|BF16|Mixed|Zero|Wrap|Schedule|Noam|Distributed|Sharded|Multi|EMA|SWA|Container|Group"
)


def _optimizer_of(call: Call) -> tuple[str, float | None] | None:
    """Usual name and default rate of the optimizer that a call builds: a library's, or the program's own class."""
    base, _, own = call.path.partition("<")
    base, own = base.rpartition(".")[2], own.rstrip(">")
    if call.path.startswith("tensorflow.") and base.endswith("Optimizer") and base != "Optimizer":
        base = _OF_TENSORFLOW.get(base, base.removesuffix("Optimizer"))
        known = _OPTIMIZERS.get(base.lower())
        return (known[0], None) if known is not None else None
    known = _OPTIMIZERS.get(base.lower())
    if known is not None or base != "Optimizer" or not own or _WRAPPERS.search(own):
        return known
    return _OPTIMIZERS.get(own.lower(), (own, None))[0], None


def offer_optimizer(reading: Reading, training: Training) -> None:
    """``optimizer`` and ``learning_rate``; nothing for a run that does not train."""
    if reading.value("workload_type") not in ("train", "finetune", "other"):
        return
    setting = reading.settings.get("optimizer")
    named = as_text(setting.value) if setting is not None else None
    calls = optimizer_calls(reading)
    if (
        named is not None
        and setting is not None
        and (setting.confidence >= 0.85 or (not calls and reading.launch.entry is None))
    ):
        usual = _OPTIMIZERS.get(named.lower().replace("_", ""))
        reading.offer("optimizer", usual[0] if usual else named, setting.confidence, setting.origin)
    if "hf" in reading.settings and not calls:
        _hf_optimizer(reading)
    if calls:
        best = calls[0]
        usual_name, default = _optimizer_of(best) or ("", None)
        different = {c.path for c in calls if c.guards} | {best.path}
        sure = 0.92 if len(different) == 1 else 0.45
        reading.offer("optimizer", usual_name, sure, best.origin)
        _learning_rate(reading, best, default)
    elif "optimizer" not in reading.facts:
        _compiled(reading)
        _by_hand(reading)
    written = reading.number("lr")
    if written is not None and written[1].confidence > _SURE_OF_ARGUMENT:  # put into the optimizer after it was made
        reading.offer("learning_rate", float(written[0]), written[1].confidence, written[1].origin)
    rate = reading.number("lr")
    if (
        rate is not None
        and rate[0] > 0
        and "learning_rate" not in reading.facts
        and (not calls or rate[1].confidence >= 0.85)
    ):
        reading.offer("learning_rate", float(rate[0]), rate[1].confidence, rate[1].origin)


#: Default rates of Keras optimizers where they differ from PyTorch's.
_KERAS_RATES = {"SGD": _KERAS_SGD_LR, "RMSprop": 1e-3, "Adagrad": 1e-3, "Adadelta": 1e-3, "Adamax": 1e-3, "NAdam": 1e-3}


def _compiled(reading: Reading) -> None:
    """``model.compile(optimizer="adam")``: Keras builds the optimizer that the text names, with its default rate."""
    for call in reading.calls:
        if call.name != "compile" or "keras" not in call.path:
            continue
        usual = _OPTIMIZERS.get((as_text(call.argument(0, "optimizer")) or "").lower())
        if usual is not None:
            reading.offer("optimizer", usual[0], 0.9, call.origin)
            rate = _KERAS_RATES.get(usual[0], usual[1])
            place = Origin(call.origin.file, call.origin.line, "default")
            reading.offer("learning_rate", rate, 0.8, place)
            return


def _hf_optimizer(reading: Reading) -> None:
    setting = reading.settings.get("hf_optimizer")
    text = as_text(setting.value) if setting is not None else None
    if text is None or setting is None:
        return
    names = {
        "adamw": "AdamW",
        "adafactor": "Adafactor",
        "sgd": "SGD",
        "adagrad": "Adagrad",
        "paged": "AdamW",
        "lion": "Lion",
    }
    for mark, name in names.items():
        if text.startswith(mark):
            reading.offer("optimizer", name, 0.88, setting.origin)
            return


def _learning_rate(reading: Reading, call: Call, default: float | None) -> None:
    stepwise = [value for name, value in reading.record.settings if name == "param_groups.lr by step"]
    first = call.path.startswith(("optax", "tensorflow")) or "keras" in call.path
    value = call.argument(0 if first else None, "lr", "learning_rate")
    if value is None:
        value = call.argument(1) if call.path.startswith(("torch", "optim")) and len(call.args) > 1 else None
    if stepwise and (value is None or as_number(value) == 0):
        # A placeholder: the program sets the rate itself before every step.
        highest = [bounds(v)[1] for v in stepwise]
        if all(math.isfinite(h) and h > 0 for h in highest):
            place = getattr(stepwise[-1], "origin", call.origin)
            reading.offer("learning_rate", max(highest), 0.75, place, "computed")
        return
    if value is None:
        value = _rate_of_groups(call.argument(0, "params"))
    if value is None:
        if default is not None and "optax" not in call.path:
            keras = "keras" in call.path and call.name.lower() == "sgd"
            place = Origin(call.origin.file, call.origin.line, "default")
            reading.offer("learning_rate", _KERAS_SGD_LR if keras else default, 0.75, place)
        return
    if _of_groups(call) is not None:
        value = _of_groups(call) or value
    number = as_number(value)
    if number == 0:
        return  # set by something that was not met
    if number is not None:
        origin = value.origin if isinstance(value, Const) and value.origin.file else call.origin
        reading.offer("learning_rate", float(number), _SURE_OF_ARGUMENT, origin)
        return
    if isinstance(value, Func):
        _written_out(reading, value, call)
        return
    peak = _schedule_peak(value, 0)
    rate = as_number(peak) if peak is not None else None
    if peak is not None and rate:  # a schedule that never leaves 0 was not understood
        reading.offer("learning_rate", float(rate), 0.8, peak.origin)


def _written_out(reading: Reading, schedule: Func, call: Call) -> None:
    """A schedule that the program writes as a function of the step: the highest rate that it can give."""
    before = len(reading.calls)
    result = reading.machine.call(schedule, [Unknown("step", call.origin)], {}, call.origin)
    del reading.calls[before:]
    highest = bounds(result)[1]
    if math.isfinite(highest) and 0 < highest < 10:
        reading.offer("learning_rate", highest, 0.75, schedule.origin if schedule.origin.file else call.origin)


def _rate_of_groups(groups: Val | None) -> Val | None:
    """The rate that all groups of parameters are given (``[{"params": a, "lr": lr}, {"params": b, "lr": lr}]``)."""
    items = groups.items if isinstance(groups, Seq) else []
    rates = [item.items.get("lr") for item in items if isinstance(item, Map)]
    numbers = {as_number(rate) for rate in rates}
    return rates[0] if rates and len(numbers) == 1 and len(rates) == len(items) else None


def _of_groups(call: Call) -> Val | None:
    """The rate that all of an optimizer's parameter groups are given, instead of the common one."""
    groups = call.argument(0, "params")
    if not isinstance(groups, Seq) or groups.open or not groups.items:
        return None
    rates = [g.items.get("lr") if isinstance(g, Map) else None for g in groups.items]
    numbers = {as_number(rate) for rate in rates}
    return rates[0] if len(numbers) == 1 and None not in numbers else None


def _schedule_peak(value: Val, depth: int) -> Const | None:
    """The highest rate of a learning-rate schedule built from known parts."""
    if depth > 6:
        return None
    if isinstance(value, Const):
        return value if as_number(value) is not None else None
    if isinstance(value, Unknown):  # with a warm-up, or without
        options = [peak for option in value.options if (peak := _schedule_peak(option, depth + 1)) is not None]
        return max(options, key=lambda c: as_number(c) or 0) if options else None
    if isinstance(value, Seq):
        found = [_schedule_peak(item, depth + 1) for item in value.items]
    elif isinstance(value, Obj) and value.call is not None:
        positions = _SCHEDULE_RATES.get(value.call.name, (0,))
        given = [value.call.kwargs[n] for n in _RATE_NAMES if n in value.call.kwargs]
        given += [value.call.args[i] for i in positions if i < len(value.call.args)]
        found = [_schedule_peak(v, depth + 1) for v in given]
    else:
        return None
    # One part that is not known may be the highest.
    known = [f for f in found if f is not None]
    return max(known, key=lambda c: as_number(c) or 0) if known and len(known) == len(found) else None


def _by_hand(reading: Reading) -> None:
    """``p.data.add_(p.grad, alpha=-lr)``: an update written out is plain SGD."""
    for call in reading.calls:
        if call.name in ("add_", "sub_") and call.loops and any(map(_is_grad, [*call.args, *call.kwargs.values()])):
            reading.offer("optimizer", "SGD", 0.75, call.origin)
            return


def _is_grad(value: Val) -> bool:
    if isinstance(value, Unknown) and value.detail[:1] == ("arithmetic",):
        return any(_is_grad(part) for part in value.detail[1:] if isinstance(part, Bound | Unknown))
    return isinstance(value, Bound) and (value.name == "grad" or _is_grad(value.owner))


# --- precision ----------------------------------------------------------------------------------------------------

_RECOMPUTES = (
    "gradient_checkpointing_enable", "apply_activation_checkpointing", "checkpoint_wrapper",
    "enable_gradient_checkpointing",
)  # fmt: skip
_BF16 = ("bfloat16", "bf16")
_FP16 = ("float16", "half", "fp16")


#: Switches by which programs turn on half precision and activation checkpointing of their own making.
_HALF_FLAGS = ("use_fp16", "fp16", "use_bf16", "bf16", "use_amp", "amp", "enable_amp", "use_mixed_precision",
               "half_precision", "use_half_precision")  # fmt: skip
_RECOMPUTE_FLAGS = (
    "gradient_checkpointing", "use_checkpoint", "grad_checkpointing", "activation_checkpointing",
    "checkpoint_activations", "use_gradient_checkpointing", "use_grad_checkpointing", "use_grad_checkpoint",
    "grad_checkpoint", "gradient_checkpoint", "use_activation_checkpointing", "use_activation_checkpoint",
    "enable_gradient_checkpointing", "use_checkpointing", "remat", "use_remat", "recompute_grad",
)  # fmt: skip


def dtype_of(value: Val | None) -> tuple[str, bool] | None:
    """``bf16``/``amp-fp16``/``fp32`` and whether that is certain; None where it can not be told."""
    if isinstance(value, Ext):
        name = value.path.rpartition(".")[2]
    elif isinstance(value, Const) and isinstance(value.value, str):
        name = value.value
    elif isinstance(value, Unknown):
        options = [found for option in value.options if (found := dtype_of(option)) is not None]
        return (options[0][0], False) if options else None
    elif isinstance(value, Obj) and value.call is not None:
        return dtype_of(value.call.argument(0, "param_dtype"))  # a mixed-precision policy
    else:
        return None
    for names, result in (
        (_BF16, "bf16"),
        (_FP16, "amp-fp16"),
        (("float32", "fp32", "no", "float"), "fp32"),
        (("fp8",), "fp8"),
    ):
        if name in names:
            return result, True
    return None


def offer_precision(reading: Reading, training: Training) -> None:
    """``precision`` and ``activation_checkpointing``."""
    _precision(reading, training)
    _activation_checkpointing(reading, training)


def _precision(reading: Reading, training: Training) -> None:
    if reading.value("workload_type") == "preprocess" or reading.value("framework") in (None, "none"):
        return
    bf16, fp16 = reading.settings.get("bf16"), reading.settings.get("fp16")
    if bf16 is not None and as_flag(bf16.value):
        reading.offer("precision", "bf16", bf16.confidence, bf16.origin)
    if fp16 is not None and as_flag(fp16.value):
        reading.offer("precision", "amp-fp16", fp16.confidence, fp16.origin)
    mixed = reading.settings.get("mixed_precision")
    launched = reading.launch.settings.get("mixed_precision")
    written = dtype_of(mixed.value) if mixed is not None else None
    if written is not None and mixed is not None:
        reading.offer("precision", written[0], 0.92, mixed.origin)
    elif launched is not None:
        named = dtype_of(Const(launched.value))
        if named is not None:
            reading.offer("precision", named[0], 0.9, Origin(launched.file, launched.line, "override"))
    elif "accelerate" in reading.settings and "precision" not in reading.facts:
        return  # the user's own default configuration decides
    precision = reading.settings.get("precision")
    if precision is not None:
        text = str(getattr(precision.value, "value", ""))
        found = (
            "bf16"
            if "bf16" in text
            else "amp-fp16"
            if text.startswith("16")
            else "fp32"
            if text.startswith("32")
            else None
        )
        reading.offer("precision", found, 0.92, precision.origin)
        if isinstance(precision.value, Unknown):
            return
    for call in reading.calls:
        _precision_call(reading, call)
    if "precision" in reading.facts or "deepspeed_unseen" in reading.settings:
        return
    told = reading.told_by_flag(_HALF_FLAGS)
    if told is not None and told[0] is not False:
        # The program's own switch for its own utilities; where its value is not known, neither is the precision.
        if told[0]:
            reading.offer("precision", "bf16" if told[1].startswith(("bf16", "use_bf16")) else "amp-fp16", 0.7, told[2])
        return
    if training.unseen or not (reading.followed or reading.launch.entry is None):
        return
    if "open_trainer" in reading.settings:
        return
    if any(c.name == "autocast" and _undecided(c.argument(None, "enabled")) for c in reading.calls):
        return
    if "deepspeed" in reading.settings and reading.launch.entry is None:
        reading.offer("precision", "fp32", 0.7, reading.settings["deepspeed"].origin)
    if (reading.complete and (training.call is not None or reading.value("workload_type"))) or "hf" in reading.settings:
        reading.offer("precision", "fp32", 0.8)
    elif reading.launch.entry is not None and training.call is not None:
        reading.offer("precision", "fp32", 0.6)


def _undecided(switch: Val | None) -> bool:
    return switch is not None and as_flag(switch) is None


def _precision_call(reading: Reading, call: Call) -> None:
    if call.name == "autocast":
        switch = call.argument(None, "enabled")
        if as_flag(switch) is False or "Accelerator" in call.path or _undecided(switch):
            return
        device = as_text(call.argument(0, "device_type"))
        dtype = call.argument(1 if "cuda" not in call.path else None, "dtype")
        known = dtype_of(dtype)
        if known is not None:
            assumed = isinstance(dtype, Const) and dtype.assumed
            reading.offer("precision", known[0], 0.85 if known[1] and not assumed else 0.65, call.origin)
        elif dtype is None:
            reading.offer("precision", "bf16" if device == "cpu" else "amp-fp16", 0.85, call.origin)
    elif call.name == "GradScaler":
        if as_flag(call.argument(None, "enabled")) is not False:
            reading.offer("precision", "amp-fp16", 0.7, call.origin)
    elif call.name in ("half", "bfloat16") and isinstance(call.receiver, Obj) and "Module" in call.path:
        reading.offer("precision", "amp-fp16" if call.name == "half" else "bf16", 0.8, call.origin)
    elif call.name in ("FullyShardedDataParallel", "FSDP", "fully_shard"):
        known = dtype_of(call.argument(None, "mixed_precision", "mp_policy"))
        if known is not None:
            reading.offer("precision", known[0], 0.88 if known[1] else 0.6, call.origin)
    elif call.name == "DynamicScale":
        reading.offer("precision", "amp-fp16", 0.7, call.origin)
    elif call.name == "set_global_policy":
        text = as_text(call.argument(0)) or ""
        reading.offer(
            "precision", "bf16" if "bfloat16" in text else "amp-fp16" if "float16" in text else None, 0.9, call.origin
        )
    elif call.name in ("from_pretrained", "from_config", "pipeline") or "Pipeline" in call.path:
        known = dtype_of(call.argument(None, "torch_dtype", "dtype"))
        if known is not None and known[0] != "fp32":
            reading.offer("precision", known[0], 0.75, call.origin)
    elif "dtype" in call.kwargs and reading.value("workload_type") in ("inference", "eval"):
        known = dtype_of(call.kwargs["dtype"])
        if known is not None and known[1] and "deepspeed" in call.path:
            reading.offer("precision", known[0], 0.7, call.origin)


def _activation_checkpointing(reading: Reading, training: Training) -> None:
    setting = reading.settings.get("activation_checkpointing")
    if setting is not None:
        flag = as_flag(setting.value)
        if flag is None and as_text(setting.value):
            flag = True
        if flag is not None:
            reading.offer("activation_checkpointing", flag, 0.9, setting.origin)
            if flag:
                return
    for call in reading.calls:
        if call.name in _RECOMPUTES or call.path.startswith("torch.utils.checkpoint."):
            # Under a condition that nothing decides it may be done or not.
            reading.offer("activation_checkpointing", True, 0.45 if call.guards else 0.88, call.origin)
            return
        if call.path in ("jax.checkpoint", "jax.remat", "flax.linen.remat"):
            reading.offer("activation_checkpointing", True, 0.85, call.origin)
            return
    told = reading.told_by_flag(_RECOMPUTE_FLAGS)
    if told is not None and told[0] is not False:
        if told[0]:
            reading.offer("activation_checkpointing", True, 0.75, told[2])
        return
    if training.unseen or not reading.followed:
        return
    if reading.complete and reading.value("framework") not in (None, "none"):
        reading.offer("activation_checkpointing", False, 0.85 if training.call is not None else 0.75)
    if training.call is None:
        return
    if reading.complete:
        reading.offer("activation_checkpointing", False, 0.85)
    elif reading.launch.entry is not None:
        reading.offer("activation_checkpointing", False, 0.65)
