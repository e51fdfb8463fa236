"""Programs that train the configurations of benchmarks/gpu_memory.py, written as such programs usually are.

The source reader is given these, so that a prediction can rest on what it finds and on nothing else. They are read,
never run.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

_OPTIMIZERS = {"adamw": "AdamW", "adam": "Adam", "rmsprop": "RMSprop", "adagrad": "Adagrad", "sgd": "SGD"}
_TRAINER_OPTIMIZERS = {"adamw": "adamw_torch", "sgd": "sgd", "rmsprop": "rmsprop", "adagrad": "adagrad"}

_IN_TIMM = {"vit_l_16": "vit_large_patch16_224"}


def program(told: Mapping[str, Any], train: Mapping[str, Any]) -> tuple[dict[str, str], str] | None:
    """Files by name, and the launch command; None for a model that is no published one."""
    if "model_params_approx" in told or "model_shape" in told:
        return None
    gpus = train.get("gpus", 1)
    command = f"torchrun --nproc-per-node {gpus} train.py" if gpus > 1 else "python train.py"
    if "image" in train:
        return {"train.py": _images(str(told["model"]), train)}, command
    files = {"train.py": _text(str(told["model"]), train)}
    if "zero" in train:
        files["ds.json"] = json.dumps({"zero_optimization": {"stage": train["zero"]}, "bf16": {"enabled": True}})
    return files, command


def _images(model: str, train: Mapping[str, Any]) -> str:
    dtype = {"amp-fp16": "torch.float16", "bf16": "torch.bfloat16"}.get(train.get("precision", ""))
    made = f"torchvision.models.{model}(num_classes=1000)"
    if train.get("checkpointing") or model.startswith(("deit", "swin")):  # torchvision's recompute nothing
        made = f'timm.create_model("{_IN_TIMM.get(model, model)}", num_classes=1000)'
    context = f'with torch.autocast("cuda", dtype={dtype}):' if dtype else "if True:"
    more = ", lr=0.1, momentum=0.9" if train["optimizer"] == "sgd" else ", lr=1e-3"
    recompute = "model.set_grad_checkpointing(True)" if train.get("checkpointing") else ""
    freeze = "for p in model.parameters():\n    p.requires_grad = False" if train.get("frozen") else ""
    return f"""
import timm, torch, torchvision
from torch import nn
from torch.utils.data import DataLoader
from torchvision import datasets, transforms

BATCH_SIZE = {train["batch"]}
transform = transforms.Compose([transforms.RandomResizedCrop({train["image"]}), transforms.ToTensor()])
data = datasets.ImageFolder("/data/imagenet/train", transform)
loader = DataLoader(data, batch_size=BATCH_SIZE, shuffle=True, num_workers=8)
model = {made}.cuda()
{recompute}
{freeze}
optimizer = torch.optim.{_OPTIMIZERS[train["optimizer"]]}(model.parameters(){more})
loss_of = nn.CrossEntropyLoss()
for epoch in range(90):
    for images, labels in loader:
        {context}
            loss = loss_of(model(images.cuda()), labels.cuda())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
"""


def _text(model: str, train: Mapping[str, Any]) -> str:
    kind = {"classify": "AutoModelForSequenceClassification", "mask": "AutoModelForMaskedLM"}.get(
        train.get("task", ""), "AutoModelForSeq2SeqLM" if "outputs" in train else "AutoModelForCausalLM"
    )
    options = [f"per_device_train_batch_size={train['batch']}", "num_train_epochs=3", "learning_rate=5e-5"]
    options += {"amp-fp16": ["fp16=True"], "bf16": ["bf16=True"]}.get(train.get("precision", ""), [])
    options += ["gradient_checkpointing=True"] if train.get("checkpointing") else []
    options += [f"gradient_accumulation_steps={train['grad_accum']}"] if "grad_accum" in train else []
    options += ['deepspeed="ds.json"'] if "zero" in train else []
    name = train["optimizer"].partition("_")[0]
    options += [f'optim="{_TRAINER_OPTIMIZERS[name]}"'] if name in _TRAINER_OPTIMIZERS else []
    adapt = ""
    if "frozen" in train:
        adapt = f"""
from peft import LoraConfig, get_peft_model
model = get_peft_model(model, LoraConfig(r={train["frozen"]}, target_modules={train["adapted"]}))
"""
    dtype = ", torch_dtype=torch.bfloat16" if train.get("weights") == "half" or "frozen" in train else ""
    return f"""
import torch
from datasets import load_dataset
from transformers import {kind}, AutoTokenizer, Trainer, TrainingArguments

tokenizer = AutoTokenizer.from_pretrained("{model}")
model = {kind}.from_pretrained("{model}"{dtype})
{adapt}
data = load_dataset("json", data_files="train.json", split="train")
data = data.map(lambda row: tokenizer(row["text"], truncation=True, max_length={train["length"]}, padding="max_length"))
args = TrainingArguments("out", {", ".join(options)})
Trainer(model=model, args=args, train_dataset=data).train()
"""
