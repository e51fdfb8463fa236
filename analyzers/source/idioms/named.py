"""Common names: what programs, trainers and launchers call the same thing, and collecting it as settings."""

from __future__ import annotations

import re

from analyzers.source.idioms.training import find_training, is_estimator
from analyzers.source.launch.words import UNKNOWN
from analyzers.source.library.configs import config_value, override_value, readable
from analyzers.source.program.events import Call
from analyzers.source.program.values import DIGITS_MAX, Const, Func, Map, Obj, Origin, Seq, Unknown, Val
from analyzers.source.reading import Reading, as_flag, as_text, matches

#: Setting name -> names under which programs keep it, most telling first.
NAMES: dict[str, tuple[str, ...]] = {
    "epochs": ("num_train_epochs", "num_epochs", "max_epochs", "n_epochs", "total_epochs", "train_epochs", "nb_epochs",
               "max_epoch", "epochs", "nepochs", "num_epoch", "epoch_num"),
    "max_steps": ("max_train_steps", "max_steps", "num_train_steps", "train_steps", "total_steps", "max_iters",
                  "train_iters",
                  "max_iter", "num_training_steps", "num_steps", "num_iterations", "total_iterations",
                  "training_steps", "n_steps"),
    "batch_per_device": ("per_device_train_batch_size", "per_device_batch_size", "per_replica_batch_size",
                         "micro_batch_size", "train_micro_batch_size_per_gpu",
                         "per_gpu_train_batch_size", "device_batch_size", "micro_batch_size_per_gpu",
                         "batch_size_per_gpu",
                         "batch_size_per_device"),
    "batch": ("minibatch_size", "mini_batch_size", "train_batch_size", "batch_size", "batchsize", "batch", "bs"),
    "global_batch": ("global_batch_size", "global_train_batch_size", "total_batch_size"),
    "grad_accum": ("gradient_accumulation_steps", "grad_accum_steps", "accumulate_grad_batches",
                   "grad_accumulation_steps",
                   "accum_iter", "grad_accum", "accumulation_steps", "gradient_accumulation", "update_freq",
                   "accum_steps"),
    "lr": ("learning_rate", "lr", "base_lr", "base_learning_rate", "max_lr"),
    "seq_len": ("block_size", "max_seq_length", "max_seq_len", "seq_length", "sequence_length", "seq_len",
                "context_length",
                "max_length", "bptt", "model_max_length", "cutoff_len", "max_source_length", "ctx_len", "n_ctx",
                "input_length", "max_len", "maxlen"),
    "image_size": ("image_size", "img_size", "imagesize", "crop_size", "input_resolution", "resolution",
                   "train_crop_size", "imgsz", "crop"),
    "model": ("model_name_or_path", "pretrained_model_name_or_path", "model_name", "model_id", "base_model", "arch",
              "backbone",
              "model", "model_type"),
    "dataset": ("dataset_name", "dataset", "data_name", "train_file", "dataset_path", "data_path", "task_name",
                "train_data",
                "data_dir", "dataset_id", "data", "dataroot"),
    "optimizer": ("optimizer", "optim", "optimizer_name", "opt"),
}  # fmt: skip
_BY_NAME = {name: setting for setting, names in NAMES.items() for name in names}

#: Switches and values of Megatron-style programs, which are often started from a checkout elsewhere.
_MEGATRON = {
    "micro_batch_size": "batch_per_device", "global_batch_size": "global_batch", "train_iters": "max_steps",
    "train_samples": "train_samples", "lr": "lr", "seq_length": "seq_len", "tensor_model_parallel_size": "tp",
    "pipeline_model_parallel_size": "pp", "num_layers": "layers", "hidden_size": "hidden",
    "num_attention_heads": "heads",
    "padded_vocab_size": "vocab", "pad_vocab_size_to": "vocab", "zero_stage": "zero", "optimizer": "optimizer",
    "rampup_batch_size": "rampup", "fp16": "fp16", "bf16": "bf16", "checkpoint_activations": "activation_checkpointing",
    "recompute_activations": "activation_checkpointing", "recompute_granularity": "activation_checkpointing",
    "deepspeed_activation_checkpointing": "activation_checkpointing", "save": "save", "load": "load",
    "context_parallel_size": "cp", "expert_model_parallel_size": "ep",
}  # fmt: skip
MEGATRON_MARKS = frozenset(
    {"tensor_model_parallel_size", "pipeline_model_parallel_size", "micro_batch_size", "train_samples"}
)


def collect(reading: Reading) -> None:
    """Fill ``reading.settings``, the surest sources first."""
    for call in reading.calls:
        _trainer(reading, call)
    _deepspeed(reading)
    if reading.words_read_unseen:
        _launch_words(reading)
    _read_names(reading)
    _tokenized_length(reading)
    for name, value in reading.record.settings:
        if name == "param_groups.lr":
            reading.set("lr", value, 0.93)


def _tokenized_length(reading: Reading) -> None:
    """What texts are cut to by the function that a data set is mapped with; nothing else calls that function."""
    for call in list(reading.calls):
        mapped = call.argument(0, "function", "transform")
        if call.name not in ("map", "with_transform", "set_transform") or not isinstance(mapped, Func):
            continue
        if not call.path.startswith("datasets."):
            continue
        before = len(reading.calls)
        reading.machine.call(mapped, [Unknown("batch", call.origin)], {}, call.origin)
        for inside in reading.calls[before:]:
            length = inside.kwargs.get("max_length")
            if "okeniz" in inside.path or as_flag(inside.kwargs.get("truncation")):
                reading.set("seq_len", length, 0.85)
        del reading.calls[before:]


def launch_options(reading: Reading) -> dict[str, Val]:
    """The program's own options as the launch command gives them, names normalised."""
    words = reading.launch.arguments
    options: dict[str, Val] = {}
    i = 0
    while i < len(words):
        text = words[i].text
        origin = Origin(words[i].file, words[i].line, "override")
        i += 1
        if not text.startswith("--"):
            continue
        name, equals, value = text[2:].partition("=")
        if not equals:
            following = words[i].text if i < len(words) else "--"
            if following.startswith("--"):
                value = "true"
            else:
                value = following
                i += 1
        known: Val = override_value(value, origin)
        if UNKNOWN in value:
            known = Unknown("launch", origin, detail=("text", value.rpartition(UNKNOWN)[2].strip("/")))
        digits = value.replace("_", "")
        if UNKNOWN not in value and digits.isdecimal():
            known = Unknown("too large", origin) if len(digits) > DIGITS_MAX else Const(int(digits), origin)
        # A repeated option: the last one that is not a placeholder such as -1 counts.
        if not (isinstance(known, Const) and known.value == -1 and name.replace("-", "_") in options):
            options[name.replace("-", "_")] = known
    return options


def _launch_words(reading: Reading) -> None:
    """Without the program's source, its options by their common names."""
    options = launch_options(reading)
    is_megatron = reading.handed_over is not None or len(MEGATRON_MARKS & set(options)) >= 2
    for name, value in options.items():
        if is_megatron and name in _MEGATRON:
            reading.set(_MEGATRON[name], value, 0.9)
        elif name in _BY_NAME and not is_megatron:
            reading.set(_BY_NAME[name], value, 0.65)


def _read_names(reading: Reading) -> None:
    """Values the program reads under a common name: set and used, though we did not see what for."""
    seen = {name.lower(): value for name, value in reading.machine.reads.items()}
    learns = find_training(reading).call is not None
    for setting, names in NAMES.items():
        for position, name in enumerate(names):
            value = seen.get(name)
            if setting in _TEXTS:
                value = reading.machine.told.get(name, value)
                text = as_text(value)
                if text in _BY_NAME or (text and setting == "dataset" and learns and measured_only(reading, text)):
                    continue  # a name for such a thing, or what is only measured on
            if setting == "batch" and (_counts_devices(reading, value) or _is_world(reading, value)):
                continue
            listed = isinstance(value, Seq) and setting == "dataset"
            if listed or (isinstance(value, Const) and value.value is not None):
                # What the launch itself says tells more than what the program calls so on its way.
                given = 0.05 if setting == "dataset" and _is_given(value) else 0.0
                reading.set(setting, value, 0.62 - 0.005 * position + given)


_DEGREE = re.compile(r"degree|parallel|world|shard|mesh|(^|_)(tp|pp|cp|ep|fsdp)(_|$)", re.IGNORECASE)


def _counts_devices(reading: Reading, value: Val | None) -> bool:
    """Whether a number is read under a name for a degree of parallelism as well."""
    return isinstance(value, Const) and any(
        known.value == value.value and known.origin == value.origin and _DEGREE.search(name)
        for name, known in reading.machine.told.items()
    )


def _is_world(reading: Reading, value: Val | None) -> bool:
    """Whether a number was worked out and is the number of processes."""
    if not isinstance(value, Const) or reading.processes in (None, 1):
        return False
    return value.origin.how in ("computed", "literal") and value.value == reading.processes


_TEXTS = ("dataset", "model", "optimizer")
_MEASURED = re.compile(r"(^|_)(val|valid|validation|eval|evaluation|test|dev)(_|$)", re.IGNORECASE)


def measured_only(reading: Reading, text: str) -> bool:
    """Whether the launch gives a text under names for validation or test data only."""
    given = {name: value for name, value in reading.machine.told.items() if value.value == text}
    measured = [value for name, value in given.items() if _MEASURED.search(name)]
    # What a function calls such a path on its way is still the same word of the launch.
    return bool(measured) and all(any(value is other for other in measured) for value in given.values())


def _is_given(value: Val | None) -> bool:
    parts = value.items if isinstance(value, Seq) else [value]
    return any(isinstance(part, Const) and part.origin.how == "override" for part in parts)


# --- trainers -----------------------------------------------------------------------------------------------------

HF_ARGUMENTS = ("TrainingArguments", "Seq2SeqTrainingArguments", "SFTConfig", "DPOConfig", "GRPOConfig", "PPOConfig",
                "RewardConfig", "ORPOConfig", "KTOConfig")  # fmt: skip
_HF = {
    "num_train_epochs": "epochs", "max_steps": "max_steps_hf", "per_device_train_batch_size": "batch_per_device",
    "gradient_accumulation_steps": "grad_accum", "learning_rate": "lr", "fp16": "fp16", "bf16": "bf16",
    "optim": "hf_optimizer",
    "gradient_checkpointing": "activation_checkpointing", "deepspeed": "deepspeed_config", "fsdp": "fsdp",
    "save_strategy": "save_strategy", "load_best_model_at_end": "best_at_end", "max_seq_length": "seq_len",
    "max_length": "seq_len",
}  # fmt: skip
_HF_DEFAULTS: dict[str, bool | int | float | str] = {
    "num_train_epochs": 3, "per_device_train_batch_size": 8, "gradient_accumulation_steps": 1, "learning_rate": 5e-5,
    "fp16": False, "bf16": False, "gradient_checkpointing": False, "save_strategy": "steps", "max_steps": -1,
    "optim": "adamw_torch",
}  # fmt: skip
LIGHTNING_TRAINERS = ("lightning.Trainer", "pytorch_lightning.Trainer", "lightning.pytorch.Trainer",
                      "lightning.pytorch.trainer.Trainer", "pytorch_lightning.trainer.Trainer", "L.Trainer",
                      "pl.Trainer")  # fmt: skip
_LIGHTNING = {
    "max_epochs": "epochs", "max_steps": "max_steps_hf", "accumulate_grad_batches": "grad_accum",
    "precision": "precision",
    "strategy": "strategy", "devices": "devices", "num_nodes": "lightning_nodes", "accelerator": "accelerator",
    "fast_dev_run": "fast_dev_run", "enable_checkpointing": "enable_checkpointing", "gpus": "devices",
    "limit_train_batches": "limit_train_batches", "resume_from_checkpoint": "resume",
}  # fmt: skip


def base_name(path: str) -> str:
    """A call path's library class name: ``transformers.TrainingArguments<Mine>`` -> ``TrainingArguments``."""
    return path.partition("<")[0].rpartition(".")[2]


def _trainer(reading: Reading, call: Call) -> None:
    if base_name(call.path) in HF_ARGUMENTS and call.path[:1] != "<":
        given = dict(call.kwargs)
        for name, setting in _HF.items():
            value = given.get(name)
            if value is None and isinstance(call.result, Obj):
                value = call.result.attrs.get(name)
            if (
                (value is None or (isinstance(value, Const) and value.value is None))
                and name in _HF_DEFAULTS
                and not call.open
            ):
                value = Const(_HF_DEFAULTS[name], Origin(call.origin.file, call.origin.line, "default"))
            reading.set(setting, value, 0.9, call.origin)
        reading.set("hf", Const(True, call.origin), 0.9)
    elif matches(call.path, LIGHTNING_TRAINERS):
        for name, setting in _LIGHTNING.items():
            reading.set(setting, call.kwargs.get(name), 0.9, call.origin)
        if call.open:
            reading.set("open_trainer", Const(True, call.origin), 0.9)
        elif "max_epochs" not in call.kwargs and "max_steps" not in call.kwargs and "fast_dev_run" not in call.kwargs:
            reading.set("epochs", Const(1000, Origin(call.origin.file, call.origin.line, "default")), 0.75)
        reading.set("lightning", Const(True, call.origin), 0.9)
    elif call.name == "Accelerator" and "accelerate" in call.path:
        reading.set("grad_accum", call.kwargs.get("gradient_accumulation_steps"), 0.85, call.origin)
        reading.set("mixed_precision", call.kwargs.get("mixed_precision"), 0.85, call.origin)
        reading.set("accelerate", Const(True, call.origin), 0.9)
        if as_flag(call.kwargs.get("cpu")) is True:
            reading.set("force_cpu", Const(True, call.origin), 0.9)
    elif is_estimator(call):
        _estimator(reading, call)
    elif (
        call.name in ("fit", "fit_generator")
        and ("keras" in call.path or "epochs" in call.kwargs)
        and "sklearn" not in call.path
    ):
        reading.set("epochs", call.argument(3 if "keras" in call.path else None, "epochs"), 0.88, call.origin)
        reading.set("batch", call.argument(2 if "keras" in call.path else None, "batch_size"), 0.85, call.origin)


def _estimator(reading: Reading, call: Call) -> None:
    """What a TensorFlow Estimator was built with, and for how long it is to train."""
    spec = call.argument(1, "train_spec") if call.name == "train_and_evaluate" else None
    told = spec.call if isinstance(spec, Obj) else call
    if told is not None:
        limit = told.argument(None, "max_steps") or told.argument(None, "steps")
        reading.set("max_steps_hf", limit, 0.9, call.origin)
    owner = call.argument(0, "estimator") if call.name == "train_and_evaluate" else call.receiver
    made = owner.call if isinstance(owner, Obj) else None
    if made is not None:
        reading.set("global_batch", made.argument(None, "train_batch_size"), 0.9, made.origin)
        on_tpu = made.argument(None, "use_tpu")
        if on_tpu is not None and as_flag(on_tpu) is not False:
            reading.open_facts.add("num_gpus")


# --- DeepSpeed configuration --------------------------------------------------------------------------------------


def deepspeed_configuration(reading: Reading) -> Map | None:
    """The DeepSpeed configuration that the program or a launcher uses, or None."""
    call = reading.first("deepspeed.initialize")
    config: Val | None = call.argument(8, "config", "config_params") if call is not None else None
    if config is None and call is not None:
        arguments = call.argument(0, "args")
        if isinstance(arguments, Map):
            config = arguments.items.get("deepspeed_config")
    if config is None and "deepspeed_config" in reading.settings:
        config = reading.settings["deepspeed_config"].value
    if config is None:
        config = launch_options(reading).get("deepspeed_config")
    setting = reading.launch.settings.get("deepspeed_config")
    if config is None and setting is not None:
        config = Const(setting.value, Origin(setting.file, setting.line))
    written = as_text(config)
    if written is not None:
        path = readable(reading.machine, written)
        loaded = config_value(reading.machine, path, attr=False) if path is not None else None
        return loaded if isinstance(loaded, Map) else None
    if isinstance(config, Unknown) and reading.machine.tree.overlay:
        # A file name with an unknown part ($SLURM_JOB_ID) that the script itself writes.
        loaded = next((config_value(reading.machine, p, attr=False) for p in reading.machine.tree.overlay), None)
        return loaded if isinstance(loaded, Map) else None
    return config if isinstance(config, Map) else None


def inner(config: Map, *keys: str) -> Val | None:
    """A nested value of a map."""
    value: Val | None = config
    for key in keys:
        value = value.items.get(key) if isinstance(value, Map) else None
    return value


def _deepspeed(reading: Reading) -> None:
    config = deepspeed_configuration(reading)
    if config is None:
        _unseen_deepspeed(reading)
        return
    origin = config.origin
    automatic = {"auto"}
    pairs = {
        "batch_per_device": inner(config, "train_micro_batch_size_per_gpu"),
        "global_batch": inner(config, "train_batch_size"),
        "grad_accum": inner(config, "gradient_accumulation_steps"),
        "optimizer": inner(config, "optimizer", "type"),
        "lr": inner(config, "optimizer", "params", "lr"),
        "zero": inner(config, "zero_optimization", "stage"),
        "fp16": inner(config, "fp16", "enabled"),
        "bf16": inner(config, "bf16", "enabled") or inner(config, "bfloat16", "enabled"),
    }
    for name, value in pairs.items():
        if not (isinstance(value, Const) and value.value in automatic) and not (
            isinstance(value, Const) and isinstance(value.value, str) and value.value.startswith("$")
        ):
            reading.set(name, value, 0.92, origin)
    if "zero" not in reading.settings:
        reading.set("zero", Const(0, origin), 0.8, origin)
    reading.set("deepspeed", Const(True, origin), 0.9, origin)


def _unseen_deepspeed(reading: Reading) -> None:
    """A configuration made by a function that is not in the tree: what it is told is what it will say."""
    call = reading.first("deepspeed.initialize")
    if call is None:
        return
    reading.set("deepspeed", Const(True, call.origin), 0.9, call.origin)
    reading.set("deepspeed_unseen", Const(True, call.origin), 0.9, call.origin)
    config = call.argument(8, "config", "config_params")
    if isinstance(config, Obj) and config.call is not None:
        for name in ("stage", "zero_stage"):
            reading.set("zero", config.call.kwargs.get(name), 0.7, config.call.origin)
        kind = as_text(config.call.kwargs.get("dtype")) or ""
        if kind in ("bf16", "bfloat16", "fp16", "float16"):
            reading.set("bf16" if kind.startswith("b") else "fp16", Const(True, config.call.origin), 0.7)
