"""What a job works on: framework, kind of work, task, model, data set, sequence length and image size."""

from __future__ import annotations

import re

from analyzers.source.idioms.models import model_name, trained_model
from analyzers.source.idioms.named import launch_options
from analyzers.source.idioms.optimisation import optimizer_calls
from analyzers.source.idioms.training import Training
from analyzers.source.knowledge.lookup import dataset_entry
from analyzers.source.program.events import Call
from analyzers.source.program.values import Ext, Obj, Origin, Seq, Unknown, Val
from analyzers.source.reading import Reading, as_flag, as_number, as_text, matches

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
    tops: dict[str, Origin] = {}
    for dotted, origin in reading.record.imports.items():
        tops.setdefault(dotted.split(".")[0], origin)
    for call in reading.calls:
        top = call.path.split(".")[0].partition("<")[0]
        if top in _LIGHTNING | _JAX | _TENSORFLOW | _TORCH:
            tops.setdefault(top, call.origin)
    families = (("pytorch-lightning", _LIGHTNING), ("jax", _JAX), ("tensorflow", _TENSORFLOW), ("pytorch", _TORCH))
    present = {name: next((tops[t] for t in sorted(tops) if t in libraries), None) for name, libraries in families}
    used = _optimizer_family(reading)
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
        else:
            reading.offer("workload_type", "train", 0.88, training.call.origin)
        return
    generates = next(
        (c for c in reading.calls if c.name == "generate" or c.path.startswith("transformers.pipeline")), None
    )
    if generates is not None:
        reading.offer("workload_type", "inference", 0.82, generates.origin)
        return
    if any(
        c.name in ("eval", "evaluate", "no_grad", "inference_mode", "from_pretrained", "load_state_dict")
        for c in reading.calls
    ) and (reading.value("framework") not in (None, "none")):
        models = [c for c in reading.calls if "nn.Module<" in c.path or c.name == "from_pretrained"]
        if models:
            reading.offer("workload_type", "eval", 0.75, models[0].origin)
        return
    writes = next(
        (
            c
            for c in reading.calls
            if c.name in ("save_to_disk", "to_csv", "to_parquet", "tofile", "memmap", "push_to_hub")
        ),
        None,
    )
    if reading.complete and (writes is not None or reading.value("framework") == "none"):
        loads = next((c for c in reading.calls if c.name in ("load_dataset", "map")), None)
        if writes is not None or loads is not None:
            reading.offer("workload_type", "preprocess", 0.8, (writes or loads or reading.calls[0]).origin)


def _is_trained(reading: Reading, training: Training, loaded: Call) -> bool:
    """Whether the loaded model is the one that learns, not a frozen helper beside it."""
    model = trained_model(reading, training)
    if not isinstance(model, Obj) or not isinstance(loaded.result, Obj):
        return True
    waiting: list[Val] = [model]
    for _ in range(200):
        if not waiting:
            return False
        value = waiting.pop()
        if value is loaded.result:
            return True
        if isinstance(value, Obj):
            waiting.extend(v for v in value.attrs.values() if isinstance(v, Obj | Seq))
            if isinstance(value.cls, Ext) and value.call is not None:
                waiting.extend(v for v in value.call.args if isinstance(v, Obj))
        elif isinstance(value, Seq):
            waiting.extend(value.items[:20])
    return True


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


# --- data set -----------------------------------------------------------------------------------------------------


def offer_dataset(reading: Reading) -> None:
    """``dataset``: the name under which it is loaded."""
    for call in reading.calls:
        found = _dataset_of(call)
        if found is not None:
            reading.offer("dataset", found[0], found[1], call.origin)
    if "dataset" in reading.facts and reading.facts["dataset"].confidence >= 0.8:
        return
    setting = reading.settings.get("dataset")
    text = _readable_text(setting.value) if setting is not None else None
    if text and setting is not None and text not in ("train", "data", ".", "None"):
        reading.offer("dataset", text, setting.confidence, setting.origin)
    options = launch_options(reading)
    tasks = as_text(options.get("task_list")) or as_text(options.get("tasks"))
    if tasks and reading.launch.entry is None:
        reading.offer("dataset", tasks[:200], 0.7, Origin("launch", 1))


def _readable_text(value: Val) -> str | None:
    if isinstance(value, Seq):
        texts = [t for t in map(as_text, value.items) if t]
        return ", ".join(texts[:6]) or None
    text = as_text(value)
    if text and text.startswith((".", "/", "~")):
        # A place: the last part that is a name (and not a date or a number) tells the data apart.
        parts = [part for part in text.split("/") if re.search(r"[A-Za-z]{3}", part)]
        return parts[-1] if parts else None
    return text.rstrip("/") if text else None


def _dataset_of(call: Call) -> tuple[str, float] | None:
    path, name = call.path, call.name
    if matches(path, ("torchvision.datasets.ImageFolder", "datasets.ImageFolder", "ImageFolder")):
        where = _readable_text(call.args[0]) if call.args else None
        if where is None and call.args and isinstance(call.args[0], Unknown) and call.args[0].detail[:1] == ("text",):
            where = str(call.args[0].detail[1])
        meaningful = re.sub(r"(^|/)(train|val|data|test|\.+)(?=/|$)", "/", where or "").strip("/")
        return (meaningful, 0.7) if meaningful else None
    if "datasets." in path and path.startswith(
        ("torchvision.", "torchtext.", "torchaudio.", "keras.", "tensorflow.keras.")
    ):
        parts = [p for p in path.split("datasets.")[1].split(".") if p not in ("load_data", "mnist()")]
        entry = dataset_entry(parts[0]) if parts else None
        return (entry.name if entry else parts[0], 0.93) if parts else None
    if name == "load_dataset" and path.split(".")[0] in ("datasets", "nlp", "load_dataset"):
        texts = [t for t in map(as_text, call.args[:2]) if t]
        texts = texts or [t for t in (as_text(call.kwargs.get("path")), as_text(call.kwargs.get("name"))) if t]
        if texts and texts[0] not in ("json", "csv", "text", "parquet"):
            return " ".join(texts), 0.9
        return None
    if path.startswith("tensorflow_datasets.") and name in ("load", "builder"):
        text = as_text(call.args[0]) if call.args else None
        return (text.partition(":")[0].partition("/")[0], 0.92) if text else None
    if name == "make" and path.split(".")[0] in ("gym", "gymnasium"):
        text = as_text(call.args[0]) if call.args else None
        return (text, 0.9) if text else None
    if re.match(r"torch\.utils\.data(\.dataset)?\.(Dataset|IterableDataset)<", path):
        return path.partition("<")[2].rstrip(">"), 0.55
    return None


# --- sizes of samples ---------------------------------------------------------------------------------------------

_CROPS = ("RandomResizedCrop", "CenterCrop", "RandomCrop", "Resize")


def offer_sample_sizes(reading: Reading) -> None:
    """``image_size`` for image jobs and ``seq_len`` for text jobs."""
    task = str(reading.value("task") or "")
    if task.startswith("image") or "detection" in task or "segmentation" in task:
        _image_size(reading)
    elif task and not task.startswith(("toy", "reinforcement")):
        setting = reading.number("seq_len")
        if setting is not None and setting[0] > 0:
            reading.offer("seq_len", int(setting[0]), max(0.7, setting[1].confidence), setting[1].origin)


def _image_size(reading: Reading) -> None:
    for crop in _CROPS:
        for call in reading.calls:
            if call.name == crop and "transforms" in call.path:
                value = call.argument(0, "size")
                value = value.items[0] if isinstance(value, Seq) and value.items else value
                number = as_number(value)
                if number is not None and number > 0:
                    reading.offer("image_size", int(number), 0.85, call.origin)
                    return
    setting = reading.number("image_size")
    if setting is not None and 0 < setting[0] < 10_000:
        reading.offer("image_size", int(setting[0]), max(0.7, setting[1].confidence), setting[1].origin)
        return
    entry = dataset_entry(str(reading.value("dataset") or ""))
    if entry is not None and entry.image_size and entry.name not in ("ImageNet", "FakeData"):
        reading.offer("image_size", entry.image_size, 0.8, None, "looked_up")


# --- task ---------------------------------------------------------------------------------------------------------

_HEADS = (
    ("ForSequenceClassification", "text-classification"), ("ForCausalLM", "language-modeling"), ("LMHeadModel",
    "language-modeling"),
    ("ForMaskedLM", "language-modeling"), ("ForTokenClassification", "token-classification"),
    ("ForQuestionAnswering", "question-answering"), ("ForImageClassification", "image-classification"),
    ("ForSpeechSeq2Seq", "speech-recognition"), ("ForCTC", "speech-recognition"), ("ForObjectDetection",
    "object-detection"),
    ("ForSemanticSegmentation", "semantic-segmentation"), ("SentenceTransformer", "sentence-embedding"),
)  # fmt: skip


def offer_task(reading: Reading, training: Training) -> None:
    """``task`` from the model's head, the data set and the losses."""
    workload = reading.value("workload_type")
    if workload == "inference" and any(c.name == "generate" for c in reading.calls):
        reading.offer("task", "text-generation", 0.75)
        return
    if workload == "preprocess":
        if any(
            "tiktoken" in c.path or "Tokenizer" in c.path or c.name.startswith(("encode", "tokenize"))
            for c in reading.calls
        ):
            reading.offer("task", "tokenization", 0.75)
        return
    if any(c.name == "make" and c.path.split(".")[0] in ("gym", "gymnasium") for c in reading.calls):
        reading.offer("task", "reinforcement-learning", 0.9)
        return
    data = dataset_entry(str(reading.value("dataset") or ""))
    adversarial = _adversarial(reading)
    if adversarial is not None:
        reading.offer("task", "image-generation (GAN)", 0.75, adversarial)
        return
    tuned = next((c for c in reading.calls if c.name in ("SFTTrainer", "SFTConfig", "DPOTrainer")), None)
    if tuned is not None:
        reading.offer("task", "supervised-finetuning (LLM)", 0.85, tuned.origin)
        return
    for call in reading.calls:
        for head, task in _HEADS:
            if head in call.path and call.name in ("from_pretrained", "from_config", head):
                reading.offer("task", task, 0.85, call.origin)
    _seq2seq(reading)
    if "task" not in reading.facts:
        for call in reading.calls:
            for value in call.args[:2]:
                if isinstance(value, Ext) and "CausalLM" in value.path:
                    name = "supervised-finetuning (LLM)" if workload == "finetune" else "language-modeling"
                    reading.offer("task", name, 0.7, call.origin)
    if data is not None and data.task is not None and "task" not in reading.facts and _fits(reading, data.task):
        reading.offer("task", data.task, 0.82, None, "looked_up")
    if "task" not in reading.facts:
        _task_by_name(reading)


_NEEDED = {
    "image-classification": r"cross_?entropy|nll_?loss|keras|tensorflow|accuracy|argmax",
    "object-detection": r"detect|rcnn|yolo|detr|retinanet|\bssd",
    "semantic-segmentation": r"segment|deeplab|unet|\bfcn|cross_?entropy",
}


def _fits(reading: Reading, task: str) -> bool:
    """Whether what the program does with a data set is what the set is usually for."""
    needed = _NEEDED.get(task)
    return needed is None or any(re.search(needed, call.path, re.IGNORECASE) for call in reading.calls)


def _seq2seq(reading: Reading) -> None:
    for call in reading.calls:
        if re.search(r"T5ForConditional|ForSeq2SeqLM|BartForConditional|PegasusFor", call.path):
            data = dataset_entry(str(reading.value("dataset") or ""))
            names = " ".join(reading.machine.modules).lower() + " " + str(reading.value("dataset") or "").lower()
            if (data is not None and data.task == "summarization") or "summar" in names:
                reading.offer("task", "summarization", 0.8, call.origin)
            elif "translat" in names or "wmt" in names:
                reading.offer("task", "translation", 0.75, call.origin)
            return


def _adversarial(reading: Reading) -> Origin | None:
    makers = [c for c in reading.calls if re.search(r"<\w*(Generator|Discriminator|netG|netD)\w*>", c.path)]
    kinds = {"G" if "Gen" in c.path or "netG" in c.path else "D" for c in makers}
    return makers[0].origin if kinds == {"G", "D"} and len(optimizer_calls(reading)) >= 2 else None


def _task_by_name(reading: Reading) -> None:
    """Names of models, losses and programs that leave little doubt."""
    names = " ".join([
        str(reading.value("model", 0.4) or ""), reading.launch.program,
                          *(c.path.partition("<")[2] for c in reading.calls if "<" in c.path)
    ])  # fmt: skip
    losses = {c.name for c in reading.calls if "loss" in c.name.lower()}
    vocabulary = any(c.name == "Embedding" for c in reading.calls) or "vocab" in reading.settings
    if re.search(
        r"\b(pretrain_)?(gpt|llama|mamba|nanogpt|TransformerModel|RNNModel|minGPT)", names, re.IGNORECASE
    ) and (vocabulary or reading.words_read_unseen):
        reading.offer("task", "language-modeling", 0.8)
    elif re.search(r"eval_?harness|lm_eval", reading.launch.program):
        reading.offer("task", "lm-evaluation", 0.8)
    elif _fits(reading, "image-classification") and re.search(
        r"\b(resnet|vgg|densenet|efficientnet|mobilenet|vit_|convnext|alexnet)", names, re.IGNORECASE
    ):
        reading.offer("task", "image-classification", 0.72)
    elif losses & {"MSELoss", "mse_loss", "L1Loss"} and not vocabulary:
        reading.offer("task", "regression", 0.5)
    elif not vocabulary and any(re.search(r"Linear<|nn\.Linear$", c.path) for c in reading.calls) and _toy(reading):
        reading.offer("task", "toy-regression", 0.55)


def _toy(reading: Reading) -> bool:
    return any(c.path in ("torch.rand", "torch.randn") for c in reading.calls) and not any(
        "vision" in c.path or "Conv" in c.path for c in reading.calls
    )


def offer_model(reading: Reading, training: Training) -> None:
    """``model``."""
    found = model_name(reading, training)
    if found is not None:
        reading.offer("model", found[0], found[1], found[2])
