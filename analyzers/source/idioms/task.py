"""The task: what the model's head, the data set, the losses and the program's own words say it learns to do."""

from __future__ import annotations

import re

from analyzers.source.idioms.methods import learning_method, task_by_kind
from analyzers.source.idioms.optimisation import optimizer_calls
from analyzers.source.idioms.training import Training
from analyzers.source.knowledge.lookup import dataset_entry
from analyzers.source.program.values import Ext, Origin
from analyzers.source.reading import Reading

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
        _preprocessing(reading)
        return
    played = next((c for c in reading.calls if c.path.split(".")[0] in _PLAYGROUNDS), None)
    if played is not None or _PLAYGROUNDS & {dotted.split(".")[0] for dotted in reading.record.imports}:
        reading.offer("task", "reinforcement-learning", 0.9, played.origin if played is not None else None)
        return
    method = learning_method(reading)
    if method is not None:
        reading.offer("task", method[0], method[1], method[2])
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
    if workload == "finetune" and _instructs(reading):
        for call in reading.calls:
            if "CausalLM" in call.path or any(isinstance(v, Ext) and "CausalLM" in v.path for v in call.args[:2]):
                reading.offer("task", "supervised-finetuning (LLM)", 0.87, call.origin)
                break
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
        by_kind = task_by_kind(reading)
        if by_kind is not None:
            reading.offer("task", by_kind[0], by_kind[1], by_kind[2])
    if "task" not in reading.facts:
        _task_by_name(reading)


_PLAYGROUNDS = frozenset({"gym", "gymnasium", "stable_baselines3", "pettingzoo", "dm_control", "procgen", "envpool"})
_TOKENIZERS = re.compile(r"tiktoken|tokenizers\.|sentencepiece|transformers\.\w*Tokenizer")


def _preprocessing(reading: Reading) -> None:
    tokenizes = any(_TOKENIZERS.search(c.path) for c in reading.calls)
    binary = any(c.name in ("memmap", "tofile", "add_item", "save_to_disk") for c in reading.calls)
    if tokenizes or (binary and any(c.name.startswith(("encode", "tokenize")) for c in reading.calls)):
        reading.offer("task", "tokenization", 0.75)
    elif any(c.path.split(".")[0] in ("openai", "anthropic", "litellm") for c in reading.calls):
        reading.offer("task", "data generation", 0.6)
    else:
        reading.offer("task", "data preprocessing", 0.6)


_INSTRUCTION = re.compile(r"sft|instruct|alpaca|chat|dolly|oasst|assistant|sharegpt|ultrachat", re.IGNORECASE)


def _instructs(reading: Reading) -> bool:
    """Whether a language model is tuned on instructions: adapters, or data or a program that is named for them."""
    words = f"{reading.launch.program} {reading.value('dataset', 0.4) or ''} {' '.join(reading.machine.modules)}"
    return _INSTRUCTION.search(words) is not None or any(
        c.path.startswith("peft.") and c.name in ("LoraConfig", "get_peft_model") for c in reading.calls
    )


_NEEDED = {
    "image-classification": r"cross_?entropy|nll_?loss|keras|tensorflow|accuracy|argmax",
    "object-detection": r"detect|(fast|faster|mask|cascade|keypoint)_?rcnn|yolo|\bdetr|retinanet|\bssd",
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


_ADVERSARIES = ({"G", "D"}, {"generator", "discriminator"}, {"netG", "netD"}, {"gen", "disc"})


def _adversarial(reading: Reading) -> Origin | None:
    makers = [c for c in reading.calls if re.search(r"<\w*(Generator|Discriminator|netG|netD)\w*>", c.path)]
    kinds = {"G" if "Gen" in c.path or "netG" in c.path else "D" for c in makers}
    optimizers = optimizer_calls(reading)
    named = any(pair <= reading.machine.reads.keys() for pair in _ADVERSARIES)
    if named and len(optimizers) >= 2 and any("bce" in c.path.lower() for c in reading.calls):
        return optimizers[0].origin
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
