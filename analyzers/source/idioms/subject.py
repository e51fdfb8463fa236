"""What a job works on: framework, kind of work, task, model, data set, sequence length and image size."""

from __future__ import annotations

import ast
import re

from analyzers.source.idioms.models import holds, is_module_call, model_name, trained_model
from analyzers.source.idioms.named import launch_options
from analyzers.source.idioms.optimisation import optimizer_calls
from analyzers.source.idioms.training import Training, is_optimizer
from analyzers.source.program.events import Call
from analyzers.source.program.values import Const, Ext, Map, Obj, Origin, Unknown
from analyzers.source.reading import Reading, as_flag, as_text

_TORCH = frozenset({"torch", "torchvision", "torchaudio", "transformers", "accelerate", "deepspeed", "timm", "trl",
                   "peft", "fairseq",
                    "megatron", "mmengine", "mmcv", "mmdet", "detectron2", "diffusers", "ignite", "fairscale",
                    "apex", "torchtext",
                    "torch_geometric", "sentence_transformers", "ultralytics", "bitsandbytes", "colossalai",
                    "composer"})  # fmt: skip
_LIGHTNING = frozenset({"lightning", "pytorch_lightning", "lightning_fabric"})
_JAX = frozenset({"jax", "flax", "optax", "haiku", "equinox", "orbax"})
_TENSORFLOW = frozenset({"tensorflow", "keras", "tf_keras", "tf_slim"})


def offer_framework(reading: Reading) -> None:
    """``framework`` from the libraries that the reached modules import."""
    backend = _keras_backend(reading)
    if backend is not None:
        reading.offer("framework", backend[0], 0.9, backend[1])
        return
    tops: dict[str, Origin] = {}
    for dotted, origin in reading.record.imports.items():
        tops.setdefault(dotted.split(".")[0], origin)
    for call in reading.calls:
        top = call.path.split(".")[0].partition("<")[0]
        if top in _LIGHTNING | _JAX | _TENSORFLOW | _TORCH:
            tops.setdefault(top, call.origin)
    families = (("pytorch-lightning", _LIGHTNING), ("jax", _JAX), ("tensorflow", _TENSORFLOW), ("pytorch", _TORCH))
    if not _lightning_runs(reading):
        tops = {("torch" if top in _LIGHTNING else top): origin for top, origin in tops.items()}
    present = {name: next((tops[t] for t in sorted(tops) if t in libraries), None) for name, libraries in families}
    used = _optimizer_family(reading) or _working_family(reading, present)
    if used is not None and present.get(used) is not None and not (used == "pytorch" and present["pytorch-lightning"]):
        reading.offer("framework", used, 0.95, present[used])
        return
    for name, _ in families:
        first = present[name]
        if first is not None:
            several = sum(p is not None for n, p in present.items() if n != "pytorch-lightning") > 1
            reading.offer("framework", name, 0.75 if several and name != "jax" else 0.95, first)
            return
    launchers = set(reading.launch.launchers)
    if launchers & {"torchrun", "deepspeed", "accelerate"}:
        reading.offer("framework", "pytorch", 0.9, Origin("launch", 1))
    elif reading.complete and reading.launch.entry is not None:
        reading.offer("framework", "none", 0.85)


def _optimizer_family(reading: Reading) -> str | None:
    for call in optimizer_calls(reading):
        if call.path.startswith("optax"):
            return "jax"
        if "keras" in call.path or call.path.startswith("tensorflow"):
            return "tensorflow"
        return "pytorch"
    return None


def _lightning_runs(reading: Reading) -> bool:
    """Whether Lightning's trainer runs the loop; its Fabric only launches a loop that is written in PyTorch."""
    paths = [call.path for call in reading.calls if call.path.split(".")[0].partition("<")[0] in _LIGHTNING]
    fabric = any("Fabric" in path or "fabric" in path for path in paths)
    return not fabric or any(re.search(r"Trainer|LightningModule<|LightningCLI", p) for p in paths)


#: Calls that compute or build networks, by family: importing a library for its logger or its files is none.
_WORKING = {
    "pytorch": r"torch\.nn\b|torch\.(randn?|tensor|zeros|ones|cat|stack|matmul|no_grad|inference_mode|autocast)\b|"
    r"torch\.optim|transformers\.\w*Model|timm\.|detectron2\.|diffusers\.",
    "jax": r"jax\.(numpy|jit|grad|random|lax|nn)|flax\.(linen|nnx)|haiku\.",
    "tensorflow": r"(tensorflow\.)?keras\.(layers|models|Model|Sequential|applications)|"
    r"tensorflow\.(nn|data|Variable|GradientTape|function|saved_model|matmul)",
}


def _working_family(reading: Reading, present: dict[str, Origin | None]) -> str | None:
    """The one family, of several that are imported, that does the work."""
    works = {
        name: sum(re.match(pattern, call.path.lstrip("?().")) is not None for call in reading.calls)
        for name, pattern in _WORKING.items()
        if present.get(name) is not None
    }
    if not works or present.get("pytorch-lightning"):
        return None
    first, second = (*sorted(works, key=lambda name: -works[name]), None)[:2]
    others = works[second] if second is not None else 0
    # One that is there for its data pipeline or its export formats is met a few times beside the one that works.
    return first if works[first or ""] > 4 * others else None


#: Where Keras runs on something else than TensorFlow, its own variable says so.
_BACKENDS = {"jax": "jax", "torch": "pytorch", "tensorflow": "tensorflow"}


def _keras_backend(reading: Reading) -> tuple[str, Origin] | None:
    environ = reading.machine.library_values.get("os.environ")
    chosen = environ.items.get("KERAS_BACKEND") if isinstance(environ, Map) else None
    uses_keras = any(dotted.split(".")[0] == "keras" for dotted in reading.record.imports)
    name = _BACKENDS.get(as_text(chosen) or "") if uses_keras else None
    return (name, getattr(chosen, "origin", Origin())) if name is not None else None


def offer_workload(reading: Reading, training: Training) -> None:
    """``workload_type``: train, finetune, eval, inference, preprocess; ``other`` for a smoke run."""
    options = launch_options(reading)
    if reading.launch.entry is None:
        if "inference" in options or re.search(r"eval|harness", reading.launch.program):
            reading.offer(
                "workload_type",
                "eval" if re.search(r"eval", reading.launch.program) else "inference",
                0.8,
                Origin("launch", 1),
            )
        elif re.search(r"finetun|sft", reading.launch.program):
            reading.offer("workload_type", "finetune", 0.7, Origin("launch", 1))
        elif re.search(r"pretrain|train", reading.launch.program):
            reading.offer("workload_type", "train", 0.85, Origin("launch", 1))
        return
    handed_over = reading.handed_over
    if handed_over is not None:
        finetunes = re.search(r"finetun|sft", reading.launch.program) is not None or "finetune" in options
        reading.offer("workload_type", "finetune" if finetunes else "train", 0.8, handed_over.origin)
        return
    quick = reading.settings.get("fast_dev_run")
    if quick is not None and as_flag(quick.value):
        reading.offer("workload_type", "other", 0.6, quick.origin)
        return
    if training.call is not None:
        loaded = pretrained_call(reading)
        if loaded is not None and _is_trained(reading, training, loaded):
            reading.offer("workload_type", "finetune", 0.85, loaded.origin)
        elif (start := _start_weights(reading)) is not None:
            reading.offer("workload_type", "finetune", 0.75, start)
        elif _says_finetune(reading, training.call):
            reading.offer("workload_type", "finetune", 0.7, training.call.origin)
        else:
            reading.offer("workload_type", "train", 0.88, training.call.origin)
        return
    generates = next(
        (c for c in reading.calls if c.name == "generate" or c.path.startswith("transformers.pipeline")), None
    )
    if generates is not None:
        reading.offer("workload_type", "inference", 0.82, generates.origin)
        return
    applied = _applied(reading)
    if applied is not None:
        reading.offer("workload_type", applied[0], applied[1], applied[2])
        return
    writes = next(
        (
            c
            for c in reading.calls
            if c.name in ("save_to_disk", "to_csv", "to_parquet", "tofile", "memmap", "push_to_hub")
        ),
        None,
    )
    prepared = _prepares_data(reading)
    if prepared is not None:
        reading.offer("workload_type", "preprocess", 0.8, prepared)
        if reading.value("framework") != "none":
            reading.open_facts.add("num_gpus")  # a library that was loaded may take one, which it does not need
    if reading.complete and (writes is not None or reading.value("framework") == "none"):
        loads = next((c for c in reading.calls if c.name in ("load_dataset", "map")), None)
        if writes is not None or loads is not None:
            reading.offer("workload_type", "preprocess", 0.8, (writes or loads or reading.calls[0]).origin)


#: Names under which programs keep the weights that a training starts from.
_START_WEIGHTS = (
    "finetune", "finetune_from", "finetune_path", "fine_tune", "pretrained", "pretrained_path", "pretrained_weights",
    "pretrained_model", "pretrained_checkpoint", "pretrained_model_path", "pretrain_path", "pretrain_weights",
    "load_pretrained", "init_checkpoint", "init_weights_from",
)  # fmt: skip


_FINETUNE_PROGRAM = re.compile(r"fine_?-?tun|(^|[/_.-])(lora|qlora|sft|dpo)([/_.-]|$)", re.IGNORECASE)


def _says_finetune(reading: Reading, learning: Call) -> bool:
    """Whether the program, or the file that its training stands in, is called for tuning."""
    places = [reading.launch.program, learning.origin.file]
    return any(_FINETUNE_PROGRAM.search("/".join(place.split("/")[-2:])) for place in places)


def _start_weights(reading: Reading) -> Origin | None:
    """Where the program is told to start from trained weights that it loads itself."""
    loads = any(c.name in ("load_state_dict", "load_weights", "load_url", "load_state_dict_from_url", "load_pretrained")
                for c in reading.calls)  # fmt: skip
    for name in _START_WEIGHTS if loads else ():
        value = reading.machine.reads.get(name)
        if isinstance(value, Const) and value.value not in (None, False, "", 0, "None", "none"):
            return value.origin
        if isinstance(value, Unknown) and value.why == "launch argument":
            return value.origin  # a path that only the shell knows (--finetune $CHECKPOINT)
    return None


_MODEL_MADE = re.compile(
    r"nn\.Module<|\.from_pretrained$|timm\.(models\.)?create_model$|torchvision\.models\.\w+$|torch\.hub\.load$|"
    r"keras\.(models|saving)\.load_model$|onnxruntime\.InferenceSession$|torch\.jit\.load$"
)
_APPLYING = frozenset(
    {"eval", "evaluate", "no_grad", "inference_mode", "from_pretrained", "load_state_dict", "predict"}
)
_MEASURES = re.compile(
    r"accuracy|AverageMeter|f1_?score|precision_recall|roc_auc|confusion|bleu|rouge|perplexity|cross_?entropy|"
    r"(^|\.)\w*loss$|(^|\.)evaluate$|meanAP|mean_average_precision|psnr|ssim|fid|word_error_rate|\bwer\b|topk|top_k",
    re.IGNORECASE,
)
_MAKES = re.compile(
    r"save_image|imsave|imwrite|savez|to_pil|make_grid|write_video|write_wav|wavfile\.write|to_csv|predict$"
)
_EVAL_PROGRAM = re.compile(r"eval|valid|(^|[_/-])tests?([_.-]|$)|bench|score", re.IGNORECASE)
_INFERENCE_PROGRAM = re.compile(
    r"sampl|generat|infer|predict|demo|translat|synthes|chat|serve|caption|transcri|extract|embed|detect|visuali",
    re.IGNORECASE,
)


def _applied(reading: Reading) -> tuple[str, float, Origin] | None:
    """Whether a model that does not learn is measured (``eval``) or used (``inference``)."""
    if reading.value("framework") in (None, "none") or not any(c.name in _APPLYING for c in reading.calls):
        return None
    made = next((c for c in reading.calls if _MODEL_MADE.search(c.path) or is_module_call(c)), None)
    if made is None:
        return None
    program = reading.launch.program.rpartition("/")[2]
    prepares = any(isinstance(c.result, Obj) and is_optimizer(c.result) for c in reading.calls)
    idle = reading.complete and not any(c.name in ("step", "zero_grad") and c.loops for c in reading.calls)
    steps = any(isinstance(n, ast.Attribute) and n.attr == "backward" for _, n in reading.reached())
    if prepares and not steps and not idle:
        return None  # it seems to learn, in a way that was not met; a step that is written out was passed by
    if _EVAL_PROGRAM.search(program):
        return "eval", 0.8, made.origin
    if _INFERENCE_PROGRAM.search(program):
        return "inference", 0.8, made.origin
    if any(_MEASURES.search(c.path) for c in reading.calls):
        return "eval", 0.75, made.origin
    if any(_MAKES.search(c.path) for c in reading.calls):
        return "inference", 0.7, made.origin
    return None


_PREPARING_PROGRAM = re.compile(r"pre_?process|prepar|create|convert|tokeni[sz]e|build|shard|pack", re.IGNORECASE)
_DATA_WRITERS = frozenset(
    {"TFRecordWriter", "ShardWriter", "TarWriter", "ArrayRecordWriter", "MDSWriter", "ParquetWriter", "save", "savez",
     "dump", "save_npz", "memmap", "to_json", "write_table"}
)  # fmt: skip


def _prepares_data(reading: Reading) -> Origin | None:
    """Where a program that builds no model, and is named for it, writes data."""
    named = _PREPARING_PROGRAM.search(reading.launch.program.rpartition("/")[2])
    models = any(_MODEL_MADE.search(c.path) or is_module_call(c) for c in reading.calls)
    if not reading.complete or named is None or models:
        return None
    return next((c.origin for c in reading.calls if c.name in _DATA_WRITERS), None)


def _is_trained(reading: Reading, training: Training, loaded: Call) -> bool:
    """Whether the loaded model is the one that learns, not a frozen helper beside it."""
    model = trained_model(reading, training)
    if isinstance(model, Unknown) and isinstance(loaded.result, Obj):
        return not loaded.guards and any(holds(option, loaded.result) for option in model.options)
    if not isinstance(model, Obj) or not isinstance(loaded.result, Obj):
        return True
    return holds(model, loaded.result)


def pretrained_call(reading: Reading) -> Call | None:
    """A call that loads trained weights to start from."""
    for call in reading.calls:
        owner = call.path.rpartition(".")[0].rpartition(".")[2]
        if call.name == "from_pretrained" and not re.search(
            r"Tokenizer|Processor|Config|FeatureExtractor|Scheduler", owner
        ):
            return call
        if as_flag(call.kwargs.get("pretrained")) is True or isinstance(call.kwargs.get("weights"), Ext):
            return call
        if call.name in ("FastLanguageModel", "create_hf_model", "get_peft_model", "SFTTrainer", "DPOTrainer"):
            return call
    return None


def offer_model(reading: Reading, training: Training) -> None:
    """``model``."""
    found = model_name(reading, training)
    if found is not None:
        reading.offer("model", found[0], found[1], found[2])
